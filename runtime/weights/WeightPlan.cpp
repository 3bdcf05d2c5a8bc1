//===- WeightPlan.cpp - maps checkpoint tensors to values -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extents are first computed in groups (of elements that share one scale), then
// in stored elements (which may hold several codes, the quantized values).
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/WeightPlan.h"

#include "runtime/package/ElementTypes.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

Result<WeightPlan> WeightPlan::create(const Manifest &manifest) {
  const json &described = *manifest.layer;
  WeightPlan made;
  made.shape = TRY(LayerShape::read(described));
  made.mlp = made.shape.ofSharedMlp();
  if (auto it = described.find("stored_layout");
      it != described.end() && !it->is_null()) {
    made.stored = TRY(readStoredLayout(*it));
    if (made.stored->scales.atoms)
      return refused("layer '{}' has scales in atoms (stored_layout {}), which "
                     "an engine makes and no checkpoint holds; accepted: a "
                     "layer whose stored_layout is rows",
                     made.shape.name, made.stored->name);
  }
  return made;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

std::optional<Kind> WeightPlan::kindOfLayer(std::string_view value) {
  constexpr std::pair<std::string_view, Kind> kOfLayer[] = {
      {"routing_bias", Kind::RoutingBias},
      {"per_expert_scale", Kind::ExpertScale},
      {"post_expert_norm", Kind::PostExpertNorm},
      {"hash_table", Kind::HashTable},
  };
  for (const auto &[name, kind] : kOfLayer)
    if (value == name)
      return kind;
  return std::nullopt;
}

static constexpr std::string_view kSharedPrefix = "shared_";

/// Returns the name of the routed experts' value that corresponds to a value of
/// shared experts.
static std::string_view withoutShared(std::string_view value) {
  if (WeightPlan::isOfSharedMlp(value))
    value.remove_prefix(kSharedPrefix.size());
  return value;
}

bool WeightPlan::isOfSharedMlp(std::string_view value) {
  return value.starts_with(kSharedPrefix);
}

bool WeightPlan::isOfExperts(std::string_view value) {
  value = withoutShared(value);
  return value.starts_with("w13") || value.starts_with("w2") ||
         value == "b13" || value == "b2";
}

bool WeightPlan::isInputScale(std::string_view value) {
  value = withoutShared(value);
  return value.starts_with("a1_") || value.starts_with("a2_");
}

bool WeightPlan::isGroupIndex(std::string_view value) {
  return isOfExperts(value) && value.ends_with("_group_index");
}

Wanted WeightPlan::wantedIndex(std::string value, bool first) {
  Wanted made;
  made.value = std::move(value);
  made.element = "i32";
  made.bits = 32;
  made.kinds = {Kind::GroupIndex};
  made.first = first;
  made.group = {-1, 1};
  return made;
}

Wanted WeightPlan::wantedInputScale(const Value &value) {
  Wanted made;
  made.value = value.name;
  made.ofSharedMlp = isOfSharedMlp(value.name);
  made.element = value.elementTypes.front();
  made.bits = 32;
  made.kinds = {Kind::InputScale, Kind::InputDivisor};
  made.first = withoutShared(value.name).starts_with("a1_");
  made.group = {-1, -1};
  return made;
}

Result<std::optional<Wanted>>
WeightPlan::wantedIfKnown(const Value &value) const {
  if (isInputScale(value.name))
    return std::optional(wantedInputScale(value));
  if (isGroupIndex(value.name))
    return std::optional(
        wantedIndex(value.name, value.name.starts_with("w13")));
  if (!isOfExperts(value.name))
    return std::optional<Wanted>();
  Wanted made = TRY(wantedOf(value));
  return std::optional(std::move(made));
}

std::vector<Part> WeightPlan::partsOf(bool first) const {
  if (!first)
    return {Part::Down};
  return shape.gated ? std::vector<Part>{Part::Gate, Part::Up}
                     : std::vector<Part>{Part::Up};
}

Result<Wanted> WeightPlan::wantedOf(const Value &value) const {
  Wanted made;
  made.value = value.name;
  made.element = value.elementTypes.front();
  made.bits = findElementType(made.element)->bits;
  std::string_view rest = withoutShared(value.name);
  made.ofSharedMlp = isOfSharedMlp(value.name);
  made.first = rest.starts_with("w13") || rest == "b13";
  const LayerShape::Group group = made.first ? shape.w1 : shape.w2;
  StoredLayout::Unit StoredLayout::*unit = nullptr;
  rest.remove_prefix(made.first ? 3 : 2);
  if (value.name == "b13" || value.name == "b2") {
    made.kinds = {Kind::Bias};
    made.group = {1, -1};
  } else if (rest.empty()) {
    made.kinds = {Kind::Weight, Kind::Packed};
    made.group = {1, 1};
    made.packed = true;
    unit = &StoredLayout::weights;
  } else if (rest == "_scale") {
    made.kinds = {Kind::Scale};
    made.group = group;
    unit = &StoredLayout::scales;
  } else if (rest == "_zero_point") {
    made.kinds = {Kind::ZeroPoint};
    made.group = group;
    unit = &StoredLayout::zeroPoints;
  } else if (rest == "_second_scale") {
    made.kinds = {Kind::SecondScale, Kind::SecondDivisor};
    made.group = {group.secondPerRow ? 1 : -1, -1};
  } else {
    return refused("value '{}': no checkpoint's name is known for it; "
                   "accepted: a layer without it",
                   value.name);
  }
  if (made.group.rows == 0)
    return refused("value '{}': expected layer.quant.{}.group of two extents, "
                   "got none; accepted: a layer without '{}', or with groups",
                   value.name, made.first ? "w1" : "w2", value.name);
  made.rowsInOrder = made.group.rows == 1;
  if (!unit || !stored)
    return made;
  // These layouts have 32-bit words that hold several codes, or transposed
  // matrices.
  const std::string &name = stored->name;
  if (made.packed && (name.starts_with("gptq") || name == "awq"))
    made.kinds = {Kind::ColumnsPacked};
  const StoredLayout::Unit &layout = (*stored).*unit;
  const int64_t codes = std::max<int64_t>(32 / shape.codeBits, 1);
  made.rowAxis = layout.rowsLast ? 2 : 1;
  made.rowsPerElement = layout.packed == "rows" ? codes : 1;
  made.columnsPerElement = layout.packed == "columns" ? codes : 1;
  return made;
}

std::vector<Part> WeightPlan::candidatesOf(Part part) const {
  if (part == Part::Down)
    return {part};
  if (shape.gated)
    return {part, Part::GateUp, Part::GateUpPairs};
  // In layers without gates, checkpoints call the first weight either up or
  // gate.
  return {part, Part::Gate};
}

//===----------------------------------------------------------------------===//
// Rows and columns
//===----------------------------------------------------------------------===//

/// Returns the stored elements that hold `count` rows or columns, starting at
/// `begin`.
static Lines elementsOf(int64_t begin, int64_t count, int64_t group,
                        int64_t perElement) {
  return {(group == -1 ? 0 : begin / group) / perElement,
          groupsIn(count, group) / perElement};
}

PartExtents WeightPlan::extentsOf(const Wanted &wanted, int64_t wide) const {
  return {groupsIn(wanted.first ? wide : shape.hidden, wanted.group.rows),
          groupsIn(wanted.first ? shape.hidden : wide, wanted.group.columns)};
}

Lines WeightPlan::rowsOf(const Wanted &wanted, const PartExtents &extents,
                         int64_t begin) const {
  if (!wanted.first)
    return {0, extents.rows / wanted.rowsPerElement};
  return elementsOf(begin, shapeOf(wanted).columns, wanted.group.rows,
                    wanted.rowsPerElement);
}

Lines WeightPlan::columnsOf(const Wanted &wanted, const PartExtents &extents,
                            int64_t begin) const {
  if (wanted.first)
    return {0, extents.columns / wanted.columnsPerElement};
  return elementsOf(begin, shapeOf(wanted).columns, wanted.group.columns,
                    wanted.columnsPerElement);
}

std::optional<Lines> WeightPlan::linesTogether(const Wanted &wanted,
                                               Part holder, Part part,
                                               int64_t rows) const {
  const bool isUp = part == Part::Up;
  const int64_t group = wanted.group.rows, unit = wanted.rowsPerElement;
  const bool arePairs = holder == Part::GateUpPairs;
  if (group == -1 || (shape.order.run == 0 && !arePairs)) {
    const bool isSecond = isUp != (shape.order.upFirst && !arePairs);
    return Lines{isSecond ? rows / unit : 0, rows / unit};
  }
  if (group != 1 || unit != 1)
    return std::nullopt;
  return Lines{int64_t(isUp), rows, 2};
}

Result<Lines> WeightPlan::placeOf(const Wanted &wanted, Part part,
                                  int64_t rows) const {
  if (partsOf(wanted.first).size() == 1)
    return Lines{0, rows, 1};
  const bool isUp = part == Part::Up;
  if (shape.order.run == 0 || !wanted.rowsInOrder)
    return Lines{isUp != shape.order.upFirst ? rows : 0, rows, 1};
  if (wanted.rowsPerElement != 1)
    return refused("value '{}': rows of gate and up alternate, but {} of them "
                   "share an element",
                   wanted.value, wanted.rowsPerElement);
  return Lines{int64_t(isUp), rows, 2};
}
