//===- ProgramValues.cpp - named values of a program ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The op that defines a value determines whether the value's dynamic extent is
// a number of tokens or of rows. The extents of block lists and tile lists are
// computed here.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/ProgramValues.h"

#include "runtime/package/ElementTypes.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <limits>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

std::string compiler::elementTypeName(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

std::string compiler::elementTypeOf(Value value) {
  return elementTypeName(
      cast<RankedTensorType>(value.getType()).getElementType());
}

int64_t compiler::elementBits(StringRef elementType) {
  const ElementType *row = findElementType(elementType);
  return row ? row->bits : 8;
}

int64_t compiler::elementBytes(StringRef elementType) {
  return std::max<int64_t>(elementBits(elementType) / 8, 1);
}

bool compiler::isBatched(moe::ProgramOp program) {
  return bool(findIn<moe::BatchOp>(program));
}

int64_t compiler::localExperts(moe::ProgramOp program) {
  if (auto matmul = findIn<moe::GroupedMatmulOp>(program))
    return matmul.getNumExperts();
  auto permute = findIn<moe::PermuteOp>(program);
  return permute ? permute.getNumLocal() : 0;
}

int64_t compiler::storedExperts(moe::ProgramOp program) {
  auto permute = findIn<moe::PermuteOp>(program);
  return permute ? int64_t(permute.getExperts()) : localExperts(program);
}

int64_t compiler::rowsOfToken(moe::ProgramOp program) {
  if (program.getPart()) {
    auto route = findIn<moe::RouteOp>(program);
    return route ? cast<RankedTensorType>(route.getTopkIds().getType())
                       .getDimSize(1)
                 : 1;
  }
  auto permute = findIn<moe::PermuteOp>(program);
  return permute ? permute.getPairs() : localExperts(program);
}

static StringRef nameAt(ArrayAttr names, unsigned index) {
  return cast<StringAttr>(names[index]).getValue();
}

/// Sets the members that describe how weights are stored in memory, if the
/// kernel converts them.
static void addCodes(moe::GroupedMatmulOp matmul, MatmulProblem &problem) {
  if (matmul.getRealization() == moe::Realization::Native ||
      matmul.getRealization() == moe::Realization::Blocks)
    return;
  const auto bits = [](Value value) {
    return value ? elementBits(elementTypeOf(value)) : 0;
  };
  problem.codeBits = bits(matmul.getRhs());
  problem.inFragments = matmul.readsFragments();
  problem.hasZeroPoints = bool(matmul.getRhsZeroPoint());
  problem.numberBytes =
      (bits(matmul.getRhsScale()) + bits(matmul.getRhsZeroPoint())) / 8;
  problem.groupK =
      std::max<int64_t>(matmul.getRhsDescriptor()->getGroup()[1], 0);
}

int64_t compiler::multipliedBits(moe::GroupedMatmulOp matmul) {
  return elementBits(elementTypeOf(matmul.getLhs())) == 4 ? 4 : 8;
}

MatmulProblem compiler::problemOf(moe::GroupedMatmulOp matmul,
                                  moe::ActivateOp activate) {
  MatmulProblem problem;
  addCodes(matmul, problem);
  const Value result = activate ? activate.getResult() : matmul.getResult();
  problem.n = matmul.getN(), problem.k = matmul.getK();
  problem.localExperts = matmul.getNumExperts();
  problem.elementBytes = elementBytes(elementTypeOf(matmul.getLhs()));
  problem.resultBytes = elementBytes(elementTypeOf(result));
  problem.gated = activate && activate.getActivation().isGated();
  problem.takesManyRegisters =
      activate && activate.getActivation().takesManyRegisters();
  problem.groupScales = matmul.scalesByGroup() &&
                        matmul.getRealization() != moe::Realization::Blocks;
  problem.scaled = bool(matmul.getLhsScale());
  problem.rowScales = matmul.scalesByRow();
  problem.hasBias = bool(matmul.getBias());
  problem.addsFast = matmul.getFast();
  // Integer products are accumulated exactly. If scales change along k, the
  // products are accumulated separately per scale group.
  problem.sumsByGroup = problem.groupK > 0 && problem.codeBits > 0 &&
                        elementTypeOf(matmul.getLhs()) == "i8";
  // Scales that come with a quantized x are f32 and need not be powers of two.
  auto program = matmul->getParentOfType<moe::ProgramOp>();
  if (matmul.getRealization() == moe::Realization::Native &&
      matmul.getLhsDescriptor() && matmul.getRhsDescriptor() &&
      !(program && program.getInput("x_scale")))
    problem.powerGroups = moe::havePowerGroups(*matmul.getLhsDescriptor(),
                                               *matmul.getRhsDescriptor());
  // For block-scaled operands, sizes along k are in bytes.
  if (matmul.getRealization() == moe::Realization::Blocks) {
    const int64_t bits = multipliedBits(matmul);
    problem.k = problem.k * bits / 8;
    problem.storedShare =
        double(elementBits(elementTypeOf(matmul.getRhs()))) / double(bits);
    problem.blockBytes = matmul.getRhsDescriptor()->getGroup()[1] * bits / 8;
  }
  return problem;
}

MatmulProblem compiler::problemOf(moe::KernelOp kernel) {
  MatmulProblem problem = problemOf(findStage<moe::GroupedMatmulOp>(kernel),
                                    findStage<moe::ActivateOp>(kernel));
  problem.groupColumns = columnsOfGroup(kernel);
  problem.quantizesOtherwise =
      findStage<moe::QuantizeOp>(kernel) && !problem.quantizesGroups();
  return problem;
}

MatmulProblem compiler::slicesProblem(moe::GroupedMatmulOp matmul,
                                      moe::CombineOp combine, int64_t tokens) {
  MatmulProblem problem;
  problem.maxTokens = tokens;
  problem.n = matmul.getN(), problem.k = matmul.getK();
  problem.experts = problem.localExperts = matmul.getNumExperts();
  problem.pairs = combine.getPairs();
  problem.elementType = elementTypeOf(matmul.getLhs());
  problem.elementBytes = elementBytes(problem.elementType);
  problem.resultBytes = elementBytes(elementTypeOf(combine.getOut()));
  problem.groupScales = matmul.scalesByGroup();
  return problem;
}

Value compiler::resultOfMatmul(moe::KernelOp kernel) {
  if (auto activate = findStage<moe::ActivateOp>(kernel))
    return activate.getResult();
  return findStage<moe::GroupedMatmulOp>(kernel).getResult();
}

int64_t compiler::columnsOfGroup(moe::KernelOp kernel) {
  auto quantize = findStage<moe::QuantizeOp>(kernel);
  if (!quantize || !findStage<moe::GroupedMatmulOp>(kernel))
    return 0;
  return std::max<int64_t>(quantize.getDescriptor().getGroup()[1], 0);
}

std::string compiler::valueName(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto program = dyn_cast<moe::ProgramOp>(argument.getOwner()->getParentOp());
    return program ? nameAt(program.getInputs(), argument.getArgNumber()).str()
                   : std::string();
  }
  unsigned index = cast<OpResult>(value).getResultNumber();
  if (auto launch = value.getDefiningOp<moe::LaunchOp>())
    return nameAt(launch.getResultNames(), index).str();
  if (auto collective = value.getDefiningOp<moe::CollectiveOp>())
    return nameAt(collective.getResultNames(), index).str();
  if (auto pack = value.getDefiningOp<moe::PackOp>())
    return valueName(pack.getSource()) + "_packed";
  if (auto order = value.getDefiningOp<moe::PackOrderOp>())
    return valueName(order.getIndex()) + "_packed";
  if (auto quantize = value.getDefiningOp<moe::QuantizeWeightsOp>())
    return valueName(quantize.getSource()) + quantize.getSuffix(index).str() +
           "_packed";
  return {};
}

