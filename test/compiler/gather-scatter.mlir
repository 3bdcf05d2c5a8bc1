// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=1024 emit=stages" %s | FileCheck %s --check-prefix=STAGES
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=1024" %s | FileCheck %s

// Codes and scales of a token move, and ids and weights of its experts. The
// rank routes and quantizes its own tokens; behind the gather all is given.

// STAGES-LABEL: moe.program @blocks_sm_90a
// STAGES: reason = "engine 'gemv' quantizes x itself, and stage 'dispatch' sends it quantized"
// STAGES: moe.variant @up_to_1024
// STAGES-NEXT: %[[I:.*]], %[[W:.*]] = moe.route <renormalize> top_k = 2 %{{.*}} given(%{{.*}}, %{{.*}}) valid
// STAGES-NEXT: moe.count experts = 8 block_tokens = 0 local = 2 %[[I]]
// STAGES-NEXT: %[[Q:.*]], %[[S:.*]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x
// STAGES-NEXT: %[[RX:.*]], %[[RS:.*]], %[[RI:.*]], %[[RW:.*]] = moe.dispatch ranks = 2 stride = 2 %[[Q]] scales %[[S]] ids %[[I]] weights %[[W]]
// STAGES-NEXT: %[[I2:.*]], %[[W2:.*]] = moe.route <custom> top_k = 2 experts = 8 given(%[[RI]], %[[RW]])
// STAGES: moe.grouped_matmul pairs = 2 {{.*}}
// STAGES: %[[OUT:.*]] = moe.combine %{{.*}}, %{{.*}}, %[[W2]]
// STAGES-NEXT: %[[SUM:.*]] = moe.finalize ranks = 2 stride = 2 reduce = 2 %[[OUT]]
// STAGES-NEXT: moe.return %[[SUM]] outputs ["out"] optional %[[I]], %[[W]], %{{.*}} as ["ids", "weights", "counts"]

// Collectives are entries of the launch list; what they leave has its place in
// the workspace. Kernels in front of the gather are of own tokens.

// CHECK-LABEL: moe.program @blocks_sm_90a
// CHECK: moe.kernel @up_to_32_route_own kind = route
// CHECK: plan #moe.plan<grid = "ceildiv(own_tokens, 16) + ceildiv(own_tokens * 2, 32)"
// CHECK: moe.kernel @up_to_32_route_permute kind = route_permute
// CHECK: moe.variant @up_to_32 tokens[1, 32]
// CHECK-SAME: #moe.region<"own_ids", offset = "{{[^"]*}}", bytes = "own_tokens * 8", first = 0, last = 1>
// CHECK-SAME: #moe.region<"received_x", offset = "{{[^"]*}}", bytes = "tokens * 256", first = 1, last = 4>
// CHECK-SAME: #moe.region<"partial", offset = "{{[^"]*}}", bytes = "tokens * 512", first = 5, last = 6>
// CHECK-SAME: #moe.region<"scattered", offset = "{{[^"]*}}", bytes = "own_tokens * 512", first = 6, last = 7>
// CHECK: moe.launch @up_to_32_route_own
// CHECK-NEXT: moe.collective all_gather ranks = 2 stride = 2(%x_q, %x_scale, %own_ids, %own_weights) results ["received_x", "received_scale", "received_ids", "received_weights"]
// CHECK: moe.launch @up_to_32_combine
// CHECK-NEXT: moe.collective reduce_scatter ranks = 2 stride = 2(%partial) results ["scattered"]
// CHECK-NEXT: moe.collective all_reduce ranks = 2(%scattered) results ["out"]
// CHECK-NEXT: moe.return %out outputs ["out"]
moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, all_to_all = "gather_scatter"}

// A static scale covers all experts, so it is every rank's and does not move.
// STAGES-LABEL: moe.program @static_sm_90a
// STAGES: reason = "engine 'gemv' quantizes x itself, and stage 'dispatch' sends it quantized"
// STAGES: %[[Q:.*]], %[[S:.*]] = moe.quantize {{.*}} %x scale %a1_scale
// STAGES: moe.dispatch ranks = 4 %[[Q]] ids
// STAGES: moe.grouped_matmul {{.*}} lhs_scale %[[S]]
// CHECK-LABEL: moe.program @static_sm_90a
moe.layer @static {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "gather_scatter"}

