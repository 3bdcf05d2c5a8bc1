//===- Cache.h - compiled kernels on disk -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel cache has this layout:
//
//   <cache>/<arch>/<entry>-<16 hex digits of the key>/
//     recipe.json     the recipe's line, then {"cubin": SHA-256, "bytes": n}
//     kernel.cubin
//     kernel.cu, headers/, build.log    for human readers
//   <cache>/<arch>/<entry>-<16 hex>.lock            while it is compiled
//   <cache>/<arch>/<entry>-<16 hex>.damaged-...     for a week
//
// A folder appears by one rename and is never changed afterwards, so readers
// take no lock. A hit requires that the whole recipe is equal and that the
// cubin has its hash. Anything else at that path is moved aside and rebuilt.
// There is no fsync: files that a power failure damaged have another hash, and
// are then rebuilt. Only entries of this user and of root are used: see
// CacheFiles.h. Processes that miss the same key use flock so that only one of
// them compiles. If locking fails, each compiles and gets the same result.
// Threads of one process wait for one future. A folder that is not writable
// only causes a warning.
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
  double compileMilliseconds = 0; ///< in this process; 0 on a hit
};

class KernelCache {
public:
  /// Creates a cache in `folder`. An empty string means no cache on disk:
  /// everything is compiled.
  explicit KernelCache(std::string folder) : root(std::move(folder)) {}

  using Compile = std::function<Result<Cubin>(const Recipe &)>;

  /// Returns the cubin of a recipe: from disk, or compiled and stored. If the
  /// recipe names no compiler (none was found), an entry that differs only in
  /// the compiler is a hit. If `strict` is set, a miss is a StrictMiss error.
  /// Thread-safe. Errors: StrictMiss and those of `compile`; disk errors are
  /// never returned.
  Result<CachedCubin> get(const Recipe &recipe, bool strict,
                          const Compile &compile) const;

  /// Returns the path of the entry's folder.
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
