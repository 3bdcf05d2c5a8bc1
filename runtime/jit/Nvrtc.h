//===- Nvrtc.h - NVIDIA's runtime compiler ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finding and opening NVRTC are two steps: every load needs its identity for
// the cache (findNvrtc() reads it from the files), but only a miss needs the
// compiler itself. NVRTC needs no GPU and no driver.
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

/// Returns the NVRTC at `given`, a library or a folder, if that is not "".
/// Otherwise searches MOEC_NVRTC_PATH, the file nvrtc-path of a build folder,
/// loaded libraries, the loader's folders, CUDA_HOME, /usr/local/cuda* and
/// Python's nvidia wheels. No library is opened. A NoCompiler error is returned
/// if a given path contains no NVRTC, or if none is found; it lists the
/// searched places.
Result<NvrtcLocation> findNvrtc(const std::string &given = "");

/// Returns the path in the file `nvrtc-path` of a folder, or "" if there is no
/// such file or if other users may write it.
std::string nvrtcPathIn(const std::string &folder);

/// Returns the GNU build-id of a 64-bit little-endian ELF file as lowercase
/// hex: a hash that the linker wrote into the library. It distinguishes two
/// builds of NVRTC regardless of paths, dates and version numbers. It costs a
/// few reads, while dlopen of NVRTC takes 6 to 370 ms. A file without build-id
/// is identified by its SHA-256 ("sha256:..."). Errors: FileSystem.
Result<std::string> readBuildId(const std::string &path);

/// Returns the path of the shared library or program that contains this
/// function, with links resolved, or "" if the loader does not report it. Files
/// next to the library are found through it; no path is compiled in
/// (docs/decisions.md, 028).
std::string pathOfOwnBinary();

/// Prevents the opened library `nvrtc` from handling the signals with which a
/// user ends a program. Returns false if the library does not import signal().
bool keepSignals(void *nvrtc);

/// An opened NVRTC. Compiling is thread-safe. Concurrent compilations run in
/// parallel except for parsing, a fifth of a compilation: see CompileWorker.h.
class Nvrtc {
public:
  /// Opens a library once per process. Each location has its own instance.
  static Result<const Nvrtc *> open(const NvrtcLocation &location);
  /// Returns true if this process has opened NVRTC through open().
  static bool everOpened();

  /// Compiles a recipe; for a virtual architecture the result is PTX. A
  /// CompileFailed error contains the entry, the arch and NVRTC's whole log.
  /// NoCompiler means that the arch needs a later release.
  Result<Cubin> compile(const Recipe &recipe) const;
  /// Returns the PTX of a recipe, for human readers and tests.
  Result<std::string> compileToPtx(const Recipe &recipe) const;

  NvrtcVersion version() const { return versionNumber; }
  /// Returns the supported archs as NVRTC lists them: 90 for sm_90.
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
