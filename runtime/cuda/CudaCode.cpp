//===- CudaCode.cpp - loads a target's kernels on a GPU -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements CUDA contexts, modules, functions and launches.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaCode.h"

#include "runtime/support/Log.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

//===----------------------------------------------------------------------===//
// Contexts
//===----------------------------------------------------------------------===//

Result<CudaPlace> CudaPlace::find(int ordinal) {
  const auto driver = CudaDriver::get();
  if (!driver)
    return Error(driver.error().code, "{}; without a GPU use the host device",
                 driver.error().message);
  return open(**driver, ordinal);
}

Result<CudaPlace> CudaPlace::emulate(const std::string &arch, int ordinal) {
  return open(*TRY(CudaDriver::emulator(arch)), std::max(ordinal, 0));
}

Result<void> AdmittedMemory::add(const CudaPlace &place, uint64_t address,
                                 uint64_t bytes) {
  if (!place.driver->emulated || address == 0 || bytes == 0)
    return {};
  driver = place.driver;
  auto *host = reinterpret_cast<void *>(address);
  TRY(driver->check(driver->memHostRegister(host, bytes, /*flags=*/0),
                    "cuMemHostRegister"));
  all.push_back(host);
  return {};
}

void AdmittedMemory::clear() {
  for (void *host : all)
    driver->memHostUnregister(host);
  all.clear();
}

Result<CudaPlace> CudaPlace::open(const CudaDriver &driver, int ordinal) {
  CudaPlace place;
  place.driver = &driver;
  if (ordinal < 0)
    TRY(driver.check(driver.ctxGetCurrent(&place.context), "cuCtxGetCurrent"));
  if (place.context) {
    TRY(driver.check(driver.ctxGetDevice(&place.device), "cuCtxGetDevice"));
  } else {
    int count = 0;
    TRY(driver.check(driver.deviceGetCount(&count), "cuDeviceGetCount"));
    int wanted = std::max(ordinal, 0);
    if (wanted >= count)
      return invalidArgument("device {} was asked for; this machine has {}",
                             wanted, count);
    TRY(driver.check(driver.deviceGet(&place.device, wanted), "cuDeviceGet"));
    TRY(driver.check(driver.primaryCtxRetain(&place.context, place.device),
                     "cuDevicePrimaryCtxRetain"));
    place.retained = true;
  }
  auto info = readDeviceInfo(driver, place.device);
  if (!info) {
    if (place.retained)
      driver.primaryCtxRelease(place.device);
    return info.takeError();
  }
  place.info = std::move(*info);
  ContextScope scope(driver, place.context);
  const int64_t ofDevice = place.info.smCount;
  place.info.smCount = smsOfContext(driver, place.context, ofDevice);
  if (place.info.smCount < ofDevice)
    log(LogLevel::Info, "the context has {} of the {} SMs of {}",
        place.info.smCount, ofDevice, place.info.name);
  return place;
}

DeviceLimits moec::runtime::limitsOf(const DeviceInfo &info) {
  DeviceLimits limits;
  limits.name = info.name;
  limits.computeMajor = info.computeMajor;
  limits.computeMinor = info.computeMinor;
  limits.smCount = info.smCount;
  limits.sharedBytesPerBlock = info.sharedBytesPerBlock;
  limits.sharedBytesPerSm = info.sharedBytesPerSm;
  limits.threadsPerBlock = info.maxThreadsPerBlock;
  limits.threadsPerSm = info.maxThreadsPerSm;
  // Every GPU with clusters supports clusters of 8 CTAs. Sizes up to 16 are not
  // portable; a function attribute enables them.
  limits.maxCluster = info.computeMajor >= 9 ? 16 : 1;
  limits.cooperative = info.cooperative;
  return limits;
}

//===----------------------------------------------------------------------===//
// Device memory
//===----------------------------------------------------------------------===//

Result<DeviceMemory> DeviceMemory::allocate(const CudaPlace &place,
                                            uint64_t bytes) {
  DeviceMemory memory;
  memory.driver = place.driver;
  memory.context = place.context;
  if (bytes == 0)
    return memory;
  if (auto ok = place.driver->check(
          place.driver->memAlloc(&memory.pointer, bytes), "cuMemAlloc");
      !ok)
    return Error(ok.error().code, "{} ({} bytes were asked for)",
                 ok.error().message, bytes);
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory &&other) noexcept
    : driver(other.driver), context(other.context),
      pointer(std::exchange(other.pointer, 0)) {}

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  std::swap(driver, other.driver);
  std::swap(context, other.context);
  std::swap(pointer, other.pointer);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (!pointer)
    return;
  // If the context was destroyed, its memory has already been freed.
  if (ContextScope scope(*driver, context); scope.status())
    driver->memFree(pointer);
}

//===----------------------------------------------------------------------===//
// Loading kernels
//===----------------------------------------------------------------------===//

