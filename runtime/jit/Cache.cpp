//===- Cache.cpp - compiled kernels on disk -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Looks up an entry. On a miss: locks the key, looks the entry up again,
// compiles the kernel and publishes the entry.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Cache.h"

#include "runtime/jit/CacheFiles.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Files.h"
#include "runtime/support/Json.h"
#include "runtime/support/Log.h"
#include "runtime/support/PerProcess.h"
#include "runtime/support/Sha256.h"
#include "runtime/support/StagedFolder.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <future>
#include <map>
#include <mutex>
#include <optional>

using namespace moec;
using namespace moec::runtime;

std::string_view moec::runtime::cubinSourceName(CubinSource source) {
  switch (source) {
  case CubinSource::Package:
    return "package";
  case CubinSource::Cache:
    return "cache";
  case CubinSource::Compiled:
    return "compiled";
  }
  return "unknown";
}

//===----------------------------------------------------------------------===//
// Lookup
//===----------------------------------------------------------------------===//

struct KernelCache::Lookup {
  std::optional<std::string> cubin;
  std::string damage;  ///< why an existing entry is unusable
  std::string foreign; ///< why another user's entry is not used
};

std::string KernelCache::entryFolder(const Recipe &recipe) const {
  return fmt::format("{}/{}/{}-{}", root, recipe.arch, recipe.entry,
                     recipe.key().substr(0, 16));
}

static Result<nlohmann::json> parseLine(std::string_view line) {
  constexpr size_t kMaxBytes = size_t(1) << 20;
  return parseJsonObject(line, "recipe.json", ErrorCode::DamagedPackage,
                         {kMaxBytes});
}

/// Returns true if `line`, the first line of a recipe.json, equals the recipe.
/// If `anyCompiler` is set, the compiler's identity is not compared.
static bool sameRecipe(std::string_view line, const Recipe &recipe,
                       bool anyCompiler) {
  if (!anyCompiler)
    return line == recipe.json();
  auto stored = parseLine(line), wanted = parseLine(recipe.json());
  if (!stored || !wanted)
    return false;
  stored->erase("compiler");
  wanted->erase("compiler");
  return *stored == *wanted;
}

static std::string checkEntry(const Recipe &recipe, bool anyCompiler,
                              const std::string &text,
                              const std::string &cubin) {
  size_t end = text.find('\n');
  if (end == std::string::npos)
    return "recipe.json is truncated";
  if (!sameRecipe(std::string_view(text).substr(0, end), recipe, anyCompiler))
    return "recipe.json holds another recipe";
  auto facts = parseLine(std::string_view(text).substr(end));
  if (!facts || !facts->contains("cubin") || !(*facts)["cubin"].is_string())
    return "recipe.json does not say the cubin's hash";
  if (cubin.empty())
    return "kernel.cubin is empty";
  if (sha256(cubin) != (*facts)["cubin"].get<std::string>())
    return fmt::format(
        "kernel.cubin ({} bytes) has another hash than recipe.json specifies",
        cubin.size());
  return "";
}

/// Reads a file of an open cache entry. Returns an error if other users may
/// have written the file.
static Result<std::string> readOwn(const Descriptor &entry,
                                   const std::string &name,
                                   const std::string &folder) {
  constexpr uint64_t kMostBytes = uint64_t(256) << 20;
  Descriptor file = TRY(openRegularAt(entry, name, folder));
  std::string why = foreignOwner(file);
  if (why.empty())
    why = openToOthers(file);
  if (!why.empty())
    return Error(ErrorCode::FileSystem, "{}: {}", name, why);
  return readAll(file, kMostBytes, joinPath(folder, name));
}

/// Sets the modification time of an entry's folder to now if the time is more
/// than an hour old. In a read-only cache the time does not change.
static void renew(const Descriptor &entry) {
  constexpr time_t kHour = 3600;
  struct stat info;
  if (::fstat(entry.get(), &info) == 0 && info.st_uid == ::geteuid() &&
      std::abs(::time(nullptr) - info.st_mtime) > kHour)
    (void)::futimens(entry.get(), nullptr);
}

