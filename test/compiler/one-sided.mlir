// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=1024 emit=stages" %s | FileCheck %s --check-prefix=STAGES
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=1024" %s | FileCheck %s

// As a gather, but that kernels write into the windows of other ranks: tokens
// to the ranks of their experts, and sums back.

// STAGES-LABEL: moe.program @blocks_sm_90a
// STAGES: reason = "engine 'gemv' quantizes x itself, and stage 'dispatch' sends it quantized"
// STAGES: moe.variant @up_to_1024
// STAGES-NEXT: %[[I:.*]], %[[W:.*]] = moe.route <renormalize> top_k = 2 %{{.*}} given(%{{.*}}, %{{.*}}) valid
// STAGES-NEXT: moe.count experts = 8 block_tokens = 0 local = 2 %[[I]]
// STAGES-NEXT: %[[Q:.*]], %[[S:.*]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x
// STAGES-NEXT: %[[RX:.*]], %[[RS:.*]], %[[RI:.*]], %[[RW:.*]] = moe.dispatch ranks = 4 one_sided experts = 8 %[[Q]] scales %[[S]] ids %[[I]] weights %[[W]]
// STAGES-NEXT: %[[I2:.*]], %[[W2:.*]] = moe.route <custom> top_k = 2 experts = 8 given(%[[RI]], %[[RW]])
// STAGES: moe.grouped_matmul pairs = 2 {{.*}}
// STAGES: %[[SUM:.*]] = moe.combine %{{.*}}, %{{.*}}, %[[W2]]
// STAGES-NEXT: %[[BACK:.*]] = moe.send_back ranks = 4 experts = 8 %[[SUM]] ids %[[RI]] : (tensor<?x256xbf16>, tensor<?x2xi32>) -> tensor<?x2x256xbf16>
// STAGES-NEXT: %[[OUT:.*]] = moe.finalize ranks = 4 one_sided experts = 8 %[[BACK]] ids %[[I]]
// STAGES-NEXT: moe.return %[[OUT]] outputs ["out"] optional %[[I]], %[[W]], %{{.*}} as ["ids", "weights", "counts"]

// What others write lies in the window, and not in the workspace.

// CHECK-LABEL: moe.program @blocks_sm_90a
// CHECK: moe.kernel @up_to_32_dispatch kind = dispatch schedule #moe.block_schedule<threads = 512, programmatic>
// CHECK-NEXT: plan #moe.plan<grid = "min(ceildiv(own_tokens, 16), sm_count)"
// CHECK: moe.kernel @up_to_32_finalize kind = finalize schedule #moe.combine_schedule<columns = 256, threads = 32, programmatic>
// CHECK-NEXT: plan #moe.plan<grid = "own_tokens", early = true, column_blocks = 1
// CHECK: moe.variant @up_to_32 tokens[1, 32]
// CHECK-SAME: #moe.region<"own_ids", offset = "{{[^"]*}}", bytes = "own_tokens * 8", first = 0, last = {{[0-9]+}}>
// CHECK-NOT: #moe.region<"received_x"
// CHECK-NOT: #moe.region<"back"
// CHECK: moe.launch @up_to_32_route_own
// CHECK-NEXT: moe.launch @up_to_32_dispatch(%x_q, %x_scale, %own_ids, %own_weights) results ["received_x", "received_scale", "received_ids", "received_weights"]
// CHECK: moe.launch @{{.*}}finalize(%back, %own_ids) results ["out"]
// CHECK-NEXT: moe.return %out outputs ["out"]
moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, sp = 2, ep>, all_to_all = "one_sided"}

// Where ranks share each expert, all own each token.
// STAGES-LABEL: moe.program @shards_sm_90a
// STAGES: moe.dispatch ranks = 2 one_sided %x ids
// STAGES: moe.send_back ranks = 2 %{{.*}} -> tensor<?x2x256xbf16>
// STAGES: moe.finalize ranks = 2 one_sided %
// CHECK-LABEL: moe.program @shards_sm_90a
moe.layer @shards {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2>, all_to_all = "one_sided"}
