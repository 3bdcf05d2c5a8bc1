// RUN: moec-opt --moe-resolve-parallel %s -split-input-file -verify-diagnostics

// expected-error@+1 {{layer @narrow refused [size_not_supported]: intermediate 64 does not give each of 12 shards (dp * pcp * tp) 8 columns; accepted: at most 8 shards}}
moe.layer @narrow {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 12>}

// -----

// expected-error@+1 {{layer @many refused [size_not_supported]: 128 experts do not give each of 256 ranks one; accepted: at most as many ranks (dp * pcp * tp) as experts}}
moe.layer @many {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 256, ep>}

// -----

// expected-error@+1 {{layer @replicas refused [size_not_supported]: 12 experts do not give each of 13 ranks one; accepted: at most as many ranks (dp * pcp * tp) as experts}}
moe.layer @replicas {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 96, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 13, ep>, num_redundant_experts = 4, enable_eplb}

// -----

// expected-error@+1 {{layer @sequence refused [size_not_supported]: sp is 2, but the ranks that split a sequence are those of tp; accepted: 1 or 4}}
moe.layer @sequence {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, sp = 2>}

// -----

// expected-error@+1 {{layer @transport refused [option_not_supported]: unknown all_to_all 'pigeons'; accepted: allgather_reducescatter, gather_scatter, one_sided, deepep_high_throughput, deepep_low_latency, deepep_v2, flashinfer_nvlink_one_sided, flashinfer_nvlink_two_sided, mori_high_throughput, mori_low_latency, nixl_ep}}
moe.layer @transport {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "pigeons"}

// -----

// expected-error@+1 {{layer @transport refused [option_not_supported]: vLLM has removed all_to_all 'pplx'; accepted: deepep_low_latency or nixl_ep, which also order rows by expert, or allgather_reducescatter, which vLLM uses instead}}
moe.layer @transport {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, all_to_all = "pplx"}

// -----

// Programs are of one share, so a layer that has been resolved is not taken apart.
// expected-error@+1 {{layer @l is resolved, but its 'ranks' have shares of 2 sizes}}
moe.layer @l {num_experts = 7, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 2, ep>, ranks = array<i64: 0, 1>, local_begin = 0, local_experts = 4, intermediate_size_per_partition = 32, w2_bias = true}

// -----

// expected-error@+1 {{layer @shard refused [size_not_supported]: stored_intermediate_size_per_partition is 376, and rank 1 computes 384 columns of the intermediate; accepted: at least as many, those that pad the rank's weights counted}}
moe.layer @shard {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1>, stored_intermediate_size_per_partition = 376}

// -----

// 384 columns in groups of 128: ranks 0 and 1 have 64, ranks 2 and 3 have 128.
// expected-error@+1 {{layer @wider refused [size_not_supported]: stored_intermediate_size_per_partition is 64, and rank 2 computes 128 columns of the intermediate; accepted: at least as many, those that pad the rank's weights counted}}
moe.layer @wider {num_experts = 8, top_k = 2, hidden_size = 256, intermediate_size = 384, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4>, ranks = array<i64: 0, 1, 2, 3>, stored_intermediate_size_per_partition = 64}
