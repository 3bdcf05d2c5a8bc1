// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_80},moe-decompose-layer{arch=sm_80},moe-choose-backend)' | FileCheck %s

// Activations beside dequantized weights are emulated: 16 bits that codes stand
// for, without scales, from M rows of x and from the f32 rows of the
// intermediate. What follows is a layer whose weights alone are quantized.

// CHECK-LABEL: moe.program @mx_sm_80
// CHECK-SAME: engine = mma_sync
// CHECK-SAME: realization = emulated
// CHECK: %[[X:.*]] = moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x : (tensor<?x136xbf16>) -> tensor<?x136xbf16>
// CHECK: moe.grouped_matmul top_k = 2 %[[X]]
// CHECK-SAME: rhs_scale %w13_scale
// CHECK: moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %{{.*}} offsets %offsets : (tensor<?x96xf32>, tensor<9xi32>) -> tensor<?x96xbf16>
moe.layer @mx {experts = 8, top_k = 2, hidden = 136, intermediate = 96, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<mxfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// The scale of scales is stored for all experts, of whichever rank; dynamic ones
// are not.

// CHECK-LABEL: moe.program @nv_sm_80
// CHECK: %a1_second_scale: tensor<8xf32>
// CHECK-SAME: %a2_second_scale: tensor<8xf32>
// CHECK: moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32> %x second_scale %a1_second_scale
// CHECK-SAME: -> tensor<?x136xbf16>
// CHECK: second_scale %a2_second_scale offsets
moe.layer @nv {experts = 8, top_k = 2, hidden = 136, intermediate = 96, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.program @two_sm_80
// CHECK-NOT: a1_second_scale
// CHECK: moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_token> %x :
moe.layer @two {experts = 8, top_k = 2, hidden = 136, intermediate = 96, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<nvfp4_per_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// One scale of all values, given or computed; in f16 where the input is.

// CHECK-LABEL: moe.program @fixed_sm_80
// CHECK: %a1_scale: tensor<8xf32>
// CHECK: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %a1_scale : (tensor<?x136xf16>, tensor<8xf32>) -> tensor<?x136xf16>
moe.layer @fixed {experts = 8, top_k = 2, hidden = 136, intermediate = 96, input_type = f16, output_type = f16, logits_type = f16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.program @maxima_sm_80
// CHECK: %[[AMAX:.*]] = moe.amax
// CHECK: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %x block_rows = 32 amax %[[AMAX]] valid %valid_tokens
// CHECK-SAME: -> tensor<?x136xbf16>
// CHECK-NOT: moe.quantize
moe.layer @maxima {experts = 8, top_k = 2, hidden = 136, intermediate = 96, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [-1, -1], scale = f32, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
