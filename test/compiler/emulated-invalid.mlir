// RUN: moec-opt %s --pass-pipeline='builtin.module(moe-resolve-parallel,moe-check-target{arch=sm_90a})' --split-input-file --verify-diagnostics

// Activations beside weights that are dequantized, and what of them is not
// emulated.

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: groups of [1, 48] with scales of f8E8M0FNU; accepted: [1, 16], [1, 32], [1, 64] and [1, 128]}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f4E2M1FN, group = [1, 48], scale = f8E8M0FNU, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: groups of [1, 256]; accepted: [-1, -1], [1, -1], or [1, 16], [1, 32], [1, 64] and [1, 128]}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, 256], scale = f32, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: static scales of [1, -1]; accepted: of [-1, -1]}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, -1], scale = f32>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: dynamic scales of [-1, -1] of i8; accepted: of f8E4M3FN}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <i8, group = [-1, -1], scale = f32, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: static scales of f8E8M0FNU; accepted: dynamic ones}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: activations of i8 with scales of f8E8M0FNU; accepted: f32}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <i8, group = [1, 32], scale = f8E8M0FNU, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: activations of i4 are not emulated; accepted: f8E4M3FN f8E5M2 f6E3M2FN f6E2M3FN f4E2M1FN i8}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <i4, group = [1, 32], scale = f32, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: scales of bf16; accepted: f32 f8E8M0FNU f8E4M3FN}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f8E4M3FN, group = [1, 32], scale = bf16, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+2 {{layer @l refused [scheme_not_supported]: a1: static scales of f8E4M3FN; accepted: dynamic ones}}
// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: per-row second scales with static scales; accepted: with dynamic scales}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32, second_per_row>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}


// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: scales of f8E4M3FN have second scales of f32, others have none}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: scales of f8E4M3FN have second scales of f32, others have none}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic, second_scale = f32>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [scheme_not_supported]: a1: activations have no zero points; accepted: none}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 136, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <i8, group = [1, -1], scale = f32, dynamic, zero_point = i8>, a2 = <bf16>, w1 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU>>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
