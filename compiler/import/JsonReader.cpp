//===- JsonReader.cpp - JSON objects read field by field ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/JsonReader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {

/// Cuts a text that others wrote to a length that a terminal bears, and makes
/// control characters visible.
std::string shorten(std::string_view text) {
  constexpr size_t kLimit = 60;
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    // Not in the middle of a UTF-8 sequence.
    if (shown.size() >= kLimit && (text[i] & 0xC0) != 0x80)
      return shown + "...";
    unsigned char c = text[i];
    if (c < 0x20 || c == 0x7F)
      shown += fmt::format("\\x{:02x}", c);
    else
      shown += text[i];
  }
  return shown;
}

/// nlohmann's message without its own prefix "[json.exception...] ".
std::string parserMessage(const json::exception &exception) {
  std::string_view message = exception.what();
  if (size_t end = message.find("] "); end != std::string_view::npos)
    message.remove_prefix(end + 2);
  return std::string(message.substr(0, 300));
}

Error failure(std::string_view name, std::string_view text) {
  return {ErrorCode::Refused, fmt::format("{}: {}", name, text)};
}

} // namespace

Result<json> moec::compiler::parseJsonObject(std::string_view text,
                                             std::string_view name) {
  if (text.size() > kMaxJsonBytes)
    return failure(name,
                   fmt::format("expected at most {} bytes of JSON, got {}",
                               kMaxJsonBytes, text.size()));

  // The parser itself needs no stack, but everything that later walks the
  // value does; and of two equal keys it would silently keep the last.
  std::vector<std::set<std::string>> keys;
  std::string problem;
  auto watch = [&](int depth, json::parse_event_t event, json &parsed) {
    switch (event) {
    case json::parse_event_t::object_start:
      keys.emplace_back();
      [[fallthrough]];
    case json::parse_event_t::array_start:
      if (depth >= kMaxJsonDepth && problem.empty())
        problem = fmt::format("expected at most {} levels of nesting, got more",
                              kMaxJsonDepth);
      return depth < kMaxJsonDepth;
    case json::parse_event_t::object_end:
      if (!keys.empty())
        keys.pop_back();
      return true;
    case json::parse_event_t::key: {
      auto &key = parsed.get_ref<const std::string &>();
      if (!keys.empty() && !keys.back().insert(key).second && problem.empty())
        problem =
            fmt::format("expected each key once in an object, got \"{}\" twice",
                        shorten(key));
      return true;
    }
    default:
      return true;
    }
  };

  json value;
  try {
    value = json::parse(text, watch);
  } catch (const json::exception &exception) {
    return failure(name,
                   fmt::format("expected JSON, got a text that is not: {}",
                               parserMessage(exception)));
  }
  if (!problem.empty())
    return failure(name, problem);
  if (!value.is_object())
    return failure(name, fmt::format("expected a JSON object, got {}",
                                     describeJson(value)));
  return value;
}

std::string moec::compiler::describeJson(const json &value) {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::object:
    return "an object";
  case json::value_t::array:
    return "an array";
  case json::value_t::string:
    return fmt::format("the string \"{}\"",
                       shorten(value.get_ref<const std::string &>()));
  case json::value_t::boolean:
    return value.get<bool>() ? "true" : "false";
  default:
    return fmt::format("the number {}", value.dump());
  }
}

std::string moec::compiler::listOf(std::span<const std::string_view> names,
                                   std::string_view last, bool quoted) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i)
      text += i + 1 == names.size() ? fmt::format(" {} ", last) : ", ";
    text += quoted ? fmt::format("\"{}\"", names[i]) : std::string(names[i]);
  }
  return text;
}

void JsonErrors::add(std::string_view path, std::string_view text) {
  if (!first)
    first = failure(name, fmt::format("{}: {}", path, text));
}

JsonReader::JsonReader(const json &object, std::string path, JsonErrors &errors)
    : object_(&object), path_(std::move(path)), errors_(&errors) {}

std::string JsonReader::pathOf(std::string_view key) const {
  return fmt::format("{}.{}", path_, shorten(key));
}

const json *JsonReader::find(std::string_view key) {
  std::string name(key);
  if (!wasAsked(key))
    asked_.push_back(name);
  auto it = object_->find(name);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

bool JsonReader::wasAsked(std::string_view key) const {
  return std::find(asked_.begin(), asked_.end(), key) != asked_.end();
}

void JsonReader::expected(std::string_view key, std::string_view what) {
  auto it = object_->find(std::string(key));
  errors_->add(pathOf(key),
               fmt::format("expected {}, got {}", what,
                           it == object_->end() ? std::string("nothing")
                                                : describeJson(*it)));
}

void JsonReader::refuse(std::string_view key, std::string_view text) {
  errors_->add(pathOf(key), text);
}

static std::string rangeText(int64_t min, int64_t max) {
  return fmt::format("an integer from {} to {}", min, max);
}

static bool inRange(const json &value, int64_t min, int64_t max) {
  if (!value.is_number_integer())
    return false;
  // Unsigned numbers beyond 2^63 would wrap when read as signed ones.
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > uint64_t(std::max<int64_t>(max, 0)))
    return false;
  int64_t number = value.get<int64_t>();
  return number >= min && number <= max;
}

int64_t JsonReader::integer(std::string_view key, int64_t min, int64_t max) {
  const json *field = find(key);
  if (field && inRange(*field, min, max))
    return field->get<int64_t>();
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

bool JsonReader::booleanOr(std::string_view key, bool otherwise) {
  const json *field = find(key);
  if (!field)
    return otherwise;
  if (field->is_boolean())
    return field->get<bool>();
  expected(key, "true or false");
  return otherwise;
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
    if (!inRange(element, min, max)) {
      errors_->add(fmt::format("{}[{}]", pathOf(key), i),
                   fmt::format("expected {}, got {}", rangeText(min, max),
                               describeJson(element)));
      return otherwise;
    }
    values.push_back(element.get<int64_t>());
  }
  return values;
}

std::optional<JsonReader> JsonReader::object(std::string_view key) {
  const json *field = find(key);
  if (!field)
    return std::nullopt;
  if (!field->is_object()) {
    expected(key, "an object");
    return std::nullopt;
  }
  return JsonReader(*field, pathOf(key), *errors_);
}

void JsonReader::refuseUnknown() {
  for (auto it = object_->begin(); it != object_->end(); ++it) {
    if (wasAsked(it.key()))
      continue;
    std::vector<std::string_view> known(asked_.begin(), asked_.end());
    std::sort(known.begin(), known.end());
    errors_->add(pathOf(it.key()),
                 fmt::format("unknown field; accepted here: {}",
                             listOf(known, "and", false)));
    return;
  }
}
