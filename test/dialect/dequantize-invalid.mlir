// RUN: moec-opt %s --split-input-file --verify-diagnostics

func.func @plain(%x: tensor<?x64xbf16>, %s: tensor<1xf32>) {
  // expected-error@+1 {{'moe.dequantize' op a descriptor without a scale has no codes}}
  %d = moe.dequantize <bf16> %x scale %s : (tensor<?x64xbf16>, tensor<1xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @rank(%x: tensor<64xi8>, %s: tensor<?x1xf32>) {
  // expected-error@+1 {{'moe.dequantize' op operand #0 must be 2D tensor of floating-point or integer values, but got 'tensor<64xi8>'}}
  %d = moe.dequantize <i8, group = [1, -1], scale = f32, dynamic> %x scale %s : (tensor<64xi8>, tensor<?x1xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @result(%x: tensor<?x64xi8>, %s: tensor<?x1xf32>) {
  // expected-error@+1 {{'moe.dequantize' op result #0 must be 2D tensor of 16-bit float or bfloat16 type values, but got 'tensor<?x64xf32>'}}
  %d = moe.dequantize <i8, group = [1, -1], scale = f32, dynamic> %x scale %s : (tensor<?x64xi8>, tensor<?x1xf32>) -> tensor<?x64xf32>
  return
}

// -----

func.func @element(%x: tensor<?x64xf8E5M2>, %s: tensor<?x2xf8E8M0FNU>) {
  // expected-error@+1 {{'moe.dequantize' op 'input' must be 'tensor<?x64xf8E4M3FN>', got 'tensor<?x64xf8E5M2>'}}
  %d = moe.dequantize <f8E4M3FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x scale %s : (tensor<?x64xf8E5M2>, tensor<?x2xf8E8M0FNU>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @size(%x: tensor<?x64xf4E2M1FN>, %s: tensor<?x2xf8E8M0FNU>) {
  // expected-error@+1 {{'moe.dequantize' op 'data' must be 'tensor<?x64xf16>', got 'tensor<?x32xf16>'}}
  %d = moe.dequantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x scale %s : (tensor<?x64xf4E2M1FN>, tensor<?x2xf8E8M0FNU>) -> tensor<?x32xf16>
  return
}

// -----

func.func @groups(%x: tensor<?x72xf4E2M1FN>, %s: tensor<?x2xf8E8M0FNU>) {
  // expected-error@+1 {{'moe.dequantize' op 'scale' must be 'tensor<?x3xf8E8M0FNU>', got 'tensor<?x2xf8E8M0FNU>'}}
  %d = moe.dequantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x scale %s : (tensor<?x72xf4E2M1FN>, tensor<?x2xf8E8M0FNU>) -> tensor<?x72xbf16>
  return
}

// -----

func.func @second_missing(%x: tensor<?x64xf4E2M1FN>, %s: tensor<?x4xf8E4M3FN>) {
  // expected-error@+1 {{'moe.dequantize' op 'second_scale' belongs to a descriptor that has one}}
  %d = moe.dequantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32> %x scale %s : (tensor<?x64xf4E2M1FN>, tensor<?x4xf8E4M3FN>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @second_of_row(%x: tensor<?x64xf4E2M1FN>, %s: tensor<?x4xf8E4M3FN>, %g: tensor<1xf32>) {
  // expected-error@+1 {{'moe.dequantize' op 'second_scale' must be 'tensor<?x1xf32>', got 'tensor<1xf32>'}}
  %d = moe.dequantize <f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row> %x scale %s second_scale %g : (tensor<?x64xf4E2M1FN>, tensor<?x4xf8E4M3FN>, tensor<1xf32>) -> tensor<?x64xbf16>
  return
}

// -----

func.func @counts(%x: tensor<?x64xi8>, %s: tensor<?x1xf32>, %c: tensor<8xi64>) {
  // expected-error@+1 {{'moe.dequantize' op operand #2 must be 1D tensor of 32-bit signless integer values, but got 'tensor<8xi64>'}}
  %d = moe.dequantize <i8, group = [1, -1], scale = f32, dynamic> %x scale %s counts %c : (tensor<?x64xi8>, tensor<?x1xf32>, tensor<8xi64>) -> tensor<?x64xbf16>
  return
}
