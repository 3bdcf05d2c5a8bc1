//===- Decomposer.h - builds the stages of one layer ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implementation of the pass moe-decompose-layer.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_DECOMPOSER_H
#define MOEC_COMPILER_PASSES_DECOMPOSER_H

#include "compiler/plan/Communication.h"
#include "dialect/Moe.h"

#include "mlir/IR/Builders.h"

#include <optional>
#include <string>

namespace moec::compiler {

/// Builds the program of one layer for one target.
class Decomposer {
public:
  /// `ofCodes` is Codes or Blocks if the layer's matmuls multiply codes
  /// (quantized values) as stored (QuantAttr::mayMultiplyCodes, getBlockPair),
  /// else nullopt.
  Decomposer(moe::LayerOp layer, moe::TargetAttr target, int64_t maxTokens,
             std::optional<moe::Realization> ofCodes)
      : layer(layer), target(target), maxTokens(maxTokens), ofCodes(ofCodes),
        builder(layer.getContext()), location(layer.getLoc()) {}

  moe::ProgramOp build();

private:
  struct Input {
    std::string name;
    mlir::RankedTensorType type;
    mlir::Value value;
  };

  /// An operand as the matmul reads it, and its scales (null if it has none).
  struct Quantized {
    mlir::Value data, scale, secondScale = {};
  };

  /// The rows that a stage computes on. Rows sorted by expert have `offsets`,
  /// and rows batched by expert have `counts`. Rows of tokens have neither.
  struct Rows {
    mlir::Value tiles, tileCount, offsets, counts;
  };

  /// `x` and its scales as the caller provides them.
  struct GivenX {
    mlir::Value data, scale, secondScale = {};
  };

  void addInputs();
  /// Adds the ops that quantize a weight of floats at load time, and replaces
  /// the input by their results. Matmuls then read these.
  void quantizeWeights(llvm::StringRef name, moe::DescriptorAttr descriptor,
                       int64_t parts);
  /// Adds the op that derives the order of a weight's columns from its group
  /// index, and replaces the input by this order.
  void orderColumns(llvm::StringRef name, moe::DescriptorAttr descriptor);
  mlir::Value input(llvm::StringRef name);
  void setInput(llvm::StringRef name, mlir::Value value);

  // Builders of all stages of a program, one for each kind of program.
  void addStages();
  /// Adds the stages of a part of a layer. They read inputs in place of the
  /// results of other parts.
  void addStagesOfPart();
  /// Adds the stages of a batched layer, whose rows arrive and leave grouped by
  /// expert.
  void addBatchedStages();
  void finish(llvm::ArrayRef<llvm::StringRef> names, mlir::ValueRange outputs,
              moe::RouteOp route, moe::PermuteOp permute);

  // Builders of single stages or of a few stages.
  /// Quantizes `input`. `weights`: the top-k weights by which rows are
  /// multiplied before, or null. `which`: the prefix of the names of stored
  /// scales, "a1" or "a2", or "shared_a1" or "shared_a2" for shared experts.
  Quantized quantize(moe::DescriptorAttr descriptor, mlir::Value input,
                     mlir::Value weights, llvm::StringRef which,
                     const Rows &rows);
  GivenX givenX();
  /// Returns x as the first matmul reads it if the caller provides it
  /// quantized. Dequantizes x if no engine multiplies its codes.
  Quantized quantizedX(const GivenX &x, const Rows &rows);
  /// Permutes columns of `input` into the order of the weight's k, which
  /// differs between experts. With `gather` (indices of sorted rows) the rows
  /// of tokens also become rows of pairs; each input row has `pairs` of them.
  mlir::Value permuteColumns(mlir::Value input, llvm::StringRef weight,
                             mlir::IntegerAttr pairs, mlir::Value gather,
                             const Rows &rows);
  /// Adds a grouped matmul. `gather`: the pair of each row, or null. `pairs`:
  /// the number of pairs of each lhs row, only with `gather`. `weight`: the
  /// name prefix "w13" or "w2", or that of shared experts.
  mlir::Value matmul(mlir::IntegerAttr pairs, Quantized lhs, mlir::Value gather,
                     llvm::StringRef weight, mlir::Value bias,
                     const Rows &rows);
  /// Adds the routing stage. `routing` is the layer's method, or a method that
  /// chooses nothing if the caller provides the top-k ids and weights.
  moe::RouteOp addRoute(moe::RoutingAttr routing);
  moe::CountOp addCount(moe::RouteOp route);
  mlir::Value combine(mlir::Value partials, mlir::Value positions,
                      moe::RouteOp route);
  /// Adds the stages from the result of the first matmul to that of the second.
  /// `pairs`: the pair of each row if something is added to the rows, else
  /// null. `whose`: name prefix of the experts' weights, "" or "shared_".
  mlir::Value secondHalf(mlir::Value h, const Rows &rows, mlir::Value pairs,
                         const std::string &whose = "");
  /// Rounds the result of the second matmul to the output type if it is an
  /// output.
  void roundToOutput(mlir::Value y);

