// RUN: moec-opt --moe-infer-routing %s | FileCheck %s

// CHECK-LABEL: moe.layer @softmax_renormalize {
// CHECK: routing = #moe.routing<renormalize_naive>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @softmax_renormalize {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// CHECK-LABEL: moe.layer @softmax_plain {
// CHECK: routing = #moe.routing<default>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @softmax_plain {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// A single group and a factor of one are none.
// CHECK-LABEL: moe.layer @one_group_is_none {
// CHECK: routing = #moe.routing<renormalize_naive>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @one_group_is_none {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 1, top_groups = 1, scale = 1.0>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// What the method does not take is left for moe-check-target to refuse.
// CHECK-LABEL: moe.layer @groups_stay {
// CHECK: routing = #moe.routing<renormalize_naive, groups = 8, top_groups = 4>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @groups_stay {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<auto, scoring = softmax, renormalize, groups = 8, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// routed_scale becomes the routing's.
// CHECK-LABEL: moe.layer @scale_moves {
// CHECK: routing = #moe.routing<renormalize, scale = 2.5{{.*}}>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @scale_moves {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, routed_scaling_factor = 2.5}

// A method that is named is kept.
// CHECK-LABEL: moe.layer @named {
// CHECK: routing = #moe.routing<topk>,
// CHECK-NOT: routed_scaling_factor
// CHECK: parallel
moe.layer @named {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<topk>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// What a method cannot do without needs no saying.
// CHECK-LABEL: moe.layer @bias_implied {
// CHECK: routing = #moe.routing<deepseek_v3, groups = 8, top_groups = 4, scale = 2.5{{.*}}, bias>,
moe.layer @bias_implied {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<deepseek_v3, groups = 8, top_groups = 4, scale = 2.5>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// The factor of the output stays the layer's.
// CHECK-LABEL: moe.layer @scale_on_output {
// CHECK: routing = #moe.routing<renormalize>,
// CHECK: apply_routed_scale_to_output
// CHECK-NEXT: routed_scaling_factor = 2.5
moe.layer @scale_on_output {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, routed_scaling_factor = 2.5, apply_routed_scale_to_output}

// Nor does that weights multiply x.
// CHECK-LABEL: moe.layer @weight_on_input {
// CHECK: routing = #moe.routing<llama4>,
// CHECK: apply_router_weight_on_input
moe.layer @weight_on_input {num_experts = 128, top_k = 1, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// A factor of one is none, of logits too.
// CHECK-LABEL: moe.layer @logits_as_they_are {
// CHECK: routing = #moe.routing<minimax2, bias, epsilon = 1.0{{.*}}e-15>,
moe.layer @logits_as_they_are {num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<minimax2, logit_scale = 1.0, epsilon = 1.0e-15>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
