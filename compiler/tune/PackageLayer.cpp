//===- PackageLayer.cpp - the layer of a package --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measured rows must apply to the compilation that created the package. The
// layer is therefore tuned with all options of that compilation.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/TunedInput.h"

#include "compiler/Input.h"
#include "compiler/emit/CudaBackend.h"
#include "compiler/emit/ManifestWriter.h"
#include "runtime/package/Package.h"
#include "runtime/support/Files.h"
#include "runtime/support/JsonReader.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

bool compiler::isPackage(const std::string &path) {
  return isFolder(path) &&
         fileExists(joinPath(path, std::string(kManifestFile)));
}

/// Returns the package's target for the requested arch, or its only target.
static Result<const Target *> targetOf(const std::string &path,
                                       const Manifest &manifest,
                                       const std::vector<std::string> &archs) {
  std::vector<std::string> known;
  for (const Target &target : manifest.targets) {
    known.push_back(target.arch);
    if (archs.size() == 1 && target.arch == archs.front())
      return &target;
  }
  if (archs.empty() && known.size() == 1)
    return &manifest.targets.front();
  return refused("package '{}' is for {}; expected one of them as --arch, "
                 "got {}",
                 path, fmt::join(known, " and "),
                 archs.empty() ? "none"
                               : fmt::format("{}", fmt::join(archs, ",")));
}

/// Reads the choices in the target's report.
static Result<void> readChoices(const std::string &path, const Target &target,
                                Choices &made) {
  JsonErrors errors{
      fmt::format("package '{}', report of {}", path, target.arch),
      std::nullopt};
  JsonReader report(*target.report, "", errors);
  if (std::optional<JsonReader> choices = report.object("choices")) {
    const auto read = [&](const char *option) -> std::string {
      std::optional<JsonReader> choice = choices->object(option);
      if (!choice)
        return "";
      if (choice->textOr("by", "option") != "option")
        made.variables.emplace_back(option);
      std::string value = choice->text("value");
      choice->refuseUnknown();
      return value;
    };
    made.backend = read("backend");
    made.engine = read("engine");
    made.exclude = splitWords(read("exclude"));
    made.allow = splitWords(read("allow"));
    choices->refuseUnknown();
  }
  return errors.first ? Result<void>(*std::move(errors.first)) : Result<void>();
}

/// Checks that the layer in the package matches the package's manifest.
static Result<void> checkLayer(const std::string &path, const std::string &text,
                               const Manifest &manifest, const Target &target,
                               const CompileOptions &options) {
  Input input;
  TRY(input.readText(text, joinPath(path, std::string(kLayerFile)), {}));
  TRY(input.lowerTo(Phase::Stages, options));
  Manifest its;
  for (moe::ProgramOp program : input.get().getOps<moe::ProgramOp>())
    describeLayer(program, its);
  nlohmann::json said = *manifest.layer;
  // The manifest describes the compute type of its first target only.
  if (&target != &manifest.targets.front())
    for (nlohmann::json *layer : {&said, &*its.layer})
      if (layer->is_object())
        layer->erase("compute_type");
  if (its.name == manifest.name && *its.layer == said)
    return {};
  return refused("package '{}' holds another layer ({}) than its manifest "
                 "describes; expected a package as the compiler wrote it",
                 path, kLayerFile);
}

/// Sets the choices in `options` to those with which the target was compiled.
/// Returns an error if the given choices contradict them.
static Result<void> takeChoices(const std::string &path, const Target &target,
                                CompileOptions &options) {
  const auto given = options.asked();
  const Choices asked = options;
  static_cast<Choices &>(options) = {};
  TRY(readChoices(path, target, options));
  const auto its = options.asked();
  for (const auto &one : given)
    if (std::ranges::find(its, one) == its.end())
      return refused("package '{}' was compiled without {} {}{}; expected a "
                     "package that was compiled with it, or none here",
                     path, one.first, one.second, asked.byVariable(one.first));
  return {};
}

Result<TuneSource> compiler::layerOfPackage(const std::string &path,
                                            CompileOptions &options) {
  const Shares shares = TRY(readShares(path));
  const PackageFiles &package = shares.front();
  const Manifest &manifest = package.manifest;
  if (shares.size() > 1 || manifest.ranks.size() > 1)
    return refused("package '{}' is for several ranks; expected the "
                   "configuration that it was compiled from, and --rank",
                   path);
  const auto layer = package.files.find(std::string(kLayerFile));
  if (layer == package.files.end())
    return refused("package '{}' does not hold its layer ({}), as those of "
                   "this compiler do; expected the configuration that it was "
                   "compiled of",
                   path, kLayerFile);
  const Target &target = *TRY(targetOf(path, manifest, options.archs));
  if (!options.gpu.empty() && options.gpu != target.gpu)
    return refused("package '{}' assumes GPU '{}', and schedules would be "
                   "measured for '{}'; expected a package that was compiled "
                   "with --gpu={}",
                   path, target.gpu, options.gpu, options.gpu);
  if (options.asksMaxTokens && options.maxTokens != manifest.maxTokens)
    return refused("package '{}' was compiled with --max-tokens {}; expected "
                   "it, or none, got {}",
                   path, manifest.maxTokens, options.maxTokens);
  TRY(takeChoices(path, target, options));
  options.archs = {target.arch};
  options.gpu = target.gpu;
  options.maxTokens = manifest.maxTokens;
  TRY(checkLayer(path, layer->second, manifest, target, options));
  return TuneSource{joinPath(path, std::string(kLayerFile)), layer->second};
}
