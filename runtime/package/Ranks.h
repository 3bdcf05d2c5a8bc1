//===- Ranks.h - one rank of a package --------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A package contains the same kernels for every rank of its manifest's table. A
// run belongs to one rank, so the manifest is narrowed to that rank before
// anything is loaded.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_RANKS_H
#define MOEC_RUNTIME_PACKAGE_RANKS_H

#include "runtime/package/Manifest.h"

#include <span>

namespace moec {

/// Returns a text for messages: "rank 3", "ranks 0 to 63" or "ranks 0, 2 and
/// 5". `ranks` must be ascending.
std::string describeRanks(std::span<const int64_t> ranks);
std::vector<int64_t> ranksOf(const Manifest &manifest);

/// Returns the error for a rank that the package does not have.
Error rankNotInPackage(std::string_view name, const std::vector<int64_t> &ranks,
                       int64_t rank);

/// Returns the manifest narrowed to one rank: `ranks` contains only that rank,
/// and `layer` contains its properties. Without `rank` the package must have
/// only one rank. An InvalidArgument error lists the available ranks.
Result<Manifest> ofRank(Manifest manifest, std::optional<int64_t> rank);

/// Sets the rank symbols if the manifest has only one rank. If it has several
/// ranks, the symbols remain absent, so that an argument cannot use another
/// rank's value.
void setRankSymbols(const Manifest &manifest, Symbols &symbols);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_RANKS_H
