//===- CompilePool.cpp - the cubins of a package's kernels ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Worker threads take kernels from a shared list. Each thread has its own
// compiler (runtime/jit/Compilers.h).
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CompilePool.h"

#include "runtime/jit/CacheEntries.h"
#include "runtime/jit/Compilers.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Interrupt.h"
#include "runtime/support/Log.h"
#include "runtime/support/Progress.h"
#include "runtime/support/Sha256.h"

#include <fmt/core.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

using namespace moec;
using namespace moec::runtime;

//===----------------------------------------------------------------------===//
// Recipes
//===----------------------------------------------------------------------===//

namespace {
/// The source texts of one package, with their hashes from the manifest. The
/// hashes need no check here, because validate() has already checked them.
class TextTable {
public:
  explicit TextTable(const PackageFiles &files) : files(files) {}

  Result<SharedText> find(const std::string &path, const Kernel &kernel) {
    if (auto it = texts.find(path); it != texts.end())
      return it->second;
    auto file = files.files.find(path);
    auto hash = files.manifest.files.find(path);
    if (file == files.files.end() || hash == files.manifest.files.end())
      return Error(ErrorCode::DamagedPackage,
                   "kernel {} needs the file {}, which the package lacks",
                   kernel.name, path);
    auto text = std::make_shared<const HashedText>(file->second, hash->second);
    texts.emplace(path, text);
    return SharedText(text);
  }

private:
  const PackageFiles &files;
  std::map<std::string, SharedText> texts;
};
} // namespace

static Result<Recipe> makeRecipe(TextTable &texts, const Target &target,
                                 const Kernel &kernel) {
  Recipe recipe;
  recipe.entry = kernel.entry;
  recipe.arch = target.arch;
  recipe.options = kernel.options;
  recipe.source = TRY(texts.find(kernel.source, kernel));
  for (const std::string &name : kernel.headers) {
    auto header = TRY(texts.find(headerPath(name), kernel));
    recipe.headers.emplace(name, header);
  }
  return recipe;
}

/// Changes a recipe so that it compiles to PTX instead of a cubin: a virtual
/// architecture, no ptxas options, and source lines, which the emulator
/// reports.
static void takePtx(Recipe &recipe) {
  std::erase_if(recipe.options, [](const std::string &option) {
    return option.find("ptxas") != std::string::npos;
  });
  for (std::string &option : recipe.options)
    if (const size_t at = option.find("=sm_"); at != std::string::npos)
      option.replace(at, 4, "=compute_");
  recipe.options.emplace_back("-lineinfo");
}

Result<Recipe> moec::runtime::makeRecipe(const PackageFiles &files,
                                         const Target &target,
                                         const Kernel &kernel) {
  TextTable texts(files);
  return ::makeRecipe(texts, target, kernel);
}

Result<std::string> moec::runtime::compileKernelToPtx(const PackageFiles &files,
                                                      const Target &target,
                                                      const Kernel &kernel) {
  auto recipe = TRY(makeRecipe(files, target, kernel));
  auto location = TRY(findNvrtc());
  auto nvrtc = TRY(Nvrtc::open(location));
  return nvrtc->compileToPtx(recipe);
}

//===----------------------------------------------------------------------===//
// Number of concurrent compilations
//===----------------------------------------------------------------------===//

/// Upper estimate of the memory that the compilation of one large kernel needs,
/// in bytes.
static constexpr int64_t kBytesPerCompile = int64_t(400) << 20;

/// Returns MemAvailable from /proc/meminfo in bytes, or nullopt if the file
/// does not contain it.
static std::optional<int64_t> availableMemory() {
  std::ifstream info("/proc/meminfo");
  std::string word;
  while (info >> word) {
    if (word == "MemAvailable:") {
      int64_t kilobytes = 0;
      if (info >> kilobytes)
        return kilobytes * 1024;
      return std::nullopt;
    }
    std::getline(info, word);
  }
  return std::nullopt;
}

