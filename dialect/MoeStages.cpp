//===- MoeStages.cpp - attributes of stages in manifests ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Adds the manifest attributes of stages that ODS does not declare as plain
// data. Descriptors, routing methods and activations are expanded into their
// members, and sizes are taken from the operand types.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"
#include "dialect/catalog/RoutingMethods.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

void moe::addDeclaredAttributes(Operation *op, NamedAttrList &to) {
  for (StringAttr name : op->getName().getAttributeNames()) {
    const Attribute value = op->getAttr(name);
    const auto integer = dyn_cast_or_null<IntegerAttr>(value);
    if (isa_and_nonnull<UnitAttr>(value))
      to.set(name, BoolAttr::get(op->getContext(), true));
    else if ((integer && integer.getType().isInteger(64)) ||
             isa_and_nonnull<FloatAttr, StringAttr, BoolAttr>(value))
      to.set(name, value);
  }
}

namespace {
/// Adds attributes of a stage by name.
class Writer {
public:
  Writer(Operation *op, NamedAttrList &to) : builder(op->getContext()), to(to) {
    addDeclaredAttributes(op, to);
  }

  /// Removes an attribute that ODS declares but that only passes read.
  void leaveOut(StringRef name) { to.erase(name); }
  void integer(StringRef name, int64_t value) {
    to.set(name, builder.getI64IntegerAttr(value));
  }
  void number(StringRef name, double value) {
    to.set(name, builder.getF64FloatAttr(value));
  }
  void word(StringRef name, StringRef value) {
    to.set(name, builder.getStringAttr(value));
  }
  void flag(StringRef name, bool value) {
    to.set(name, builder.getBoolAttr(value));
  }
  void none(StringRef name) { to.set(name, builder.getUnitAttr()); }

  /// Adds the rows and columns that share a scale, if the descriptor has a
  /// scale.
  void group(const Twine &prefix, DescriptorAttr descriptor) {
    const ArrayRef<int64_t> group = descriptor.getGroup();
    if (group.empty())
      return;
    integer((prefix + "group_rows").str(), group[0]);
    integer((prefix + "group_columns").str(), group[1]);
  }

private:
  Builder builder;
  NamedAttrList &to;
};
} // namespace

static int64_t extent(Value value, unsigned dimension) {
  return cast<RankedTensorType>(value.getType()).getDimSize(dimension);
}

static std::string nameOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

void RouteOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  const RoutingAttr routing = getRouting();
  const catalog::RoutingMethod *row =
      catalog::find(catalog::kRoutingMethods, routing.getMethod());
  writer.word("score", row ? row->score : "");
  writer.word("select", getHashTable() ? "table" : row ? row->select : "");
  writer.word("normalize", row ? row->normalize : "");
  writer.integer("experts", getNumExperts());
  writer.integer("groups", routing.getGroups());
  writer.integer("top_groups", routing.getTopGroups());
  writer.number("scale", routing.getScaleValue());
  if (routing.getSoftcap())
    writer.number("softcap", routing.getSoftcap().getValueAsDouble());
  if (routing.getLogitScale())
    writer.number("logit_scale", routing.getLogitScale().getValueAsDouble());
  if (routing.getEpsilon())
    writer.number("epsilon", routing.getEpsilon().getValueAsDouble());
  if (routing.getSinks() > 0)
    writer.integer("sinks", routing.getSinks());
  if (getHashTable())
    writer.integer("table_rows", extent(getHashTable(), 0));
  if (getLogicalToPhysical())
    writer.integer("replica_slots", getReplicaSlots());
}

void CountOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("local_experts", getNumLocal());
}

void PermuteOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("local_experts", getNumLocal());
  writer.integer("pairs", getPairs());
  writer.leaveOut("capacity");
  if (getCounters() != 2)
    writer.integer("counters", getCounters());
}

void PairRowsOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("local_experts", getNumLocal());
  writer.integer("pairs", getPairs());
}

void BatchOp::addStageAttributes(NamedAttrList &attributes) {
  Writer(*this, attributes).integer("experts", getNumLocal());
}

/// Returns the name of the operand or result at `index`. The `count` variadic
/// scales start at index `first`: the first one is named `scale` and the second
/// one `secondScale`. At any other index, returns `name`.
static StringRef nameWithScales(unsigned index, unsigned first, size_t count,
                                StringRef scale, StringRef secondScale,
                                StringRef name) {
  if (index < first || index >= first + count)
    return name;
  return index == first ? scale : secondScale;
}

void AmaxOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  if (getRowWeights())
    writer.integer("pairs", extent(getRowWeights(), 1));
  if (getPropagatesNan())
    writer.flag("propagates_nan", true);
}

StringRef QuantizeOp::getResultName(unsigned result) {
  return nameWithScales(
      result, 1, getScales().size(), "scale", "second_scale",
      StageOpInterface::Trait<QuantizeOp>::getResultName(result));
}

void QuantizeOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  const DescriptorAttr descriptor = getDescriptor();
  writer.group("", descriptor);
  writer.flag("dynamic", descriptor.getDynamic());
  const bool ofAll = descriptor.isPlain() || descriptor.getGroup()[0] == -1;
  writer.integer("block_rows", ofAll ? getBlockRows().value_or(1) : 0);
  if (getRowWeights())
    writer.integer("pairs", extent(getRowWeights(), 1));
  if (const StringRef rule = descriptor.getRule(); !rule.empty())
    writer.word("scale_rule", rule);
  if (isEmulated())
    writer.word("emulates", nameOf(descriptor.getElement()));
  else if (!scalesBlocks())
    return;
  if (descriptor.getSecondScale())
    writer.flag("second_per_row", descriptor.getSecondPerRow());
}

void DequantizeOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.group("", getDescriptor());
  if (getSecondScale())
    writer.flag("second_per_row", getDescriptor().getSecondPerRow());
}

void PermuteColumnsOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("experts", getNumExperts());
  writer.integer("columns", getColumns());
}

void GatherRowsOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("columns", getColumns());
  if (getOffsets())
    writer.integer("experts", extent(getOffsets(), 0) - 1);
  if (getPositions())
    writer.integer("pairs", extent(getPositions(), 1));
}

void GroupedMatmulOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.leaveOut("gate_up");
  writer.leaveOut("fast");
  writer.leaveOut("bias_of_rank");
  writer.integer("n", getN());
  writer.integer("k", getK());
  writer.integer("experts", getNumExperts());
  writer.flag("gather", bool(getRows()));
  writer.integer("interleave", getInterleave());
  if (getGateUpOrder() != "gate_first")
    writer.word("gate_up_order", getGateUpOrder());
  if (getLhsScale())
    writer.group("lhs_", *getLhsDescriptor());
  if (!getRhsScale())
    return;
  writer.group("rhs_", *getRhsDescriptor());
  writer.flag("gate_up", bool(getGateUp()));
  if (getRhsSecondScale() && getRhsDescriptor()->getSecondPerRow())
    writer.flag("rhs_second_per_row", true);
  if (getLhsSecondScale() && getLhsDescriptor()->getSecondPerRow())
    writer.flag("lhs_second_per_row", true);
  // The codes of block-scaled weights are in rows, their scales may be in scale
  // blocks.
  auto scaleLayout = dyn_cast_or_null<LayoutAttr>(
      cast<RankedTensorType>(getRhsScale().getType()).getEncoding());
  if (readsFragments() || (scaleLayout && scaleLayout.getOrder() == "fragment"))
    writer.flag("fragments", true);
}

StringRef ActivateOp::getOperandName(unsigned operand) {
  const OperandRange numbers = getNumbers();
  if (!numbers.empty() && operand >= numbers.getBeginOperandIndex())
    return getActivation()
        .getNumbersOfExperts()[operand - numbers.getBeginOperandIndex()];
  return StageOpInterface::Trait<ActivateOp>::getOperandName(operand);
}

void ActivateOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  const ActivationAttr activation = getActivation();
  const catalog::ActivationNumbers numbers = activation.getNumbers();
  writer.word("function", activation.getRow().function);
  writer.flag("gated", activation.isGated());
  writer.integer("interleave", getInterleave());
  const auto number = [&](StringRef name, double value, bool isGiven) {
    if (isGiven)
      writer.number(name, value);
    else
      writer.none(name);
  };
  number("alpha", numbers.alpha, numbers.alpha != 1);
  number("beta", numbers.beta, numbers.beta != 0);
  number("limit", numbers.limit, numbers.limit > 0);
  if (activation.getRow().function == "situ")
    writer.number("linear_beta", std::max(numbers.linearBeta, 0.0));
}

void CombineOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.leaveOut("identity_of_rank");
  // If the kernel sends the combined rows, they are not a named value of the
  // manifest, so this attribute specifies their element type.
  if (isa<KernelOp>((*this)->getParentOp()) &&
      llvm::any_of(getOut().getUsers(), llvm::IsaPred<SendBackOp>))
    writer.word(
        "output_type",
        nameOf(cast<RankedTensorType>(getOut().getType()).getElementType()));
  writer.integer("pairs", getPairs());
  writer.integer("hidden", getWidth());
}

void CombineNormedOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("pairs", getPairs());
  writer.integer("hidden", getWidth());
}

void CombineConstantsOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("pairs", getPairs());
  writer.integer("hidden", getWidth());
  writer.integer("constants", extent(getConstants(), 0));
}

//===----------------------------------------------------------------------===//
// Communication between ranks
//===----------------------------------------------------------------------===//

StringRef DispatchOp::getOperandName(unsigned operand) {
  return nameWithScales(
      operand, 1, getScales().size(), "scale", "second_scale",
      StageOpInterface::Trait<DispatchOp>::getOperandName(operand));
}

StringRef DispatchOp::getResultName(unsigned result) {
  return nameWithScales(
      result, 1, getReceivedScales().size(), "received_scale",
      "received_second_scale",
      StageOpInterface::Trait<DispatchOp>::getResultName(result));
}

void DispatchOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.leaveOut("stride");
  writer.leaveOut("one_sided");
  writer.integer("pairs", extent(getTopkIds(), 1));
}

void SendBackOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.integer("pairs", extent(getTopkIds(), 1));
}

void FinalizeOp::addStageAttributes(NamedAttrList &attributes) {
  Writer writer(*this, attributes);
  writer.leaveOut("stride");
  writer.leaveOut("reduce");
  writer.leaveOut("one_sided");
  if (!getTopkIds())
    return;
  writer.integer("pairs", extent(getTopkIds(), 1));
  writer.integer("hidden", getWidth());
}
