//===- QuantizeWeights.h - quantizes a float matrix -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes one matrix of one expert as a descriptor of the layer specifies.
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

/// The codes (quantized values), scales and zero points of a matrix. `second`:
/// the scale of the scales.
struct QuantizedMatrix {
  int64_t scaleRows = 0, scaleColumns = 0;
  std::vector<std::byte> codes, scales;
  std::vector<int8_t> zeroPoints;
  float second = 1;
};

/// Quantizes `data`, [rows, columns] in row-major order. Returns an error for
/// an element type without rules or columns that do not fill whole bytes.
Result<QuantizedMatrix> quantizeMatrix(std::span<const float> data,
                                       int64_t rows, int64_t columns,
                                       const WeightFormat &format);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H
