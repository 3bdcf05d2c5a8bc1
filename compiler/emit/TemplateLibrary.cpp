//===- TemplateLibrary.cpp - embedded kernel templates --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Templates include only other templates, with quoted names. Other forms of
// #include are ignored.
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/TemplateLibrary.h"

#include "compiler/plan/Embedded.h"

#include <algorithm>
#include <map>

using namespace moec;
using namespace moec::compiler;

std::optional<std::string_view> compiler::findTemplate(std::string_view name) {
  auto files = embeddedTemplates();
  auto it = std::lower_bound(files.begin(), files.end(), name,
                             [](const EmbeddedFile &file, std::string_view n) {
                               return file.name < n;
                             });
  if (it == files.end() || it->name != name)
    return std::nullopt;
  return it->text;
}

std::vector<std::string> compiler::includedNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    size_t hash = line.find_first_not_of(" \t");
    if (hash == line.npos || line[hash] != '#')
      continue;
    size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == line.npos || line.substr(word, 7) != "include")
      continue;
    size_t open = line.find('"', word);
    size_t close = open == line.npos ? open : line.find('"', open + 1);
    if (close != line.npos)
      names.emplace_back(line.substr(open + 1, close - open - 1));
  }
  return names;
}

/// Returns includedNames(text). Each embedded template is parsed only once.
static std::vector<std::string> namesOf(std::string_view text) {
  static const auto known = [] {
    std::map<const char *, std::vector<std::string>> names;
    for (const EmbeddedFile &file : embeddedTemplates())
      names.emplace(file.text.data(), compiler::includedNames(file.text));
    return names;
  }();
  auto found = known.find(text.data());
  return found == known.end() ? compiler::includedNames(text) : found->second;
}

Result<std::vector<std::string>> compiler::includeClosure(
    std::string_view source,
    const std::function<std::optional<std::string_view>(std::string_view)>
        &find) {
  // Maps each name to the first text that includes it.
  std::map<std::string, std::string> wantedBy;
  std::vector<std::string> pending;
  auto want = [&](std::string_view text, const std::string &asker) {
    for (std::string &name : namesOf(text))
      if (wantedBy.emplace(name, asker).second)
        pending.push_back(std::move(name));
  };
  want(source, "the generated source");
  while (!pending.empty()) {
    std::string name = std::move(pending.back());
    pending.pop_back();
    std::optional<std::string_view> text = find(name);
    if (!text)
      return Error{ErrorCode::Internal,
                   "header '{}', included by {}, is not among the "
                   "embedded templates",
                   name, wantedBy[name]};
    want(*text, name);
  }
  std::vector<std::string> closure;
  for (auto &[name, asker] : wantedBy)
    closure.push_back(name);
  return closure;
}