Result<int> moec::runtime::chooseJobs(int asked, size_t work) {
  int64_t jobs = asked;
  if (jobs <= 0) {
    jobs = TRY(envInteger("MOEC_JOBS"));
  }
  if (jobs <= 0) {
    jobs = usableThreads();
    if (auto memory = availableMemory())
      jobs = std::min(jobs, std::max<int64_t>(1, *memory / kBytesPerCompile));
  }
  return static_cast<int>(
      std::clamp<int64_t>(jobs, 1, std::max<int64_t>(1, work)));
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Returns the cubin in the package if its hash equals the hash in the
/// manifest, or null.
static const std::string *packageCubin(const PackageFiles &files,
                                       const Kernel &kernel) {
  if (kernel.cubin.empty())
    return nullptr;
  auto file = files.files.find(kernel.cubin);
  auto hash = files.manifest.files.find(kernel.cubin);
  if (file == files.files.end() || hash == files.manifest.files.end() ||
      sha256(file->second) != hash->second) {
    log(LogLevel::Warning,
        "package {}: {} is missing or has another hash than the manifest "
        "specifies; kernel {} is taken from the cache or compiled",
        files.manifest.name, kernel.cubin, kernel.name);
    return nullptr;
  }
  return &file->second;
}

/// Writes the source and cubin to MOEC_DUMP_DIR for debugging. Failures are
/// logged as warnings.
static void dump(const Recipe &recipe, const std::string &cubin) {
  std::string folder = envString("MOEC_DUMP_DIR");
  if (folder.empty())
    return;
  std::string stem = fmt::format("{}/{}/{}", folder, recipe.arch, recipe.entry);
  Result<void> done = createFolders(parentFolder(stem));
  if (done)
    done = writeFileAtomically(stem + ".cu", recipe.source->text);
  if (done)
    done = writeFileAtomically(stem + ".cubin", cubin);
  if (!done)
    log(LogLevel::Warning, "MOEC_DUMP_DIR: {}", done.error().message);
}

/// Runs `work` in `count` threads and waits until all threads have ended. If
/// the calling thread is interrupted meanwhile, calls `interrupt` once.
static void runAndWait(int count, const std::function<void()> &work,
                       const std::function<void()> &interrupt) {
  constexpr auto kPause = std::chrono::milliseconds(50);
  std::mutex mutex;
  std::condition_variable ended;
  int running = count;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&] {
      work();
      std::lock_guard lock(mutex);
      --running;
      ended.notify_all();
    });
  for (bool interrupted = false;;) {
    {
      std::unique_lock lock(mutex);
      if (ended.wait_for(lock, kPause, [&] { return running == 0; }))
        break;
    }
    if (!interrupted && isInterrupted()) {
      interrupted = true;
      interrupt();
    }
  }
  for (std::thread &thread : threads)
    thread.join();
}

/// Returns the folder of the kernel cache, or "" if kernels are not cached.
static std::string chooseCacheFolder(const CompileSettings &settings) {
  if (settings.cacheFolder)
    return *settings.cacheFolder;
  auto folder = envCacheFolder();
  if (folder)
    return *folder;
  log(LogLevel::Warning, "kernels are not cached: {}", folder.error().message);
  return "";
}

namespace {
/// The kernels of a target that have no usable cubin in the package.
struct Misses {
  std::vector<size_t> kernels; ///< indices into Target::kernels
  std::vector<Recipe> recipes; ///< indexed like Target::kernels
};

/// Worker threads that take cache misses from a shared list and compile them or
/// find them in the cache.
class Pool {
public:
  Pool(const KernelCache &cache, bool strict, Compilers &compilers,
       const Misses &misses, std::vector<CompiledKernel> &kernels)
      : cache(cache), strict(strict), compilers(compilers), misses(misses),
        kernels(kernels), errors(misses.recipes.size()) {}

  /// Processes all misses. The calling thread only waits, because only this
  /// thread can receive an interrupt from the host program. Returns false if it
  /// was interrupted.
  bool run(int jobs, Progress &progress) {
    runAndWait(
        jobs, [&] { takeKernels(progress); },
        [&] {
          stopped = true;
          compilers.interrupt();
        });
    return !stopped;
  }