KernelCache::Lookup KernelCache::lookUp(const Recipe &recipe,
                                        const std::string &folder) const {
  Result<Descriptor> above = openCacheFolder(root, recipe.arch);
  if (!above)
    return {};
  // The entry must not be a symbolic link, because other users could replace
  // the link's target.
  const std::string name = folder.substr(folder.rfind('/') + 1);
  Descriptor entry(
      ::openat(above->get(), name.c_str(),
               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!entry) {
    if (errno == ENOTDIR || errno == ELOOP)
      return {std::nullopt, "it is no folder", ""};
    return {};
  }
  if (std::string why = foreignOwner(entry); !why.empty())
    return {std::nullopt, "", why};
  auto text = readOwn(entry, "recipe.json", folder);
  if (!text)
    return {std::nullopt, text.error().message, ""};
  auto cubin = readOwn(entry, "kernel.cubin", folder);
  if (!cubin)
    return {std::nullopt, cubin.error().message, ""};
  bool anyCompiler = recipe.compiler.empty();
  if (auto damage = checkEntry(recipe, anyCompiler, *text, *cubin);
      !damage.empty())
    return {std::nullopt, damage, ""};
  renew(entry);
  return {std::move(*cubin), "", ""};
}

KernelCache::Lookup KernelCache::lookUpAnyCompiler(const Recipe &recipe) const {
  const std::string path = joinPath(root, recipe.arch);
  Result<Descriptor> folder = openCacheFolder(root, recipe.arch);
  if (!folder)
    return {};
  Result<std::vector<std::string>> names = listNamesAt(*folder, path);
  if (!names)
    return {};
  // Hex digits of the key in a folder name, see entryFolder().
  constexpr size_t kDigits = 16;
  for (const std::string &name : *names)
    if (name.size() == recipe.entry.size() + 1 + kDigits &&
        name.starts_with(recipe.entry + "-"))
      if (auto entry = lookUp(recipe, joinPath(path, name)); entry.cubin)
        return entry;
  return {};
}

//===----------------------------------------------------------------------===//
// Writing entries
//===----------------------------------------------------------------------===//

static Result<void> writeEntry(const Recipe &recipe, const Cubin &cubin,
                               const std::string &folder) {
  auto write = [](const std::string &path,
                  std::string_view bytes) -> Result<void> {
    int file =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0)
      return fileError("cannot create", path);
    while (!bytes.empty()) {
      ssize_t written = ::write(file, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0) {
        Error error = fileError("cannot write", path);
        ::close(file);
        return error;
      }
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    // Some file systems report a full disk only in close().
    if (::close(file) != 0)
      return fileError("cannot write", path);
    return {};
  };
  nlohmann::json facts = {{"bytes", cubin.bytes.size()},
                          {"cubin", sha256(cubin.bytes)}};
  std::vector<std::pair<std::string, std::string>> files = {
      {"kernel.cubin", cubin.bytes},
      {"kernel.cu", recipe.source->text},
      {"build.log", cubin.log},
      {"recipe.json", recipe.json() + "\n" + facts.dump() + "\n"},
  };
  for (const auto &[name, header] : recipe.headers)
    if (isContainedPath(name))
      files.emplace_back("headers/" + name, header->text);
  for (const auto &[name, bytes] : files) {
    std::string path = joinPath(folder, name);
    TRY(createFolders(parentFolder(path), 0755));
    TRY(write(path, bytes));
  }
  return {};
}

void KernelCache::store(const Recipe &recipe, const Cubin &cubin,
                        const std::string &folder) const {
  Result<StagedFolder> staged = StagedFolder::create(folder, 0755);
  Result<void> done = {};
  if (staged)
    done = writeEntry(recipe, cubin, staged->path());
  else
    done = staged.takeError();
  if (done)
    done = staged->publish();
  if (done)
    return;
  // A process that did not get the lock may have published the same entry
  // meanwhile.
  if (lookUp(recipe, folder).cubin)
    return;
  reportNotStored(parentFolder(folder), done.error().message);
}

//===----------------------------------------------------------------------===//
// Obtaining a cubin
//===----------------------------------------------------------------------===//

static Error strictMiss(const Recipe &recipe, const std::string &root,
                        const std::string &unusable) {
  return Error(ErrorCode::StrictMiss,
               "strict mode: kernel {} for {} is neither in the package nor in "
               "the cache ({}{}) and would have to be compiled; fill the cache "
               "with moec run --prebuild, or ship the package with its cubins",
               recipe.entry, recipe.arch, root.empty() ? "none" : root,
               unusable.empty() ? ""
                                : ", whose entry is not used: " + unusable);
}

Result<CachedCubin> KernelCache::getUnshared(const Recipe &recipe, bool strict,
                                             const Compile &compile) const {
  auto hit = [](Lookup &&entry) {
    return CachedCubin{std::move(*entry.cubin), CubinSource::Cache, 0};
  };
  std::string folder, foreign, unusable, noFolder;
  if (!root.empty()) {
    folder = entryFolder(recipe);
    reportOpenFolder(root);
    reportOpenFolder(parentFolder(folder));
    auto entry = recipe.compiler.empty() ? lookUpAnyCompiler(recipe)
                                         : lookUp(recipe, folder);
    if (entry.cubin)
      return hit(std::move(entry));
    unusable = entry.foreign + entry.damage;
  }
  if (strict)
    return strictMiss(recipe, root, unusable);

  std::optional<FileLock> lock;
  if (!root.empty()) {
    if (Result<void> made = makeCacheFolder(root, recipe.arch))
      lock.emplace(folder + ".lock");
    else
      noFolder = made.error().message;
    auto entry = lookUp(recipe, folder);
    if (entry.cubin)
      return hit(std::move(entry));
    if (!entry.damage.empty())
      moveAside(folder, entry.damage);
    foreign = entry.foreign;
  }
  auto start = Clock::now();
  auto cubin = TRY(compile(recipe));
  double milliseconds = millisecondsSince(start);
  if (!foreign.empty()) {
    // Only the entry's owner can remove it, so the new cubin is not stored.
    reportForeignEntry(folder, foreign);
  } else if (!noFolder.empty()) {
    reportNoFolder(parentFolder(folder), noFolder);
  } else if (!root.empty()) {
    removeOldDamaged(parentFolder(folder));
    store(recipe, cubin, folder);
  }
  return CachedCubin{std::move(cubin.bytes), CubinSource::Compiled,
                     milliseconds};
}

Result<CachedCubin> KernelCache::get(const Recipe &recipe, bool strict,
                                     const Compile &compile) const {
  using Shared = std::shared_ptr<const Result<CachedCubin>>;
  struct Running {
    std::mutex mutex;
    std::map<std::string, std::shared_future<Shared>> compiles;
  };
  auto &[mutex, running] = perProcess<Running>();

  std::string id = fmt::format("{}\n{}\n{}", root, strict, recipe.key());
  std::promise<Shared> promise;
  std::shared_future<Shared> other;
  {
    std::lock_guard lock(mutex);
    if (auto it = running.find(id); it != running.end())
      other = it->second;
    else
      running.emplace(id, promise.get_future().share());
  }
  if (other.valid())
    return *other.get();

  // Other threads wait for the promise, so it must be fulfilled even if this
  // function throws.
  auto guarded = [&]() -> Result<CachedCubin> {
    try {
      return getUnshared(recipe, strict, compile);
    } catch (const std::exception &exception) {
      return Error(ErrorCode::Internal, "kernel {}: {}", recipe.entry,
                   exception.what());
    }
  };
  auto result = std::make_shared<const Result<CachedCubin>>(guarded());
  {
    std::lock_guard lock(mutex);
    running.erase(id);
  }
  promise.set_value(result);
  return *result;
}