static Error beyondDevice(const Kernel &kernel, const DeviceInfo &info,
                          std::string what) {
  return Error(ErrorCode::DeviceLimit, "kernel {} does not fit {}: {}",
               kernel.name, info.name, what);
}

Result<void> CudaCode::loadKernel(const Kernel &kernel,
                                  const CompiledKernel &cubin,
                                  LoadedKernel &loaded) {
  const CudaDriver &driver = *where.driver;
  auto check = [&](int status, const char *call) {
    if (status == kSuccess)
      return Result<void>();
    auto failed = driver.check(status, call);
    return Result<void>(Error(failed.error().code, "kernel {} on {}: {}",
                              kernel.name, where.info.name,
                              failed.error().message));
  };
  TRY(check(driver.moduleLoadData(&loaded.module, cubin.cubin.data()),
            "cuModuleLoadData"));
  TRY(check(driver.moduleGetFunction(&loaded.function, loaded.module,
                                     kernel.entry.c_str()),
            "cuModuleGetFunction"));
  // With lazy loading, the driver would load the code at the first launch,
  // possibly during a capture. Drivers without cuFuncLoad load the code when an
  // attribute is set.
  if (driver.funcLoad)
    TRY(check(driver.funcLoad(loaded.function), "cuFuncLoad"));
  TRY(check(driver.funcSetAttribute(loaded.function, kFuncMaxDynamicShared,
                                    static_cast<int>(kernel.sharedBytes)),
            "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)"));
  int64_t clusterCtas =
      kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2];
  constexpr int64_t kPortableCluster = 8;
  if (clusterCtas > kPortableCluster)
    TRY(check(
        driver.funcSetAttribute(loaded.function, kFuncNonPortableCluster, 1),
        "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE)"));
  CudaCode::Resources &resources = loaded.resources;
  TRY(check(driver.funcGetAttribute(&resources.localBytes, kFuncLocalBytes,
                                    loaded.function),
            "cuFuncGetAttribute(LOCAL_SIZE_BYTES)"));
  TRY(check(driver.funcGetAttribute(&resources.registers, kFuncRegisters,
                                    loaded.function),
            "cuFuncGetAttribute(NUM_REGS)"));
  TRY(check(driver.occupancy(&resources.ctasPerSm, loaded.function,
                             static_cast<int>(kernel.threads),
                             static_cast<size_t>(kernel.sharedBytes)),
            "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
  if (resources.ctasPerSm < 1)
    return beyondDevice(
        kernel, where.info,
        fmt::format("no CTA of {} threads and {} bytes of dynamic shared "
                    "memory fits an SM",
                    kernel.threads, kernel.sharedBytes));
  return {};
}

/// Checks that no kernel uses local memory. Kernels are written not to use it,
/// so local memory means that registers are spilled: this NVRTC allocates more
/// registers than the NVRTC with which the kernels were measured.
Result<void> CudaCode::checkLocalMemory(bool strict) const {
  for (size_t i = 0; i < kernels.size(); ++i) {
    const int bytes = kernels[i].resources.localBytes;
    if (bytes == 0)
      continue;
    const std::string text =
        fmt::format("kernel {} on {} uses {} bytes of local memory per thread "
                    "in addition to {} registers: its results are right, but "
                    "it is slower than measured",
                    target.kernels[i].name, where.info.name, bytes,
                    kernels[i].resources.registers);
    if (strict)
      return Error{ErrorCode::DeviceLimit,
                   text + "; a strict load takes none that does, load without "
                          "it or with the NVRTC that README names"};
    log(LogLevel::Warning, "{}", text);
  }
  return {};
}

Result<std::vector<LaunchStep>>
CudaCode::resolve(const std::vector<Launch> &launches) const {
  std::vector<LaunchStep> steps;
  for (const Launch &launch : launches) {
    if (launch.collective) {
      steps.push_back({&launch, target.kernels.size()});
      continue;
    }
    auto kernel =
        std::ranges::find_if(target.kernels, [&](const Kernel &kernel) {
          return kernel.name == launch.kernel;
        });
    if (kernel == target.kernels.end())
      return invalidManifest(
          "a launch names the kernel '{}', which target {} does not have",
          launch.kernel, target.arch);
    size_t index = static_cast<size_t>(kernel - target.kernels.begin());
    // A grid-wide barrier never completes if some CTAs are not resident.
    if (kernel->cooperative && launch.grid.persistent &&
        kernels[index].resources.ctasPerSm < launch.grid.ctasPerSm)
      return beyondDevice(
          *kernel, where.info,
          fmt::format("its grid-wide wait needs {} resident CTAs on each SM, "
                      "and {} fit",
                      launch.grid.ctasPerSm,
                      kernels[index].resources.ctasPerSm));
    steps.push_back({&launch, index});
  }
  return steps;
}

Result<std::unique_ptr<CudaCode>>
CudaCode::load(const Manifest &manifest, const Target &target,
               std::span<const CompiledKernel> cubins, CudaPlace place,
               bool strict) {
  std::unique_ptr<CudaCode> code(new CudaCode(target, std::move(place)));
  // The null stream is queried, because this fails while another stream is
  // being captured. The driver reports an error in that case, but does not
  // invalidate the capture.
  int status = kCaptureNone;
  if (auto ok = code->where.driver->check(
          code->where.driver->streamIsCapturing(legacyStream(), &status),
          "loading a package");
      !ok && ok.error().code == ErrorCode::Capturing)
    return ok.takeError();
  code->kernels.resize(target.kernels.size());
  for (size_t i = 0; i < target.kernels.size(); ++i) {
    TRY(code->loadKernel(target.kernels[i], cubins[i], code->kernels[i]));
    auto packer =
        TRY(ArgumentPacker::create(manifest, target, target.kernels[i]));
    code->blockBytes = std::max(code->blockBytes, packer.bytes());
    code->kernels[i].packer = std::move(packer);
  }
  TRY(code->checkLocalMemory(strict));
  code->unfit.resize(target.variants.size());
  for (size_t i = 0; i < target.variants.size(); ++i) {
    const Variant &variant = target.variants[i];
    auto steps = code->resolve(variant.launches);
    // Another variant supports the tokens of a variant with a minimum SM count,
    // so the latter is skipped if this device cannot run it.
    if (!steps && variant.minSms > 0 &&
        steps.error().code == ErrorCode::DeviceLimit) {
      code->unfit[i] = steps.error().message;
      log(LogLevel::Warning, "variant {} is not taken: {}", variant.name,
          code->unfit[i]);
      code->variants.emplace_back();
      continue;
    }
    if (!steps)
      return steps.takeError();
    code->variants.push_back(std::move(*steps));
  }
  for (const Pack &pack : target.pack) {
    auto steps = TRY(code->resolve(pack.launches));
    code->packs.push_back(std::move(steps));
  }
  return code;
}

CudaCode::~CudaCode() {
  const CudaDriver &driver = *where.driver;
  {
    ContextScope scope(driver, where.context);
    for (LoadedKernel &kernel : kernels)
      if (kernel.module)
        driver.moduleUnload(kernel.module);
  }
  if (where.retained)
    driver.primaryCtxRelease(where.device);
}

//===----------------------------------------------------------------------===//
// Launching kernels
//===----------------------------------------------------------------------===//

Result<void> CudaCode::refuseCapture(CUstream stream, const char *what) const {
  int status = kCaptureNone;
  TRY(where.driver->check(where.driver->streamIsCapturing(stream, &status),
                          what));
  if (status == kCaptureNone)
    return {};
  return Error(ErrorCode::Capturing,
               "{} while the stream is being captured into a graph: do it "
               "before the capture begins",
               what);
}

Result<void> CudaCode::launch(const LaunchStep &step,
                              const ArgumentSources &sources, std::byte *block,
                              CUstream stream, bool overlap) const {
  const Kernel &kernel = target.kernels[step.kernel];
  const LoadedKernel &loaded = kernels[step.kernel];
  auto grid = TRY(gridOf(*step.launch, kernel, sources.symbols));
  TRY(loaded.packer->pack(sources, block));

  CUlaunchAttribute attributes[3];
  CUlaunchConfig config;
  config.gridX = static_cast<unsigned>(grid[0]);
  config.gridY = static_cast<unsigned>(grid[1]);
  config.gridZ = static_cast<unsigned>(grid[2]);
  config.blockX = static_cast<unsigned>(kernel.threads);
  config.sharedBytes = static_cast<unsigned>(kernel.sharedBytes);
  config.stream = stream;
  config.attributes = attributes;
  auto add = [&](int id) -> CUlaunchAttribute & {
    CUlaunchAttribute &attribute = attributes[config.numAttributes++];
    attribute.id = id;
    return attribute;
  };
  // Programmatic dependent launch requires compute capability 9.0.
  if (kernel.programmatic && overlap && where.info.computeMajor >= 9)
    add(kLaunchProgrammatic).value.number = 1;
  if (kernel.cooperative)
    add(kLaunchCooperative).value.number = 1;
  if (kernel.cluster != std::array<int64_t, 3>{1, 1, 1})
    add(kLaunchCluster).value.cluster = {
        static_cast<unsigned>(kernel.cluster[0]),
        static_cast<unsigned>(kernel.cluster[1]),
        static_cast<unsigned>(kernel.cluster[2])};
  void *parameters[] = {block};
  int status =
      where.driver->launchKernelEx(&config, loaded.function, parameters,
                                   /*extra=*/nullptr);
  if (status == kSuccess)
    return {};
  auto failed = where.driver->check(status, "cuLaunchKernelEx");
  return Error(failed.error().code, "kernel {} with grid {} x {} x {}: {}",
               kernel.name, grid[0], grid[1], grid[2], failed.error().message);
}
