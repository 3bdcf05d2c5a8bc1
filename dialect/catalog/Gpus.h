//===- Gpus.h - the GPUs that ranges and schedules assume -------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Code never depends on a GPU; token ranges and schedules may. Bandwidth in
// GB/s, L2 in MiB, dense bf16 (f16 where there is no bf16) matmul rate with
// f32 accumulation in TFLOP/s, memory in GB, all as the maker states them;
// measured numbers stand in columns of their own, 0 where nobody measured.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_GPUS_H
#define MOEC_DIALECT_CATALOG_GPUS_H

#include "dialect/catalog/Architectures.h"

namespace moec::catalog {

struct Gpu {
  std::string_view name;
  std::string_view arch; ///< the row of kArchitectures that serves it best
  int sms;
  double bandwidth;
  double l2;
  double matmulRate;
  double memory;
  double measuredBandwidth;
  double measuredMatmulRate;
  /// Substrings of the driver's device name, separated by '|'; the first row
  /// with a pattern in the name is the device's, hence the longer names first.
  std::string_view devices;
  std::string_view source;
};

inline constexpr Gpu kGpus[] = {
    {"t4", "sm_75", 40, 320, 4, 65, 16, 0, 0, "Tesla T4",
     "NVIDIA T4 datasheet (f16); Turing whitepaper (SMs, L2)"},
    {"a100_pcie", "sm_80", 108, 1935, 40, 312, 80, 0, 0, "A100 80GB PCIe",
     "NVIDIA A100 datasheet, 80GB PCIe"},
    {"a100_sxm", "sm_80", 108, 2039, 40, 312, 80, 0, 0, "A100-SXM4-80GB|A100",
     "NVIDIA A100 datasheet, 80GB SXM"},
    {"a30", "sm_80", 56, 933, 24, 165, 24, 0, 0, "NVIDIA A30",
     "NVIDIA A30 datasheet"},
    {"a10g", "sm_86", 80, 600, 6, 70, 24, 0, 0, "A10G",
     "AWS G5 instance page (bandwidth); GA102 whitepaper (L2)"},
    {"a10", "sm_86", 72, 600, 6, 125, 24, 0, 0, "NVIDIA A10",
     "NVIDIA A10 datasheet; GA102 whitepaper (L2)"},
    {"rtx_3090", "sm_86", 82, 936, 6, 71, 24, 0, 0, "RTX 3090",
     "NVIDIA GA102 whitepaper, appendix"},
    {"jetson_orin", "sm_87", 16, 204.8, 4, 42, 64, 0, 0, "Orin",
     "Jetson AGX Orin technical brief, 64GB"},
    {"l4", "sm_89", 58, 300, 48, 121, 24, 0, 0, "NVIDIA L4",
     "NVIDIA L4 datasheet (sparse rate halved); Ada whitepaper (L2)"},
    {"l40s", "sm_89", 142, 864, 96, 362, 48, 0, 0, "L40S",
     "NVIDIA L40S datasheet; Ada whitepaper (SMs, L2)"},
    {"rtx_4090", "sm_89", 128, 1008, 72, 165.2, 24, 0, 0, "RTX 4090",
     "NVIDIA Ada whitepaper, appendix"},
    {"h100_pcie", "sm_90a", 114, 2039, 50, 756, 80, 0, 0, "H100 PCIe",
     "NVIDIA H100 datasheet, PCIe (sparse rate halved)"},
    {"h100_nvl", "sm_90a", 132, 3938, 50, 835.5, 94, 0, 0, "H100 NVL",
     "NVIDIA H100 datasheet, NVL (sparse rate halved)"},
    {"gh200", "sm_90a", 132, 4000, 60, 990, 96, 0, 0, "GH200",
     "NVIDIA GH200 datasheet, 96GB HBM3 (sparse rate halved)"},
    {"h100_sxm", "sm_90a", 132, 3350, 50, 989.4, 80, 3150, 781,
     "H100 80GB HBM3|H100",
     "NVIDIA H100 datasheet, SXM; measured 2026-11-20: xor reduction of 4 GiB, "
     "cuBLAS bf16 8192^3"},
    {"h200_sxm", "sm_90a", 132, 4800, 50, 989.4, 141, 0, 0, "H200",
     "NVIDIA H200 datasheet, SXM (sparse rate halved)"},
    {"h20", "sm_90a", 78, 4000, 60, 148, 96, 0, 0, "H20",
     "published figures that agree (rate, bandwidth, L2; SMs by Geekbench); no "
     "public NVIDIA datasheet"},
    {"b200", "sm_100a", 148, 8000, 126, 2250, 180, 0, 0, "B200",
     "NVIDIA DGX B200 datasheet, per GPU (sparse rate halved); Blackwell "
     "tuning guide (L2); SMs not checked"},
    {"b300", "sm_103a", 148, 8000, 126, 2250, 288, 0, 0, "B300",
     "NVIDIA HGX B300 datasheet, per GPU (sparse rate halved: 36 PFLOP/s / 2 "
     "/ 8); SMs (at most 160) and L2 not checked"},
    {"jetson_thor", "sm_110a", 20, 273, 32, 258, 128, 0, 0, "Thor",
     "NVIDIA Jetson Thor T5000 datasheet (a quarter of the dense fp4 rate)"},
    {"rtx_pro_6000", "sm_120a", 188, 1792, 128, 503.8, 96, 0, 0, "RTX PRO 6000",
     "NVIDIA RTX Blackwell PRO whitepaper, appendix; workstation edition (the "
     "server edition has 1597 GB/s)"},
    {"rtx_5090", "sm_120a", 170, 1792, 96, 209.5, 32, 0, 0, "RTX 5090",
     "NVIDIA RTX Blackwell whitepaper, appendix"},
    {"dgx_spark", "sm_121a", 48, 273, 24, 125, 128, 0, 0, "GB10",
     "NVIDIA DGX Spark datasheet (an eighth of the sparse fp4 rate)"},
};

/// The row whose device patterns occur in the driver's device name, or null.
constexpr const Gpu *findGpuByDevice(std::string_view deviceName) {
  for (const Gpu &gpu : kGpus) {
    std::string_view patterns = gpu.devices;
    while (!patterns.empty()) {
      const size_t end = patterns.find('|');
      const std::string_view pattern = patterns.substr(0, end);
      const size_t at = deviceName.find(pattern);
      if (at != std::string_view::npos) {
        // "H20" must not take "H200", nor "A10" the "A100".
        const size_t after = at + pattern.size();
        if (after == deviceName.size() || deviceName[after] == ' ' ||
            deviceName[after] == '-')
          return &gpu;
      }
      if (end == std::string_view::npos)
        break;
      patterns.remove_prefix(end + 1);
    }
  }
  return nullptr;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_GPUS_H
