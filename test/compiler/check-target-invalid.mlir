// RUN: moec-opt --moe-check-target=arch=sm_90a %s -split-input-file -verify-diagnostics

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'silu_no_mul' has no gate, got gate_up_order 'up_first'; accepted: gate_first}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, gate_up_order = "up_first"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: accumulate 'fast' is for operands of 8-bit floats with a scale a tensor, channel or token (fp8_tensor, fp8_tensor_dynamic, fp8_channel); accepted: f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}

// -----

// Scales of groups along k are applied in f32.
// expected-error@+1 {{layer @l refused [option_not_supported]: accumulate 'fast' is for operands of 8-bit floats}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, accumulate = "fast"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'gptq' holds integers of 4 or 8 bits, got bf16; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "gptq"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'awq' holds integers of 4 bits, got i8; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int8_w8a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "awq"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'columns' holds elements of whole bytes, got i4; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "columns"}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: stored_layout 'awq' holds up to 8 elements in 32 bits, and hidden_size is 60; accepted: multiples of 8}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 60, intermediate_size = 768, in_dtype = f32, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f32>, a2 = <f32>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "awq"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: no backend does option 'is_scale_swizzled'; accepted: scales of activations in their logical order; those of weights may be stored_layout scales_128x4}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, is_scale_swizzled}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: input_quantized: x is multiplied before it is quantized, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, input_quantized, apply_router_weight_on_input}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: defer_moe_finalize: the caller multiplies outputs, which have their weights already, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, defer_moe_finalize, apply_router_weight_on_input}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: apply_routed_scale_to_output: it is a factor of weights that outputs have, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, routed_scaling_factor = 2.5, apply_routed_scale_to_output, apply_router_weight_on_input}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: shared_expert_gate: it weighs outputs, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_expert_gate, apply_router_weight_on_input}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_zero_experts: their weights are of outputs, not with apply_router_weight_on_input; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, apply_router_weight_on_input}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: batch_invariant: routing 'simulated' draws experts by a token's place among the others; accepted: another method}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<simulated>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, batch_invariant}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: enable_eplb: zero experts have no replicas; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, enable_eplb}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: input_quantized: zero experts return x before its quantization; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, input_quantized}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: defer_moe_finalize: zero experts have no rows among those that the caller sums; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing groups: zero experts belong to none; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 4, top_groups = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all: a token whose experts are zero experts goes to no rank; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, all_to_all = "deepep_high_throughput"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: residual: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", residual}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: defer_moe_finalize: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: is_lora_enabled: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", is_lora_enabled}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: expert_map: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", expert_map}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", n_shared_experts = 1}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_zero_experts: with activation_format = batched rows come by expert, and who sends them does what is done for each token; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, activation_format = "batched", num_zero_experts = 2}

// -----

// Shared experts count as pairs of a token.
// expected-error@+1 {{layer @l refused [size_not_supported]: number of pairs per token (top_k + n_shared_experts) is 33; accepted: at most 32}}
moe.layer @l {num_experts = 128, top_k = 32, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_redundant_experts: only a layer with enable_eplb has an input that maps experts to replicas; accepted: both}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_redundant_experts = 2}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: shared_expert_gate: there are no shared experts; accepted: with n_shared_experts}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, shared_expert_gate}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: shared_intermediate_size: there are no shared experts; accepted: with n_shared_experts}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, shared_intermediate_size = 64}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts: they read the layer's hidden of 2048, the others a latent one of 1024; accepted: shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, latent_hidden_size = 1024}

// -----

// Ids of tokens select the experts: nothing would read the bias.
// expected-error@+1 {{layer @l refused [option_not_supported]: hash_vocabulary: the experts of a token are found by its id, and a bias of the scores (e_score_correction_bias) would have no effect; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<deepseek_v4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, hash_vocabulary = 100}

// -----

