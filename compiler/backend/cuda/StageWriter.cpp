//===- StageWriter.cpp - stages of a kernel for the manifest --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names are those of runtime/package/Stages.h.
//
//===----------------------------------------------------------------------===//

#include "compiler/backend/cuda/StageWriter.h"

#include "compiler/backend/cuda/LayerJson.h"
#include "compiler/passes/ProgramValues.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/RoutingMethods.h"

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

void compiler::addGroup(Stage &stage, const std::string &prefix,
                        moe::DescriptorAttr descriptor) {
  llvm::ArrayRef<int64_t> group = descriptor.getGroup();
  stage.attributes[prefix + "group_rows"] = std::max<int64_t>(group[0], 0);
  stage.attributes[prefix + "group_columns"] = std::max<int64_t>(group[1], 0);
}

void compiler::addRowOrder(Stage &stage, int64_t interleave,
                           llvm::StringRef gateUpOrder) {
  stage.attributes["interleave"] = interleave;
  if (gateUpOrder != "gate_first")
    stage.attributes["gate_up_order"] = gateUpOrder.str();
}

Stage compiler::routeStage(moe::RouteOp route, moe::LayerOp layer) {
  moe::RoutingAttr routing = route.getRouting();
  const catalog::RoutingMethod *row = catalog::find(
      catalog::kRoutingMethods, std::string_view(routing.getMethod()));
  Stage made;
  made.op = "route";
  if (route.getLogits())
    made.operands["logits"] = "logits";
  for (const char *name : {"given_ids", "given_weights", "valid_tokens"})
    made.operands[name] = name;
  if (route.getRoutingBias())
    made.operands["routing_bias"] = "routing_bias";
  if (route.getExpertScale())
    made.operands["expert_scale"] = "expert_scale";
  if (route.getTokenIds()) {
    made.operands["token_ids"] = "token_ids";
    made.operands["hash_table"] = "hash_table";
  }
  for (const char *name : {"topk_ids", "topk_weights", "ids", "weights"})
    made.results[name] = name;
  made.attributes = {{"score", row ? row->score : ""},
                     {"select", selectionOf(routing, layer)},
                     {"normalize", row ? row->normalize : ""},
                     {"experts", int64_t(layer.getRoutedExperts())},
                     {"top_k", int64_t(route.getTopK())},
                     {"groups", routing.getGroups()},
                     {"top_groups", routing.getTopGroups()},
                     {"scale", routing.getScale()
                                   ? routing.getScale().getValueAsDouble()
                                   : 1.0}};
  for (auto [name, value] :
       {std::pair("logical_to_physical", route.getLogicalToPhysical()),
        {"replica_count", route.getReplicaCount()},
        {"expert_map", route.getExpertMap()},
        {"shared_gate", route.getSharedGate()}})
    if (value)
      made.operands[name] = name;
  if (route.getLogicalToPhysical())
    made.attributes["replica_slots"] = route.getReplicaSlots();
  if (route.getExpertMap())
    made.attributes["local_begin"] = int64_t(layer.getLocalBegin().value_or(0));
  if (layer.getStoredExperts() != int64_t(layer.getExperts()))
    made.attributes["physical_experts"] = layer.getPhysicalExperts();
  if (int64_t zero = route.getZero().value_or(0))
    made.attributes["zero"] = zero;
  if (int64_t shared = route.getShared().value_or(0))
    made.attributes["shared"] = shared;
  if (int64_t rows = layer.getHashVocabulary().value_or(0))
    made.attributes["table_rows"] = rows;
  if (route.getOutputScale())
    made.attributes["output_scale"] =
        route.getOutputScaleAttr().getValueAsDouble();
  return made;
}

Stage compiler::countStage(moe::CountOp count, moe::LayerOp layer,
                           std::string counts) {
  Stage made;
  made.op = "count";
  made.operands = {{"topk_ids", "topk_ids"}};
  made.results = {{"block_counts", std::move(counts)}};
  made.attributes = {
      {"experts", int64_t(count.getExperts())},
      {"local_begin", int64_t(layer.getLocalBegin().value_or(0))},
      {"local_experts",
       int64_t(layer.getLocalExperts().value_or(layer.getExperts()))},
      {"block_tokens", int64_t(count.getBlockTokens())}};
  return made;
}

Stage compiler::permuteStage(moe::PermuteOp permute, moe::LayerOp layer,
                             std::string counts) {
  Stage made;
  made.op = "permute";
  made.operands = {{"topk_ids", "topk_ids"},
                   {"block_counts", std::move(counts)}};
  for (const char *name :
       {"rows", "positions", "offsets", "tiles", "tile_count", "counts"})
    made.results[name] = name;
  made.attributes = {{"experts", int64_t(permute.getExperts())},
                     {"local_begin", int64_t(permute.getFirstLocal())},
                     {"local_experts", int64_t(permute.getNumLocal())},
                     {"top_k", layer.getPairsOfToken()},
                     {"block_tokens", int64_t(permute.getBlockTokens())},
                     {"tile_rows", int64_t(permute.getTileRows())}};
  if (permute.getRowStep())
    made.attributes["row_step"] = permute.getStepOfRows();
  if (permute.getCounters() != 2)
    made.attributes["counters"] = permute.getCounters();
  return made;
}

