//===- Prediction.h - how long a layer takes --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times of the kernels of a variant by the cost models of their engines, and of
// the kernels that only move bytes. Launches are those of a CUDA graph, and
// weights are not in the L2 cache.
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

/// Experts that are chosen equally often. Rows are means of one expert.
struct ExpertGroupRows {
  double experts = 0, rows = 0;
  double tileRows = 0; ///< of the first matmul; `rows` if it has no tiles
};

struct Prediction {
  int64_t tokens = 0;
  double seconds = 0;
  double touchedExperts = 0; ///< of this rank
  double rows = 0;           ///< of its experts
  double mostRows = 0;       ///< of an expert
  /// Rows of tiles behind an expert's end, over all rows of tiles.
  double padding = 0;
  std::vector<ExpertGroupRows> experts;
  std::vector<KernelPrediction> kernels;
};

/// The run of a variant, whose kernels have schedules.
Prediction predict(moe::VariantOp variant, const ExpertRows &ofRouted,
                   const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PREDICTION_H
