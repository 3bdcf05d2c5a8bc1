// RUN: moec-opt %s -split-input-file -verify-diagnostics

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op 'descriptor' must be one of weights, with scales that are stored, got #moe.descriptor<bf16>}}
  %r:2 = moe.quantize_weights <bf16> parts = 1 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op operand #0 must be 3D tensor of floating-point values, but got 'tensor<32x64xf16>'}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 1 %w : (tensor<32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<?x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op 'source' must be floats as stored, got 'tensor<?x32x64xf16>'}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 1 %w : (tensor<?x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op 'parts' must be positive, got 0}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 0 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op 'parts' must divide the 32 rows, got 3}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 3 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op 'codes' must be 'tensor<4x32x64xf8E4M3FN>', got 'tensor<4x32x64xf8E5M2>'}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 1 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E5M2>, tensor<4x32x2xf8E8M0FNU>)
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op must have 1 results after the codes, got 2}}
  %r:3 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 1 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>, tensor<4x1xf32>)
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>) {
  // expected-error@+1 {{'moe.quantize_weights' op scales must be 'tensor<4x32x2xf8E8M0FNU>', got 'tensor<4x32x4xf8E8M0FNU>'}}
  %r:2 = moe.quantize_weights <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> parts = 1 %w : (tensor<4x32x64xf16>) -> (tensor<4x32x64xf8E4M3FN>, tensor<4x32x4xf8E8M0FNU>)
  return
}
