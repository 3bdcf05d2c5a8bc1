// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync --moe-make-variants %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync --moe-make-variants --moe-make-variants %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-make-variants %s | FileCheck %s --check-prefix=WGMMA
// RUN: moec-opt "--moe-decompose-layer=arch=sm_90a max-tokens=200" --moe-choose-backend --moe-make-variants %s | FileCheck %s --check-prefix=SHORT

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
// those of an expert alike.
// WGMMA-LABEL: moe.program @many_sm_90a
// WGMMA: tile_rows = 16
// WGMMA: moe.permute experts = 128 tile_rows = 64 block_tokens = 0
// WGMMA: moe.variant @up_to_2048 tokens[513, 2048]
// WGMMA: moe.permute experts = 128 tile_rows = 192 row_step = 16 block_tokens = 0
// WGMMA: moe.variant @up_to_65536 tokens[2049, 65536]
// WGMMA: moe.permute experts = 128 tile_rows = 256 row_step = 16 block_tokens = 0

// SHORT-LABEL: moe.program @many_sm_90a
// SHORT: moe.variant @up_to_128 tokens[1, 128]
// SHORT: moe.variant @up_to_200 tokens[129, 200]
// SHORT-NOT: moe.variant
moe.layer @many {
  experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, local_intermediate = 768, local_begin = 0, local_experts = 128, w2_bias = true}

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
  experts = 8, top_k = 2, hidden = 4096, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  local_intermediate = 768, local_begin = 0, local_experts = 8, w2_bias = true}

// Operands of 8 bits have totals beside their sums: half as many rows.
// CHECK-LABEL: moe.program @bytes_sm_90a
// WGMMA-LABEL: moe.program @bytes_sm_90a
// WGMMA: tile_rows = 16
// WGMMA: tile_rows = 64
// WGMMA: moe.variant @up_to_65536 tokens[513, 65536]
// WGMMA: moe.permute experts = 128 tile_rows = 128 block_tokens = 0
// WGMMA-NOT: moe.variant
moe.layer @bytes {
  experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  local_intermediate = 768, local_begin = 0, local_experts = 128, w2_bias = true}
