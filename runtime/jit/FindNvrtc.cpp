//===- FindNvrtc.cpp - the search for NVRTC -------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds libnvrtc and its builtins library. No library is loaded during the
// search; libraries are identified by their build-ids.
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CacheFiles.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/NvrtcVersions.h"
#include "runtime/support/PerProcess.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <climits>
#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <charconv>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <unistd.h>

using namespace moec;
using namespace moec::runtime;

static std::vector<std::string> expandPattern(const std::string &pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return paths;
}

/// Returns the version numbers after `.so.` in a file name: {13} or {13, 0,
/// 88}. Returns an empty list if the name does not start with `stem` and ".so."
/// (for example libnvrtc.alt.so.13).
static std::vector<int> versionOf(const std::string &path,
                                  std::string_view stem) {
  std::string name = path.substr(path.rfind('/') + 1);
  std::string prefix = fmt::format("{}.so.", stem);
  std::vector<int> numbers;
  if (name.compare(0, prefix.size(), prefix) != 0)
    return numbers;
  const char *at = name.data() + prefix.size(),
             *end = name.data() + name.size();
  while (at < end) {
    int number = 0;
    auto [next, code] = std::from_chars(at, end, number);
    if (code != std::errc() || (next != end && *next != '.'))
      return {};
    numbers.push_back(number);
    at = next == end ? end : next + 1;
  }
  return numbers;
}

/// Returns the newest `stem`.so.<version> in a folder, or nullopt if there is
/// none. If `major` is set, only files of that major version are considered.
/// Within one major version, the name with the fewest version numbers is
/// preferred, because libnvrtc.so.13 is usually a link to the installed
/// release.
static std::optional<std::string> newestIn(const std::string &folder,
                                           std::string_view stem,
                                           std::optional<int> major) {
  std::optional<std::string> best;
  std::vector<int> bestVersion;
  for (const std::string &path :
       expandPattern(fmt::format("{}/{}.so.*", folder, stem))) {
    auto version = versionOf(path, stem);
    if (version.empty() || version[0] < kOldestNvrtc.major ||
        (major && version[0] != *major))
      continue;
    bool newer =
        !best || version[0] > bestVersion[0] ||
        (version[0] == bestVersion[0] && version.size() < bestVersion.size()) ||
        (version.size() == bestVersion.size() && version > bestVersion);
    if (newer) {
      best = path;
      bestVersion = version;
    }
  }
  return best;
}

/// Returns the location and identity of the NVRTC at `path`, or nullopt if
/// there is no library.
static std::optional<NvrtcLocation> locate(const std::string &path,
                                           const std::string &foundBy) {
  std::string folder = path, library = path;
  if (isFolder(path)) {
    auto newest = newestIn(path, "libnvrtc", std::nullopt);
    if (!newest)
      return std::nullopt;
    library = *newest;
  } else if (isRegularFile(path)) {
    folder = parentFolder(path);
  } else {
    return std::nullopt;
  }
  auto version = versionOf(library, "libnvrtc");
  std::optional<int> major;
  if (!version.empty())
    major = version[0];
  NvrtcLocation location;
  location.library = library;
  location.foundBy = foundBy;
  auto id = readBuildId(library);
  if (!id)
    return std::nullopt;
  location.identity = "nvrtc " + *id;
  if (auto builtins = newestIn(folder, "libnvrtc-builtins", major)) {
    location.builtins = *builtins;
    if (auto builtinsId = readBuildId(*builtins))
      location.identity += " builtins " + *builtinsId;
  }
  return location;
}

/// Returns the folders that the dynamic loader searches: LD_LIBRARY_PATH,
/// RUNPATH and the system folders.
static std::vector<std::string> loaderFolders() {
  std::vector<std::string> folders;
  void *self = dlopen(nullptr, RTLD_NOW);
  if (!self)
    return folders;
  Dl_serinfo head = {};
  if (dlinfo(self, RTLD_DI_SERINFOSIZE, &head) == 0 && head.dls_size > 0) {
    std::vector<char> memory(head.dls_size);
    auto *info = reinterpret_cast<Dl_serinfo *>(memory.data());
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 &&
        dlinfo(self, RTLD_DI_SERINFO, info) == 0)
      for (unsigned i = 0; i < info->dls_cnt; ++i)
        folders.push_back(info->dls_serpath[i].dls_name);
  }
  dlclose(self);
  return folders;
}

/// Returns the path of an NVRTC library that this process has already loaded,
/// or "". Some inference engines load their own NVRTC.
static std::string loadedNvrtc() {
  for (const char *name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
    void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
      continue;
    link_map *map = nullptr;
    std::string path;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map)
      path = map->l_name;
    dlclose(library);
    if (!path.empty())
      return path;
  }
  return "";
}

