//===- weight_scaling.cuh - quantization of float weights -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes weights that are stored as floats, when a layer is created. A scale
// is rounded to its type first; the values that share it are then divided by
// the rounded scale. All arithmetic is f32 with IEEE divisions, so that every
// arch and the host compute the same codes (quantized values).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/codes.cuh"
#include "moe/math/emulated.cuh"

namespace moe::quant {

/// The range of the values that share a scale, extended to include 0.
struct Range {
  float least = 0.0f, most = 0.0f;
  __device__ __forceinline__ void take(float value) {
    least = fminf(least, value);
    most = fmaxf(most, value);
  }
  __device__ __forceinline__ float largest() const {
    return fabsf(fmaxf(most, -least)); // fmaxf(0, -0) may be -0
  }
};

/// The weights that share a scale: a whole tensor, a channel (row), or a group
/// within a row.
enum class Shares { Tensor, Channel, Group };

/// The exponent bias of a float type.
template <class T> inline constexpr int kExponentBias = 0;
template <> inline constexpr int kExponentBias<e5m2> = 15;
template <> inline constexpr int kExponentBias<e3m2> = 3;
template <> inline constexpr int kExponentBias<e2m3> = 1;
template <> inline constexpr int kExponentBias<e2m1> = 1;

/// Returns the code of the value nearest to `number`. For 4-bit integers the
/// value is from -7 to 7 and the code is the value plus 8.
template <class T> __device__ __forceinline__ unsigned codeOf(float number) {
  if constexpr (kSame<T, i4>) {
    return unsigned(max(-7, min(7, __float2int_rn(number))) + 8);
  } else if constexpr (kSame<T, i8> || kSame<T, e4m3>) {
    return (unsigned char)fromFloat<T>(number).bits;
  } else {
    // The code's exponent and mantissa bits, shifted to their positions in an
    // f32, are a value that is too small by a power of two, because the
    // exponent biases differ. This multiplication is exact, also for subnormal
    // codes.
    unsigned bits = __float_as_uint(nearest<T>(number));
    float size = __uint_as_float(bits & 0x7fffffffu) *
                 __uint_as_float(unsigned(kExponentBias<T>) << 23);
    unsigned code = __float_as_uint(size) >> (23 - Format<T>::kMantissaBits);
    return code | bits >> 31 << (kBits<T> - 1);
  }
}

/// The quantization of weights.
///
///   Code, Scale  types of codes and scales
///   Rule         Even, Ceil or Floor, for scales that are powers of two
///   kZeroPoints  true for 4-bit integers with zero points, which are 0 to 15
template <class Code, class Scale, class Rule, Shares kShares, bool kZeroPoints>
struct WeightScaling {
  static constexpr bool kInteger = kSame<Code, i8> || kSame<Code, i4>;
  static constexpr bool kTwoLevels = kSame<Scale, e4m3>;

  static constexpr float largestCode() {
    if constexpr (kZeroPoints)
      return 15.0f;
    else if constexpr (kSame<Code, i4>)
      return 7.0f;
    else
      return Format<Code>::kLargest;
  }

  /// Returns the second scale, by which a matrix's e4m3 scales are multiplied.
  /// With it, the largest scale becomes 448, the largest e4m3 value. `largest`:
  /// largest magnitude in the matrix.
  static __device__ __forceinline__ float second(float largest) {
    return largest == 0.0f
               ? 1.0f
               : __fdiv_rn(largest, Format<e4m3>::kLargest * largestCode());
  }

  /// Returns the scale of a range. `outer`: the second scale, if kTwoLevels.
  static __device__ __forceinline__ Scale scale(Range range, float outer) {
    constexpr float kMost = largestCode();
    float largest = range.largest();
    if constexpr (kSame<Scale, ue8m0>) {
      int exponent = Rule::template of<Code>(largest);
      return {(unsigned char)min(max(exponent + 127, 0), 254)};
    } else if constexpr (kTwoLevels) {
      return fromFloat<Scale>(__fdiv_rn(__fdiv_rn(largest, kMost), outer));
    } else if constexpr (kInteger) {
      if constexpr (kZeroPoints)
        largest = range.most - range.least;
      return fromFloat<Scale>(__fdiv_rn(fmaxf(largest, 1e-10f), kMost));
    } else if constexpr (kShares == Shares::Tensor) {
      return fromFloat<Scale>(largest == 0.0f ? 1.0f
                                              : __fdiv_rn(largest, kMost));
    } else if constexpr (kShares == Shares::Channel) {
      return fromFloat<Scale>(
          fmaxf(__fdiv_rn(largest, kMost), 1.0f / (kMost * 512.0f)));
    } else {
      return fromFloat<Scale>(__fdiv_rn(fmaxf(largest, 1e-10f), kMost));
    }
  }

  /// Returns the value by which weights are divided: the scale, times the
  /// second scale if kTwoLevels.
  static __device__ __forceinline__ float factor(Scale scale, float outer) {
    float made = toFloat(scale);
    if constexpr (kTwoLevels)
      made = __fmul_rn(made, outer);
    return made;
  }

  /// Returns the divisor if the scale is a power of two that is passed as f32.
  static __device__ __forceinline__ float factor(float scale, float)
    requires kSame<Scale, ue8m0>
  {
    return scale;
  }

  /// Returns the zero point of the weights in `range`. `factor`: their divisor.
  static __device__ __forceinline__ int zeroPoint(Range range, float factor) {
    if (factor == 0.0f)
      return 0;
    return max(0, min(15, __float2int_rn(__fdiv_rn(-range.least, factor))));
  }

  /// Returns the code of `number`. If the divisor was rounded to 0, `number` is
  /// treated as 0.
  static __device__ __forceinline__ unsigned code(float number, float factor,
                                                  int zeroPoint) {
    float divided = factor == 0.0f ? 0.0f : __fdiv_rn(number, factor);
    // If a tensor shares one scale, values are multiplied by the scale's
    // reciprocal, as activations are. If the reciprocal is infinite, they are
    // divided.
    if constexpr (kShares == Shares::Tensor && !kInteger &&
                  !kSame<Scale, ue8m0> && !kTwoLevels) {
      float inverse = __fdiv_rn(1.0f, factor);
      if (inverse <= 3.0e38f)
        divided = __fmul_rn(number, inverse);
    }
    if constexpr (kZeroPoints) {
      // `steps` is clamped so that the sum does not overflow an int.
      int steps = max(-16, min(16, __float2int_rn(divided)));
      return unsigned(max(0, min(15, steps + zeroPoint)));
    } else {
      return codeOf<Code>(divided);
    }
  }
};

} // namespace moe::quant
