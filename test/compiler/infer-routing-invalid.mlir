// RUN: moec-opt --moe-infer-routing %s -split-input-file -verify-diagnostics

// expected-error@+1 {{layer @l refused [routing_not_supported]: scoring sigmoid is routing method 'sigmoid', which has no row in dialect/catalog/RoutingMethods.h; known: default, renormalize, renormalize_naive, topk}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: scoring sigmoid, renormalize is routing method 'sigmoid_renorm', which has no row in dialect/catalog/RoutingMethods.h; known: default, renormalize, renormalize_naive, topk}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: scoring sigmoid, bias, renormalize is routing method 'minimax2', which has no row in dialect/catalog/RoutingMethods.h; known: default, renormalize, renormalize_naive, topk}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: scoring sigmoid, bias, renormalize, groups, scale is routing method 'deepseek_v3', which has no row in dialect/catalog/RoutingMethods.h; known: default, renormalize, renormalize_naive, topk}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, bias, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: scoring sqrtsoftplus, bias, renormalize is routing method 'deepseek_v4', which has no row in dialect/catalog/RoutingMethods.h; known: default, renormalize, renormalize_naive, topk}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: no routing method is known by scoring softmax, bias}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: no routing method is known by scoring sigmoid, bias, renormalize, scale}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, bias, renormalize, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{layer @l refused [routing_not_supported]: no routing method is known by scoring sqrtsoftplus}}
moe.layer @l {experts = 128, top_k = 8, hidden = 2048, intermediate = 768, input_type = bf16, output_type = bf16, logits_type = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
