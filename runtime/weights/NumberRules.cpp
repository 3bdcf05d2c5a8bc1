//===- NumberRules.cpp - the numbers that a stored weight may hold --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/NumberRules.h"

#include "runtime/package/ElementTypes.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

NumberRule weights::ruleOf(Kind kind, const LayerShape::Group &group,
                           bool areFloats) {
  switch (kind) {
  case Kind::Scale:
    // The whole matrix shares this scale.
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
    return NumberRule::Finite;
  case Kind::Weight:
    // Codes may have no NaN.
    return areFloats ? NumberRule::Finite : NumberRule::Any;
  default:
    return NumberRule::Any;
  }
}

/// Returns the member of nested objects, or null.
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
  // Padding is not verified.
  if (layer.contains("stored_hidden") || layer.contains("stored_intermediate"))
    return NumberRule::Any;
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
  return isWeight ? ruleOf(Kind::Weight, {}, layer.contains("weights_type"))
                  : NumberRule::Any;
}

Result<void> weights::checkStored(const Value &value,
                                  std::string_view elementType, NumberRule rule,
                                  const std::byte *data, int64_t first,
                                  int64_t experts, int64_t ofExpert,
                                  int64_t stride) {
  const ElementType *type = findElementType(elementType);
  if (rule == NumberRule::Any || !type || !type->floating)
    return {};
  SourceMatrix numbers;
  numbers.data = data;
  numbers.bits = type->bits;
  numbers.storage = host::storageOf(elementType);
  numbers.rows = 1;
  numbers.columns = ofExpert;
  numbers.rowStride = ofExpert;
  numbers.columnStride = 1;
  numbers.data += first * stride * type->bits / 8;
  for (int64_t i = first; i < first + experts; ++i) {
    Result<void> ok = checkNumbers(numbers, /*inverse=*/false, rule);
    if (!ok)
      return invalidArgument("value '{}': expert {} {}", value.name, i,
                             ok.error().message);
    numbers.data += stride * type->bits / 8;
  }
  return {};
}
