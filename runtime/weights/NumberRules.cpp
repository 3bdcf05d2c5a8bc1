//===- NumberRules.cpp - conditions on stored values ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/NumberRules.h"

#include "runtime/host/GateUpOrders.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/Json.h"
#include "runtime/support/JsonReader.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

NumberRule weights::ruleOf(Kind kind, const LayerShape::Group &group,
                           bool areFloats) {
  switch (kind) {
  case Kind::Scale:
    // A scale that applies to a whole matrix must be positive.
    return group.rows == -1 && group.columns == -1 ? NumberRule::PositiveScale
                                                   : NumberRule::Scale;
  case Kind::SecondScale:
  case Kind::SecondDivisor:
  case Kind::InputScale:
  case Kind::InputDivisor:
    return NumberRule::PositiveScale;
  case Kind::Bias:
  case Kind::RoutingBias:
  case Kind::ExpertScale:
  case Kind::PostExpertNorm:
    return NumberRule::Finite;
  case Kind::Weight:
    // The type of the codes (quantized values) may have no encoding for NaN, so
    // floats that will be quantized must be finite.
    return areFloats ? NumberRule::Finite : NumberRule::Any;
  default:
    return NumberRule::Any;
  }
}

/// Returns the member at `path` of nested JSON objects, or null.
static const json *memberAt(const json &object,
                            std::initializer_list<const char *> path) {
  const json *node = &object;
  for (const char *key : path) {
    const auto it = node->is_object() ? node->find(key) : node->end();
    if (it == node->end())
      return nullptr;
    node = &*it;
  }
  return node;
}

NumberRule weights::ruleOf(const json &layer, std::string_view value) {
  if (const std::optional<Kind> kind = WeightPlan::kindOfLayer(value))
    return ruleOf(*kind, {}, false);
  if (WeightPlan::isInputScale(value))
    return ruleOf(Kind::InputScale, {}, false);
  if (!WeightPlan::isOfExperts(value))
    return NumberRule::Any;
  if (value.ends_with("_second_scale"))
    return ruleOf(Kind::SecondScale, {}, false);
  if (value == "b13" || value == "b2")
    return ruleOf(Kind::Bias, {}, false);
  if (value.ends_with("_scale")) {
    const bool isFirst = value.find("w13") != std::string_view::npos;
    const json *group =
        memberAt(layer, {"quant", isFirst ? "w1" : "w2", "group"});
    const bool isWhole = group && *group == json({-1, -1});
    return ruleOf(Kind::Scale, {isWhole ? -1 : 1, isWhole ? -1 : 1}, false);
  }
  const bool isWeight = value.ends_with("w13") || value.ends_with("w2");
  return isWeight ? ruleOf(Kind::Weight, {}, layer.contains("weights_dtype"))
                  : NumberRule::Any;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

namespace {

/// One expert's scales or biases, if rows or columns are padded or if scales
/// are stored in blocks of 128 x 4.
struct PaddedMatrix {
  /// Number of parts (gate and up). Row count per part and column count, each
  /// with padding (`stored...`) and without.
  int64_t parts = 1, storedRows = 1, rows = 1, storedColumns = 1, columns = 1;
  int64_t run = 0; ///< rows after which gate and up alternate
  bool rowsLast = false, atoms = false;

  /// Returns the stored row that holds row `row` of part `part`.
  int64_t placeOf(int64_t part, int64_t row) const {
    return (row / run * parts + part) * run + row % run;
  }
  bool hasShape(std::span<const int64_t> extents) const;
  Result<void> check(SourceMatrix numbers, NumberRule rule) const;
};

} // namespace

bool PaddedMatrix::hasShape(std::span<const int64_t> extents) const {
  const int64_t all = parts * storedRows;
  if (extents.empty() || extents.size() > 2 || rows > storedRows ||
      columns > storedColumns)
    return false;
  const int64_t second = extents.size() == 2 ? extents[1] : 1;
  if (atoms)
    return extents[0] >= all && second >= storedColumns &&
           extents[0] <= INT32_MAX && second <= INT32_MAX &&
           host::countOfAtoms(all, storedColumns) == extents[0] * second &&
           host::countOfAtoms(extents[0], second) == extents[0] * second;
  return rowsLast && extents.size() == 2
             ? extents[0] == storedColumns && second == all
             : extents[0] == all && second == storedColumns;
}

Result<void> PaddedMatrix::check(SourceMatrix numbers, NumberRule rule) const {
  const int64_t bytes = numbers.bits / 8;
  std::vector<std::byte> gathered;
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t first = 0; first < rows; first += run) {
      const int64_t count = std::min(run, rows - first);
      const int64_t begin = placeOf(part, first);
      if (!atoms) {
        TRY(checkNumbers(numbers.part(begin, count, 1, 0, columns),
                         /*inverse=*/false, rule));
        continue;
      }
      gathered.resize(size_t(columns * bytes));
      SourceMatrix line = numbers;
      line.data = gathered.data();
      line.rows = line.columnStride = 1;
      line.columns = line.rowStride = columns;
      for (int64_t row = begin; row < begin + count; ++row) {
        for (int64_t column = 0; column < columns; ++column)
          std::memcpy(gathered.data() + column * bytes,
                      numbers.data +
                          host::placeInAtoms(row, column, storedColumns) *
                              bytes,
                      size_t(bytes));
        TRY(checkNumbers(line, /*inverse=*/false, rule));
      }
    }
  return {};
}

