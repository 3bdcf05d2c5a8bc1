// RUN: moec-opt %s --moe-resolve-parallel --moe-check-target=arch=sm_90a -split-input-file -verify-diagnostics

// What a package that gathers and scatters itself does not do.

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and part: a part of a layer is for callers that move tokens themselves; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", part = "route"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and activation_format batched: rows come by expert, so the caller has moved them; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", activation_format = "batched"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and defer_moe_finalize: the caller sums over experts before ranks can sum; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", defer_moe_finalize}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and residual: each rank would add it to its sum; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, all_to_all = "gather_scatter", residual}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and skip_final_all_reduce: the caller reduces over ranks; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, all_to_all = "gather_scatter", skip_final_all_reduce}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and batch_invariant: the order of sums over ranks may depend on their size; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, all_to_all = "gather_scatter", batch_invariant}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and is_lora_enabled: addends are of the pairs of one rank's tokens; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", is_lora_enabled}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and expert_map, which placements other than linear need: each rank maps ids of all ranks' tokens by its own; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep, placement = round_robin>, all_to_all = "gather_scatter"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and a scheme with one dynamic scale of all tokens: ranks have different numbers of them; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and a routing that draws experts by a token's position: tokens of different ranks have the same positions; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<simulated>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and input_quantized with one scale of all tokens: each rank has its own; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_tensor>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", input_quantized}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all gather_scatter, and input_quantized with one scale of all tokens: each rank has its own; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "gather_scatter", input_quantized}

// -----

// Kernels that write into the memory of other ranks do less.

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all one_sided, and 2 ranks that have the same tokens; accepted: sp = tp, with which each rank has tokens of its own, or all_to_all gather_scatter}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, dp = 2, ep>, all_to_all = "one_sided"}

// -----

// expected-error@+1 {{layer @l refused [size_not_supported]: all_to_all one_sided, and 144 ranks; accepted: at most 128, or all_to_all gather_scatter}}
moe.layer @l {num_experts = 288, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 144, ep>, all_to_all = "one_sided"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: all_to_all one_sided, and is_lora_enabled: addends are of the pairs of one rank's tokens; accepted: one of the two, or all_to_all allgather_reducescatter, with which the caller moves tokens and sums}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 256, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, all_to_all = "one_sided", is_lora_enabled}
