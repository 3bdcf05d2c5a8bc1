// RUN: moec-opt --moe-resolve-parallel %s | FileCheck %s
// A second run changes nothing.
// RUN: moec-opt --moe-resolve-parallel --moe-resolve-parallel %s | FileCheck %s

// CHECK-LABEL: moe.layer @alone
// CHECK: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: local_intermediate = 768,
// CHECK-NEXT: w2_bias = true
moe.layer @alone {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Rank 0 alone adds b2.
// CHECK-LABEL: moe.layer @second_of_four
// CHECK: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: local_intermediate = 192,
// CHECK-NEXT: w2_bias = false
moe.layer @second_of_four {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, tp_rank = 1>}

// Without expert parallelism dp and pcp shard like tp.
// CHECK-LABEL: moe.layer @flattened
// CHECK: local_intermediate = 96,
// CHECK: w2_bias = false
moe.layer @flattened {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 2, dp = 2, rank = 5>}

// ep on a single rank spreads nothing.
// CHECK-LABEL: moe.layer @ep_of_one
// CHECK: local_begin = 0,
// CHECK-NEXT: local_experts = 128,
// CHECK-NEXT: local_intermediate = 768,
// CHECK-NEXT: w2_bias = true
moe.layer @ep_of_one {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<ep>}

// The remainder goes to the first ranks: 128 = 26 + 26 + 26 + 25 + 25.
// CHECK-LABEL: moe.layer @linear
// CHECK: local_begin = 78,
// CHECK-NEXT: local_experts = 25,
// CHECK-NEXT: local_intermediate = 768,
// CHECK-NEXT: w2_bias = true
moe.layer @linear {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 5, dp_rank = 3, ep>}

// CHECK-LABEL: moe.layer @round_robin
// CHECK: local_begin = 2,
// CHECK-NEXT: local_experts = 26,
// CHECK-NEXT: local_intermediate = 768,
// CHECK-NEXT: local_stride = 5,
// CHECK-NEXT: w2_bias = true
moe.layer @round_robin {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 5, dp_rank = 2, ep, placement = round_robin>}
