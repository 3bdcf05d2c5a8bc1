//===- Nvrtc.h - NVIDIA's run-time compiler, opened when needed -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finding and opening are two steps: the cache needs NVRTC's identity (which
// findNvrtc reads from the files) at every load, the compiler itself only on a
// miss. NVRTC needs no GPU and no driver.
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
  std::string library;  ///< path of libnvrtc.so.N
  std::string builtins; ///< path of libnvrtc-builtins.so.N.M, beside it
  std::string foundBy;  ///< "MOEC_NVRTC_PATH", "loader path", ...
  /// "nvrtc <build-id> builtins <build-id>": part of every recipe.
  std::string identity;
};

/// The one at `given`, a library or a folder, if that is not "". Else searches
/// MOEC_NVRTC_PATH, the file nvrtc-path of a build folder, what is loaded
/// already and the loader's folders, CUDA_HOME, /usr/local/cuda*, and Python's
/// nvidia wheels; opens nothing. A path that is set and holds no NVRTC is an
/// error, as is finding none: NoCompiler with the places searched.
Result<NvrtcLocation> findNvrtc(const std::string &given = "");

/// Returns the path in the file `nvrtc-path` of a folder, or "" if there is
/// none or if other users may write it.
std::string nvrtcPathIn(const std::string &folder);

/// The GNU build-id of a 64-bit little-endian ELF file as lower-case hex: a
/// hash that the linker wrote into a library. It tells two builds of NVRTC
/// apart whatever their paths, dates or version numbers say, and costs a few
/// reads, while dlopen of NVRTC costs 6 to 370 ms. A file without one is
/// identified by its SHA-256 ("sha256:..."). Errors: FileSystem.
Result<std::string> readBuildId(const std::string &path);

/// The path of the shared library or program that holds this function, without
/// links; "" if the loader does not say it. Files next to the library are found
/// by it: no path is compiled in (docs/decisions.md, 028).
std::string pathOfOwnBinary();

/// Lets the opened library `nvrtc` handle no signal by which a user ends a
/// program. Returns false if it does not import signal().
bool keepSignals(void *nvrtc);

/// The opened library. Compiling is thread-safe. Several at once run in
/// parallel, but for the parsing, a fifth of a compile: see CompileWorker.h.
class Nvrtc {
public:
  /// Opens it once a process; a second location gives a second instance.
  static Result<const Nvrtc *> open(const NvrtcLocation &location);
  /// Returns true if this process has opened NVRTC through open() so far.
  static bool everOpened();

  /// CompileFailed carries entry, arch and NVRTC's whole log; NoCompiler says
  /// that the arch needs a later release. For a virtual architecture the result
  /// is PTX.
  Result<Cubin> compile(const Recipe &recipe) const;
  /// The PTX of a recipe, for people and for tests.
  Result<std::string> compileToPtx(const Recipe &recipe) const;

  NvrtcVersion version() const { return versionNumber; }
  /// "sm_90" and so on have numbers here: 90; as NVRTC lists them.
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
  std::string library; ///< its path
  std::vector<int> supported;
  double opening = 0;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_NVRTC_H
