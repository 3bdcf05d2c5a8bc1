//===- QuantizeWeights.h - codes and scales of a float matrix ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One matrix of one expert, quantized as a descriptor of the layer says, with
// the rules that docs/checkpoints.md lists: a scale is rounded to its type
// first, then every number is divided by what the scale has become.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H
#define MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H

#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moec::weights {

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

struct QuantizedMatrix {
  int64_t scaleRows = 0, scaleColumns = 0;
  std::vector<std::byte> codes, scales;
  std::vector<int8_t> zeroPoints;
  float second = 1;
};

/// `data` has rows behind each other. Refuses element types and extents that
/// it cannot store.
Result<QuantizedMatrix> quantizeMatrix(std::span<const float> data,
                                       int64_t rows, int64_t columns,
                                       const WeightFormat &format);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H
