//===- WeightMap.cpp - layers and weight plan as JSON ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes the weight plan as JSON. Offsets and extents come from the functions
// that also load weights, and names come from the table that also parses names,
// so the JSON agrees with loading.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"
#include "runtime/weights/LoadWeights.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

ordered_json toJson(const Lines &lines) {
  return {{"begin", lines.begin}, {"count", lines.count}, {"step", lines.step}};
}

/// Returns the word for a part in the JSON.
std::string_view wordOf(Part part) {
  return part == Part::Gate ? "gate"
         : part == Part::Up ? "up"
         : isFused(part)    ? "gate_up"
                            : "down";
}

bool isInverse(Kind kind) {
  return kind == Kind::SecondDivisor || kind == Kind::InputDivisor;
}

class MapWriter {
public:
  explicit MapWriter(const WeightPlan &plan, const LayerShape &shape)
      : plan(plan), shape(shape) {}

  ordered_json experts() const;
  Result<ordered_json> value(const Value &value) const;

private:
  /// Describes the tensors that hold a part under the names of `role`; null if
  /// there are no such names.
  ordered_json tensors(const Wanted &wanted, Part part,
                       const TensorRole &role) const;
  Result<ordered_json> part(const Wanted &wanted, Part part) const;

  const WeightPlan &plan;
  const LayerShape &shape;
};

ordered_json MapWriter::experts() const {
  ordered_json list = ordered_json::array();
  for (int64_t i = 0; i < shape.localCount; ++i) {
    const int64_t expert = plan.expertAt(Wanted(), i);
    const bool shared = expert >= shape.experts;
    list.push_back({{"expert", shared ? expert - shape.experts : expert},
                    {"shared", shared}});
  }
  return list;
}

ordered_json MapWriter::tensors(const Wanted &wanted, Part part,
                                const TensorRole &role) const {
  std::vector<std::string> names = namesOf(role);
  if (names.empty())
    return nullptr;
  // If one tensor holds all shared experts, they are concatenated along the
  // intermediate dimension. Shared experts that are sinks have an expert
  // dimension instead, like routed experts.
  const LayerShape &of = plan.shapeOf(wanted);
  const int64_t times =
      role.shared && role.expert == kAllExperts && shape.sinks == 0 ? of.shared
                                                                    : 1;
  const PartExtents extents = plan.extentsOf(wanted, of.intermediate * times);
  Lines rows = plan.rowsOf(wanted, extents, of.columnBegin);
  Lines columns = plan.columnsOf(wanted, extents, of.columnBegin);
  const PartExtents each = plan.extentsOf(wanted, of.intermediate);
  int64_t allRows = extents.rows / wanted.rowsPerElement;
  int64_t next = wanted.first ? each.rows / wanted.rowsPerElement
                              : each.columns / wanted.columnsPerElement;
  if (isFused(role.part) && shape.gated) {
    const std::optional<Lines> own =
        plan.linesTogether(wanted, role.part, part, extents.rows);
    if (!own)
      return nullptr;
    rows.begin = own->begin + rows.begin * own->step;
    rows.step = own->step;
    next *= own->step;
    allRows *= 2;
  }
  ordered_json made = {
      {"holds", wordOf(role.part)},
      {"shared", role.shared},
      {"experts", role.expert == kAllExperts ? "all" : "one"},
      {"inverse", isInverse(role.kind)},
      {"rows", toJson(rows)},
      {"columns", toJson(columns)},
      {"of_rows", allRows},
      {"of_columns", extents.columns / wanted.columnsPerElement}};
  if (times > 1)
    made["next_expert"] = next;
  made["names"] = std::move(names);
  return made;
}

