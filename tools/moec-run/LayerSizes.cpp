//===- LayerSizes.cpp - checks a manifest's sizes -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/LayerSizes.h"

#include "runtime/package/Arguments.h"
#include "tools/moec-run/HostWeights.h"

#include <algorithm>

using namespace moec;
using reference::Element;
using reference::Layer;

namespace {
/// An extent of a value that a field of the layer defines.
struct Row {
  const char *value;
  bool isLast; ///< the innermost extent, else the outermost
  const char *field;
  int64_t extent;
};

/// A value whose element type the caller cannot choose.
struct TypeRow {
  const char *value;
  const char *field; ///< null if no field defines the type
  const Element *type;
};
} // namespace

static Result<void> checkExtent(const Row &row, const Value &value) {
  if (value.shape.empty())
    return invalidManifest(
        "value {} has no extents, expected {} as layer.{} specifies", row.value,
        row.extent, row.field);
  const Expression &extent =
      row.isLast ? value.shape.back() : value.shape.front();
  if (extent.constant() != std::optional(row.extent))
    return invalidManifest("layer.{} of the manifest makes the {} extent of "
                           "value {} {}, but its shape has {}",
                           row.field, row.isLast ? "last" : "first", row.value,
                           row.extent, extent.text());
  return {};
}

static Result<void> checkType(const TypeRow &row, const Value &value) {
  if (value.elementTypes.size() == 1 &&
      value.elementTypes.front() == row.type->name)
    return {};
  return invalidManifest(
      "value {} has elements of {}, expected {}{}", row.value,
      value.elementTypes.front(), row.type->name,
      row.field ? std::string(" as layer.") + row.field + " says" : "");
}

/// Limits every product of sizes that the reference computes.
static Result<void> checkProducts(const Layer &layer) {
  const auto rows = std::max(layer.intermediate, layer.storedIntermediate);
  const auto columns = std::max(layer.hidden, layer.storedHidden);
  const auto inner = std::max<__int128>(rows, layer.sharedIntermediate);
  constexpr __int128 kMostElements = __int128(1) << 48;
  if (2 * inner * columns * layer.localExperts <= kMostElements)
    return {};
  return invalidManifest(
      "the layer of the manifest has {} experts with {} x {} weights, expected "
      "at most 2^48 weights in all (local_experts.count, hidden_size, "
      "intermediate_size_per_partition)",
      layer.localExperts, int64_t(inner), columns);
}

Result<void> moec::run::checkSizes(const Layer &layer,
                                   const Manifest &manifest) {
  TRY(checkProducts(layer));
  const auto find = [&](const char *name) {
    const auto it = std::ranges::find(manifest.values, name, &Value::name);
    return it == manifest.values.end() ? nullptr : &*it;
  };
  const int64_t pairs = layer.pairsOfToken();
  const Row rows[] = {
      {"x", true, "hidden_size", layer.hidden},
      {"x_q", true, "hidden_size", layer.hidden},
      {"out", true, "hidden_size", layer.hidden},
      {"partials", true, "hidden_size", layer.hidden},
      {"intermediate", true, "intermediate_size_per_partition",
       layer.intermediate},
      {"residual", true, "hidden_size", layer.hidden},
      {"down_addend", true, "hidden_size", layer.hidden},
      {"gate_up_addend", true, "intermediate_size_per_partition",
       layer.gateUpRows()},
      {"logits", true, "num_experts", layer.routedExperts()},
      {"given_ids", true, "top_k", layer.topK},
      {"given_weights", true, "top_k", layer.topK},
      {"ids", true, "top_k", pairs},
      {"weights", true, "top_k", pairs},
      {"places", true, "top_k", pairs},
      {"positions", true, "top_k", pairs},
      {"counts", true, "local_experts.count", layer.localExperts},
      {"w13", false, "local_experts.count", layer.localExperts},
      {"w2", false, "local_experts.count", layer.localExperts},
  };
  for (const Row &row : rows)
    if (const Value *value = find(row.value))
      TRY(checkExtent(row, *value));
  const Element *i32 = reference::findElement("i32");
  const Element *f32 = reference::findElement("f32");
  const Element *x = layer.inputQuantized ? layer.a1 : layer.inputType;
  const TypeRow types[] = {
      {"x", layer.inputQuantized ? "quant.a1.element_type" : "in_dtype", x},
      {"x_q", "quant.a1.element_type", layer.a1},
      {"out", "out_dtype", layer.outputType},
      {"partials", "out_dtype", layer.outputType},
      {"intermediate", "in_dtype", layer.inputType},
      {"residual", "out_dtype", layer.outputType},
      {"gate_up_addend", "in_dtype", layer.inputType},
      {"down_addend", "in_dtype", layer.inputType},
      {"ids", nullptr, i32},
      {"weights", nullptr, f32},
      {"places", nullptr, i32},
      {"positions", nullptr, i32},
      {"counts", nullptr, i32},
  };
  for (const TypeRow &row : types)
    if (const Value *value = find(row.value))
      TRY(checkType(row, *value));
  const auto sizes = TRY(HostWeights::sizesOf(layer));
  for (const auto &[name, expected] : sizes) {
    const Value *value = find(name.c_str());
    if (!value || value->role != ValueRole::StoredWeight)
      return invalidManifest("the layer of the manifest has a weight {}, its "
                             "values have none of that name",
                             name);
    const int64_t bytes = TRY(valueBytes(*value, {}));
    if (bytes != expected)
      return invalidManifest(
          "{} has {} bytes by the manifest's values and {} by its layer "
          "(hidden_size, intermediate_size_per_partition, local_experts, quant "
          "and what else sizes weights)",
          name, bytes, expected);
  }
  return {};
}
