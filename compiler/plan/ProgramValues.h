//===- ProgramValues.h - the values of a program by name --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From level 3 on every value has a name: inputs, results of launches, packed
// weights. What memory each needs is read from the op that makes it. The
// workspace planner and the manifest writer both ask here, so they agree.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_PROGRAMVALUES_H
#define MOEC_COMPILER_PLAN_PROGRAMVALUES_H

#include "compiler/matmul/Gemv.h"
#include "compiler/matmul/Problem.h"
#include "dialect/Moe.h"
#include "runtime/package/Expression.h"

#include <optional>
#include <string>
#include <vector>

namespace moec::compiler {

/// "bf16", "i32": a type as manifests spell it.
std::string elementTypeName(mlir::Type type);
/// The same of the elements of a tensor.
std::string elementTypeOf(mlir::Value value);
/// Bytes of one element of whole bytes.
int64_t elementBytes(llvm::StringRef elementType);
/// Bits that an element of a block-scaled lhs has in the multiply: 6-bit codes
/// become bytes.
int64_t multipliedBits(moe::GroupedMatmulOp matmul);

/// CTAs of the cluster that routes and permutes where one CTA does not; more
/// than 8 are not portable.
inline constexpr int64_t kRoutingCluster = 8;

/// Bits of an element.
int64_t elementBits(llvm::StringRef elementType);

/// The first operation of a kind in a program, in its variants or kernels.
template <typename Op> Op findIn(moe::ProgramOp program) {
  Op found;
  program.walk([&](Op op) {
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

/// Rows come by expert, with counts.
bool isBatched(moe::ProgramOp program);
/// Experts whose weights this rank has.
int64_t localExperts(moe::ProgramOp program);
/// Experts whose weights there are: of batched rows those of this rank.
int64_t storedExperts(moe::ProgramOp program);
/// Rows at most for each of a run's tokens, which are slots of an expert where
/// rows come by expert.
int64_t rowsOfToken(moe::ProgramOp program);

/// A matmul and the activation of its result, which may be null: all members
/// that neither a kernel nor its tokens decide.
MatmulProblem problemOf(moe::GroupedMatmulOp matmul, moe::ActivateOp activate);
/// A kernel's matmul, as shared memory, fragments and grid depend on it.
MatmulProblem problemOf(moe::KernelOp kernel);

/// The second matmul of up to so many tokens, in slices.
MatmulProblem slicesProblem(moe::GroupedMatmulOp matmul, moe::CombineOp combine,
                            int64_t tokens);

/// The value that the epilogue of a matmul leaves: that of the activation,
/// if there is one, before it is quantized.
mlir::Value resultOfMatmul(moe::KernelOp kernel);
/// How many columns of it share a scale where the matmul's kernel quantizes it
/// by groups, else 0.
int64_t columnsOfGroup(moe::KernelOp kernel);

/// The name of an argument of the program, a result of a launch or of a
/// collective, or a packed weight ("w13_packed").
std::string valueName(mlir::Value value);

/// A value that a variant returns.
struct NamedOutput {
  llvm::StringRef name;
  mlir::Value value;
};
/// Outputs, and behind them those that the caller may ask for.
llvm::SmallVector<NamedOutput> outputsOf(moe::ReturnOp ret);

/// Returns true if a result of a launch or a collective is itself an output of
/// the variant, under the same name; all other results are workspace.
bool isOutput(mlir::OpResult result);

/// Returns true if a stage or a launch computes on the rows of moe.shared_rows,
/// or makes them: its rows are tokens, of this rank where ranks bring tokens
/// together.
bool isOfSharedRows(mlir::Operation *op);
bool isOfSharedRows(moe::KernelOp kernel);
/// The same of a matmul, in a variant or a kernel.
bool multipliesSharedRows(moe::GroupedMatmulOp matmul);
/// The matmuls of a variant that are of such rows, or the others.
llvm::SmallVector<moe::GroupedMatmulOp> matmulsOf(moe::VariantOp variant,
                                                  bool ofSharedRows);
/// Bytes of an element of the first operands, which all matmuls have alike.
int64_t operandBytes(moe::VariantOp variant);
/// Experts whose rows `offsets` or else `counts` say, or else the rank's.
int64_t expertsOfRows(moe::KernelOp kernel, mlir::Value offsets,
                      mlir::Value counts);
/// An expression over tokens and rows as one of a kernel: where it is launched
/// before the tokens of other ranks have come, or its rows are those of
/// moe.shared_rows, tokens are those that this rank brings.
Expression sizeIn(moe::KernelOp kernel, const Expression &expression);

/// A tensor in the workspace or in the window; sizes are those of the neediest
/// variant.
struct WorkspaceValue {
  std::string name, elementType;
  std::vector<Expression> shape; ///< outermost first
  Expression bytes() const;
};

/// The attribute of a kernel that says why its stage has a launch of its own,
/// where it may share one.
inline constexpr llvm::StringLiteral kApart = "moe.apart";

/// The data that a kernel of slices keeps in memory while it runs.
inline constexpr llvm::StringLiteral kSlices = "slices";

/// The workspace of a program whose kernels are formed, by first use.
std::vector<WorkspaceValue> workspaceValues(moe::ProgramOp program);

/// Results of launches that other ranks' kernels write, by first use: they lie
/// in the window (plan/Window.h).
std::vector<WorkspaceValue> windowValues(moe::ProgramOp program);

/// The blocks of `blockTokens` of the tokens, or of the smallest multiple with
/// which `mostBlocks` suffice.
Expression tokenBlocks(int64_t blockTokens, std::optional<int64_t> mostBlocks);

/// Bound on the tiles of the rows of `experts` experts, of `rows`.
Expression tileCapacity(int64_t tileRows, int64_t experts);

/// The bound on rows: tokens * pairs, or slots * experts where rows come by
/// expert.
Expression rowCapacity(moe::ProgramOp program);

/// The stages in a kernel, in order.
template <typename Op> Op findStage(moe::KernelOp kernel) {
  for (mlir::Operation &op : kernel.getBody().front())
    if (auto found = llvm::dyn_cast<Op>(op))
      return found;
  return {};
}

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PROGRAMVALUES_H
