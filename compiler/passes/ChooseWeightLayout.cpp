//===- ChooseWeightLayout.cpp - one packed copy of each weight ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation needs a gate column and its up column in one thread.
// With rows interleaved by 8 both lie in the two halves of an m16n8 tile pair,
// in one fragment, for mma.sync as for wgmma, plain and swapped. What a
// checkpoint stores in another order than rows is brought into rows, and
// columns into the order of their groups. Scales of weights that are multiplied
// as stored become f32 if they are powers of two. For an engine that reads
// fragments, codes, their scales and zero points are in that order. A scale of
// more rows or columns than kernels read is repeated.
//
//===----------------------------------------------------------------------===//

#include "compiler/matmul/Slabs.h"
#include "compiler/passes/Passes.h"
#include "compiler/plan/LayerFacts.h"
#include "compiler/plan/LayerLimits.h"
#include "compiler/plan/ProgramValues.h"
#include "dialect/catalog/Engines.h"

#include "mlir/IR/Builders.h"

namespace moec::compiler {
#define GEN_PASS_DEF_CHOOSEWEIGHTLAYOUTPASS
#include "compiler/passes/Passes.h.inc"
} // namespace moec::compiler

using namespace mlir;
using namespace moec;

namespace {

/// Whether the only reader of the matmul's result is a gated activation.
moe::ActivateOp gatedReader(moe::GroupedMatmulOp matmul) {
  for (Operation *user : matmul.getResult().getUsers())
    if (auto activate = dyn_cast<moe::ActivateOp>(user))
      if (activate.getActivation().isGated())
        return activate;
  return {};
}

/// The element type that matmuls read for a weight or its scales.
Type elementAsRead(Value weight) {
  const Type element =
      cast<RankedTensorType>(weight.getType()).getElementType();
  for (Operation *user : weight.getUsers())
    if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(user))
      if (matmul.getRhsScale() == weight && matmul.getLhsScale() &&
          matmul.getRealization() == moe::Realization::Native &&
          isa<Float8E8M0FNUType>(element))
        return Float32Type::get(weight.getContext());
  return element;
}

/// The layout in which kernels read a weight that gated matmuls read, or what
/// is not stored as they read it (`changes`: of another type, or its columns in
/// another order); null for as stored.
moe::LayoutAttr layoutFor(RankedTensorType weight, bool gated, bool changes,
                          StringRef gateUpOrder) {
  if (gated)
    return moe::LayoutAttr::get(weight.getContext(), compiler::kGateUpRun,
                                gateUpOrder);
  return weight.getEncoding() || changes
             ? moe::LayoutAttr::get(weight.getContext(), 0)
             : moe::LayoutAttr();
}

/// The layout of a weight, its scales or its zero points for an engine that
/// reads fragments; null for what it reads as stored.
moe::LayoutAttr fragmentLayout(BlockArgument value) {
  for (OpOperand &use : value.getUses()) {
    auto matmul = dyn_cast<moe::GroupedMatmulOp>(use.getOwner());
    if (!matmul)
      continue;
    const StringRef name = matmul.getOperandName(use.getOperandNumber());
    if (name != "rhs" && name != "rhs_scale" && name != "rhs_zero_point")
      continue;
    const bool isGated = bool(gatedReader(matmul));
    const int64_t columns = compiler::slabColumns(
        compiler::elementBytes(compiler::elementTypeOf(matmul.getLhs())));
    return moe::LayoutAttr::get(
        value.getContext(), isGated ? compiler::kGateUpRun : 0,
        isGated ? matmul.getGateUpOrder() : StringRef("gate_first"), "fragment",
        {compiler::kSlabBlock, name == "rhs" ? columns : 1}, "", {});
  }
  return {};
}

/// Whether the program's engine reads its weights in fragments.
bool readsFragments(moe::ProgramOp program) {
  const moe::ReportAttr report = program.getReportAttr();
  const catalog::Engine *engine =
      report ? catalog::find(catalog::kEngines, report.getEngine()) : nullptr;
  return engine &&
         compiler::orderOf(compiler::factsOf(program), *engine) == "fragment";
}