/// Returns the matrix layout of a value whose rows are padded or whose scales
/// are in blocks of 128 x 4, or nullopt for any other value.
static std::optional<PaddedMatrix> paddedMatrix(const json &layer,
                                                std::string_view value) {
  const auto integer = [&](const char *key) -> int64_t {
    const json *node = memberAt(layer, {key});
    return node ? integerIn(*node, 1, INT32_MAX).value_or(0) : 0;
  };
  const auto isSet = [&](std::initializer_list<const char *> path) {
    const json *node = memberAt(layer, path);
    return node && *node == true;
  };
  const bool isScale = value.ends_with("_scale");
  const bool isSecond = value.ends_with("_second_scale");
  const bool isBias = value == "b13" || value == "b2";
  PaddedMatrix made;
  made.atoms =
      isScale && !isSecond && isSet({"stored_layout", "scales", "atoms"});
  const bool isPadded = integer("stored_hidden_size") > 0 ||
                        integer("stored_intermediate_size_per_partition") > 0;
  if (!WeightPlan::isOfExperts(value) || (!isScale && !isBias) ||
      (!isPadded && !made.atoms))
    return std::nullopt;

  const bool isFirst = value.find("13") != std::string_view::npos;
  const int64_t hidden = integer("hidden_size");
  const int64_t inner = integer(WeightPlan::isOfSharedMlp(value)
                                    ? "shared_intermediate_size_per_partition"
                                    : "intermediate_size_per_partition");
  const int64_t storedHidden = std::max(hidden, integer("stored_hidden_size"));
  const int64_t storedInner =
      std::max(inner, integer("stored_intermediate_size_per_partition"));
  const char *operand = isFirst ? "w1" : "w2";
  // Extents of the group that shares a scale; this default is for a bias.
  std::pair<int64_t, int64_t> group(1, -1);
  if (isSecond) {
    group.first = isSet({"quant", operand, "second_per_row"}) ? 1 : -1;
  } else if (isScale) {
    const json *extents = memberAt(layer, {"quant", operand, "group"});
    const bool isPair = extents && extents->is_array() && extents->size() == 2;
    const auto extent = [&](size_t i) {
      return isPair ? integerIn((*extents)[i], -1, INT32_MAX).value_or(0) : 0;
    };
    group = {extent(0), extent(1)};
  }
  if (group.first == 0 || group.second == 0)
    return PaddedMatrix{.rows = INT64_MAX}; // no value has this shape
  made.parts = isFirst && isSet({"activation", "gated"}) ? 2 : 1;
  made.rows = groupsIn(isFirst ? inner : hidden, group.first);
  made.storedRows = groupsIn(isFirst ? storedInner : storedHidden, group.first);
  made.columns = groupsIn(isFirst ? hidden : inner, group.second);
  made.storedColumns =
      groupsIn(isFirst ? storedHidden : storedInner, group.second);
  made.rowsLast = isScale && !isSecond && !made.atoms &&
                  isSet({"stored_layout", "scales", "rows_last"});
  const json *order = memberAt(layer, {"gate_up_order"});
  const GateUpOrder *row =
      order && order->is_string()
          ? findGateUpOrder(order->get_ref<const std::string &>())
          : nullptr;
  made.run =
      row && row->run > 0 && group.first == 1 ? row->run : made.storedRows;
  return made;
}

Result<void> weights::checkStored(const json &layer, const Value &value,
                                  std::string_view elementType, NumberRule rule,
                                  const std::byte *data, int64_t first,
                                  int64_t experts,
                                  std::span<const int64_t> extents,
                                  int64_t stride) {
  const ElementType *type = findElementType(elementType);
  if (rule == NumberRule::Any || !type || !type->floating)
    return {};
  SourceMatrix numbers;
  numbers.data = data;
  numbers.bits = type->bits;
  numbers.storage = host::storageOf(elementType);
  numbers.rows = 1;
  numbers.columns = 1;
  for (int64_t extent : extents)
    numbers.columns *= extent;
  numbers.rowStride = numbers.columns;
  numbers.columnStride = 1;
  const std::optional<PaddedMatrix> padded = paddedMatrix(layer, value.name);
  if (padded) {
    if (type->bits % 8 != 0 || !padded->hasShape(extents))
      return Error(ErrorCode::InvalidManifest,
                   "value '{}': expected the extents of the layer's sizes and "
                   "padding, got [{}] for an expert",
                   value.name, fmt::join(extents, ", "));
    numbers.rowStride = padded->rowsLast ? 1 : padded->storedColumns;
    numbers.columnStride =
        padded->rowsLast ? padded->parts * padded->storedRows : 1;
  }
  numbers.data += first * stride * type->bits / 8;
  for (int64_t i = first; i < first + experts; ++i) {
    Result<void> ok = padded ? padded->check(numbers, rule)
                             : checkNumbers(numbers, /*inverse=*/false, rule);
    if (!ok)
      return invalidArgument("value '{}': expert {} {}", value.name, i,
                             ok.error().message);
    numbers.data += stride * type->bits / 8;
  }
  return {};
}
