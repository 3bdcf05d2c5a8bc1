// RUN: moec-opt %s -split-input-file -verify-diagnostics

func.func private @f(%l: tensor<?xf32>) {
  // expected-error@+1 {{'moe.route' op operand #0 must be 2D tensor of floating-point values, but got 'tensor<?xf32>'}}
  %i, %w = moe.route <default> top_k = 2 %l : (tensor<?xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<3x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'logits' must be 'tensor<?x4xf32>', got 'tensor<3x4xf32>'}}
  %i, %w = moe.route <default> top_k = 2 %l : (tensor<3x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.route' op operand #0 must be 2D tensor of floating-point values, but got 'tensor<?x4xi32>'}}
  %i, %w = moe.route <default> top_k = 2 %l : (tensor<?x4xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'top_k' must be between 1 and the 4 experts, got 5}}
  %i, %w = moe.route <default> top_k = 5 %l : (tensor<?x4xf32>) -> (tensor<?x5xi32>, tensor<?x5xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op 'topk_ids' must be 'tensor<?x2xi32>', got 'tensor<?x3xi32>'}}
  %i, %w = moe.route <default> top_k = 2 %l : (tensor<?x4xf32>) -> (tensor<?x3xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>) {
  // expected-error@+1 {{'moe.route' op result #1 must be 2D tensor of 32-bit float values, but got 'tensor<?x2xbf16>'}}
  %i, %w = moe.route <default> top_k = 2 %l : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xbf16>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %g: tensor<?x2xi16>, %v: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.route' op operand #1 must be 2D tensor of 32-bit signless integer or 64-bit signless integer values, but got 'tensor<?x2xi16>'}}
  %i, %w = moe.route <default> top_k = 2 %l given (%g, %v) : (tensor<?x4xf32>, tensor<?x2xi16>, tensor<?x2xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %g: tensor<?x3xi64>, %v: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.route' op 'given_ids' must be 'tensor<?x2xi64>', got 'tensor<?x3xi64>'}}
  %i, %w = moe.route <default> top_k = 2 %l given (%g, %v) : (tensor<?x4xf32>, tensor<?x3xi64>, tensor<?x2xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %g: tensor<?x2xi64>, %v: tensor<?x2xf16>) {
  // expected-error@+1 {{'moe.route' op operand #2 must be 2D tensor of 32-bit float values, but got 'tensor<?x2xf16>'}}
  %i, %w = moe.route <default> top_k = 2 %l given (%g, %v) : (tensor<?x4xf32>, tensor<?x2xi64>, tensor<?x2xf16>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %g: tensor<?x2xi64>) {
  // expected-error@+1 {{'moe.route' op 'given_ids' and 'given_weights' must be given together}}
  %i, %w = "moe.route"(%l, %g) <{routing = #moe.routing<default>, top_k = 2 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>}> : (tensor<?x4xf32>, tensor<?x2xi64>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %m: tensor<4x2xi32>) {
  // expected-error@+1 {{'moe.route' op the two parts of 'replicas' must be given together}}
  %i, %w = "moe.route"(%l, %m) <{routing = #moe.routing<default>, top_k = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0>}> : (tensor<?x4xf32>, tensor<4x2xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %m: tensor<4x2xi32>, %c: tensor<5xi32>) {
  // expected-error@+1 {{'moe.route' op 'replicas' must be 'tensor<4xi32>', got 'tensor<5xi32>'}}
  %i, %w = moe.route <default> top_k = 2 %l replicas (%m, %c) : (tensor<?x4xf32>, tensor<4x2xi32>, tensor<5xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
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
  // expected-error@+1 {{'moe.route' op 'topk_ids' must be 'tensor<?x3xi32>', got 'tensor<?x2xi32>'}}
  %i, %w = moe.route <default> top_k = 2 %l shared = 1 : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%l: tensor<?x4xf32>, %v: tensor<?xi32>) {
  // expected-error@+1 {{'moe.route' op 'valid_tokens' must be 'tensor<1xi32>', got 'tensor<?xi32>'}}
  %i, %w = moe.route <default> top_k = 2 %l valid %v : (tensor<?x4xf32>, tensor<?xi32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'experts' must be positive, got 0}}
  %c = moe.count experts = 0 block_tokens = 64 %i : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'block_tokens' must not be negative, got -1}}
  %c = moe.count experts = 4 block_tokens = -1 %i : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'most_blocks' must be positive, got 0}}
  %c = moe.count experts = 4 block_tokens = 64 most_blocks = 0 %i : (tensor<?x2xi32>) -> tensor<?x4xi32>
  return
}

// -----

func.func private @f(%i: tensor<?x2xi64>) {
  // expected-error@+1 {{'moe.count' op operand #0 must be 2D tensor of 32-bit signless integer values, but got 'tensor<?x2xi64>'}}
  %c = moe.count experts = 4 block_tokens = 64 %i : (tensor<?x2xi64>) -> tensor<?x4xi32>
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.count' op 'block_counts' must be 'tensor<?x4xi32>', got 'tensor<?x5xi32>'}}
  %c = moe.count experts = 4 block_tokens = 64 %i : (tensor<?x2xi32>) -> tensor<?x5xi32>
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'most_blocks' must be positive, got -1}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 most_blocks = -1 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'experts' must be positive, got 0}}
  %p:6 = moe.permute experts = 0 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'tile_rows' and 'block_tokens' must not be negative, got -16 and 64}}
  %p:6 = moe.permute experts = 4 tile_rows = -16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f_step(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'row_step' must divide the 'tile_rows' of 16, got 12}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 row_step = 12 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f_no_step(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'row_step' must divide the 'tile_rows' of 16, got 0}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 row_step = 0 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'local' must be between 0 and the 4 experts, got 5}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 local = 5 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x3xi32>) {
  // expected-error@+1 {{'moe.permute' op 'block_counts' must be 'tensor<?x4xi32>', got 'tensor<?x3xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x3xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'rows' must be 'tensor<?xi32>', got 'tensor<8xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<8xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'positions' must be 'tensor<?x2xi32>', got 'tensor<?x3xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x3xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'offsets' must be 'tensor<3xi32>', got 'tensor<5xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 local = 2 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'tiles' must be 'tensor<?x4xi32>', got 'tensor<?x2xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x2xi32>, tensor<3xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'tile_count' must be 'tensor<3xi32>', got 'tensor<2xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<2xi32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%i: tensor<?x2xi32>, %c: tensor<?x4xi32>) {
  // expected-error@+1 {{'moe.permute' op 'counts' must be 'tensor<4xi32>', got 'tensor<5xi32>'}}
  %p:6 = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %i, %c : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<5xi32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op operand #4 must be 3D tensor of floating-point or integer values, but got 'tensor<32x64xbf16>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x?x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs' must have static sizes, got 'tensor<4x?x64xbf16>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x?x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'pairs' must be given with a gather, and only then}}
  %y = moe.grouped_matmul %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'pairs' must be given with a gather, and only then}}
  %y = moe.grouped_matmul pairs = 2 %x tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'pairs' must be positive, got 0}}
  %y = moe.grouped_matmul pairs = 0 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x32xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x32xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi64>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<?xi64>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi64>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x3xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'tiles' must be 'tensor<?x4xi32>', got 'tensor<?x3xi32>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x3xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<2xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'tile_count' must be 'tensor<3xi32>', got 'tensor<2xi32>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<2xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>, %b: tensor<4x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'bias' must be 'tensor<4x32xbf16>', got 'tensor<4x64xbf16>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w bias %b : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>, tensor<4x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op result #0 must be 2D tensor of floating-point values, but got 'tensor<?x32xi32>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xi32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %r: tensor<?xi32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'result' must be 'tensor<?x32xf32>', got 'tensor<?x64xf32>'}}
  %y = moe.grouped_matmul pairs = 2 %x gather %r tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x64xf32>
  return
}

