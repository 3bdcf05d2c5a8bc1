//===- Architectures.h - what an arch can do --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One row for each name that NVRTC 13.0 compiles for (`nvrtc -arch=`), with
// the limits and the features that kernels ask for. Sizes in bytes, from the
// CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute
// Capability"; sm_88 is not in that table and has the smaller neighbours'
// limits. Features: PTX ISA 9.0, "Target ISA Notes" of each instruction; those
// of wgmma, tcgen05 and block_scaled_mma were also tried with NVRTC 13.0.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_ARCHITECTURES_H
#define MOEC_DIALECT_CATALOG_ARCHITECTURES_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct Architecture {
  std::string_view name; ///< as -arch= takes it
  int major, minor;
  int sharedPerBlock; ///< the most that a kernel may ask for, dynamic + static
  int sharedPerSm;
  int threadsPerSm;
  int blocksPerSm;
  /// Where its cubins run: "major" (same major, minor not smaller), "family"
  /// (the family of an `f` arch), "exact" (an `a` arch: itself alone).
  std::string_view compatibility;
  std::string_view features;
  std::string_view gpu; ///< the GPU assumed when none is named, or empty

  constexpr bool has(std::string_view feature) const {
    return hasWord(features, feature);
  }
};

inline constexpr int kKib = 1024;

// Features that come with a generation.
#define MOEC_AMPERE "ldmatrix cp_async bf16 mma_sync"
// fp8_mma_sync: an instruction of the machine. PTX has mma.sync of e4m3 from
// sm_89 on, but for sm_90 to sm_110 ptxas makes conversions and a multiply of
// halves of it (seen in the cubins of NVRTC 13.0).
#define MOEC_ADA MOEC_AMPERE " fp8"
#define MOEC_HOPPER                                                            \
  MOEC_ADA " programmatic_launch clusters tma mbarrier stmatrix"

inline constexpr Architecture kArchitectures[] = {
    {"sm_75", 7, 5, 64 * kKib, 64 * kKib, 1024, 16, "major", "ldmatrix", "t4"},
    {"sm_80", 8, 0, 163 * kKib, 164 * kKib, 2048, 32, "major", MOEC_AMPERE,
     "a100_sxm"},
    {"sm_86", 8, 6, 99 * kKib, 100 * kKib, 1536, 16, "major", MOEC_AMPERE,
     "a10"},
    {"sm_87", 8, 7, 163 * kKib, 164 * kKib, 1536, 16, "major", MOEC_AMPERE,
     "jetson_orin"},
    {"sm_88", 8, 8, 99 * kKib, 100 * kKib, 1536, 16, "major", MOEC_AMPERE, ""},
    {"sm_89", 8, 9, 99 * kKib, 100 * kKib, 1536, 24, "major",
     MOEC_ADA " fp8_mma_sync", "l40s"},
    {"sm_90", 9, 0, 227 * kKib, 228 * kKib, 2048, 32, "major", MOEC_HOPPER,
     "h100_sxm"},
    {"sm_90a", 9, 0, 227 * kKib, 228 * kKib, 2048, 32, "exact",
     MOEC_HOPPER " setmaxnreg wgmma", "h100_sxm"},
    {"sm_100", 10, 0, 227 * kKib, 228 * kKib, 2048, 32, "major", MOEC_HOPPER,
     "b200"},
    {"sm_100a", 10, 0, 227 * kKib, 228 * kKib, 2048, 32, "exact",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "b200"},
    {"sm_100f", 10, 0, 227 * kKib, 228 * kKib, 2048, 32, "family",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "b200"},
    {"sm_103", 10, 3, 227 * kKib, 228 * kKib, 2048, 32, "major", MOEC_HOPPER,
     "b300"},
    {"sm_103a", 10, 3, 227 * kKib, 228 * kKib, 2048, 32, "exact",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "b300"},
    {"sm_103f", 10, 3, 227 * kKib, 228 * kKib, 2048, 32, "family",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "b300"},
    {"sm_110", 11, 0, 227 * kKib, 228 * kKib, 1536, 24, "major", MOEC_HOPPER,
     "jetson_thor"},
    {"sm_110a", 11, 0, 227 * kKib, 228 * kKib, 1536, 24, "exact",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "jetson_thor"},
    {"sm_110f", 11, 0, 227 * kKib, 228 * kKib, 1536, 24, "family",
     MOEC_HOPPER " setmaxnreg fp4 tcgen05", "jetson_thor"},
    {"sm_120", 12, 0, 99 * kKib, 100 * kKib, 1536, 24, "major",
     MOEC_HOPPER " fp8_mma_sync", "rtx_5090"},
    {"sm_120a", 12, 0, 99 * kKib, 100 * kKib, 1536, 24, "exact",
     MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma", "rtx_5090"},
    {"sm_120f", 12, 0, 99 * kKib, 100 * kKib, 1536, 24, "family",
     MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma", "rtx_5090"},
    {"sm_121", 12, 1, 99 * kKib, 100 * kKib, 1536, 24, "major",
     MOEC_HOPPER " fp8_mma_sync", "dgx_spark"},
    {"sm_121a", 12, 1, 99 * kKib, 100 * kKib, 1536, 24, "exact",
     MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma", "dgx_spark"},
    {"sm_121f", 12, 1, 99 * kKib, 100 * kKib, 1536, 24, "family",
     MOEC_HOPPER " fp8_mma_sync setmaxnreg fp4 block_scaled_mma", "dgx_spark"},
};

#undef MOEC_AMPERE
#undef MOEC_ADA
#undef MOEC_HOPPER

/// Whether code for `code` runs on a device of compute capability
/// major.minor. An `f` arch serves its major from its own minor on.
constexpr bool runsOn(const Architecture &code, int major, int minor) {
  if (code.major != major)
    return false;
  return code.compatibility == "exact" ? code.minor == minor
                                       : code.minor <= minor;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_ARCHITECTURES_H
