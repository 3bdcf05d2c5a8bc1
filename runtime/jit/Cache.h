//===- Cache.h - compiled kernels on disk -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   <cache>/<arch>/<entry>-<16 hex digits of the key>/
//     recipe.json     the recipe's line, then {"cubin": SHA-256, "bytes": n}
//     kernel.cubin
//     kernel.cu, headers/, build.log    for people
//   <cache>/<arch>/<entry>-<16 hex>.lock            while it is compiled
//   <cache>/<arch>/<entry>-<16 hex>.damaged-...     for a week
//
// A folder appears by one rename and is never changed afterwards, so readers
// take no lock. A hit needs the whole recipe to be equal and the cubin to have
// its hash; whatever else lies there is moved aside and rebuilt. No fsync:
// what a lost power leaves behind has another hash, and is then rebuilt.
// Entries are taken of this user and of root alone: see CacheFiles.h.
//
// Processes that miss the same key wait for one compiler by flock; where a lock
// cannot be had they compile twice, and get the same. Threads of one process
// wait for one future. A folder that cannot be written costs a warning.
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
  double compileMilliseconds = 0; ///< of this process, 0 on a hit
};

class KernelCache {
public:
  /// An empty folder means no cache on disk: everything is compiled.
  explicit KernelCache(std::string folder) : root(std::move(folder)) {}

  using Compile = std::function<Result<Cubin>(const Recipe &)>;

  /// The cubin of a recipe: from disk, or compiled and stored. Where the
  /// recipe names no compiler (none was found), an entry that is equal but for
  /// the compiler is a hit. `strict`: a miss is StrictMiss. Thread-safe.
  /// Errors: StrictMiss and what `compile` says; never the disk's.
  Result<CachedCubin> get(const Recipe &recipe, bool strict,
                          const Compile &compile) const;

  /// The entry's folder.
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
