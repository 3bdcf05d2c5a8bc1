//===- Input.cpp - an input of the compiler -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Input.h"

#include "compiler/explain/Report.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Realizations.h"
#include "runtime/package/Ranks.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

std::unique_ptr<mlir::MLIRContext> compiler::makeContext() {
  mlir::DialectRegistry registry;
  registerDialects(registry);
  return std::make_unique<mlir::MLIRContext>(
      registry, mlir::MLIRContext::Threading::DISABLED);
}

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

/// Returns the `moec explain` report for a scheduled module.
static Result<nlohmann::ordered_json> reportOf(mlir::ModuleOp module,
                                               const ExplainOptions &expected) {
  auto files = TRY(emit(module));
  // If the module was compiled for one rank, the report shows that rank's
  // values.
  if (files.manifest.ranks.size() == 1)
    files.manifest = TRY(ofRank(std::move(files.manifest), std::nullopt));
  return explainJson(module, files.manifest, expected);
}

Result<nlohmann::ordered_json> Input::explain(const CompileOptions &options,
                                              const ExplainOptions &expected) {
  const mlir::OwningOpRef<mlir::ModuleOp> asRead = module->clone();
  TRY(lowerTo(Phase::Scheduled, options));
  nlohmann::ordered_json report = TRY(reportOf(*module, expected));
  if (!waitsForLeave(report))
    return report;
  CompileOptions more = options;
  for (const catalog::Realization &row : catalog::kRealizations)
    if (row.isAnotherLayer && !more.isExcluded(row.name))
      more.allow.emplace_back(row.name);
  more.printIrAfterAll = more.timePasses = false;
  more.crashReproducer.clear();
  if (lower(*asRead, Phase::Scheduled, more))
    if (const auto allowed = reportOf(*asRead, expected))
      addAllowed(report, *allowed);
  return report;
}

Result<Shares> Input::compile(const CompileOptions &options) {
  Result<Shares> files = compiler::compileShares(*module, options);
  if (!files)
    return inInputsWords(files.error());
  return files;
}
