// Regions may share bytes or launches, but not both.
//
// DEFINE: %{offset} =
// DEFINE: %{bytes} =
// DEFINE: %{first} =
// DEFINE: %{last} =
// DEFINE: %{verify} = sed -e s/OFFSET/%{offset}/ -e s/BYTES/%{bytes}/ -e s/FIRST/%{first}/ -e s/LAST/%{last}/ %s | moec-opt --verify-diagnostics -o /dev/null
// DEFINE: %{clash} = sed -e s/OFFSET/%{offset}/ -e s/BYTES/%{bytes}/ -e s/FIRST/%{first}/ -e s/LAST/%{last}/ %s | not moec-opt 2>&1 | grep
//
// The bytes before and behind those of 't', and the launches before and behind.
// REDEFINE: %{offset} = 0
// REDEFINE: %{bytes} = 16
// REDEFINE: %{first} = 1
// REDEFINE: %{last} = 2
// RUN: %{verify}
// REDEFINE: %{offset} = 80
// RUN: %{verify}
// REDEFINE: %{offset} = 16
// REDEFINE: %{bytes} = 64
// REDEFINE: %{first} = 0
// REDEFINE: %{last} = 0
// RUN: %{verify}
// REDEFINE: %{first} = 3
// REDEFINE: %{last} = 3
// RUN: %{verify}
//
// One byte at each end, and all of them.
// REDEFINE: %{offset} = 0
// REDEFINE: %{bytes} = 17
// REDEFINE: %{first} = 0
// REDEFINE: %{last} = 1
// RUN: %{clash} "regions of 't' and 'v' share bytes 16 to 17 during launch 1"
// REDEFINE: %{offset} = 79
// REDEFINE: %{first} = 2
// REDEFINE: %{last} = 3
// RUN: %{clash} "regions of 't' and 'v' share bytes 79 to 80 during launch 2"
// REDEFINE: %{offset} = 0
// REDEFINE: %{bytes} = 96
// REDEFINE: %{first} = 0
// REDEFINE: %{last} = 3
// RUN: %{clash} "regions of 't' and 'v' share bytes 16 to 80 during launch 1"
//
// Not the first region alone is looked at.
// REDEFINE: %{offset} = 210
// REDEFINE: %{bytes} = 1
// RUN: %{clash} "regions of 'u' and 'v' share bytes 210 to 211 during launch 0"
// REDEFINE: %{last} = 4
// RUN: %{clash} "region of 'v' ends with launch 4, but there are only 4"

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] workspace "512" regions [#moe.region<"t", offset = "16", bytes = "64", first = 1, last = 2>, #moe.region<"u", offset = "200", bytes = "64", first = 0, last = 3>, #moe.region<"v", offset = "OFFSET", bytes = "BYTES", first = FIRST, last = LAST>] {
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %m = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %q = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}
