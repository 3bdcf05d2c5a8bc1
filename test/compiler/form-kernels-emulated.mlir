// RUN: moec-opt --moe-resolve-parallel --moe-decompose-layer=arch=sm_80,sm_75 --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels %s | FileCheck %s
// RUN: moec-opt --moe-resolve-parallel --moe-decompose-layer=arch=sm_80 --moe-choose-weight-layout --moe-choose-backend --moe-make-variants --moe-form-kernels=quantize-apart %s | FileCheck %s --check-prefix=ASKED
// RUN: moec-opt --moe-resolve-parallel --moe-decompose-layer=arch=sm_80 --moe-choose-weight-layout --moe-choose-backend=backend=unfused --moe-make-variants --moe-form-kernels %s | FileCheck %s --check-prefix=UNFUSED
// RUN: moec-opt --moe-resolve-parallel --moe-decompose-layer=arch=sm_80 --moe-choose-weight-layout --moe-choose-backend=engine=simt --moe-make-variants --moe-form-kernels --moe-select-schedule --moe-plan-workspace --moe-merge-kernels %s | FileCheck %s --check-prefix=MERGED

// A group of 32 columns is 64 weight rows, which every tile has: the kernel that
// computes them quantizes them, of f32, and leaves 16 bits without scales. 208
// columns end in half a group.
// CHECK-LABEL: moe.program @mx_sm_80
// CHECK-NOT: moe.apart
// CHECK: moe.kernel @up_to_32_gate_up kind = grouped_matmul fields ["lhs", "rows", "tiles", "tile_count", "rhs", "rhs_scale"] results ["data"] {
// CHECK: moe.activate {{.*}} -> tensor<?x208xf32>
// CHECK-NEXT: moe.quantize {{.*}} -> tensor<?x208xbf16>
// CHECK-NEXT: moe.yield
// CHECK: %t_q = moe.launch @up_to_32_gate_up(%x_q,
// CHECK-NEXT: moe.launch @up_to_32_down(%t_q,
// CHECK: %t_q = moe.launch @up_to_65536_gate_up(%x_q,
// CHECK-NEXT: moe.launch @up_to_65536_down(%t_q,
// The same skeleton on an arch without tensor cores of that type.
// CHECK-LABEL: moe.program @mx_sm_75
// CHECK-NOT: moe.apart
// ASKED-LABEL: moe.program @mx_sm_80
// ASKED: moe.kernel @up_to_32_quantize_t kind = quantize fields ["input", "offsets"] results ["data"] attributes {moe.apart = "as asked for"} {
// ASKED: %t = moe.launch @up_to_32_gate_up(%x_q,
// ASKED-NEXT: moe.launch @up_to_32_quantize_t(%t, %offsets) results ["t_q"]
// Where each stage is a kernel nothing could be shared.
// UNFUSED-LABEL: moe.program @mx_sm_80
// UNFUSED-NOT: moe.apart
// UNFUSED: moe.launch @{{.*}}_quantize_t(%t, %offsets) results ["t_q"]
moe.layer @mx {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Scales of e4m3 are divided by, scale for scale: faster in a launch of its own.
// CHECK-LABEL: moe.program @nv_sm_80
// CHECK: moe.kernel @up_to_32_quantize_t kind = quantize {{.*}} attributes {moe.apart = "scales that are no powers of two are divided by, which a launch of its own does faster"} {
moe.layer @nv {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// A scale of all values that is given comes with the matmul, also where nothing
// else is to be shared.
// CHECK-LABEL: moe.program @given_sm_80
// CHECK: moe.kernel @up_to_32_gate_up kind = grouped_matmul fields [{{.*}}, "static_scale"] results ["data"] {
// ASKED-LABEL: moe.program @given_sm_80
// ASKED: moe.kernel @up_to_32_gate_up kind = grouped_matmul fields [{{.*}}, "static_scale"] results ["data"] {
moe.layer @given {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<mxfp4_fp8>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// A scale of a row follows from columns of many CTAs.
// CHECK-LABEL: moe.program @row_sm_80
// CHECK: moe.kernel @up_to_32_quantize_t kind = quantize fields ["input", "offsets"] results ["data"] attributes {moe.apart = "a scale follows from more values than a CTA has"} {
// CHECK: moe.launch @up_to_32_quantize_t(%t, %offsets) results ["t_q"]
moe.layer @row {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<nvfp4_per_token>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Groups of 128 are 256 weight rows, more than tiles have.
// CHECK-LABEL: moe.program @block_sm_80
// CHECK: moe.kernel @up_to_32_quantize_t kind = quantize fields ["input", "offsets"] results ["data", "scale"] attributes {moe.apart = "128 columns that share a scale are 256 weight rows; engine 'mma_sync' quantizes a divisor of 64"} {
// CHECK: moe.launch @up_to_32_quantize_t(%t, %offsets)
// CHECK: moe.launch @up_to_65536_quantize_t(%t, %offsets)
moe.layer @block {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// Without gates they are 128, with scales that are divided by.
// CHECK-LABEL: moe.program @plain_sm_80
// CHECK: moe.kernel @up_to_32_quantize_t kind = quantize {{.*}} attributes {moe.apart = "128 columns that share a scale are 128 weight rows; engine 'mma_sync' quantizes a divisor of 64"} {
// One launch of its own for several tiles has their reason once.
// MERGED-LABEL: moe.program @plain_sm_80
// MERGED: moe.kernel @up_to_32_quantize_t kind = quantize schedule
// MERGED-NEXT: fields {{.*}} attributes {moe.apart = "128 columns that share a scale are 128 weight rows; engine 'simt' quantizes a divisor of 64"
moe.layer @plain {num_experts = 8, top_k = 2, hidden_size = 336, intermediate_size = 208, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<fp8_block>, routing = #moe.routing<renormalize>, activation = #moe.activation<relu2_no_mul>, parallel = #moe.parallel<>}
