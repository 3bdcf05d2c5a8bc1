//===- emulated.cuh - emulated quantization ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A scheme's activations are emulated if its weights are dequantized. Each
// activation is quantized, dequantized again, and rounded once to the 16-bit
// type that the engine multiplies. All arithmetic before that rounding is f32
// with IEEE divisions, or is bitwise equal to such arithmetic, so that every
// engine and every arch yields the same result. `T` is the element type of the
// codes (quantized values).
//
// A Scaling in this file has:
//
//   kColumns  number of adjacent elements of a row that share a scale; 0: all
//             elements that share an outer factor
//   kOuter    the elements that share an outer factor, which is applied in
//             addition to the scales: none, a row, or the tensor
//   outer()   returns the outer factor, computed from the largest magnitude or
//             from a stored scale
//   scale()   returns the scale of a group, computed from the group's largest
//             magnitude and the outer factor
//   value()   returns the dequantized value of x
//   code()    returns the quantized value of x, not multiplied by the scale;
//             only Scalings whose codes tensor cores multiply have it
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/math/codes.cuh"
#include "moe/math/scaling.cuh"

namespace moe::quant {

/// Properties of an element type. kExponent: exponent of its largest power of
/// two.
template <class T> struct Format;
template <int kExponentBits, int kMantissa> struct FloatFormat {
  static constexpr bool kHasNan = false; ///< true if codes can be NaN
  static constexpr int kMantissaBits = kMantissa;
  static __device__ __forceinline__ float nearest(float value, float largest) {
    return detail::nearestSmallFloat<kExponentBits, kMantissa>(value, largest);
  }
};
template <> struct Format<e4m3> : FloatFormat<4, 3> {
  static constexpr bool kHasNan = true;
  static constexpr float kLargest = 448.0f;
  static constexpr int kExponent = 8;
};
template <> struct Format<e5m2> : FloatFormat<5, 2> {
  static constexpr float kLargest = 57344.0f;
  static constexpr int kExponent = 15;
};
template <> struct Format<e3m2> : FloatFormat<3, 2> {
  static constexpr float kLargest = 28.0f;
  static constexpr int kExponent = 4;
};
template <> struct Format<e2m3> : FloatFormat<2, 3> {
  static constexpr float kLargest = 7.5f;
  static constexpr int kExponent = 2;
};
template <> struct Format<e2m1> : FloatFormat<2, 1> {
  static constexpr float kLargest = 6.0f;
  static constexpr int kExponent = 2;
};
template <> struct Format<i8> {
  static constexpr bool kHasNan = false;
  static constexpr float kLargest = 127.0f;
  static __device__ __forceinline__ float nearest(float value, float largest) {
    return value != value ? value
                          : fmaxf(-largest, fminf(largest, rintf(value)));
  }
};

template <class T> __device__ __forceinline__ float nearest(float value) {
  return Format<T>::nearest(value, Format<T>::kLargest);
}

/// Rules for scales that are powers of two. of() returns the scale's exponent,
/// computed from the group's largest magnitude. Even: the exponent of that
/// magnitude after rounding to the format's mantissa bits, minus kExponent.
struct Even {
  template <class T> static __device__ __forceinline__ int of(float largest) {
    unsigned half = 1u << (22 - Format<T>::kMantissaBits);
    return int((__float_as_uint(largest) + half) >> 23) - 127 -
           Format<T>::kExponent;
  }
};
/// Rule with which nothing saturates: the exponent of the f32 quotient of the
/// largest magnitude and kLargest, rounded up. The exponent is computed from
/// the bits of both floats without a division. The bits yield the exact
/// quotient's exponent. This exponent differs from the rounded quotient's
/// exponent only if rounding yields a power of two. That happens in one case:
/// the exact quotient exceeds 2^-127, the smallest scale, by less than half of
/// a subnormal. `kLeast` covers this case.
struct Ceil {
  template <class T> static __device__ __forceinline__ int of(float largest) {
    constexpr unsigned kLargest =
        __builtin_bit_cast(unsigned, Format<T>::kLargest);
    constexpr unsigned kMantissa = kLargest & 0x7fffffu;
    constexpr int kExponent = int(kLargest >> 23) - 127;
    static_assert(kMantissa >= 0x400000u,
                  "a quotient would round to a power of two");
    // The float after 2^-127 times the largest code.
    constexpr unsigned kLeast = (unsigned(kExponent) << 23 | kMantissa) + 1;
    unsigned bits = __float_as_uint(largest);
    if (bits <= kLeast)
      return -127;
    return bits >= 0x7f800000u
               ? 128
               : int((bits + (0x7fffffu - kMantissa)) >> 23) - 127 - kExponent;
  }
};
/// Rule: the exponent of the largest magnitude, minus kExponent.
struct Floor {
  template <class T> static __device__ __forceinline__ int of(float largest) {
    return int(__float_as_uint(largest) >> 23) - 127 - Format<T>::kExponent;
  }
};

/// The elements that share an outer factor.
enum class Outer { None, Row, Tensor };

/// The base of emulated scalings.
struct Emulated {
  static constexpr bool kEmulated = true;
  static constexpr bool kOfMaxima = false; ///< outer() needs kernel amax
  static constexpr bool kStored = false;   ///< outer() needs a stored scale
  static constexpr Outer kOuter = Outer::None;
  static __device__ __forceinline__ float outer(float) { return 1.0f; }
};

/// Scalings whose dequantized values are the product of code and scale.
template <class T> struct Scaled : Emulated {
  using Element = T;
  static __device__ __forceinline__ float value(float x, float scale, float) {
    return __fmul_rn(nearest<T>(__fdiv_rn(x, scale)), scale);
  }
};

/// Power-of-two scales (ue8m0), one per kGroup adjacent elements of a row.
template <class T, class Rule, int kGroup> struct PowerGroups : Scaled<T> {
  static constexpr int kColumns = kGroup;
  static __device__ __forceinline__ float scale(float largest, float) {
    // FloatGroups has the same lower bound.
    if constexpr (kSame<T, e4m3> && kGroup == 128)
      largest = fmaxf(largest, 1e-10f);
    int exponent = Rule::template of<T>(largest);
    return detail::powerOfTwo(unsigned(min(max(exponent + 127, 0), 254)));
  }
  /// Multiplies by the reciprocal, which is a power of two, too. The result is
  /// bitwise equal to the division's result, with a tenth of the instructions.
  static __device__ __forceinline__ float code(float x, float scale, float) {
    float inverse = detail::powerOfTwo(254 - (__float_as_uint(scale) >> 23));
    return nearest<T>(__fmul_rn(x, inverse));
  }
  static __device__ __forceinline__ float value(float x, float scale,
                                                float outer) {
    return __fmul_rn(code(x, scale, outer), scale);
  }
};

/// An emulated scaling that has code(). Its results are stored as codes with
/// one scale per group instead of as dequantized values.
template <class Scaling> struct Encoded : Scaling {
  static constexpr bool kEncoded = true;
};

/// True if a Scaling yields codes and scales.
template <class Scaling>
inline constexpr bool isEncoded = requires { Scaling::kEncoded; };

/// f32 scales, one per kGroup adjacent elements of a row.
template <class T, int kGroup> struct FloatGroups : Scaled<T> {
  static constexpr int kColumns = kGroup;
  static __device__ __forceinline__ float scale(float largest, float) {
    return __fdiv_rn(fmaxf(largest, 1e-10f), Format<T>::kLargest);
  }
};

/// f32 scales, one per row.
template <class T> struct FloatRows : Scaled<T> {
  static constexpr int kColumns = 0;
  static constexpr Outer kOuter = Outer::Row;
  static __device__ __forceinline__ float outer(float largest) {
    constexpr float kLargest = Format<T>::kLargest;
    if constexpr (kSame<T, i8>)
      return __fdiv_rn(fmaxf(largest, 1e-10f), kLargest);
    else
      return fmaxf(__fdiv_rn(largest, kLargest), 1.0f / (kLargest * 512.0f));
  }
  static __device__ __forceinline__ float scale(float, float outer) {
    return outer;
  }
};

/// One f32 scale for the whole tensor. If kDynamic, it is computed from the
/// tensor's largest magnitude; otherwise it is stored.
template <class T, bool kDynamic> struct FloatTensor : Emulated {
  static constexpr int kColumns = 0;
  static constexpr bool kOfMaxima = kDynamic, kStored = !kDynamic;
  static constexpr Outer kOuter = Outer::Tensor;
  static __device__ __forceinline__ float outer(float largest) {
    if constexpr (kDynamic)
      return largest == 0.0f ? 1.0f : __fdiv_rn(largest, Format<T>::kLargest);
    else
      return largest;
  }
  static __device__ __forceinline__ float scale(float, float outer) {
    return outer;
  }
  static __device__ __forceinline__ float value(float x, float, float outer) {
    return __fmul_rn(nearest<T>(__fmul_rn(x, __fdiv_rn(1.0f, outer))), outer);
  }
};

/// e4m3 scales, one per kGroup adjacent elements of a row, with a second scale:
/// a stored scale of the tensor, or one scale per row. outer() returns the
/// reciprocal of the second scale.
template <class T, int kGroup, bool kPerRow> struct TwoLevels : Emulated {
  using Element = T;
  static constexpr int kColumns = kGroup;
  static constexpr bool kStored = !kPerRow;
  static constexpr Outer kOuter = kPerRow ? Outer::Row : Outer::Tensor;
  static __device__ __forceinline__ float outer(float largest) {
    if constexpr (kPerRow)
      return largest == 0.0f
                 ? 1.0f
                 : __fdiv_rn(Format<e4m3>::kLargest * Format<T>::kLargest,
                             largest);
    else
      return __fdiv_rn(1.0f, largest);
  }
  static __device__ __forceinline__ float scale(float largest, float outer) {
    return nearest<e4m3>(
        __fdiv_rn(__fmul_rn(outer, largest), Format<T>::kLargest));
  }
  static __device__ __forceinline__ float code(float x, float scale,
                                               float outer) {
    return scale == 0.0f ? 0.0f
                         : nearest<T>(__fdiv_rn(__fmul_rn(x, outer), scale));
  }
  static __device__ __forceinline__ float value(float x, float scale,
                                                float outer) {
    if (scale == 0.0f)
      return x != x ? x : 0.0f;
    float code = nearest<T>(__fdiv_rn(__fmul_rn(x, outer), scale));
    return __fdiv_rn(__fmul_rn(code, scale), outer);
  }
};

} // namespace moe::quant
