//===- ConfigReader.cpp - reads keys of config.json -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/ConfigReader.h"

#include "compiler/import/Vocabulary.h"
#include "dialect/catalog/Catalog.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

/// Returns the default sizes of the configuration class that the model type
/// names. Returns empty sizes with --as, because the class is then unknown.
ClassSizes ConfigReader::readClassSizes() {
  if (options.as || family.source.starts_with("none"))
    return {};
  for (JsonReader *reader : {part ? &*part : &outer, &outer}) {
    const json *type = reader->find("model_type");
    if (!type || !type->is_string())
      continue;
    const ClassSizes *row =
        findClassSizes(type->get_ref<const std::string &>());
    return row ? *row : ClassSizes();
  }
  // Without a model type, use the sizes if all classes of the family share
  // them.
  const ClassSizes *common = findClassSizes(*family.modelTypes.begin());
  for (std::string_view name : family.modelTypes)
    if (findClassSizes(name) != common)
      common = nullptr;
  return common ? *common : ClassSizes();
}

/// Returns the key's value for the chosen layer. If the value is a list with
/// one element per layer, this is the element at the layer's index. A list that
/// is too short is an error and returns null. Sets `path` to the value's path.
const json *ConfigReader::ofThisLayer(JsonReader &reader, std::string_view name,
                                      std::string &path) {
  const json &value = *reader.value().find(std::string(name));
  path = reader.pathOf(name);
  if (!value.is_array() || numLayers == 0)
    return &value;
  if (int64_t(value.size()) >= numLayers) {
    path += fmt::format("[{}]", chosen.index);
    return &value[chosen.index];
  }
  reader.expected(name, "a number, or a list of one for each of {} layers",
                  numLayers);
  return nullptr;
}

/// Finds a key by its alternative names. If several are present, their values
/// must be equal.
ConfigReader::Place ConfigReader::findIn(JsonReader &reader, WordList names) {
  Place found{&reader, *names.begin(), nullptr, {}};
  for (std::string_view name : names) {
    reader.find(name);
    if (!reader.value().contains(std::string(name)))
      continue;
    std::string path;
    const json *value = ofThisLayer(reader, name, path);
    if (!value)
      return {&reader, name, nullptr, std::move(path)};
    if (found.value && *value != *found.value)
      reader.expected(name, "the value of {}, {}", found.name,
                      describeJson(*found.value));
    if (!found.value)
      found = {&reader, name, value, std::move(path)};
  }
  if (!found.value)
    found.path = reader.pathOf(found.name);
  return found;
}

ConfigReader::Place ConfigReader::find(WordList names) {
  if (!part)
    return findIn(outer, names);
  Place inPart = findIn(*part, names);
  if (inPart.value)
    return inPart;
  Place outside = findIn(outer, names);
  return outside.value ? outside : inPart;
}

void ConfigReader::expected(const Place &place, std::string_view what) {
  if (place.value)
    outer.errors().add(place.path, fmt::format("expected {}, got {}", what,
                                               describeJson(*place.value)));
  else
    place.reader->expected(place.name, what);
}

std::string compiler::shownInOrigin(const json &value) {
  constexpr size_t kLongest = 80;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kLongest)
    text = json(text.substr(0, kLongest) + "...").dump();
  return text;
}

void ConfigReader::noteRead(const Place &place) {
  origin.read.emplace_back(place.name, shownInOrigin(*place.value));
}

static json asJson(const Number &number) {
  return number ? json(*number) : json(nullptr);
}
template <typename T> static json asJson(const T &value) { return value; }

template <typename T>
std::optional<T> ConfigReader::withoutValue(const Key<T> &key,
                                            const Place &place,
                                            std::string_view what) {
  if (!place.value && key.absent) {
    origin.assumed.emplace_back(place.name, shownInOrigin(asJson(*key.absent)));
    return key.absent;
  }
  if (place.value && place.value->is_null() && key.null) {
    noteRead(place);
    return key.null;
  }
  if (place.value && !place.value->is_null()) {
    noteRead(place);
    return std::nullopt;
  }
  expected(place, what);
  return T();
}

