//===- Nvrtc.cpp - NVIDIA's runtime compiler, opened on demand ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Opens NVRTC with dlopen, resolves its C functions and compiles with it.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Nvrtc.h"

#include "runtime/support/Clock.h"
#include "runtime/support/Log.h"
#include "runtime/support/NvrtcVersions.h"
#include "runtime/support/PerProcess.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>

using namespace moec;
using namespace moec::runtime;

/// The NVRTC functions that moec uses. nvrtcProgram is an opaque pointer.
struct Nvrtc::Functions {
  const char *(*getErrorString)(int);
  int (*version)(int *, int *);
  int (*getNumSupportedArchs)(int *);
  int (*getSupportedArchs)(int *);
  int (*createProgram)(void **, const char *, const char *, int,
                       const char *const *, const char *const *);
  int (*destroyProgram)(void **);
  int (*compileProgram)(void *, int, const char *const *);
  int (*getPTXSize)(void *, size_t *);
  int (*getPTX)(void *, char *);
  int (*getCUBINSize)(void *, size_t *);
  int (*getCUBIN)(void *, char *);
  int (*getProgramLogSize)(void *, size_t *);
  int (*getProgramLog)(void *, char *);
};

static std::atomic<bool> opened = false;

bool Nvrtc::everOpened() { return opened; }

Result<const Nvrtc *> Nvrtc::open(const NvrtcLocation &location) {
  // Instances are never closed or freed, because a thread may still compile
  // while the process exits.
  struct Instances {
    std::mutex mutex;
    std::map<std::string, const Nvrtc *> of;
  };
  auto &[mutex, instances] = perProcess<Instances>();
  std::lock_guard lock(mutex);
  auto it = instances.find(location.library);
  if (it != instances.end())
    return it->second;
  auto instance = load(location);
  if (instance)
    instances.emplace(location.library, *instance);
  return instance;
}

Result<const Nvrtc *> Nvrtc::load(const NvrtcLocation &location) {
  auto start = Clock::now();
  // NVRTC does not search for its builtins library in its own folder. If that
  // library is already loaded, NVRTC's dlopen by name finds it.
  if (!location.builtins.empty() &&
      !dlopen(location.builtins.c_str(), RTLD_NOW | RTLD_LOCAL))
    log(LogLevel::Warning, "{} could not be opened: {}", location.builtins,
        dlerror());
  void *library = dlopen(location.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    return Error(ErrorCode::NoCompiler,
                 "NVRTC (found by {}) could not be opened: {}; expected a "
                 "libnvrtc.so.N (N >= 12), from a CUDA toolkit or from `pip "
                 "install nvidia-cuda-nvrtc`",
                 location.foundBy, reason ? reason : location.library);
  }
  if (!keepSignals(library))
    log(LogLevel::Info, "{} imports no signal()", location.library);
  auto functions = std::make_unique<Functions>();
  const char *missing = nullptr;
  auto find = [&](auto &member, const char *name) {
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(
        dlsym(library, name));
    if (!member)
      missing = name;
  };
  find(functions->getErrorString, "nvrtcGetErrorString");
  find(functions->version, "nvrtcVersion");
  find(functions->getNumSupportedArchs, "nvrtcGetNumSupportedArchs");
  find(functions->getSupportedArchs, "nvrtcGetSupportedArchs");
  find(functions->createProgram, "nvrtcCreateProgram");
  find(functions->destroyProgram, "nvrtcDestroyProgram");
  find(functions->compileProgram, "nvrtcCompileProgram");
  find(functions->getPTXSize, "nvrtcGetPTXSize");
  find(functions->getPTX, "nvrtcGetPTX");
  find(functions->getCUBINSize, "nvrtcGetCUBINSize");
  find(functions->getCUBIN, "nvrtcGetCUBIN");
  find(functions->getProgramLogSize, "nvrtcGetProgramLogSize");
  find(functions->getProgramLog, "nvrtcGetProgramLog");
  if (missing)
    return Error(ErrorCode::NoCompiler,
                 "{} (found by {}) has no function {}: it is no NVRTC of CUDA "
                 "12 or later; expected a libnvrtc.so.N (N >= 12), from a CUDA "
                 "toolkit or from `pip install nvidia-cuda-nvrtc`",
                 location.library, location.foundBy, missing);
  std::unique_ptr<Nvrtc> nvrtc(new Nvrtc);
  int major = 0, minor = 0, count = 0;
  if (functions->version(&major, &minor) == 0)
    nvrtc->versionNumber = {major, minor};
  if (nvrtc->versionNumber < kOldestNvrtc)
    return Error(ErrorCode::NoCompiler,
                 "{} (found by {}) is NVRTC {}.{}, which is too old: expected "
                 "NVRTC {} or later (pip install nvidia-cuda-nvrtc, or set "
                 "MOEC_NVRTC_PATH)",
                 location.library, location.foundBy, major, minor,
                 nvrtcText(kOldestNvrtc));
  nvrtc->library = location.library;
  if (functions->getNumSupportedArchs(&count) == 0 && count > 0) {
    nvrtc->supported.resize(static_cast<size_t>(count));
    functions->getSupportedArchs(nvrtc->supported.data());
  }
  nvrtc->functions = functions.release();
  nvrtc->opening = millisecondsSince(start);
  opened = true;
  log(LogLevel::Info, "NVRTC {}.{} from {} (found by {}), opened in {:.1f} ms",
      major, minor, location.library, location.foundBy, nvrtc->opening);
  return nvrtc.release();
}

