// RUN: moec-opt --verify-roundtrip %s | FileCheck %s
// RUN: moec-opt --verify-roundtrip --mlir-print-op-generic %s | moec-opt | FileCheck %s

// Values print by the names of inputs, fields and results; regions may share
// bytes where they share no launch.
// CHECK-LABEL: moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] report #moe.report<backend = grouped, engine = simt> {
// CHECK-NEXT: ^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// CHECK-NEXT: moe.kernel @k kind = combine schedule #moe.block_schedule<threads = 128>{{$}}
// CHECK-NEXT: plan #moe.plan<grid = "tokens", early = true, column_blocks = 1, label = "1x64">{{$}}
// CHECK-NEXT: fields ["y", "positions", "weights"] results ["out"] {
// CHECK-NEXT: ^bb0(%{{y.*}}: tensor<?x64xf32>, %{{positions.*}}: tensor<?x2xi32>, %{{weights.*}}: tensor<?x2xf32>):
// CHECK-NEXT: moe.combine
// CHECK-NEXT: moe.yield
// CHECK: moe.variant @a tokens[1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "128", first = 0, last = 0>, #moe.region<"u", offset = "64", bytes = "64", first = 1, last = 1>] {
// CHECK-NEXT: moe.launch @k(%y, %p, %w) results ["out"] :
// CHECK-NEXT: moe.launch @k(%y, %p, %w) results ["again"] :
// CHECK-NEXT: moe.return %{{.*}} outputs ["out"] optional %p, %w as ["ids", "weights"] :
moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] report #moe.report<backend = grouped, engine = simt> {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine schedule #moe.block_schedule<threads = 128> plan #moe.plan<label = "1x64", grid = "tokens", column_blocks = 1, early = true>
  fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "128", first = 0, last = 0>, #moe.region<"u", offset = "64", bytes = "64", first = 1, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["again"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] optional %p, %w as ["ids", "weights"] : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> ()
}
}