Result<ordered_json> MapWriter::part(const Wanted &wanted, Part part) const {
  const LayerShape &of = plan.shapeOf(wanted);
  const PartExtents extents = plan.extentsOf(wanted, of.intermediate);
  const Lines rows = plan.rowsOf(wanted, extents, of.columnBegin);
  const bool isSplit = WeightPlan::isOfExperts(wanted.value) &&
                       !WeightPlan::isGroupIndex(wanted.value);
  ordered_json made = {{"part", wordOf(part)}};
  if (isSplit) {
    const Lines place = TRY(plan.placeOf(wanted, part, rows.count));
    made["rows"] = toJson(place);
  }
  ordered_json &list = made["tensors"] = ordered_json::array();
  for (const bool shared : {false, true}) {
    const bool isApart = shape.hasSharedMlp();
    if (isApart ? shared != wanted.ofSharedMlp : shared && shape.shared == 0)
      continue;
    for (Part holder : plan.candidatesOf(part))
      for (Kind kind : wanted.kinds)
        for (const int64_t expert : {int64_t(0), kAllExperts}) {
          ordered_json one =
              tensors(wanted, part, {shared, expert, holder, kind});
          if (!one.is_null())
            list.push_back(std::move(one));
        }
  }
  return made;
}

Result<ordered_json> MapWriter::value(const Value &value) const {
  ordered_json made;
  if (const std::optional<Kind> kind = WeightPlan::kindOfLayer(value.name)) {
    made["holds"] = "layer";
    made["names"] = namesOf({false, kAllExperts, Part::Routing, *kind});
    return made;
  }
  const std::optional<Wanted> wanted = TRY(plan.wantedIfKnown(value));
  made["holds"] = !wanted ? "nothing of a checkpoint"
                  : WeightPlan::isInputScale(value.name)
                      ? "the largest of each expert"
                  : WeightPlan::isGroupIndex(value.name) ? "one of equal ones"
                  : wanted->ofSharedMlp ? "shared experts together"
                                        : "experts";
  if (!wanted)
    return made;
  made["row_axis"] = wanted->rowAxis;
  ordered_json &parts = made["parts"] = ordered_json::array();
  for (Part each : plan.partsOf(wanted->first)) {
    ordered_json one = TRY(part(*wanted, each));
    parts.push_back(std::move(one));
  }
  return made;
}

} // namespace

Result<std::string> WeightPlan::mapJson(const Manifest &manifest,
                                        const Symbols &symbols) const {
  const MapWriter writer(*this, shape);
  ordered_json values = ordered_json::array();
  for (const Value &value : manifest.values) {
    if (value.role != ValueRole::StoredWeight)
      continue;
    ordered_json one = {{"value", value.name},
                        {"element_type", value.elementTypes.front()}};
    ordered_json &extents = one["shape"] = ordered_json::array();
    for (const Expression &expression : value.shape) {
      int64_t extent = TRY(expression.evaluate(symbols));
      extents.push_back(extent);
    }
    ordered_json more = TRY(writer.value(value));
    one.update(more);
    values.push_back(std::move(one));
  }
  return ordered_json{
      {"layer", shape.name},
      {"experts", writer.experts()},
      {"values", std::move(values)},
      {"left_out", manifest.layer->value("left_out", json::array())}}
      .dump();
}

std::string weights::layersJson(const Checkpoint &checkpoint) {
  struct Layer {
    std::set<int64_t> experts;
    bool shared = false;
    std::set<Kind> kinds;
  };
  std::map<std::pair<int64_t, std::string>, Layer> layers;
  for (const auto &[name, file] : checkpoint.names()) {
    const std::optional<TensorName> read = readTensorName(name);
    if (!read || read->role.part == Part::Routing)
      continue;
    Layer &layer = layers[{read->layer, name.substr(0, read->prefix)}];
    layer.kinds.insert(read->role.kind);
    if (read->role.shared)
      layer.shared = true;
    else
      layer.experts.insert(read->role.expert);
  }
  ordered_json list = ordered_json::array();
  for (const auto &[key, layer] : layers) {
    if (layer.experts.empty())
      continue;
    ordered_json one = {{"layer", key.first}, {"prefix", key.second}};
    // null if one tensor may hold all experts
    one["experts"] = layer.experts.contains(kAllExperts)
                         ? ordered_json()
                         : ordered_json(layer.experts.size());
    one["shared_experts"] = layer.shared;
    ordered_json &holds = one["holds"] = ordered_json::array();
    std::set<std::string_view> nouns;
    for (Kind kind : layer.kinds)
      if (nouns.insert(textOf(kind).noun).second)
        holds.push_back(textOf(kind).noun);
    list.push_back(std::move(one));
  }
  return list.dump();
}
