// RUN: moec-opt %s -split-input-file -verify-diagnostics

// A matmul's operands are what its descriptors and its realization say.

func.func @plain_descriptor(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs_descriptor' is of a quantized operand, got #moe.descriptor<bf16>}}
  %y = moe.grouped_matmul lhs_descriptor = <bf16> %x tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @codes_of_nothing(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op realization 'dequantized' needs a weight with a 'rhs_descriptor'}}
  %y = moe.grouped_matmul realization = dequantized %x tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @scale_without_descriptor(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xi4>, %s: tensor<4x32x2xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs_scale' must be given with a 'rhs_descriptor', and only then}}
  %y = moe.grouped_matmul %x tiles (%t, %n), %w rhs_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xi4>, tensor<4x32x2xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @lhs_scale_without_descriptor(%x: tensor<?x64xf8E4M3FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %l: tensor<?x1xf32>, %s: tensor<4x32xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs_scale' must be given with a 'lhs_descriptor' that is not emulated, and only then}}
  %y = moe.grouped_matmul rhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s : (tensor<?x64xf8E4M3FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<?x1xf32>, tensor<4x32xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @emulates_nothing(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xi4>, %s: tensor<4x32x2xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op realization 'emulated' needs a 'lhs_descriptor'}}
  %y = moe.grouped_matmul realization = emulated rhs_descriptor = <i4, group = [1, 32], scale = bf16> %x tiles (%t, %n), %w rhs_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xi4>, tensor<4x32x2xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @blocks_of_nothing(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %s: tensor<4x32x2xf8E8M0FNU>) {
  // expected-error@+1 {{'moe.grouped_matmul' op realization 'blocks' needs a 'lhs_descriptor'}}
  %y = moe.grouped_matmul realization = blocks rhs_descriptor = <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> %x tiles (%t, %n), %w rhs_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<4x32x2xf8E8M0FNU>) -> tensor<?x32xf32>
  return
}

// -----

func.func @blocks_of_other_sizes(%x: tensor<?x64xf8E4M3FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %l: tensor<?x4xf8E8M0FNU>, %s: tensor<4x32x2xf8E8M0FNU>) {
  // expected-error@+1 {{'moe.grouped_matmul' op realization 'blocks' needs operands with the same blocks and scales, got #moe.descriptor<f8E4M3FN, group = [1, 16], scale = f8E8M0FNU, dynamic> and #moe.descriptor<f8E4M3FN, group = [1, 32], scale = f8E8M0FNU>}}
  %y = moe.grouped_matmul realization = blocks lhs_descriptor = <f8E4M3FN, group = [1, 16], scale = f8E8M0FNU, dynamic> rhs_descriptor = <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s : (tensor<?x64xf8E4M3FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<?x4xf8E8M0FNU>, tensor<4x32x2xf8E8M0FNU>) -> tensor<?x32xf32>
  return
}

// -----

func.func @blocks_with_stored_second_scale(%x: tensor<?x64xf4E2M1FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf4E2M1FN>, %l: tensor<?x4xf8E4M3FN>, %s: tensor<4x32x4xf8E4M3FN>, %r: tensor<4x1xf32>, %a: tensor<4xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs_second_scale' must have 2 dimensions, got 'tensor<4xf32>'}}
  %y = moe.grouped_matmul realization = blocks lhs_descriptor = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row> rhs_descriptor = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s rhs_second_scale %r lhs_second_scale %a : (tensor<?x64xf4E2M1FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf4E2M1FN>, tensor<?x4xf8E4M3FN>, tensor<4x32x4xf8E4M3FN>, tensor<4x1xf32>, tensor<4xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @blocks_without_second_scale(%x: tensor<?x64xf4E2M1FN>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf4E2M1FN>, %l: tensor<?x4xf8E4M3FN>, %s: tensor<4x32x4xf8E4M3FN>, %r: tensor<4x1xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs_second_scale' belongs to realization 'blocks' of a 'lhs_descriptor' with a second scale, and only to it}}
  %y = moe.grouped_matmul realization = blocks lhs_descriptor = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32> rhs_descriptor = <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s rhs_second_scale %r : (tensor<?x64xf4E2M1FN>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf4E2M1FN>, tensor<?x4xf8E4M3FN>, tensor<4x32x4xf8E4M3FN>, tensor<4x1xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @another_weight(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xi8>, %s: tensor<4x32x2xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs' must be of 'i4', got 'tensor<4x32x64xi8>'}}
  %y = moe.grouped_matmul realization = dequantized rhs_descriptor = <i4, group = [1, 32], scale = bf16> %x tiles (%t, %n), %w rhs_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xi8>, tensor<4x32x2xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @another_lhs(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf8E4M3FN>, %l: tensor<?x1xf32>, %s: tensor<4x32xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'lhs' must be of 'f8E4M3FN', got 'tensor<?x64xbf16>'}}
  %y = moe.grouped_matmul lhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32, dynamic> rhs_descriptor = <f8E4M3FN, group = [1, -1], scale = f32> %x tiles (%t, %n), %w lhs_scale %l rhs_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf8E4M3FN>, tensor<?x1xf32>, tensor<4x32xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @another_order(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op unknown gate_up 'ups_first'; known: gate_first, up_first, interleaved}}
  %y = moe.grouped_matmul gate_up = "ups_first" %x tiles (%t, %n), %w : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}

// -----

func.func @activate_tiles(%h: tensor<?x64xf32>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %o: tensor<5xi32>) {
  // expected-error@+1 {{'moe.activate' op the two parts of 'tiles' must be given together, and without 'offsets', 'counts' or 'valid'}}
  %y = moe.activate <silu> %h offsets %o tiles (%t, %n) : (tensor<?x64xf32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>) -> tensor<?x32xbf16>
  return
}

// -----

func.func @bias_of_nobody(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xbf16>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'bias_of_rank' is of a 'bias', which is not given}}
  %y = moe.grouped_matmul %x tiles (%t, %n), %w bias_of_rank : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xbf16>) -> tensor<?x32xf32>
  return
}
