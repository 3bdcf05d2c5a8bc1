// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync --moe-make-variants %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync --moe-make-variants --moe-make-variants %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-make-variants %s | FileCheck %s --check-prefix=WGMMA
// RUN: moec-opt "--moe-decompose-layer=arch=sm_90a max-tokens=200" --moe-choose-backend --moe-make-variants %s | FileCheck %s --check-prefix=SHORT
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync "--moe-make-variants=ranges=200-512-64-0,60000-65536-64-0,20-40-32-16,40-60-64-0,500-700-64-0,41-50-16-0,600-65537-64-0" %s | FileCheck %s --check-prefix=GIVEN

// A sixteenth of the pairs goes to each expert: 8 rows an expert at 128 tokens.
// CHECK-LABEL: moe.program @many_sm_90a
// CHECK: moe.pack
// CHECK-NOT: moe.pack
// CHECK: moe.variant @up_to_128 tokens[1, 128]
// CHECK: moe.permute experts = 128 tile_rows = 16 block_tokens = 0
// CHECK: moe.variant @up_to_512 tokens[129, 512]
// CHECK: moe.permute experts = 128 tile_rows = 64 block_tokens = 0
// CHECK: moe.variant @up_to_65536 tokens[513, 65536]
// CHECK: moe.permute experts = 128 tile_rows = 128 block_tokens = 0
// CHECK-NOT: moe.variant

// wgmma pays for the rows that a tile has, so its largest tiles are larger, and
// those of an expert alike. Without an engine that was asked for, the first
// tokens have one of their own. Measured rows cut the range of the largest tiles.
// WGMMA-LABEL: moe.program @many_sm_90a
// WGMMA: moe.variant @up_to_4 tokens[1, 4] engine "gemv" {
// WGMMA: moe.permute experts = 128 tile_rows = 4 block_tokens = 0
// WGMMA: moe.variant @up_to_128 tokens[5, 128] {
// WGMMA: tile_rows = 64
// WGMMA: moe.variant @up_to_724 tokens[129, 724] {
// WGMMA: moe.permute experts = 128 tile_rows = 192 row_step = 16 block_tokens = 0
// WGMMA: moe.variant @up_to_1448 tokens[725, 1448] tuned {
// WGMMA: moe.permute experts = 128 tile_rows = 128 block_tokens = 0
// WGMMA: moe.variant @up_to_2048 tokens[1449, 2048] {
// WGMMA: moe.permute experts = 128 tile_rows = 192 row_step = 16 block_tokens = 0
// WGMMA: moe.variant @up_to_65536 tokens[2049, 65536]
// WGMMA: moe.permute experts = 128 tile_rows = 256 row_step = 16 block_tokens = 0

// Ranges of an input come in any order. Those that overlap an earlier one, or
// end after the last token count, are left out.
// GIVEN-LABEL: moe.program @many_sm_90a
// GIVEN: moe.variant @up_to_19 tokens[1, 19] {
// GIVEN: moe.variant @up_to_40 tokens[20, 40] tuned {
// GIVEN: moe.permute experts = 128 tile_rows = 32 row_step = 16
// GIVEN: moe.variant @up_to_50 tokens[41, 50] tuned {
// GIVEN: moe.permute experts = 128 tile_rows = 16 block_tokens
// GIVEN: moe.variant @up_to_128 tokens[51, 128] {
// GIVEN: moe.variant @up_to_199 tokens[129, 199] {
// GIVEN: moe.variant @up_to_512 tokens[200, 512] tuned {
// GIVEN: moe.variant @up_to_59999 tokens[513, 59999] {
// GIVEN: moe.variant @up_to_65536 tokens[60000, 65536] tuned {
// GIVEN-LABEL: moe.program @few_sm_90a

