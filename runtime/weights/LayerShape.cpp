//===- LayerShape.cpp - the layer as a manifest describes it --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the manifest's `layer` object, which docs/reference/manifest.md
// describes. Manifests of older compilers lack some fields, so those are
// optional.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include "runtime/package/ElementTypes.h"
#include "runtime/package/Limits.h"
#include "runtime/package/Stages.h"
#include "runtime/support/JsonReader.h"

#include <algorithm>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

namespace {

/// Reads fields of the layer object and stores the first error.
class Reader {
public:
  explicit Reader(const json &layer) : layer(layer) {}

  /// Returns the field at a path such as "local_experts.begin", or null.
  const json *find(std::string_view path) const {
    const json *node = &layer;
    while (!path.empty()) {
      const size_t dot = std::min(path.find('.'), path.size());
      const auto it = node->is_object()
                          ? node->find(std::string(path.substr(0, dot)))
                          : node->end();
      if (!node->is_object() || it == node->end())
        return nullptr;
      node = &*it;
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return node;
  }
  void fail(std::string_view path, std::string_view what) {
    if (error.empty())
      error = fmt::format("layer.{}: expected {}", path, what);
  }
  /// Reads an integer from `least` to `most`. The default maximum ensures that
  /// the product of two such integers fits into 64 bits.
  int64_t integer(std::string_view path, int64_t least,
                  int64_t most = INT32_MAX) {
    const json *node = find(path);
    const auto value = node ? integerIn(*node, least, most) : std::nullopt;
    if (!value)
      fail(path, fmt::format("an integer from {} to {}", least, most));
    return value.value_or(least);
  }
  int64_t integerOr(std::string_view path, int64_t otherwise,
                    int64_t most = INT32_MAX) {
    return find(path) ? integer(path, otherwise, most) : otherwise;
  }
  LayerShape::Group group(const std::string &path) {
    const json *node = find(path);
    if (node && node->is_array() && node->empty())
      return {};
    if (node && node->is_array() && node->size() == 2 &&
        (*node)[0].is_number_integer() && (*node)[1].is_number_integer()) {
      const auto extent = [&](size_t i) {
        return integerIn((*node)[i], -1, INT32_MAX).value_or(0);
      };
      if (extent(0) != 0 && extent(1) != 0)
        return {extent(0), extent(1)};
    }
    fail(path,
         fmt::format("[] or two extents of -1 or from 1 to {}", INT32_MAX));
    return {};
  }

  GateUpOrder order(std::string_view path) {
    const json *node = find(path);
    const GateUpOrder *row = findGateUpOrder(
        node && node->is_string() ? node->get<std::string>() : "gate_first");
    if (row && (!node || node->is_string()))
      return *row;
    fail(path, "one of " + gateUpOrderNames());
    return {};
  }
  std::vector<std::string> leftOut() {
    std::vector<std::string> names;
    const json *list = find("left_out");
    if (!list)
      return names;
    const auto isScale = [](const json &row) {
      return row.is_object() && row.contains("value") &&
             row["value"].is_string() &&
             WeightPlan::isInputScale(row["value"].get<std::string>());
    };
    if (!list->is_array() || !std::ranges::all_of(*list, isScale)) {
      fail("left_out", "objects whose 'value' is a scale of activations");
      return names;
    }
    for (const json &row : *list)
      names.push_back(row["value"]);
    return names;
  }

  WeightFormat format(const std::string &path) {
    const auto text = [&](const char *field) {
      const json *node = find(path + field);
      return node && node->is_string() ? node->get<std::string>() : "";
    };
    WeightFormat made;
    const LayerShape::Group shared = group(path + "group");
    made.groupRows = shared.rows;
    made.groupColumns = shared.columns;
    made.element = text("element_type");
    made.scale = text("scale_type");
    made.second = !text("second_scale_type").empty();
    made.zeroPoint = !text("zero_point_type").empty();
    made.scaleRule = text("scale_rule");
    return made;
  }

  std::string error;

private:
  const json &layer;
};

} // namespace

Result<LayerShape> LayerShape::read(const json &layer) {
  Reader reader(layer);
  LayerShape made;
  if (const json *name = reader.find("name"); name && name->is_string())
    made.name = *name;
  made.experts = reader.integer("num_experts", 1, kMostExperts);
  made.shared = reader.integerOr("n_shared_experts", 0, kMostExperts);
  made.zeroExperts =
      reader.integerOr("routing.num_zero_experts", 0, kMostExperts);
  made.sinks = reader.integerOr("routing.sinks", 0, made.experts - 1);
  if (made.sinks > 0 && made.shared > 0)
    reader.fail("routing.sinks", "0 beside n_shared_experts");
  if (made.sinks > 0) {
    made.experts -= made.sinks;
    made.shared = made.sinks;
  }
  made.localBegin = reader.integer("local_experts.begin", 0);
  made.localCount = reader.integer("local_experts.count", 0);
  made.localStride = reader.integerOr("local_experts.stride", 1);
  made.hidden = reader.integer("hidden_size", 1);
  made.intermediate = reader.integer("intermediate_size", 1);
  made.columnBegin = reader.integerOr("intermediate_begin", 0);
  made.columns = reader.integer("intermediate_size_per_partition", 1);
  // This field is absent if shared experts follow the routed experts in the
  // same weights.
  if (reader.find("shared_intermediate_size")) {
    made.sharedIntermediate = reader.integer("shared_intermediate_size", 1);
    made.sharedBegin = reader.integerOr("shared_intermediate_begin", 0);
    made.sharedColumns =
        reader.integer("shared_intermediate_size_per_partition", 1);
  }
  const json *gated = reader.find("activation.gated");
  if (!gated || !gated->is_boolean())
    reader.fail("activation.gated", "true or false");
  else
    made.gated = *gated;
  const auto isSet = [&](std::string_view path) {
    const json *node = reader.find(path);
    return node && node->is_boolean() && node->get<bool>();
  };
  made.groupIndex = isSet("group_index");
  made.sharedGate = isSet("shared_expert_gate");
  made.leftOut = reader.leftOut();
  made.storesFloats = reader.find("weights_dtype") != nullptr;
  made.order = reader.order("gate_up_order");
  made.w1 = reader.group("quant.w1.group");
  made.w2 = reader.group("quant.w2.group");
  made.w1.secondPerRow = isSet("quant.w1.second_per_row");
  made.w2.secondPerRow = isSet("quant.w2.second_per_row");
  made.format1 = reader.format("quant.w1.");
  made.format2 = reader.format("quant.w2.");
  if (const ElementType *type = findElementType(made.format1.element))
    made.codeBits = type->bits;
  const int64_t last =
      made.localBegin + (made.localCount - 1) * made.localStride;
  if (reader.error.empty() && made.localCount > 0 &&
      (made.localStride < 1 || last >= made.experts + made.shared))
    reader.fail("local_experts", "experts of the layer");
  if (reader.error.empty() &&
      made.columnBegin + made.columns > made.intermediate)
    reader.fail("intermediate_begin", "columns of the intermediate");
  if (reader.error.empty() &&
      made.sharedBegin + made.sharedColumns > made.sharedIntermediate)
    reader.fail("shared_intermediate_begin",
                "columns of the shared experts' intermediate");
  const json *eplb = reader.find("enable_eplb");
  if (reader.integerOr("num_redundant_experts", 0) > 0 ||
      (eplb && eplb->is_boolean() && eplb->get<bool>()))
    return refused("layer '{}' has replicas of experts, whose places the "
                   "engine chooses at run time; accepted: a layer without "
                   "enable_eplb and redundant experts",
                   made.name);
  if (!reader.error.empty())
    return Error{ErrorCode::InvalidManifest, reader.error};
  // In a checkpoint, gate and up rows either alternate row by row or do not
  // alternate.
  constexpr int64_t kMostRun = 1;
  if (made.order.run > kMostRun)
    return refused("layer '{}' has gate and up rows in runs (gate_up_order "
                   "{}), which an engine makes and no checkpoint holds; "
                   "accepted: {}",
                   made.name, made.order.name, gateUpOrderNames(kMostRun));
  for (const char *padded :
       {"stored_hidden_size", "stored_intermediate_size_per_partition"})
    if (reader.find(padded))
      return refused(
          "layer '{}' has padded weights ({}), which an engine makes "
          "and no checkpoint holds; accepted: a layer without "
          "stored_hidden_size and "
          "stored_intermediate_size_per_partition",
          made.name, padded);
  return made;
}

LayerShape LayerShape::ofSharedMlp() const {
  LayerShape made = *this;
  made.shared = made.localCount = made.localStride = 1;
  made.localBegin = experts;
  made.intermediate = sharedIntermediate;
  made.columnBegin = sharedBegin;
  made.columns = sharedColumns;
  return made;
}

Result<StoredLayout> weights::readStoredLayout(const json &described) {
  JsonErrors errors{"manifest", std::nullopt, ErrorCode::InvalidManifest};
  const std::string path = "layer.stored_layout";
  if (!described.is_object()) {
    errors.add(path, fmt::format("expected an object, got {}",
                                 describeJson(described)));
    return *std::move(errors.first);
  }
  JsonReader reader(described, path, errors);
  StoredLayout layout;
  layout.name = reader.textOr("name", "");
  for (auto [key, unit] : {std::pair{"weights", &layout.weights},
                           {"scales", &layout.scales},
                           {"zero_points", &layout.zeroPoints}})
    if (std::optional<JsonReader> part = reader.object(key))
      *unit = {.packed = part->textOr("packed", ""),
               .rowsLast = part->booleanOr("rows_last", false),
               .added = part->integerOr("added", 0, 0, 1),
               .atoms = part->booleanOr("atoms", false)};
  if (errors.first)
    return *std::move(errors.first);
  return layout;
}
