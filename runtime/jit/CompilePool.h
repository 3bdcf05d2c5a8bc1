//===- CompilePool.h - the cubins of a package's kernels --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From kernels of a package to cubins: the package's own where they fit, else
// the cache's, else NVRTC's, in parallel. Loading, `moec-run --prebuild` and
// the compiler's ahead-of-time step all come here, so that they make and find
// the same entries.
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
  /// Compilations at once; 0: as chooseJobs() says.
  int jobs = 0;
  /// nullopt: envCacheFolder(); "": no cache on disk.
  std::optional<std::string> cacheFolder;
  std::string nvrtcPath; ///< of findNvrtc()
  /// Take cubins that the package holds.
  bool usePackageCubins = true;
  /// Make PTX for the emulator in place of cubins. Cubins of a package do not
  /// serve it.
  bool ptx = false;
  /// The deadline of waits inside of kernels, in milliseconds; 0: none. Cubins
  /// of a package have none, so that others are compiled.
  int64_t spinDeadline = 0;
};

struct CompiledKernel {
  std::string name; ///< Kernel::name
  std::string cubin;
  CubinSource source = CubinSource::Package;
  double compileMilliseconds = 0;
};

/// The numbers of a compilation, for reports.
struct CompileSummary : CompilersUsed {
  double compileMilliseconds = 0; ///< wall time of the whole step
  int jobs = 1;
};

struct CompileOutcome {
  std::vector<CompiledKernel> kernels; ///< in the order of Target::kernels
  CompileSummary summary;
};

/// How many of `work` compilations at once: `asked`, else MOEC_JOBS, else one
/// for each usable thread as far as free memory goes; from 1 to `work`.
/// InvalidArgument: MOEC_JOBS is no number.
Result<int> chooseJobs(int asked, size_t work);

/// Puts indices of kernels, in the order of the manifest, into the order in
/// which they begin: kernels of many headers take longest; among equals kernels
/// for many tokens, which a manifest has last. A kernel that takes long and
/// begins late is compiled alone while other cores idle.
void orderByTime(std::vector<size_t> &kernels, const Target &target);

/// Compiles every kernel of a target. The first error (by kernel order) wins;
/// the others are still tried, so that the cache fills.
Result<CompileOutcome> compileKernels(const PackageFiles &files,
                                      const Target &target,
                                      const CompileSettings &settings);

/// The recipe of one kernel, without the compiler's identity.
Result<Recipe> makeRecipe(const PackageFiles &files, const Target &target,
                          const Kernel &kernel);

/// The PTX of one kernel; never cached.
Result<std::string> compileKernelToPtx(const PackageFiles &files,
                                       const Target &target,
                                       const Kernel &kernel);

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_COMPILEPOOL_H
