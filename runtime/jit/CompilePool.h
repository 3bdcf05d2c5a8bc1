//===- CompilePool.h - the cubins of a package's kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Obtains the cubins of a package's kernels: from the package if they are
// valid, else from the cache, else from NVRTC, in parallel. Loading, `moec-run
// --prebuild` and the compiler's ahead-of-time step all use this code, so that
// they create and find the same entries.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_COMPILEPOOL_H
#define MOEC_RUNTIME_JIT_COMPILEPOOL_H

#include "runtime/jit/Cache.h"
#include "runtime/jit/Compilers.h"
#include "runtime/package/Package.h"
#include "runtime/support/Result.h"

#include <optional>
#include <string>
#include <vector>

namespace moec::runtime {

struct CompileSettings {
  bool strict = false;
  /// Number of concurrent compilations; 0: chosen by chooseJobs().
  int jobs = 0;
  /// nullopt: envCacheFolder(); "": no cache on disk.
  std::optional<std::string> cacheFolder;
  std::string nvrtcPath; ///< argument of findNvrtc()
  /// Use the cubins in the package.
  bool usePackageCubins = true;
  /// Compile to PTX for the emulator instead of cubins. The package's cubins
  /// are then not used.
  bool ptx = false;
  /// Deadline of waits inside kernels, in milliseconds; 0: no deadline. The
  /// package's cubins have no deadline, so with one all kernels are compiled.
  int64_t spinDeadline = 0;
};

struct CompiledKernel {
  std::string name; ///< equal to Kernel::name
  std::string cubin;
  CubinSource source = CubinSource::Package;
  double compileMilliseconds = 0;
};

/// Statistics of a compilation, for reports.
struct CompileSummary : CompilersUsed {
  double compileMilliseconds = 0; ///< wall time of the whole step
  int jobs = 1;
};

struct CompileOutcome {
  std::vector<CompiledKernel> kernels; ///< in the order of Target::kernels
  CompileSummary summary;
};

/// Returns the number of concurrent compilations for `work` kernels, from 1 to
/// `work`: `asked` if it is set, else MOEC_JOBS, else one for each usable
/// thread, limited by the free memory. InvalidArgument if MOEC_JOBS is not an
/// integer.
Result<int> chooseJobs(int asked, size_t work);

/// Sorts kernels, given as indices in manifest order, into the order in which
/// their compilations start. Kernels with many headers take longest and come
/// first. Of kernels with equally many headers, those for many tokens come
/// first; they are last in a manifest. A long compilation that starts late
/// would run alone while other cores are idle.
void orderByTime(std::vector<size_t> &kernels, const Target &target);

/// Compiles every kernel of a target. The first error in kernel order is
/// returned. The other kernels are compiled nevertheless, so that the cache is
/// filled.
Result<CompileOutcome> compileKernels(const PackageFiles &files,
                                      const Target &target,
                                      const CompileSettings &settings);

/// Returns the recipe of one kernel, without the compiler's identity.
Result<Recipe> makeRecipe(const PackageFiles &files, const Target &target,
                          const Kernel &kernel);

/// Returns the PTX of one kernel, which is never cached.
Result<std::string> compileKernelToPtx(const PackageFiles &files,
                                       const Target &target,
                                       const Kernel &kernel);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEPOOL_H
