//===- BuildLayer.cpp - converts a description to moe.layer ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Import.h"

#include "compiler/import/LayerFields.h"
#include "dialect/Moe.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/Json.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/Sequence.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cctype>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {

/// Returns a symbol of letters, digits and '_' that begins with a letter. The
/// entry names of kernels and the package's C identifiers are derived from it.
std::string symbolOf(std::string_view name) {
  constexpr size_t kLimit = 64;
  std::string symbol;
  for (unsigned char c : name.substr(0, kLimit))
    symbol += std::isalnum(c) ? char(c) : '_';
  if (symbol.empty() || !std::isalpha(static_cast<unsigned char>(symbol[0])))
    symbol = "layer_" + symbol;
  return symbol;
}

class LayerBuilder {
public:
  LayerBuilder(MLIRContext &context, Location location)
      : context(context), builder(&context), location(location) {}

  LogicalResult build(LayerDescription layer, ModuleOp module);

private:
  Type elementType(std::string_view name) {
    return moe::elementType(&context, name);
  }
  void setField(OperationState &state, const LayerField &row,
                LayerDescription &layer);
  moe::DescriptorAttr descriptor(const DescriptorDescription &description);
  moe::QuantAttr quant(const QuantDescription &description,
                       std::string_view inputType);
  moe::DescriptorAttr changed(moe::DescriptorAttr descriptor, Type half,
                              int64_t groupSize);
  moe::RoutingAttr routing(const RoutingDescription &description);
  moe::ActivationAttr activation(const ActivationDescription &description);
  moe::ParallelAttr parallel(const ParallelDescription &description);
  DictionaryAttr origin(const LayerOrigin &origin);
  DictionaryAttr said(const std::vector<LayerOrigin::Said> &entries);
  /// Returns the value as an attribute, or null if it is absent (not zero).
  FloatAttr number(std::optional<double> value) {
    return value ? builder.getF64FloatAttr(*value) : FloatAttr();
  }
  auto failing() {
    return [this] { return emitError(location); };
  }

  MLIRContext &context;
  Builder builder;
  Location location;
};

moe::DescriptorAttr
LayerBuilder::descriptor(const DescriptorDescription &description) {
  Type element = elementType(description.element);
  if (!element) {
    emitError(location) << "expected an element type, got '"
                        << description.element << "'";
    return {};
  }
  return moe::DescriptorAttr::getChecked(
      failing(), &context, element, ArrayRef<int64_t>(description.group),
      elementType(description.scale), description.dynamic,
      elementType(description.secondScale), elementType(description.zeroPoint),
      StringRef(description.scaleRule), description.secondPerRow);
}

/// Returns the descriptor with bf16 replaced by `half`, and with `groupSize` as
/// the group size along K. A null `half` and a `groupSize` of 0 keep the old
/// values.
moe::DescriptorAttr LayerBuilder::changed(moe::DescriptorAttr descriptor,
                                          Type half, int64_t groupSize) {
  const auto type = [&](Type old) {
    return old && old.isBF16() && half ? half : old;
  };
  SmallVector<int64_t, 2> group(descriptor.getGroup());
  if (groupSize != 0 && !group.empty())
    group.back() = groupSize;
  return moe::DescriptorAttr::get(
      &context, type(descriptor.getElement()), group,
      type(descriptor.getScale()), descriptor.getDynamic(),
      descriptor.getSecondScale(), descriptor.getZeroPoint(),
      descriptor.getScaleRule(), descriptor.getSecondPerRow());
}

moe::QuantAttr LayerBuilder::quant(const QuantDescription &description,
                                   std::string_view inputType) {
  if (!description.scheme.empty()) {
    const auto named = moe::QuantAttr::getScheme(&context, description.scheme);
    const catalog::Scheme *row =
        catalog::find(catalog::kSchemes, description.scheme);
    const bool ofCodes = row && row->policy == catalog::kCodeGroups;
    if (!named || (row->policy != catalog::kWeightOnly && !ofCodes))
      return named;
    // The catalog's schemes have bf16 operands. A layer with f16 inputs
    // replaces bf16 by f16.
    const Type half =
        inputType == "f16" && !ofCodes ? elementType(inputType) : Type();
    return moe::QuantAttr::getSpelled(
        &context, changed(named.getA1(), half, 0),
        changed(named.getA2(), half, 0),
        changed(named.getW1(), half, description.groupSize),
        changed(named.getW2(), half, description.groupSize));
  }
  moe::DescriptorAttr a1 = descriptor(description.a1),
                      a2 = descriptor(description.a2),
                      w1 = descriptor(description.w1),
                      w2 = descriptor(description.w2);
  if (!a1 || !a2 || !w1 || !w2)
    return {};
  return moe::QuantAttr::getSpelled(&context, a1, a2, w1, w2);
}

moe::RoutingAttr LayerBuilder::routing(const RoutingDescription &description) {
  return moe::RoutingAttr::getChecked(
      failing(), &context, StringRef(description.method),
      StringRef(description.scoring), description.renormalize.value_or(false),
      description.groups, description.topGroups, number(description.scale),
      description.bias, number(description.softcap),
      number(description.logitScale), number(description.epsilon),
      description.sinks);
}

moe::ActivationAttr
LayerBuilder::activation(const ActivationDescription &description) {
  return moe::ActivationAttr::getChecked(
      failing(), &context, StringRef(description.function),
      number(description.alpha), number(description.beta),
      number(description.linearBeta), number(description.limit),
      description.perExpert);
}

moe::ParallelAttr
LayerBuilder::parallel(const ParallelDescription &description) {
  return moe::ParallelAttr::getChecked(
      failing(), &context, description.tp, description.tpRank, description.pcp,
      description.pcpRank, description.dp, description.dpRank, description.sp,
      description.ep, StringRef(description.placement),
      std::optional<int64_t>());
}

