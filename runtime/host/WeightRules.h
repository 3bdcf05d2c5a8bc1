//===- WeightRules.h - scales and codes of float weights --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules that docs/reference/checkpoints.md lists, for one group of numbers
// at a time: a scale is rounded to its type first, then every number is divided
// by what the scale has become. All in f32, each step rounded once, so that any
// machine and the kernels (templates/moe/quant/weight_scaling.cuh) make the
// same codes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_WEIGHTRULES_H
#define MOEC_RUNTIME_HOST_WEIGHTRULES_H

#include "runtime/host/Element.h"
#include "runtime/support/Result.h"

#include <algorithm>
#include <string>
#include <vector>

namespace moec::host {

/// What a weight becomes: a descriptor of the manifest's layer.
struct WeightFormat {
  std::string element; ///< of the codes
  std::string scale;   ///< of the scales; "" where weights stay floats
  int64_t groupRows = 0, groupColumns = 0; ///< -1: all
  bool second = false;                     ///< scales have an f32 scale
  bool zeroPoint = false;
  /// How a power of two is chosen: even, ceil or floor; "" is even for 4 bits
  /// and ceil for more.
  std::string scaleRule;
};

/// The least and the greatest of the numbers that share a scale, and of 0.
struct WeightRange {
  float least = 0, most = 0;
  void take(float value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  float largest() const { return std::max(most, -least); }
};

class WeightRules {
public:
  /// Refuses what no rule makes.
  static Result<WeightRules> of(const WeightFormat &format);

  Storage codes() const { return storage; }
  Storage scales() const { return scaleStorage; }

  /// The scale of the scales of a matrix.
  float secondScale(float largest) const;
  /// Stores the scale of a group. second: 1 where there is none.
  void storeScale(WeightRange range, float second, std::byte *to) const;
  /// What numbers are divided by; of powers of two kept as F32 by that type.
  float factor(const std::byte *scale, float second) const {
    return factor(scaleStorage, scale, second);
  }
  float factor(Storage kept, const std::byte *scale, float second) const;
  uint8_t zeroPoint(WeightRange range, float factor) const;
  uint8_t code(float number, float factor, uint8_t zeroPoint) const;

private:
  bool isInteger() const {
    return storage == Storage::I8 || storage == Storage::I4;
  }
  float largestCode() const;
  uint8_t nearest(float number) const;
  uint8_t powerOfTwo(float largest) const;

  WeightFormat format;
  Storage storage = Storage::None, scaleStorage = Storage::None;
  /// The numbers of codes of floats, without a sign.
  std::vector<float> values;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_WEIGHTRULES_H
