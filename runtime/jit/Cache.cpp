//===- Cache.cpp - compiled kernels on disk -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Look up, lock, look again, compile, publish.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Cache.h"

#include "runtime/support/Files.h"
#include "runtime/support/Log.h"
#include "runtime/support/Sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <glob.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

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
// One writer a key
//===----------------------------------------------------------------------===//

namespace {
/// flock of one file for as long as this lives. The kernel releases it when
/// the process dies, however it dies.
class FileLock {
public:
  explicit FileLock(const std::string &path) {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      return;
    // A compile takes seconds at most. Whoever holds the lock for minutes is
    // stopped or on a machine that is gone, and costs a second compile.
    constexpr auto kPatience = std::chrono::seconds(120);
    auto end = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0) {
        held = true;
        return;
      }
      if ((errno != EWOULDBLOCK && errno != EINTR) ||
          std::chrono::steady_clock::now() > end)
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  ~FileLock() {
    if (descriptor >= 0)
      ::close(descriptor);
  }
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

  bool held = false;

private:
  int descriptor = -1;
};
} // namespace

//===----------------------------------------------------------------------===//
// Looking up
//===----------------------------------------------------------------------===//

struct KernelCache::Lookup {
  std::optional<std::string> cubin;
  std::string damage; ///< why an entry that is there cannot be used
};

std::string KernelCache::entryFolder(const Recipe &recipe) const {
  return fmt::format("{}/{}/{}-{}", root, recipe.arch, recipe.entry,
                     recipe.key().substr(0, 16));
}

/// Whether the first line of recipe.json is this recipe, the compiler apart
/// if `anyCompiler`.
static bool sameRecipe(std::string_view line, const Recipe &recipe,
                       bool anyCompiler) {
  if (!anyCompiler)
    return line == recipe.json();
  auto stored = nlohmann::json::parse(line, nullptr, false);
  auto wanted = nlohmann::json::parse(recipe.json(), nullptr, false);
  if (!stored.is_object())
    return false;
  stored.erase("compiler");
  wanted.erase("compiler");
  return stored == wanted;
}

static std::string checkEntry(const Recipe &recipe, bool anyCompiler,
                              const std::string &text,
                              const std::string &cubin) {
  size_t end = text.find('\n');
  if (end == std::string::npos)
    return "recipe.json is truncated";
  if (!sameRecipe(std::string_view(text).substr(0, end), recipe, anyCompiler))
    return "recipe.json holds another recipe";
  auto facts = nlohmann::json::parse(text.begin() + static_cast<long>(end),
                                     text.end(), nullptr, false);
  if (!facts.is_object() || !facts.contains("cubin") ||
      !facts["cubin"].is_string())
    return "recipe.json does not say the cubin's hash";
  if (sha256(cubin) != facts["cubin"].get<std::string>())
    return fmt::format("kernel.cubin ({} bytes) has another hash than "
                       "recipe.json says",
                       cubin.size());
  return "";
}

KernelCache::Lookup KernelCache::lookUp(const Recipe &recipe,
                                        const std::string &folder) const {
  if (!isFolder(folder)) {
    // Something that is no folder stands in the entry's place.
    if (fileExists(folder))
      return {std::nullopt, "it is no folder"};
    return {};
  }
  auto text = readFile(folder + "/recipe.json");
  if (!text)
    return {std::nullopt, text.error().message};
  auto cubin = readFile(folder + "/kernel.cubin");
  if (!cubin)
    return {std::nullopt, cubin.error().message};
  bool anyCompiler = recipe.compiler.empty();
  if (auto damage = checkEntry(recipe, anyCompiler, *text, *cubin);
      !damage.empty())
    return {std::nullopt, damage};
  return {std::move(*cubin), ""};
}

