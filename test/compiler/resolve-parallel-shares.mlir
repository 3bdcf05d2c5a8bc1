// RUN: moec-opt --moe-resolve-parallel %s | FileCheck %s
// A second run changes nothing.
// RUN: moec-opt --moe-resolve-parallel --moe-resolve-parallel %s | FileCheck %s

// One layer serves ranks whose shares have equal sizes: here all.

// CHECK-LABEL: moe.layer @equal {
// CHECK: parallel = #moe.parallel<tp = 2, dp = 2, ep>
// CHECK-NEXT: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: ranks = array<i64: 0, 1, 2, 3>,
// CHECK-NEXT: w2_bias = true,
// CHECK-NOT: moe.share_of
moe.layer @equal {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, ranks = array<i64: 0, 1, 2, 3>}

// Ranks of tensor parallelism too, though one alone adds b2.

// CHECK-LABEL: moe.layer @columns {
// CHECK: intermediate_size_per_partition = 24,
// CHECK: ranks = array<i64: 0, 1, 2, 3>,
// CHECK-NEXT: w2_bias = true,
moe.layer @columns {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4>, ranks = array<i64: 0, 1, 2, 3>}

// 7 = 2 + 2 + 2 + 1: two sizes, a layer each. The rank in `parallel` is the
// first of each.

// CHECK-LABEL: moe.layer @uneven_share0 {
// CHECK: parallel = #moe.parallel<dp = 4, ep>
// CHECK-NEXT: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 0,
// CHECK-NEXT: local_experts = 2,
// CHECK-NEXT: ranks = array<i64: 0, 1, 2>,
// CHECK: moe.share_of = "uneven"
// CHECK-LABEL: moe.layer @uneven_share1 {
// CHECK: parallel = #moe.parallel<dp = 4, dp_rank = 3, ep>
// CHECK-NEXT: intermediate_size_per_partition = 96,
// CHECK-NEXT: local_begin = 6,
// CHECK-NEXT: local_experts = 1,
// CHECK-NEXT: ranks = array<i64: 3>,
// CHECK: moe.share_of = "uneven"
moe.layer @uneven {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: 0, 1, 2, 3>}

// Columns that are dealt out in blocks of 128, of which the last is cut: three
// sizes.

// CHECK-LABEL: moe.layer @cut_share0 {
// CHECK: intermediate_size_per_partition = 256,
// CHECK: ranks = array<i64: 0>,
// CHECK-NEXT: w2_bias = true,
// CHECK-LABEL: moe.layer @cut_share1 {
// CHECK: parallel = #moe.parallel<tp = 3, tp_rank = 1>
// CHECK: intermediate_size_per_partition = 128,
// CHECK: ranks = array<i64: 1>,
// CHECK-NEXT: w2_bias = false,
// CHECK: moe.first_column = 256
// CHECK-LABEL: moe.layer @cut_share2 {
// CHECK: intermediate_size_per_partition = 40,
// CHECK: ranks = array<i64: 2>,
// CHECK-NEXT: w2_bias = false,
// CHECK: moe.first_column = 384
moe.layer @cut {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 424, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 3>, ranks = array<i64: 0, 1, 2>}

// Three blocks for four ranks: two share the first, and each lies inside a
// block.

// CHECK-LABEL: moe.layer @blocks_share0 {
// CHECK: intermediate_size_per_partition = 64,
// CHECK: ranks = array<i64: 0, 1, 3>,
// CHECK-LABEL: moe.layer @blocks_share1 {
// CHECK: intermediate_size_per_partition = 128,
// CHECK: ranks = array<i64: 2>,
// CHECK: moe.first_column = 128
moe.layer @blocks {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 320, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4>, ranks = array<i64: 0, 1, 2, 3>}

// Of the eight ranks those of the last block have half of its 64 columns.

// CHECK-LABEL: moe.layer @narrow_share0 {
// CHECK: intermediate_size_per_partition = 48,
// CHECK: ranks = array<i64: 0, 1, 3, 4>,
// CHECK-LABEL: moe.layer @narrow_share1 {
// CHECK: intermediate_size_per_partition = 32,
// CHECK: ranks = array<i64: 2, 5, 6, 7>,
// CHECK: moe.first_column = 96
moe.layer @narrow {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 320, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 8>, ranks = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>}

// Some ranks of a layout.

// CHECK-LABEL: moe.layer @some {
// CHECK: parallel = #moe.parallel<dp = 4, dp_rank = 1, ep>
// CHECK: local_begin = 2,
// CHECK: ranks = array<i64: 1, 2>,
moe.layer @some {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, dp_rank = 1, ep>, ranks = array<i64: 1, 2>}
