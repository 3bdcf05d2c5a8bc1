//===- QuantizeWeights.h - codes and scales of a float matrix ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One matrix of one expert, quantized as a descriptor of the layer says.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H
#define MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H

#include "runtime/host/WeightRules.h"
#include "runtime/support/Result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moec::weights {

using host::WeightFormat;

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
