//===- Architectures.h - GPU architectures ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One row for each name that NVRTC 13.5 accepts (`nvrtc -arch=`), with the
// limits and features that kernels need. runtime/support/NvrtcVersions.h has
// the NVRTC release that each arch needs. Sizes are in bytes, from the CUDA C++
// Programming Guide 13.0, "Technical Specifications per Compute Capability".
// That table lacks sm_88, which has the limits of its smaller neighbors here,
// and sm_107 (Rubin), which has the limits of sm_100 here. Features are from
// PTX ISA 9.0, "Target ISA Notes" of each instruction. The features wgmma,
// tcgen05 and block_scaled_mma were also tested with NVRTC 13.0, and all
// features of sm_107 with NVRTC 13.5.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ARCHITECTURES_H
#define MOEC_DIALECT_CATALOG_ARCHITECTURES_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Architecture {
  std::string_view name; ///< the name that nvrtc -arch= accepts
  int major, minor;
  /// The GPUs that run the arch's cubins: "major" (same major version, and the
  /// same or a larger minor version), "family" (the family of an `f` arch) or
  /// "exact" (an `a` arch: only the same compute capability).
  std::string_view compatibility;
  int sharedPerBlock; ///< opt-in maximum per CTA, static + dynamic
  int sharedPerSm;
  int threadsPerSm;
  int blocksPerSm;
  std::string_view gpu = ""; ///< default GPU of the arch
  WordList features;

  constexpr bool has(std::string_view feature) const {
    return features.contains(feature);
  }
};

inline constexpr int kKib = 1024;

// Features of each generation.
#define MOEC_AMPERE "ldmatrix cp_async bf16 mma_sync"
// fp8_mma_sync: the GPU has an e4m3 mma.sync instruction. PTX has mma.sync for
// e4m3 from sm_89 on. For sm_90 to sm_110, however, ptxas converts the operands
// to f16 and multiplies the f16 values (seen in the cubins of NVRTC 13.0).
#define MOEC_ADA MOEC_AMPERE " fp8"
#define MOEC_HOPPER                                                            \
  MOEC_ADA " programmatic_launch clusters tma mbarrier stmatrix"

// clang-format off
inline constexpr Architecture kArchitectures[] = {
    {.name = "sm_75", .major = 7, .minor = 5, .compatibility = "major", .sharedPerBlock = 64 * kKib, .sharedPerSm = 64 * kKib,
     .threadsPerSm = 1024, .blocksPerSm = 16, .gpu = "t4", .features = "ldmatrix"},
    {.name = "sm_80", .major = 8, .minor = 0, .compatibility = "major", .sharedPerBlock = 163 * kKib, .sharedPerSm = 164 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "a100_sxm", .features = MOEC_AMPERE},
    {.name = "sm_86", .major = 8, .minor = 6, .compatibility = "major", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 16, .gpu = "a10", .features = MOEC_AMPERE},
    {.name = "sm_87", .major = 8, .minor = 7, .compatibility = "major", .sharedPerBlock = 163 * kKib, .sharedPerSm = 164 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 16, .gpu = "jetson_orin", .features = MOEC_AMPERE},
    {.name = "sm_88", .major = 8, .minor = 8, .compatibility = "major", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 16, .features = MOEC_AMPERE},
    {.name = "sm_89", .major = 8, .minor = 9, .compatibility = "major", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "l40s", .features = MOEC_ADA " fp8_mma_sync"},
    {.name = "sm_90", .major = 9, .minor = 0, .compatibility = "major", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "h100_sxm", .features = MOEC_HOPPER},
    {.name = "sm_90a", .major = 9, .minor = 0, .compatibility = "exact", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "h100_sxm", .features = MOEC_HOPPER " setmaxnreg wgmma"},
    {.name = "sm_100", .major = 10, .minor = 0, .compatibility = "major", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b200", .features = MOEC_HOPPER},
    {.name = "sm_100a", .major = 10, .minor = 0, .compatibility = "exact", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b200", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_100f", .major = 10, .minor = 0, .compatibility = "family", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b200", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_103", .major = 10, .minor = 3, .compatibility = "major", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b300", .features = MOEC_HOPPER},
    {.name = "sm_103a", .major = 10, .minor = 3, .compatibility = "exact", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b300", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_103f", .major = 10, .minor = 3, .compatibility = "family", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .gpu = "b300", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_107", .major = 10, .minor = 7, .compatibility = "major", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .features = MOEC_HOPPER},
    {.name = "sm_107a", .major = 10, .minor = 7, .compatibility = "exact", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_107f", .major = 10, .minor = 7, .compatibility = "family", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 2048, .blocksPerSm = 32, .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_110", .major = 11, .minor = 0, .compatibility = "major", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "jetson_thor", .features = MOEC_HOPPER},
    {.name = "sm_110a", .major = 11, .minor = 0, .compatibility = "exact", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "jetson_thor", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_110f", .major = 11, .minor = 0, .compatibility = "family", .sharedPerBlock = 227 * kKib, .sharedPerSm = 228 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "jetson_thor", .features = MOEC_HOPPER " setmaxnreg fp4 tcgen05"},
    {.name = "sm_120", .major = 12, .minor = 0, .compatibility = "major", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "rtx_5090", .features = MOEC_HOPPER " fp8_mma_sync"},
    {.name = "sm_120a", .major = 12, .minor = 0, .compatibility = "exact", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "rtx_5090", .features = MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma"},
    {.name = "sm_120f", .major = 12, .minor = 0, .compatibility = "family", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "rtx_5090", .features = MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma"},
    {.name = "sm_121", .major = 12, .minor = 1, .compatibility = "major", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "dgx_spark", .features = MOEC_HOPPER " fp8_mma_sync"},
    {.name = "sm_121a", .major = 12, .minor = 1, .compatibility = "exact", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "dgx_spark", .features = MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma"},
    {.name = "sm_121f", .major = 12, .minor = 1, .compatibility = "family", .sharedPerBlock = 99 * kKib, .sharedPerSm = 100 * kKib,
     .threadsPerSm = 1536, .blocksPerSm = 24, .gpu = "dgx_spark", .features = MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma"},
};
// clang-format on

#undef MOEC_AMPERE
#undef MOEC_ADA
#undef MOEC_HOPPER

/// Returns true if code for the arch `code` runs on a device of compute
/// capability major.minor. An `f` arch runs on the same major version from its
/// own minor version on.
constexpr bool runsOn(const Architecture &code, int major, int minor) {
  if (code.major != major)
    return false;
  return code.compatibility == "exact" ? code.minor == minor
                                       : code.minor <= minor;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ARCHITECTURES_H
