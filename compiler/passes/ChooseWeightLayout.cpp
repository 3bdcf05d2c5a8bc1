//===- ChooseWeightLayout.cpp - packed layout of each weight --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gated activation needs a gate column and its up column in one thread. If
// gate and up rows alternate in runs of 8, the two columns have the same place
// in adjacent n8 tiles, so one thread's MMA fragment contains both. This holds
// for mma.sync and wgmma, with and without swapped operands.
//
// Packing also converts weights that a checkpoint stores in another order to
// rows, and sorts columns by their groups. Power-of-two scales are converted to
// f32 if the weights are multiplied without dequantization. For an engine that
// reads MMA fragment order, the codes (quantized values), scales and zero
// points are stored in that order. For an engine that reads block scales from
// tensor memory, they are stored in scale blocks of 128 rows by 4 scales. A
// scale that covers more rows or columns than kernels expect is replicated.
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

/// Rows and scales of a scale block (templates/moe/math/scale_atoms.cuh).
static constexpr int64_t kScaleAtom[] = {128, 4};

namespace {

/// Returns the gated activation that reads the matmul's result, or null.
moe::ActivateOp gatedReader(moe::GroupedMatmulOp matmul) {
  for (Operation *user : matmul.getResult().getUsers())
    if (auto activate = dyn_cast<moe::ActivateOp>(user))
      if (activate.getActivation().isGated())
        return activate;
  return {};
}

/// Returns the element type in which matmuls read a weight or its scales.
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

/// Returns the layout in which kernels read a weight, or null if they read it
/// as stored in the checkpoint. `gated`: a gated activation reads the matmul's
/// result. `changes`: packing changes the element type or the order of columns.
moe::LayoutAttr layoutFor(RankedTensorType weight, bool gated, bool changes,
                          StringRef gateUpOrder) {
  if (gated)
    return moe::LayoutAttr::get(weight.getContext(), compiler::kGateUpRun,
                                gateUpOrder);
  return weight.getEncoding() || changes
             ? moe::LayoutAttr::get(weight.getContext(), 0)
             : moe::LayoutAttr();
}

/// Returns the layout of a weight, its scales or its zero points for an engine
/// that reads fragment order. Returns null for a tensor that the engine reads
/// as stored in the checkpoint.
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

/// Returns the layout of a weight's block scales for an engine that reads them
/// from tensor memory. Returns null if `value` is something else, or has no
/// whole scale blocks.
moe::LayoutAttr scaleAtomLayout(BlockArgument value) {
  const auto type = cast<RankedTensorType>(value.getType());
  for (Operation *user : value.getUsers()) {
    auto matmul = dyn_cast<moe::GroupedMatmulOp>(user);
    if (!matmul || matmul.getRhsScale() != value)
      continue;
    const ArrayRef<int64_t> tile = kScaleAtom;
    if (matmul.getRealization() != moe::Realization::Blocks ||
        type.getRank() != 3 || type.getDimSize(1) != matmul.getN() ||
        type.getDimSize(1) % tile[0] != 0 || type.getDimSize(2) % tile[1] != 0)
      return {};
    const bool isGated = bool(gatedReader(matmul));
    return moe::LayoutAttr::get(
        value.getContext(), isGated ? compiler::kGateUpRun : 0,
        isGated ? matmul.getGateUpOrder() : StringRef("gate_first"), "fragment",
        tile, "", {});
  }
  return {};
}

/// Returns true if the program's engine reads block scales from tensor memory.
bool readsScaleAtoms(moe::ProgramOp program) {
  const moe::ReportAttr report = program.getReportAttr();
  const catalog::Engine *engine =
      report ? catalog::find(catalog::kEngines, report.getEngine()) : nullptr;
  return engine && engine->features.contains("tcgen05");
}

/// Returns true if the program's engine reads weights in fragment order.
bool readsFragments(moe::ProgramOp program) {
  const moe::ReportAttr report = program.getReportAttr();
  const catalog::Engine *engine =
      report ? catalog::find(catalog::kEngines, report.getEngine()) : nullptr;
  return engine &&
         compiler::orderOf(compiler::factsOf(program), *engine) == "fragment";
}

/// Returns the group shape of a weight's scales as the matmul reads them.
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
  // In MMA fragment order, each weight row has its own scale per group along K.
  if (fragments)
    group[0] = 1;
  return group;
}

/// Describes how packing replicates a weight's scales or zero points.
struct Repeat {
  SmallVector<int64_t, 3> shape; ///< of the packed tensor
  /// Number of parts (gate, up), and repetitions of rows and of columns.
  std::array<int64_t, 3> times;
  /// Rows after which gate and up alternate; 0: they do not alternate.
  int64_t alternate;
};

/// Returns how to replicate a tensor of scales or zero points, or nullopt if
/// the matmuls read it as stored in the checkpoint.
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

/// Packs scales or zero points in `layout`, replicated as `repeat` specifies.
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

/// Returns the matmuls that read `weight` and whose result a gated activation
/// reads.
SmallVector<moe::GroupedMatmulOp> gatedMatmuls(Value weight) {
  SmallVector<moe::GroupedMatmulOp> readers;
  for (Operation *user : weight.getUsers())
    if (auto matmul = dyn_cast<moe::GroupedMatmulOp>(user))
      if (matmul.getRhs() == weight && gatedReader(matmul))
        readers.push_back(matmul);
  return readers;
}

/// Sets the packed layout of a weight that is quantized at load time, so that
/// the codes are written in this layout directly.
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

/// Returns the column order of a weight with a group index, or null if the
/// weight has no group index.
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
  const bool atoms = readsScaleAtoms(program);
  OpBuilder builder(program.getContext());
  builder.setInsertionPointToStart(&program.getBody().front());
  for (auto order : program.getBody().getOps<moe::PackOrderOp>())
    builder.setInsertionPointAfter(order);
  for (BlockArgument weight : program.getBody().getArguments()) {
    // Skip weights that are already packed.
    if (llvm::any_of(weight.getUsers(),
                     llvm::IsaPred<moe::PackOp, moe::PackOrderOp,
                                   moe::QuantizeWeightsOp>))
      continue;
    SmallVector<moe::GroupedMatmulOp> readers = gatedMatmuls(weight);
    const auto type = cast<RankedTensorType>(weight.getType());
    const Type read = elementAsRead(weight);
    const Value order = orderOf(program, weight);
    const std::optional<Repeat> repeat = repeatFor(weight, fragments);
    moe::LayoutAttr layout = fragments ? fragmentLayout(weight)
                             : atoms   ? scaleAtomLayout(weight)
                                       : moe::LayoutAttr();
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
