// RUN: moec-opt %s -split-input-file -verify-diagnostics

// Scales of scales and zero points are of scales.

func.func @zero_point_alone(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xi4>, %z: tensor<4x32x2xi8>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs_second_scale' and 'rhs_zero_point' must be given with 'rhs_scale'}}
  %y = moe.grouped_matmul %x tiles (%t, %n), %w rhs_zero_point %z : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xi4>, tensor<4x32x2xi8>) -> tensor<?x32xf32>
  return
}

// -----

func.func @second_scale_alone(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xf4E2M1FN>, %s: tensor<4x1xf32>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs_second_scale' and 'rhs_zero_point' must be given with 'rhs_scale'}}
  %y = moe.grouped_matmul %x tiles (%t, %n), %w rhs_second_scale %s : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf4E2M1FN>, tensor<4x1xf32>) -> tensor<?x32xf32>
  return
}

// -----

func.func @zero_points_of_other_groups(%x: tensor<?x64xbf16>, %t: tensor<?x4xi32>, %n: tensor<3xi32>, %w: tensor<4x32x64xi4>, %s: tensor<4x32x2xbf16>, %z: tensor<4x32x4xi8>) {
  // expected-error@+1 {{'moe.grouped_matmul' op 'rhs_zero_point' must have the shape of 'rhs_scale', got 'tensor<4x32x4xi8>' and 'tensor<4x32x2xbf16>'}}
  %y = moe.grouped_matmul realization = dequantized rhs_descriptor = <i4, group = [1, 32], scale = bf16, zero_point = i8> %x tiles (%t, %n), %w rhs_scale %s rhs_zero_point %z : (tensor<?x64xbf16>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xi4>, tensor<4x32x2xbf16>, tensor<4x32x4xi8>) -> tensor<?x32xf32>
  return
}