// SHORT-LABEL: moe.program @many_sm_90a
// SHORT: moe.variant @up_to_4 tokens[1, 4] engine "gemv"
// SHORT: moe.variant @up_to_128 tokens[5, 128]
// SHORT: moe.variant @up_to_200 tokens[129, 200]
// SHORT-NOT: moe.variant
moe.layer @many {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// A quarter goes to each; the range of 128-row tiles begins at 128 tokens, up to
// which one CTA may route.
// CHECK-LABEL: moe.program @few_sm_90a
// CHECK: moe.variant @up_to_32 tokens[1, 32]
// CHECK: tile_rows = 16
// CHECK: moe.variant @up_to_128 tokens[33, 128]
// CHECK: tile_rows = 64
// CHECK: moe.variant @up_to_65536 tokens[129, 65536]
// CHECK: tile_rows = 128
// CHECK-NOT: moe.variant
// WGMMA-LABEL: moe.program @few_sm_90a
// WGMMA: moe.variant @up_to_512 tokens[129, 512]
// WGMMA: tile_rows = 192
// WGMMA: tile_rows = 256
// SHORT-LABEL: moe.program @few_sm_90a
moe.layer @few {
  num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 8, w2_bias = true}

// Partial sums that outgrow the L2 by far, and rows that fit in the shared
// memory of 132 SMs: those GPUs have two ranges more.
// CHECK-LABEL: moe.program @slices_sm_90a
// CHECK-NOT: multiprocessors
// WGMMA-LABEL: moe.program @slices_sm_90a
// WGMMA: moe.variant @slices_up_to_4096 tokens[3077, 4096] multiprocessors 132 {
// WGMMA: moe.permute experts = 256 tile_rows = 128 {{.*}}tensor<9xi32>
// WGMMA: moe.variant @slices_up_to_8192 tokens[4097, 8192] multiprocessors 132 {
// WGMMA: moe.variant @up_to_65536 tokens[257, 65536] {
// WGMMA: moe.permute experts = 256 tile_rows = 128 {{.*}}tensor<9xi32>
// WGMMA-NOT: moe.variant
moe.layer @slices {
  num_experts = 256, top_k = 8, hidden_size = 7168, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 256, local_begin = 0, local_experts = 256, w2_bias = true}

// What is added to the sums, or where they may not depend on the token count,
// is not for slices; nor is a part of the experts, or few columns.
// WGMMA-LABEL: moe.program @no_slices_sm_90a
// WGMMA-NOT: multiprocessors
moe.layer @no_slices {
  num_experts = 256, top_k = 8, hidden_size = 7168, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, residual,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 256, local_begin = 0, local_experts = 256, w2_bias = true}

// Operands of 8 bits have totals beside their sums: half as many rows. Unpacked
// for each row of x, they are dot products for one token alone.
// CHECK-LABEL: moe.program @bytes_sm_90a
// WGMMA-LABEL: moe.program @bytes_sm_90a
// WGMMA: moe.variant @up_to_1 tokens[1, 1] engine "gemv"
// WGMMA: tile_rows = 32
// More than 8 rows an expert in the mean: tiles have 256 weight rows.
// WGMMA: moe.variant @up_to_65536 tokens[129, 65536]
// WGMMA: moe.permute experts = 128 tile_rows = 128 block_tokens = 0
// WGMMA-NOT: moe.variant
moe.layer @bytes {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// 64 pairs at most: three tokens of 20 experts.
// CHECK-LABEL: moe.program @greedy_sm_90a
// WGMMA-LABEL: moe.program @greedy_sm_90a
// WGMMA: moe.variant @up_to_3 tokens[1, 3] engine "gemv"
moe.layer @greedy {
  num_experts = 64, top_k = 20, hidden_size = 1024, intermediate_size = 512, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 512, local_begin = 0, local_experts = 64, w2_bias = true}

// Four rows of the intermediate fit into shared memory, and eight do not; then
// not even those of one token.
// CHECK-LABEL: moe.program @wide_sm_90a
// WGMMA-LABEL: moe.program @wide_sm_90a
// WGMMA: moe.variant @up_to_2 tokens[1, 2] engine "gemv"
moe.layer @wide {
  num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 14336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 14336, local_begin = 0, local_experts = 8, w2_bias = true}

// CHECK-LABEL: moe.program @too_wide_sm_90a
// WGMMA-LABEL: moe.program @too_wide_sm_90a
// WGMMA-SAME: <backend = grouped, engine = gemv, realization = native, computed = w16a16, code = "shared_memory", reason = "engine 'gemv' keeps a token's rows and the prefetched weights in shared memory, of which a CTA on sm_90a has 232448 bytes">
// WGMMA-NOT: gemv
// WGMMA: moe.variant @up_to_32 tokens[1, 32] {
moe.layer @too_wide {
  num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 57344, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 57344, local_begin = 0, local_experts = 8, w2_bias = true}

// One variant and its tiles serve all tokens alike.
// CHECK-LABEL: moe.program @alike_sm_90a
// CHECK: moe.variant @up_to_65536 tokens[1, 65536] {
// CHECK: tile_rows = 128
// CHECK-NOT: moe.variant
// WGMMA-LABEL: moe.program @alike_sm_90a
// WGMMA-SAME: code = "option_not_supported", reason = "engine 'gemv' does not do option 'batch_invariant'"
// WGMMA: moe.variant @up_to_65536 tokens[1, 65536] {
// WGMMA: tile_rows = 256
// WGMMA-NOT: moe.variant
moe.layer @alike {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, batch_invariant,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// The places of the weights of all experts do not fit 32 bits.
// CHECK-LABEL: moe.program @huge_sm_90a
// WGMMA-LABEL: moe.program @huge_sm_90a
// WGMMA-SAME: engine 'gemv' counts the 16-byte pieces of a weight in 32 bits: those of all experts are 137438953472 bytes, and below 68719476736 are possible
// WGMMA-NOT: engine "gemv" {
moe.layer @huge {
  num_experts = 1024, top_k = 8, hidden_size = 8192, intermediate_size = 4096, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 4096, local_begin = 0, local_experts = 1024, w2_bias = true}
