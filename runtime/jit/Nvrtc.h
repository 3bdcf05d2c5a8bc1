//===- Nvrtc.h - NVIDIA's runtime compiler ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finding NVRTC and opening it are two steps. Every load needs NVRTC's identity
// for the cache, which findNvrtc() reads from the files. Only a cache miss
// needs the opened library. NVRTC needs no GPU and no driver.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_NVRTC_H
#define MOEC_RUNTIME_JIT_NVRTC_H

#include "runtime/jit/Recipe.h"
#include "runtime/support/NvrtcVersions.h"
#include "runtime/support/Result.h"

#include <string>
#include <vector>

namespace moec::runtime {

struct NvrtcLocation {
  std::string library; ///< path of libnvrtc.so.N
  /// Path of libnvrtc-builtins.so.N.M, in the same folder.
  std::string builtins;
  std::string foundBy; ///< "MOEC_NVRTC_PATH", "loader path", ...
  /// "nvrtc <build-id> builtins <build-id>", which is part of every recipe.
  std::string identity;
};

/// Finds NVRTC. If `given` is not "", it is the path of the library or its
/// folder. Otherwise the function searches MOEC_NVRTC_PATH, the file nvrtc-path
/// of a build folder, loaded libraries, the loader's folders, CUDA_HOME,
/// /usr/local/cuda* and Python's nvidia wheels. No library is opened. Returns a
/// NoCompiler error if a given path contains no NVRTC, or if none is found; the
/// message lists the searched places.
Result<NvrtcLocation> findNvrtc(const std::string &given = "");

/// A file or folder in which NVRTC is searched.
struct NvrtcPlace {
  std::string path;
  const char *foundBy;
  bool isPattern = false; ///< `path` is a pattern of glob(7)
};

/// Returns the places in which NVRTC is searched if no path is set, the first
/// one first.
std::vector<NvrtcPlace> nvrtcPlaces();

/// Returns the NVRTC of the first place that has one, or an error that names
/// all places. Of a pattern's paths, the last one comes first.
Result<NvrtcLocation> findNvrtcIn(const std::vector<NvrtcPlace> &places);

/// Returns the path that the file `nvrtc-path` in a folder contains, or "" if
/// there is no such file or if other users may write it.
std::string nvrtcPathIn(const std::string &folder);

/// Returns the GNU build-id of a 64-bit little-endian ELF file as lowercase
/// hex. The build-id is a hash that the linker writes into the file. It
/// distinguishes two builds of NVRTC regardless of paths, dates and version
/// numbers. Reading it takes only a few file accesses, while dlopen of NVRTC
/// takes 6 to 370 ms. For a file without build-id, returns "sha256:" and the
/// file's SHA-256. Errors: FileSystem.
Result<std::string> readBuildId(const std::string &path);

/// Returns the path of the shared library or program that contains this
/// function, with symbolic links resolved, or "" if the loader does not report
/// it. Helper files are found relative to this path; no path is compiled in
/// (docs/decisions.md, 028).
std::string pathOfOwnBinary();

/// Prevents the opened library `nvrtc` from installing handlers for the signals
/// with which a user ends a program. Returns false if the library does not
/// import signal().
bool keepSignals(void *nvrtc);

/// An opened NVRTC library. Compiling is thread-safe. Concurrent compilations
/// run in parallel, except for parsing, which takes a fifth of a compilation
/// (see CompileWorker.h).
class Nvrtc {
public:
  /// Opens a library. The library is opened only once per process; each
  /// location has its own instance.
  static Result<const Nvrtc *> open(const NvrtcLocation &location);
  /// Returns true if this process has opened NVRTC through open().
  static bool everOpened();

  /// Compiles a recipe; for a virtual architecture the result is PTX. A
  /// CompileFailed error contains the entry, the arch and NVRTC's whole log. A
  /// NoCompiler error means that the arch needs a later release of NVRTC.
  Result<Cubin> compile(const Recipe &recipe) const;
  /// Returns the PTX of a recipe, for human readers and tests.
  Result<std::string> compileToPtx(const Recipe &recipe) const;

  NvrtcVersion version() const { return versionNumber; }
  /// Returns the compute capabilities that NVRTC supports, as NVRTC reports
  /// them: 90 for sm_90.
  const std::vector<int> &archs() const { return supported; }
  double openMilliseconds() const { return opening; }

private:
  struct Functions;
  Nvrtc() = default;
  Result<void> checkArch(const Recipe &recipe) const;
  Result<Cubin> run(const Recipe &recipe, bool ptx) const;
  static Result<const Nvrtc *> load(const NvrtcLocation &location);

  const Functions *functions = nullptr;
  NvrtcVersion versionNumber;
  std::string library; ///< path of the library
  std::vector<int> supported;
  double opening = 0;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_NVRTC_H
