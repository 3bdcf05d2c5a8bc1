//===- CompilePool.h - the cubins of a package's kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Obtains the cubins of a package's kernels, in parallel: from the package if
// they are valid, otherwise from the cache, otherwise from NVRTC. Loading,
// `moec-run --prebuild` and the compiler's ahead-of-time step all use this
// code, so that they create and find the same cache entries.
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
  /// nullopt: the folder of envCacheFolder(); "": no cache on disk.
  std::optional<std::string> cacheFolder;
  std::string nvrtcPath; ///< argument of findNvrtc()
  /// True: use the cubins in the package.
  bool usePackageCubins = true;
  /// True: compile to PTX for the emulator instead of cubins. The cubins in the
  /// package are then not used.
  bool ptx = false;
  /// Deadline for spin waits inside kernels, in milliseconds; 0: no deadline.
  /// Cubins in the package have no deadline, so if one is set, all kernels are
  /// compiled.
  int64_t spinDeadline = 0;
};

struct CompiledKernel {
  std::string name; ///< equal to Kernel::name
  std::string cubin;
  CubinSource source = CubinSource::Package;
  double compileMilliseconds = 0;
};

/// Statistics of the compilation step, for reports.
struct CompileSummary : CompilersUsed {
  double compileMilliseconds = 0; ///< wall-clock time of the whole step
  int jobs = 1;
};

struct CompileOutcome {
  std::vector<CompiledKernel> kernels; ///< in the order of Target::kernels
  CompileSummary summary;
};

/// Returns the number of concurrent compilations for `work` kernels, from 1 to
/// `work`. This is `asked` if it is set, otherwise MOEC_JOBS if it is set,
/// otherwise one per usable thread, limited by the free memory. Returns
/// InvalidArgument if MOEC_JOBS is not an integer.
Result<int> chooseJobs(int asked, size_t work);

/// Sorts kernels, given as indices in manifest order, by estimated compile
/// time, longest first. A long compilation that starts late would run alone
/// while other cores are idle. Kernels with more headers are estimated to take
/// longer. Among kernels with equally many headers, kernels for larger token
/// counts, which come last in a manifest, are estimated to take longer.
void orderByTime(std::vector<size_t> &kernels, const Target &target);

/// Compiles every kernel of a target. If kernels fail, returns the error of the
/// failed kernel that is first in manifest order. All other kernels are
/// compiled nevertheless, so that the cache contains them.
Result<CompileOutcome> compileKernels(const PackageFiles &files,
                                      const Target &target,
                                      const CompileSettings &settings);

/// Returns the recipe of one kernel, without the compiler's identity.
Result<Recipe> makeRecipe(const PackageFiles &files, const Target &target,
                          const Kernel &kernel);

/// Returns the PTX of one kernel. PTX is never cached.
Result<std::string> compileKernelToPtx(const PackageFiles &files,
                                       const Target &target,
                                       const Kernel &kernel);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEPOOL_H
