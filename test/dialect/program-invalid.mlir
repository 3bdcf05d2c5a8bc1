// RUN: moec-opt %s -split-input-file -verify-diagnostics

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op 'max_tokens' must be positive, got 0}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 0 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op 'inputs' has 2 names for 1 arguments}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x", "y"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op 'inputs' holds 'x' twice}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x", "x"] {
^bb0(%x: tensor<?x64xbf16>, %y: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op there is no layer @m}}
moe.program @p of @m for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'x' must be 'tensor<?x64xbf16>' as layer @l says (gated), got 'tensor<?x32xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x32xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'logits' must be 'tensor<?x4xf32>' as layer @l says (gated), got 'tensor<?x4xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["logits"] {
^bb0(%x: tensor<?x4xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'w13' must be 'tensor<4x64x64xbf16>' as layer @l says (gated), got 'tensor<4x32x64xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["w13"] {
^bb0(%x: tensor<4x32x64xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'w2' must be 'tensor<4x64x32xbf16>' as layer @l says (gated), got 'tensor<4x32x64xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["w2"] {
^bb0(%x: tensor<4x32x64xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, has_bias, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'b13' must be 'tensor<4x64xbf16>' as layer @l says (gated), got 'tensor<4x32xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["b13"] {
^bb0(%x: tensor<4x32xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, has_bias, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'b2' must be 'tensor<4x64xbf16>' as layer @l says (gated), got 'tensor<4x32xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["b2"] {
^bb0(%x: tensor<4x32xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'given_weights' must be 'tensor<?x2xf32>' as layer @l says (gated), got 'tensor<?x3xf32>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["given_weights"] {
^bb0(%x: tensor<?x3xf32>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'valid_tokens' must be 'tensor<1xi32>' as layer @l says (gated), got 'tensor<?xi32>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["valid_tokens"] {
^bb0(%x: tensor<?xi32>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'expert_owner' is no tensor of layer @l; it has x, logits, given_ids, given_weights, valid_tokens, w13, w2}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["expert_owner"] {
^bb0(%x: tensor<4xi32>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'b13' is no tensor of layer @l; it has x, logits, given_ids, given_weights, valid_tokens, w13, w2}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["b13"] {
^bb0(%x: tensor<4x64xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'out' is no tensor of layer @l; it has x, logits, given_ids, given_weights, valid_tokens, w13, w2}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["out"] {
^bb0(%x: tensor<?x64xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  // expected-error@+1 {{'moe.return' op output 'sum' is no tensor of layer @l; it has out, ids, weights, counts}}
  moe.return %x outputs ["sum"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["given_weights"] {
^bb0(%x: tensor<?x2xf32>):
moe.variant @a tokens [1, 64] {
  // expected-error@+1 {{'moe.return' op output 'out' must be 'tensor<?x64xbf16>' as layer @l says (gated), got 'tensor<?x2xf32>'}}
  moe.return %x outputs ["out"] : (tensor<?x2xf32>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'moe.variant' op covers tokens from 2, but 1 is the first that no earlier variant covers}}
moe.variant @a tokens [2, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
// expected-error@+1 {{'moe.variant' op covers tokens from 10, but 9 is the first that no earlier variant covers}}
moe.variant @b tokens [10, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'moe.variant' op covers tokens up to 65, but the program's max_tokens is 64}}
moe.variant @a tokens [1, 65] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
// expected-error@+1 {{'moe.program' op no variant covers tokens from 9 to max_tokens, 64}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'moe.variant' op tokens must be [min, max] with 1 <= min <= max, got [0, 64]}}
moe.variant @a tokens [0, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'moe.variant' op tokens must be [min, max] with 1 <= min <= max, got [9, 8]}}
moe.variant @a tokens [9, 8] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.return' op 'outputs' has 2 names for 1 values}}
  moe.return %x outputs ["out", "o2"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.return' op 'optional' has 2 names for 1 values}}
  moe.return %x outputs ["out"] optional %x as ["ids", "weights"] : (tensor<?x64xbf16>, tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["w13"] {
^bb0(%w: tensor<4x64x64xbf16>):
%p = moe.pack %w : tensor<4x64x64xbf16> -> tensor<4x64x64xbf16, #moe.layout<interleave = 8>>
// expected-error@+1 {{'moe.pack' op weight 'w13' is packed twice; all kernels read one packed copy}}
%q = moe.pack %w : tensor<4x64x64xbf16> -> tensor<4x64x64xbf16, #moe.layout<interleave = 16>>
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["w13"] {
^bb0(%w: tensor<4x64x64xbf16>):
%p = moe.pack %w : tensor<4x64x64xbf16> -> tensor<4x64x64xbf16, #moe.layout<interleave = 8>>
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.return' op reads weight 'w13' as stored, but it is packed; all kernels read the packed copy}}
  moe.return %w outputs ["out"] : (tensor<4x64x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'builtin.module' op does not belong into a program; it holds moe.pack, moe.pack_order, moe.quantize_weights, moe.kernel and moe.variant}}
builtin.module {}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// expected-error@+1 {{'moe.kernel' op unknown kind of kernel 'sum'; known: route, route_permute, route_pairs, permute, batch, shared_rows, grouped_matmul, activate, combine, combine_normed, combine_constants, dispatch, send_back, combine_send_back, finalize, permute_columns, gather_rows, amax, quantize, dequantize, route_gate_up, down_combine, down_slices, pack_copy, pack_interleave, pack_stored, pack_order, pack_scales, pack_codes}}
moe.kernel @k kind = sum fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
}


// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// expected-error@+1 {{'moe.kernel' op of kind 'activate' holds the stages 'activate', got 'combine'}}
moe.kernel @k kind = activate fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
}


// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// expected-error@+1 {{'moe.kernel' op 'fields' has 2 names for 3 arguments}}
moe.kernel @k kind = combine fields ["y", "positions"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// expected-error@+1 {{'moe.kernel' op 'fields' holds 'y' twice}}
moe.kernel @k kind = combine fields ["y", "y", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
// expected-error@+1 {{'moe.kernel' op 'results' has 2 names for 1 yielded values}}
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out", "ids"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.launch' op there is no kernel @j in this program}}
  %o = moe.launch @j(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.launch' op has 2 operands, but kernel @k has 3}}
  %o = moe.launch @k(%y, %p) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.launch' op operand 1 is 'tensor<?x2xf32>', but kernel @k has 'tensor<?x2xi32>'}}
  %o = moe.launch @k(%y, %w, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xf32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.launch' op has 2 results, but kernel @k has 1}}
  %o, %u = moe.launch @k(%y, %p, %w) results ["out", "u"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<1xi32>)
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.launch' op 'results' has 2 names for 1 values}}
  %o = moe.launch @k(%y, %p, %w) results ["a", "b"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op regions of 't' and 'u' share bytes 32 to 64 during launch 1}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "64", first = 0, last = 1>, #moe.region<"u", offset = "32", bytes = "64", first = 1, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  %n = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y", "p", "w"] {
^bb0(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
moe.kernel @k kind = combine fields ["y", "positions", "weights"] results ["out"] {
^bb0(%a: tensor<?x64xf32>, %b: tensor<?x2xi32>, %c: tensor<?x2xf32>):
  %d = moe.combine %a, %b, %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.yield %d : tensor<?x64xbf16>
}
// expected-error@+1 {{'moe.variant' op region of 't' ends with launch 1, but there are only 1}}
moe.variant @a tokens [1, 64] workspace "128" regions [#moe.region<"t", offset = "0", bytes = "64", first = 0, last = 1>] {
  %o = moe.launch @k(%y, %p, %w) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
// expected-error@+1 {{'moe.program' op input 'w13' must be 'tensor<8x32x64xbf16>' as layer @l says (not gated), got 'tensor<8x64x64xbf16>'}}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["w13"] {
^bb0(%w13: tensor<8x64x64xbf16>):
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  // expected-error@+1 {{'moe.variant' op must end in moe.return}}
  moe.variant @v tokens [1, 64] {
    moe.yield %x : tensor<?x64xbf16>
  }
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 4 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  // expected-error@+1 {{'moe.variant' op 'engine' must be one for few tokens (gemv), got 'simt'}}
  moe.variant @v tokens [1, 4] engine "simt" {
    moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
  }
}

// -----

moe.layer @l {num_experts = 8, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 8, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  // expected-error@+1 {{'moe.variant' op engine 'gemv' supports at most 8 tokens, got 64}}
  moe.variant @v tokens [1, 64] engine "gemv" {
    moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
  }
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
// expected-error@+1 {{'moe.variant' op is for some GPUs only and covers tokens from 9, but earlier variants cover up to 64 on all}}
moe.variant @b tokens [9, 16] multiprocessors 132 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
// expected-error@+1 {{'moe.variant' op 'multiprocessors' must be positive, got 0}}
moe.variant @b tokens [9, 16] multiprocessors 0 {
  moe.return %x outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

// Names in a kernel and in a program are their own: nothing outside means them.
moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["x"] {
^bb0(%x: tensor<?x64xbf16>):
  // expected-error@+1 {{use of undeclared SSA value name}}
  %ids, %weights = moe.route <renormalize> top_k = 2 %logits : (tensor<?x4xbf16>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  moe.kernel @k kind = combine fields ["logits"] results ["topk_ids"] {
  ^bb0(%logits: tensor<?x4xbf16>):
    moe.yield %logits : tensor<?x4xbf16>
  }
}

// -----

// expected-error@+1 {{use of undeclared SSA value name}}
%ids, %weights = moe.route <renormalize> top_k = 2 %logits : (tensor<?x4xbf16>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16, quant = #moe.quant<bf16>, routing = #moe.routing<renormalize>, activation = #moe.activation<silu>, parallel = #moe.parallel<>, intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["logits"] {
^bb0(%logits: tensor<?x4xbf16>):
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y"] {
^bb0(%y: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.collective' op unknown collective 'broadcast'; known: all_gather, reduce_scatter, all_reduce}}
  %o = moe.collective broadcast ranks = 2 (%y) results ["out"] : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y"] {
^bb0(%y: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.collective' op 'ranks' must be at least 2 and 'stride' positive, got 1 and 1}}
  %o = moe.collective all_reduce ranks = 1 (%y) results ["out"] : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y"] {
^bb0(%y: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.collective' op must have results of the types of its operands}}
  %o = moe.collective all_reduce ranks = 2 (%y) results ["out"] : (tensor<?x64xbf16>) -> tensor<?x32xbf16>
  moe.return %o outputs ["out"] : (tensor<?x32xbf16>) -> ()
}
}

// -----

moe.layer @l {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32, in_dtype = bf16, out_dtype = bf16, router_logits_dtype = f32, quant = #moe.quant<bf16>, routing = #moe.routing<default>, activation = #moe.activation<silu>, parallel = #moe.parallel<>}
moe.program @p of @l for #moe.target<sm_90a> max_tokens 64 inputs ["y"] {
^bb0(%y: tensor<?x64xbf16>):
moe.variant @a tokens [1, 64] {
// expected-error@+1 {{'moe.collective' op 'results' has 2 names for 1 values}}
  %o = moe.collective all_reduce ranks = 2 (%y) results ["out", "more"] : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  moe.return %o outputs ["out"] : (tensor<?x64xbf16>) -> ()
}
}