/// Returns an error if the arch needs a later release of NVRTC.
Result<void> Nvrtc::checkArch(const Recipe &recipe) const {
  const std::optional<NvrtcVersion> first = firstNvrtcOf(recipe.arch);
  if (!first || *first <= versionNumber)
    return {};
  return Error(ErrorCode::NoCompiler,
               "kernel {}: NVRTC {}.{} ({}) does not compile for {}, which "
               "needs NVRTC {}.{} or later (pip install nvidia-cuda-nvrtc, or "
               "set MOEC_NVRTC_PATH)",
               recipe.entry, versionNumber.major, versionNumber.minor, library,
               recipe.arch, first->major, first->minor);
}

Result<Cubin> Nvrtc::run(const Recipe &recipe, bool ptx) const {
  TRY(checkArch(recipe));
  std::vector<const char *> names, texts, options;
  for (const auto &[name, header] : recipe.headers) {
    names.push_back(name.c_str());
    texts.push_back(header->text.c_str());
  }
  for (const std::string &option : recipe.options)
    options.push_back(option.c_str());

  // The program name affects the bytes of the cubin, so every compilation uses
  // the same name.
  void *program = nullptr;
  int status = functions->createProgram(
      &program, recipe.source->text.c_str(), "kernel.cu",
      static_cast<int>(names.size()), texts.data(), names.data());
  if (status != 0)
    return Error(ErrorCode::CompileFailed,
                 "kernel {}: nvrtcCreateProgram failed: {}", recipe.entry,
                 functions->getErrorString(status));
  struct Guard {
    const Functions *functions;
    void **program;
    ~Guard() { functions->destroyProgram(program); }
  } guard{functions, &program};

  status = functions->compileProgram(program, static_cast<int>(options.size()),
                                     options.data());
  Cubin result;
  size_t size = 0;
  if (functions->getProgramLogSize(program, &size) == 0 && size > 1) {
    result.log.resize(size);
    functions->getProgramLog(program, result.log.data());
    result.log.resize(size - 1); // without the terminating NUL
  }
  if (status != 0)
    return Error(ErrorCode::CompileFailed,
                 "kernel {} did not compile for {}: {}\n{}", recipe.entry,
                 recipe.arch, functions->getErrorString(status), result.log);
  auto getSize = ptx ? functions->getPTXSize : functions->getCUBINSize;
  auto get = ptx ? functions->getPTX : functions->getCUBIN;
  size = 0;
  status = getSize(program, &size);
  if (status == 0 && size > 0) {
    result.bytes.resize(size);
    status = get(program, result.bytes.data());
  }
  if (status != 0 || size == 0)
    return Error(ErrorCode::CompileFailed,
                 "kernel {}: NVRTC gave no {} for {}; the option -arch must "
                 "name a real architecture (sm_XX)",
                 recipe.entry, ptx ? "PTX" : "cubin", recipe.arch);
  if (ptx && result.bytes.back() == '\0')
    result.bytes.pop_back();
  return result;
}

Result<Cubin> Nvrtc::compile(const Recipe &recipe) const {
  const bool isVirtual =
      std::ranges::any_of(recipe.options, [](const std::string &option) {
        return option.find("=compute_") != std::string::npos;
      });
  return run(recipe, isVirtual);
}

Result<std::string> Nvrtc::compileToPtx(const Recipe &recipe) const {
  auto result = TRY(run(recipe, /*ptx=*/true));
  return std::move(result.bytes);
}
