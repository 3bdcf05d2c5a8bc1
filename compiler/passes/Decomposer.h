//===- Decomposer.h - the stages of one layer -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of moe-decompose-layer.
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
  /// ofCodes: Codes or Blocks, where the layer may multiply them
  /// (QuantAttr::mayMultiplyCodes, getBlockPair) and does.
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

  /// A value as the matmul reads it, and its scales (null: none).
  struct Quantized {
    mlir::Value data, scale, secondScale = {};
  };

  /// Rows sorted by expert, as `offsets` say, or batched, with `counts`. Rows
  /// of tokens have neither.
  struct Rows {
    mlir::Value tiles, tileCount, offsets, counts;
  };

  /// x that comes quantized, as it is given.
  struct GivenX {
    mlir::Value data, scale, secondScale = {};
  };

  void addInputs();
  /// Matmuls read what becomes of a weight in place of the weight.
  void quantizeWeights(llvm::StringRef name, moe::DescriptorAttr descriptor,
                       int64_t parts);
  /// From here on the name is the order's that follows from it.
  void orderColumns(llvm::StringRef name, moe::DescriptorAttr descriptor);
  mlir::Value input(llvm::StringRef name);
  void setInput(llvm::StringRef name, mlir::Value value);

  // All stages of a program, by its kind.
  void addStages();
  /// The stages of the layer that the part has, which read what is given in
  /// place of the others' results.
  void addStagesOfPart();
  /// Rows come by expert and go back to where they came from.
  void addBatchedStages();
  void finish(llvm::ArrayRef<llvm::StringRef> names, mlir::ValueRange outputs,
              moe::RouteOp route, moe::PermuteOp permute);

  // Some stages of it.
  /// `weights`: of pairs, which multiply the tokens first; null for none.
  /// `which`: "a1" or "a2", whose stored scales are taken, or those of shared
  /// experts.
  Quantized quantize(moe::DescriptorAttr descriptor, mlir::Value input,
                     mlir::Value weights, llvm::StringRef which,
                     const Rows &rows);
  GivenX givenX();
  /// Dequantizes it where no engine multiplies its codes.
  Quantized quantizedX(const GivenX &x, const Rows &rows);
  /// Columns as those of the weight's k, where their order is each expert's.
  /// With `gather` (of sorted rows) rows of tokens become those of pairs, of
  /// which each row of the input has `pairs`.
  mlir::Value permuteColumns(mlir::Value input, llvm::StringRef weight,
                             mlir::IntegerAttr pairs, mlir::Value gather,
                             const Rows &rows);
  /// `gather`: the pair of each row, or null; `pairs`: those of a row of lhs,
  /// with `gather` alone. `weight`: "w13" or "w2", or of shared experts.
  mlir::Value matmul(mlir::IntegerAttr pairs, Quantized lhs, mlir::Value gather,
                     llvm::StringRef weight, mlir::Value bias,
                     const Rows &rows);
  /// `routing`: the layer's, or where all is given one that chooses nothing.
  moe::RouteOp addRoute(moe::RoutingAttr routing);
  moe::CountOp addCount(moe::RouteOp route);
  mlir::Value combine(mlir::Value partials, mlir::Value positions,
                      moe::RouteOp route);
  /// From the result of the first matmul to that of the second. `pairs`: of the
  /// rows, where something is added to them. `whose`: what the names of the
  /// experts' weights begin with.
  mlir::Value secondHalf(mlir::Value h, const Rows &rows, mlir::Value pairs,
                         const std::string &whose = "");
  /// Rounds the second matmul's result to the type of the output that it is.
  void roundToOutput(mlir::Value y);

  // Stages between ranks, and of shared experts (DecomposeRanks.cpp).
  /// Brings the tokens of all ranks here: from then on the route's ids and
  /// weights are theirs, and so are x and its scales among the inputs. Returns
  /// x as the matmul reads it where it moves so: scales of a token or a part of
  /// it are the same before and behind, and codes are fewer bytes. Products of
  /// x and weights are made behind.
  Quantized dispatch(const Communication &moved, moe::RouteOp &route);
  /// Brings the sums of `ranks` ranks back to those of their tokens, and sums
  /// over `reduce` that have the same. `route` was given the ids of all ranks'
  /// tokens, `own` has made those of this rank's.
  mlir::Value finalize(const Communication &moved, mlir::Value sums,
                       moe::RouteOp route, moe::RouteOp own, int64_t ranks,
                       int64_t reduce);
  mlir::UnitAttr oneSided(const Communication &moved);
  /// The experts that ranks share out, which say a token's owners; null where
  /// nobody asks, or where all ranks have all.
  mlir::IntegerAttr spreadExperts(const Communication &moved);
  /// x as the first matmul of shared experts reads it: as that of the others
  /// does, but for scales that are stored.
  Quantized sharedX(const GivenX &x, const Rows &rows);
  /// Adds the MLP of the shared experts, which have weights of their own, to
  /// what the others made of the tokens of x.
  mlir::Value addSharedExperts(mlir::Value routed, const GivenX &x);

  mlir::RankedTensorType tensor(llvm::ArrayRef<int64_t> shape,
                                mlir::Type element);
  /// Its name, if it has one.
  mlir::StringAttr scheme();
  moe::Realization realization(bool first);
  /// Null where the operand is not quantized.
  static moe::DescriptorAttr quantized(moe::DescriptorAttr descriptor);
  /// The rank's; null where it holds all.
  mlir::IntegerAttr localExperts();
  /// A default is absent, as it is when it was printed and parsed.
  mlir::IntegerAttr unlessOne(int64_t number);
  /// Null where there are none.
  static mlir::IntegerAttr positive(mlir::IntegerAttr count);

  moe::LayerOp layer;
  moe::TargetAttr target;
  int64_t maxTokens;
  std::optional<moe::Realization> ofCodes;
  mlir::OpBuilder builder;
  mlir::Location location;
  llvm::SmallVector<Input> inputs;
  /// x of this rank's tokens as the first matmul reads it; null where its rows
  /// are other ones.
  Quantized quantizedOwn;
};

} // namespace moec::compiler

#endif // MOEC_COMPILER_PASSES_DECOMPOSER_H
