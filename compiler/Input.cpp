//===- Input.cpp - an input on its way to a package -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Input.h"

#include "compiler/Explain.h"
#include "runtime/package/Ranks.h"

using namespace moec;
using namespace moec::compiler;

static mlir::DialectRegistry makeRegistry() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

Input::Input()
    : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

Result<void> Input::readFile(const std::string &path,
                             const ImportOptions &options) {
  module = TRY(importFile(path, options, context, &words));
  return {};
}

Result<void> Input::readText(std::string_view text, std::string_view name,
                             const ImportOptions &options) {
  module = TRY(importInput(text, name, options, context, &words));
  return {};
}

Error Input::inInputsWords(const Error &error) const {
  return Error{error.code, inWords(error.message, words)};
}

Result<void> Input::lowerTo(Phase phase, const CompileOptions &options) {
  Result<void> done = lower(*module, phase, options);
  if (!done)
    return inInputsWords(done.error());
  return done;
}

Result<nlohmann::ordered_json> Input::explain(const CompileOptions &options,
                                              const ExplainOptions &expected) {
  TRY(lowerTo(Phase::Scheduled, options));
  auto files = TRY(emit(*module));
  // The layer of one rank has what the rank has of its own.
  if (files.manifest.ranks.size() == 1)
    files.manifest = TRY(ofRank(std::move(files.manifest), std::nullopt));
  return explainJson(*module, files.manifest, expected);
}

Result<Shares> Input::compile(const CompileOptions &options) {
  Result<Shares> files = compiler::compileShares(*module, options);
  if (!files)
    return inInputsWords(files.error());
  return files;
}
