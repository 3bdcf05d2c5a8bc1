// RUN: moec-opt --moe-decompose-layer=arch=sm_90,sm_89,sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-form-kernels %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=backend=unfused --moe-form-kernels %s | FileCheck %s --check-prefix=UNFUSED
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=128" --moe-choose-weight-layout --moe-choose-backend --moe-form-kernels %s | FileCheck %s --check-prefix=FEW
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=512" --moe-choose-weight-layout --moe-choose-backend --moe-form-kernels %s | FileCheck %s --check-prefix=MORE
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=128" --moe-choose-weight-layout --moe-choose-backend=backend=unfused --moe-form-kernels %s | FileCheck %s --check-prefix=APART
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels %s | FileCheck %s --check-prefix=TILES
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend=engine=mma_sync --moe-make-variants --moe-form-kernels %s | FileCheck %s --check-prefix=OTHERS

// The packed weight is interleaved, its scales stay as stored. sm_90 has no
// multiply of e4m3 by mma.sync.
// CHECK: moe.program @l_sm_90 {{.*}} report #moe.report<backend = grouped, engine = mma_sync{{.*}}, realization = dequantized>
// CHECK: %[[P:.*]] = moe.pack %{{.*}} : tensor<8x416x336xf8E4M3FN> -> tensor<8x416x336xf8E4M3FN, #moe.layout<interleave = 8>>
// CHECK: moe.kernel @all_quantize_x kind = quantize fields ["input"] results ["data", "scale"]
// CHECK: moe.kernel @all_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs", "lhs_scale", "rhs_scale"] results ["result"]
// CHECK: moe.kernel @all_quantize_t kind = quantize fields ["input", "offsets"] results ["data", "scale"]
// CHECK: moe.kernel @all_down kind = grouped_matmul fields ["lhs", "tiles", "tile_count", "rhs", "lhs_scale", "rhs_scale"] results ["result"]
// CHECK: moe.launch @all_quantize_x(%x) results ["x_q", "x_scale"]
// CHECK: moe.launch @all_gate_up(%x_q, %rows, %tiles, %tile_count, %[[P]], %x_scale, %w13_scale) results ["t"] : {{.*}} -> tensor<?x208xf32>
// CHECK: moe.launch @all_quantize_t(%t, %offsets) results ["t_q", "t_scale"]
// CHECK: moe.launch @all_down(%t_q, %tiles, %tile_count, %w2, %t_scale, %w2_scale) results ["y_bf16"]
// CHECK: moe.program @l_sm_89
// CHECK-NOT: ], {{(degraded = .*, )?}}realization
// CHECK: moe.variant
// CHECK: moe.program @l_sm_90a {{.*}} report #moe.report<backend = grouped, engine = wgmma
// CHECK-NOT: ], {{(degraded = .*, )?}}realization
// CHECK: moe.variant
// Few tokens are quantized beside routing: behind the permutation in its
// kernel, or in that of routing alone. A CTA of engine wgmma with tiles
// of up to 64 rows computes all columns that share a scale and quantizes them;
// others leave that to a launch.
// FEW: moe.kernel @all_route_permute kind = route_permute fields ["logits", "given_ids", "given_weights", "valid_tokens", "input"] results ["topk_ids", "topk_weights", "rows", "positions", "offsets", "tiles", "tile_count", "counts", "data", "scale"] {
// FEW: moe.permute
// FEW-NEXT: moe.quantize
// FEW-NEXT: moe.yield
// FEW: %x_q, %x_scale = moe.launch @all_route_permute(%logits, %given_ids, %given_weights, %valid_tokens, %x)
// FEW-NEXT: %t = moe.launch @all_gate_up(%x_q,
// FEW-NEXT: moe.launch @all_quantize_t(%t, %offsets) results ["t_q", "t_scale"]
// MORE: moe.kernel @all_route kind = route fields ["logits", "given_ids", "given_weights", "valid_tokens", "input"] results ["topk_ids", "topk_weights", "block_counts", "data", "scale"] {
// MORE: %x_q, %x_scale = moe.launch @all_route(%logits, %given_ids, %given_weights, %valid_tokens, %x)
// MORE-NEXT: moe.launch @all_permute(
// MORE-NEXT: %t = moe.launch @all_gate_up(%x_q,
// TILES: %t_q, %t_scale = moe.launch @up_to_32_gate_up(%x_q, %rows, %tiles, %tile_count, %packed, %x_scale, %w13_scale) results ["t_q", "t_scale"]
// TILES-NEXT: moe.launch @up_to_32_down(%t_q,
// Tiles of 256 weight rows have whole groups.
// TILES: %t_q, %t_scale = moe.launch @up_to_65536_gate_up(
// TILES-NEXT: moe.launch @up_to_65536_down(%t_q,
// OTHERS: moe.launch @up_to_32_quantize_t(%t, %offsets)
// APART: moe.launch @all_permute(
// APART-NEXT: moe.launch @all_quantize_x(%x) results ["x_q", "x_scale"]
// UNFUSED: moe.launch @all_activate(%h, %offsets) results ["t"] : {{.*}} -> tensor<?x208xf32>
// UNFUSED: moe.launch @all_quantize_t(%t, %offsets) results ["t_q", "t_scale"]
moe.layer @l {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}

// CHECK: moe.launch @all_amax_x(%x, %valid_tokens) results ["x_amax"]
// CHECK: moe.launch @all_quantize_x(%x, %x_amax, %valid_tokens) results ["x_q", "x_scale"]
// CHECK: moe.launch @all_amax_t(%t, %offsets) results ["t_amax"]
// CHECK: moe.launch @all_quantize_t(%t, %t_amax, %offsets) results ["t_q", "t_scale"]
moe.layer @dynamic {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}

// Scales that are given: of x beside routing, of t in the epilogue.
// FEW-LABEL: moe.program @given_sm_90a
// FEW: moe.kernel @all_route_permute kind = route_permute fields ["logits", "given_ids", "given_weights", "valid_tokens", "input", "static_scale"]
// FEW: moe.kernel @all_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs", "lhs_scale", "rhs_scale", "static_scale"] results ["data", "scale"] {
// FEW: moe.activate
// FEW-NEXT: moe.quantize
// FEW-NEXT: moe.yield
// FEW: %t_q, %t_scale = moe.launch @all_gate_up(
// FEW-NEXT: moe.launch @all_down(%t_q,
// CHECK-LABEL: moe.program @given_sm_90a
// CHECK: moe.launch @all_quantize_x(%x, %a1_scale) results ["x_q", "x_scale"]
// CHECK-NEXT: %t_q, %t_scale = moe.launch @all_gate_up(
// CHECK-NEXT: moe.launch @all_down(%t_q,
// APART-LABEL: moe.program @given_sm_90a
// APART: moe.launch @all_quantize_t(%t, %a2_scale, %offsets)
moe.layer @given {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}
