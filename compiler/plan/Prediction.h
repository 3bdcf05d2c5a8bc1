//===- Prediction.h - predicted time of a layer -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicts the times of a variant's kernels. For matmuls it uses the engines'
// cost models, and for other kernels the bytes that they move. The prediction
// assumes that the launches are in a CUDA graph and that no weights are in the
// L2 cache.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_PREDICTION_H
#define MOEC_COMPILER_PLAN_PREDICTION_H

#include "compiler/matmul/CostModel.h"
#include "compiler/matmul/Problem.h"
#include "dialect/Moe.h"

#include <string>
#include <vector>

namespace moec::compiler {

struct KernelPrediction {
  std::string kernel;
  Cost cost;
};

/// A group of experts that tokens choose with equal frequency. Row counts are
/// means per expert.
struct ExpertGroupRows {
  double experts = 0, rows = 0;
  /// Mean number of rows, including padding, in the expert's tiles in the first
  /// matmul; `rows` if the matmul has no tiles.
  double tileRows = 0;
};

struct Prediction {
  int64_t tokens = 0;
  double seconds = 0;
  double touchedExperts = 0; ///< number of experts on this rank that have rows
  double rows = 0;           ///< rows of all experts on this rank
  double mostRows = 0;       ///< rows of the expert with the most rows
  /// Fraction of the tiles' rows that are padding.
  double padding = 0;
  std::vector<ExpertGroupRows> experts;
  std::vector<KernelPrediction> kernels;
};

/// Predicts a run of the variant, whose kernels must have schedules. `ofRouted`
/// is the distribution of rows over the routed experts.
Prediction predict(moe::VariantOp variant, const ExpertRows &ofRouted,
                   const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PREDICTION_H
