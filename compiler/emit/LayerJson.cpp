//===- LayerJson.cpp - layer description for the manifest -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// docs/reference/manifest.md lists the fields.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/ManifestWriter.h"

#include "compiler/plan/Communication.h"
#include "compiler/plan/KernelFacts.h"
#include "compiler/plan/ProgramValues.h"
#include "compiler/plan/Shares.h"
#include "compiler/plan/StoredWeights.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/RoutingMethods.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using mlir::cast;
using mlir::dyn_cast_or_null;
using mlir::FloatAttr;
using mlir::RankedTensorType;
using mlir::StringRef;
using mlir::Type;
using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

static json typeOrNull(Type type) {
  return type ? json(elementTypeName(type)) : json(nullptr);
}

static json descriptorJson(moe::DescriptorAttr descriptor) {
  json group = json::array();
  for (int64_t extent : descriptor.getGroup())
    group.push_back(extent);
  json made = {{"element_type", elementTypeName(descriptor.getElement())},
               {"group", group},
               {"scale_type", typeOrNull(descriptor.getScale())},
               {"dynamic", descriptor.getDynamic()},
               {"second_scale_type", typeOrNull(descriptor.getSecondScale())},
               {"zero_point_type", typeOrNull(descriptor.getZeroPoint())}};
  // The field is written only if it is set, so that manifests of older packages
  // do not change.
  if (!descriptor.getRule().empty())
    made["scale_rule"] = descriptor.getRule().str();
  if (descriptor.getSecondPerRow())
    made["second_per_row"] = true;
  return made;
}

static json quantJson(moe::QuantAttr quant) {
  return {{"name", quant.getScheme().str()},
          {"a1", descriptorJson(quant.getA1())},
          {"a2", descriptorJson(quant.getA2())},
          {"w1", descriptorJson(quant.getW1())},
          {"w2", descriptorJson(quant.getW2())}};
}

/// Returns the stored weights that belong to the user's scheme but that the
/// chosen realization (how the layer's operands are multiplied) does not use.
static json leftOut(moe::LayerOp layer) {
  json list = json::array();
  const auto stored = layer.getStoredQuant();
  if (!stored)
    return list;
  mlir::OwningOpRef<moe::LayerOp> users = layer.clone();
  users->setQuantAttr(*stored);
  const llvm::SmallVector<moe::LayerTensor> computed = layer.getTensors();
  for (const moe::LayerTensor &tensor : users->getTensors())
    if (tensor.role == moe::TensorRole::StoredWeight &&
        !moe::findTensor(computed, tensor.name))
      list.push_back({{"value", tensor.name.str()},
                      {"because", layer.getRealization()->str() +
                                      " quantizes no activations"}});
  return list;
}

/// Returns the communication between ranks as JSON, or null for a layer on one
/// rank.
static json communicationJson(moe::LayerOp layer) {
  const std::optional<Communication> expected = communicationOf(layer);
  if (!expected)
    return nullptr;
  json made = {{"gather_ranks", expected->gather},
               {"scatter_ranks", expected->scatter},
               {"reduce_ranks", expected->reduce},
               {"reduce_deferred", expected->deferred},
               {"exchange", expected->exchange}};
  // The field is written only if it is true, so that manifests of older
  // packages do not change.
  if (expected->byPackage)
    made["by_package"] = true;
  if (expected->oneSided)
    made["one_sided"] = true;
  return made;
}

static json routingJson(moe::LayerOp layer) {
  moe::RoutingAttr routing = layer.getRouting();
  const catalog::RoutingMethod &row = *catalog::find(
      catalog::kRoutingMethods, std::string_view(routing.getMethod()));
  json made = {{"name", routing.getMethod().str()},
               {"score", row.score},
               {"select", layer.getHashVocabulary().value_or(0) > 0
                              ? "table"
                              : row.select},
               {"normalize", row.normalize},
               {"groups", routing.getGroups()},
               {"top_groups", routing.getTopGroups()},
               {"scale", routing.getScaleValue()},
               {"bias", routing.getBias()}};
  // The field is written only if it is set, so that manifests of older packages
  // do not change.
  if (layer.getPerExpertScale())
    made["expert_scale"] = true;
  if (routing.getSoftcap())
    made["softcap"] = routing.getSoftcap().getValueAsDouble();
  if (routing.getLogitScale())
    made["logit_scale"] = routing.getLogitScale().getValueAsDouble();
  if (routing.getEpsilon())
    made["epsilon"] = routing.getEpsilon().getValueAsDouble();
  if (routing.getSinks() > 0)
    made["sinks"] = routing.getSinks();
  if (int64_t rows = layer.getHashVocabulary().value_or(0))
    made["table_rows"] = rows;
  if (int64_t identities = layer.getNumZeroExperts().value_or(0))
    made["num_zero_experts"] = identities;
  if (int64_t constants = layer.getNumConstantExperts().value_or(0))
    made["num_constant_experts"] = constants;
  if (layer.getApplyRoutedScaleToOutput() && layer.getRoutedScalingFactorAttr())
    made["output_scale"] =
        layer.getRoutedScalingFactorAttr().getValueAsDouble();
  return made;
}

