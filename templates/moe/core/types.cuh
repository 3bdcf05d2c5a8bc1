//===- types.cuh - vectors of storage types ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The 16-byte vector of all wide accesses, conversions of several elements of a
// storage type (moe/math/types.cuh) in one word, and loads of element types
// that the caller chooses at each run. No toolkit header is included, so a
// kernel compiles in tens of milliseconds.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"
#include "moe/math/types.cuh"

namespace moe {

/// Marks an extent in a Config that covers the whole axis. For example, a
/// per-tensor scale is shared by this extent of rows.
inline constexpr int kWholeExtent = -1;

/// 16 bytes that one instruction loads or stores.
struct alignas(16) Vector16 {
  unsigned words[4];
};

/// A TMA tensor map, encoded by the host. It is passed by value as an argument.
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

/// 8 bytes that one instruction loads or stores.
struct alignas(8) Vector8 {
  unsigned words[2];
};

/// The number of elements of T in 16 bytes.
template <class T> inline constexpr int kPerVector = 16 / int(sizeof(T));

namespace detail {
template <class T> struct WithoutReference {
  using Type = T;
};
template <class T> struct WithoutReference<T &> {
  using Type = T;
};
} // namespace detail
template <class T>
using RemoveReference = typename detail::WithoutReference<T>::Type;

/// Returns ceil(a / b) for b > 0 and a >= 0.
constexpr int ceilDiv(int a, int b) { return (a + b - 1) / b; }
constexpr int maximum(int a, int b) { return a > b ? a : b; }
constexpr int minimum(int a, int b) { return a < b ? a : b; }

/// The element types that a caller may choose at each run, with their values in
/// argument blocks. runtime/package/ElementTypes.h has the same values.
enum class ElementCode : int { F32 = 0, F16 = 1, BF16 = 2, I64 = 3, I32 = 4 };

/// Converts the 16-bit float with bit pattern `bits` to f32. `type` is F16 or
/// BF16.
__device__ __forceinline__ float floatOfHalf(ElementCode type, unsigned bits) {
  return type == ElementCode::BF16 ? __uint_as_float(bits << 16)
                                   : ptx::floatFromHalf((unsigned short)bits);
}

/// ptx::loadFresh for storage types.
template <class T> __device__ __forceinline__ T loadFresh(const T *pointer) {
  if constexpr (sizeof(T) == 2)
    return {ptx::loadFresh(reinterpret_cast<const unsigned short *>(pointer))};
  else
    return ptx::loadFresh(pointer);
}

/// Loads element `at` of an id array that the caller passes as I32 or I64.
/// kFresh: loads with loadFresh.
template <bool kFresh>
__device__ __forceinline__ long long loadId(const void *ids, ElementCode type,
                                            long long at) {
  auto read = [&](const auto *typed) -> long long {
    if constexpr (kFresh)
      return ptx::loadFresh(typed + at);
    else
      return typed[at];
  };
  return type == ElementCode::I64 ? read(static_cast<const long long *>(ids))
                                  : read(static_cast<const int *>(ids));
}

/// Loads element `at` of a float array that the caller passes as F32, F16 or
/// BF16. The conversion to f32 is exact. kFresh: loads with loadFresh.
template <bool kFresh>
__device__ __forceinline__ float loadFloat(const void *floats, ElementCode type,
                                           long long at) {
  auto read = [&](const auto *typed) {
    if constexpr (kFresh)
      return ptx::loadFresh(typed + at);
    else
      return typed[at];
  };
  return type == ElementCode::F32
             ? read(static_cast<const float *>(floats))
             : floatOfHalf(type,
                           read(static_cast<const unsigned short *>(floats)));
}

/// Rounds two adjacent elements and packs them into a 32-bit word, the first in
/// the lower half.
template <class T>
__device__ __forceinline__ unsigned packPair(float first, float second);
template <>
__device__ __forceinline__ unsigned packPair<bf16>(float first, float second) {
  return ptx::bfloatPair(first, second);
}
template <>
__device__ __forceinline__ unsigned packPair<f16>(float first, float second) {
  return ptx::halfPair(first, second);
}

/// Rounds four adjacent 8-bit elements and packs them into a 32-bit word, the
/// first in the lowest byte.
template <class T>
__device__ __forceinline__ unsigned packBytes(const float *values) {
  if constexpr (kSame<T, e4m3>) {
    return ptx::e4m3Pair(values[0], values[1]) |
           ptx::e4m3Pair(values[2], values[3]) << 16;
  } else {
    unsigned word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      word |= unsigned((unsigned char)fromFloat<T>(values[i]).bits) << 8 * i;
    return word;
  }
}

/// Converts the elements of a vector to f32. `values`: [kPerVector<T>].
template <class T>
__device__ __forceinline__ void unpack(const Vector16 &vector, float *values) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      values[i] = __uint_as_float(vector.words[i]);
  } else if constexpr (kSame<T, i8>) {
#pragma unroll
    for (int i = 0; i < 16; ++i)
      values[i] = float((signed char)(vector.words[i / 4] >> i % 4 * 8));
  } else if constexpr (sizeof(T) == 1) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      unsigned pair =
          ptx::halvesFromE4m3(vector.words[i / 2] >> i % 2 * 16 & 0xffffu);
      values[2 * i] = ptx::floatFromHalf((unsigned short)(pair & 0xffff));
      values[2 * i + 1] = ptx::floatFromHalf((unsigned short)(pair >> 16));
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = toFloat(T{(unsigned short)(vector.words[i] & 0xffff)});
      values[2 * i + 1] = toFloat(T{(unsigned short)(vector.words[i] >> 16)});
    }
  }
}

/// Converts f32 values to a vector of T, rounding once. It is the inverse of
/// unpack.
template <class T>
__device__ __forceinline__ Vector16 pack(const float *values) {
  Vector16 vector;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4)
      vector.words[i] = __float_as_uint(values[i]);
    else if constexpr (sizeof(T) == 1)
      vector.words[i] = packBytes<T>(values + 4 * i);
    else
      vector.words[i] = packPair<T>(values[2 * i], values[2 * i + 1]);
  }
  return vector;
}

} // namespace moe
