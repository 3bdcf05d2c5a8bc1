//===- Limits.h - size limits of kernels and manifests ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The largest sizes that the kernels of templates/moe and a manifest may have.
// The compiler refuses sizes that follow from the layer; the runtime refuses
// sizes that follow from a package or a run.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_LIMITS_H
#define MOEC_RUNTIME_PACKAGE_LIMITS_H

#include <cstddef>
#include <cstdint>

namespace moec {

/// Upper bound of the size of a matmul operand in bytes: kernels count its
/// 16-byte chunks in 32 bits.
inline constexpr int64_t kOperandBytes = int64_t(16) << 32;

/// Maximum number of (token, expert) pairs: below 2^31, even if it is rounded
/// up to whole tiles and blocks.
inline constexpr int64_t kMostRows = (int64_t(1) << 31) - (1 << 16);

/// Alignment of workspace, scratch and state in bytes.
inline constexpr int64_t kBaseAlignment = 256;

/// Maximum number of experts of a layer, and of anything that has one entry per
/// expert.
inline constexpr int64_t kMostExperts = 1 << 16;

/// Maximum number of ranks of a group and of a package; no machine has as many.
inline constexpr int64_t kMostRanks = 1 << 20;

/// Maximum number of dimensions of a value, and of a tensor map.
inline constexpr size_t kMostDimensions = 8, kMostMapDimensions = 5;

/// Maximum number of element types from which the caller of a value may choose.
inline constexpr size_t kMostElementTypes = 16;

/// Maximum number of regions of a workspace, state or window. Each region is
/// compared with all others.
inline constexpr size_t kMostRegions = 1000;

/// Maximum number of elements of any other array of a manifest. Names are found
/// by linear search.
inline constexpr size_t kMostEntries = 4096;

/// Maximum number of ranks that write to each other's memory: one CTA waits for
/// all of them.
inline constexpr int64_t kMostWindowRanks = 128;

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_LIMITS_H
