//===- Completion.cpp - shell completion ----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fills the scripts in compiler/command/completion/ with the names of this
// version's commands and tables.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/plan/Embedded.h"

#include <fmt/ranges.h>

using namespace moec;
using namespace moec::compiler;

static void replaceAll(std::string &text, std::string_view from,
                       const std::string &to) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

std::string
moec::compiler::completionText(std::string_view shell,
                               const std::vector<std::string> &commands) {
  std::string text;
  for (const EmbeddedFile &script : embeddedCompletions())
    if (script.name == fmt::format("moec.{}", shell))
      text = script.text;
  replaceAll(text, "@COMMANDS@", fmt::format("{}", fmt::join(commands, " ")));
  replaceAll(text, "@TABLES@", fmt::format("{}", fmt::join(listTables(), " ")));
  replaceAll(text, "@ACTIONS@",
             fmt::format("{}", fmt::join(cacheActions(), " ")));
  return text;
}
