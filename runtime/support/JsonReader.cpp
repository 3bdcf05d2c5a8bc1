//===- JsonReader.cpp - reads JSON objects field by field -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/JsonReader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

using namespace moec;
using nlohmann::json;

void JsonErrors::add(std::string_view path, std::string_view text) {
  constexpr size_t kMost = 16;
  if (!first)
    first = Error(code, "{}: {}: {}", name, path, text);
  ++count;
  if (entries.size() < kMost &&
      std::none_of(entries.begin(), entries.end(),
                   [&](const Entry &entry) { return entry.path == path; }))
    entries.push_back({std::string(path), std::string(text)});
}

Error JsonErrors::all() const {
  std::string lines;
  for (const Entry &entry : entries)
    lines += fmt::format("{}{}: {}: {}", lines.empty() ? "" : "\n", name,
                         entry.path, entry.text);
  return Error{code, std::move(lines)};
}

JsonReader::JsonReader(const json &object, std::string path, JsonErrors &errors)
    : fields(&object), prefix(std::move(path)), problems(&errors),
      earlier(errors.count) {}

std::string JsonReader::pathOf(std::string_view key) const {
  std::string field = shortText(key);
  return prefix.empty() ? field : fmt::format("{}.{}", prefix, field);
}

const json *JsonReader::find(std::string_view key) {
  std::string name(key);
  if (!wasAsked(key))
    asked.push_back(name);
  auto it = fields->find(name);
  return it == fields->end() || it->is_null() ? nullptr : &*it;
}

bool JsonReader::wasAsked(std::string_view key) const {
  return std::ranges::find(asked, key) != asked.end();
}

void JsonReader::expected(std::string_view key, std::string_view what) {
  auto it = fields->find(std::string(key));
  if (it == fields->end())
    missing.emplace_back(key);
  problems->add(pathOf(key),
                fmt::format("expected {}, got {}", what,
                            it == fields->end() ? std::string("nothing")
                                                : describeJson(*it)));
}

void JsonReader::refuse(std::string_view key, std::string_view text) {
  problems->add(pathOf(key), text);
}

static std::string rangeText(int64_t min, int64_t max) {
  return fmt::format("an integer from {} to {}", min, max);
}

std::optional<int64_t> moec::integerIn(const json &value, int64_t min,
                                       int64_t max) {
  // Unsigned numbers of 2^63 or more would wrap around if they were read as
  // signed.
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() &&
       value.get<uint64_t>() > uint64_t(std::max<int64_t>(max, 0))))
    return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

int64_t JsonReader::integer(std::string_view key, int64_t min, int64_t max) {
  const json *field = find(key);
  if (const auto value = field ? integerIn(*field, min, max) : std::nullopt)
    return *value;
  expected(key, rangeText(min, max));
  return min;
}

int64_t JsonReader::integerOr(std::string_view key, int64_t otherwise,
                              int64_t min, int64_t max) {
  return has(key) ? integer(key, min, max) : otherwise;
}

std::string JsonReader::text(std::string_view key) {
  const json *field = find(key);
  if (field && field->is_string())
    return field->get<std::string>();
  expected(key, "a string");
  return "";
}

std::string JsonReader::textOr(std::string_view key,
                               std::string_view otherwise) {
  return has(key) ? text(key) : std::string(otherwise);
}

bool JsonReader::boolean(std::string_view key) {
  const json *field = find(key);
  if (field && field->is_boolean())
    return field->get<bool>();
  expected(key, "true or false");
  return false;
}

bool JsonReader::booleanOr(std::string_view key, bool otherwise) {
  return has(key) ? boolean(key) : otherwise;
}

std::optional<double> JsonReader::number(std::string_view key) {
  const json *field = find(key);
  if (!field)
    return std::nullopt;
  if (field->is_number() && std::isfinite(field->get<double>()))
    return field->get<double>();
  expected(key, "a number");
  return std::nullopt;
}