std::string moec::runtime::nvrtcPathIn(const std::string &folder) {
  const std::string path = joinPath(folder, "nvrtc-path");
  Result<Descriptor> file = openRegular(path);
  if (!file || !foreignOwner(*file).empty() || !openToOthers(*file).empty())
    return "";
  Result<std::string> text = readAll(*file, PATH_MAX, path);
  return text ? text->substr(0, text->find('\n')) : "";
}

/// Returns the path in the file `nvrtc-path` next to this binary, or "". Only
/// build folders contain this file. The path is not compiled in, because on
/// another machine it might refer to a file of another user.
static std::string pathOfBuild() {
  const std::string binary = pathOfOwnBinary();
  return binary.empty() ? "" : nvrtcPathIn(parentFolder(binary));
}

/// Returns the NVRTC at a path that was set by the option or environment
/// variable `by`, or an error if the path contains no NVRTC.
static Result<NvrtcLocation> locateSet(const std::string &path,
                                       const char *by) {
  if (auto location = locate(path, by))
    return *location;
  return Error(ErrorCode::NoCompiler,
               "{} is '{}': expected a libnvrtc.so.N (N >= {}) or a folder "
               "that holds one, and there is none",
               by, path, kOldestNvrtc.major);
}

std::vector<NvrtcPlace> moec::runtime::nvrtcPlaces() {
  std::vector<NvrtcPlace> places = {
      {pathOfBuild(), "the build's nvrtc-path"},
      {loadedNvrtc(), "already loaded"},
  };
  for (const std::string &folder : loaderFolders())
    places.push_back({folder, "the loader's path"});
  if (std::string home = envString("CUDA_HOME"); !home.empty())
    for (const char *sub : {"/lib64", "/lib"})
      places.push_back({home + sub, "CUDA_HOME"});
  for (const char *pattern : {
           "/usr/local/cuda/lib64",
           "/usr/local/cuda-*/lib64",
           "/usr/lib/python3*/*-packages/nvidia/cu13/lib",
           "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib",
           "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib",
           "/opt/*/lib/python3*/site-packages/nvidia/cu13/lib",
       })
    places.push_back({pattern, "a usual place", true});
  if (std::string home = envString("HOME"); !home.empty())
    places.push_back(
        {home + "/.local/lib/python3*/site-packages/nvidia/cu13/lib",
         "a usual place", true});
  std::erase_if(places,
                [](const NvrtcPlace &place) { return place.path.empty(); });
  return places;
}

Result<NvrtcLocation>
moec::runtime::findNvrtcIn(const std::vector<NvrtcPlace> &places) {
  std::vector<std::string> searched;
  for (const NvrtcPlace &place : places) {
    std::vector<std::string> paths = {place.path};
    if (place.isPattern)
      paths = expandPattern(place.path);
    if (paths.empty())
      searched.push_back(place.path);
    // The paths are sorted, so the reverse order tries the newest toolkit
    // first.
    for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
      searched.push_back(*path);
      if (auto location = locate(*path, place.foundBy))
        return *location;
    }
  }
  return Error(ErrorCode::NoCompiler,
               "no libnvrtc.so.N (N >= {}) was found in {}; install it (pip "
               "install nvidia-cuda-nvrtc) or set MOEC_NVRTC_PATH, or compile "
               "the package ahead of time",
               kOldestNvrtc.major, fmt::join(searched, ", "));
}

static Result<NvrtcLocation> search(const std::string &given) {
  if (!given.empty())
    return locateSet(given, "nvrtc_path");
  if (std::string path = envString("MOEC_NVRTC_PATH"); !path.empty())
    return locateSet(path, "MOEC_NVRTC_PATH");
  return findNvrtcIn(nvrtcPlaces());
}

Result<NvrtcLocation> moec::runtime::findNvrtc(const std::string &given) {
  // Successful results are cached per given path and value of MOEC_NVRTC_PATH.
  // A failed search is repeated, because NVRTC may be installed later.
  using Setting = std::pair<std::string, std::string>;
  struct Found {
    std::mutex mutex;
    std::map<Setting, NvrtcLocation> locations;
  };
  auto &[mutex, known] = perProcess<Found>();
  const Setting setting = {given, envString("MOEC_NVRTC_PATH")};
  std::lock_guard lock(mutex);
  if (auto it = known.find(setting); it != known.end())
    return it->second;
  auto location = search(given);
  if (location)
    known.emplace(setting, *location);
  return location;
}
