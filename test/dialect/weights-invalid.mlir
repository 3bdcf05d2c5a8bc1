// RUN: moec-opt %s -split-input-file -verify-diagnostics

// Weights that multiply tokens, and what zero experts hand on.

func.func private @f(%x: tensor<?x64xbf16>, %w: tensor<?x2xbf16>) {
  // expected-error@+1 {{'moe.quantize' op operand #1 must be 2D tensor of 32-bit float values, but got 'tensor<?x2xbf16>'}}
  %q = moe.quantize <bf16> %x weights %w : (tensor<?x64xbf16>, tensor<?x2xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %w: tensor<?x2xf32>) {
  // expected-error@+1 {{'moe.quantize' op a descriptor without a scale has none, neither as an operand nor as a result}}
  %q, %s = moe.quantize <bf16> %x weights %w : (tensor<?x64xbf16>, tensor<?x2xf32>) -> (tensor<?x64xbf16>, tensor<1xf32>)
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %w: tensor<?x2xf32>, %o: tensor<9xi32>) {
  // expected-error@+1 {{'moe.amax' op 'weights' are of tokens and 'offsets' of sorted rows, got both}}
  %a = moe.amax block_rows = 8 %x weights %w offsets %o : (tensor<?x64xbf16>, tensor<?x2xf32>, tensor<9xi32>) -> tensor<?xf32>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %x: tensor<?x64xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.combine' op 'identity' needs weights}}
  %o = moe.combine %y, %p identity (%x, %i) : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.combine' op 'identity_of_rank' is of an 'identity', which is not given}}
  %o = moe.combine %y, %p identity_of_rank : (tensor<?x64xf32>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %x: tensor<?x32xbf16>, %i: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.combine' op 'identity' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %o = moe.combine %y, %p, %w identity (%x, %i) : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x32xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%y: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>, %x: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.combine' op the two parts of 'identity' must be given together}}
  %o = "moe.combine"(%y, %p, %w, %x) <{operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 1, 0>}> : (
    tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}
