//===- QuantizeWeights.h - quantizes a float matrix -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantizes the matrix of one expert to the format that a descriptor of the
// layer specifies.
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
/// the second scale, by which the scales are multiplied.
struct QuantizedMatrix {
  int64_t scaleRows = 0, scaleColumns = 0;
  std::vector<std::byte> codes, scales;
  std::vector<int8_t> zeroPoints;
  float second = 1;
};

/// Quantizes `data`, a row-major matrix of shape [rows, columns]. Returns an
/// error if there are no rules for an element type, or if a row of codes does
/// not fill whole bytes.
Result<QuantizedMatrix> quantizeMatrix(std::span<const float> data,
                                       int64_t rows, int64_t columns,
                                       const WeightFormat &format);

} // namespace moec::weights

#endif // MOEC_RUNTIME_WEIGHTS_QUANTIZEWEIGHTS_H