/// The groups of a weight's scales as the matmul reads them.
SmallVector<int64_t, 2> groupAsRead(moe::GroupedMatmulOp matmul,
                                    bool fragments) {
  const moe::DescriptorAttr lhs = matmul.getLhsDescriptorAttr();
  const moe::DescriptorAttr rhs = matmul.getRhsDescriptorAttr();
  const catalog::NativeScales *row =
      lhs && rhs && matmul.getRealization() == moe::Realization::Native
          ? moe::nativeScales(lhs, rhs)
          : nullptr;
  if (row)
    return {row->weights.rows, row->weights.columns};
  if (!rhs)
    return {};
  SmallVector<int64_t, 2> group(rhs.getGroup());
  // A block of fragments has a number of each row.
  if (fragments)
    group[0] = 1;
  return group;
}

/// How numbers of a weight (scales or zero points) are repeated.
struct Repeat {
  SmallVector<int64_t, 3> shape; ///< of the result
  std::array<int64_t, 3> times;  ///< parts, rows and columns
  int64_t alternate; ///< rows after which parts take turns; 0: they do not
};

/// Nothing where the matmuls read them as they are.
std::optional<Repeat> repeatFor(Value numbers, bool fragments) {
  for (OpOperand &use : numbers.getUses()) {
    auto matmul = dyn_cast<moe::GroupedMatmulOp>(use.getOwner());
    if (!matmul || (matmul.getRhsScale() != numbers &&
                    matmul.getRhsZeroPoint() != numbers))
      continue;
    const moe::DescriptorAttr descriptor = matmul.getRhsDescriptorAttr();
    const SmallVector<int64_t, 2> read = groupAsRead(matmul, fragments);
    if (descriptor.getGroup() == ArrayRef(read))
      return std::nullopt;
    const int64_t parts = matmul.getGateUp() ? 2 : 1;
    const std::array<int64_t, 2> extents = {matmul.getN() / parts,
                                            matmul.getK()};
    Repeat made;
    made.shape =
        moe::scaleShape(descriptor.withGroup(read), matmul.getNumExperts(),
                        parts, extents[0], extents[1]);
    made.times = {parts, 1, 1};
    for (int i : {0, 1}) {
      const int64_t stored = descriptor.getGroup()[i];
      if (read[i] > 0)
        made.times[i + 1] =
            llvm::divideCeil(stored == -1 ? extents[i] : stored, read[i]);
    }
    made.alternate =
        parts > 1 && read[0] == 1
            ? catalog::find(catalog::kGateUpOrders, matmul.getGateUpOrder())
                  ->run
            : 0;
    return made;
  }
  return std::nullopt;
}

/// Packs numbers in the layout, repeated as matmuls read them.
moe::PackOp packNumbers(OpBuilder &builder, Value source, const Repeat &repeat,
                        Type element, moe::LayoutAttr layout) {
  auto packed = moe::PackOp::create(
      builder, source.getLoc(),
      RankedTensorType::get(repeat.shape, element, layout), source, Value(),
      builder.getDenseI64ArrayAttr(repeat.times),
      repeat.alternate ? builder.getI64IntegerAttr(repeat.alternate)
                       : IntegerAttr());
  source.replaceAllUsesExcept(packed.getResult(), packed);
  return packed;
}

/// Matmuls of a gated layer that read `weight`.
SmallVector<moe::GroupedMatmulOp> gatedMatmuls(Value weight) {
  SmallVector<moe::GroupedMatmulOp> readers;
  for (Operation *user : weight.getUsers())
    if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(user))
      if (matmul.getRhs() == weight && gatedReader(matmul))
        readers.push_back(matmul);
  return readers;
}