std::vector<int64_t> JsonReader::integersOr(std::string_view key,
                                            std::vector<int64_t> otherwise,
                                            int64_t min, int64_t max) {
  const json *field = find(key);
  if (!field)
    return otherwise;
  if (!field->is_array()) {
    expected(key, "an array of integers");
    return otherwise;
  }
  std::vector<int64_t> values;
  for (size_t i = 0; i < field->size(); ++i) {
    const json &element = (*field)[i];
    const std::optional<int64_t> value = integerIn(element, min, max);
    if (!value) {
      problems->add(fmt::format("{}[{}]", pathOf(key), i),
                    fmt::format("expected {}, got {}", rangeText(min, max),
                                describeJson(element)));
      return otherwise;
    }
    values.push_back(*value);
  }
  return values;
}

std::vector<int64_t> JsonReader::integers(std::string_view key, size_t count,
                                          int64_t min, int64_t max) {
  std::vector<int64_t> values = integersOr(key, {}, min, max);
  if (values.size() == count)
    return values;
  expected(key, fmt::format("{} integers", count));
  return std::vector<int64_t>(count, min);
}

std::optional<JsonReader> JsonReader::object(std::string_view key) {
  const json *field = find(key);
  if (!field)
    return std::nullopt;
  if (!field->is_object()) {
    expected(key, "an object");
    return std::nullopt;
  }
  return JsonReader(*field, pathOf(key), *problems);
}

void JsonReader::explain(std::string_view key, std::string_view reason) {
  for (JsonErrors::Entry &entry : problems->entries)
    if (entry.path == pathOf(key))
      entry.text += fmt::format("; {}", reason);
}

void JsonReader::nameStrayKeys(std::span<const Synonym> synonyms) {
  for (const std::string &key : missing) {
    std::vector<std::string_view> strays;
    for (auto it = fields->begin(); it != fields->end(); ++it)
      if (!wasAsked(it.key()))
        strays.push_back(it.key());
    std::string_view stray = nearestOf(key, strays);
    for (const auto &[word, meant] : synonyms)
      if (stray.empty() && meant == key &&
          std::ranges::find(strays, word) != strays.end())
        stray = word;
    for (JsonErrors::Entry &entry : problems->entries)
      if (!stray.empty() && entry.path == pathOf(key)) {
        entry.text += fmt::format("; did you mean it by \"{}\"?", stray);
        asked.emplace_back(stray);
      }
  }
}

void JsonReader::refuseUnknown(std::span<const Synonym> synonyms) {
  const std::vector<std::string> all(asked);
  std::vector<std::string_view> known(all.begin(), all.end());
  std::sort(known.begin(), known.end());
  std::string accepted =
      fmt::format("accepted here: {}", listOf(known, "and", false));
  nameStrayKeys(synonyms);
  for (auto it = fields->begin(); it != fields->end(); ++it) {
    // A null field counts as absent.
    if (wasAsked(it.key()) || it->is_null())
      continue;
    std::string text = "unknown field";
    std::string_view meant = nearestOf(it.key(), known);
    for (const auto &[word, key] : synonyms)
      if (it.key() == word)
        meant = key;
    std::vector<std::string_view> meants = meantBy(it.key(), known);
    std::erase_if(meants, [&](std::string_view name) {
      return !name.starts_with(it.key());
    });
    constexpr size_t kFew = 3;
    if (!meant.empty())
      meants = {meant};
    else if (meants.size() > kFew)
      meants.clear();
    if (!meants.empty())
      text += fmt::format("; did you mean {}?", listOf(meants));
    // A long list of known keys would hide the suggestion, so it is omitted.
    constexpr size_t kMostShown = 8;
    if (!meants.empty() && known.size() > kMostShown) {
      problems->add(pathOf(it.key()), text);
      continue;
    }
    if (meants.empty() && !accepted.empty())
      text += ";";
    problems->add(pathOf(it.key()),
                  accepted.empty() ? text : text + " " + accepted);
    accepted.clear();
  }
}
