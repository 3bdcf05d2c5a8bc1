// RUN: moec-opt %s --moe-resolve-parallel --moe-check-target=arch=sm_90a -split-input-file -verify-diagnostics

// Shared experts with weights of their own.
// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with group_index: orders are those of the others; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with has_bias: biases are those of the others; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, has_bias}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with is_lora_enabled: addends are of pairs, and they have none; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, is_lora_enabled}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with defer_moe_finalize: the caller sums over rows, and they have none there; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with stored_hidden_size and stored_intermediate_size_per_partition: what pads weights is known of the others; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, stored_hidden_size = 2056}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with part: a part has nothing of their weights, and no other part would; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512, part = "route"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since each has an intermediate of 512, the others of 768; with an activation with numbers for each expert: these are of the others; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<swigluoai, per_expert>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 512}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: n_shared_experts have weights of their own, since the others are spread over ranks, and every token takes these; with all_to_all deepep_high_throughput: a token comes to several ranks, and each would add them; accepted: one of the two, or shared experts beside this layer (--no-shared-experts, option no_shared_experts of moec_compile_config, or a layer JSON without n_shared_experts)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, n_shared_experts = 1, all_to_all = "deepep_high_throughput"}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: the shared experts' intermediate of 16 does not give each of 4 ranks that have the same tokens 8 columns; accepted: at most 2 such ranks}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, ep>, n_shared_experts = 1, shared_intermediate_size = 16}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: intermediate of shared experts (of this rank) is 100; accepted: multiples of 8 (pieces of 16 bytes; nothing is padded)}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 1, shared_intermediate_size = 100}