// A scale of all tokens tells each of its neighbours.
// expected-error@+1 {{layer @l refused [option_not_supported]: batch_invariant: scheme 'fp8_tensor_dynamic' has one scale of all tokens, which depends on each of them; accepted: static scales, and scales per token or per column group}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, batch_invariant}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: residual: with defer_moe_finalize the caller sums over experts, and adds the residual then; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, residual, defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: is_lora_enabled: with defer_moe_finalize the caller sums over experts, and adds what adapters give then; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, is_lora_enabled, defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: no backend does option 'placement'; accepted: linear, or any with expert_map}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep, placement = round_robin>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: routing is still 'auto'; run moe-infer-routing first}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'silu_no_mul' does not take 'limit'; accepted: its name alone}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul, limit = 7.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'swigluoai_uninterleave' needs a 'limit', got none; accepted: a number above 0}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<swigluoai_uninterleave>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'swigluoai' does not take 'linear_beta'; accepted: alpha beta limit}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<swigluoai, linear_beta = 2.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'situ' divides by its 'beta', got 0.00; accepted: a number above 0}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<situ, beta = 0.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'gelu' has no numbers that could be each expert's; accepted: no 'per_expert'}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<gelu, per_expert>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'gelu' does not take 'alpha'; accepted: its name alone}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<gelu, alpha = 1.7>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'gelu' does not take 'beta'; accepted: its name alone}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<gelu, beta = 1.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'gelu' does not take 'linear_beta'; accepted: its name alone}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<gelu, linear_beta = 1.0>, parallel = #moe.parallel<>}

// -----

