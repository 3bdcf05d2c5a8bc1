//===- Choices.cpp - the user's choices for the resolver ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/Choices.h"

#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Realizations.h"
#include "runtime/support/Words.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

using namespace moec;
using namespace moec::compiler;

template <typename Words>
static bool contains(const Words &words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string compiler::joinWords(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text.append(text.empty() ? "" : ",").append(word);
  return text;
}

std::vector<std::string> compiler::splitWords(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0)
      words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool Choices::isExcluded(std::string_view word) const {
  return contains(exclude, word);
}

bool Choices::isAllowed(std::string_view realization) const {
  return contains(allow, realization);
}

std::string Choices::saidBy(std::string_view option) const {
  std::string by = "option";
  forEachChoice(*this, [&](std::string_view name, const auto &,
                           const EnvVariable *variable, std::string_view) {
    if (variable && name == option && contains(variables, name))
      by = variable->name;
  });
  return by;
}

std::string Choices::byVariable(std::string_view option) const {
  const std::string by = saidBy(option);
  return by == "option" ? "" : " by " + by;
}

Choices Choices::withoutVariables() const {
  Choices made = *this;
  forEachChoice(made, [&](std::string_view name, auto &value,
                          const EnvVariable *, std::string_view) {
    if (contains(variables, name))
      value.clear();
  });
  made.variables.clear();
  return made;
}

static std::string choiceText(const std::string &word) { return word; }
static std::string choiceText(const std::vector<std::string> &words) {
  return joinWords(words);
}

std::vector<std::pair<std::string, std::string>> Choices::asked() const {
  std::vector<std::pair<std::string, std::string>> made;
  forEachChoice(*this, [&](std::string_view name, const auto &value,
                           const EnvVariable *, std::string_view) {
    if (const std::string text = choiceText(value); !text.empty())
      made.emplace_back(name, text);
  });
  return made;
}

/// Returns the option's name for messages. If an environment variable set the
/// option, its name follows: "exclude" or "exclude (MOEC_EXCLUDE)".
static std::string nameOf(const Choices &choices, std::string_view option) {
  const std::string by = choices.saidBy(option);
  return by == "option" ? std::string(option)
                        : fmt::format("{} ({})", option, by);
}

template <typename Row, size_t N>
static Result<void> checkKnown(const Choices &choices, std::string_view kind,
                               std::string_view name, const Row (&table)[N]) {
  if (name.empty() || catalog::find(table, name))
    return {};
  const std::string by = choices.saidBy(kind);
  return invalidArgument(
      "{}{}",
      by == "option" ? "" : fmt::format("environment variable {}: ", by),
      unknownWord(kind, name, catalog::nameList(table)));
}

/// Returns true if the choices exclude every row of the table.
template <typename Row, size_t N>
static bool excludesAll(const Choices &choices, const Row (&table)[N]) {
  return std::ranges::all_of(
      table, [&](const Row &row) { return choices.isExcluded(row.name); });
}

Result<void> compiler::checkChoices(const Choices &choices) {
  using namespace catalog;
  TRY(checkKnown(choices, "backend", choices.backend, kBackends));
  TRY(checkKnown(choices, "engine", choices.engine, kEngines));
  std::vector<std::string_view> excludable;
  for (const std::vector<std::string_view> &table :
       {nameList(kBackends), nameList(kEngines), nameList(kRealizations)})
    excludable.insert(excludable.end(), table.begin(), table.end());
  for (const std::string &word : choices.exclude)
    if (!contains(excludable, word))
      return invalidArgument(
          "{}: unknown word '{}'; {}known backends: {}; engines: {}; "
          "realizations: {}",
          nameOf(choices, "exclude"), word, didYouMean(word, excludable),
          names(kBackends), names(kEngines), names(kRealizations));
  for (const std::string &word : choices.allow) {
    const Realization *row = find(kRealizations, word);
    if (!row || !row->isAnotherLayer)
      return invalidArgument(
          "allow: {}expected weight_only, the one "
          "realization that is another layer, got '{}'",
          didYouMean(word, std::array{std::string_view("weight_only")}), word);
    // An allowed word that is excluded is only an error if the user excluded it
    // explicitly. An environment variable may exclude it.
    if (choices.isExcluded(word) && choices.saidBy("exclude") == "option")
      return invalidArgument("allow and exclude both name '{}'; expected one "
                             "of them",
                             word);
  }
  for (const auto &[option, value] :
       {std::pair<std::string_view, std::string>("backend", choices.backend),
        {"engine", choices.engine}})
    if (!value.empty() && choices.isExcluded(value))
      return invalidArgument("{} and {} both name '{}'; expected one of them",
                             nameOf(choices, option),
                             nameOf(choices, "exclude"), value);
  for (const auto &[all, kind] :
       {std::pair<bool, std::string_view>(excludesAll(choices, kBackends),
                                          "backend"),
        {excludesAll(choices, kEngines), "engine"},
        {excludesAll(choices, kRealizations), "realization"}})
    if (all)
      return invalidArgument("{} names every {}; expected one at least that is "
                             "left",
                             nameOf(choices, "exclude"), kind);
  return {};
}

static void readChoice(const std::string &text, std::string &word) {
  word = text;
}
static void readChoice(const std::string &text,
                       std::vector<std::string> &words) {
  words = splitWords(text);
}

void compiler::addVariables(Choices &choices) {
  forEachChoice(choices, [&](std::string_view name, auto &value,
                             const EnvVariable *variable, std::string_view) {
    if (!variable || !value.empty())
      return;
    const std::string text = envString(*variable);
    if (text.empty())
      return;
    readChoice(text, value);
    choices.variables.emplace_back(name);
  });
}
