//===- Limits.h - size limits of kernels and manifests ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The maximum sizes that a manifest and the kernels of templates/moe support.
// The compiler rejects layers that exceed them; the runtime rejects packages
// and runs that exceed them.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_LIMITS_H
#define MOEC_RUNTIME_PACKAGE_LIMITS_H

#include <cstddef>
#include <cstdint>

namespace moec {

/// Upper bound for the size of a matmul operand in bytes. Kernels count 16-byte
/// chunks of an operand in 32 bits.
inline constexpr int64_t kOperandBytes = int64_t(16) << 32;

/// Maximum number of (token, expert) pairs. It stays below 2^31 after it is
/// rounded up to whole tiles and blocks.
inline constexpr int64_t kMostRows = (int64_t(1) << 31) - (1 << 16);

/// Alignment of workspace, scratch and state in bytes.
inline constexpr int64_t kBaseAlignment = 256;

/// Maximum number of experts of a layer, and of entries in any table with one
/// entry per expert.
inline constexpr int64_t kMostExperts = 1 << 16;

/// Maximum number of ranks in a group and in a package; it exceeds the size of
/// any machine.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Maximum number of dimensions of a value, and of a tensor map.
inline constexpr size_t kMostDimensions = 8, kMostMapDimensions = 5;

/// Maximum number of element types that a value may have.
inline constexpr size_t kMostElementTypes = 16;

/// Maximum number of regions in a workspace, state or window. The validator
/// compares all pairs of regions.
inline constexpr size_t kMostRegions = 1000;

/// Maximum length of any other array in a manifest. Names are found by linear
/// search.
inline constexpr size_t kMostEntries = 4096;

/// Maximum number of ranks that write to each other's memory. One CTA waits for
/// the signals of all ranks.
inline constexpr int64_t kMostWindowRanks = 128;

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_LIMITS_H
