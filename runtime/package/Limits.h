//===- Limits.h - what kernels count in so many bits ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sizes that no kernel of templates/moe may meet, and what a manifest may have:
// the compiler refuses those that follow from the layer, the runtime those that
// follow from a package or a run.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_LIMITS_H
#define MOEC_RUNTIME_PACKAGE_LIMITS_H

#include <cstddef>
#include <cstdint>

namespace moec {

/// The bound of an operand of a matmul, in bytes: its pieces of 16 bytes are
/// counted in 32 bits.
inline constexpr int64_t kOperandBytes = int64_t(16) << 32;

/// Pairs of a token and an expert at most: below 2^31, also when they are
/// rounded up to whole tiles and blocks.
inline constexpr int64_t kMostRows = (int64_t(1) << 31) - (1 << 16);

/// Workspace, scratch and state begin at a multiple of this [bytes].
inline constexpr int64_t kBaseAlignment = 256;

/// Experts of a layer, and what is counted like them: a stage keeps something
/// for each.
inline constexpr int64_t kMostExperts = 1 << 16;

/// Ranks of a group, and ranks that a package serves: more than any machine
/// has.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Dimensions of a value, and of a tensor map.
inline constexpr size_t kMostDimensions = 8, kMostMapDimensions = 5;

/// Element types between which the caller of a value chooses.
inline constexpr size_t kMostElementTypes = 16;

/// Regions of a workspace, a state or a window: each is compared with each.
inline constexpr size_t kMostRegions = 1000;

/// Entries of any other array of a manifest: names are looked up one by one.
inline constexpr size_t kMostEntries = 4096;

/// Ranks that write into each other's memory: one CTA waits for all.
inline constexpr int64_t kMostWindowRanks = 128;

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_LIMITS_H
