// RUN: moec-opt --moe-resolve-parallel %s -split-input-file -verify-diagnostics

// expected-error@+1 {{layer @five refused [size_not_supported]: intermediate 768 does not divide into 5 shards (dp * pcp * tp); accepted: sizes that divide it}}
moe.layer @five {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 5>}

// -----

// expected-error@+1 {{layer @many refused [size_not_supported]: 128 experts do not give each of 256 ranks one; accepted: at most as many ranks (dp * pcp * tp) as experts}}
moe.layer @many {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 256, ep>}
