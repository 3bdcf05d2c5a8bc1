//===- Prediction.h - predicted time of a layer -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Predicts the times of a variant's kernels: with the engines' cost models for
// matmuls, and by bytes moved for the other kernels. The prediction assumes
// that the launches are in a CUDA graph and that no weights are in the L2
// cache.
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

/// A group of experts that are chosen equally often. Counts of rows are means
/// for one expert.
struct ExpertGroupRows {
  double experts = 0, rows = 0;
  /// Rows of its tiles in the first matmul; `rows` if untiled.
  double tileRows = 0;
};

struct Prediction {
  int64_t tokens = 0;
  double seconds = 0;
  double touchedExperts = 0; ///< experts of this rank that have rows
  double rows = 0;           ///< rows of this rank's experts
  double mostRows = 0;       ///< rows of the expert with the most rows
  /// Fraction of the rows of tiles that are padding after an expert's last row.
  double padding = 0;
  std::vector<ExpertGroupRows> experts;
  std::vector<KernelPrediction> kernels;
};

/// Predicts a run of the variant. Its kernels must have schedules. `ofRouted`
/// is the distribution of rows over the routed experts.
Prediction predict(moe::VariantOp variant, const ExpertRows &ofRouted,
                   const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PREDICTION_H