  const Error *firstError() const {
    for (const std::optional<Error> &error : errors)
      if (error)
        return &*error;
    return nullptr;
  }

private:
  void takeKernels(Progress &progress) {
    Compilers::OfThread compiler(compilers);
    auto compile = [&](const Recipe &recipe) {
      auto cubin = compiler.compile(recipe);
      if (cubin)
        dump(recipe, cubin->bytes);
      return cubin;
    };
    for (size_t at = next++; at < misses.kernels.size() && !stopped;
         at = next++, progress.advance()) {
      size_t i = misses.kernels[at];
      auto cubin = cache.get(misses.recipes[i], strict, compile);
      if (!cubin) {
        errors[i] = cubin.takeError();
        continue;
      }
      kernels[i].cubin = std::move(cubin->bytes);
      kernels[i].source = cubin->source;
      kernels[i].compileMilliseconds = cubin->compileMilliseconds;
    }
  }

  const KernelCache &cache;
  const bool strict;
  Compilers &compilers;
  const Misses &misses;
  std::vector<CompiledKernel> &kernels;
  std::vector<std::optional<Error>> errors; ///< by index into Target::kernels
  std::atomic<size_t> next = 0;
  std::atomic<bool> stopped = false;
};
} // namespace

/// Copies the usable cubins of the package to `kernels`, and creates recipes
/// for all other kernels.
static Result<Misses> findMisses(const PackageFiles &files,
                                 const Target &target,
                                 const CompileSettings &settings,
                                 std::vector<CompiledKernel> &kernels) {
  Misses misses;
  misses.recipes.resize(target.kernels.size());
  TextTable texts(files);
  const bool asPackaged =
      settings.usePackageCubins && settings.spinDeadline == 0 && !settings.ptx;
  for (size_t i = 0; i < target.kernels.size(); ++i) {
    const Kernel &kernel = target.kernels[i];
    kernels[i].name = kernel.name;
    if (const std::string *cubin =
            asPackaged ? packageCubin(files, kernel) : nullptr) {
      kernels[i].cubin = *cubin;
      continue;
    }
    auto recipe = TRY(::makeRecipe(texts, target, kernel));
    if (settings.ptx)
      takePtx(recipe);
    // The macro is used by moe/core/deadline.cuh.
    if (settings.spinDeadline > 0)
      recipe.options.push_back(
          fmt::format("-DMOEC_SPIN_DEADLINE={}", settings.spinDeadline));
    misses.recipes[i] = std::move(recipe);
    misses.kernels.push_back(i);
  }
  return misses;
}

Result<CompileOutcome>
moec::runtime::compileKernels(const PackageFiles &files, const Target &target,
                              const CompileSettings &settings) {
  auto start = Clock::now();
  CompileOutcome outcome;
  outcome.kernels.resize(target.kernels.size());
  const std::string cacheFolder = chooseCacheFolder(settings);
  bool strict = TRY(envFlag("MOEC_STRICT"));
  strict |= settings.strict;
  Misses misses = TRY(findMisses(files, target, settings, outcome.kernels));
  if (misses.kernels.empty()) {
    outcome.summary.compileMilliseconds = millisecondsSince(start);
    return outcome;
  }

  const uint64_t bound = TRY(envBytes("MOEC_CACHE_SIZE"));
  // Without NVRTC the cache may still contain all kernels. If it does not, the
  // miss reports the missing compiler.
  auto location = findNvrtc(settings.nvrtcPath);
  if (location)
    for (size_t i : misses.kernels)
      misses.recipes[i].compiler = location->identity;
  auto jobs = TRY(chooseJobs(settings.jobs, misses.kernels.size()));
  Compilers compilers(location, jobs);
  orderByTime(misses.kernels, target);

  KernelCache cache(cacheFolder);
  Pool pool(cache, strict, compilers, misses, outcome.kernels);
  Progress progress(
      fmt::format("{}: kernels for {}", files.manifest.name, target.arch),
      static_cast<int64_t>(misses.kernels.size()));
  if (!pool.run(jobs, progress))
    return Error(ErrorCode::Interrupted,
                 "compiling the kernels of {} was interrupted; the cache has "
                 "those that were compiled",
                 files.manifest.name);
  if (const Error *error = pool.firstError())
    return *error;

  const bool hasStored = std::ranges::any_of(outcome.kernels, [](auto &kernel) {
    return kernel.source == CubinSource::Compiled;
  });
  if (bound > 0 && hasStored && !cacheFolder.empty())
    boundCache(cacheFolder, bound);
  static_cast<CompilersUsed &>(outcome.summary) = compilers.used();
  outcome.summary.jobs = jobs;
  outcome.summary.compileMilliseconds = millisecondsSince(start);
  return outcome;
}
