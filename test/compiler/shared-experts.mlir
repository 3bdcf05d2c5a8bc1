// RUN: moec-opt %s --moe-resolve-parallel --moe-check-target=arch=sm_90a --moe-decompose-layer="arch=sm_90a max-tokens=64" -split-input-file | FileCheck %s

// Shared experts as wide as the others are rows of their weights.
// CHECK-LABEL: moe.program @rows_sm_90a
// CHECK-NOT: moe.shared_rows
// CHECK: moe.route {{.*}} shared = 2
moe.layer @rows {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, n_shared_experts = 2}

// -----

// Those of another width are one MLP, whose columns the ranks share.
// CHECK: shared_intermediate_size_per_partition = 96
// CHECK-LABEL: moe.program @wide_sm_90a
// CHECK-SAME: "shared_gate"
// CHECK-SAME: "shared_w13", "shared_w2"]
// CHECK: %shared_w13: tensor<1x192x256xbf16>, %shared_w2: tensor<1x256x96xbf16>
// CHECK: %[[ROUTED:out[_0-9]*]] = moe.combine
// CHECK: %[[TILES:[a-z_0-9]+]], %[[COUNT:[a-z_0-9]+]], %[[OFFSETS:[a-z_0-9]+]], %[[POSITIONS:[a-z_0-9]+]], %[[WEIGHTS:[a-z_0-9]+]] = moe.shared_rows tile_rows = 0 valid %{{.*}} gate %{{.*}}
// CHECK: %[[H:[a-z_0-9]+]] = moe.grouped_matmul gate_up = "gate_first" %{{.*}} tiles(%[[TILES]], %[[COUNT]]), %shared_w13
// CHECK: %[[T:[a-z_0-9]+]] = moe.activate <silu> %[[H]] offsets %[[OFFSETS]]
// CHECK: %[[Y:[a-z_0-9]+]] = moe.grouped_matmul %[[T]] tiles(%[[TILES]], %[[COUNT]]), %shared_w2
// CHECK: %[[OUT:[a-z_0-9]+]] = moe.combine %[[Y]], %[[POSITIONS]], %[[WEIGHTS]] residual %[[ROUTED]]
// CHECK: moe.return %[[OUT]] outputs ["out"]
moe.layer @wide {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, n_shared_experts = 2, shared_intermediate_size = 96, shared_expert_gate}

// -----

// So are those of experts that are spread over ranks. Ranks with the same tokens
// add their parts before the sum.
// CHECK: shared_intermediate_size_per_partition = 32
// CHECK-LABEL: moe.program @spread_sm_90a
// CHECK: moe.combine
// CHECK-NOT: moe.finalize
// CHECK: moe.shared_rows
// CHECK: %[[PARTIAL:[a-z_0-9]+]] = moe.combine
// CHECK: moe.finalize ranks = 1 reduce = 2 %[[PARTIAL]]
moe.layer @spread {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, ep>, n_shared_experts = 1, all_to_all = "gather_scatter"}

// -----

// Where tokens of other ranks come, the MLP takes this rank's behind the sum,
// and x as it was quantized before it moved.
// CHECK: shared_intermediate_size_per_partition = 128
// CHECK-LABEL: moe.program @own_sm_90a
// CHECK: %[[Q:[a-z_0-9]+]], %[[S:[a-z_0-9]+]] = moe.quantize
// CHECK: moe.dispatch ranks = 2 %[[Q]]
// CHECK: %[[SUM:[a-z_0-9]+]] = moe.finalize ranks = 2
// CHECK: moe.shared_rows
// CHECK: moe.grouped_matmul {{.*}} %[[Q]] tiles
// CHECK-SAME: lhs_scale %[[S]]
// CHECK: moe.combine {{.*}} residual %[[SUM]]
moe.layer @own {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, n_shared_experts = 1, all_to_all = "gather_scatter"}

// -----

// Of both kinds of ranks, those with the same tokens sum last.
// CHECK: shared_intermediate_size_per_partition = 32
// CHECK-LABEL: moe.program @both_sm_90a
// CHECK: %[[SUM:[a-z_0-9]+]] = moe.finalize ranks = 2 stride = 2
// CHECK: moe.shared_rows
// CHECK: %[[PARTIAL:[a-z_0-9]+]] = moe.combine {{.*}} residual %[[SUM]]
// CHECK: moe.finalize ranks = 1 reduce = 2 %[[PARTIAL]]
moe.layer @both {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, n_shared_experts = 1, all_to_all = "gather_scatter"}

// -----

// Static scales of x are stored for the MLP, too.
// CHECK-LABEL: moe.program @static_sm_90a
// CHECK: moe.shared_rows
// CHECK: moe.quantize {{.*}} offsets
moe.layer @static {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 128}