/// Returns the attribute for a value that was read or assumed: a number, a
/// string, a Boolean, or a unit for null. Any other value is returned as its
/// JSON text.
static Attribute valueAttribute(Builder &builder, const std::string &text) {
  Result<nlohmann::json> parsed =
      parseJsonObject(fmt::format("{{\"value\": {}}}", text), "origin",
                      ErrorCode::Internal, {text.size() + 16});
  if (!parsed)
    return builder.getStringAttr(text);
  const nlohmann::json &value = (*parsed)["value"];
  if (value.is_null())
    return builder.getUnitAttr();
  if (value.is_boolean())
    return builder.getBoolAttr(value.get<bool>());
  if (value.is_number_integer())
    return builder.getI64IntegerAttr(value.get<int64_t>());
  if (value.is_number())
    return builder.getF64FloatAttr(value.get<double>());
  return builder.getStringAttr(value.is_string() ? value.get<std::string>()
                                                 : text);
}

DictionaryAttr
LayerBuilder::said(const std::vector<LayerOrigin::Said> &entries) {
  NamedAttrList list;
  for (const auto &[key, value] : entries)
    list.set(key, valueAttribute(builder, value));
  return list.getDictionary(&context);
}

DictionaryAttr LayerBuilder::origin(const LayerOrigin &origin) {
  return builder.getDictionaryAttr(
      {builder.getNamedAttr("model", builder.getStringAttr(origin.model)),
       builder.getNamedAttr("layer", builder.getI64IntegerAttr(origin.layer)),
       builder.getNamedAttr("layers", builder.getI64IntegerAttr(origin.layers)),
       builder.getNamedAttr(
           "chosen", builder.getStringAttr(origin.isAsked ? "asked" : "first")),
       builder.getNamedAttr("read", said(origin.read)),
       builder.getNamedAttr("assumed", said(origin.assumed))});
}

/// Sets the layer's attribute for a field, unless the field is absent, 0 or
/// false.
void LayerBuilder::setField(OperationState &state, const LayerField &row,
                            LayerDescription &layer) {
  Attribute value;
  if (const auto *slot = std::get_if<LayerField::Slot<bool>>(&row.slot)) {
    if ((*slot)(layer))
      value = builder.getUnitAttr();
  } else if (const auto *slot =
                 std::get_if<LayerField::Slot<int64_t>>(&row.slot)) {
    if (const int64_t number = (*slot)(layer))
      value = builder.getI64IntegerAttr(number);
  } else if (const auto *slot =
                 std::get_if<LayerField::Slot<std::optional<double>>>(
                     &row.slot)) {
    value = number((*slot)(layer));
  } else if (const std::string &text =
                 std::get<LayerField::Slot<std::string>>(row.slot)(layer);
             !text.empty()) {
    value = row.names ? Attribute(builder.getStringAttr(text))
                      : TypeAttr::get(elementType(text));
  }
  if (value)
    state.addAttribute(StringRef(row.name), value);
}

LogicalResult LayerBuilder::build(LayerDescription layer, ModuleOp module) {
  RoutingDescription route = layer.routing;
  // The scale of the output is an attribute of the layer, not of the routing.
  const bool scaleOnOutput = layer.routedScaleOnOutput && route.scale;
  layer.routedScaleOnOutput = scaleOnOutput;
  if (scaleOnOutput)
    route.scale.reset();

  moe::QuantAttr quantAttr = quant(layer.quant, layer.inputType);
  moe::RoutingAttr routingAttr = routing(route);
  moe::ActivationAttr activationAttr = activation(layer.activation);
  moe::ParallelAttr parallelAttr = parallel(layer.parallel);
  if (!quantAttr || !routingAttr || !activationAttr || !parallelAttr)
    return failure();

  OperationState state(location, moe::LayerOp::getOperationName());
  auto set = [&](StringRef name, Attribute value) {
    state.addAttribute(name, value);
  };
  set("sym_name", builder.getStringAttr(symbolOf(layer.name)));
  for (const LayerField &row : layerFields())
    if (row.member.empty())
      setField(state, row, layer);
  set("quant", quantAttr);
  set("routing", routingAttr);
  set("activation", activationAttr);
  set("parallel", parallelAttr);
  if (layer.parallel.allRanks)
    set("ranks", builder.getDenseI64ArrayAttr(llvm::to_vector(
                     llvm::seq<int64_t>(0, layer.parallel.ranks()))));
  if (scaleOnOutput)
    set("routed_scaling_factor", builder.getF64FloatAttr(*layer.routing.scale));
  if (!layer.parallel.allToAll.empty())
    set("all_to_all", builder.getStringAttr(layer.parallel.allToAll));
  if (!layer.part.empty())
    set("part", builder.getStringAttr(layer.part));
  if (!layer.origin.model.empty())
    set(moe::kOrigin, origin(layer.origin));
  module.getBody()->push_back(Operation::create(state));
  return verify(module);
}

} // namespace

Result<OwningOpRef<ModuleOp>>
moec::compiler::buildLayer(const LayerDescription &layer, std::string_view name,
                           MLIRContext &context) {
  context.loadDialect<moe::MoeDialect>();
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    problem += fmt::format("{}{}: {}", problem.empty() ? "" : "\n", name,
                           inWords(diagnostic.str(), layer.origin.words));
    return success();
  });
  // The line of a JSON key is unknown here, so messages contain only the file's
  // name.
  Location location = UnknownLoc::get(&context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  if (failed(LayerBuilder(context, location).build(layer, *module)))
    return Error{ErrorCode::Refused, problem};
  return module;
}
