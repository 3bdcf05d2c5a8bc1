// RUN: moec-opt --verify-roundtrip %s | FileCheck %s

// Options that have their default are not printed; each stands in a line.
// CHECK-LABEL: moe.layer @plain {
// CHECK-NEXT: experts = 8,
// CHECK-NEXT: top_k = 2,
// CHECK-NEXT: hidden = 4096,
// CHECK-NEXT: intermediate = 14336,
// CHECK-NEXT: input_type = bf16,
// CHECK-NEXT: output_type = bf16,
// CHECK-NEXT: logits_type = f32,
// CHECK-NEXT: quant = #moe.quant<bf16>,
// CHECK-NEXT: routing = #moe.routing<renormalize>,
// CHECK-NEXT: activation = #moe.activation<silu>,
// CHECK-NEXT: parallel = #moe.parallel<>
// CHECK-NEXT: }
moe.layer @plain {
  experts = 8, top_k = 2, hidden = 4096, intermediate = 14336,
  input_type = bf16, output_type = bf16, logits_type = f32,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>,
  activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  gate_up_order = "gate_first", activation_format = "standard"}

// CHECK-LABEL: moe.layer @everything {
// CHECK: parallel = #moe.parallel<tp = 2, tp_rank = 1, ep, placement = round_robin>,
// CHECK-NEXT: activation_format = "batched",
// CHECK-NEXT: all_to_all = "deepep_low_latency",
// CHECK-NEXT: apply_router_weight_on_input,
// CHECK-NEXT: batch_invariant,
// CHECK-NEXT: constant_experts = 3,
// CHECK-NEXT: defer_finalize,
// CHECK-NEXT: eplb,
// CHECK-NEXT: expert_map,
// CHECK-NEXT: gate_up_order = "interleaved",
// CHECK-NEXT: has_bias,
// CHECK-NEXT: hash_vocabulary = 100,
// CHECK-NEXT: input_quantized,
// CHECK-NEXT: latent_hidden = 1024,
// CHECK-NEXT: local_begin = 1,
// CHECK-NEXT: local_experts = 4,
// CHECK-NEXT: local_intermediate = 2944,
// CHECK-NEXT: local_stride = 2,
// CHECK-NEXT: lora,
// CHECK-NEXT: num_shared_experts = 1,
// CHECK-NEXT: per_expert_scale,
// CHECK-NEXT: post_expert_norm = 1.0{{.*}}e-08,
// CHECK-NEXT: redundant_experts = 2,
// CHECK-NEXT: residual,
// CHECK-NEXT: routed_scale = 2.5{{.*}},
// CHECK-NEXT: routed_scale_on_output,
// CHECK-NEXT: scales_swizzled,
// CHECK-NEXT: shared_expert_gate,
// CHECK-NEXT: shared_intermediate = 512,
// CHECK-NEXT: skip_final_all_reduce,
// CHECK-NEXT: stored_hidden = 3072,
// CHECK-NEXT: stored_intermediate = 3072,
// CHECK-NEXT: stored_layout = "columns",
// CHECK-NEXT: w2_bias = true,
// CHECK-NEXT: zero_experts = 4
// CHECK-NEXT: }
moe.layer @everything {
  experts = 8, top_k = 1, hidden = 3072, intermediate = 2944,
  input_type = bf16, output_type = f16, logits_type = bf16,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<default>,
  activation = #moe.activation<gelu, limit = 7.0>, parallel = #moe.parallel<tp = 2, tp_rank = 1, ep, placement = round_robin>,
  w2_bias = true, local_stride = 2, local_experts = 4, local_begin = 1, local_intermediate = 2944,
  lora, batch_invariant, defer_finalize, skip_final_all_reduce, residual, all_to_all = "deepep_low_latency",
  activation_format = "batched", stored_intermediate = 3072, stored_hidden = 3072, latent_hidden = 1024,
  eplb, expert_map, redundant_experts = 2, shared_expert_gate, shared_intermediate = 512, num_shared_experts = 1,
  zero_experts = 4, hash_vocabulary = 100, per_expert_scale, routed_scale_on_output, routed_scale = 2.5,
  apply_router_weight_on_input, scales_swizzled, input_quantized, stored_layout = "columns",
  gate_up_order = "interleaved", has_bias, post_expert_norm = 1.0e-8, constant_experts = 3}
