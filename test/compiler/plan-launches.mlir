// DEFINE: %{scheduled} = --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels --moe-select-schedule --moe-plan-workspace --moe-merge-kernels --moe-plan-launches
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=8192" %{scheduled} %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer="arch=sm_90a max-tokens=8192" %{scheduled} --moe-plan-launches %s | FileCheck %s
// RUN: moec-opt --moe-decompose-layer="arch=sm_75 max-tokens=8192" %{scheduled} %s | FileCheck %s --check-prefix=SM75

// The two kernels of a few tokens route early: nobody writes what they route by.
// CHECK: moe.kernel @up_to_4_route_gate_up kind = route_gate_up schedule
// CHECK-NEXT: plan #moe.plan<grid = "rows * 48", shared_bytes = 114688, label = "4">
// CHECK: moe.kernel @up_to_4_down_combine kind = down_combine schedule
// CHECK-NEXT: plan #moe.plan<grid = "rows * 128", shared_bytes = 147456, early = true, label = "4">

// The launch in front of the first matmul makes its tiles, so they are not read
// early. It counts column tiles as they are stored, and the second one awaits
// twelve of them.
// CHECK: moe.kernel @up_to_128_route_permute
// CHECK-NEXT: plan #moe.plan<grid = "8", label = "16">
// CHECK: moe.kernel @up_to_128_gate_up
// CHECK-NEXT: plan #moe.plan<grid = "12 * min(rows, ceildiv(rows, 64) + 128)", shared_bytes = {{[0-9]+}}, cursor = 1, counts = true, label = "64x128x64">
// CHECK: moe.kernel @up_to_128_down
// CHECK-NEXT: plan #moe.plan<grid = "16 * min(rows, ceildiv(rows, 64) + 128)", shared_bytes = {{[0-9]+}}, early = true, cursor = 2, awaits = 12, label = "64x128x64">
// CHECK: moe.kernel @up_to_128_combine
// CHECK-NEXT: plan #moe.plan<grid = "tokens * 4", early = true, column_blocks = 4, label = "1x512">

// Larger tiles are not awaited one by one.
// CHECK: moe.kernel @up_to_724_permute
// CHECK-NEXT: plan #moe.plan<grid = "ceildiv(tokens, 16)", label = "16x192">
// CHECK: moe.kernel @up_to_724_gate_up
// CHECK-NEXT: cursor = 1, label = "192x128x64">
// CHECK: moe.kernel @up_to_724_down
// CHECK-NEXT: early = true, cursor = 2, label = "192x128x64">

// An arch without programmatic launches reads nothing early, and no kernel is
// persistent.
// SM75-NOT: early
// SM75-NOT: cursor
// SM75: moe.variant
moe.layer @many {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// A tensor's maxima have blocks of rows; a row of x is quantized by 32 threads
// or more, and beside routing the grid is of both.
// CHECK: moe.program @rows_sm_90a
// CHECK: kind = route_permute schedule
// CHECK-NEXT: plan #moe.plan<grid = "8 + ceildiv(ceildiv(tokens, 4), 8) * 8", label = "16">
moe.layer @rows {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_channel>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// CHECK: moe.program @dynamic_sm_90a
// CHECK: kind = amax schedule
// CHECK-NEXT: plan #moe.plan<grid = "ceildiv(tokens, 32)", label = "32">
moe.layer @dynamic {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor_dynamic>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}

// The static scale of the whole intermediate is written once and counted by no
// column tile, so the second matmul awaits the end of the first.
// CHECK: moe.program @static_sm_90a
// CHECK-NOT: awaits
// CHECK-NOT: counts = true
moe.layer @static {
  num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
  quant = #moe.quant<fp8_tensor>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>,
  intermediate_size_per_partition = 768, local_begin = 0, local_experts = 128, w2_bias = true}