// x that comes quantized moves as it comes. Products of x and its weight are
// made behind.
// STAGES-LABEL: moe.program @given_sm_90a
// STAGES: moe.dispatch ranks = 2 %x scales %x_scale ids
// CHECK-LABEL: moe.program @given_sm_90a
moe.layer @given {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", input_quantized}
// STAGES-LABEL: moe.program @weighed_sm_90a
// STAGES: %[[RX:.*]], %[[RI:.*]], %[[RW:.*]] = moe.dispatch ranks = 2 %x ids
// STAGES: %{{.*}}, %[[W:.*]] = moe.route <custom>
// STAGES: moe.quantize {{.*}} %[[RX]] weights %[[W]]
// CHECK-LABEL: moe.program @weighed_sm_90a
moe.layer @weighed {num_experts = 8, top_k = 1, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", apply_router_weight_on_input}

// Ranks with the same tokens sum alone, and keep the path of a few tokens.
// STAGES-LABEL: moe.program @shards_sm_90a
// STAGES: moe.variant @up_to_{{.*}} engine "gemv"
// STAGES-NOT: moe.dispatch
// STAGES: moe.finalize ranks = 1 reduce = 2
// CHECK-LABEL: moe.program @shards_sm_90a
// CHECK: moe.launch @{{.*}}_down_combine({{.*}}results ["partial"]
// CHECK-NEXT: moe.collective all_reduce ranks = 2(%partial) results ["out"]
moe.layer @shards {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, all_to_all = "gather_scatter"}

// A few tokens of all ranks have two kernels behind the gather, which route what
// came.
// STAGES-LABEL: moe.program @few_sm_90a
// CHECK-LABEL: moe.program @few_sm_90a
// CHECK: moe.kernel @up_to_4_route_own kind = route
// CHECK: moe.kernel @up_to_4_route_gate_up kind = route_gate_up
// CHECK: moe.kernel @up_to_4_down_combine kind = down_combine
// CHECK: moe.variant @up_to_4 tokens[1, 4] engine "gemv"
// CHECK: moe.launch @up_to_4_route_own
// CHECK-NEXT: moe.collective all_gather ranks = 4(%x, %own_ids, %own_weights) results ["received_x", "received_ids", "received_weights"]
// CHECK-NEXT: moe.launch @up_to_4_route_gate_up(%received_ids, %received_weights, %received_x, %{{.*}}) results ["counts", "t"]
// CHECK-NEXT: moe.launch @up_to_4_down_combine(%received_ids, %received_weights, %t, %{{.*}}) results ["partial"]
// CHECK-NEXT: moe.collective reduce_scatter ranks = 4(%partial) results ["out"]
moe.layer @few {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "gather_scatter"}

// Each rank brings a token at least: more ranks than tokens, or tokens whose
// rows fit shared memory.
// STAGES-LABEL: moe.program @many_sm_90a
// STAGES: reason = "engine 'gemv' supports 4 tokens at most, and 8 ranks have one token each"
// CHECK-LABEL: moe.program @many_sm_90a
// CHECK-NOT: engine "gemv"
moe.layer @many {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 8, ep>, all_to_all = "gather_scatter"}
// STAGES-LABEL: moe.program @wide_sm_90a
// STAGES: reason = "engine 'gemv' supports 2 tokens at most, and 4 ranks have one token each"
// CHECK-LABEL: moe.program @wide_sm_90a
// CHECK-NOT: engine "gemv"
moe.layer @wide {num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 14336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "gather_scatter"}

// x is converted before it moves.
// STAGES-LABEL: moe.program @converted_sm_90a
// STAGES: reason = "engine 'gemv' multiplies x as it comes, and does not convert f16 to bf16"
// CHECK-LABEL: moe.program @converted_sm_90a
moe.layer @converted {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter"}
