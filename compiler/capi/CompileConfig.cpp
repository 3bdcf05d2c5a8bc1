//===- CompileConfig.cpp - the compiler in the C ABI ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the compiler's part of the C ABI (moec/compiler.h). The functions
// compile a configuration to a package in memory, or report how it would be
// compiled. Configuration and options are JSON text. The runtime implements the
// rest of the C ABI.
//
//===----------------------------------------------------------------------===//

#include "compiler/Input.h"
#include "compiler/TargetNames.h"
#include "compiler/capi/ConfigOptions.h"
#include "compiler/explain/Report.h"
#include "compiler/html/Page.h"
#include "compiler/tune/Tune.h"
#include "runtime/api/Handles.h"

#include "moec/compiler.h"

#include "mlir/IR/BuiltinOps.h"

#include <nlohmann/json.hpp>

#include <memory>

using namespace moec;
using namespace moec::compiler;

/// Parses the options and reads the configuration `text` into `input`.
/// `explains`: the options are for a report.
static Result<ConfigOptions> readConfig(const char *text,
                                        const char *optionsJson, bool explains,
                                        Input &input) {
  auto options =
      TRY(readConfigOptions(optionsJson ? optionsJson : "", explains));
  addVariables(options.compile);
  TRY(resolveTargets(options.compile));
  TRY(input.readText(text, "<config>", options.import));
  return options;
}

/// Returns the report for a configuration as JSON text. If no candidate
/// supports the layer, returns the report of the rejected layer.
static Result<std::string> explainConfig(const char *text,
                                         const char *optionsJson) {
  Input input;
  auto report = [&]() -> Result<nlohmann::ordered_json> {
    auto options = TRY(readConfig(text, optionsJson, true, input));
    return input.explain(options.compile, options.explain);
  }();
  if (!report && report.error().code == ErrorCode::Refused)
    return refusalJson(input.get(), report.error().message).dump();
  if (!report)
    return report.takeError();
  return report->dump();
}

extern "C" moec_status moec_compile_config(const char *text,
                                           const char *options_json,
                                           moec_package_files **files) {
  if (files)
    *files = nullptr;
  return runtime::guarded([&]() -> Result<void> {
    if (!files)
      return runtime::nullArgument("moec_compile_config", "files");
    if (!text)
      return runtime::nullArgument("moec_compile_config", "text");
    Input input;
    auto options = TRY(readConfig(text, options_json, false, input));
    auto handle = std::make_unique<moec_package_files>();
    handle->shares = TRY(input.compile(options.compile));
    *files = handle.release();
    return {};
  });
}

extern "C" moec_status moec_explain_config(const char *text,
                                           const char *options_json,
                                           moec_text **report) {
  if (report)
    *report = nullptr;
  return runtime::guarded([&]() -> Result<void> {
    if (!report)
      return runtime::nullArgument("moec_explain_config", "report");
    if (!text)
      return runtime::nullArgument("moec_explain_config", "text");
    auto handle = std::make_unique<moec_text>();
    handle->text = TRY(explainConfig(text, options_json));
    *report = handle.release();
    return {};
  });
}

extern "C" moec_status moec_tune_config(const char *text,
                                        const char *options_json,
                                        moec_text **report) {
  if (report)
    *report = nullptr;
  return runtime::guarded([&]() -> Result<void> {
    if (!report)
      return runtime::nullArgument("moec_tune_config", "report");
    if (!text)
      return runtime::nullArgument("moec_tune_config", "text");
    TuneOptions options =
        TRY(readTuneOptions(options_json ? options_json : ""));
    addVariables(options.compile);
    TRY(resolveTargets(options.compile));
    options.source.text = text;
    auto handle = std::make_unique<moec_text>();
    handle->text = TRY(tune(options)).dump();
    *report = handle.release();
    return {};
  });
}

extern "C" moec_status moec_explain_html(const char *report_json,
                                         const char *bench_json,
                                         moec_text **page) {
  if (page)
    *page = nullptr;
  return runtime::guarded([&]() -> Result<void> {
    if (!page)
      return runtime::nullArgument("moec_explain_html", "page");
    if (!report_json)
      return runtime::nullArgument("moec_explain_html", "report_json");
    std::optional<html::NamedText> bench;
    if (bench_json)
      bench = {"<bench>", bench_json};
    auto handle = std::make_unique<moec_text>();
    handle->text = TRY(html::makePage(report_json, bench));
    *page = handle.release();
    return {};
  });
}