  // Stages between ranks, and stages of shared experts (DecomposeRanks.cpp).
  /// Gathers the tokens of all ranks. Afterwards the route's top-k ids and
  /// weights, and the inputs x and its scales, are those of all ranks. Returns
  /// x as the matmul reads it if x is quantized before the dispatch: scales of
  /// a token or a part of it do not depend on other tokens, and codes are fewer
  /// bytes. If x is multiplied by the top-k weights, it is quantized after the
  /// dispatch.
  Quantized dispatch(const Communication &moved, moe::RouteOp &route);
  /// Returns the sums of `ranks` ranks to the ranks that own the tokens, and
  /// then reduces over `reduce` ranks that have the same tokens. `route` has
  /// the ids of all ranks' tokens, `own` those of this rank's tokens.
  mlir::Value finalize(const Communication &moved, mlir::Value sums,
                       moe::RouteOp route, moe::RouteOp own, int64_t ranks,
                       int64_t reduce);
  mlir::UnitAttr oneSided(const Communication &moved);
  /// Returns the number of experts that are distributed over the ranks, from
  /// which the ranks of a token's experts follow. Returns null if the package
  /// does not need it, or if each rank has all experts.
  mlir::IntegerAttr spreadExperts(const Communication &moved);
  /// Returns x as the first matmul of shared experts reads it. It equals the
  /// operand of the routed experts, unless scales are stored.
  Quantized sharedX(const GivenX &x, const Rows &rows);
  /// Adds the MLP of shared experts that have their own weights. Adds its
  /// result to `routed`, the result of the routed experts.
  mlir::Value addSharedExperts(mlir::Value routed, const GivenX &x);

  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape,
                                mlir::Type element);
  /// Returns the name of the layer's scheme, or null.
  mlir::StringAttr scheme();
  moe::Realization realization(bool first);
  /// Returns the descriptor, or null if the operand is not quantized.
  static moe::DescriptorAttr quantized(moe::DescriptorAttr descriptor);
  /// Returns the number of this rank's experts, or null if it has all of them.
  mlir::IntegerAttr localExperts();
  /// Returns null for one, which is the default, so that the op equals its
  /// printed and parsed form.
  mlir::IntegerAttr unlessOne(int64_t number);
  /// Returns `count`, or null if it is absent or zero.
  static mlir::IntegerAttr positive(mlir::IntegerAttr count);

  moe::LayerOp layer;
  moe::TargetAttr target;
  int64_t maxTokens;
  std::optional<moe::Realization> ofCodes;
  mlir::OpBuilder builder;
  mlir::Location location;
  llvm::SmallVector<Input> inputs;
  /// This rank's x as the first matmul reads it. Null if the first matmul reads
  /// other rows.
  Quantized quantizedOwn;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_DECOMPOSER_H
