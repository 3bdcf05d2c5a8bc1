//===- CompileConfig.cpp - the compiler behind the C ABI ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Text of a configuration and options as JSON to a package in memory, or to a
// report. Everything else of the C ABI is the runtime's.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "compiler/Explain.h"
#include "compiler/PresentGpu.h"
#include "compiler/capi/ConfigOptions.h"
#include "compiler/import/Import.h"
#include "runtime/api/Handles.h"

#include "moec/moec.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>

using namespace moec;
using namespace moec::compiler;

namespace {
/// A configuration with its options.
class Config {
public:
  Config() : context(makeRegistry(), mlir::MLIRContext::Threading::DISABLED) {}

  Result<void> read(const char *text, const char *optionsJson) {
    options = TRY(readConfigOptions(optionsJson ? optionsJson : ""));
    if (options.compile.gpu.empty())
      options.compile.gpu = presentGpu(options.compile.archs);
    module =
        TRY(importInput(text, "<config>", options.import, context, &words));
    return {};
  }

  Result<PackageFiles> compile() {
    Result<PackageFiles> files = compiler::compile(*module, options.compile);
    if (!files)
      return inInputsWords(files.error());
    return files;
  }

  Result<nlohmann::ordered_json> explain() {
    if (auto done = lower(*module, Phase::Scheduled, options.compile); !done)
      return inInputsWords(done.error());
    auto files = TRY(emit(*module));
    return explainJson(*module, files.manifest);
  }

  /// As far as it was read and lowered; else null.
  mlir::ModuleOp get() { return module ? *module : mlir::ModuleOp(); }

private:
  static mlir::DialectRegistry makeRegistry() {
    mlir::DialectRegistry registry;
    registerDialects(registry);
    return registry;
  }
  Error inInputsWords(const Error &error) const {
    return Error{error.code, inWords(error.message, words)};
  }

  ConfigOptions options;
  mlir::MLIRContext context;
  Words words;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};
} // namespace

/// A layer that is refused has a report, too.
static Result<std::string> explainConfig(const char *text,
                                         const char *optionsJson) {
  Config config;
  auto report = [&]() -> Result<nlohmann::ordered_json> {
    TRY(config.read(text, optionsJson));
    return config.explain();
  }();
  if (!report && report.error().code == ErrorCode::Refused)
    return refusalJson(config.get(), report.error().message).dump();
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
    Config config;
    TRY(config.read(text, options_json));
    auto handle = std::make_unique<moec_package_files>();
    handle->files = TRY(config.compile());
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
