// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout %s -split-input-file -verify-diagnostics

// expected-error@+1 {{interleave = 8 needs rows in multiples of 16, got 24}}
moe.layer @l {
  experts = 8, top_k = 2, hidden = 64, intermediate = 12, input_type = bf16, output_type = bf16, logits_type = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  local_intermediate = 12, local_begin = 0, local_experts = 8, w2_bias = true}
