// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout %s -split-input-file -verify-diagnostics

// expected-error@+1 {{interleave = 8 needs rows in multiples of 16, got 24}}
moe.layer @l {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 12, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 12, local_begin = 0, local_experts = 8, w2_bias = true}
