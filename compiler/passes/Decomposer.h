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
  /// (quantized values) without dequantization (QuantAttr::mayMultiplyCodes,
  /// getBlockPair), else nullopt.
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

  /// An operand as the matmul reads it, and its scales (null if absent).
  struct Quantized {
    mlir::Value data, scale, secondScale = {};
  };

  /// The rows of a stage. Rows sorted by expert have `offsets`, rows batched by
  /// expert have `counts`, and rows of tokens have neither.
  struct Rows {
    mlir::Value tiles, tileCount, offsets, counts;
  };

  /// `x` and its scales as the caller provides them.
  struct GivenX {
    mlir::Value data, scale, secondScale = {};
  };

  void addInputs();
  /// Adds the op that quantizes a floating-point weight at load time. Its
  /// results replace the input, so matmuls read the codes and scales.
  void quantizeWeights(llvm::StringRef name, moe::DescriptorAttr descriptor,
                       int64_t parts);
  /// Adds the op that derives the order of a weight's columns from its group
  /// index, and replaces the input by this order.
  void orderColumns(llvm::StringRef name, moe::DescriptorAttr descriptor);
  mlir::Value input(llvm::StringRef name);
  void setInput(llvm::StringRef name, mlir::Value value);

  // Builders of all stages of a program, one for each kind of program.
  void addStages();
  /// Adds the stages of one part of a layer. Program inputs replace the results
  /// of the layer's other parts. addStagesOfExperts() adds those of a part with
  /// one of the two matmuls.
  void addStagesOfPart();
  void addStagesOfExperts();
  /// Adds the stages of a batched layer, whose rows arrive and leave grouped by
  /// expert.
  void addBatchedStages();
  void finish(llvm::ArrayRef<llvm::StringRef> names, mlir::ValueRange outputs,
              moe::RouteOp route, moe::PermuteOp permute);

  // Builders of single stages or of a few stages.

  /// Quantizes `input`. `weights`: the top-k weights by which rows are
  /// multiplied before quantization, or null. `which`: the name prefix of
  /// stored scales, "a1" or "a2", or "shared_a1" or "shared_a2" for shared
  /// experts.
  Quantized quantize(moe::DescriptorAttr descriptor, mlir::Value input,
                     mlir::Value weights, llvm::StringRef which,
                     const Rows &rows);
  GivenX givenX();
  /// Returns x as the first matmul reads it if the caller provides it
  /// quantized. Dequantizes x if no engine multiplies its codes.
  Quantized quantizedX(const GivenX &x, const Rows &rows);
  /// Returns x as the first matmul reads it. Quantizes x if the caller has not.
  Quantized quantizedOperand(moe::RouteOp route);
  /// Permutes the columns of `input` into the weight's column order along K,
  /// which differs between experts. With `gather` (the pair of each sorted
  /// row), each input row is also copied to the `pairs` rows of its pairs.
  mlir::Value permuteColumns(mlir::Value input, llvm::StringRef weight,
                             mlir::IntegerAttr pairs, mlir::Value gather,
                             const Rows &rows);
  /// Adds a grouped matmul. `gather`: the pair of each row, or null. `pairs`:
  /// the number of pairs per lhs row, only with `gather`. `weight`: the name
  /// prefix "w13" or "w2", or "shared_w13" or "shared_w2" for shared experts.
  mlir::Value matmul(mlir::IntegerAttr pairs, Quantized lhs, mlir::Value gather,
                     llvm::StringRef weight, mlir::Value bias,
                     const Rows &rows);
  /// Adds the routing stage. `routing` is the layer's method, or a method that
  /// chooses nothing if the caller provides the top-k ids and weights.
  moe::RouteOp addRoute(moe::RoutingAttr routing);
  moe::CountOp addCount(moe::RouteOp route);
  /// Adds the stages that sort the pairs by expert.
  moe::PermuteOp addPermute(moe::RouteOp route);
  mlir::Value combine(mlir::Value partials, mlir::Value positions,
                      moe::RouteOp route);
  /// Adds the first matmul of the routed experts, and with act-order the
  /// permutation of the columns of `x`.
  mlir::Value firstMatmul(Quantized x, moe::PermuteOp permute,
                          const Rows &sorted);
  /// Adds the activation, whose result has elements of `type`. `pairs`: as for
  /// secondHalf().
  mlir::Value activate(mlir::Value h, const Rows &rows, mlir::Value pairs,
                       mlir::Type type);
  /// Adds the quantization of the intermediate and the second matmul. `whose`:
  /// as for secondHalf().
  mlir::Value secondMatmul(mlir::Value intermediate, const Rows &rows,
                           const std::string &whose = "");
  /// Adds the stages that follow the first matmul, up to and including the
  /// second matmul, and returns its result. `pairs`: the pair of each row if a
  /// LoRA addend is added to the rows, else null. `whose`: the name prefix of
  /// the experts' weights, "" or "shared_".
  mlir::Value secondHalf(mlir::Value h, const Rows &rows, mlir::Value pairs,
                         const std::string &whose = "");
  /// Sets the element type of the second matmul's result to the layer's output
  /// type. Used if this result is an output of the layer.
  void roundToOutput(mlir::Value y);

  // Stages between ranks, and stages of shared experts (DecomposeRanks.cpp).

  /// Gathers the tokens of all ranks. Afterwards the route's top-k ids and
  /// weights, x, and the scales of x cover the tokens of all ranks.
  ///
  /// Quantizes x before the dispatch, because codes are fewer bytes and scales
  /// per token or per group do not depend on other tokens; then returns x as
  /// the matmul reads it. If the caller has quantized x, or x is multiplied by
  /// the top-k weights, returns nulls, and x is prepared after the dispatch.
  Quantized dispatch(const Communication &moved, moe::RouteOp &route);
  /// Sends the partial sums of `ranks` ranks back to the ranks that own the
  /// tokens, and then reduces over `reduce` ranks that have the same tokens.
  /// `route` has the ids of all ranks' tokens, `own` has the ids of this rank's
  /// tokens.
  mlir::Value finalize(const Communication &moved, mlir::Value sums,
                       moe::RouteOp route, moe::RouteOp own, int64_t ranks,
                       int64_t reduce);
  mlir::UnitAttr oneSided(const Communication &moved);
  /// Returns the number of experts that are distributed over the ranks. Kernels
  /// compute the rank of an expert from this number. Returns null if the
  /// package does not need the number, or if each rank has all experts.
  mlir::IntegerAttr spreadExperts(const Communication &moved);
  /// Returns x as the shared experts' first matmul reads it. This is the routed
  /// experts' operand, unless the layer has stored scales for a1.
  Quantized sharedX(const GivenX &x, const Rows &rows);
  /// Adds the MLP of shared experts that have their own weights. Returns its
  /// result plus `routed`, the result of the routed experts.
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
  /// Returns null for 1, the attribute's default, so that the op equals its
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
