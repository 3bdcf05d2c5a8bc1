// RUN: moec-opt "--moe-decompose-layer=arch=sm_90a max-tokens=4096" %s | FileCheck %s
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=4096 emit=stages" %s | FileCheck %s --check-prefix=RANGES
// RUN: moec-opt "--moe-pipeline=archs=sm_90a max-tokens=4096 emit=kernels" %s | FileCheck %s --check-prefix=KERNELS

// Ids and weights are outputs that every run writes.
// CHECK-LABEL: moe.program @routes_sm_90a
// CHECK-SAME: part "route" inputs ["logits", "given_ids", "given_weights", "valid_tokens", "routing_bias"] {
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: moe.variant @all tokens[1, 4096] {
// CHECK-NEXT: %[[I:.*]], %[[W:.*]] = moe.route <deepseek_v3, {{.*}}> top_k = 2 %logits given(%given_ids, %given_weights) valid %valid_tokens bias %routing_bias :
// CHECK-NEXT: moe.count experts = 8 block_tokens = 0 %[[I]] :
// CHECK-NEXT: moe.return %[[I]], %[[W]] outputs ["ids", "weights"] :
// RANGES-LABEL: moe.program @routes_sm_90a
// RANGES: moe.variant @up_to_128 tokens[1, 128] {
// RANGES: moe.variant @up_to_2048 tokens[129, 2048] {
// RANGES: moe.variant @up_to_4096 tokens[2049, 4096] {
// RANGES-NOT: moe.variant
// RANGES-LABEL: moe.program @places_sm_90a
// KERNELS-LABEL: moe.program @routes_sm_90a
// KERNELS: moe.kernel @up_to_128_route kind = route fields
// KERNELS: moe.yield %{{.*}}, %{{.*}} : tensor<?x2xi32>, tensor<?x2xf32>
moe.layer @routes {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "route",
  quant = #moe.quant<fp8_channel>, routing = #moe.routing<deepseek_v3, groups = 4, top_groups = 2, bias>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Places are an output where they may be other numbers than ids.
// CHECK-LABEL: moe.program @places_sm_90a
// CHECK: moe.route {{.*}} replicas(%logical_to_physical, %replica_count) physical = 10 shared = 1 :
// CHECK: moe.return %[[I:.*]], %[[W:.*]], %[[I]] outputs ["ids", "weights", "places"] : (tensor<?x3xi32>, tensor<?x3xf32>, tensor<?x3xi32>) -> ()
// KERNELS-LABEL: moe.program @places_sm_90a
// KERNELS: %places, %topk_weights = moe.launch @up_to_128_route
moe.layer @places {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "route", num_redundant_experts = 2, enable_eplb, n_shared_experts = 1,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 11, w2_bias = true}

// One range serves all tokens.
// CHECK-LABEL: moe.program @quantizes_sm_90a
// CHECK-SAME: part "quantize" inputs ["x", "valid_tokens"] {
// CHECK: %[[A:.*]] = moe.amax block_rows = 32 %x valid %valid_tokens :
// CHECK-NEXT: %[[Q:.*]], %[[S:.*]] = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %x block_rows = 32 amax %[[A]] valid %valid_tokens :
// CHECK-NEXT: moe.return %[[Q]], %[[S]] outputs ["x_q", "x_scale"] : (tensor<?x64xf8E4M3FN>, tensor<1xf32>) -> ()
// RANGES-LABEL: moe.program @quantizes_sm_90a
// RANGES-NEXT: ^bb0(
// RANGES-NEXT: moe.variant @up_to_4096 tokens[1, 4096] {
// RANGES-NOT: moe.variant
// RANGES-LABEL: moe.program @weighs_sm_90a
moe.layer @quantizes {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "quantize", input_quantized,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Weights that multiply x come of routing.
// CHECK-LABEL: moe.program @weighs_sm_90a
// CHECK-SAME: inputs ["x", "logits", "given_ids", "given_weights", "valid_tokens", "a1_scale"] {
// CHECK: %{{.*}}, %[[W:.*]] = moe.route <llama4>
// CHECK: moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x weights %[[W]] scale %a1_scale :
moe.layer @weighs {
  num_experts = 8, top_k = 1, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "quantize", apply_router_weight_on_input,
  quant = #moe.quant<fp8_tensor>, routing = #moe.routing<llama4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 64, local_begin = 0, local_experts = 8, w2_bias = true}

// Given ids mean what they mean in the layer; rows of other ranks' experts have
// no position.
// CHECK-LABEL: moe.program @sums_sm_90a
// CHECK-SAME: part "finalize" inputs ["partials", "given_ids", "given_weights", "valid_tokens", "residual"] {
// CHECK-NEXT: ^bb0(%partials: tensor<?x2x64xf16>,
// CHECK: %[[I:.*]], %[[W:.*]] = moe.route <custom> top_k = 2 experts = 8 output_scale = 2.5{{0*}}e+00 given(%given_ids, %given_weights) valid %valid_tokens :
// CHECK-NEXT: moe.count experts = 8 block_tokens = 0 local = 4 %[[I]] :
// CHECK-NEXT: %[[P:.*]] = moe.pair_rows experts = 8 local = 4 %[[I]] : (tensor<?x2xi32>) -> tensor<?x2xi32>
// CHECK-NEXT: %[[O:.*]] = moe.combine %partials, %[[P]], %[[W]] residual %residual : (tensor<?x2x64xf16>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x64xf16>) -> tensor<?x64xf16>
// CHECK-NEXT: moe.return %[[O]] outputs ["out"] :
// KERNELS-LABEL: moe.program @sums_sm_90a
// KERNELS: moe.kernel @up_to_128_route kind = route_pairs fields
// KERNELS: moe.kernel @up_to_128_combine kind = combine fields ["partials", "positions", "topk_weights", "residual"]
moe.layer @sums {
  num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 64, in_dtype = bf16, out_dtype = f16, router_logits_dtype = f32, part = "finalize", residual, routed_scaling_factor = 2.5, apply_routed_scale_to_output,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, ep>, intermediate_size_per_partition = 64, local_begin = 4, local_experts = 4, w2_bias = true}

// The intermediate has the type of x and a row per pair; without adapters the
// first matmul's kernel activates.
// CHECK-LABEL: moe.program @multiplies_sm_90a
// CHECK-SAME: part "gate_up" inputs ["x", "given_ids", "given_weights", "valid_tokens", "gate_up_addend", "w13", "w13_scale", "b13"] {
// CHECK: %[[H:.*]] = moe.grouped_matmul
// CHECK-NEXT: %[[T:.*]] = moe.activate <silu> %[[H]] offsets %{{.*}} addend(%gate_up_addend, %{{.*}}) : {{.*}} -> tensor<?x128xbf16>
// CHECK-NEXT: %[[P:.*]] = moe.gather_rows %[[T]] positions %{{.*}} : (tensor<?x128xbf16>, tensor<?x2xi32>) -> tensor<?x128xbf16>
// CHECK-NEXT: moe.return %[[P]] outputs ["intermediate"] : (tensor<?x128xbf16>) -> ()
// KERNELS-LABEL: moe.program @multiplies_sm_90a
// KERNELS: moe.kernel @up_to_32_activate kind = activate
// KERNELS: moe.kernel @up_to_32_gather_rows kind = gather_rows fields ["input", "positions"] results ["result"]
// KERNELS: %intermediate = moe.launch @up_to_32_gather_rows
moe.layer @multiplies {
  num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "gate_up", is_lora_enabled, has_bias,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 128, local_begin = 0, local_experts = 8, w2_bias = true}

// Rows of pairs are sorted, and then quantized.
// CHECK-LABEL: moe.program @ends_sm_90a
// CHECK-SAME: part "down" inputs ["intermediate", "given_ids", "given_weights", "valid_tokens", "down_addend", "residual", "w2", "w2_scale", "b2"] {
// CHECK: %[[S:.*]] = moe.gather_rows %intermediate rows(%[[R:.*]], %[[O:.*]]) : (tensor<?x128xbf16>, tensor<?xi32>, tensor<9xi32>) -> tensor<?x128xbf16>
// CHECK-NEXT: %[[Q:.*]], %[[C:.*]] = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %[[S]] offsets %[[O]] :
// CHECK-NEXT: %[[Y:.*]] = moe.grouped_matmul
// CHECK-NEXT: moe.combine %[[Y]], %{{.*}}, %{{.*}} residual %residual addend %down_addend :
// KERNELS-LABEL: moe.program @ends_sm_90a
// KERNELS: moe.kernel @up_to_32_gather_rows kind = gather_rows fields ["input", "rows", "offsets"] results ["result"]
// KERNELS: moe.kernel @up_to_32_quantize_t kind = quantize
// KERNELS: %t_sorted = moe.launch @up_to_32_gather_rows
moe.layer @ends {
  num_experts = 8, top_k = 2, hidden_size = 128, intermediate_size = 128, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, part = "down", is_lora_enabled, has_bias, residual,
  quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 128, local_begin = 0, local_experts = 8, w2_bias = true}
