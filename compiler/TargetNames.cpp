//===- TargetNames.cpp - names of archs and GPUs --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/TargetNames.h"

#include "dialect/catalog/Engines.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/cuda/DeviceInfo.h"
#include "runtime/support/Log.h"
#include "runtime/support/Words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

using namespace moec;
using namespace moec::compiler;
using catalog::Architecture;
using catalog::Gpu;

static std::string lowerOf(std::string_view word) {
  std::string lower(word);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return std::tolower(c); });
  return lower;
}

//===----------------------------------------------------------------------===//
// The local GPU
//===----------------------------------------------------------------------===//

/// Returns the GPU of the current CUDA context, or else the first GPU.
static Result<runtime::DeviceInfo> presentDevice() {
  using namespace runtime::cuda;
  const auto driver = TRY(CudaDriver::get());
  CUdevice device = 0;
  CUcontext context = nullptr;
  const bool inContext = driver->ctxGetCurrent(&context) == kSuccess &&
                         context && driver->ctxGetDevice(&device) == kSuccess;
  if (!inContext && driver->deviceGet(&device, 0) != kSuccess)
    return Error(ErrorCode::NoDriver, "the driver sees no GPU");
  return runtime::readDeviceInfo(*driver, device);
}

static bool runsHere(const Architecture &arch,
                     const runtime::DeviceInfo &device) {
  return catalog::runsOn(arch, static_cast<int>(device.computeMajor),
                         static_cast<int>(device.computeMinor));
}

const Architecture *compiler::bestArchOf(int major, int minor) {
  const Architecture *best = nullptr;
  for (const Architecture &arch : catalog::kArchitectures)
    if (catalog::runsOn(arch, major, minor) &&
        (!best || arch.minor > best->minor ||
         (arch.minor == best->minor && arch.compatibility == "exact")))
      best = &arch;
  return best;
}

