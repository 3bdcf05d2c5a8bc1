//===- DriverLaunch.cpp - modules and launches on the emulator ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Images are PTX; a launch waits in its stream until somebody synchronizes.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/TensorMap.h"
#include "test/emulator/driver/Emulator.h"

#include <fmt/core.h>

#include <cstdio>
#include <string_view>

using namespace moec::emulator;
using namespace moec::runtime::cuda;

static int complain(int status, const std::string &text) {
  std::fprintf(stderr, "emulator: %s\n", text.c_str());
  return status;
}

/// The sentence says why a module of this target does not run on the device.
static std::string targetFault(const std::string &target,
                               const DriverSettings &settings) {
  const std::string_view digits = std::string_view(target).substr(3);
  const char end = digits.empty() ? ' ' : digits.back();
  const int number = std::atoi(digits.data());
  const int device = settings.major * 10 + settings.minor;
  const bool fits = end == 'a' ? number == device
                    : end == 'f'
                        ? number / 10 == settings.major && number <= device
                        : number <= device;
  return fits ? ""
              : fmt::format("PTX for {} on an emulated {}", target,
                            settings.arch);
}

extern "C" {

/// Null, or the sentence by which the emulator refuses a text. It is kept until
/// the next call of the thread.
const char *moec_emulator_decode(const char *ptx) {
  static thread_local std::string fault;
  try {
    parsePtx(ptx);
    return nullptr;
  } catch (const std::exception &error) {
    fault = error.what();
    return fault.c_str();
  }
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  const auto *text = static_cast<const char *>(image);
  if (std::string_view(text, 4) == "\177ELF")
    return complain(kInvalidImage,
                    "a cubin cannot be emulated: compile the package with "
                    "--no-cubin and set MOEC_NVRTC_PATH to this library");
  try {
    std::shared_ptr<Module> parsed = parsePtx(text);
    Emulator &emulator = Emulator::get();
    const int gpu = currentGpu();
    if (gpu < 0)
      return kInvalidContext;
    Lock lock(emulator.mutex);
    if (std::string fault = targetFault(parsed->target, emulator.settings);
        !fault.empty())
      return complain(kNoBinary, fault);
    for (auto &[name, bytes] : parsed->globals)
      emulator.device->addRegion(reinterpret_cast<uint64_t>(bytes.data()),
                                 bytes.size(), /*isDefined=*/true, gpu);
    *module = reinterpret_cast<CUmodule>(
        new std::shared_ptr<Module>(std::move(parsed)));
    return kSuccess;
  } catch (const std::exception &error) {
    return complain(kInvalidPtx, error.what());
  }
}

CUresult cuModuleUnload(CUmodule module) {
  Emulator &emulator = Emulator::get();
  Lock lock(emulator.mutex);
  const int status =
      emulator.synchronize(lock, unsigned(std::max(currentGpu(), 0)));
  auto *held = reinterpret_cast<std::shared_ptr<Module> *>(module);
  for (auto &[name, bytes] : (*held)->globals)
    emulator.device->removeRegion(reinterpret_cast<uint64_t>(bytes.data()));
  delete held;
  return status;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                             const char *name) {
  auto &held = *reinterpret_cast<std::shared_ptr<Module> *>(module);
  auto it = held->kernels.find(name);
  if (it == held->kernels.end())
    return kNotFound;
  // Lives as long as the process: a function has no end of its own.
  *function = reinterpret_cast<CUfunction>(new FunctionState{held, it->second});
  return kSuccess;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  const Kernel &kernel = *reinterpret_cast<FunctionState *>(function)->kernel;
  switch (attribute) {
  case kFuncMaxThreads:
    *value = int(kernel.maxThreads);
    return kSuccess;
  case kFuncSharedBytes:
    *value = int(kernel.staticSharedBytes);
    return kSuccess;
  case kFuncLocalBytes:
    *value = 0; // a kernel with local memory is refused
    return kSuccess;
  case kFuncRegisters:
    *value = 32; // ptxas counts them, which does not run here
    return kSuccess;
  default:
    return kInvalidValue;
  }
}

CUresult cuFuncSetAttribute(CUfunction, int attribute, int value) {
  const auto most = int(Emulator::get().settings.device.sharedPerCta);
  return attribute == kFuncMaxDynamicShared && value > most ? kInvalidValue
                                                            : kSuccess;
}

CUresult cuFuncLoad(CUfunction) { return kSuccess; }

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                     CUfunction function,
                                                     int threads,
                                                     size_t sharedBytes) {
  Emulator &emulator = Emulator::get();
  Launch launch;
  launch.kernel = reinterpret_cast<FunctionState *>(function)->kernel;
  launch.block.x = uint32_t(threads);
  launch.dynamicShared = uint32_t(sharedBytes);
  *blocks = int(emulator.device->residentCtas(launch) /
                emulator.settings.device.numSms);
  return kSuccess;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                          void **parameters, void **) {
  const auto *state = reinterpret_cast<FunctionState *>(function);
  Launch launch;
  launch.module = state->module;
  launch.kernel = state->kernel;
  launch.grid = {config->gridX, config->gridY, config->gridZ};
  launch.block = {config->blockX, config->blockY, config->blockZ};
  launch.dynamicShared = config->sharedBytes;
  for (unsigned i = 0; i < config->numAttributes; ++i) {
    const CUlaunchAttribute &attribute = config->attributes[i];
    switch (attribute.id) {
    case kLaunchCluster:
      launch.cluster = attribute.value.cluster.x;
      if (attribute.value.cluster.y != 1 || attribute.value.cluster.z != 1)
        return complain(kNotSupported, "clusters of CTAs in y or z");
      break;
    case kLaunchProgrammatic:
      launch.programmatic = attribute.value.number != 0;
      break;
    case kLaunchCooperative:
      launch.cooperative = attribute.value.number != 0;
      break;
    default:
      return complain(kNotSupported,
                      fmt::format("launch attribute {}", attribute.id));
    }
  }
  const Kernel &kernel = *launch.kernel;
  Emulator &emulator = Emulator::get();
  Lock lock(emulator.mutex);
  const uint32_t ctas = launch.grid.volume();
  const uint32_t required = std::max(kernel.requiredCluster, 1u);
  if (ctas == 0 || launch.cluster == 0 || launch.grid.x % launch.cluster ||
      (kernel.requiredCluster && launch.cluster != required) ||
      kernel.paramBytes > sizeof(Grid::params))
    return kInvalidValue;
  const uint32_t resident = emulator.device->residentCtas(launch);
  if (resident < launch.cluster || (launch.cooperative && resident < ctas))
    return kOutOfResources;
  // All kernels have one parameter: the block of arguments.
  launch.params.resize(kernel.paramBytes);
  std::memcpy(launch.params.data(), parameters[0], kernel.paramBytes);
  if (emulator.settings.logs)
    std::fprintf(stderr,
                 "emulator: launch of %s: %u CTAs of %u threads, clusters of "
                 "%u, %u bytes of shared memory%s\n",
                 kernel.name.c_str(), ctas, launch.block.volume(),
                 launch.cluster, launch.dynamicShared,
                 launch.programmatic ? ", programmatic" : "");
  emulator.enqueue(config->stream, {std::move(launch), {}});
  return kSuccess;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int dataType, uint32_t rank,
                                void *address, const uint64_t *extents,
                                const uint64_t *strides, const uint32_t *box,
                                const uint32_t *elementStrides, int interleave,
                                int swizzle, int l2Promotion,
                                int outOfBoundsFill) {
  TensorMap encoded;
  const std::string fault = encodeTensorMap(
      {dataType, rank, reinterpret_cast<uint64_t>(address), extents, strides,
       box, elementStrides, interleave, swizzle, l2Promotion, outOfBoundsFill},
      encoded);
  if (!fault.empty())
    return complain(kInvalidValue, "tensor map: " + fault);
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &encoded, sizeof(encoded));
  return kSuccess;
}

} // extern "C"
