// RUN: moec-opt %s --moe-check-target=arch=sm_90a -split-input-file -verify-diagnostics

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: activations are of bf16 and bf16, weights of bf16 and bf16; accepted: a scheme that quantizes only weights}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: activations are of i8 and i8, weights of i4 and i4; accepted: a scheme that quantizes only weights}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4aint8>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: w1 has groups of [1, -1]; accepted: [1, columns], of some columns along K}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <i8, group = [1, -1], scale = bf16>, w2 = <i8, group = [1, 64], scale = bf16>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: w2 has groups of [128, 128]; accepted: [1, columns], of some columns along K}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <f8E4M3FN, group = [1, 128], scale = f32>, w2 = <f8E4M3FN, group = [128, 128], scale = f32>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+3 {{layer @l refused [option_not_supported]: group_index: w1 is of f6E3M2FN, whose codes are not brought into another order; accepted: codes of 4 or 8 bits}}
// expected-error@+2 {{layer @l refused [option_not_supported]: group_index: w2 has groups of [1, -1]; accepted: [1, columns], of some columns along K}}
// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: w2 is of f6E3M2FN, whose codes are not brought into another order; accepted: codes of 4 or 8 bits}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<a1 = <bf16>, a2 = <bf16>, w1 = <f6E3M2FN, group = [1, 32], scale = f8E8M0FNU>, w2 = <f6E3M2FN, group = [1, -1], scale = f8E8M0FNU>>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: weights_dtype makes codes of floats, whose groups are in order; accepted: one of the two}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index, weights_dtype = bf16}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: rows come by expert (activation_format = batched), and are not brought into the order of its columns; accepted: standard}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, group_index, activation_format = "batched"}

// -----

// expected-error@+1 {{layer @l refused [option_not_supported]: group_index: this rank has 384 of 768 columns of the intermediate, and so parts of groups; accepted: experts spread over ranks (ep), or tp = 1}}
moe.layer @l {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<int4_w4a16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2>, group_index, intermediate_size_per_partition = 384, local_begin = 0, local_experts = 128, w2_bias = true}
