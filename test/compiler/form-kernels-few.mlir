// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer=arch=sm_90a --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels --moe-form-kernels --moe-select-schedule --moe-plan-workspace %s | FileCheck %s --check-prefix=LATER

// A few tokens: two kernels, each of which routes. What routing finds is an
// output of the first alone, and the intermediate is all the workspace.

// CHECK: moe.kernel @up_to_4_route_gate_up kind = route_gate_up fields ["logits", "given_ids", "given_weights", "valid_tokens", "lhs", "rhs"] results ["ids", "weights", "counts", "result"]
// CHECK: moe.route
// CHECK: moe.count experts = 128 block_tokens = 4
// CHECK: moe.permute experts = 128 tile_rows = 4 block_tokens = 4
// CHECK: %[[H:.*]] = moe.grouped_matmul pairs = 8
// CHECK: %[[T:.*]] = moe.activate <silu> interleave = 8 %[[H]]
// CHECK: moe.yield %{{.*}}, %{{.*}}, %{{.*}}, %[[T]]
// CHECK: moe.kernel @up_to_4_down_combine kind = down_combine fields ["logits", "given_ids", "given_weights", "valid_tokens", "lhs", "rhs"] results ["out"]
// CHECK: moe.route
// CHECK: moe.permute experts = 128 tile_rows = 4 block_tokens = 4
// CHECK: moe.grouped_matmul
// CHECK: moe.combine
// CHECK: moe.variant @up_to_4 tokens[1, 4] engine "gemv" {
// CHECK-NEXT: moe.launch @up_to_4_route_gate_up(%logits, %given_ids, %given_weights, %valid_tokens, %x, %{{.*}}) results ["ids", "weights", "counts", "t"]
// CHECK-NEXT: moe.launch @up_to_4_down_combine(%logits, %given_ids, %given_weights, %valid_tokens, %t, %w2) results ["out"]
// CHECK-NEXT: moe.return %out outputs ["out"] optional %ids, %weights, %counts as ["ids", "weights", "counts"]
// CHECK: moe.kernel @up_to_128_route_permute kind = route_permute

// LATER: moe.kernel @up_to_4_route_gate_up kind = route_gate_up schedule #moe.gemv_schedule<stages = 6, block_tokens = 4, threads = 512, programmatic>
// LATER: moe.kernel @up_to_4_down_combine kind = down_combine schedule #moe.gemv_schedule<stages = 12, block_tokens = 4, threads = 512, programmatic>
// LATER: moe.variant @up_to_4 tokens[1, 4] engine "gemv" workspace "{{.*}}" regions [#moe.region<"t", offset = "0", bytes = "rows * 1536", first = 0, last = 1>] {
moe.layer @many {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// Quantization stands in both kernels; the intermediate passes as f32.
// CHECK: moe.kernel @up_to_1_route_gate_up kind = route_gate_up fields ["logits", "given_ids", "given_weights", "valid_tokens", "lhs", "rhs", "rhs_scale"] results ["ids", "weights", "counts", "result"]
// CHECK: moe.amax
// CHECK: moe.quantize
// CHECK: moe.grouped_matmul
// CHECK: moe.activate
// CHECK-NOT: moe.quantize
// CHECK: moe.kernel @up_to_1_down_combine kind = down_combine fields ["logits", "given_ids", "given_weights", "valid_tokens", "lhs", "rhs", "rhs_scale"] results ["out"]
// CHECK: moe.amax
// CHECK: moe.quantize
// CHECK: moe.combine
// CHECK: moe.launch @up_to_1_route_gate_up({{.*}}) results ["ids", "weights", "counts", "t"] : {{.*}}tensor<?x208xf32>)
moe.layer @dynamic {
  num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 208, local_begin = 0, local_experts = 8, w2_bias = true}
