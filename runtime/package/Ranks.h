//===- Ranks.h - one rank of a package --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package serves every rank of its manifest's table with the same kernels. A
// run is one rank's: a manifest is narrowed to it before anything is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_RANKS_H
#define MOEC_RUNTIME_PACKAGE_RANKS_H

#include "runtime/package/Manifest.h"

#include <span>

namespace moec {

/// "rank 3", "ranks 0 to 63", "ranks 0, 2 and 5", for messages. Ascending.
std::string describeRanks(std::span<const int64_t> ranks);
std::vector<int64_t> ranksOf(const Manifest &manifest);

/// The error of a rank that the package is not for.
Error rankNotInPackage(std::string_view name, const std::vector<int64_t> &ranks,
                       int64_t rank);

/// The manifest for one of its ranks: `ranks` holds that one alone, and `layer`
/// what the table says of it. Without a rank the package must have one alone.
/// InvalidArgument names the ranks that there are.
Result<Manifest> ofRank(Manifest manifest, std::optional<int64_t> rank);

/// Sets what arguments may have of the manifest's only rank; of several ranks
/// nothing, so that no argument can take one for another.
void setRankSymbols(const Manifest &manifest, Symbols &symbols);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_RANKS_H
