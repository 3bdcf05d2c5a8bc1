//===- scaling.cuh - how a scale follows from values ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scales of activations in e4m3, or of integers in 8 bits, from the largest
// magnitude of the values that share one: a group of 128 of a row, a row
// (token), or a tensor. IEEE divisions, so that every engine and every arch
// quantizes to the same bits.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/small_floats.cuh"

namespace moe::quant {

/// The largest value of e4m3.
inline constexpr float kLargestE4m3 = 448.0f;

/// Divides values by one scale: the quotient that IEEE rounds to nearest even,
/// by three instructions. Valid for scales from 2^-126 to 2^126 whose values
/// are at most 2^9 times the scale; smaller quotients than 2^-60 may differ in
/// their last bit. A product with the rounded reciprocal is corrected by its
/// exact remainder (P. Markstein, Computation of elementary functions on the
/// IBM RISC System/6000 processor, theorem 7). An infinite scale divides as
/// IEEE says.
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

/// Values stay as they are.
struct Unscaled {};

/// Values are rounded to the type of the result alone.
struct Rounded {};

struct Group128 {
  static __device__ __forceinline__ float scale(float largest) {
    return __fdiv_rn(fmaxf(largest, 1e-10f), kLargestE4m3);
  }
};

/// Raised to a power of two (ue8m0): nothing saturates, and infinities stay
/// what they are.
struct PowerGroup128 {
  static __device__ __forceinline__ float scale(float largest) {
    float scale = Group128::scale(largest);
    return scale < 0x1p127f ? moe::detail::raisedToPower(scale) : scale;
  }
};

/// Whether 128 of a row share a scale that follows from them.
template <class Scaling> inline constexpr bool ofGroup = false;
template <> inline constexpr bool ofGroup<Group128> = true;
template <> inline constexpr bool ofGroup<PowerGroup128> = true;

/// Whether a Scaling is one of emulated.cuh.
template <class Scaling>
inline constexpr bool isEmulated = requires { Scaling::kEmulated; };

struct Token {
  static __device__ __forceinline__ float scale(float largest) {
    return fmaxf(__fdiv_rn(largest, kLargestE4m3),
                 1.0f / (kLargestE4m3 * 512.0f));
  }
};

/// Integers of at most +-127. They have no NaN: a NaN among the values is the
/// scale of all of them.
struct TokenOfBytes {
  static constexpr bool kPropagatesNan = true;
  static __device__ __forceinline__ float scale(float largest) {
    return __fdiv_rn(largest < 1e-10f ? 1e-10f : largest, 127.0f);
  }
};

/// Whether a row shares a scale that follows from it.
template <class Scaling> inline constexpr bool ofToken = false;
template <> inline constexpr bool ofToken<Token> = true;
template <> inline constexpr bool ofToken<TokenOfBytes> = true;

/// The scale is given.
struct StaticTensor {};

struct DynamicTensor {
  static __device__ __forceinline__ float scale(float largest) {
    return largest == 0.0f ? 1.0f : __fdiv_rn(largest, kLargestE4m3);
  }
};

struct DynamicTensorOfBytes : TokenOfBytes {};

/// Returns true if a NaN is the largest of magnitudes. Otherwise it is no
/// magnitude, since the codes of the values have a NaN of their own.
template <class Scaling> inline constexpr bool propagatesNan = false;
template <class Scaling>
  requires Scaling::kPropagatesNan
inline constexpr bool propagatesNan<Scaling> = true;

/// Returns the larger of two magnitudes. Compared as integers, a NaN is the
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

/// Whether all values share a scale that follows from them.
template <class Scaling> inline constexpr bool ofValues = false;
template <> inline constexpr bool ofValues<DynamicTensor> = true;
template <> inline constexpr bool ofValues<DynamicTensorOfBytes> = true;

} // namespace moe::quant
