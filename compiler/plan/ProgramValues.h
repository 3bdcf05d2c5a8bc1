//===- ProgramValues.h - named values of a program --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After kernels are formed, every value has a name: inputs, results of launches
// and packed weights. The op that defines a value determines how much memory
// the value needs. The workspace planner and the manifest writer both use these
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

/// Returns the name that the manifest uses for an element type, such as "bf16"
/// or "i32".
std::string elementTypeName(mlir::Type type);
/// Returns the name of the element type of `value`, a tensor.
std::string elementTypeOf(mlir::Value value);
/// Returns the bytes per element, for element types of whole bytes.
int64_t elementBytes(llvm::StringRef elementType);
/// Returns the bits per lhs element that a block-scaled MMA reads. 6-bit codes
/// (quantized values) are expanded to bytes.
int64_t multipliedBits(moe::GroupedMatmulOp matmul);

/// Number of CTAs in the cluster that routes and permutes if one CTA is not
/// sufficient. Larger clusters are not portable.
inline constexpr int64_t kRoutingCluster = 8;

/// Returns the bits per element.
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

/// Returns true if rows arrive grouped by expert, with one count per expert.
bool isBatched(moe::ProgramOp program);
/// Returns the number of experts whose weights this rank has.
int64_t localExperts(moe::ProgramOp program);
/// Returns the number of stored experts in the layer. If rows are batched by
/// expert, returns the number of this rank's experts.
int64_t storedExperts(moe::ProgramOp program);
/// Returns the maximum number of rows per token of a run. In batched programs a
/// token is a slot index, at which each of this rank's experts has a row, so
/// this is the number of these experts.
int64_t rowsOfToken(moe::ProgramOp program);

/// Returns the problem of a matmul with the activation that follows it, which
/// may be null. Members that depend on the kernel or on token counts are not
/// set.
MatmulProblem problemOf(moe::GroupedMatmulOp matmul, moe::ActivateOp activate);
/// Returns the problem of a kernel's matmul. All members that determine shared
/// memory, fragments and grid are set.
MatmulProblem problemOf(moe::KernelOp kernel);

/// Returns the problem of a second matmul that is computed in slices, for at
/// most `tokens` tokens.
MatmulProblem slicesProblem(moe::GroupedMatmulOp matmul, moe::CombineOp combine,
                            int64_t tokens);

/// Returns the value that the matmul's epilogue computes before quantization:
/// the result of the activation if the kernel has one, otherwise the result of
/// the matmul.
mlir::Value resultOfMatmul(moe::KernelOp kernel);
/// Returns the number of columns per scale group if the matmul's kernel
/// quantizes its result by groups. Returns 0 if it does not.
int64_t columnsOfGroup(moe::KernelOp kernel);

/// Returns the name of a value, which is a program argument, a result of a
/// launch or of a collective, or a packed weight ("w13_packed").
std::string valueName(mlir::Value value);

/// A value that a variant returns, with its name.
struct NamedOutput {
  llvm::StringRef name;
  mlir::Value value;
};
/// Returns the outputs, followed by the optional outputs that the caller may
/// request.
llvm::SmallVector<NamedOutput> outputsOf(moe::ReturnOp ret);

/// Returns true if a result of a launch or of a collective is an output of the
/// variant under the same name. All other results are stored in the workspace.
bool isOutput(mlir::OpResult result);

/// Returns true if a stage or launch defines the rows of moe.shared_rows or
/// computes on them. These rows are the tokens of this rank, also if tokens are
/// gathered from other ranks.
bool isOfSharedRows(mlir::Operation *op);
bool isOfSharedRows(moe::KernelOp kernel);
/// Returns true if the matmul, in a variant or in a kernel, computes on the
/// rows of moe.shared_rows.
bool multipliesSharedRows(moe::GroupedMatmulOp matmul);
/// Returns the variant's matmuls that compute on the rows of moe.shared_rows,
/// or all its other matmuls.
llvm::SmallVector<moe::GroupedMatmulOp> matmulsOf(moe::VariantOp variant,
                                                  bool ofSharedRows);
/// Returns the bytes per lhs element, which is the same for all matmuls of the
/// variant.
int64_t operandBytes(moe::VariantOp variant);
/// Returns the number of experts in `offsets` or, if it is null, in `counts`.
/// If both are null, returns the number of this rank's experts.
int64_t expertsOfRows(moe::KernelOp kernel, mlir::Value offsets,
                      mlir::Value counts);
/// Rewrites an expression over `tokens` and `rows` for use in a kernel.
/// `tokens` becomes `own_tokens` in two cases: the kernel is launched before
/// tokens of other ranks are gathered, or it computes on the rows of
/// moe.shared_rows.
Expression sizeIn(moe::KernelOp kernel, const Expression &expression);

/// A tensor in the workspace or in the window. Its size suffices for every
/// variant.
struct WorkspaceValue {
  std::string name, elementType;
  std::vector<Expression> shape; ///< outermost dimension first
  Expression bytes() const;
};

/// Attribute of a kernel that states why its stage has a separate launch
/// although it could be fused with other stages.
inline constexpr llvm::StringLiteral kApart = "moe.apart";

/// Name of the workspace buffer that a kernel with slices uses while it runs.
inline constexpr llvm::StringLiteral kSlices = "slices";

/// Returns the workspace values of a program whose kernels are formed, in the
/// order of first use.
std::vector<WorkspaceValue> workspaceValues(moe::ProgramOp program);

/// Returns the launch results that kernels write into the windows of other
/// ranks (dispatch, send_back), in the order of first use.
/// compiler/plan/Window.h describes a window.
std::vector<WorkspaceValue> windowValues(moe::ProgramOp program);

/// Returns the number of blocks into which a run's tokens are divided. A block
/// has `blockTokens` tokens. If `mostBlocks` is set, a block has the smallest
/// multiple of `blockTokens` for which `mostBlocks` blocks suffice.
Expression tokenBlocks(int64_t blockTokens, std::optional<int64_t> mostBlocks);

/// Returns an upper bound on the number of tiles that `rows` rows of `experts`
/// experts need.
Expression tileCapacity(int64_t tileRows, int64_t experts);

/// Returns an upper bound on the number of rows: tokens * pairs or, if rows are
/// batched by expert, slots * experts.
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
