//===- WeightRules.h - scales and codes of float weights --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes one group of weight values at a time, by the rules of the kernels
// (templates/moe/math/weight_scaling.cuh). The fields of a layer select the
// rule. docs/reference/checkpoints.md lists the rules. Codes are quantized
// values.
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

/// The quantized format of a packed weight. The manifest's layer specifies it
/// as a descriptor.
struct WeightFormat {
  std::string element; ///< element type of the codes
  std::string scale;   ///< element type of the scales; "": the weights stay
                       ///< floats
  /// Extents of a group; -1: the whole extent.
  int64_t groupRows = 0, groupColumns = 0;
  bool second = false; ///< scales are multiplied by an f32 second scale
  bool zeroPoint = false;
  /// Rounding of power-of-two scales: "even", "ceil" or "floor"; "" means
  /// "even" for 4-bit codes and "ceil" for wider ones.
  std::string scaleRule;
};

/// The range (minimum and maximum) of the values that share a scale, extended
/// to include 0.
using WeightRange = moe::quant::Range;

/// The quantization rules of one weight format.
class WeightRules {
public:
  /// Selects the rules for `format`. Returns Refused if moec has no rules for
  /// it.
  static Result<WeightRules> of(const WeightFormat &format);

  Storage codes() const { return storage; }
  Storage scales() const { return scaleStorage; }

  /// Returns the second scale of a matrix, given the matrix's largest
  /// magnitude.
  float secondScale(float largest) const { return rules.second(largest); }
  /// Stores the scale of a group. `second`: the second scale; 1 if the format
  /// has no second scales.
  void storeScale(WeightRange range, float second, std::byte *to) const {
    rules.storeScale(range, second, to);
  }
  /// Returns true if scales may be stored as type `kept`: the format's scale
  /// type, or f32 for power-of-two scales.
  bool keeps(Storage kept) const {
    return kept == scaleStorage || keptAsFloat(kept);
  }
  /// Returns true if `kept` is f32 and the format's scales are powers of two.
  bool keptAsFloat(Storage kept) const {
    return scaleStorage == Storage::UE8M0 && kept == Storage::F32;
  }
  /// Returns the value by which the values of a group are divided. `kept` must
  /// be a type that keeps() accepts.
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
  /// The functions of one moe::quant::WeightScaling.
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
