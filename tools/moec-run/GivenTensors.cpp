//===- GivenTensors.cpp - tensors from the user's files -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/GivenTensors.h"

#include "runtime/package/Arguments.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::run;

/// Returns NumPy's spelling of an element type. Floats that NumPy lacks are raw
/// bits.
static std::string dtypeOf(const ElementType &type) {
  if (type.name == "bf16")
    return "<u2";
  if (type.bits < 8 || (type.floating && type.bits == 8))
    return "|u1";
  return fmt::format("{}{}{}", type.bits == 8 ? '|' : '<',
                     type.floating ? 'f' : 'i', type.bits / 8);
}

/// Describes the NumPy type of an element type for messages.
static std::string describeType(const ElementType &type) {
  const std::string dtype = dtypeOf(type);
  const char *raw = dtype == "<u2"   ? " (numpy.uint16, the raw bits)"
                    : dtype == "|u1" ? " (numpy.uint8, the raw bits)"
                                     : "";
  return fmt::format("{} as dtype '{}'{}", type.name, dtype, raw);
}

static bool isInput(const Value &value) {
  return value.role == ValueRole::Input ||
         value.role == ValueRole::OptionalInput ||
         value.role == ValueRole::StoredWeight;
}

static bool isOutput(const Value &value) {
  return value.role == ValueRole::Output ||
         value.role == ValueRole::OptionalOutput;
}

template <typename Predicate>
static Result<void>
checkNamesOf(const char *option, const std::map<std::string, std::string> &said,
             const Manifest &manifest, const Predicate &belongs) {
  std::vector<std::string_view> known;
  for (const Value &value : manifest.values)
    if (belongs(value))
      known.push_back(value.name);
  for (const auto &[name, path] : said)
    if (std::ranges::find(known, name) == known.end()) {
      const std::string_view nearest = nearestOf(name, known);
      return invalidArgument(
          "{}: package {} has no '{}'; {}accepted: {}", option, manifest.name,
          name,
          nearest.empty() ? "" : fmt::format("did you mean {}? ", nearest),
          listOf(known, "and", false));
    }
  return {};
}

Result<void> moec::run::checkNames(const Options &options,
                                   const LoadedLayer &layer) {
  const Manifest &manifest = layer.package().manifest();
  TRY(checkNamesOf("--input", options.inputFiles, manifest, isInput));
  TRY(checkNamesOf("--output", options.outputFiles, manifest, isOutput));
  const auto &files = options.inputFiles;
  if (files.contains("logits") &&
      (files.contains("given_ids") || files.contains("given_weights")))
    return invalidArgument(
        "--input: expected logits, or given_ids and given_weights, "
        "got both");
  if (options.weights.empty())
    return {};
  for (const Value &value : manifest.values)
    if (value.role == ValueRole::StoredWeight && files.contains(value.name))
      return invalidArgument(
          "--input: expected no stored weight with --weights, got {}",
          value.name);
  return {};
}

Result<GivenTensors> GivenTensors::read(const Options &options,
                                        const LoadedLayer &layer) {
  GivenTensors result;
  const Manifest &manifest = layer.package().manifest();
  for (const auto &[name, path] : options.inputFiles) {
    const auto value = std::ranges::find_if(
        manifest.values, [&](const Value &each) { return each.name == name; });
    NpyArray array = TRY(readNpy(path));
    std::string elementType;
    std::vector<std::string> accepted;
    for (const std::string &type : value->elementTypes) {
      const ElementType &known = *findElementType(type);
      accepted.push_back(describeType(known));
      if (array.dtype == dtypeOf(known))
        elementType = type;
    }
    if (elementType.empty())
      return invalidArgument("'{}': expected {} for value '{}', got dtype '{}'",
                             path, fmt::join(accepted, " or "), name,
                             array.dtype);
    result.arrays.emplace(name,
                          Given{&*value, path, elementType, std::move(array)});
  }
  return result;
}

/// Returns the shape of a value's array. For elements of fewer than 8 bits, the
/// last extent counts bytes.
static Result<std::vector<int64_t>> shapeOf(const Value &value,
                                            std::string_view elementType,
                                            const LoadedLayer &layer,
                                            int64_t tokens) {
  auto symbols = TRY(symbolsFor(layer.package().manifest(), tokens,
                                layer.package().smCount()));
  std::vector<int64_t> shape;
  for (const Expression &extent : value.shape) {
    auto number = TRY(extent.evaluate(symbols));
    shape.push_back(number);
  }
  const int64_t bits = findElementType(elementType)->bits;
  if (bits >= 8)
    return shape;
  if (shape.empty() || shape.back() * bits % 8 != 0)
    return invalidArgument(
        "value '{}': rows of {} are no whole bytes, so that no .npy "
        "file holds them",
        value.name, elementType);
  shape.back() = shape.back() * bits / 8;
  return shape;
}

Result<void> GivenTensors::checkShape(const Given &given,
                                      const LoadedLayer &layer,
                                      int64_t tokens) {
  auto expected = TRY(shapeOf(*given.value, given.elementType, layer, tokens));
  if (expected == given.array.shape)
    return {};
  const bool isWeight = given.value->role == ValueRole::StoredWeight;
  return invalidArgument(
      "'{}': expected shape {}{} for value '{}'{}, got {}", given.path,
      shapeText(expected),
      findElementType(given.elementType)->bits < 8 ? " of bytes" : "",
      given.value->name,
      isWeight ? std::string() : fmt::format(" with {} tokens", tokens),
      shapeText(given.array.shape));
}