SmallVector<NamedOutput> compiler::outputsOf(moe::ReturnOp ret) {
  SmallVector<NamedOutput> outputs;
  for (auto [index, value] : llvm::enumerate(ret.getOutputs()))
    outputs.push_back({nameAt(ret.getOutputNames(), index), value});
  for (auto [index, value] : llvm::enumerate(ret.getOptionalOutputs()))
    outputs.push_back({nameAt(*ret.getOptionalNames(), index), value});
  return outputs;
}

/// Returns true if the kernel of the launch has a stage of type Op.
template <typename Op> static bool launches(moe::LaunchOp launch) {
  moe::KernelOp kernel = launch ? launch.getKernelOp() : moe::KernelOp();
  return kernel && findStage<Op>(kernel);
}

bool compiler::isOfSharedRows(Operation *op) {
  llvm::SmallPtrSet<Operation *, 8> known;
  for (Operation &other : *op->getBlock()) {
    if (isa<moe::SharedRowsOp>(other) ||
        launches<moe::SharedRowsOp>(dyn_cast<moe::LaunchOp>(other)) ||
        llvm::any_of(other.getOperands(), [&](Value operand) {
          return known.contains(operand.getDefiningOp());
        }))
      known.insert(&other);
    if (&other == op)
      return known.contains(op);
  }
  return false;
}

