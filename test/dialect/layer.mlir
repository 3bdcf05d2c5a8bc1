// RUN: moec-opt --verify-roundtrip %s | FileCheck %s

// Options that have their default are not printed; each stands in a line.
// CHECK-LABEL: moe.layer @plain {
// CHECK-NEXT: num_experts = 8,
// CHECK-NEXT: top_k = 2,
// CHECK-NEXT: hidden_size = 4096,
// CHECK-NEXT: intermediate_size = 14336,
// CHECK-NEXT: in_dtype = bf16,
// CHECK-NEXT: out_dtype = bf16,
// CHECK-NEXT: router_logits_dtype = f32,
// CHECK-NEXT: quant = #moe.quant<bf16>,
// CHECK-NEXT: routing = #moe.routing<renormalize>,
// CHECK-NEXT: activation = #moe.activation<silu>,
// CHECK-NEXT: parallel = #moe.parallel<>
// CHECK-NEXT: }
moe.layer @plain {
  num_experts = 8, top_k = 2, hidden_size = 4096, intermediate_size = 14336,
  in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>,
  activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  gate_up_order = "gate_first", activation_format = "standard"}

// CHECK-LABEL: moe.layer @everything {
// CHECK: parallel = #moe.parallel<tp = 2, tp_rank = 1, ep, placement = round_robin>,
// CHECK-NEXT: activation_format = "batched",
// CHECK-NEXT: all_to_all = "deepep_low_latency",
// CHECK-NEXT: apply_routed_scale_to_output,
// CHECK-NEXT: apply_router_weight_on_input,
// CHECK-NEXT: batch_invariant,
// CHECK-NEXT: defer_moe_finalize,
// CHECK-NEXT: enable_eplb,
// CHECK-NEXT: expert_map,
// CHECK-NEXT: gate_up_order = "interleaved",
// CHECK-NEXT: has_bias,
// CHECK-NEXT: hash_vocabulary = 100,
// CHECK-NEXT: input_quantized,
// CHECK-NEXT: intermediate_size_per_partition = 2944,
// CHECK-NEXT: is_lora_enabled,
// CHECK-NEXT: is_scale_swizzled,
// CHECK-NEXT: latent_hidden_size = 1024,
// CHECK-NEXT: local_begin = 1,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: local_stride = 2,
// CHECK-NEXT: n_shared_experts = 1,
// CHECK-NEXT: num_constant_experts = 3,
// CHECK-NEXT: num_redundant_experts = 2,
// CHECK-NEXT: num_zero_experts = 4,
// CHECK-NEXT: per_expert_scale,
// CHECK-NEXT: post_expert_norm_eps = 1.0{{.*}}e-08,
// CHECK-NEXT: residual,
// CHECK-NEXT: routed_scaling_factor = 2.5{{.*}},
// CHECK-NEXT: shared_expert_gate,
// CHECK-NEXT: shared_intermediate_size = 512,
// CHECK-NEXT: skip_final_all_reduce,
// CHECK-NEXT: stored_hidden_size = 3072,
// CHECK-NEXT: stored_intermediate_size_per_partition = 3072,
// CHECK-NEXT: stored_layout = "columns",
// CHECK-NEXT: w2_bias = true
// CHECK-NEXT: }
moe.layer @everything {
  num_experts = 8, top_k = 1, hidden_size = 3072, intermediate_size = 2944,
  in_dtype = bf16, out_dtype = f16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>,
  activation = #moe.activation<gelu, limit = 7.0>, parallel = #moe.parallel<tp = 2, tp_rank = 1, ep, placement = round_robin>,
  w2_bias = true, local_stride = 2, local_experts = 4, local_begin = 1, intermediate_size_per_partition = 2944,
  is_lora_enabled, batch_invariant, defer_moe_finalize, skip_final_all_reduce, residual, all_to_all = "deepep_low_latency",
  activation_format = "batched", stored_intermediate_size_per_partition = 3072, stored_hidden_size = 3072, latent_hidden_size = 1024,
  enable_eplb, expert_map, num_redundant_experts = 2, shared_expert_gate, shared_intermediate_size = 512, n_shared_experts = 1,
  num_zero_experts = 4, hash_vocabulary = 100, per_expert_scale, apply_routed_scale_to_output, routed_scaling_factor = 2.5,
  apply_router_weight_on_input, is_scale_swizzled, input_quantized, stored_layout = "columns",
  gate_up_order = "interleaved", has_bias, post_expert_norm_eps = 1.0e-8, num_constant_experts = 3}
