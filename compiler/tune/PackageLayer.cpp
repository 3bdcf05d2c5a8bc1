//===- PackageLayer.cpp - the layer of a package --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows serve the compilation that made the package, so every option is its.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/PackageLayer.h"

#include "compiler/emit/CudaBackend.h"
#include "runtime/package/Package.h"
#include "runtime/support/Files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace moec;
using namespace moec::compiler;

bool compiler::isPackage(const std::string &path) {
  return isFolder(path) &&
         fileExists(joinPath(path, std::string(kManifestFile)));
}

/// The package's target for the arch that was asked for, or its only one.
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

/// Makes the choices those of the target.
static Result<void> takeChoices(const std::string &path, const Target &target,
                                CompileOptions &options) {
  const auto given = options.asked();
  const CompileOptions asked = options;
  static_cast<Choices &>(options) = {};
  const nlohmann::json choices =
      target.report.value("choices", nlohmann::json::object());
  for (const auto &[option, choice] : choices.items()) {
    const std::string value = choice.value("value", "");
    if (option == "backend")
      options.backend = value;
    else if (option == "engine")
      options.engine = value;
    else if (option == "exclude")
      options.exclude = splitWords(value);
    else if (option == "allow")
      options.allow = splitWords(value);
    if (choice.value("by", "option") != "option")
      options.variables.push_back(option);
  }
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
    return refused("package '{}' serves several ranks; expected the "
                   "configuration that it was compiled of, and --rank",
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
  if (options.maxTokens != CompileOptions().maxTokens &&
      options.maxTokens != manifest.maxTokens)
    return refused("package '{}' was compiled with --max-tokens {}; expected "
                   "it, or none, got {}",
                   path, manifest.maxTokens, options.maxTokens);
  TRY(takeChoices(path, target, options));
  options.archs = {target.arch};
  options.gpu = target.gpu;
  options.maxTokens = manifest.maxTokens;
  return TuneSource{joinPath(path, std::string(kLayerFile)), layer->second};
}
