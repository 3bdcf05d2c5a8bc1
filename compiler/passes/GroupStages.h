//===- GroupStages.h - stages that share a kernel ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of moe-form-kernels.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_GROUPSTAGES_H
#define MOEC_COMPILER_PASSES_GROUPSTAGES_H

#include "dialect/Moe.h"
#include "dialect/catalog/Kernels.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SetVector.h"

#include <string>

namespace moec::compiler {

/// Stages of one kernel.
struct StageGroup {
  std::string name; ///< behind the variant's
  mlir::SmallVector<mlir::Operation *> stages;
  /// Why it has a launch of its own where it may share one, "" elsewhere.
  std::string apart;
  const catalog::KernelKind *kind = nullptr;
};

/// The stages that share a kernel, as the pass decides for a variant.
struct StageFusion {
  bool any = false;        ///< stages share kernels at all
  bool activation = false; ///< the activation is in the first matmul's kernel
  /// The intermediate is quantized by a kernel of its own, but where its scale
  /// is given.
  bool quantizesApart = false;
  bool routing = false; ///< one kernel routes and permutes
};

/// Whether an amax or a quantize is of the intermediate, not of x.
bool isOfIntermediate(mlir::Operation *op);

/// Whether one kernel holds the variant's second matmul and combine, and the
/// stage is one of these.
bool isInSlices(moe::VariantOp variant, mlir::Operation &op);

/// Puts all stages of a variant into groups, in order, and moves or repeats
/// those that share a kernel with others. `fusion.routing` is not read: it
/// follows from the variant. Fails at a stage that no kernel holds.
mlir::LogicalResult groupStages(moe::VariantOp variant, StageFusion fusion,
                                mlir::SmallVectorImpl<StageGroup> &groups);

/// Whether the stage is one between ranks that no kernel holds: a library does
/// it.
bool isBetweenRanks(mlir::Operation *stage);

/// Returns true if the stage runs before the dispatch, on this rank's own
/// tokens.
bool isBeforeDispatch(mlir::Operation *stage);

/// Puts collectives in place of a stage between ranks.
void formCollectives(mlir::OpBuilder &builder, mlir::Operation *stage);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_GROUPSTAGES_H
