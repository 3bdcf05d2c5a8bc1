// RUN: moec-opt %s -split-input-file -verify-diagnostics

func.func private @f(%x: tensor<?x64xbf16>, %rows: tensor<?xi32>, %offsets: tensor<5xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'pairs' must be given with a gather, and only then}}
  %o = moe.permute_columns %x gather %rows offsets %offsets, %order : (tensor<?x64xbf16>, tensor<?xi32>, tensor<5xi32>, tensor<4x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %rows: tensor<?xi32>, %offsets: tensor<5xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'pairs' must be positive, got 0}}
  %o = moe.permute_columns pairs = 0 %x gather %rows offsets %offsets, %order : (tensor<?x64xbf16>, tensor<?xi32>, tensor<5xi32>, tensor<4x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %offsets: tensor<5xi32>, %order: tensor<256xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op operand #2 must be 2D tensor of 32-bit signless integer values, but got 'tensor<256xi32>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x64xbf16>, tensor<5xi32>, tensor<256xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %offsets: tensor<5xi32>, %order: tensor<?x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'order' must have static sizes, got 'tensor<?x64xi32>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x64xbf16>, tensor<5xi32>, tensor<?x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %offsets: tensor<5xi32>, %order: tensor<4x64xi64>) {
  // expected-error@+1 {{'moe.permute_columns' op operand #2 must be 2D tensor of 32-bit signless integer values, but got 'tensor<4x64xi64>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x64xbf16>, tensor<5xi32>, tensor<4x64xi64>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %offsets: tensor<4xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'offsets' must be 'tensor<5xi32>', got 'tensor<4xi32>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x64xbf16>, tensor<4xi32>, tensor<4x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x32xbf16>, %offsets: tensor<5xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'input' must be 'tensor<?x64xbf16>', got 'tensor<?x32xbf16>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x32xbf16>, tensor<5xi32>, tensor<4x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %rows: tensor<?xi64>, %offsets: tensor<5xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op operand #1 must be 1D tensor of 32-bit signless integer values, but got 'tensor<?xi64>'}}
  %o = moe.permute_columns pairs = 2 %x gather %rows offsets %offsets, %order : (tensor<?x64xbf16>, tensor<?xi64>, tensor<5xi32>, tensor<4x64xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%x: tensor<?x64xbf16>, %offsets: tensor<5xi32>, %order: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.permute_columns' op 'result' must be 'tensor<?x64xbf16>', got 'tensor<?x64xf16>'}}
  %o = moe.permute_columns %x offsets %offsets, %order : (tensor<?x64xbf16>, tensor<5xi32>, tensor<4x64xi32>) -> tensor<?x64xf16>
  return
}

// -----

func.func private @f(%index: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.pack_order' op 'group' must be positive, got 0}}
  %o = moe.pack_order group = 0 %index : tensor<4x64xi32>
  return
}

// -----

func.func private @f(%index: tensor<4x64xf32>) {
  // expected-error@+1 {{'moe.pack_order' op operand #0 must be 2D tensor of 32-bit signless integer values, but got 'tensor<4x64xf32>'}}
  %o = moe.pack_order group = 16 %index : tensor<4x64xf32>
  return
}

// -----

func.func private @f(%w: tensor<4x32xf16>, %o: tensor<4x64xi32>) {
  // expected-error@+1 {{'moe.pack' op 'source' must have 3 dimensions, got 'tensor<4x32xf16>'}}
  %p = moe.pack %w order(%o : tensor<4x64xi32>) : tensor<4x32xf16> -> tensor<4x32xf16, #moe.layout<interleave = 0>>
  return
}

// -----

func.func private @f(%w: tensor<4x32x64xf16>, %o: tensor<4x32xi32>) {
  // expected-error@+1 {{'moe.pack' op 'order' must be 'tensor<4x64xi32>', got 'tensor<4x32xi32>'}}
  %p = moe.pack %w order(%o : tensor<4x32xi32>) : tensor<4x32x64xf16> -> tensor<4x32x64xf16, #moe.layout<interleave = 8>>
  return
}

// -----

func.func private @f(%t: tensor<?x64xbf16>, %rows: tensor<?xi32>, %offsets: tensor<5xi32>, %positions: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.gather_rows' op expected either 'rows' and 'offsets', or 'positions'}}
  %o = moe.gather_rows %t rows(%rows, %offsets) positions %positions : (tensor<?x64xbf16>, tensor<?xi32>, tensor<5xi32>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%t: tensor<?x64xbf16>) {
  // expected-error@+1 {{'moe.gather_rows' op expected either 'rows' and 'offsets', or 'positions'}}
  %o = moe.gather_rows %t : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%t: tensor<?x64xbf16>, %rows: tensor<4xi32>, %offsets: tensor<5xi32>) {
  // expected-error@+1 {{'moe.gather_rows' op 'rows' must be 'tensor<?xi32>', got 'tensor<4xi32>'}}
  %o = moe.gather_rows %t rows(%rows, %offsets) : (tensor<?x64xbf16>, tensor<4xi32>, tensor<5xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%t: tensor<4x64xbf16>, %positions: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.gather_rows' op 'input' must be 'tensor<?x64xbf16>', got 'tensor<4x64xbf16>'}}
  %o = moe.gather_rows %t positions %positions : (tensor<4x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func private @f(%t: tensor<?x64xbf16>, %positions: tensor<?x2xi32>) {
  // expected-error@+1 {{'moe.gather_rows' op 'result' must be 'tensor<?x64xbf16>', got 'tensor<?x64xf32>'}}
  %o = moe.gather_rows %t positions %positions : (tensor<?x64xbf16>, tensor<?x2xi32>) -> tensor<?x64xf32>
  return
}
