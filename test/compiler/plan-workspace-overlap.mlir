// DEFINE: %{scheduled} = --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels --moe-select-schedule
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=8192" %{scheduled} --moe-plan-workspace %s | FileCheck %s

// The second matmul begins while the first one still reads the rows of its
// tokens: they live one launch longer than their last reader. "y_f32", which
// the second one writes, lies elsewhere.
// CHECK: moe.variant @up_to_128 {{.*}}[#moe.region<"topk_ids", offset = "{{[^"]*}}", bytes = "{{[^"]*}}", first = 0, last = 0>,
// CHECK-SAME: #moe.region<"rows", offset = "end(topk_weights)", bytes = "rows * 4", first = 0, last = 2>,
// CHECK-SAME: #moe.region<"tiles", {{[^>]*}}, first = 0, last = 2>,
// CHECK-SAME: #moe.region<"t", {{[^>]*}}, first = 1, last = 2>,
// CHECK-SAME: #moe.region<"y_f32", offset = "0", bytes = "rows * 8192", first = 2, last = 3>]
// CHECK: moe.launch @up_to_128_route_permute(
// CHECK-NEXT: moe.launch @up_to_128_gate_up(%x, %rows,
// CHECK-NEXT: moe.launch @up_to_128_down(
// CHECK-NEXT: moe.launch @up_to_128_combine(

// Larger tiles do not overlap: the rows end with the launch that reads them.
// CHECK: moe.variant @up_to_724
// CHECK-SAME: #moe.region<"rows", {{[^>]*}}, first = 1, last = 2>,
// CHECK: moe.launch @up_to_724_route(
// CHECK-NEXT: moe.launch @up_to_724_permute(
// CHECK-NEXT: moe.launch @up_to_724_gate_up(%x, %rows,
moe.layer @many {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}
