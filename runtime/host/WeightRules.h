//===- WeightRules.h - scales and codes of float weights --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rules of the kernels (templates/moe/math/weight_scaling.cuh) by the words
// of a layer, for one group of numbers at a time.
// docs/reference/checkpoints.md lists them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_HOST_WEIGHTRULES_H
#define MOEC_RUNTIME_HOST_WEIGHTRULES_H

#include "runtime/host/Element.h"
#include "runtime/support/Result.h"
#include "templates/moe/math/host.h"

#include <cstdint>
#include <string>

namespace moec::host {

/// The format of a packed weight: a descriptor of the manifest's layer.
struct WeightFormat {
  std::string element; ///< of the codes
  std::string scale;   ///< of the scales; "" where weights stay floats
  int64_t groupRows = 0, groupColumns = 0; ///< -1: all
  bool second = false;                     ///< scales have an f32 scale
  bool zeroPoint = false;
  /// The rounding of power-of-two scales: even, ceil or floor; "" is even for
  /// 4-bit codes and ceil for wider ones.
  std::string scaleRule;
};

/// The least and the greatest of the numbers that share a scale, and of 0.
using WeightRange = moe::quant::Range;

class WeightRules {
public:
  /// Refuses what no rule makes.
  static Result<WeightRules> of(const WeightFormat &format);

  Storage codes() const { return storage; }
  Storage scales() const { return scaleStorage; }

  /// The scale of the scales of a matrix.
  float secondScale(float largest) const { return rules.second(largest); }
  /// Stores the scale of a group. second: 1 where there is none.
  void storeScale(WeightRange range, float second, std::byte *to) const {
    rules.storeScale(range, second, to);
  }
  /// Whether scales may be kept so: powers of two also as f32.
  bool keeps(Storage kept) const {
    return kept == scaleStorage || keptAsFloat(kept);
  }
  bool keptAsFloat(Storage kept) const {
    return scaleStorage == Storage::UE8M0 && kept == Storage::F32;
  }
  /// The divisor of numbers. A kept number is one that `keeps` allows.
  float factor(const std::byte *scale, float second) const {
    return rules.factor(scale, second);
  }
  float factor(Storage kept, const std::byte *scale, float second) const;
  uint8_t zeroPoint(WeightRange range, float factor) const {
    return uint8_t(rules.zeroPoint(range, factor));
  }
  uint8_t code(float number, float factor, uint8_t zeroPoint) const {
    return uint8_t(rules.code(number, factor, zeroPoint));
  }

private:
  /// The functions of one WeightScaling.
  struct Rules {
    float (*second)(float largest) = nullptr;
    void (*storeScale)(WeightRange range, float second,
                       std::byte *to) = nullptr;
    float (*factor)(const std::byte *scale, float second) = nullptr;
    int (*zeroPoint)(WeightRange range, float factor) = nullptr;
    unsigned (*code)(float number, float factor, int zeroPoint) = nullptr;
  };
  template <class Code, class Scale, class Rule, moe::quant::Shares kShares,
            bool kZeroPoints>
  static Rules rulesOf();
  template <class Code, class Scale>
  static Rules choose(const WeightFormat &format);
  template <class Code>
  static Rules choose(const WeightFormat &format, Storage scale);

  Storage storage = Storage::None, scaleStorage = Storage::None;
  Rules rules;
};

} // namespace moec::host

#endif // MOEC_RUNTIME_HOST_WEIGHTRULES_H
