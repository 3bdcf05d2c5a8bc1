// RUN: moec-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{'moe.layer' op 'num_experts' must be positive, got 0}}
moe.layer @l {num_experts = 0, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'hidden_size' must be positive, got -64}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = -64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'top_k' must be at most the 8 experts, got 9}}
moe.layer @l {num_experts = 8, top_k = 9, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'num_zero_experts' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'sinks' in 'routing' must be fewer than top_k, which counts them, got 2 of 2}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<sigmoid_sinks, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'stored_hidden_size' counts what pads the 64 that there are, and must be at least as many, got 63}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_hidden_size = 63}

// -----

// expected-error@+1 {{'moe.layer' op 'stored_intermediate_size_per_partition' counts what pads the 1 that there are, and must be at least as many, got 0}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_intermediate_size_per_partition = 0}

// -----

// expected-error@+1 {{'moe.layer' op 'in_dtype' is 'bf16', but the scheme reads 'f8E4M3FN' without a scale}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN>, a2 = <f8E4M3FN>, w1 = <f8E4M3FN>, w2 = <f8E4M3FN>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'input_quantized' needs a scheme that quantizes x, got #moe.quant<bf16>}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized}

// -----

// expected-error@+1 {{'moe.layer' op 'out_dtype' must be a float type, got 'i8'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = i8, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'router_logits_dtype' must be a float type, got 'i32'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = i32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 3 routing groups do not divide 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 3, top_groups = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'top_k' must be at most 1, the experts of 1 routing groups, got 2}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 8, top_groups = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op the routed scale is given twice, by 'routed_scaling_factor' and in 'routing'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, scale = 2.0>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, routed_scaling_factor = 2.0}

// -----

// expected-error@+1 {{'moe.layer' op 'apply_router_weight_on_input' needs top_k = 1, got 2}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, apply_router_weight_on_input}

// -----

// expected-error@+1 {{'moe.layer' op unknown gate_up_order 'random'; known: gate_first, up_first, interleaved, interleaved_8}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, gate_up_order = "random"}

// -----

// expected-error@+1 {{'moe.layer' op unknown accumulate 'exact'; known: f32, fast}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "exact"}

// -----

// expected-error@+1 {{'moe.layer' op unknown activation_format 'ragged'; known: standard, batched}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "ragged"}

// -----

// expected-error@+1 {{'moe.layer' op 'intermediate_size_per_partition', 'local_begin', 'local_experts' and 'w2_bias' must be given together}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, local_experts = 4}

// -----

// expected-error@+1 {{'moe.layer' op 'intermediate_size_per_partition' must be between 1 and the 32 of the layer, got 33}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, intermediate_size_per_partition = 33, local_begin = 0, local_experts = 8, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 1 + i * 1, 8 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 1, local_experts = 8, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 1 + i * 2, 5 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 1, local_stride = 2, local_experts = 5, expert_map, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: 0, 2, 1>}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: 0, 1, 1>}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: 0, 4>}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64>}

// -----

// expected-error@+1 {{'moe.layer' op the rank in 'parallel' must be the first of 'ranks', 1, got 2}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, dp_rank = 2, ep>, ranks = array<i64: 1, 2>}

// -----

// An option of another kind is not one that is absent.
// expected-error@+1 {{custom op 'moe.layer' attribute 'batch_invariant' failed to satisfy constraint: unit attribute}}
moe.layer @l {top_k = 2, batch_invariant = true, num_experts = 8, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{custom op 'moe.layer' attribute 'top_k' failed to satisfy constraint: 64-bit integer attribute}}
moe.layer @l {top_k = "2", num_experts = 8, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op 'shared_intermediate_size_per_partition' must be between 1 and the 48 of the shared experts together, got 49}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 2, shared_intermediate_size = 24, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, shared_intermediate_size_per_partition = 49, w2_bias = true}

// -----

// expected-error@+1 {{custom op 'moe.layer' unknown layer option 'expert_count'; known: num_experts, top_k, hidden_size, intermediate_size, in_dtype, out_dtype, router_logits_dtype, quant, routing, activation, parallel, accumulate, activation_format, all_to_all, apply_routed_scale_to_output, apply_router_weight_on_input, batch_invariant, defer_moe_finalize, enable_eplb, expert_map, gate_up_order, group_index, has_bias, hash_vocabulary, input_quantized, intermediate_size_per_partition, is_lora_enabled, is_scale_swizzled, latent_hidden_size, local_begin, local_experts, local_stride, n_shared_experts, num_constant_experts, num_redundant_experts, num_zero_experts, part, per_expert_scale, post_expert_norm_eps, ranks, realization, residual, routed_scaling_factor, shared_expert_gate, shared_intermediate_size, shared_intermediate_size_per_partition, skip_final_all_reduce, stored_hidden_size, stored_intermediate_size_per_partition, stored_layout, stored_quant, w2_bias, weights_dtype}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, expert_count = 3}

// -----

// expected-error@+1 {{'moe.layer' op requires attribute 'quant'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op unknown layer option 'speed'}}
"moe.layer"() <{num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, sym_name = "l", gate_up_order = "gate_first", activation_format = "standard"}> {speed = 3} : () -> ()

// -----