static void addActivationNumbers(moe::ActivationAttr activation, json &to) {
  const catalog::ActivationNumbers numbers = activation.getNumbers();
  const bool isSitu = to["function"] == "situ";
  if (numbers.alpha != 1)
    to["alpha"] = numbers.alpha;
  if (numbers.beta != 0)
    to["beta"] = numbers.beta;
  if (numbers.limit > 0)
    to["limit"] = numbers.limit;
  if (isSitu)
    to["linear_beta"] = std::max(numbers.linearBeta, 0.0);
}

static json activationJson(moe::ActivationAttr activation) {
  json made = {{"name", activation.getFunction().str()},
               {"function", activation.getRow().function},
               {"gated", activation.isGated()},
               {"alpha", nullptr},
               {"beta", nullptr},
               {"limit", nullptr}};
  addActivationNumbers(activation, made);
  if (activation.getPerExpert())
    for (std::string_view parameter : activation.getRow().parameters)
      made["per_expert"].push_back(parameter);
  return made;
}

/// Adds the options that have the same name in manifests and in the IR.
static void addOptions(moe::LayerOp layer, json &to) {
  const mlir::DictionaryAttr defaults = layer.getDefaults();
  for (StringRef word : moe::LayerOp::getManifestOptions()) {
    const bool mayBeAbsent = word.consume_back("?");
    const mlir::Attribute usual = defaults.get(word);
    const mlir::Attribute said = layer->getAttr(word);
    const mlir::Attribute value = said ? said : usual;
    if (mayBeAbsent && value == usual)
      continue;
    to[word.str()] = value && !mlir::isa<mlir::UnitAttr>(value)
                         ? attributeJson(value)
                         : json(bool(value));
  }
}

static json layerJson(moe::LayerOp layer) {
  moe::ParallelAttr parallel = layer.getParallel();
  json made = {
      {"name", wholeLayerOf(layer)},
      {"num_experts", int64_t(layer.getNumExperts())},
      {"top_k", int64_t(layer.getTopK())},
      {"hidden_size", layer.getWidth()},
      {"intermediate_size", int64_t(layer.getIntermediateSize())},
      {"intermediate_size_per_partition",
       int64_t(layer.getIntermediateSizePerPartition().value_or(
           layer.getIntermediateSize()))},
      {"local_experts",
       {{"count",
         int64_t(layer.getLocalExperts().value_or(layer.getNumExperts()))},
        {"stride", int64_t(layer.getLocalStride().value_or(1))}}},
      {"in_dtype", elementTypeName(layer.getInDtype())},
      {"out_dtype", elementTypeName(layer.getOutDtype())},
      {"router_logits_dtype", elementTypeName(layer.getRouterLogitsDtype())},
      {"routing", routingJson(layer)},
      {"activation", activationJson(layer.getActivation())},
      {"quant", quantJson(layer.getQuant())},
      {"num_redundant_experts", layer.getNumRedundantExperts().value_or(0)},
      {"n_shared_experts", layer.getNSharedExperts().value_or(0)},
      {"communication", communicationJson(layer)},
      {"parallel",
       {{"tp_size", parallel.getTp()},
        {"pcp_size", parallel.getPcp()},
        {"dp_size", parallel.getDp()},
        {"ep_size", parallel.getExpertSize()},
        {"sp_size", parallel.getSp()}}},
  };
  // The field is written only if it is set, so that manifests of older packages
  // do not change.
  if (const auto columns = layer.getSharedIntermediateSizePerPartition()) {
    made["shared_intermediate_size"] = layer.getSharedWidth();
    made["shared_intermediate_size_per_partition"] = int64_t(*columns);
    made["shared_apart"] = whySharedMlp(layer);
  }
  // The layout is written only if it is not the default, so that manifests of
  // older packages do not change.
  if (layer.getStoredLayout() != "rows")
    made["stored_layout"] = storedLayoutJson(layer);
  addOptions(layer, made);
  if (auto origin = layer->getAttrOfType<mlir::DictionaryAttr>(moe::kOrigin))
    made["origin"] = attributeJson(origin);
  if (const auto realization = layer.getRealization())
    made["realization"] = realization->str();
  if (const auto stored = layer.getStoredQuant())
    made["stored_quant"] = quantJson(*stored);
  if (json list = leftOut(layer); !list.empty())
    made["left_out"] = std::move(list);
  if (layer.quantizesWeights())
    made["weights_dtype"] = elementTypeName(*layer.getWeightsDtype());
  return made;
}

