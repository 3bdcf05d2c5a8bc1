//===- scaling.cuh - scales from values -------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes scales of activations that are quantized to e4m3 or int8. A scale
// depends on the largest magnitude of the values that share it: a group of 128
// adjacent elements of a row, a row (token), or a tensor. Divisions are IEEE
// divisions, so that every engine and every arch quantizes to the same bits.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/small_floats.cuh"

namespace moe::quant {

/// The largest value of e4m3.
inline constexpr float kLargestE4m3 = 448.0f;

/// A division of values by one scale with three instructions. The quotient is
/// rounded to nearest even as by IEEE. Valid for scales from 2^-126 to 2^126
/// and values of at most 2^9 times the scale. Quotients smaller than 2^-60 may
/// differ in their last bit. The product with the rounded reciprocal is
/// corrected by its exact remainder (P. Markstein, Computation of elementary
/// functions on the IBM RISC System/6000 processor, theorem 7). An infinite
/// scale divides as specified by IEEE.
class Divisor {
public:
  explicit __device__ __forceinline__ Divisor(float scale)
      : scale(isInfinite(scale) ? 0.0f : scale),
        reciprocal(__fdiv_rn(1.0f, scale)) {}
  __device__ __forceinline__ float quotient(float value) const {
    float near = __fmul_rn(value, reciprocal);
    return __fmaf_rn(__fmaf_rn(-near, scale, value), reciprocal, near);
  }

private:
  static __device__ __forceinline__ bool isInfinite(float scale) {
    return __float_as_uint(scale) == 0x7f800000u;
  }
  float scale, reciprocal;
};

/// Values are not changed.
struct Unscaled {};

/// Values are only rounded to the type of the result.
struct Rounded {};

/// One f32 scale per 128 adjacent elements of a row, for e4m3.
struct Group128 {
  static __device__ __forceinline__ float scale(float largest) {
    return __fdiv_rn(fmaxf(largest, 1e-10f), kLargestE4m3);
  }
};

/// Like Group128, with the scale rounded up to a power of two (ue8m0). Nothing
/// saturates, and infinite scales stay infinite.
struct PowerGroup128 {
  static __device__ __forceinline__ float scale(float largest) {
    float scale = Group128::scale(largest);
    return scale < 0x1p127f ? moe::detail::raisedToPower(scale) : scale;
  }
};

/// True if 128 adjacent elements of a row share a scale that is computed from
/// them.
template <class Scaling> inline constexpr bool ofGroup = false;
template <> inline constexpr bool ofGroup<Group128> = true;
template <> inline constexpr bool ofGroup<PowerGroup128> = true;

/// True if a Scaling is defined in moe/math/emulated.cuh.
template <class Scaling>
inline constexpr bool isEmulated = requires { Scaling::kEmulated; };

/// One f32 scale per row, for e4m3.
struct Token {
  static __device__ __forceinline__ float scale(float largest) {
    return fmaxf(__fdiv_rn(largest, kLargestE4m3),
                 1.0f / (kLargestE4m3 * 512.0f));
  }
};

/// One f32 scale per row, for integers from -127 to 127. Integers cannot
/// represent NaN, so a NaN among the row's values makes the scale NaN.
struct TokenOfBytes {
  static constexpr bool kPropagatesNan = true;
  static __device__ __forceinline__ float scale(float largest) {
    return __fdiv_rn(largest < 1e-10f ? 1e-10f : largest, 127.0f);
  }
};

/// True if the elements of a row share a scale that is computed from them.
template <class Scaling> inline constexpr bool ofToken = false;
template <> inline constexpr bool ofToken<Token> = true;
template <> inline constexpr bool ofToken<TokenOfBytes> = true;

/// The whole tensor has one scale, which is stored in the checkpoint.
struct StaticTensor {};

/// The whole tensor has one scale, which is computed from its largest
/// magnitude.
struct DynamicTensor {
  static __device__ __forceinline__ float scale(float largest) {
    return largest == 0.0f ? 1.0f : __fdiv_rn(largest, kLargestE4m3);
  }
};

struct DynamicTensorOfBytes : TokenOfBytes {};

/// True if NaN counts as the largest magnitude. Otherwise NaN is ignored, since
/// the codes (quantized values) can represent NaN themselves.
template <class Scaling> inline constexpr bool propagatesNan = false;
template <class Scaling>
  requires Scaling::kPropagatesNan
inline constexpr bool propagatesNan<Scaling> = true;

/// Returns the larger of two magnitudes. Compared as integers, NaN is the
/// largest.
template <class Scaling>
__device__ __forceinline__ float largerOf(float left, float right) {
  if constexpr (propagatesNan<Scaling>) {
    unsigned a = __float_as_uint(left), b = __float_as_uint(right);
    return __uint_as_float(a > b ? a : b);
  } else {
    return fmaxf(left, right);
  }
}

/// True if all values share a scale that is computed from them.
template <class Scaling> inline constexpr bool ofValues = false;
template <> inline constexpr bool ofValues<DynamicTensor> = true;
template <> inline constexpr bool ofValues<DynamicTensorOfBytes> = true;

} // namespace moe::quant
