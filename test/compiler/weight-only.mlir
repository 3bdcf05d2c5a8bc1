// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_90a},moe-decompose-layer{arch=sm_90a},moe.program(moe-choose-backend,moe-choose-weight-layout))' | FileCheck %s

// Weights alone are quantized: their scales, scales of scales and zero points
// are the layer's inputs and the matmuls' operands, and the packed codes keep
// their type. Engines that never convert weights are no candidates.

// CHECK-LABEL: moe.program @nvfp4_sm_90a
// CHECK-SAME: engine = mma_sync
// CHECK-SAME: candidates = [<backend = grouped, engine = wgmma_rs, realization = dequantized, computed = w4a16, code = "size_not_supported"
// CHECK-SAME: ], degraded = {{.*}}, realization = dequantized
// CHECK: %w13: tensor<8x192x128xf4E2M1FN>
// CHECK-SAME: %w2: tensor<8x128x96xf4E2M1FN>
// CHECK-SAME: %w13_scale: tensor<8x192x8xf8E4M3FN>
// CHECK-SAME: %w2_scale: tensor<8x128x6xf8E4M3FN>
// CHECK-SAME: %w13_second_scale: tensor<8x2xf32>
// CHECK-SAME: %w2_second_scale: tensor<8x1xf32>
// CHECK: moe.pack %w13 : tensor<8x192x128xf4E2M1FN> -> tensor<8x192x128xf4E2M1FN, #moe.layout<interleave = 8>>
// CHECK: moe.grouped_matmul realization = dequantized pairs = 2
// CHECK-SAME: rhs_scale %w13_scale rhs_second_scale %w13_second_scale
// CHECK: moe.grouped_matmul realization = dequantized rhs_descriptor = {{.*}} %t
// CHECK-SAME: rhs_scale %w2_scale rhs_second_scale %w2_second_scale
moe.layer @nvfp4 {num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Other groups and types than those of the scheme, spelled out; rows of 96 end
// within a group of 64.

// CHECK-LABEL: moe.program @int4_sm_90a
// CHECK: %w13_scale: tensor<8x96x2xf16>
// CHECK-SAME: %w2_scale: tensor<8x128x2xf16>
// CHECK-SAME: %w13_zero_point: tensor<8x96x2xi8>
// CHECK-SAME: %w2_zero_point: tensor<8x128x2xi8>
// CHECK-NOT: moe.pack
// CHECK: rhs_scale %w13_scale rhs_zero_point %w13_zero_point
moe.layer @int4 {num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 96, in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <i4, group = [1, 64], scale = f16, zero_point = i8>, w2 = <i4, group = [1, 64], scale = f16, zero_point = i8>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>}