static std::vector<Expression> shapeOf(RankedTensorType type,
                                       std::string_view leading) {
  std::vector<Expression> shape;
  for (int64_t extent : type.getShape())
    shape.push_back(mlir::ShapedType::isDynamic(extent)
                        ? Expression::symbol(leading)
                        : Expression(extent));
  return shape;
}

static ValueRole roleOf(moe::TensorRole role) {
  switch (role) {
  case moe::TensorRole::Input:
    return ValueRole::Input;
  case moe::TensorRole::OptionalInput:
    return ValueRole::OptionalInput;
  case moe::TensorRole::StoredWeight:
    return ValueRole::StoredWeight;
  case moe::TensorRole::Output:
    return ValueRole::Output;
  case moe::TensorRole::OptionalOutput:
    return ValueRole::OptionalOutput;
  }
  llvm_unreachable("a role of no row");
}

/// Returns the values that the caller provides or receives: inputs, stored
/// weights and outputs.
static std::vector<Value> callerValues(moe::LayerOp layer) {
  std::vector<Value> values;
  const std::optional<Communication> moved = movedByPackage(layer);
  const std::string_view tokens =
      moved && moved->gather > 1 ? "own_tokens" : "tokens";
  for (const moe::LayerTensor &tensor : layer.getTensors()) {
    Value &value = values.emplace_back();
    value.name = tensor.name.str();
    value.role = roleOf(tensor.role);
    value.alignment = tensor.alignment;
    // Rows that are sent to other ranks must be contiguous.
    value.callerRowStride = tensor.rowStride && !moved;
    auto layout = dyn_cast_or_null<moe::LayoutAttr>(tensor.type.getEncoding());
    if (layout && !layout.getStored().empty()) {
      const StoredWeight stored = storedWeight(layer, tensor.name, tensor.type);
      value.elementTypes = {stored.elementType};
      value.shape.assign(stored.shape.begin(), stored.shape.end());
      continue;
    }
    value.elementTypes = {elementTypeName(tensor.type.getElementType())};
    for (StringRef other : tensor.otherTypes)
      value.elementTypes.push_back(other.str());
    value.shape = shapeOf(tensor.type, tensor.ofRows ? "rows" : tokens);
  }
  return values;
}

/// Returns the table of ranks for the manifest.
static std::vector<RankFacts> rankFacts(moe::LayerOp layer) {
  std::vector<RankFacts> facts;
  for (const int64_t rank : layer.getRanksOfPackage()) {
    const Share share = shareOf(layer, rank);
    facts.push_back({rank, share.firstExpert, share.firstColumn,
                     share.addsW2Bias, share.addsZeroExperts,
                     share.firstSharedColumn});
  }
  return facts;
}

/// Returns the groups of inputs of which a run needs exactly one to route its
/// tokens.
static std::vector<std::vector<std::string>> waysToRoute(moe::LayerOp layer) {
  const bool routes = !layer.isPart("finalize") && !layer.isPart("gate_up") &&
                      !layer.isPart("down") &&
                      (!layer.isPart("quantize") || layer.weighsX());
  if (layer.isBatched() || !routes)
    return {};
  const std::vector<std::string> given = {"given_ids", "given_weights"};
  if (layer.getRouting().takesGivenIdsAlone())
    return {given};
  if (layer.getHashVocabulary().value_or(0) > 0)
    return {{"logits", "token_ids"}, given};
  return {{"logits"}, given};
}

void compiler::describeLayer(moe::ProgramOp program, Manifest &manifest) {
  moe::LayerOp layer = program.getLayerOp();
  manifest.name = wholeLayerOf(layer);
  manifest.ranks = rankFacts(layer);
  *manifest.layer = layerJson(layer);
  // The type to which the codes of emulated activations are converted. With
  // block scales it is f32, because tensor cores multiply the codes by their
  // scales exactly.
  program.walk([&](moe::GroupedMatmulOp matmul) {
    if (matmul.getRealization() == moe::Realization::Emulated)
      manifest.layer["compute_type"] = elementTypeName(layer.getComputeType());
    else if (matmul.getRealization() == moe::Realization::Blocks)
      manifest.layer["compute_type"] = "f32";
  });
  if (const std::optional<Communication> moved = movedByPackage(layer))
    manifest.tokenRanks = moved->gather;
  manifest.values = callerValues(layer);
  manifest.oneOf = waysToRoute(layer);
}
