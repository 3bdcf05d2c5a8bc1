// RUN: moec-opt --moe-merge-kernels %s | FileCheck %s

// Kernels that differ only in the source of their schedules are one, which keeps a measured source, the rows of all, and each reason for a
// separate launch once. A kernel with other fields is another one.

// CHECK:      moe.kernel @a kind = combine schedule #moe.simt_schedule<{{.*}}, source = tuned>
// CHECK-NEXT: fields ["y", "positions", "weights"] results ["out"] attributes {moe.apart = "one; two",
// CHECK-SAME: moe.measured_by = "file, 2 tokens; file, 3 tokens",
// CHECK-SAME: moe.sources = {four = {moe.measured_by = "file, 3 tokens", source = "tuned"},
// CHECK-SAME: one = {moe.measured_beside = "rows for 9 tokens", source = "default"},
// CHECK-SAME: three = {moe.measured_by = "file, 3 tokens", source = "tuned"},
// CHECK-SAME: two = {moe.measured_by = "file, 2 tokens", source = "tuned"}}} {
// CHECK-NOT:  moe.kernel
// CHECK:      moe.kernel @e
// CHECK:      moe.variant @one
// CHECK-NEXT: moe.launch @a
// CHECK:      moe.variant @two
// CHECK-NEXT: moe.launch @a
// CHECK:      moe.variant @three
// CHECK-NEXT: moe.launch @a
// CHECK:      moe.variant @five
// CHECK-NEXT: moe.launch @e

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 5 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @a kind = combine schedule #moe.simt_schedule<tile = [16, 64, 32], stages = 3, warps = [1, 4], group = 8, source = default> fields ["y", "positions", "weights"] results ["out"] attributes {moe.apart = "one", moe.measured_beside = "rows for 9 tokens"} {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.kernel @b kind = combine schedule #moe.simt_schedule<tile = [16, 64, 32], stages = 3, warps = [1, 4], group = 8, source = tuned> fields ["y", "positions", "weights"] results ["out"] attributes {moe.apart = "two", moe.measured_by = "file, 2 tokens"} {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.kernel @c kind = combine schedule #moe.simt_schedule<tile = [16, 64, 32], stages = 3, warps = [1, 4], group = 8, source = tuned> fields ["y", "positions", "weights"] results ["out"] attributes {moe.apart = "one", moe.measured_by = "file, 3 tokens"} {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.kernel @d kind = combine schedule #moe.simt_schedule<tile = [16, 64, 32], stages = 3, warps = [1, 4], group = 8, source = tuned> fields ["y", "positions", "weights"] results ["out"] attributes {moe.measured_by = "file, 3 tokens"} {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.kernel @e kind = combine schedule #moe.simt_schedule<tile = [16, 64, 32], stages = 3, warps = [1, 4], group = 8, source = default> fields ["partials", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @one tokens [1, 1] {
  %o = moe.launch @a(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @two tokens [2, 2] {
  %o = moe.launch @b(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @three tokens [3, 3] {
  %o = moe.launch @c(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @four tokens [4, 4] {
  %o = moe.launch @d(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @five tokens [5, 5] {
  %o = moe.launch @e(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}
