// RUN: moec-opt --moe-resolve-parallel %s | FileCheck %s
// A second run changes nothing.
// RUN: moec-opt --moe-resolve-parallel --moe-resolve-parallel %s | FileCheck %s

// CHECK-LABEL: moe.layer @alone
// CHECK: intermediate_size_per_partition = 768,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: w2_bias = true
moe.layer @alone {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Rank 0 alone adds b2.
// CHECK-LABEL: moe.layer @second_of_four
// CHECK: intermediate_size_per_partition = 192,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: w2_bias = false
moe.layer @second_of_four {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, tp_rank = 1>}

// Without expert parallelism dp and pcp shard like tp.
// CHECK-LABEL: moe.layer @flattened
// CHECK: intermediate_size_per_partition = 96,
// CHECK: w2_bias = false
moe.layer @flattened {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 2, dp = 2, rank = 5>}

// The ranks of pcp follow each other within one of dp.
// CHECK-LABEL: moe.layer @second_of_dp
// CHECK: intermediate_size_per_partition = 768,
// CHECK-NEXT: local_begin = 96,
// CHECK-NEXT: local_experts = 16,
moe.layer @second_of_dp {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 4, pcp_rank = 2, dp = 2, dp_rank = 1, ep>}

// ep on a single rank spreads nothing.
// CHECK-LABEL: moe.layer @ep_of_one
// CHECK: intermediate_size_per_partition = 768,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: w2_bias = true
moe.layer @ep_of_one {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<ep>}

// The remainder goes to the first ranks: 128 = 26 + 26 + 26 + 25 + 25.
// CHECK-LABEL: moe.layer @linear
// CHECK: intermediate_size_per_partition = 768,
// CHECK-NEXT: local_begin = 78,
// CHECK-NEXT: local_experts = 25,
// CHECK-NEXT: w2_bias = true
moe.layer @linear {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 5, dp_rank = 3, ep>}

// CHECK-LABEL: moe.layer @round_robin
// CHECK: intermediate_size_per_partition = 768,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 26,
// CHECK-NEXT: local_stride = 5,
// CHECK-NEXT: w2_bias = true
moe.layer @round_robin {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 5, dp_rank = 2, ep, placement = round_robin>}

// Every rank of some layouts. The remainder goes to the first ranks.

// CHECK-LABEL: moe.layer @e5_ep3_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e5_ep3_rank0 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 0, ep>}

// CHECK-LABEL: moe.layer @e5_ep3_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e5_ep3_rank1 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 1, ep>}

// CHECK-LABEL: moe.layer @e5_ep3_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e5_ep3_rank2 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 2, ep>}

// CHECK-LABEL: moe.layer @e8_ep4_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e8_ep4_rank0 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 0, ep>}

// CHECK-LABEL: moe.layer @e8_ep4_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e8_ep4_rank1 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 1, ep>}

// CHECK-LABEL: moe.layer @e8_ep4_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e8_ep4_rank2 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 2, ep>}

// CHECK-LABEL: moe.layer @e8_ep4_rank3 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e8_ep4_rank3 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 3, ep>}

// CHECK-LABEL: moe.layer @e7_ep4_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e7_ep4_rank0 {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 0, ep>}

// CHECK-LABEL: moe.layer @e7_ep4_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e7_ep4_rank1 {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 1, ep>}

// CHECK-LABEL: moe.layer @e7_ep4_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e7_ep4_rank2 {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 2, ep>}

// CHECK-LABEL: moe.layer @e7_ep4_rank3 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e7_ep4_rank3 {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, rank = 3, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank0 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 0, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank1 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 1, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 3,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank2 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 2, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank3 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank3 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 3, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank4 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 5,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank4 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 4, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank5 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank5 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 5, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank6 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 7,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank6 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 6, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank7 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 8,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank7 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 7, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank8 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 9,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank8 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 8, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank9 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 10,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank9 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 9, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank10 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 11,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank10 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 10, ep>}

// CHECK-LABEL: moe.layer @e13_ep12_rank11 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 12,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e13_ep12_rank11 {num_experts = 13, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 3, dp = 2, rank = 11, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank0 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank0 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 0, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank1 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 1,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank1 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 1, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank2 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 2,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank2 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 2, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank3 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 3,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank3 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 3, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank4 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 4,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank4 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 4, ep>}

// CHECK-LABEL: moe.layer @e6_ep6_rank5 {
// CHECK: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 5,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: w2_bias = true
moe.layer @e6_ep6_rank5 {num_experts = 6, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 6, rank = 5, ep>}

// The same layouts without ep: shards of every expert, and b2 once.

// CHECK-LABEL: moe.layer @e5_tp3_rank0 {
// CHECK: intermediate_size_per_partition = 32,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 5,
// CHECK-NEXT: w2_bias = true
moe.layer @e5_tp3_rank0 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 0>}

// CHECK-LABEL: moe.layer @e5_tp3_rank1 {
// CHECK: intermediate_size_per_partition = 32,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 5,
// CHECK-NEXT: w2_bias = false
moe.layer @e5_tp3_rank1 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 1>}

// CHECK-LABEL: moe.layer @e5_tp3_rank2 {
// CHECK: intermediate_size_per_partition = 32,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 5,
// CHECK-NEXT: w2_bias = false
moe.layer @e5_tp3_rank2 {num_experts = 5, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3, rank = 2>}

// CHECK-LABEL: moe.layer @e8_tp4_rank0 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = true
moe.layer @e8_tp4_rank0 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 0>}

// CHECK-LABEL: moe.layer @e8_tp4_rank1 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false
moe.layer @e8_tp4_rank1 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 1>}

// CHECK-LABEL: moe.layer @e8_tp4_rank2 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false
moe.layer @e8_tp4_rank2 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 2>}

// CHECK-LABEL: moe.layer @e8_tp4_rank3 {
// CHECK: intermediate_size_per_partition = 24,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 8,
// CHECK-NEXT: w2_bias = false
moe.layer @e8_tp4_rank3 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, rank = 3>}

// Replicas count as experts: 8 experts with 4 of them again are spread over 10
// ranks.

// CHECK-LABEL: moe.layer @replicas_rank1 {
// CHECK: local_begin = 2,
// CHECK-NEXT: local_experts = 2,
moe.layer @replicas_rank1 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 10, dp_rank = 1, ep>, num_redundant_experts = 4, enable_eplb}