// expected-error-re@+1 {{layer @l refused [scheme_not_supported]: these descriptors are no scheme that a backend does: {{.*}}; accepted: f32, f16, bf16, {{.*}}, or weights that are quantized, both}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <bf16>, w2 = <i8, group = [1, -1], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+2 {{layer @l refused [scheme_not_supported]: w1: weights of i16 are not dequantized; accepted: f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN i8 i4}}
// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1 and w2 must have one element type, got i16 and i4}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i16, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1: scales of f64; accepted: f32 f16 bf16 f8E4M3FN f8E8M0FNU}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = f64>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w2: groups of 20 along K; accepted: multiples of 8, or -1 for all}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16>, w2 = <i4, group = [1, 20], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1: groups of all rows and 128 along K; accepted: [-1, -1], or groups of some rows}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [-1, 128], scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1: scales are dynamic; accepted: static ones}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16, dynamic>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1: second scales of bf16; accepted: f32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16, second_scale = bf16>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: w1: zero points of i4; accepted: i8}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16, zero_point = i4>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [dtype_not_supported]: 'out_dtype' is f8E4M3FN; accepted: f32, f16, bf16}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = f8E4M3FN, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [dtype_not_supported]: 'router_logits_dtype' is f64; accepted: f32, f16, bf16}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f64, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: hidden_size is 2044; accepted: multiples of 8 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2044, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate (of this rank) is 764; accepted: multiples of 8 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 764, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: hidden_size is 2046; accepted: multiples of 4 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2046, intermediate_size = 768, in_dtype = f32, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<f32>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: num_experts is 2048; accepted: at most 1024}}
moe.layer @l {num_experts = 2048, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: number of pairs per token (top_k + n_shared_experts) is 33; accepted: at most 32}}
moe.layer @l {num_experts = 128, top_k = 33, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// Every reason is said, not the first alone.
// expected-error@+3 {{layer @l refused [option_not_supported]: no backend does option 'is_scale_swizzled'; accepted: scales of activations in their logical order; those of weights may be stored_layout scales_128x4}}
// expected-error@+2 {{layer @l refused [size_not_supported]: hidden_size is 2044; accepted: multiples of 8 (pieces of 16 bytes; nothing is padded)}}
// expected-error@+1 {{layer @l refused [size_not_supported]: number of pairs per token (top_k + n_shared_experts) is 33; accepted: at most 32}}
moe.layer @l {num_experts = 128, top_k = 33, hidden_size = 2044, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, is_scale_swizzled}

// -----

// Rows are loaded in 16 bytes.
// expected-error@+2 {{layer @l refused [size_not_supported]: hidden_size is 2040; accepted: multiples of 16 (pieces of 16 bytes; nothing is padded)}}
// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate (of this rank) is 760; accepted: multiples of 16 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2040, intermediate_size = 760, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'minimax2' does not take 'groups'; accepted: bias expert_scale}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<minimax2, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'minimax2' does not take 'scale'; accepted: bias expert_scale}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<minimax2, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'default' does not take 'bias'; accepted: groups scale expert_scale}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'default' does not take 'table'; accepted: groups scale expert_scale}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, hash_vocabulary = 100}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'custom' does not take 'expert_scale'; accepted: its name alone}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<custom>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, per_expert_scale}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'intern_s1' needs groups of experts, got none; accepted: up to 32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<intern_s1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: routing 'intern_s1' takes as many experts from each group, got top_k = 8 of 16 groups; accepted: a multiple of all 16}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<intern_s1, groups = 16, top_groups = 16>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: groups of experts are 64; accepted: at most 32}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 64, top_groups = 32>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: weights_dtype: no rule makes i8 with scales of bf16 and zero points of floats; accepted: scales of f32, f16 or bf16, of floats f8E8M0FNU, too, or f8E4M3FN below f32, i4 with zero points}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i8, group = [1, 128], scale = bf16, zero_point = i8>, w2 = <i8, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: weights_dtype: no rule makes i4 with scales of bf16 and second scales of rows of floats; accepted: scales of f32, f16 or bf16, of floats f8E8M0FNU, too, or f8E4M3FN below f32, i4 with zero points}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i4, group = [1, 128], scale = bf16, second_scale = f32, second_per_row>, w2 = <i4, group = [1, 128], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, weights_dtype = bf16}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts: zero experts use the ids after the other experts; accepted: shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<longcat>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 4, n_shared_experts = 1}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: hidden_size is 262152; accepted: at most 262144}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 262152, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: part route: with activation_format = batched rows come by expert, and parts are of tokens; accepted: the layer with activation_format = standard}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, quant = #moe.quant<bf16>, activation_format = "batched", part = "route"}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: part quantize: the scheme does not quantize x, which is multiplied as bf16; accepted: schemes that quantize activations}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, quant = #moe.quant<int4_w4a16>, part = "quantize"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: part finalize: with defer_moe_finalize the layer sums nothing over experts; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, quant = #moe.quant<bf16>, defer_moe_finalize, part = "finalize"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'scales_128x4' holds scales of 8 bits (f8E4M3FN or f8E8M0FNU) of groups of columns, [1, g], got weights of bf16 without scales; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "scales_128x4"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'scales_128x4' holds scales of 8 bits (f8E4M3FN or f8E8M0FNU) of groups of columns, [1, g], got scales of bf16 of groups [1, 128]; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "scales_128x4"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'scales_128x4' holds scales of 8 bits (f8E4M3FN or f8E8M0FNU) of groups of columns, [1, g], got scales of f8E8M0FNU of groups [128, 128]; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block_ue8m0>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "scales_128x4"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_layout 'columns_with_scales' holds elements of whole bytes, got f4E2M1FN; accepted: another layout}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_layout = "columns_with_scales"}

// -----

// expected-error@+2 {{layer @l refused [size_not_supported]: stored_hidden_size is 2052; accepted: multiples of 8}}
// expected-error@+1 {{layer @l refused [size_not_supported]: stored_intermediate_size_per_partition is 770; accepted: multiples of 8}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_hidden_size = 2052, stored_intermediate_size_per_partition = 770}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_hidden_size: with group_index the groups of padding would have an order, too; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_hidden_size = 2176, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: stored_intermediate_size_per_partition: weights_dtype makes codes of floats as they are stored; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, stored_intermediate_size_per_partition = 896, weights_dtype = bf16}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: weights_dtype makes codes of gates and ups that follow each other or take turns row by row, got gate_up_order 'interleaved_8'; accepted: another gate_up_order}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_channel>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, gate_up_order = "interleaved_8", weights_dtype = bf16}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'powlu' is a power by its 'alpha', got 0.00; accepted: a number above 0}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<powlu, alpha = 0.0>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: activation 'clamped_relu2_no_mul' needs a 'limit', got none; accepted: a number above 0}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize>, activation = #moe.activation<clamped_relu2_no_mul>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'topk_sigmoid_bias' does not take 'groups'; accepted: bias scale expert_scale}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<topk_sigmoid_bias, groups = 2, top_groups = 1, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'renormalize' does not take 'softcap'; accepted: groups scale expert_scale}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<renormalize, softcap = 2.0>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: each of 2 shards (dp * pcp * tp) has a part of every sum, and the norm is of their sum; accepted: ranks that share out whole experts (use_ep)}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, intermediate_size_per_partition = 16, local_begin = 0, local_experts = 8, w2_bias = true,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with activation_format = batched: rows go back to who sent them; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, activation_format = "batched",
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with defer_moe_finalize: the caller sums over rows; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, defer_moe_finalize,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with part finalize: it has no weights; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, part = "finalize",
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with is_lora_enabled: rows have no addends yet; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, is_lora_enabled,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with apply_router_weight_on_input: the norm takes such a weight away; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 1, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, apply_router_weight_on_input,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with num_zero_experts: their rows are those of x; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, num_zero_experts = 2,
  routing = #moe.routing<longcat>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: post_expert_norm_eps: not with n_shared_experts: the norm is of the others; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, n_shared_experts = 1,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'renormalize' does not take 'logit_scale'; accepted: groups scale expert_scale}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, 
  routing = #moe.routing<renormalize, logit_scale = 0.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'sigmoid' does not take 'epsilon'; accepted: groups scale expert_scale softcap logit_scale}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, post_expert_norm_eps = 1.0e-8, 
  routing = #moe.routing<sigmoid, epsilon = 0.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'deepseek_v3' does not take 'sinks'; accepted: bias groups scale expert_scale softcap logit_scale epsilon}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<deepseek_v3, bias, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'sigmoid_sinks' needs 'sinks', experts that every token takes, got none; accepted: 1 to top_k - 1}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<sigmoid_sinks>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts: sinks are the last experts, and no others follow them; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, n_shared_experts = 1,
  routing = #moe.routing<sigmoid_sinks, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_zero_experts: sinks are the last experts, and no others follow them; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_zero_experts = 1,
  routing = #moe.routing<sigmoid_sinks, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'sigmoid_sinks' does not take 'softcap'; accepted: bias scale expert_scale sinks}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<sigmoid_sinks, sinks = 2, softcap = 2.0>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: routing 'sigmoid_sinks' does not take 'groups'; accepted: bias scale expert_scale sinks}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>,
  routing = #moe.routing<sigmoid_sinks, groups = 2, top_groups = 1, sinks = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: each of 2 ranks would add them; accepted: one rank}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, 
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with activation_format = batched: rows go back to who sent them; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, activation_format = "batched",
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with defer_moe_finalize: the caller sums over rows; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, defer_moe_finalize,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with part finalize: it has no weights; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, part = "finalize",
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with is_lora_enabled: they have no addends; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, is_lora_enabled,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with apply_router_weight_on_input: their weights are of outputs; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 1, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, apply_router_weight_on_input,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with enable_eplb: they have no replicas; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, enable_eplb,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with expert_map: it has no entries for them; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, expert_map,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with routing groups: they belong to none; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, 
  routing = #moe.routing<deepseek_v3, groups = 2, top_groups = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with post_expert_norm_eps: it is of computed outputs; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, post_expert_norm_eps = 1.0e-8,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with num_zero_experts: both use the ids after the other experts; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, num_zero_experts = 2,
  routing = #moe.routing<longcat>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with n_shared_experts: both use the ids after the other experts; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2, n_shared_experts = 1,
  routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: num_constant_experts: not with routing sinks: both are the last experts; accepted: one of the two}}
moe.layer @l {num_experts = 8, top_k = 4, hidden_size = 64, intermediate_size = 32,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, num_constant_experts = 2,
  routing = #moe.routing<sigmoid_sinks, sinks = 2>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
