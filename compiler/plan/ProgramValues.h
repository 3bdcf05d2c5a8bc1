//===- ProgramValues.h - named values of a program --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After kernels are formed, every value has a name: inputs, results of launches
// and packed weights. The memory that a value needs follows from the op that
// defines it. The workspace planner and the manifest writer both use these
// functions, so they agree.
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

/// Returns the manifest's name of an element type, such as "bf16" or "i32".
std::string elementTypeName(mlir::Type type);
/// Returns the name of a tensor's element type.
std::string elementTypeOf(mlir::Value value);
/// Returns the bytes of one element, for types of whole bytes.
int64_t elementBytes(llvm::StringRef elementType);
/// Returns the bits of one element of a block-scaled lhs as the MMA reads it.
/// 6-bit codes (quantized values) are expanded to bytes.
int64_t multipliedBits(moe::GroupedMatmulOp matmul);

/// CTAs of the cluster that routes and permutes when one CTA is not enough.
/// Clusters of more than 8 CTAs are not portable.
inline constexpr int64_t kRoutingCluster = 8;

/// Returns the bits of one element.
int64_t elementBits(llvm::StringRef elementType);

/// Returns the first op of type Op in the program, including its variants and
/// kernels, or null.
template <typename Op> Op findIn(moe::ProgramOp program) {
  Op found;
  program.walk([&](Op op) {
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

/// Returns true if rows arrive grouped by expert, with a count for each expert.
bool isBatched(moe::ProgramOp program);
/// Returns the number of experts whose weights this rank has.
int64_t localExperts(moe::ProgramOp program);
/// Returns the number of stored experts of the layer. If rows are batched by
/// expert, these are this rank's experts.
int64_t storedExperts(moe::ProgramOp program);
/// Returns the maximum number of rows for each of a run's tokens. In batched
/// programs a run's tokens are the slots of an expert.
int64_t rowsOfToken(moe::ProgramOp program);

/// Returns the problem of a matmul and of the activation that follows it (may
/// be null). Members that depend on the kernel or on token counts are not set.
MatmulProblem problemOf(moe::GroupedMatmulOp matmul, moe::ActivateOp activate);
/// Returns the problem of a kernel's matmul, with all members that determine
/// shared memory, fragments and grid.
MatmulProblem problemOf(moe::KernelOp kernel);

/// Returns the problem of the second matmul computed in slices, for at most
/// `tokens` tokens.
MatmulProblem slicesProblem(moe::GroupedMatmulOp matmul, moe::CombineOp combine,
                            int64_t tokens);

/// Returns the value that a matmul's epilogue computes before quantization: the
/// activation's result if the kernel has one, else the matmul's.
mlir::Value resultOfMatmul(moe::KernelOp kernel);
/// Returns the number of columns of that value that share a scale if the
/// matmul's kernel quantizes it by groups, else 0.
int64_t columnsOfGroup(moe::KernelOp kernel);

/// Returns the name of a program argument, of a result of a launch or of a
/// collective, or of a packed weight ("w13_packed").
std::string valueName(mlir::Value value);

/// A value that a variant returns, with its name.
struct NamedOutput {
  llvm::StringRef name;
  mlir::Value value;
};
/// Returns the outputs, followed by the optional outputs that the caller may
/// request.
llvm::SmallVector<NamedOutput> outputsOf(moe::ReturnOp ret);

/// Returns true if a result of a launch or a collective is itself an output of
/// the variant, under the same name; all other results are workspace.
bool isOutput(mlir::OpResult result);

/// Returns true if a stage or a launch defines the rows of moe.shared_rows or
/// computes on them. These rows are tokens: if ranks gather tokens, they are
/// only this rank's tokens.
bool isOfSharedRows(mlir::Operation *op);
bool isOfSharedRows(moe::KernelOp kernel);
/// Returns true if the matmul, in a variant or in a kernel, computes on the
/// rows of moe.shared_rows.
bool multipliesSharedRows(moe::GroupedMatmulOp matmul);
/// Returns the matmuls of a variant that compute on the rows of
/// moe.shared_rows, or all other matmuls.
llvm::SmallVector<moe::GroupedMatmulOp> matmulsOf(moe::VariantOp variant,
                                                  bool ofSharedRows);
/// Returns the bytes of one lhs element. It is the same for all matmuls of the
/// variant.
int64_t operandBytes(moe::VariantOp variant);
/// Returns the number of experts that `offsets` or, if it is null, `counts`
/// describes; if both are null, the number of this rank's experts.
int64_t expertsOfRows(moe::KernelOp kernel, mlir::Value offsets,
                      mlir::Value counts);
/// Rewrites an expression over tokens and rows for use in a kernel. If the
/// kernel is launched before other ranks' tokens are gathered, or computes on
/// the rows of moe.shared_rows, tokens become this rank's own tokens.
Expression sizeIn(moe::KernelOp kernel, const Expression &expression);

/// A tensor in the workspace or in the window, large enough for the variant
/// that needs the most memory.
struct WorkspaceValue {
  std::string name, elementType;
  std::vector<Expression> shape; ///< outermost first
  Expression bytes() const;
};

/// Attribute of a kernel that states why its stage has its own launch although
/// it could share one.
inline constexpr llvm::StringLiteral kApart = "moe.apart";

/// Name of the global buffer that a kernel of slices uses while it runs.
inline constexpr llvm::StringLiteral kSlices = "slices";

/// Returns the workspace of a program whose kernels are formed, in the order of
/// first use.
std::vector<WorkspaceValue> workspaceValues(moe::ProgramOp program);

/// Returns the results of launches that other ranks' kernels write, in the
/// order of first use. They are stored in the window (compiler/plan/Window.h).
std::vector<WorkspaceValue> windowValues(moe::ProgramOp program);

/// Returns the number of blocks of `blockTokens` tokens. If `mostBlocks` is
/// set, a block has the smallest multiple of `blockTokens` for which
/// `mostBlocks` blocks suffice.
Expression tokenBlocks(int64_t blockTokens, std::optional<int64_t> mostBlocks);

/// Returns an upper bound on the number of tiles for `rows` rows of `experts`
/// experts.
Expression tileCapacity(int64_t tileRows, int64_t experts);

/// Returns an upper bound on the number of rows: tokens * pairs, or slots *
/// experts if rows are batched by expert.
Expression rowCapacity(moe::ProgramOp program);

/// Returns the kernel's first stage of type Op, or null.
template <typename Op> Op findStage(moe::KernelOp kernel) {
  for (mlir::Operation &op : kernel.getBody().front())
    if (auto found = llvm::dyn_cast<Op>(op))
      return found;
  return {};
}

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_PROGRAMVALUES_H
