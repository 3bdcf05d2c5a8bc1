//===- CudaDriver.cpp - the CUDA driver, opened on demand -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens libcuda, resolves the functions of CudaSymbols.def and calls cuInit.
// Converts status codes to messages.
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaDriver.h"

#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <dlfcn.h>

using namespace moec;
using namespace moec::runtime::cuda;

/// Resolves the functions of CudaSymbols.def in an opened library.
static Result<void> findFunctions(CudaDriver &driver, void *library,
                                  const std::string &path) {
  const char *missing = nullptr;
  // POSIX requires that a function pointer from dlsym is cast in this way.
#define MOEC_CUDA(member, symbol, parameters)                                  \
  driver.member =                                                              \
      reinterpret_cast<decltype(driver.member)>(dlsym(library, #symbol));      \
  if (!driver.member && !missing)                                              \
    missing = #symbol;
#define MOEC_CUDA_OPTIONAL(member, symbol, parameters)                         \
  driver.member =                                                              \
      reinterpret_cast<decltype(driver.member)>(dlsym(library, #symbol));
#include "runtime/cuda/CudaSymbols.def"
  if (missing)
    return Error(ErrorCode::NoDriver,
                 "{} has no function {}: this driver is older than CUDA 12.0, "
                 "the oldest supported version",
                 path, missing);
  return {};
}

static Result<CudaDriver> openDriver() {
  auto start = Clock::now();
  std::string path = envString("MOEC_CUDA_DRIVER_PATH");
  const char *by = path.empty() ? "" : " of MOEC_CUDA_DRIVER_PATH";
  if (path.empty())
    path = "libcuda.so.1";
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Error(ErrorCode::NoDriver,
                 "the CUDA driver{} could not be opened: {}; a GPU needs "
                 "NVIDIA's driver installed",
                 by, reason ? reason : path);
  }
  CudaDriver driver;
  TRY(findFunctions(driver, library, path));
  driver.openMilliseconds = millisecondsSince(start);
  start = Clock::now();
  if (int status = driver.init(0); status != kSuccess) {
    const char *name = nullptr;
    driver.getErrorName(status, &name);
    return Error(ErrorCode::NoDriver,
                 "the CUDA driver is installed but cuInit failed with {} ({})",
                 name ? name : "an unknown error", status);
  }
  driver.initMilliseconds = millisecondsSince(start);
  return driver;
}

/// Returns the path of the emulator library that is installed with this binary.
static Result<std::string> findEmulator() {
  const std::string own = parentFolder(runtime::pathOfOwnBinary());
  std::vector<std::string> searched;
  for (const char *sub : {"", "../lib/", "../../lib/"}) {
    const std::string path = fmt::format("{}/{}libmoec-emulator.so", own, sub);
    if (isRegularFile(path))
      return path;
    searched.push_back(path);
  }
  return Error(ErrorCode::NoDriver,
               "the emulator of GPUs was not found: expected one of {}",
               fmt::join(searched, ", "));
}

static Result<CudaDriver> openEmulator(const std::string &arch) {
  auto start = Clock::now();
  const std::string path = TRY(findEmulator());
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Error(ErrorCode::NoDriver, "the emulator could not be opened: {}",
                 reason ? reason : path);
  }
  CudaDriver driver;
  driver.emulated = true;
  TRY(findFunctions(driver, library, path));
  using Configure = const char *(*)(const char *);
  const auto configure =
      reinterpret_cast<Configure>(dlsym(library, "moec_emulator_configure"));
  if (!configure || !driver.memHostRegister || !driver.memHostUnregister)
    return Error(ErrorCode::NoDriver, "{} is of another version of moec", path);
  const std::string words =
      arch.empty()
          ? envString("MOEC_EMULATOR")
          : fmt::format("{} arch={}", envString("MOEC_EMULATOR"), arch);
  if (const char *fault = configure(words.c_str()))
    return invalidArgument("{}", fault);
  log(LogLevel::Info, "kernels run on emulated GPUs of {}, which are slow",
      path);
  driver.openMilliseconds = millisecondsSince(start);
  TRY(driver.check(driver.init(0), "cuInit"));
  return driver;
}

Result<const CudaDriver *> CudaDriver::get() {
  // The driver is never closed: NVIDIA does not support unloading libcuda.
  static const Result<CudaDriver> driver = openDriver();
  if (!driver)
    return driver.error();
  return &*driver;
}

Result<const CudaDriver *> CudaDriver::emulator(const std::string &arch) {
  static const Result<CudaDriver> driver = openEmulator(arch);
  if (!driver)
    return driver.error();
  return &*driver;
}

Result<void> CudaDriver::upload(CUdeviceptr to, const void *from,
                                size_t bytes) const {
  TRY(check(memcpyHtoD(to, from, bytes), "cuMemcpyHtoD"));
  return check(streamSynchronize(legacyStream()), "cuStreamSynchronize");
}

Result<void> CudaDriver::check(CUresult status, const char *what) const {
  if (status == kSuccess)
    return {};
  const char *name = nullptr, *text = nullptr;
  getErrorName(status, &name);
  getErrorString(status, &text);
  bool capturing =
      status >= kErrorCaptureUnsupported && status <= kErrorCaptureWrongThread;
  return Error{capturing ? ErrorCode::Capturing : ErrorCode::DriverFailed,
               fmt::format("{} failed: {} ({}): {}{}", what,
                           name ? name : "unknown error", status,
                           text ? text : "no text",
                           capturing ? "; load packages and create layers "
                                       "before a graph capture begins"
                                     : "")};
}