/// Reads a key. `parse` converts a value, or returns nullopt if the value is
/// not accepted. `what` describes the accepted values in errors.
template <typename T, typename Parse>
T ConfigReader::getAs(const Key<T> &key, std::string_view what, Parse parse) {
  if (key.names.empty())
    return *key.absent;
  const Place place = find(key.names);
  if (key.isFixed && place.value && isIgnored(place.name, options))
    return *key.absent;
  if (std::optional<T> settled = withoutValue(key, place, what))
    return *settled;
  const std::optional<T> value = parse(*place.value);
  if (value && (!key.isFixed || *value == *key.absent))
    return *value;
  if (key.isFixed)
    expected(place,
             fmt::format("{}, which these models use regardless of the key",
                         asJson(*key.absent).dump()));
  else
    expected(place, what);
  return key.isFixed ? *key.absent : T();
}

int64_t ConfigReader::get(const Key<int64_t> &key, int64_t min, int64_t max) {
  const std::string what = fmt::format("an integer from {} to {}", min, max);
  const int64_t value = getAs(
      key, what, [&](const json &said) { return integerIn(said, min, max); });
  // The class's default may exceed `max`, which can depend on other keys.
  if (value > max)
    expected(find(key.names), what);
  return std::clamp(value, min, max);
}

/// Returns true if `key` contains the name of a size key of any family.
static bool isNameOfSize(std::string_view key) {
  const auto speaks = [&](const Key<int64_t> &size) {
    return std::any_of(size.names.begin(), size.names.end(), [&](auto name) {
      return key.find(name) != std::string_view::npos;
    });
  };
  return std::ranges::any_of(modelFamilies(), [&](const ModelFamily &row) {
    return speaks(row.layers) || speaks(row.hidden) || speaks(row.experts) ||
           speaks(row.topK) || speaks(row.intermediate);
  });
}

/// Reads a size. The class's default is not used if the config has a key with a
/// similar name, because that key may be misspelled.
int64_t ConfigReader::getSize(Key<int64_t> key, int64_t ofClass, int64_t max) {
  JsonReader &reader = part ? *part : outer;
  if (!key.absent && ofClass > 0 && !find(key.names).value) {
    std::vector<std::string_view> strays;
    for (auto it = reader.value().begin(); it != reader.value().end(); ++it)
      if (!isNameOfSize(it.key()))
        strays.push_back(it.key());
    if (nearestOf(*key.names.begin(), strays).empty())
      key.absent = ofClass;
  }
  return get(key, 1, max);
}

bool ConfigReader::get(const Key<bool> &key) {
  return getAs(key, "true or false", [](const json &value) {
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  });
}

Number ConfigReader::get(const Key<Number> &key) {
  return getAs(key, "a number", [](const json &value) -> std::optional<Number> {
    if (value.is_number() && std::isfinite(value.get<double>()))
      return value.get<double>();
    return std::nullopt;
  });
}

Number ConfigReader::getPositive(const Key<Number> &key) {
  const Number number = get(key);
  if (number && !catalog::isPositiveFloat(*number))
    expected(find(key.names), "a number of f32 above 0");
  return number;
}

/// Reads a name. A scoring function may also be a Boolean (true is sigmoid),
/// and an activation may be an object with a "name".
std::string ConfigReader::get(const Key<std::string_view> &key,
                              std::span<const std::string_view> names) {
  using Word = std::optional<std::string_view>;
  return std::string(getAs(key, listOf(names), [&](const json &value) -> Word {
    if (value.is_boolean() && names.data() == scoringNames().data())
      return value.get<bool>() ? "sigmoid" : "softmax";
    const json &said =
        value.is_object() && value.contains("name") ? value["name"] : value;
    if (!said.is_string())
      return std::nullopt;
    const std::string_view word = said.get_ref<const std::string &>();
    return std::ranges::find(names, word) != names.end() ? Word(word)
                                                         : std::nullopt;
  }));
}