/// Codes that are made of floats are written in that layout at once.
LogicalResult quantizeInto(moe::ProgramOp program,
                           moe::QuantizeWeightsOp quantize) {
  Value scale = quantize.getScale();
  scale.setType(
      RankedTensorType::get(cast<RankedTensorType>(scale.getType()).getShape(),
                            elementAsRead(scale)));
  if (const std::optional<Repeat> repeat =
          repeatFor(scale, /*fragments=*/false)) {
    OpBuilder builder(program.getContext());
    builder.setInsertionPointAfter(quantize);
    packNumbers(builder, scale, *repeat, elementAsRead(scale),
                moe::LayoutAttr::get(program.getContext(), 0));
  }
  const auto type = cast<RankedTensorType>(quantize.getCodes().getType());
  SmallVector<moe::GroupedMatmulOp> readers = gatedMatmuls(quantize.getCodes());
  if (readers.empty() || type.getEncoding())
    return success();
  const moe::LayoutAttr layout =
      layoutFor(type, true, false, readers.front().getGateUpOrder());
  if (failed(layout.verifyEncoding(type.getShape(), type.getElementType(),
                                   [&] { return program.emitError(); })))
    return failure();
  quantize.getCodes().setType(
      RankedTensorType::get(type.getShape(), type.getElementType(), layout));
  for (moe::GroupedMatmulOp matmul : readers)
    gatedReader(matmul).setInterleave(compiler::kGateUpRun);
  return success();
}

/// The order of the columns of a weight, or null.
Value orderOf(moe::ProgramOp program, BlockArgument weight) {
  const std::string index = compiler::valueName(weight) + "_group_index";
  for (auto order : program.getBody().getOps<moe::PackOrderOp>())
    if (compiler::valueName(order.getIndex()) == index)
      return order.getOrder();
  return {};
}

LogicalResult pack(moe::ProgramOp program) {
  for (auto quantize : program.getBody().getOps<moe::QuantizeWeightsOp>())
    if (failed(quantizeInto(program, quantize)))
      return failure();
  const bool fragments = readsFragments(program);
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToStart(&program.getBody().front());
  for (auto order : program.getBody().getOps<moe::PackOrderOp>())
    builder.setInsertionPointAfter(order);
  for (BlockArgument weight : program.getBody().getArguments()) {
    // A weight that is packed already stays.
    if (llvm::any_of(weight.getUsers(),
                     llvm::IsaPred<moe::PackOp, moe::PackOrderOp,
                                   moe::QuantizeWeightsOp>))
      continue;
    SmallVector<moe::GroupedMatmulOp> readers = gatedMatmuls(weight);
    const auto type = cast<RankedTensorType>(weight.getType());
    const Type read = elementAsRead(weight);
    const Value order = orderOf(program, weight);
    const std::optional<Repeat> repeat = repeatFor(weight, fragments);
    moe::LayoutAttr layout =
        fragments ? fragmentLayout(weight) : moe::LayoutAttr();
    if (!layout)
      layout = layoutFor(type, !readers.empty(),
                         order || repeat || read != type.getElementType(),
                         readers.empty() ? "gate_first"
                                         : readers.front().getGateUpOrder());
    if (!layout)
      continue;
    if (failed(layout.verifyEncoding(
            repeat ? ArrayRef<int64_t>(repeat->shape) : type.getShape(),
            type.getElementType(), [&] { return program.emitError(); })))
      return failure();
    if (repeat) {
      packNumbers(builder, weight, *repeat, read, layout);
      continue;
    }
    auto packed = moe::PackOp::create(
        builder, program.getLoc(),
        RankedTensorType::get(type.getShape(), read, layout), weight, order,
        DenseI64ArrayAttr(), /*alternate=*/IntegerAttr());
    weight.replaceAllUsesExcept(packed.getResult(), packed);
    for (moe::GroupedMatmulOp matmul : readers)
      gatedReader(matmul).setInterleave(compiler::kGateUpRun);
  }
  program.walk([&](moe::GroupedMatmulOp matmul) {
    if (const moe::DescriptorAttr rhs = matmul.getRhsDescriptorAttr())
      matmul.setRhsDescriptorAttr(
          rhs.withGroup(groupAsRead(matmul, fragments)));
  });
  return success();
}

struct ChooseWeightLayoutPass
    : compiler::impl::ChooseWeightLayoutPassBase<ChooseWeightLayoutPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(pack(getOperation())))
      signalPassFailure();
  }
};

} // namespace
