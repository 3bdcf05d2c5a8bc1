//===- Cache.h - compiled kernels on disk -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel cache has this folder layout; recipe.json has two lines:
//
//   <cache>/<arch>/<entry>-<16 hex digits of the key>/
//     recipe.json     the recipe's line, then {"cubin": SHA-256, "bytes": n}
//     kernel.cubin
//     kernel.cu, headers/, build.log    for human readers
//   <cache>/<arch>/<entry>-<16 hex>.lock            during the compilation
//   <cache>/<arch>/<entry>-<16 hex>.damaged-...     for a week
//
// An entry folder appears by one rename and is never changed afterwards, so
// readers need no lock. A hit requires that the whole recipe is equal and that
// the cubin has the stored hash. Anything else at an entry's path is renamed
// and the entry is rebuilt. fsync is not used: files that a power failure
// damaged have a wrong hash and are rebuilt. Only entries that this user or
// root owns are used (see CacheFiles.h). If several processes miss the same
// key, flock ensures that only one of them compiles. If locking fails, each
// process compiles and gets the same result. The threads of one process wait
// for a shared future. If the cache folder is not writable, a warning is logged
// and kernels are compiled without storing them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_JIT_CACHE_H
#define MOEC_RUNTIME_JIT_CACHE_H

#include "runtime/jit/Recipe.h"
#include "runtime/support/Result.h"

#include <functional>
#include <memory>
#include <string>

namespace moec::runtime {

enum class CubinSource { Package, Cache, Compiled };
std::string_view cubinSourceName(CubinSource source);

struct CachedCubin {
  std::string bytes;
  CubinSource source = CubinSource::Cache;
  double compileMilliseconds = 0; ///< time in this process; 0 on a hit
};

class KernelCache {
public:
  /// Creates a cache in `folder`. If `folder` is empty, there is no cache on
  /// disk and every kernel is compiled.
  explicit KernelCache(std::string folder) : root(std::move(folder)) {}

  using Compile = std::function<Result<Cubin>(const Recipe &)>;

  /// Returns the cubin for a recipe: from the cache on disk, or compiled and
  /// then stored. If the recipe's compiler is empty (no NVRTC was found), an
  /// entry that differs only in the compiler is also a hit. If `strict` is set,
  /// a miss is a StrictMiss error. Thread-safe. Errors: StrictMiss and the
  /// errors of `compile`. Disk errors are logged but never returned.
  Result<CachedCubin> get(const Recipe &recipe, bool strict,
                          const Compile &compile) const;

  /// Returns the path of the recipe's entry folder.
  std::string entryFolder(const Recipe &recipe) const;

private:
  struct Lookup;
  Lookup lookUp(const Recipe &recipe, const std::string &folder) const;
  Lookup lookUpAnyCompiler(const Recipe &recipe) const;
  void store(const Recipe &recipe, const Cubin &cubin,
             const std::string &folder) const;
  Result<CachedCubin> getUnshared(const Recipe &recipe, bool strict,
                                  const Compile &compile) const;

  std::string root;
};

} // namespace moec::runtime

#endif // MOEC_RUNTIME_JIT_CACHE_H
