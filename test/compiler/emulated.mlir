// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_80},moe-decompose-layer{arch=sm_80},moe.program(moe-choose-backend))' | FileCheck %s

// Activations beside dequantized weights are emulated: 16 bits that codes stand
// for, without scales, from M rows of x and from the f32 rows of the
// intermediate. What follows is a layer whose weights alone are quantized.

// CHECK-LABEL: moe.program @mx_sm_80
// CHECK-SAME: engine = mma_sync
// CHECK-SAME: realization = emulated
// CHECK: %[[X:.*]] = moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x : (tensor<?x136xbf16>) -> tensor<?x136xbf16>
// CHECK: moe.grouped_matmul realization = emulated pairs = 2 {{.*}}lhs_descriptor = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> {{.*}}%[[X]]
// CHECK-SAME: rhs_scale %w13_scale
// CHECK: moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %{{.*}} offsets %offsets : (tensor<?x96xf32>, tensor<9xi32>) -> tensor<?x96xbf16>
moe.layer @mx {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// The scale of scales is stored for all experts, of whichever rank; dynamic ones
// are not.

// CHECK-LABEL: moe.program @nv_sm_80
// CHECK: %a1_second_scale: tensor<8xf32>
// CHECK-SAME: %a2_second_scale: tensor<8xf32>
// CHECK: moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32> %x second_scale %a1_second_scale
// CHECK-SAME: -> tensor<?x136xbf16>
// CHECK: second_scale %a2_second_scale offsets
moe.layer @nv {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.program @two_sm_80
// CHECK-NOT: a1_second_scale
// CHECK: moe.quantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row> %x :
moe.layer @two {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_per_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// One scale of all values, given or computed; in f16 where the input is.

// CHECK-LABEL: moe.program @fixed_sm_80
// CHECK: %a1_scale: tensor<8xf32>
// CHECK: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %a1_scale : (tensor<?x136xf16>, tensor<8xf32>) -> tensor<?x136xf16>
moe.layer @fixed {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.program @maxima_sm_80
// CHECK: %[[AMAX:.*]] = moe.amax
// CHECK: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %x block_rows = 32 amax %[[AMAX]] valid %valid_tokens
// CHECK-SAME: -> tensor<?x136xbf16>
// CHECK-NOT: moe.quantize
moe.layer @maxima {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [-1, -1], scale = f32, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// x that comes quantized has its codes and scales as they are stored, and is
// dequantized by a stage of its own; nothing is stored of its scales.

// CHECK-LABEL: moe.program @given_sm_80
// CHECK-SAME: inputs ["x", "x_scale", "logits",
// CHECK: %x: tensor<?x136xf6E3M2FN>, %x_scale: tensor<?x5xf8E8M0FNU>,
// CHECK: moe.permute
// CHECK-NEXT: %[[G:.*]] = moe.dequantize <f6E3M2FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x scale %x_scale : (tensor<?x136xf6E3M2FN>, tensor<?x5xf8E8M0FNU>) -> tensor<?x136xbf16>
// CHECK-NEXT: moe.grouped_matmul realization = emulated pairs = 2 {{.*}} %[[G]] gather
// CHECK: moe.quantize <f6E3M2FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %{{.*}} offsets
moe.layer @given {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp6_e3m2>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized}

// CHECK-LABEL: moe.program @given_two_sm_80
// CHECK-NOT: a1_second_scale
// CHECK: %x: tensor<?x136xf4E2M1FN>, %x_scale: tensor<?x9xf8E4M3FN>, %x_second_scale: tensor<1xf32>,
// CHECK: %a2_second_scale: tensor<8xf32>
// CHECK: moe.dequantize <{{.*}}> %x scale %x_scale second_scale %x_second_scale :
// CHECK-SAME: -> tensor<?x136xf16>
moe.layer @given_two {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = f16, out_dtype = f16, router_logits_dtype = f16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized}

// CHECK-LABEL: moe.program @given_two_of_row_sm_80
// CHECK: %x_scale: tensor<?x9xf8E4M3FN>, %x_second_scale: tensor<?x1xf32>,
moe.layer @given_two_of_row {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_per_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized}

// CHECK-LABEL: moe.program @given_fixed_sm_80
// CHECK-NOT: a1_scale
// CHECK: %x: tensor<?x136xf8E4M3FN>, %x_scale: tensor<1xf32>,
// CHECK: moe.dequantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %x_scale : (tensor<?x136xf8E4M3FN>, tensor<1xf32>) -> tensor<?x136xbf16>
moe.layer @given_fixed {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized}

// CHECK-LABEL: moe.program @given_batched_sm_80
// CHECK-NOT: moe.permute
// CHECK: moe.batch
// CHECK-NEXT: moe.dequantize <f8E4M3FN, {{.*}}> %x scale %x_scale counts %expert_num_tokens :
moe.layer @given_batched {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", input_quantized}
