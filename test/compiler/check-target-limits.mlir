// RUN: moec-opt --moe-resolve-parallel --moe-check-target=arch=sm_90a %s -split-input-file -verify-diagnostics

// What is taken at each limit, and what is refused for one of several reasons.

moe.layer @l0 {num_experts = 1024, top_k = 32, hidden_size = 262144, intermediate_size = 262144, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l1 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}
moe.layer @l2 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}
moe.layer @l3 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}
moe.layer @l4 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<situ>, parallel = #moe.parallel<>}
moe.layer @l5 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<powlu>, parallel = #moe.parallel<>}
moe.layer @l6 {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, apply_router_weight_on_input, apply_routed_scale_to_output}
moe.layer @l7 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, num_zero_experts = 2}
moe.layer @l8 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, gate_up_order = "interleaved"}
moe.layer @l9 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, gate_up_order = "interleaved_8"}
moe.layer @l10 {num_experts = 128, top_k = 8, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 128, ep>, all_to_all = "one_sided"}
moe.layer @l11 {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 48, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 6>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: accumulate 'fast' is for operands of 8-bit floats with a scale a tensor, channel or token (fp8_tensor, fp8_tensor_dynamic, fp8_channel); accepted: f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, -1], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, w1 = <f8E4M3FN, group = [1, -1], scale = f32>, w2 = <f8E4M3FN, group = [1, -1], scale = f32>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: accumulate 'fast' is for operands of 8-bit floats with a scale a tensor, channel or token (fp8_tensor, fp8_tensor_dynamic, fp8_channel); accepted: f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, -1], scale = f32, dynamic>, a2 = <f8E4M3FN, group = [1, -1], scale = f32, dynamic>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: accumulate 'fast' is for operands of 8-bit floats with a scale a tensor, channel or token (fp8_tensor, fp8_tensor_dynamic, fp8_channel); accepted: f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'situ' divides by its 'beta', got 0.00; accepted: a number above 0}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<situ, beta = 0.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'powlu' is a power by its 'alpha', got 0.00; accepted: a number above 0}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<powlu, alpha = 0.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: apply_routed_scale_to_output: it is a factor of weights that outputs have, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, apply_router_weight_on_input, apply_routed_scale_to_output, routed_scaling_factor = 2.0}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts: zero experts use the ids after the other experts}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, num_zero_experts = 2}

// -----

// expected-error@+2 {{layer @l refused [scheme_not_supported]: a2: f32 without scales, with weights that are dequantized to 16 bits; accepted: bf16, f16, or a descriptor with scales}}
// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1 and a2 must have one element type where both have no scales, got f16 and f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f16>, a2 = <f32>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1 and a2 must have one element type where both have no scales, got f16 and bf16}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: weights_dtype makes codes of gates and ups that follow each other or take turns row by row, got gate_up_order 'interleaved_8'; accepted: another gate_up_order}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16, gate_up_order = "interleaved_8"}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: weights_dtype: no rule makes i4 with scales of f8E8M0FNU of floats}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 32], scale = f8E8M0FNU>, w2 = <i4, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16}

// -----

// expected-error@+2 {{layer @l refused [size_not_supported]: stored_layout 'gptq' holds up to 8 elements in 32 bits, and intermediate (of this rank) is 772; accepted: multiples of 8}}
// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate (of this rank) is 772; accepted: multiples of 8 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 772, in_dtype = f32, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f32>, a2 = <f32>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "gptq"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: activations are of bf16 and f8E4M3FN, weights of i4 and i4; accepted: a scheme that quantizes only weights}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <f8E4M3FN, group = [1, 128], scale = f32, dynamic>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all one_sided, and 2 ranks that have the same tokens; accepted: sp = tp, with which each rank has tokens of its own, or all_to_all gather_scatter}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, all_to_all = "one_sided"}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate 48 does not give each of 7 shards (dp * pcp * tp) 8 columns; accepted: at most 6 shards}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 48, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 7>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate 40 does not give each of 6 shards (dp * pcp * tp) 8 columns; accepted: at most 5 shards}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 40, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 6>}
