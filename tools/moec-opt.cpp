//===- moec-opt.cpp - runs passes by name ---------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses a module, runs the passes that the command line names, and prints the
// module. It is for tests and for inspecting a single pass.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/InputText.h"
#include "compiler/passes/Pipeline.h"
#include "dialect/Moe.h"
#include "runtime/support/Guard.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace moec;

/// Reads a text. Each of its parts, which `marker` separates, must be within
/// the size limit.
static Result<std::string> read(const std::string &path,
                                llvm::StringRef marker) {
  Result<std::string> text = compiler::readInput(path);
  if (!text)
    return text;
  llvm::SmallVector<llvm::StringRef> parts = {llvm::StringRef(*text)};
  if (!marker.empty()) {
    parts.clear();
    llvm::StringRef(*text).split(parts, marker);
  }
  for (llvm::StringRef part : parts)
    TRY(compiler::checkIrBounds(std::string_view(part), path));
  return text;
}

static int runMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  // The dialect func holds the examples of single stages in the documentation.
  registry.insert<moec::moe::MoeDialect, mlir::func::FuncDialect>();
  moec::compiler::registerPasses();
  moec::compiler::registerPipeline();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  llvm::InitLLVM init(argc, argv);
  // The program is named "moec opt" if moec starts it.
  const std::string program = llvm::sys::path::filename(argv[0]).str();
  const auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "moec-opt: the passes of moec by their names\n", registry);
  const auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  Result<std::string> text = read(input, config.inputSplitMarker());
  if (!text) {
    llvm::errs() << program << ": " << text.error().message << '\n';
    return EXIT_FAILURE;
  }
  std::string problem;
  auto file = mlir::openOutputFile(output, &problem);
  if (!file) {
    llvm::errs() << program << ": " << problem << '\n';
    return EXIT_FAILURE;
  }
  const auto done = mlir::MlirOptMain(
      file->os(), llvm::MemoryBuffer::getMemBufferCopy(*text, input), registry,
      config);
  if (succeeded(done))
    file->keep();
  return mlir::asMainReturnCode(done);
}

int main(int argc, char **argv) {
  return moec::guarded("moec-opt", [&] { return runMain(argc, argv); });
}