func.func private @f(%h: tensor<?x64xf32>, %a: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.activate' op 'addend' and 'rows' must be given together}}
  %t = "moe.activate"(%h, %a) <{activation = #moe.activation<silu>, operandSegmentSizes = array<i32: 1, 0, 1, 0, 0, 0, 0>}> : (tensor<?x64xf32>, tensor<?x64xbf16>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>, %a: tensor<8xf32>) {
  // expected-error@+1 {{'moe.activate' op expected 3 operands 'numbers' for #moe.activation<swigluoai, per_expert>, got 1}}
  %t = moe.activate <swigluoai, per_expert> %h numbers(%a) : (tensor<?x64xf32>, tensor<8xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>, %a: tensor<8xf32>, %b: tensor<9xf32>) {
  // expected-error@+1 {{'moe.activate' op 'numbers' must be 'tensor<8xf32>', got 'tensor<9xf32>'}}
  %t = moe.activate <situ, per_expert> %h numbers(%a, %b) : (tensor<?x64xf32>, tensor<8xf32>, tensor<9xf32>) -> tensor<?x32xbf16>
  return
}

// -----

// expected-error@+1 {{'moe.layer' op unknown stored_layout 'marlin'; known: rows, columns, columns_with_scales, scales_128x4, gptq, gptq_v2, awq, pack_quantized}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "marlin"}

// -----

// expected-error@+1 {{'moe.layer' op 'weights_dtype' must be f32, f16 or bf16, got 'i8'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = i8}

// -----

// expected-error@+1 {{'moe.layer' op 'weights_dtype' needs a scheme that quantizes both weights, got #moe.quant<bf16>}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16}

// -----

// expected-error@+1 {{'moe.layer' op 'weights_dtype' is of weights that are stored as rows, got stored_layout 'columns'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, stored_layout = "columns"}

// -----

// expected-error@+1 {{'moe.layer' op expected a name of letters, digits and '_', got 'f1.5'}}
moe.layer @f1.5 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op expected a name of at most 160 characters, got 161}}
moe.layer @nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'moe.layer' op unknown part 'sort'; known: route, quantize, gate_up, down, finalize}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, part = "sort"}

// -----

// expected-error@+1 {{'moe.layer' op unknown realization 'guessed'; known: native, dequantized, weight_only, emulated}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "guessed"}

// -----

// expected-error@+1 {{'moe.layer' op 'realization' of #moe.quant<nvfp4> must be one of native, weight_only, emulated, got 'dequantized'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "dequantized"}

// -----

// expected-error@+1 {{'moe.layer' op #moe.quant<bf16> has one program; expected no 'realization', got 'emulated'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "emulated"}

// -----

// expected-error@+1 {{'moe.layer' op #moe.quant<fp8_tensor> has one program; expected no 'realization', got 'native'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "native"}

// -----

// expected-error@+1 {{'moe.layer' op 'stored_quant' is of realization 'weight_only'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "emulated", stored_quant = #moe.quant<nvfp4>}

// -----

// expected-error@+1 {{'moe.layer' op 'stored_quant' is of realization 'weight_only'}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "weight_only"}

// -----

// expected-error@+1 {{'moe.layer' op 'quant' must be #moe.quant<nvfp4> with activations of 'bf16', got #moe.quant<mxfp4_w4a16>}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, realization = "weight_only", stored_quant = #moe.quant<nvfp4>}

// -----

// expected-error@+1 {{'moe.layer' op 'post_expert_norm_eps' must be a positive number of f32, got 0.000000e+00; omit it for no norm}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, post_expert_norm_eps = 0.0}

// -----

// A number that f32 rounds to 0.
// expected-error@+1 {{'post_expert_norm_eps' must be a positive number of f32, got 1.000000e-60}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, post_expert_norm_eps = 1.0e-60}

// -----

// expected-error@+1 {{'moe.layer' op 'num_constant_experts' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_constant_experts = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'n_shared_experts' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'shared_intermediate_size' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, shared_intermediate_size = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'num_redundant_experts' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_redundant_experts = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'latent_hidden_size' must not be negative, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, latent_hidden_size = -1}

// -----

// expected-error@+1 {{'moe.layer' op 'intermediate_size_per_partition' must be between 1 and the 32 of the layer, got 0}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 0, local_begin = 0, local_experts = 8, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts -1 + i * 1, 2 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = -1, local_experts = 2, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 0 + i * 1, -1 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = -1, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 0 + i * 0, 2 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 2, w2_bias = true, local_stride = 0}

// -----

// expected-error@+1 {{'moe.layer' op 'weights_dtype' needs a scheme that quantizes both weights, got #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <bf16>, w2 = <i8, group = [1, -1], scale = f32>>}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <bf16>, w2 = <i8, group = [1, -1], scale = f32>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4>, ranks = array<i64: -1, 1>}

// -----

// Nothing is refused at the limits.
moe.layer @l0 {num_experts = 2, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 2, top_groups = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 0, shared_intermediate_size = 0}
moe.layer @l1 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = f16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f32>, a2 = <f32>, w1 = <f32>, w2 = <f32>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l2 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f16>, a2 = <f16>, w1 = <f16>, w2 = <f16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l3 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<ep, tp = 4, rank = 1>, intermediate_size_per_partition = 32, local_begin = 8, local_experts = 0, w2_bias = true}
moe.layer @l4 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 1, local_begin = 0, local_experts = 8, w2_bias = true}
moe.layer @l5 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = f32}
moe.layer @l6 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = f16}
