//===- Package.cpp - a package loaded on a device -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the target, finds or compiles its cubins and loads them. Answers
// queries of the manifest for a token count.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Package.h"

#include "runtime/package/Ranks.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Log.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using namespace moec::runtime;

static Result<const Target *> targetByName(const Manifest &manifest,
                                           const std::string &arch) {
  std::string known;
  for (const Target &target : manifest.targets) {
    if (target.arch == arch)
      return &target;
    known += (known.empty() ? "" : ", ") + target.arch;
  }
  return Error(ErrorCode::NoMatchingTarget,
               "package {} has no target {}; it has {}", manifest.name, arch,
               known);
}

Result<std::shared_ptr<const Package>>
Package::load(const std::string &folder, const LoadOptions &options) {
  auto start = Clock::now();
  auto files = TRY(readShare(folder, options.rank));
  LoadReport report;
  report.read = millisecondsSince(start);
  return loadTimed(files, options, std::move(report));
}

Result<std::shared_ptr<const Package>>
Package::load(const PackageFiles &files, const LoadOptions &options) {
  auto start = Clock::now();
  TRY(validate(files));
  LoadReport report;
  report.read = millisecondsSince(start);
  return loadTimed(files, options, std::move(report));
}

Result<std::shared_ptr<const Package>>
Package::load(std::span<const PackageFiles> shares,
              const LoadOptions &options) {
  const PackageFiles *files = TRY(shareOf(shares, options.rank));
  return load(*files, options);
}

Result<std::shared_ptr<const Package>>
Package::loadTimed(const PackageFiles &files, const LoadOptions &options,
                   LoadReport report) {
  auto start = Clock::now();
  std::shared_ptr<Package> package(new Package);
  package->kind = options.device;
  package->loadReport = std::move(report);
  // Only the manifest is kept. Sources and cubins are not needed after loading.
  package->contents = TRY(ofRank(files.manifest, options.rank));
  const Manifest &manifest = package->contents;

  std::optional<CudaPlace> place;
  Result<const Target *> target = Error{};
  if (options.prebuild && options.arch.empty())
    return invalidArgument(
        "prebuild compiles for an arch that need not be here: name "
        "it (such as \"sm_90a\")");
  if (options.device != DeviceKind::Host && !options.prebuild) {
    place = TRY(options.device == DeviceKind::Emulated
                    ? CudaPlace::emulate(options.arch, options.ordinal)
                    : CudaPlace::find(options.ordinal));
    package->loadReport.driverOpen = place->driver->openMilliseconds;
    package->loadReport.cuInit = place->driver->initMilliseconds;
    package->device = place->info.name;
    package->loadReport.context = millisecondsSince(start);
  } else {
    package->device = options.prebuild ? "none" : "host";
  }
  if (!options.arch.empty()) {
    target = targetByName(manifest, options.arch);
  } else if (place) {
    target = selectTarget(manifest, place->info.computeMajor,
                          place->info.computeMinor);
  } else if (manifest.targets.empty()) {
    target = Error(ErrorCode::NoMatchingTarget, "package {} has no target",
                   manifest.name);
  } else {
    target = &manifest.targets.front();
  }
  if (!target) {
    if (place && place->retained)
      place->driver->primaryCtxRelease(place->device);
    return target.takeError();
  }
  package->chosen = *target;
  if (options.device != DeviceKind::Host || options.prebuild) {
    TRY(package->loadCuda(files, options, std::move(place)));
  }
  package->loadReport.total =
      package->loadReport.read + millisecondsSince(start);
  return std::shared_ptr<const Package>(std::move(package));
}

Result<void> Package::loadCuda(const PackageFiles &files,
                               const LoadOptions &options,
                               std::optional<CudaPlace> place) {
  struct Release {
    std::optional<CudaPlace> &place;
    ~Release() {
      if (place && place->retained)
        place->driver->primaryCtxRelease(place->device);
    }
  } release{place};
  if (place)
    TRY(validateForDevice(contents, *chosen, limitsOf(place->info)));
  CompileSettings settings;
  auto strict = TRY(envFlag("MOEC_STRICT"));
  strict |= options.strict;
  settings.strict = strict;
  settings.jobs = options.jobs;
  settings.cacheFolder = options.cacheFolder;
  settings.nvrtcPath = options.nvrtcPath;
  settings.ptx = options.device == DeviceKind::Emulated;
  settings.spinDeadline = TRY(envInteger("MOEC_SPIN_DEADLINE"));
  if (settings.spinDeadline > 0)
    log(LogLevel::Warning,
        "MOEC_SPIN_DEADLINE: kernels of package {} are compiled with a "
        "deadline "
        "of {} ms for every wait; they are for debugging, not for timing",
        contents.name, settings.spinDeadline);
  auto compiled = TRY(compileKernels(files, *chosen, settings));
  loadReport.jit = compiled.summary;
  loadReport.compile = compiled.summary.compileMilliseconds;
  for (const CompiledKernel &kernel : compiled.kernels)
    loadReport.kernels.push_back(
        {kernel.name, kernel.source, kernel.compileMilliseconds, {}});
  if (!place)
    return {};
  auto start = Clock::now();
  ContextScope scope(*place->driver, place->context);
  TRY(scope.status());
  CudaPlace owned = *place;
  place.reset(); // CudaCode releases the context from here on
  // Kernels with spin deadlines keep their failure message in local memory. A
  // strict load therefore accepts local memory if spin deadlines are set.
  code =
      TRY(CudaCode::load(contents, *chosen, compiled.kernels, std::move(owned),
                         strict && settings.spinDeadline == 0));
  loadReport.smCount = smCount();
  for (size_t i = 0; i < loadReport.kernels.size(); ++i)
    loadReport.kernels[i].resources = code->resourcesOf(i);
  for (size_t i = 0; i < chosen->variants.size(); ++i)
    if (!whyUnfit()[i].empty())
      loadReport.unfit.push_back({chosen->variants[i].name, whyUnfit()[i]});
  loadReport.moduleLoad = millisecondsSince(start);
  return {};
}