KernelCache::Lookup KernelCache::lookUpAnyCompiler(const Recipe &recipe) const {
  glob_t found = {};
  std::string pattern =
      fmt::format("{}/{}/{}-????????????????", root, recipe.arch, recipe.entry);
  std::vector<std::string> folders;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    folders.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  for (const std::string &folder : folders)
    if (auto entry = lookUp(recipe, folder); entry.cubin)
      return entry;
  return {};
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

void KernelCache::moveAside(const std::string &folder,
                            const std::string &why) const {
  static std::atomic<unsigned> counter = 0;
  std::string aside =
      fmt::format("{}.damaged-{}-{}", folder, ::getpid(), counter++);
  if (auto moved = renamePath(folder, aside); !moved) {
    log(LogLevel::Warning,
        "kernel cache: the entry {} is damaged ({}) and could not be moved "
        "aside ({}); compiling again",
        folder, why, moved.error().message);
    return;
  }
  log(LogLevel::Warning,
      "kernel cache: the entry {} is damaged ({}); it was moved to {} and is "
      "built again",
      folder, why, aside);
}

static Result<void> writeEntry(const Recipe &recipe, const Cubin &cubin,
                               const std::string &folder) {
  auto write = [](const std::string &path,
                  std::string_view bytes) -> Result<void> {
    int file =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
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
    // Some file systems report a full disk only here.
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
    if (auto made = createFolders(parentFolder(path)); !made)
      return made;
    if (auto written = write(path, bytes); !written)
      return written;
  }
  return {};
}

void KernelCache::store(const Recipe &recipe, const Cubin &cubin,
                        const std::string &folder) const {
  auto temporary = createTemporaryFolderBeside(folder);
  Result<void> done = {};
  if (temporary) {
    ::chmod(temporary->c_str(), 0777 & ~0022); // ranks of other users may read
    done = writeEntry(recipe, cubin, *temporary);
    if (done)
      done = renamePath(*temporary, folder);
  } else {
    done = temporary.takeError();
  }
  if (done)
    return;
  if (temporary)
    (void)removeAll(*temporary);
  // Another process may have published the same entry without our lock.
  if (lookUp(recipe, folder).cubin)
    return;
  log(LogLevel::Warning,
      "kernel cache: {} was compiled but could not be stored ({}); the next "
      "process will compile it again",
      recipe.entry, done.error().message);
}

/// Temporary folders of processes that were killed while they wrote.
static void removeStale(const std::string &folder) {
  glob_t found = {};
  if (glob((folder + ".tmp-*").c_str(), 0, nullptr, &found) == 0) {
    for (size_t i = 0; i < found.gl_pathc; ++i) {
      struct stat status = {};
      constexpr time_t kHour = 3600;
      if (::stat(found.gl_pathv[i], &status) == 0 &&
          ::time(nullptr) - status.st_mtime > kHour)
        (void)removeAll(found.gl_pathv[i]);
    }
  }
  globfree(&found);
}

//===----------------------------------------------------------------------===//
// Getting
//===----------------------------------------------------------------------===//

static Error strictMiss(const Recipe &recipe, const std::string &root) {
  return Error{ErrorCode::StrictMiss,
               fmt::format("strict mode: kernel {} for {} is neither in the "
                           "package nor in the cache ({}) and would have to be "
                           "compiled; fill the cache with moec-run --prebuild, "
                           "or ship the package with its cubins",
                           recipe.entry, recipe.arch,
                           root.empty() ? "none" : root)};
}

Result<CachedCubin> KernelCache::getUnshared(const Recipe &recipe, bool strict,
                                             const Compile &compile) const {
  auto hit = [](Lookup &&entry) {
    return CachedCubin{std::move(*entry.cubin), CubinSource::Cache, 0};
  };
  std::string folder;
  if (!root.empty()) {
    folder = entryFolder(recipe);
    auto entry = recipe.compiler.empty() ? lookUpAnyCompiler(recipe)
                                         : lookUp(recipe, folder);
    if (entry.cubin)
      return hit(std::move(entry));
  }
  if (strict)
    return strictMiss(recipe, root);

  std::optional<FileLock> lock;
  if (!root.empty()) {
    // A folder that cannot be made shows again, with a warning, in store().
    if (createFolders(parentFolder(folder)))
      lock.emplace(folder + ".lock");
    auto entry = lookUp(recipe, folder);
    if (entry.cubin)
      return hit(std::move(entry));
    if (!entry.damage.empty())
      moveAside(folder, entry.damage);
  }
  auto start = std::chrono::steady_clock::now();
  auto cubin = compile(recipe);
  if (!cubin)
    return cubin.takeError();
  double milliseconds = std::chrono::duration<double, std::milli>(
                            std::chrono::steady_clock::now() - start)
                            .count();
  if (!root.empty()) {
    removeStale(folder);
    store(recipe, *cubin, folder);
  }
  return CachedCubin{std::move(cubin->bytes), CubinSource::Compiled,
                     milliseconds};
}

Result<CachedCubin> KernelCache::get(const Recipe &recipe, bool strict,
                                     const Compile &compile) const {
  using Shared = std::shared_ptr<const Result<CachedCubin>>;
  static std::mutex mutex;
  static std::map<std::string, std::shared_future<Shared>> running;

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

  auto result = std::make_shared<const Result<CachedCubin>>(
      getUnshared(recipe, strict, compile));
  {
    std::lock_guard lock(mutex);
    running.erase(id);
  }
  promise.set_value(result);
  return *result;
}