/// Returns true if `isSo` holds for at least one of the kernel's launches.
static bool isAnyLaunch(moe::KernelOp kernel,
                        llvm::function_ref<bool(moe::LaunchOp)> isSo) {
  return kernel->getParentOfType<moe::ProgramOp>()
      .walk([&](moe::LaunchOp launch) {
        return launch.getKernel() == kernel.getSymName() && isSo(launch)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool compiler::isOfSharedRows(moe::KernelOp kernel) {
  return isAnyLaunch(kernel, [](moe::LaunchOp launch) {
    return isOfSharedRows(launch.getOperation());
  });
}

bool compiler::multipliesSharedRows(moe::GroupedMatmulOp matmul) {
  auto kernel = matmul->getParentOfType<moe::KernelOp>();
  return kernel ? isOfSharedRows(kernel)
                : isOfSharedRows(matmul.getOperation());
}

int64_t compiler::operandBytes(moe::VariantOp variant) {
  for (auto matmul : variant.getBody().getOps<moe::GroupedMatmulOp>())
    return elementBytes(elementTypeOf(matmul.getLhs()));
  return 0;
}

SmallVector<moe::GroupedMatmulOp> compiler::matmulsOf(moe::VariantOp variant,
                                                      bool ofSharedRows) {
  return llvm::to_vector(llvm::make_filter_range(
      variant.getBody().getOps<moe::GroupedMatmulOp>(),
      [&](moe::GroupedMatmulOp matmul) {
        return isOfSharedRows(matmul.getOperation()) == ofSharedRows;
      }));
}

int64_t compiler::expertsOfRows(moe::KernelOp kernel, Value offsets,
                                Value counts) {
  const auto extent = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getDimSize(0);
  };
  if (offsets)
    return extent(offsets) - 1;
  return counts ? extent(counts)
                : localExperts(kernel->getParentOfType<moe::ProgramOp>());
}

/// Returns true if the operation gathers the tokens of all ranks.
static bool gathers(Operation &op) {
  auto collective = dyn_cast<moe::CollectiveOp>(op);
  return (collective && collective.getKind() == "all_gather") ||
         launches<moe::DispatchOp>(dyn_cast<moe::LaunchOp>(op));
}

/// Returns true if the program gathers tokens of other ranks but the launch
/// computes only on this rank's tokens. This includes the kernel that gathers,
/// which reads only this rank's tokens.
static bool isOfOwnTokens(moe::LaunchOp launch) {
  return llvm::any_of(*launch->getBlock(), [&](Operation &op) {
    return gathers(op) && (!op.isBeforeInBlock(launch) ||
                           isOfSharedRows(launch.getOperation()) ||
                           launches<moe::FinalizeOp>(launch));
  });
}

/// Rewrites a size for a launch. `isShared`: the launch computes on the rows of
/// moe.shared_rows. `isOwn`: the result of isOfOwnTokens() for the launch.
static Expression sizeOf(Expression expression, bool isShared, bool isOwn) {
  if (isShared)
    expression = expression.renamed("rows", "tokens");
  return isOwn ? expression.renamed("tokens", "own_tokens") : expression;
}

Expression compiler::sizeIn(moe::KernelOp kernel,
                            const Expression &expression) {
  return sizeOf(expression, isOfSharedRows(kernel),
                isAnyLaunch(kernel, isOfOwnTokens));
}

bool compiler::isOutput(OpResult value) {
  const std::string name = valueName(value);
  auto ret = cast<moe::ReturnOp>(value.getOwner()->getBlock()->getTerminator());
  return llvm::any_of(outputsOf(ret), [&](const NamedOutput &output) {
    return output.value == value && output.name == name;
  });
}

Expression WorkspaceValue::bytes() const {
  // Combine the constants in one factor, so that the printed expression is
  // short.
  Expression varying(1);
  int64_t constant = elementBits(elementType);
  for (const Expression &extent : shape) {
    if (auto number = extent.constant())
      constant *= *number;
    else
      varying = varying * extent;
  }
  return varying * Expression(llvm::divideCeil(constant, 8));
}

Expression compiler::tokenBlocks(int64_t blockTokens,
                                 std::optional<int64_t> mostBlocks) {
  const Expression tokens = Expression::symbol("tokens");
  Expression block(blockTokens);
  if (mostBlocks)
    block = block * ceilDiv(tokens, Expression(blockTokens * *mostBlocks));
  return ceilDiv(tokens, block);
}

Expression compiler::tileCapacity(int64_t tileRows, int64_t experts) {
  Expression rows = Expression::symbol("rows");
  return min(rows, ceilDiv(rows, Expression(tileRows)) + Expression(experts));
}

Expression compiler::rowCapacity(moe::ProgramOp program) {
  return Expression::symbol("tokens") * Expression(rowsOfToken(program));
}

namespace {
/// The smallest block size and tile sizes of all variants. They determine the
/// sizes of lists, because smaller blocks and tiles need longer lists.
struct Smallest {
  int64_t tileRows = std::numeric_limits<int64_t>::max();
  int64_t sharedTileRows = std::numeric_limits<int64_t>::max();
  int64_t blockTokens = std::numeric_limits<int64_t>::max();
  /// Maximum number of blocks in any variant. It only applies if `isBounded`,
  /// that is, if some variant limits its number of blocks.
  int64_t mostBlocks = 0;
  bool isBounded = false;
};
} // namespace

static Expression leadingExtent(Value inKernel, const Smallest &smallest) {
  Operation *op = inKernel.getDefiningOp();
  Expression tokens = Expression::symbol("tokens");
  Expression rows = Expression::symbol("rows");
  const bool ofTokens =
      cast<moe::StageOpInterface>(op).isOfTokens(cast<OpResult>(inKernel));
  const Expression known = ofTokens ? tokens : rows;
  if (isa<moe::CountOp>(op)) {
    const Expression blocks = tokenBlocks(smallest.blockTokens, {});
    return smallest.isBounded ? min(blocks, Expression(smallest.mostBlocks))
                              : blocks;
  }
  if (auto amax = dyn_cast<moe::AmaxOp>(op))
    return ceilDiv(known, Expression(int64_t(amax.getBlockRows())));
  if (auto batch = dyn_cast<moe::BatchOp>(op))
    return tileCapacity(smallest.tileRows, batch.getNumLocal());
  if (auto shared = dyn_cast<moe::SharedRowsOp>(op);
      shared && inKernel == shared.getTiles())
    return tileCapacity(smallest.sharedTileRows, 1);
  if (auto permute = dyn_cast<moe::PermuteOp>(op);
      permute && inKernel == permute.getTiles())
    return tileCapacity(smallest.tileRows, permute.getNumLocal());
  return known;
}

/// Adds a value to the list. If the list already has a value with this name,
/// enlarges the constant extents of that value instead.
static void addValue(std::vector<WorkspaceValue> &values, WorkspaceValue made) {
  auto known =
      llvm::find_if(values, [&](auto &v) { return v.name == made.name; });
  if (known == values.end()) {
    values.push_back(std::move(made));
    return;
  }
  for (auto [extent, other] : llvm::zip(known->shape, made.shape))
    if (extent.constant() && other.constant() &&
        *extent.constant() < *other.constant())
      extent = other;
}

/// Describes a result of a launch or of a collective. `dynamic` replaces the
/// extents that are known only at run time.
static WorkspaceValue describeValue(Value value, const Expression &dynamic) {
  auto type = cast<RankedTensorType>(value.getType());
  WorkspaceValue made{
      valueName(value), elementTypeName(type.getElementType()), {}};
  for (int64_t extent : type.getShape())
    made.shape.push_back(ShapedType::isDynamic(extent) ? dynamic
                                                       : Expression(extent));
  return made;
}

/// Adds the results of a collective. Their leading extent is the number of all
/// tokens or of this rank's tokens.
static void addResults(moe::CollectiveOp collective,
                       std::vector<WorkspaceValue> &values) {
  const bool gathers = llvm::any_of(
      collective->getBlock()->getOps<moe::CollectiveOp>(),
      [](moe::CollectiveOp op) { return op.getKind() == "all_gather"; });
  const bool isOwn = gathers && collective.getKind() != "all_gather";
  for (Value value : collective.getValues()) {
    if (isOutput(cast<OpResult>(value)))
      continue;
    addValue(values,
             describeValue(
                 value, Expression::symbol(isOwn ? "own_tokens" : "tokens")));
  }
}

/// Returns true if the stage that defines the kernel's result with index
/// `result` writes into other ranks' windows.
static bool isOfWindow(moe::KernelOp kernel, size_t result) {
  return isa<moe::DispatchOp, moe::SendBackOp>(
      kernel.getYield().getValues()[result].getDefiningOp());
}

std::vector<WorkspaceValue> compiler::windowValues(moe::ProgramOp program) {
  std::vector<WorkspaceValue> values;
  program.walk([&](moe::LaunchOp launch) {
    moe::KernelOp kernel = launch.getKernelOp();
    for (auto [index, value] : llvm::enumerate(launch.getValues()))
      if (kernel && isOfWindow(kernel, index))
        addValue(values,
                 describeValue(
                     value, Expression::symbol(launches<moe::SendBackOp>(launch)
                                                   ? "own_tokens"
                                                   : "tokens")));
  });
  return values;
}

std::vector<WorkspaceValue> compiler::workspaceValues(moe::ProgramOp program) {
  Smallest smallest;
  // Returns true if the kernel yields the value. Other values need no
  // workspace.
  auto leaves = [](Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<moe::YieldOp>(user);
    });
  };
  program.walk([&](Operation *op) {
    if (auto permute = dyn_cast<moe::PermuteOp>(op);
        permute && leaves(permute.getTiles()))
      smallest.tileRows =
          std::min<int64_t>(smallest.tileRows, permute.getTileRows());
    if (auto batch = dyn_cast<moe::BatchOp>(op))
      smallest.tileRows =
          std::min<int64_t>(smallest.tileRows, batch.getTileRows());
    if (auto shared = dyn_cast<moe::SharedRowsOp>(op))
      smallest.sharedTileRows =
          std::min<int64_t>(smallest.sharedTileRows, shared.getTileRows());
  });
  program.walk([&](moe::LaunchOp launch) {
    moe::KernelOp kernel = launch.getKernelOp();
    auto count = kernel ? findStage<moe::CountOp>(kernel) : moe::CountOp();
    if (!count || !leaves(count.getBlockCounts()))
      return;
    const int64_t blockTokens = count.getBlockTokens();
    const int64_t most =
        launch->getParentOfType<moe::VariantOp>().getMaxTokens();
    smallest.blockTokens = std::min(smallest.blockTokens, blockTokens);
    smallest.mostBlocks = std::max<int64_t>(
        smallest.mostBlocks,
        count.getMostBlocks().value_or(llvm::divideCeil(most, blockTokens)));
    smallest.isBounded |= count.getMostBlocks().has_value();
  });
  std::vector<WorkspaceValue> values;
  program.walk([&](Operation *op) {
    if (auto collective = dyn_cast<moe::CollectiveOp>(op))
      addResults(collective, values);
    auto launch = dyn_cast<moe::LaunchOp>(op);
    moe::KernelOp kernel = launch ? launch.getKernelOp() : moe::KernelOp();
    if (!kernel)
      return;
    for (auto [index, value] : llvm::enumerate(launch.getValues())) {
      if (isOutput(cast<OpResult>(value)) || isOfWindow(kernel, index))
        continue;
      WorkspaceValue made = describeValue(
          value, leadingExtent(kernel.getYield().getValues()[index], smallest));
      const bool isShared = isOfSharedRows(launch.getOperation());
      for (Expression &extent : made.shape)
        extent = sizeOf(extent, isShared, isOfOwnTokens(launch));
      addValue(values, std::move(made));
    }
    if (auto schedule =
            dyn_cast_or_null<moe::SlicesScheduleAttr>(kernel.getScheduleAttr()))
      addValue(values,
               {kSlices.str(),
                elementTypeOf(findStage<moe::CombineOp>(kernel).getPartials()),
                {Expression(schedule.getFields().buffers),
                 Expression::symbol("rows"),
                 Expression(schedule.getFields().tileN)}});
  });
  return values;
}