int64_t Package::smCount() const {
  return code ? code->place().info.smCount : host::Options{}.smCount;
}

std::span<const std::string> Package::whyUnfit() const {
  return code ? std::span<const std::string>(code->whyUnfit())
              : std::span<const std::string>();
}

Result<size_t> Package::variantFor(int64_t tokens,
                                   std::string_view forced) const {
  tokens = TRY(tokensOfRanks(contents, tokens));
  if (tokens > contents.maxTokens || forced.empty()) {
    auto variant =
        TRY(selectVariant(contents, *chosen, tokens, smCount(), whyUnfit()));
    return static_cast<size_t>(variant - chosen->variants.data());
  }
  std::string known;
  for (size_t i = 0; i < chosen->variants.size(); ++i) {
    const Variant &variant = chosen->variants[i];
    if (variant.name == forced) {
      if (variant.minSms > smCount())
        return Error(ErrorCode::DeviceLimit,
                     "variant {} needs {} SMs, and the device has {}", forced,
                     variant.minSms, smCount());
      if (i < whyUnfit().size() && !whyUnfit()[i].empty())
        return Error(ErrorCode::DeviceLimit, "variant {} cannot run here: {}",
                     forced, whyUnfit()[i]);
      if (tokens >= variant.minTokens && tokens <= variant.maxTokens)
        return i;
      return invalidArgument(
          "variant {} supports {} to {} tokens, and {} were given", forced,
          variant.minTokens, variant.maxTokens, tokens);
    }
    known += (known.empty() ? "" : ", ") + variant.name;
  }
  return invalidArgument("package {} has no variant '{}' for {}; it has {}",
                         contents.name, forced, chosen->arch, known);
}

Result<int64_t> Package::workspaceBytes(int64_t tokens) const {
  if (tokens < 0)
    return invalidArgument("expected a token count >= 0, got {}", tokens);
  if (tokens > 0)
    TRY(variantFor(tokens));
  tokens = TRY(tokensOfRanks(contents, tokens));
  // Within a variant, the workspace size grows with the token count. A variant
  // for fewer tokens may need more workspace than a variant for more tokens, so
  // the maximum over all variants is computed.
  int64_t most = 0;
  for (const Variant &variant : chosen->variants) {
    if (variant.minTokens > tokens || variant.minSms > smCount())
      continue;
    auto symbols = TRY(
        symbolsFor(contents, std::min(tokens, variant.maxTokens), smCount()));
    auto bytes = TRY(variant.workspaceBytes.evaluate(symbols));
    most = std::max(most, bytes);
  }
  return most;
}

Result<int64_t> Package::packScratchBytes() const {
  int64_t most = 0;
  for (const Pack &pack : chosen->pack) {
    auto symbols = TRY(symbolsFor(contents, contents.maxTokens, smCount()));
    symbols.experts = std::min(pack.expertsPerStep, pack.totalExperts);
    auto bytes = TRY(pack.scratchBytes.evaluate(symbols));
    most = std::max(most, bytes);
  }
  return most;
}

std::string LoadReport::json() const {
  nlohmann::ordered_json report = {
      {"read_ms", read},
      {"driver_open_ms", driverOpen},
      {"cuinit_ms", cuInit},
      {"context_ms", context},
      {"nvrtc_open_ms", jit.nvrtcOpenMilliseconds},
      {"compile_ms", compile},
      {"module_load_ms", moduleLoad},
      {"total_ms", total},
      {"nvrtc", jit.nvrtcPath},
      {"nvrtc_found_by", jit.nvrtcFoundBy},
      {"jobs", jit.jobs},
      {"workers", jit.workers},
  };
  auto list = nlohmann::ordered_json::array();
  for (const KernelLine &kernel : kernels) {
    list.push_back({{"name", kernel.name},
                    {"source", cubinSourceName(kernel.source)},
                    {"compile_ms", kernel.compileMilliseconds}});
    if (smCount == 0)
      continue;
    list.back()["registers"] = kernel.resources.registers;
    list.back()["local_bytes"] = kernel.resources.localBytes;
    list.back()["ctas_per_sm"] = kernel.resources.ctasPerSm;
  }
  report["kernels"] = std::move(list);
  if (smCount == 0) // nothing was loaded on a GPU
    return report.dump();
  report["sm_count"] = smCount;
  auto others = nlohmann::ordered_json::array();
  for (const auto &[variant, reason] : unfit)
    others.push_back({{"name", variant}, {"reason", reason}});
  report["variants_not_taken"] = std::move(others);
  return report.dump();
}
