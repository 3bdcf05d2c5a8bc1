// RUN: moec-opt %s -split-input-file -verify-diagnostics

func.func @amax_counts(%x: tensor<?x64xbf16>, %c: tensor<8xi64>) {
  // expected-error@+1 {{'moe.amax' op operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<8xi64>'}}
  %a = moe.amax block_rows = 8 %x counts %c : (tensor<?x64xbf16>, tensor<8xi64>) -> tensor<?xf32>
  return
}

// -----

func.func @quantize_counts(%x: tensor<?x64xbf16>, %o: tensor<9xi32>, %c: tensor<8xi32>) {
  // expected-error@+1 {{'moe.quantize' op 'valid' is of tokens, 'offsets' of sorted and 'counts' of batched rows, got more than one}}
  %q, %s = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x offsets %o counts %c
      : (tensor<?x64xbf16>, tensor<9xi32>, tensor<8xi32>) -> (tensor<?x64xf8E4M3FN>, tensor<?x1xf32>)
  return
}

// -----

func.func @batch_rows(%c: tensor<8xi32>) {
  // expected-error@+1 {{'moe.batch' op 'tile_rows' must not be negative, got -1}}
  %t, %n = moe.batch tile_rows = -1 %c : (tensor<8xi32>) -> (tensor<?x4xi32>, tensor<3xi32>)
  return
}

// -----

func.func @batch_step(%c: tensor<8xi32>) {
  // expected-error@+1 {{'moe.batch' op 'row_step' must divide the 'tile_rows' of 64, got 48}}
  %t, %n = moe.batch tile_rows = 64 row_step = 48 %c : (tensor<8xi32>) -> (tensor<?x4xi32>, tensor<3xi32>)
  return
}

// -----

func.func @batch_counts(%c: tensor<8x1xi32>) {
  // expected-error@+1 {{'moe.batch' op operand #0 must be 1D tensor of 32-bit signless integer values, but got 'tensor<8x1xi32>'}}
  %t, %n = moe.batch tile_rows = 64 %c : (tensor<8x1xi32>) -> (tensor<?x4xi32>, tensor<3xi32>)
  return
}

// -----

func.func @batch_tile_count(%c: tensor<8xi32>) {
  // expected-error@+1 {{'moe.batch' op 'tile_count' must be 'tensor<3xi32>', got 'tensor<1xi32>'}}
  %t, %n = moe.batch tile_rows = 64 %c : (tensor<8xi32>) -> (tensor<?x4xi32>, tensor<1xi32>)
  return
}
