//===- CompileConfig.cpp - the compiler behind the C ABI ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// moec_compile_config: text of a configuration and options as JSON to a package
// in memory. Everything else of the C ABI is the runtime's.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "compiler/PresentGpu.h"
#include "compiler/capi/ConfigOptions.h"
#include "compiler/import/Import.h"
#include "runtime/api/Handles.h"

#include "moec/moec.h"

#include "mlir/IR/MLIRContext.h"

#include <memory>

using namespace moec;
using namespace moec::compiler;

static Result<PackageFiles> compileConfig(const char *config,
                                          const char *optionsJson) {
  auto options = TRY(readConfigOptions(optionsJson ? optionsJson : ""));
  if (options.compile.gpu.empty())
    options.compile.gpu = presentGpu(options.compile.archs);
  mlir::DialectRegistry registry;
  registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  Words words;
  auto module =
      TRY(importInput(config, "<config>", options.import, context, &words));
  Result<PackageFiles> files = compile(*module, options.compile);
  if (!files)
    return Error{files.error().code, inWords(files.error().message, words)};
  return files;
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
    auto handle = std::make_unique<moec_package_files>();
    handle->files = TRY(compileConfig(text, options_json));
    *files = handle.release();
    return {};
  });
}
