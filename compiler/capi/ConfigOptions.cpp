//===- ConfigOptions.cpp - options_json of moec_compile_config ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table maps each field to a setter. A field without a setter is an error.
//
//===----------------------------------------------------------------------===//

#include "compiler/capi/ConfigOptions.h"

#include "runtime/support/Json.h"
#include "runtime/support/JsonReader.h"
#include "runtime/support/Words.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <map>

using namespace moec;
using namespace moec::compiler;
using nlohmann::json;

namespace {
/// Sets one option from its JSON value. Returns "" on success, otherwise a
/// description of the expected value.
using Setter = std::function<std::string_view(const json &)>;
} // namespace

template <typename String> static Setter string(String &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_string())
      return "a string";
    into = value.get<std::string>();
    return "";
  };
}

template <typename Integer> static Setter integer(Integer &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_number_integer())
      return "an integer";
    // Reject values that do not fit in int64_t, which would wrap around.
    if (value.is_number_unsigned() &&
        value.get<uint64_t>() > uint64_t(INT64_MAX))
      return "an integer below 2^63";
    into = value.get<int64_t>();
    return "";
  };
}

static Setter boolean(bool &into) {
  return [&into](const json &value) -> std::string_view {
    if (!value.is_boolean())
      return "true or false";
    into = value.get<bool>();
    return "";
  };
}

/// Returns a setter that accepts a string or an array of strings.
static Setter list(std::vector<std::string> &into) {
  return [&into](const json &value) -> std::string_view {
    into.clear();
    if (value.is_string()) {
      into.push_back(value.get<std::string>());
      return "";
    }
    if (!value.is_array())
      return "a string or an array of strings";
    for (const json &item : value) {
      if (!item.is_string())
        return "a string or an array of strings";
      into.push_back(item.get<std::string>());
    }
    return "";
  };
}

static Setter numberUpTo(double most, double &into) {
  return [&into, most,
          expected = fmt::format("a number above 0 and up to {}", most)](
             const json &value) -> std::string_view {
    if (!value.is_number() || !(value.get<double>() > 0) ||
        !(value.get<double>() <= most))
      return expected;
    into = value.get<double>();
    return "";
  };
}

static Setter count(int64_t least, int64_t most, int64_t &into) {
  return [&into, least, most,
          expected = fmt::format("an integer from {} to {}", least, most)](
             const json &value) -> std::string_view {
    const std::optional<int64_t> given = integerIn(value, least, most);
    if (!given)
      return expected;
    into = *given;
    return "";
  };
}

static Setter counts(std::vector<int64_t> &into) {
  return [&into](const json &value) -> std::string_view {
    into.clear();
    if (!value.is_array())
      return "an array of integers from 1";
    for (const json &item : value) {
      const std::optional<int64_t> count = integerIn(item, 1, INT32_MAX);
      if (!count)
        return "an array of integers from 1";
      into.push_back(*count);
    }
    return "";
  };
}

/// Returns a setter that accepts an integer or an array of integers.
static Setter integers(std::vector<int64_t> &into) {
  return [&into](const json &value) -> std::string_view {
    into.clear();
    for (const json &item : value.is_array() ? value : json::array({value})) {
      int64_t number = 0;
      if (!integer(number)(item).empty())
        return "an integer or an array of integers";
      into.push_back(number);
    }
    return "";
  };
}

using Setters = std::map<std::string, Setter>;

/// Returns the setters for the fields that describe the layer and its target.
static Setters settersOf(CompileOptions &compile, ImportOptions &import) {
  Setters setters = {
      {"arch", list(compile.archs)},
      {"gpu", string(compile.gpu)},
      {"max_tokens",
       [&compile](const json &value) {
         compile.asksMaxTokens = true;
         return integer(compile.maxTokens)(value);
       }},
      {"default_max_tokens",
       [&compile](const json &value) {
         int64_t ignored = 0;
         return integer(compile.asksMaxTokens ? ignored
                                              : compile.maxTokens)(value);
       }},
      {"cache_dir", string(compile.cacheFolder)},
  };
  forEachChoice(compile, [&](const std::string &name, auto &value,
                             const EnvVariable *, std::string_view) {
    if constexpr (std::is_same_v<decltype(value), std::string &>)
      setters[name] = string(value);
    else
      setters[name] = list(value);
  });
  forEachImportOption(
      import, [&](std::string name, auto &value, std::string_view) {
        std::replace(name.begin(), name.end(), '-', '_');
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, bool>)
          setters[name] = boolean(value);
        else if constexpr (std::is_same_v<Value, std::optional<std::string>>)
          setters[name] = string(value);
        else if constexpr (std::is_same_v<Value, std::optional<int64_t>>)
          setters[name] = integer(value);
        else
          setters[name] = list(value);
      });
  return setters;
}

static Result<void> setAll(std::string_view text, const Setters &setters) {
  if (text.empty())
    return {};
  constexpr size_t kMaxOptionsBytes = size_t(1) << 20;
  json root = TRY(parseJsonObject(text, "options", ErrorCode::InvalidArgument,
                                  {kMaxOptionsBytes}));
  for (const auto &item : root.items()) {
    auto setter = setters.find(item.key());
    if (setter == setters.end()) {
      std::vector<std::string_view> known;
      for (const auto &row : setters)
        known.push_back(row.first);
      return Error(ErrorCode::InvalidArgument,
                   "options: " +
                       unknownWord("field", shortText(item.key()), known));
    }
    if (auto expected = setter->second(item.value()); !expected.empty())
      return invalidArgument("options.{}: expected {}, got {}", item.key(),
                             expected, shortJson(item.value()));
  }
  return {};
}

Result<ConfigOptions> compiler::readConfigOptions(std::string_view text,
                                                  bool explains) {
  ConfigOptions options;
  options.compile.cubins = false;
  options.compile.tunedStore = true;
  Setters setters = settersOf(options.compile, options.import);
  setters["tuned"] = string(options.compile.tunedFile);
  setters["tuned_store"] = boolean(options.compile.tunedStore);
  setters["cubin"] = boolean(options.compile.cubins);
  if (explains) {
    setters["tokens"] = integers(options.explain.tokens);
    setters["histogram"] = string(options.explain.histogram);
  }
  TRY(setAll(text, setters));
  return options;
}

Result<TuneOptions> compiler::readTuneOptions(std::string_view text) {
  TuneOptions options;
  int64_t seed = 1;
  Setters setters = settersOf(options.compile, options.import);
  setters["tokens"] = counts(options.tokens);
  setters["budget"] = numberUpTo(kMostBudget, options.budget);
  setters["exhaustive"] = boolean(options.exhaustive);
  setters["random"] = count(0, kMostRandom, options.random);
  setters["seed"] = integer(seed);
  setters["device"] = string(options.device);
  setters["deadline"] = numberUpTo(kMostDeadline, options.deadline);
  setters["min_gain"] = numberUpTo(kMostGain, options.minGain);
  setters["sample"] = count(1, INT32_MAX, options.sample);
  setters["out"] = string(options.output);
  setters["log"] = string(options.log);
  TRY(setAll(text, setters));
  options.seed = uint64_t(seed);
  return options;
}
