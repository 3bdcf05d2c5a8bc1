//===- GroupStages.h - groups stages into kernels ---------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of the pass moe-form-kernels.
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

/// The stages of one kernel.
struct StageGroup {
  std::string name; ///< suffix of the kernel's name, after the variant's name
  mlir::SmallVector<mlir::Operation *> stages;
  /// The reason why the stage has its own launch although it could share one,
  /// or "" if there is none.
  std::string apart;
  const catalog::KernelKind *kind = nullptr;
};

/// Options of a variant that determine which stages share a kernel.
struct StageFusion {
  bool any = false; ///< some stages share kernels
  /// The first matmul's kernel also computes the activation.
  bool activation = false;
  /// A separate kernel quantizes the intermediate, unless its scale is static.
  bool quantizesApart = false;
  bool routing = false; ///< one kernel routes and permutes
};

/// Returns true if an amax or a quantize op reads the intermediate, and false
/// if it reads x.
bool isOfIntermediate(mlir::Operation *op);

/// Returns true if `op` is the second matmul or the combine stage of a variant
/// in which one kernel computes these two stages, slice by slice
/// (compiler/matmul/Slices.h). A slice is 128 columns of the result.
bool isInSlices(moe::VariantOp variant, mlir::Operation &op);

/// Groups all stages of a variant into kernels, in order. Moves or duplicates
/// stages that share a kernel with others. Derives `fusion.routing` from the
/// variant and ignores the passed value. Fails at a stage that no kernel
/// supports.
mlir::LogicalResult groupStages(moe::VariantOp variant, StageFusion fusion,
                                mlir::SmallVectorImpl<StageGroup> &groups);

/// Returns true if the stage communicates between ranks and is performed by a
/// collective of a library instead of a kernel.
bool isBetweenRanks(mlir::Operation *stage);

/// Returns true if the stage runs before the dispatch, on this rank's own
/// tokens.
bool isBeforeDispatch(mlir::Operation *stage);

/// Replaces a stage between ranks by collectives.
void formCollectives(mlir::OpBuilder &builder, mlir::Operation *stage);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_GROUPSTAGES_H