Result<std::vector<int64_t>>
GivenTensors::tokensOf(const LoadedLayer &layer,
                       std::vector<int64_t> otherwise) const {
  for (const auto &[name, given] : arrays) {
    if (given.value->role == ValueRole::StoredWeight ||
        given.array.shape.empty())
      continue;
    // Each extent is proportional to the number of tokens, or does not depend
    // on it.
    auto one = shapeOf(*given.value, given.elementType, layer, 1);
    auto two = shapeOf(*given.value, given.elementType, layer, 2);
    if (!one || !two)
      return one ? two.takeError() : one.takeError();
    for (size_t i = 0; i < std::min(one->size(), given.array.shape.size()); ++i)
      if (const int64_t each = (*two)[i] - (*one)[i];
          each > 0 && given.array.shape[i] % each == 0)
        return std::vector<int64_t>{given.array.shape[i] / each};
  }
  return otherwise;
}

/// Returns a copy, because a run may overwrite its inputs.
static HostArray copyOf(const HostArray &array) {
  HostArray copy(array.bytes);
  std::memcpy(copy.data.get(), array.data.get(),
              static_cast<size_t>(array.bytes));
  return copy;
}

Result<void> GivenTensors::replaceWeights(const LoadedLayer &layer,
                                          HostWeights &weights) {
  std::map<std::string, HostArray> given;
  for (auto &[name, each] : arrays) {
    if (each.value->role != ValueRole::StoredWeight)
      continue;
    TRY(checkShape(each, layer, 1));
    given.emplace(name, std::move(each.array.elements));
  }
  if (!given.empty())
    weights.replace(layer.layer(), std::move(given));
  return {};
}

Result<void> GivenTensors::replaceInputs(const LoadedLayer &layer,
                                         int64_t tokens,
                                         HostInputs &inputs) const {
  reference::Inputs &described = inputs.described;
  struct Place {
    std::string_view name;
    HostArray &array;
    reference::Matrix &matrix;
  };
  const Place places[] = {
      {"x", inputs.x, described.x},
      {"x_scale", inputs.xScale, described.xScale},
      {"x_second_scale", inputs.xSecondScale, described.xSecondScale},
      {"logits", inputs.logits, described.logits},
      {"given_ids", inputs.ids, described.givenIds},
      {"given_weights", inputs.weights, described.givenWeights},
      {"token_ids", inputs.tokenIds, described.tokenIds},
      {"shared_gate", inputs.sharedGate, described.sharedGate},
      {"gate_up_addend", inputs.gateUpAddend, described.gateUpAddend},
      {"down_addend", inputs.downAddend, described.downAddend},
      {"residual", inputs.residual, described.residual},
      {"partials", inputs.partials, described.partials},
      {"intermediate", inputs.intermediate, described.intermediate},
  };
  const std::pair<std::string_view, std::vector<int32_t> &> maps[] = {
      {"logical_to_physical", described.logicalToPhysical},
      {"replica_count", described.replicaCount},
      {"expert_map", described.expertMap},
      {"expert_num_tokens", described.expertCounts},
  };
  for (const auto &[name, given] : arrays) {
    if (given.value->role == ValueRole::StoredWeight)
      continue;
    TRY(checkShape(given, layer, tokens));
    const HostArray &elements = given.array.elements;
    bool taken = false;
    for (const Place &place : places) {
      if (place.name != name)
        continue;
      place.array = copyOf(elements);
      place.matrix = {place.array.data.get(),
                      reference::findElement(given.elementType),
                      name == "x" ? layer.layer().hidden : 0};
      taken = true;
    }
    for (const auto &[map, numbers] : maps) {
      if (map != name)
        continue;
      numbers.resize(size_t(elements.bytes) / sizeof(int32_t));
      std::memcpy(numbers.data(), elements.data.get(),
                  static_cast<size_t>(elements.bytes));
      taken = true;
    }
    if (name == "valid_tokens") {
      std::memcpy(&inputs.validTokens, elements.data.get(),
                  sizeof inputs.validTokens);
      if (inputs.validTokens < 0)
        return invalidArgument(
            "'{}': expected valid_tokens of 0 or more, got {}", given.path,
            inputs.validTokens);
      described.validTokens = inputs.validTokens;
      taken = true;
    }
    if (!taken)
      return Error(ErrorCode::Internal, "input '{}' has no place in a run",
                   name);
  }
  return {};
}

Result<void> moec::run::writeOutputs(const Options &options,
                                     const LoadedLayer &layer, int64_t tokens,
                                     const HostOutputs &outputs) {
  for (const auto &[name, path] : options.outputFiles) {
    const Value &value =
        *findValue(layer.package().manifest(), layer.package().target(), name);
    const std::string &type = value.elementTypes.front();
    auto shape = TRY(shapeOf(value, type, layer, tokens));
    TRY(writeNpy(path, dtypeOf(*findElementType(type)), shape,
                 outputs.at(name)));
  }
  return {};
}
