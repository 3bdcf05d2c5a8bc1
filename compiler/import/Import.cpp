//===- Import.cpp - inputs as moe.layer -----------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Import.h"

#include "compiler/import/Formats.h"
#include "compiler/import/InputText.h"
#include "dialect/Moe.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

#include <fmt/core.h>

#include <algorithm>

using namespace mlir;
using namespace moec;
using namespace moec::compiler;

namespace {

/// Rejects options that describe a layer, because a .mlir input already
/// describes its layer completely.
Result<void> refuseLayerOptions(std::string_view name,
                                const ImportOptions &options) {
  std::string_view given;
  forEachImportOption(
      options, [&](std::string_view name, const auto &value, std::string_view) {
        using Value = std::decay_t<decltype(value)>;
        if (given.empty() && value != Value())
          given = name;
      });
  if (given.empty())
    return {};
  return refused(
      "{}: expected no --{} with a .mlir input, whose moe.layer specifies it",
      name, given);
}

/// Describes a text that is neither JSON nor IR, for an error message.
std::string_view kindOf(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return "a text in UTF-16; save it as UTF-8";
  return text.find('\0') != std::string_view::npos ? "a binary file"
                                                   : "a text that is neither";
}

bool isWeights(std::string_view name) {
  constexpr std::string_view kEndings[] = {".safetensors", ".gguf", ".bin",
                                           ".pt", ".pth"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return name.ends_with(ending);
  });
}

Result<OwningOpRef<ModuleOp>> parseModule(std::string_view text,
                                          std::string_view name,
                                          MLIRContext &context) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return refused("{}: expected a config.json, a layer JSON or a .mlir file, "
                   "got an empty text",
                   name);
  // MLIR's own error would not help for a text that is not IR.
  if (!looksLikeIr(text))
    return refused("{}: expected JSON (a config.json or a layer JSON) or a "
                   ".mlir file with a moe.layer, got {}{}",
                   name, kindOf(text),
                   isWeights(name) ? "; weights are no input: moec run "
                                     "--weights reads those of safetensors"
                                   : "");
  TRY(checkIrText(text, name));
  std::string problem;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!problem.empty())
      return success();
    if (auto at = dyn_cast<FileLineColLoc>(diagnostic.getLocation()))
      problem = fmt::format("{}:{}:{}: {}", name, at.getLine(), at.getColumn(),
                            diagnostic.str());
    else
      problem = fmt::format("{}: {}", name, diagnostic.str());
    return success();
  });
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(StringRef(text), StringRef(name)),
      llvm::SMLoc());
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return Error{ErrorCode::Refused, problem};
  if (module->getOps<moe::LayerOp>().empty())
    return refused("{}: expected a moe.layer, got a module without one", name);
  return module;
}

} // namespace

Result<OwningOpRef<ModuleOp>>
moec::compiler::importInput(std::string_view text, std::string_view name,
                            const ImportOptions &options, MLIRContext &context,
                            Words *words) {
  context.loadDialect<moe::MoeDialect>();
  if (!looksLikeJson(text)) {
    TRY(refuseLayerOptions(name, options));
    return parseModule(text, name, context);
  }
  LayerDescription layer = TRY(readDescription(text, name, options));
  if (words)
    *words = layer.origin.words;
  return buildLayer(layer, name, context);
}

/// Returns the path of the file to read: `given` itself, or config.json if
/// `given` is a model's folder.
static Result<std::string> fileOf(const std::string &given) {
  if (!llvm::sys::fs::is_directory(given))
    return given;
  std::string path = given + "/config.json";
  if (llvm::sys::fs::exists(path))
    return path;
  return Error{ErrorCode::FileSystem,
               "{}: expected a model's folder with a config.json, got {}",
               given,
               llvm::sys::fs::exists(given + "/manifest.json")
                   ? "a package of moec, which is compiled already"
                   : "a folder without one"};
}

Result<LayerDescription>
moec::compiler::describeFile(const std::string &given,
                             const ImportOptions &options) {
  const std::string path = TRY(fileOf(given));
  const std::string text = TRY(readInput(path));
  if (!looksLikeJson(text))
    return refused("{}: expected a config.json or a layer JSON with "
                   "--emit=layer-json, got another text",
                   path);
  return readDescription(text, path, options);
}

Result<OwningOpRef<ModuleOp>>
moec::compiler::importFile(const std::string &given,
                           const ImportOptions &options, MLIRContext &context,
                           Words *words) {
  const std::string path = TRY(fileOf(given));
  std::string text = TRY(readInput(path));
  return importInput(text, path, options, context, words);
}