Stage compiler::batchStage(moe::BatchOp batch) {
  Stage made;
  made.op = "batch";
  made.operands = {{"expert_num_tokens", "expert_num_tokens"}};
  made.results = {{"tiles", "tiles"}, {"tile_count", "tile_count"}};
  made.attributes = {{"experts", batch.getNumLocal()},
                     {"tile_rows", int64_t(batch.getTileRows())}};
  if (batch.getRowStep())
    made.attributes["row_step"] = batch.getStepOfRows();
  return made;
}

Stage compiler::permuteColumnsStage(moe::PermuteColumnsOp permute) {
  Stage made;
  made.op = "permute_columns";
  made.operands = {
      {"input", "input"}, {"offsets", "offsets"}, {"order", "order"}};
  made.attributes = {{"experts", permute.getNumExperts()},
                     {"columns", permute.getColumns()}};
  if (permute.getRows()) {
    made.operands["rows"] = "rows";
    made.attributes["top_k"] = int64_t(*permute.getTopK());
  }
  made.results = {{"result", "result"}};
  return made;
}

Stage compiler::matmulStage(moe::GroupedMatmulOp matmul, moe::LayerOp layer) {
  bool gather = bool(matmul.getRows());
  Stage made;
  made.op = "grouped_matmul";
  made.operands = {{"lhs", "lhs"},
                   {"tiles", "tiles"},
                   {"tile_count", "tile_count"},
                   {"rhs", "rhs"}};
  if (gather)
    made.operands["rows"] = "rows";
  for (auto [name, value] : {std::pair("lhs_scale", matmul.getLhsScale()),
                             {"rhs_scale", matmul.getRhsScale()},
                             {"rhs_second_scale", matmul.getRhsSecondScale()},
                             {"rhs_zero_point", matmul.getRhsZeroPoint()}})
    if (value)
      made.operands[name] = name;
  if (matmul.getBias())
    made.operands["bias"] = "bias";
  made.results = {{"result", "result"}};
  made.attributes = {
      {"n", int64_t(matmul.getN())},
      {"k", int64_t(matmul.getK())},
      {"experts", int64_t(matmul.getNumExperts())},
      {"top_k", int64_t(matmul.getTopK().value_or(layer.getPairsOfToken()))},
      {"gather", gather}};
  addRowOrder(made, matmul.getInterleave(), matmul.getGateUpOrder());
  if (matmul.getRhsScale()) {
    moe::QuantAttr quant = layer.getQuant();
    const bool first = matmul.isFirst();
    if (matmul.getLhsScale())
      addGroup(made, "lhs_", first ? quant.getA1() : quant.getA2());
    addGroup(made, "rhs_", first ? quant.getW1() : quant.getW2());
    made.attributes["gate_up"] = first && layer.isGated();
  }
  return made;
}

Stage compiler::activateStage(moe::ActivateOp activate) {
  moe::ActivationAttr activation = activate.getActivation();
  Stage made;
  made.op = "activate";
  made.operands = {{"input", "input"}};
  if (activate.getAddend()) {
    made.operands["addend"] = "addend";
    made.operands["rows"] = "rows";
  }
  for (llvm::StringRef name : activation.getNumbersOfExperts())
    made.operands[name.str()] = name.str();
  // Which rows are an expert's: of a kernel of its own offsets say it.
  if (!activate.getNumbers().empty() && !activate.getOffsets()) {
    made.operands["tiles"] = "tiles";
    made.operands["tile_count"] = "tile_count";
  }
  made.results = {{"result", "result"}};
  made.attributes = {{"function", activation.getRow().function},
                     {"gated", activation.isGated()},
                     {"interleave", int64_t(activate.getInterleave())},
                     {"alpha", nullptr},
                     {"beta", nullptr},
                     {"limit", nullptr}};
  addActivationNumbers(activation, made.attributes);
  return made;
}

Stage compiler::combineStage(moe::CombineOp combine, moe::LayerOp layer) {
  Stage made;
  made.op = "combine";
  made.operands = {{"partials", "partials"}, {"positions", "positions"}};
  if (combine.getTopkWeights())
    made.operands["topk_weights"] = "topk_weights";
  if (combine.getIdentity()) {
    made.operands["identity"] = "identity";
    made.operands["topk_ids"] = "topk_ids";
  }
  if (combine.getResidual())
    made.operands["residual"] = "residual";
  if (combine.getAddend())
    made.operands["addend"] = "addend";
  made.results = {{"out", "out"}};
  made.attributes = {{"top_k", layer.getPairsOfToken()},
                     {"hidden", int64_t(layer.getWidth())}};
  return made;
}