/// Returns the name of the local GPU, which schedules assume if the user names
/// none. Returns "" if there is no GPU, if the GPU table has no row for the
/// GPU, or if the GPU runs none of `archs`.
static std::string presentGpu(const std::vector<std::string> &archs) {
  const auto device = presentDevice();
  if (!device)
    return "";
  const Gpu *gpu = catalog::findGpuByDevice(device->name);
  const bool runs = std::ranges::any_of(archs, [&](const std::string &name) {
    const Architecture *arch = catalog::find(catalog::kArchitectures, name);
    return arch && runsHere(*arch, *device);
  });
  return gpu && runs ? std::string(gpu->name) : "";
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

const Gpu *compiler::findGpuByWord(std::string_view word) {
  const std::string lower = lowerOf(word);
  if (const Gpu *row = catalog::find(catalog::kGpus, lower))
    return row;
  const Gpu *first = nullptr;
  for (const Gpu &row : catalog::kGpus) {
    if (!row.name.starts_with(lower + "_"))
      continue;
    const Architecture *arch = catalog::find(catalog::kArchitectures, row.arch);
    if (arch && arch->gpu == row.name)
      return &row;
    first = first ? first : &row;
  }
  return first ? first : catalog::findGpuByDevice(word);
}

/// Returns "sm_90" for "90", "sm90", "9.0" and "compute_90"; "" for any other
/// word.
static std::string spelledAsArch(std::string_view word) {
  std::string lower = lowerOf(word);
  for (const std::string_view prefix : {"sm_", "sm", "compute_", "compute"})
    if (lower.starts_with(prefix)) {
      lower.erase(0, prefix.size());
      break;
    }
  std::erase(lower, '.');
  const bool isNumber =
      lower.size() >= 2 && std::isdigit(static_cast<unsigned char>(lower[0]));
  return isNumber ? "sm_" + lower : "";
}

/// Returns the digits of an arch name such as "sm_70" as an integer.
static std::optional<int> numberOf(std::string_view arch) {
  int number = 0;
  const std::string_view digits = arch.substr(std::min<size_t>(3, arch.size()));
  const auto [end, code] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return code == std::errc() ? std::optional(number) : std::nullopt;
}

/// Returns the archs of a GPU generation; {} if `word` names none.
static std::vector<std::string_view> archsOfGeneration(std::string_view word) {
  struct Generation {
    std::string_view name;
    std::vector<std::string_view> archs;
  };
  static const Generation kGenerations[] = {
      {"turing", {"sm_75"}},  {"ampere", {"sm_80", "sm_86"}},
      {"ada", {"sm_89"}},     {"lovelace", {"sm_89"}},
      {"hopper", {"sm_90a"}}, {"blackwell", {"sm_100a", "sm_103a", "sm_120a"}}};
  for (const Generation &each : kGenerations)
    if (each.name == word)
      return each.archs;
  return {};
}

Error compiler::unknownArch(const std::string &word) {
  constexpr std::string_view kAll =
      "`moec list archs` has all; an NVIDIA GPU (`moec list gpus`) or native "
      "may stand for its arch";
  std::vector<std::string_view> names =
      catalog::nameList(catalog::kArchitectures);
  const std::string spelled = spelledAsArch(word);
  const Architecture &oldest = catalog::kArchitectures[0];
  if (const std::optional<int> number = numberOf(spelled);
      number && *number < oldest.major * 10 + oldest.minor)
    return Error(ErrorCode::InvalidArgument,
                 "arch '{}' is too old: {} is the oldest that moec compiles "
                 "for; `moec list archs` has all",
                 word, oldest.name);
  std::vector<std::string_view> meant = archsOfGeneration(lowerOf(word));
  for (std::string_view name : names)
    if (!spelled.empty() && name.starts_with(spelled) &&
        name.size() <= spelled.size() + 1)
      meant.push_back(name);
  if (!meant.empty())
    return Error(ErrorCode::InvalidArgument,
                 "unknown arch '{}'; did you mean {}? {}", word,
                 listOf(meant, "or", false), kAll);
  std::string near = didYouMean(word, names);
  if (near.empty()) {
    // Users often type "h100" for "h100_sxm".
    std::vector<std::string_view> others = catalog::nameList(catalog::kGpus);
    for (const Gpu &gpu : catalog::kGpus)
      others.push_back(gpu.name.substr(0, gpu.name.find('_')));
    others.push_back("native");
    near = didYouMean(word, others);
  }
  if (near.empty())
    return Error(ErrorCode::InvalidArgument,
                 "unknown arch '{}'; known archs: {}; an NVIDIA GPU (`moec "
                 "list gpus`) or native may stand for its arch",
                 word, fmt::join(names, ", "));
  return Error(ErrorCode::InvalidArgument, "unknown arch '{}'; {}{}", word,
               near, kAll);
}

/// Warns if another arch of the same compute capability supports engines that
/// this arch lacks, and `archs` has no such arch.
static void warnOfTwin(const Architecture &arch,
                       const std::vector<std::string> &archs) {
  const Architecture *twin = catalog::betterTwin(arch);
  const auto isTwin = [&](const std::string &name) {
    const Architecture *other = catalog::find(catalog::kArchitectures, name);
    return other && other->major == arch.major && other->minor == arch.minor &&
           !catalog::betterTwin(*other);
  };
  if (!twin || std::ranges::any_of(archs, isTwin))
    return;
  std::vector<std::string_view> engines;
  for (const catalog::Engine &engine : catalog::kEngines)
    if (engine.multipliesPlain &&
        twin->features.firstMissing(engine.features).empty() &&
        !arch.features.firstMissing(engine.features).empty())
      engines.push_back(engine.name);
  log(LogLevel::Warning,
      "arch {} has no {}, which {} has on the same GPUs: kernels for {} have "
      "older instructions; say {} for those GPUs",
      arch.name, listOf(engines, "and", false), twin->name, arch.name,
      twin->name);
}

Result<void> compiler::resolveTargets(CompileOptions &options) {
  if (!options.gpu.empty()) {
    const Gpu *gpu = findGpuByWord(options.gpu);
    if (!gpu)
      return Error(
          ErrorCode::InvalidArgument,
          unknownWord("GPU", options.gpu, catalog::nameList(catalog::kGpus)));
    options.gpu = gpu->name;
  }
  const bool asksGpu = !options.gpu.empty();
  std::vector<std::string> archs;
  for (const std::string &word : options.archs) {
    std::string arch = word;
    if (lowerOf(word) == "native") {
      const auto device = presentDevice();
      if (!device)
        return Error(device.error().code,
                     "arch native: expected a GPU here, got none ({}); name "
                     "an arch or a GPU, such as sm_90a or h100",
                     device.error().message);
      const Architecture *best =
          bestArchOf(static_cast<int>(device->computeMajor),
                     static_cast<int>(device->computeMinor));
      if (!best)
        return Error(ErrorCode::InvalidArgument,
                     "arch native: {} has compute capability {}.{}, for which "
                     "moec has no arch",
                     device->name, device->computeMajor, device->computeMinor);
      arch = best->name;
    } else if (!catalog::find(catalog::kArchitectures, word)) {
      const Gpu *gpu = findGpuByWord(word);
      if (!gpu)
        return unknownArch(word);
      arch = gpu->arch;
      if (!options.gpu.empty() && !asksGpu && options.gpu != gpu->name)
        return invalidArgument(
            "archs '{}' name GPUs {} and {}, but schedules assume one GPU; "
            "name the arch of {}, {}, or one GPU by --gpu",
            joinWords(options.archs), options.gpu, gpu->name, gpu->name, arch);
      if (!asksGpu)
        options.gpu = gpu->name;
    }
    if (std::ranges::find(archs, arch) == archs.end())
      archs.push_back(arch);
  }
  options.archs = std::move(archs);
  for (const std::string &arch : options.archs)
    warnOfTwin(*catalog::find(catalog::kArchitectures, arch), options.archs);
  options.foundGpu = options.gpu.empty();
  if (options.foundGpu && !options.archs.empty())
    options.gpu = presentGpu(options.archs);
  return {};
}
