// RUN: moec-opt --moe-infer-routing %s | FileCheck %s

// Every combination of scoring function, bias, renormalization, groups and
// factor, in this order. Other systems call those of minimax2 with a factor,
// of ernie, longcat, sigmoid_bias and sqrtsoftplus unspecified.

// CHECK-LABEL: moe.layer @softmax {
// CHECK: routing = #moe.routing<default>,
moe.layer @softmax {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_scaled {
// CHECK: routing = #moe.routing<default, scale = 2.5{{[0e+]*}}>,
moe.layer @softmax_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_groups {
// CHECK: routing = #moe.routing<default, groups = 8, top_groups = 4>,
moe.layer @softmax_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_groups_scaled {
// CHECK: routing = #moe.routing<default, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @softmax_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_renormalize {
// CHECK: routing = #moe.routing<renormalize_naive>,
moe.layer @softmax_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_renormalize_scaled {
// CHECK: routing = #moe.routing<renormalize_naive, scale = 2.5{{[0e+]*}}>,
moe.layer @softmax_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_renormalize_groups {
// CHECK: routing = #moe.routing<renormalize_naive, groups = 8, top_groups = 4>,
moe.layer @softmax_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<renormalize_naive, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @softmax_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias {
// CHECK: routing = #moe.routing<longcat, bias>,
moe.layer @softmax_bias {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_scaled {
// CHECK: routing = #moe.routing<longcat, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @softmax_bias_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_groups {
// CHECK: routing = #moe.routing<longcat, groups = 8, top_groups = 4, bias>,
moe.layer @softmax_bias_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_groups_scaled {
// CHECK: routing = #moe.routing<longcat, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @softmax_bias_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_renormalize {
// CHECK: routing = #moe.routing<ernie, bias>,
moe.layer @softmax_bias_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_renormalize_scaled {
// CHECK: routing = #moe.routing<ernie, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @softmax_bias_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_renormalize_groups {
// CHECK: routing = #moe.routing<ernie, groups = 8, top_groups = 4, bias>,
moe.layer @softmax_bias_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_bias_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<ernie, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @softmax_bias_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid {
// CHECK: routing = #moe.routing<sigmoid>,
moe.layer @sigmoid {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_scaled {
// CHECK: routing = #moe.routing<sigmoid, scale = 2.5{{[0e+]*}}>,
moe.layer @sigmoid_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_groups {
// CHECK: routing = #moe.routing<sigmoid, groups = 8, top_groups = 4>,
moe.layer @sigmoid_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_groups_scaled {
// CHECK: routing = #moe.routing<sigmoid, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @sigmoid_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_renormalize {
// CHECK: routing = #moe.routing<sigmoid_renorm>,
moe.layer @sigmoid_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_renormalize_scaled {
// CHECK: routing = #moe.routing<sigmoid_renorm, scale = 2.5{{[0e+]*}}>,
moe.layer @sigmoid_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_renormalize_groups {
// CHECK: routing = #moe.routing<sigmoid_renorm, groups = 8, top_groups = 4>,
moe.layer @sigmoid_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<sigmoid_renorm, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @sigmoid_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias {
// CHECK: routing = #moe.routing<sigmoid_bias, bias>,
moe.layer @sigmoid_bias {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_scaled {
// CHECK: routing = #moe.routing<sigmoid_bias, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sigmoid_bias_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_groups {
// CHECK: routing = #moe.routing<sigmoid_bias, groups = 8, top_groups = 4, bias>,
moe.layer @sigmoid_bias_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_groups_scaled {
// CHECK: routing = #moe.routing<sigmoid_bias, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sigmoid_bias_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_renormalize {
// CHECK: routing = #moe.routing<minimax2, bias>,
moe.layer @sigmoid_bias_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_renormalize_scaled {
// CHECK: routing = #moe.routing<deepseek_v3, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sigmoid_bias_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_renormalize_groups {
// CHECK: routing = #moe.routing<deepseek_v3, groups = 8, top_groups = 4, bias>,
moe.layer @sigmoid_bias_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sigmoid_bias_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<deepseek_v3, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sigmoid_bias_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus {
// CHECK: routing = #moe.routing<sqrtsoftplus>,
moe.layer @sqrtsoftplus {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_scaled {
// CHECK: routing = #moe.routing<sqrtsoftplus, scale = 2.5{{[0e+]*}}>,
moe.layer @sqrtsoftplus_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_groups {
// CHECK: routing = #moe.routing<sqrtsoftplus, groups = 8, top_groups = 4>,
moe.layer @sqrtsoftplus_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_groups_scaled {
// CHECK: routing = #moe.routing<sqrtsoftplus, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @sqrtsoftplus_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_renormalize {
// CHECK: routing = #moe.routing<deepseek_v4>,
moe.layer @sqrtsoftplus_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_renormalize_scaled {
// CHECK: routing = #moe.routing<deepseek_v4, scale = 2.5{{[0e+]*}}>,
moe.layer @sqrtsoftplus_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_renormalize_groups {
// CHECK: routing = #moe.routing<deepseek_v4, groups = 8, top_groups = 4>,
moe.layer @sqrtsoftplus_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<deepseek_v4, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}>,
moe.layer @sqrtsoftplus_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias {
// CHECK: routing = #moe.routing<sqrtsoftplus, bias>,
moe.layer @sqrtsoftplus_bias {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_scaled {
// CHECK: routing = #moe.routing<sqrtsoftplus, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sqrtsoftplus_bias_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_groups {
// CHECK: routing = #moe.routing<sqrtsoftplus, groups = 8, top_groups = 4, bias>,
moe.layer @sqrtsoftplus_bias_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_groups_scaled {
// CHECK: routing = #moe.routing<sqrtsoftplus, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sqrtsoftplus_bias_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_renormalize {
// CHECK: routing = #moe.routing<deepseek_v4, bias>,
moe.layer @sqrtsoftplus_bias_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_renormalize_scaled {
// CHECK: routing = #moe.routing<deepseek_v4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sqrtsoftplus_bias_renormalize_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_renormalize_groups {
// CHECK: routing = #moe.routing<deepseek_v4, groups = 8, top_groups = 4, bias>,
moe.layer @sqrtsoftplus_bias_renormalize_groups {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, groups = 8, top_groups = 4, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @sqrtsoftplus_bias_renormalize_groups_scaled {
// CHECK: routing = #moe.routing<deepseek_v4, groups = 8, top_groups = 4, scale = 2.5{{[0e+]*}}, bias>,
moe.layer @sqrtsoftplus_bias_renormalize_groups_scaled {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = sqrtsoftplus, renormalize, groups = 8, top_groups = 4, scale = 2.5, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