// -----

func.func private @f(%h: tensor<?xf32>) {
  // expected-error@+1 {{'moe.activate' op operand #0 must be 2D tensor of floating-point values, but got 'tensor<?xf32>'}}
  %t = moe.activate <silu> %h : (tensor<?xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>) {
  // expected-error@+1 {{'moe.activate' op 'interleave' is of gated activations and not negative, got 8 with silu_no_mul}}
  %t = moe.activate <silu_no_mul> interleave = 8 %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x72xf32>) {
  // expected-error@+1 {{'moe.activate' op 'input' must have columns in multiples of 16, got 'tensor<?x72xf32>'}}
  %t = moe.activate <silu> interleave = 8 %h : (tensor<?x72xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>) {
  // expected-error@+1 {{'moe.activate' op 'result' must be 'tensor<?x32xbf16>', got 'tensor<?x64xbf16>'}}
  %t = moe.activate <silu> %h : (tensor<?x64xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>) {
  // expected-error@+1 {{'moe.activate' op 'result' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %t = moe.activate <gelu_no_mul> %h : (tensor<?x64xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>, %o: tensor<5xi64>) {
  // expected-error@+1 {{'moe.activate' op operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<5xi64>'}}
  %t = moe.activate <silu> %h offsets %o : (tensor<?x64xf32>, tensor<5xi64>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%h: tensor<?x64xf32>, %o: tensor<5x1xi32>) {
  // expected-error@+1 {{'moe.activate' op operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<5x1xi32>'}}
  %t = moe.activate <silu> %h offsets %o : (tensor<?x64xf32>, tensor<5x1xi32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.combine' op operand #0 must be 2D/3D tensor of floating-point values, but got 'tensor<?xf32>'}}
  %o = moe.combine %y, %p, %w : (tensor<?xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi64>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.combine' op operand #1 must be 2D tensor of 32-bit signless integer values, but got 'tensor<?x2xi64>'}}
  %o = moe.combine %y, %p, %w : (tensor<?x64xf32>, tensor<?x2xi64>, tensor<?x2xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x3xf32>) {
  // expected-error@+1 {{'moe.combine' op 'topk_weights' must be 'tensor<?x2xf32>', got 'tensor<?x3xf32>'}}
  %o = moe.combine %y, %p, %w : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x3xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.combine' op 'out' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %o = moe.combine %y, %p, %w : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16, #moe.layout<interleave = 8>>) {
  // expected-error@+1 {{'moe.pack' op 'source' must be as stored, got 'tensor<4x32x64xf16, #moe.layout<interleave = 8>>'}}
  %p = moe.pack %w : tensor<4x32x64xf16, #moe.layout<interleave = 8>> -> tensor<4x32x64xf16, #moe.layout<interleave = 8>>
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.pack' op 'result' must have the #moe.layout that kernels read, got 'tensor<4x32x64xf16>'}}
  %p = moe.pack %w : tensor<4x32x64xf16> -> tensor<4x32x64xf16>
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.pack' op 'result' must be 'tensor<4x32x64xf16>', got 'tensor<4x32x64xbf16, #moe.layout<interleave = 8>>'}}
  %p = moe.pack %w : tensor<4x32x64xf16> -> tensor<4x32x64xbf16, #moe.layout<interleave = 8>>
  return
}

// -----

func.func private @f(%s: tensor<4x2xf32>) {
  // expected-error@+1 {{'moe.pack' op 'repeat' must be parts, rows and columns, each at least 1, got [2, 0, 1]}}
  %p = moe.pack %s repeat = [2, 0, 1] : tensor<4x2xf32> -> tensor<4x32xf32, #moe.layout<>>
  return
}

// -----

func.func private @f(%s: tensor<4x2xf32>) {
  // expected-error@+1 {{'moe.pack' op 'result' must be [experts, rows, columns] of 'f32' with 2 equal parts of rows, got 'tensor<4x33xf32, #moe.layout<>>'}}
  %p = moe.pack %s repeat = [2, 16, 1] : tensor<4x2xf32> -> tensor<4x33xf32, #moe.layout<>>
  return
}

// -----

func.func private @f(%s: tensor<4x2xf32>) {
  // expected-error@+1 {{'moe.pack' op 'source' must be 'tensor<4x4xf32>', got 'tensor<4x2xf32>'}}
  %p = moe.pack %s repeat = [2, 8, 1] : tensor<4x2xf32> -> tensor<4x32xf32, #moe.layout<>>
  return
}

// -----

func.func private @f(%s: tensor<4x2x2xf32>, %o: tensor<4x2xi32>) {
  // expected-error@+1 {{'moe.pack' op 'order' is of columns that are not repeated}}
  %p = moe.pack %s order(%o : tensor<4x2xi32>) repeat = [1, 8, 1] : tensor<4x2x2xf32> -> tensor<4x16x2xf32, #moe.layout<>>
  return
}

// -----

func.func private @f(%s: tensor<4x2x2xf32>) {
  // expected-error@+1 {{'moe.pack' op 'alternate' is of numbers that are repeated}}
  %p = moe.pack %s alternate = 1 : tensor<4x2x2xf32> -> tensor<4x2x2xf32, #moe.layout<>>
  return
}

// -----

func.func private @f_run(%s: tensor<4x2x2xf32>) {
  // expected-error@+1 {{'moe.pack' op 'alternate' must be positive, got 0}}
  %p = moe.pack %s repeat = [2, 2, 1] alternate = 0 : tensor<4x2x2xf32> -> tensor<4x4x2xf32, #moe.layout<>>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op a descriptor without a scale quantizes nothing that is of its type}}
  %q = moe.quantize <bf16> %x : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op 'data' must be 'tensor<?x64xf8E4M3FN>', got 'tensor<?x64xf8E5M2>'}}
  %q, %s = moe.quantize <f8E4M3FN, group = [1, 32], scale = f32, dynamic> %x : (tensor<?x64xbf16>) -> (tensor<?x64xf8E5M2>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op a static scale must be an operand}}
  %q = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %s: tensor<1xf32>) {
  // expected-error@+1 {{'moe.quantize' op a dynamic scale is a result, not an operand}}
  %q = moe.quantize <f8E4M3FN, group = [1, 32], scale = f32, dynamic> %x scale %s : (tensor<?x64xbf16>, tensor<1xf32>) -> tensor<?x64xf8E4M3FN>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %s: tensor<1xf16>) {
  // expected-error@+1 {{'moe.quantize' op 'scale' must be of 'f32', got 'tensor<1xf16>'}}
  %q = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32> %x scale %s : (tensor<?x64xbf16>, tensor<1xf16>) -> tensor<?x64xf8E4M3FN>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %s: tensor<1xf32>) {
  // expected-error@+1 {{'moe.quantize' op must have no scale as a result}}
  %q, %r = moe.quantize <f8E4M3FN, group = [1, -1], scale = f32> %x scale %s : (tensor<?x64xbf16>, tensor<1xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op must have a scale as a result}}
  %q = moe.quantize <f8E4M3FN, group = [1, 32], scale = f32, dynamic> %x : (tensor<?x64xbf16>) -> tensor<?x64xf8E4M3FN>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.finalize' op needs several ranks to sum over}}
  %o = moe.finalize ranks = 1 %y : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.finalize' op 'ranks' must be positive, got 0}}
  %o = moe.finalize ranks = 0 %y : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.finalize' op 'stride' must be positive, got -1}}
  %o = moe.finalize ranks = 2 stride = -1 %y : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.finalize' op 'reduce' must be positive, got 0}}
  %o = moe.finalize ranks = 2 reduce = 0 %y : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.finalize' op 'out' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %o = moe.finalize ranks = 2 %y : (tensor<?x64xbf16>) -> tensor<?x32xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'ranks' must be at least 2, got 1}}
  %r:3 = moe.dispatch ranks = 1 %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'stride' must be positive, got 0}}
  %r:3 = moe.dispatch ranks = 2 stride = 0 %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'received_ids' must be 'tensor<?x2xi32>', got 'tensor<?x3xi32>'}}
  %r:3 = moe.dispatch ranks = 2 %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x3xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>, %s: tensor<?x1xf32>) {
  // expected-error@+1 {{'moe.dispatch' op must receive scales as they are sent}}
  %r:4 = moe.dispatch ranks = 2 %x scales %s ids %i weights %w : (tensor<?x64xbf16>, tensor<?x1xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func @amax_both(%x: tensor<?x64xbf16>, %v: tensor<1xi32>, %o: tensor<9xi32>) {
  // expected-error@+1 {{'moe.amax' op 'valid' is of tokens, 'offsets' of sorted and 'counts' of batched rows, got more than one}}
  %a = moe.amax block_rows = 8 %x valid %v offsets %o : (tensor<?x64xbf16>, tensor<1xi32>, tensor<9xi32>) -> tensor<?xf32>
  return
}

// -----

func.func @amax_rows(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.amax' op 'block_rows' must be positive, got 0}}
  %a = moe.amax block_rows = 0 %x : (tensor<?x64xbf16>) -> tensor<?xf32>
  return
}

// -----

func.func @amax_type(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.amax' op result #0 must be 1D tensor of 32-bit float values, but got 'tensor<?xbf16>'}}
  %a = moe.amax block_rows = 8 %x : (tensor<?x64xbf16>) -> tensor<?xbf16>
  return
}

// -----

func.func @quantize_without_block_rows(%x: tensor<?x64xbf16>, %a: tensor<?xf32>) {
  // expected-error@+1 {{'moe.quantize' op 'amax' needs 'block_rows', of each of its numbers}}
  %q, %s = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %x amax %a : (tensor<?x64xbf16>, tensor<?xf32>) -> (tensor<?x64xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func @quantize_without_amax(%x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.quantize' op 'amax' belongs to a dynamic scale of the whole tensor, and only to it}}
  %q, %s = moe.quantize <f8E4M3FN, group = [-1, -1], scale = f32, dynamic> %x : (tensor<?x64xbf16>) -> (tensor<?x64xf8E4M3FN>, tensor<1xf32>)
  return
}

// -----

func.func @matmul_one_scale(%x: tensor<?x64xf8E4M3FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %s: tensor<?x1xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs_scale' must be given with 'rhs_scale'}}
  %y = moe.grouped_matmul lhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32, dynamic> %x tiles (%t, %n), %w lhs_scale %s : (tensor<?x64xf8E4M3FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<?x1xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @matmul_scale_experts(%x: tensor<?x64xf8E4M3FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %l: tensor<?x1xf32>, %s: tensor<5x32xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs_scale' must begin with the 4 experts, got 'tensor<5x32xf32>'}}
  %y = moe.grouped_matmul lhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32, dynamic> rhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s : (tensor<?x64xf8E4M3FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<?x1xf32>, tensor<5x32xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @combine_pairs(%y: tensor<?x3x64xf32>, %p: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.combine' op 'partials' must be 'tensor<?x2x64xf32>', got 'tensor<?x3x64xf32>'}}
  %o = moe.combine %y, %p : (tensor<?x3x64xf32>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @pair_rows_experts(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.pair_rows' op 'experts' must be positive, got 0}}
  %p = moe.pair_rows experts = 0 %i : (tensor<?x2xi32>) -> tensor<?x2xi32>
  return
}

// -----

func.func @pair_rows_local(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.pair_rows' op 'local' must be between 0 and the 4 experts, got 5}}
  %p = moe.pair_rows experts = 4 local = 5 %i : (tensor<?x2xi32>) -> tensor<?x2xi32>
  return
}

// -----

func.func @pair_rows_ids(%i: tensor<?x2xi64>) {
  // expected-error@+1 {{'moe.pair_rows' op operand #0 must be 2D tensor of 32-bit signless integer values, but got 'tensor<?x2xi64>'}}
  %p = moe.pair_rows experts = 4 %i : (tensor<?x2xi64>) -> tensor<?x2xi32>
  return
}

// -----

func.func @pair_rows_positions(%i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.pair_rows' op 'positions' must be 'tensor<?x2xi32>', got 'tensor<?x3xi32>'}}
  %p = moe.pair_rows experts = 4 %i : (tensor<?x2xi32>) -> tensor<?x3xi32>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'experts' must be given only with 'one_sided'}}
  %r:3 = moe.dispatch ranks = 2 experts = 8 %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'experts' must give each of 4 ranks one, got 3}}
  %r:3 = moe.dispatch ranks = 4 one_sided experts = 3 %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'ranks' must be at least 2, got 1}}
  %r:3 = moe.dispatch ranks = 1 one_sided %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op 'stride' must be 1 with 'one_sided', got 2}}
  %r:3 = moe.dispatch ranks = 2 stride = 2 one_sided %x ids %i weights %w : (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %s: tensor<?x4xf32>, %i: tensor<?x2xi32>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.dispatch' op sends at most 2 scales, got 3}}
  %r:6 = moe.dispatch ranks = 2 one_sided %x scales %s, %s, %s ids %i weights %w : (tensor<?x64xbf16>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.send_back' op 'back' must be 'tensor<?x2x64xbf16>', got 'tensor<?x4x64xbf16>'}}
  %b = moe.send_back ranks = 4 experts = 8 %y ids %i : (tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x4x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.send_back' op 'back' must be 'tensor<?x4x64xbf16>', got 'tensor<?x2x64xbf16>'}}
  %b = moe.send_back ranks = 4 %y ids %i : (tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x2x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.send_back' op 'ranks' must be at least 2, got 1}}
  %b = moe.send_back ranks = 1 %y ids %i : (tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x1x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xbf16>, %i: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.send_back' op operand #1 must be 2D tensor of 32-bit signless integer values, but got 'tensor<?x2xf32>'}}
  %b = moe.send_back ranks = 4 %y ids %i : (tensor<?x64xbf16>, tensor<?x2xf32>) -> tensor<?x4x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x2x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.finalize' op needs ids with 'one_sided', and only then}}
  %o = moe.finalize ranks = 2 one_sided %y : (tensor<?x2x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x2x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.finalize' op needs ids with 'one_sided', and only then}}
  %o = moe.finalize ranks = 2 %y ids %i : (tensor<?x2x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x2x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.finalize' op 'stride' and 'reduce' must be 1 with 'one_sided', got 1 and 2}}
  %o = moe.finalize ranks = 2 reduce = 2 one_sided %y ids %i : (tensor<?x2x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x2x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.finalize' op 'partials' must be 'tensor<?x3x64xbf16>', got 'tensor<?x2x64xbf16>'}}
  %o = moe.finalize ranks = 3 one_sided %y ids %i : (tensor<?x2x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x2x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.finalize' op 'experts' must give each of 4 ranks one, got 2}}
  %o = moe.finalize ranks = 4 one_sided experts = 2 %y ids %i : (tensor<?x2x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @shared_rows_tile(%v: tensor<1xi32>) {
  // expected-error@+1 {{'moe.shared_rows' op 'tile_rows' must not be negative, got -1}}
  %t, %c, %o, %p, %w = moe.shared_rows tile_rows = -1 valid %v : (tensor<1xi32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>, tensor<?x1xi32>, tensor<?x1xf32>)
  return
}

// -----

func.func @shared_rows_step(%v: tensor<1xi32>) {
  // expected-error@+1 {{'moe.shared_rows' op 'row_step' must divide the 'tile_rows' of 64, got 48}}
  %t, %c, %o, %p, %w = moe.shared_rows tile_rows = 64 row_step = 48 valid %v : (tensor<1xi32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>, tensor<?x1xi32>, tensor<?x1xf32>)
  return
}

// -----

func.func @shared_rows_gate(%g: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.shared_rows' op 'gate' must be 'tensor<?x1xf32>', got 'tensor<?x2xf32>'}}
  %t, %c, %o, %p, %w = moe.shared_rows tile_rows = 64 gate %g : (tensor<?x2xf32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>, tensor<?x1xi32>, tensor<?x1xf32>)
  return
}

// -----

func.func @shared_rows_offsets(%v: tensor<1xi32>) {
  // expected-error@+1 {{'moe.shared_rows' op 'offsets' must be 'tensor<2xi32>', got 'tensor<3xi32>'}}
  %t, %c, %o, %p, %w = moe.shared_rows tile_rows = 64 valid %v : (tensor<1xi32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<3xi32>, tensor<?x1xi32>, tensor<?x1xf32>)
  return
}

// -----

func.func @shared_rows_weights(%v: tensor<1xi32>) {
  // expected-error@+1 {{'moe.shared_rows' op result #4 must be 2D tensor of 32-bit float values, but got 'tensor<?x1xf16>'}}
  %t, %c, %o, %p, %w = moe.shared_rows tile_rows = 64 valid %v : (tensor<1xi32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>, tensor<?x1xi32>, tensor<?x1xf16>)
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %n: tensor<64xf32>) {
  // expected-error@+1 {{'moe.combine_normed' op 'epsilon' must be a positive number of f32, got 0.000000e+00}}
  %o = moe.combine_normed epsilon = 0.0 %y, %p, %w norm %n : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<64xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %n: tensor<32xf32>) {
  // expected-error@+1 {{'moe.combine_normed' op 'norm_weight' must be 'tensor<64xf32>', got 'tensor<32xf32>'}}
  %o = moe.combine_normed epsilon = 1.0 %y, %p, %w norm %n : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<32xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %n: tensor<64xf32>, %r: tensor<?x64xf32>) {
  // expected-error@+1 {{'moe.combine_normed' op 'residual' must be 'tensor<?x64xbf16>', got 'tensor<?x64xf32>'}}
  %o = moe.combine_normed epsilon = 1.0 %y, %p, %w norm %n residual %r : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<64xf32>, tensor<?x64xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %i: tensor<?x2xi32>, %c: tensor<3x64xf32>) {
  // expected-error@+1 {{'moe.combine_constants' op 'experts' must be positive, got 0}}
  %o = moe.combine_constants experts = 0 %y, %p, %w, %i constants %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<3x64xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %i: tensor<?x2xi32>, %c: tensor<3x32xf32>) {
  // expected-error@+1 {{'moe.combine_constants' op 'constants' must be 'tensor<3x64xf32>', got 'tensor<3x32xf32>'}}
  %o = moe.combine_constants experts = 8 %y, %p, %w, %i constants %c : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x2xi32>, tensor<3x32xf32>) -> tensor<?x64xbf16>
  return
}
