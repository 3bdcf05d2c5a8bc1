// RUN: moec-opt %s -split-input-file -verify-diagnostics

// The first value that a verifier accepts, and further ones that it refuses: the other files have one refusal of each kind.

moe.layer @l1 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.layer @l2 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 1, local_begin = 7, local_experts = 1, w2_bias = true}
moe.layer @l3 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 8, local_experts = 0, w2_bias = true}
moe.layer @l4 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 1, local_experts = 4, w2_bias = true, local_stride = 2, expert_map}
moe.layer @l5 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true, stored_hidden_size = 64, stored_intermediate_size_per_partition = 32}
moe.layer @l6 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, num_zero_experts = 0, n_shared_experts = 0, num_redundant_experts = 0}
moe.layer @l7 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 2, shared_intermediate_size = 24, shared_intermediate_size_per_partition = 48, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.layer @l8 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 2, shared_intermediate_size = 24, shared_intermediate_size_per_partition = 1, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.layer @l9 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 4, top_groups = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l10 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default, groups = 4, top_groups = 4>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l11 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<sigmoid_sinks, sinks = 1>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.layer @l12 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: 0, 3>}
moe.layer @l13 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, dp_rank = 3, ep>, ranks = array<i64: 3>}
moe.layer @l14 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, tp_rank = 1, pcp = 2, pcp_rank = 1, dp = 2, dp_rank = 1, rank = 7>}
moe.layer @l15 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 2, dp = 2, rank = 0>}
moe.layer @l16 {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, sp = 4>}

// -----

// expected-error@+1 {{'moe.layer' op local experts -1 + i * 1, 2 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = -1, local_experts = 2, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 0 + i * 1, -1 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = -1, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op local experts 0 + i * 0, 2 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 2, w2_bias = true, local_stride = 0}

// -----

// expected-error@+1 {{'moe.layer' op local experts 7 + i * 1, 2 of them, do not lie in the 8 experts}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 7, local_experts = 2, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op 'shared_intermediate_size_per_partition' must be between 1 and the 48 of the shared experts together, got 0}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, n_shared_experts = 2, shared_intermediate_size = 24, shared_intermediate_size_per_partition = 0, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}

// -----

// expected-error@+1 {{'moe.layer' op 'ranks' must be some of 0 to 3 (dp * pcp * tp ranks), ascending}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<dp = 4, ep>, ranks = array<i64: -1, 1>}

// -----

// expected-error@+1 {{'moe.layer' op 'top_k' must be at most the 8 experts, got 9}}
moe.layer @l {num_experts = 8, top_k = 9, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}

// -----

// expected-error@+1 {{'rank' is 0, but the ranks of dp, pcp and tp flatten to 2}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 2, pcp = 2, pcp_rank = 1, rank = 0>}

// -----

// expected-error@+1 {{'pcp_rank' must be between 0 and 1, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<pcp = 2, pcp_rank = -1>}

// -----

// expected-error@+1 {{'sp' must be at least 1, got -1}}
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<sp = -1>}

// -----

// Regions that touch, in bytes or in launches, share nothing.
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "64", first = 0, last = 1>, #moe.region<"u", offset = "64", bytes = "64", first = 1, last = 1>, #moe.region<"v", offset = "128", bytes = "32", first = 0, last = 0>, #moe.region<"z", offset = "128", bytes = "32", first = 1, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op regions of 't' and 'u' share bytes 63 to 64 during launch 1}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "64", first = 0, last = 1>, #moe.region<"u", offset = "63", bytes = "64", first = 1, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op regions of 't' and 'u' share bytes 64 to 65 during launch 1}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "64", bytes = "64", first = 1, last = 1>, #moe.region<"u", offset = "0", bytes = "65", first = 0, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op regions of 't' and 'v' share bytes 16 to 32 during launch 0}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "32", first = 0, last = 0>, #moe.region<"u", offset = "32", bytes = "32", first = 0, last = 0>, #moe.region<"v", offset = "16", bytes = "64", first = 0, last = 0>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op region of 'u' ends with launch 2, but there are only 2}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "32", first = 0, last = 0>, #moe.region<"u", offset = "32", bytes = "32", first = 0, last = 2>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

// A variant for some GPUs begins where the one for all begins, or later, and comes before it.
moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @b tokens [9, 16] multiprocessors 132 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @c tokens [12, 64] multiprocessors 1 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @d tokens [9, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
// expected-error@+1 {{'moe.variant' op is for some GPUs only and covers tokens from 8, but earlier variants cover up to 8 on all}}
moe.variant @b tokens [8, 16] multiprocessors 132 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @d tokens [9, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
// expected-error@+1 {{'moe.variant' op covers tokens up to 65, but the program's max_tokens is 64}}
moe.variant @b tokens [9, 65] multiprocessors 132 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
moe.variant @d tokens [9, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  %o = moe.collective all_reduce ranks = 2 stride = 1 (%x) results ["out"] : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.collective' op 'ranks' must be at least 2 and 'stride' positive, got 2 and 0}}
  %o = moe.collective all_reduce ranks = 2 stride = 0 (%x) results ["out"] : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %m: tensor<4x2xi32>, %c: tensor<4xi32>, %ids: tensor<?x2xi32>) {
  %i, %w = moe.route <default> top_k = 4 %l zero = 3 : (tensor<?x4xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>)
  %j, %v = moe.route <default> top_k = 1 %l replicas (%m, %c) zero = 0 : (tensor<?x4xf32>, tensor<4x2xi32>, tensor<4xi32>) -> (tensor<?x1xi32>, tensor<?x1xf32>)
  %n = moe.count experts = 4 block_tokens = 0 local = 0 %ids : (tensor<?x2xi32>) -> tensor<?x4xi32>
  %o = moe.count experts = 4 block_tokens = 0 local = 4 %ids : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %m: tensor<4x2xi32>, %c: tensor<4xi32>) {
  // expected-error@+1 {{'moe.route' op 'zero' must leave experts that have weights, and these no 'replicas', got 1}}
  %i, %w = moe.route <default> top_k = 2 %l replicas (%m, %c) zero = 1 : (tensor<?x4xf32>, tensor<4x2xi32>, tensor<4xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'zero' must leave experts that have weights, and these no 'replicas', got -1}}
  %i, %w = moe.route <default> top_k = 2 %l zero = -1 : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'top_k' must be between 1 and the 4 experts, got 0}}
  %i, %w = moe.route <default> top_k = 0 %l : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'top_k' must be between 1 and the 4 experts, got 5}}
  %i, %w = moe.route <default> top_k = 5 %l : (tensor<?x4xf32>) -> (tensor<?x5xi32>, tensor<?x5xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %g: tensor<?x1xf32>) {
  // expected-error@+1 {{'moe.route' op 'shared' must be positive, and with a 'gate' given, got 0}}
  %i, %w = moe.route <default> top_k = 2 %l gate %g : (tensor<?x4xf32>, tensor<?x1xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'shared' must be positive, and with a 'gate' given, got -1}}
  %i, %w = moe.route <default> top_k = 2 %l shared = -1 : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%ids: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'local' must be between 0 and the 4 experts, got -1}}
  %n = moe.count experts = 4 block_tokens = 0 local = -1 %ids : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}
