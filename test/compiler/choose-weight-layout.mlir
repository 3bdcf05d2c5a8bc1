// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-weight-layout %s | FileCheck %s

// Packed once, outside of the variant; w2 is read as stored.
// CHECK-LABEL: moe.program @gated_sm_90a
// CHECK: ^bb0({{.*}}%[[W13:[a-z0-9_]+]]: tensor<128x1536x2048xbf16>, %[[W2:.*]]: tensor<128x2048x768xbf16>):
// CHECK-NEXT: %[[P:.*]] = moe.pack %[[W13]] : tensor<128x1536x2048xbf16> -> tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>
// CHECK-NEXT: moe.variant
// CHECK: moe.grouped_matmul pairs = 8 {{.*}}, %[[P]] :
// CHECK: moe.activate <silu> interleave = 8
// CHECK: moe.grouped_matmul {{.*}}, %[[W2]] :
moe.layer @gated {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// CHECK-LABEL: moe.program @plain_sm_90a
// CHECK-NOT: moe.pack
// CHECK: moe.activate <gelu_no_mul> %
moe.layer @plain {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<gelu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// The order of the rows as stored is the layout's; experts' own numbers are
// weights that the activation reads.
// CHECK-LABEL: moe.program @stored_sm_90a
// CHECK: moe.pack %{{.*}} : tensor<128x1536x2048xbf16> -> tensor<128x1536x2048xbf16, #moe.layout<interleave = 8, gate_up_order = interleaved>>
// CHECK: moe.activate <swigluoai, per_expert> interleave = 8 %{{.*}} offsets %{{.*}} numbers(%{{.*}}, %{{.*}}, %{{.*}}) : ({{.*}}, tensor<128xf32>, tensor<128xf32>, tensor<128xf32>)
moe.layer @stored {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<swigluoai, per_expert>, parallel = #moe.parallel<>, gate_up_order = "interleaved", intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// Powers of two that multiply sums become f32.
// CHECK-LABEL: moe.program @powers_sm_90a
// CHECK: moe.pack %w13 :
// CHECK: %[[S13:.*]] = moe.pack %w13_scale : tensor<8x4x3xf8E8M0FNU> -> tensor<8x4x3xf32, #moe.layout<>>
// CHECK: %[[S2:.*]] = moe.pack %w2_scale : tensor<8x3x2xf8E8M0FNU> -> tensor<8x3x2xf32, #moe.layout<>>
// CHECK: moe.quantize <f8E4M3FN, group = [1, 128], scale = f8E8M0FNU, dynamic> %x : (tensor<?x336xbf16>) -> (tensor<?x336xf8E4M3FN>, tensor<?x3xf32>)
// CHECK: rhs_scale %[[S13]]
// CHECK: rhs_scale %[[S2]]
moe.layer @powers {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block_ue8m0>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}

// What a checkpoint stores in another order than rows is packed, for whatever
// reads it.
// CHECK-LABEL: moe.program @gptq_sm_90a
// CHECK: %w13: tensor<8x192x128xi4, #moe.layout<stored = gptq>>, %w2: tensor<8x128x96xi4, #moe.layout<stored = gptq>>, %w13_scale: tensor<8x192x4xbf16, #moe.layout<stored = gptq>>
// CHECK-SAME: %w2_zero_point: tensor<8x128x3xi8, #moe.layout<stored = gptq>>
// CHECK: moe.pack %w13 : tensor<8x192x128xi4, #moe.layout<stored = gptq>> -> tensor<8x192x128xi4, #moe.layout<interleave = 8>>
// CHECK: moe.pack %w2 : tensor<8x128x96xi4, #moe.layout<stored = gptq>> -> tensor<8x128x96xi4, #moe.layout<>>
// CHECK: moe.pack %w13_scale : tensor<8x192x4xbf16, #moe.layout<stored = gptq>> -> tensor<8x192x4xbf16, #moe.layout<>>
// CHECK: moe.pack %w2_zero_point : tensor<8x128x3xi8, #moe.layout<stored = gptq>> -> tensor<8x128x3xi8, #moe.layout<>>
// CHECK: rhs_scale %packed{{.*}} rhs_zero_point %packed
moe.layer @gptq {
  num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 32], scale = bf16, zero_point = i8>, w2 = <i4, group = [1, 32], scale = bf16, zero_point = i8>>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "gptq", intermediate_size_per_partition = 96, local_begin = 0, local_experts = 8, w2_bias = true}

// Codes that are made of floats are written interleaved at once.
// CHECK-LABEL: moe.program @floats_sm_90a
// CHECK: ^bb0(%x: tensor<?x2048xbf16>,{{.*}}%w13: tensor<128x1536x2048xbf16>, %w2: tensor<128x2048x768xbf16>):
// CHECK: %[[W13:.*]], %[[S13:.*]] = moe.quantize_weights <f8E4M3FN, group = [128, 128], scale = f32> parts = 2 %w13 : (tensor<128x1536x2048xbf16>) -> (tensor<128x1536x2048xf8E4M3FN, #moe.layout<interleave = 8>>, tensor<128x12x16xf32>)
// CHECK: %[[W2:.*]], %[[S2:.*]] = moe.quantize_weights <f8E4M3FN, group = [128, 128], scale = f32> parts = 1 %w2 : (tensor<128x2048x768xbf16>) -> (tensor<128x2048x768xf8E4M3FN>, tensor<128x16x6xf32>)
// CHECK-NOT: moe.pack
// CHECK: moe.grouped_matmul {{.*}}, %[[W13]] {{.*}}rhs_scale %[[S13]]
// CHECK: moe.activate <silu> interleave = 8
// CHECK: moe.grouped_matmul {{.*}}, %[[W2]] {{.*}}rhs_scale %[[S2]]
moe.layer @floats {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// Powers of two that multiply sums are kept as f32.
// CHECK-LABEL: moe.program @float_powers_sm_90a
// CHECK: moe.quantize_weights <f8E4M3FN, group = [128, 128], scale = f8E8M0FNU> parts = 2 %w13 : (tensor<8x512x256xbf16>) -> (tensor<8x512x256xf8E4M3FN, #moe.layout<interleave = 8>>, tensor<8x4x2xf32>)
// CHECK-NOT: moe.pack
moe.layer @float_powers {
  num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block_ue8m0>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, intermediate_size_per_partition = 256, local_begin = 0, local_experts = 8, w2_bias = true}

// A scale of a whole weight is repeated for each of its rows.
// CHECK-LABEL: moe.program @of_tensor_sm_90a
// CHECK: %[[S13:.*]] = moe.pack %w13_scale repeat = [2, 336, 1] : tensor<8x2xf32> -> tensor<8x672xf32, #moe.layout<>>
// CHECK: %[[S2:.*]] = moe.pack %w2_scale repeat = [1, 400, 1] : tensor<8x1xf32> -> tensor<8x400xf32, #moe.layout<>>
// CHECK: moe.grouped_matmul {{.*}}rhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32> {{.*}}rhs_scale %[[S13]]
// CHECK: moe.grouped_matmul {{.*}}rhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32> {{.*}}rhs_scale %[[S2]]
moe.layer @of_tensor {
  num_experts = 8, top_k = 2, hidden_size = 400, intermediate_size = 336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 336, local_begin = 0, local_experts = 8, w2_bias = true}

// Rows that alternate as they are stored have the scales of their parts in turn.
// CHECK-LABEL: moe.program @alternate_sm_90a
// CHECK: moe.pack %w13_scale repeat = [2, 336, 1] alternate = 1 : tensor<8x2xf32> -> tensor<8x672xf32, #moe.layout<>>
// CHECK: moe.pack %w2_scale repeat = [1, 400, 1] : tensor
moe.layer @alternate {
  num_experts = 8, top_k = 2, hidden_size = 400, intermediate_size = 336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, gate_up_order = "interleaved", intermediate_size_per_partition = 336, local_begin = 0, local_experts = 8, w2_bias = true}

// Blocks of 256 become blocks of 128, of which the last may be cut.
// CHECK-LABEL: moe.program @blocks_sm_90a
// CHECK: %[[S13:.*]] = moe.pack %w13_scale repeat = [2, 2, 2] : tensor<8x4x2xf32> -> tensor<8x6x4xf32, #moe.layout<>>
// CHECK: %[[S2:.*]] = moe.pack %w2_scale repeat = [1, 4, 3] : tensor<8x1xf8E8M0FNU> -> tensor<8x4x3xf32, #moe.layout<>>
// CHECK: moe.grouped_matmul {{.*}}rhs_descriptor = <f8E4M3FN, group = [128, 128], scale = f32> {{.*}}rhs_scale %[[S13]]
// CHECK: moe.grouped_matmul {{.*}}rhs_descriptor = <f8E4M3FN, group = [128, 128], scale = f8E8M0FNU> {{.*}}rhs_scale %[[S2]]
moe.layer @blocks {
  num_experts = 8, top_k = 2, hidden_size = 400, intermediate_size = 336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<a1 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, w1 = <f8E4M3FN, group = [256, 256], scale = f32>, w2 = <f8E4M3FN, group = [-1, -1], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 336, local_begin = 0, local_experts = 8, w2_bias = true}

// Scales that are made of floats are repeated as well.
// CHECK-LABEL: moe.program @repeated_floats_sm_90a
// CHECK: moe.quantize_weights {{.*}} parts = 2 %w13 : ({{.*}}) -> ({{.*}}, tensor<8x2xf32>)
// CHECK-NEXT: moe.pack %scales repeat = [2, 336, 1] : tensor<8x2xf32> -> tensor<8x672xf32, #moe.layout<>>
moe.layer @repeated_floats {
  num_experts = 8, top_k = 2, hidden_size = 400, intermediate_size = 336, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, intermediate_size_per_partition = 336, local_begin = 0, local_experts = 8, w2_bias = true}
