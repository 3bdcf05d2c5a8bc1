//===- Gpus.h - GPUs that schedules assume ----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Code never depends on a GPU; token ranges and schedules may. Bandwidth is in
// GB/s, L2 in MiB, memory in GB, and the dense bf16 matmul rate with f32
// accumulation in TFLOP/s (f16 on GPUs without bf16), all as NVIDIA specifies
// them. Measured values have their own columns; 0 means not measured.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_GPUS_H
#define MOEC_DIALECT_CATALOG_GPUS_H

#include "dialect/catalog/Architectures.h"

namespace moec::catalog {

struct Gpu {
  std::string_view name;
  std::string_view arch; ///< the best arch for the GPU, a row of kArchitectures
  int sms;
  double bandwidth;
  double l2;
  double matmulRate;
  double memory;
  double measuredBandwidth = 0;
  double measuredMatmulRate = 0;
  /// TFLOP/s with two 8-bit floating-point operands.
  double measuredFp8Rate = 0;
  /// False if schedules were tested with the specified instead of the measured
  /// values.
  bool schedulesByMeasured = true;
  /// Substrings of the driver's device name, separated by '|'. A device belongs
  /// to the first row with a matching pattern, so longer names come first.
  std::string_view devices;
  std::string_view source;
};

// clang-format off
inline constexpr Gpu kGpus[] = {
    {.name = "t4", .arch = "sm_75", .sms = 40, .bandwidth = 320, .l2 = 4, .matmulRate = 65, .memory = 16, .devices = "Tesla T4",
     .source = "NVIDIA T4 datasheet (f16); Turing whitepaper (SMs, L2)"},
    {.name = "a100_pcie", .arch = "sm_80", .sms = 108, .bandwidth = 1935, .l2 = 40, .matmulRate = 312, .memory = 80,
     .devices = "A100 80GB PCIe", .source = "NVIDIA A100 datasheet, 80GB PCIe"},
    {.name = "a100_sxm", .arch = "sm_80", .sms = 108, .bandwidth = 2039, .l2 = 40, .matmulRate = 312, .memory = 80,
     .devices = "A100-SXM4-80GB|A100", .source = "NVIDIA A100 datasheet, 80GB SXM"},
    {.name = "a30", .arch = "sm_80", .sms = 56, .bandwidth = 933, .l2 = 24, .matmulRate = 165, .memory = 24, .devices = "NVIDIA A30",
     .source = "NVIDIA A30 datasheet"},
    {.name = "a10g", .arch = "sm_86", .sms = 80, .bandwidth = 600, .l2 = 6, .matmulRate = 70, .memory = 24, .devices = "A10G",
     .source = "AWS G5 instance page (bandwidth); GA102 whitepaper (L2)"},
    {.name = "a10", .arch = "sm_86", .sms = 72, .bandwidth = 600, .l2 = 6, .matmulRate = 125, .memory = 24, .devices = "NVIDIA A10",
     .source = "NVIDIA A10 datasheet; GA102 whitepaper (L2)"},
    {.name = "rtx_3090", .arch = "sm_86", .sms = 82, .bandwidth = 936, .l2 = 6, .matmulRate = 71, .memory = 24, .devices = "RTX 3090",
     .source = "NVIDIA GA102 whitepaper, appendix"},
    {.name = "jetson_orin", .arch = "sm_87", .sms = 16, .bandwidth = 204.8, .l2 = 4, .matmulRate = 42, .memory = 64, .devices = "Orin",
     .source = "Jetson AGX Orin technical brief, 64GB"},
    {.name = "l4", .arch = "sm_89", .sms = 58, .bandwidth = 300, .l2 = 48, .matmulRate = 121, .memory = 24, .devices = "NVIDIA L4",
     .source = "NVIDIA L4 datasheet (sparse rate halved); Ada whitepaper (L2)"},
    {.name = "l40s", .arch = "sm_89", .sms = 142, .bandwidth = 864, .l2 = 96, .matmulRate = 362, .memory = 48, .devices = "L40S",
     .source = "NVIDIA L40S datasheet; Ada whitepaper (SMs, L2)"},
    {.name = "rtx_4090", .arch = "sm_89", .sms = 128, .bandwidth = 1008, .l2 = 72, .matmulRate = 165.2, .memory = 24, .devices = "RTX 4090",
     .source = "NVIDIA Ada whitepaper, appendix"},
    {.name = "h100_pcie", .arch = "sm_90a", .sms = 114, .bandwidth = 2039, .l2 = 50, .matmulRate = 756, .memory = 80,
     .devices = "H100 PCIe", .source = "NVIDIA H100 datasheet, PCIe (sparse rate halved)"},
    {.name = "h100_nvl", .arch = "sm_90a", .sms = 132, .bandwidth = 3938, .l2 = 50, .matmulRate = 835.5, .memory = 94,
     .devices = "H100 NVL", .source = "NVIDIA H100 datasheet, NVL (sparse rate halved)"},
    {.name = "gh200", .arch = "sm_90a", .sms = 132, .bandwidth = 4000, .l2 = 60, .matmulRate = 990, .memory = 96, .devices = "GH200",
     .source = "NVIDIA GH200 datasheet, 96GB HBM3 (sparse rate halved)"},
    {.name = "h100_sxm", .arch = "sm_90a", .sms = 132, .bandwidth = 3350, .l2 = 50, .matmulRate = 989.4, .memory = 80,
     .measuredBandwidth = 3150, .measuredMatmulRate = 781, .measuredFp8Rate = 1402, .devices = "H100 80GB HBM3|H100",
     .source = "NVIDIA H100 datasheet, SXM; measured 2026-11-20: xor reduction of 4 GiB, cuBLAS bf16 and cuBLASLt e4m3, 8192^3"},
    {.name = "h200_sxm", .arch = "sm_90a", .sms = 132, .bandwidth = 4800, .l2 = 50, .matmulRate = 989.4, .memory = 141,
     .measuredBandwidth = 4583, .measuredMatmulRate = 762, .measuredFp8Rate = 1498, .schedulesByMeasured = false, .devices = "H200",
     .source = "NVIDIA H200 datasheet, SXM (sparse rate halved); measured 2026-11-22: as for h100_sxm, the best of three cards"},
    {.name = "h20", .arch = "sm_90a", .sms = 78, .bandwidth = 4000, .l2 = 60, .matmulRate = 148, .memory = 96, .devices = "H20",
     .source = "published figures that agree (rate, bandwidth, L2; SMs by Geekbench); no public NVIDIA datasheet"},
    {.name = "b200", .arch = "sm_100a", .sms = 148, .bandwidth = 8000, .l2 = 126, .matmulRate = 2250, .memory = 180, .devices = "B200",
     .source = "NVIDIA DGX B200 datasheet, per GPU (sparse rate halved); Blackwell tuning guide (L2); SMs not checked"},
    {.name = "b300", .arch = "sm_103a", .sms = 148, .bandwidth = 8000, .l2 = 126, .matmulRate = 2250, .memory = 288, .devices = "B300",
     .source = "NVIDIA HGX B300 datasheet, per GPU (sparse rate halved: 36 PFLOP/s / 2 / 8); SMs (at most 160) and L2 not checked"},
    {.name = "jetson_thor", .arch = "sm_110a", .sms = 20, .bandwidth = 273, .l2 = 32, .matmulRate = 258, .memory = 128, .devices = "Thor",
     .source = "NVIDIA Jetson Thor T5000 datasheet (a quarter of the dense fp4 rate)"},
    {.name = "rtx_pro_6000", .arch = "sm_120a", .sms = 188, .bandwidth = 1792, .l2 = 128, .matmulRate = 503.8, .memory = 96,
     .devices = "RTX PRO 6000",
     .source = "NVIDIA RTX Blackwell PRO whitepaper, appendix; workstation edition (the server edition has 1597 GB/s)"},
    {.name = "rtx_5090", .arch = "sm_120a", .sms = 170, .bandwidth = 1792, .l2 = 96, .matmulRate = 209.5, .memory = 32,
     .devices = "RTX 5090", .source = "NVIDIA RTX Blackwell whitepaper, appendix"},
    {.name = "dgx_spark", .arch = "sm_121a", .sms = 48, .bandwidth = 273, .l2 = 24, .matmulRate = 125, .memory = 128, .devices = "GB10",
     .source = "NVIDIA DGX Spark datasheet (an eighth of the sparse fp4 rate)"},
};
// clang-format on

constexpr bool areDefaultGpusRows() {
  for (const Architecture &arch : kArchitectures)
    if (!arch.gpu.empty() && !find(kGpus, arch.gpu))
      return false;
  return true;
}
static_assert(areDefaultGpusRows());

/// The rates from which the lower bound of a layer's time is computed.
struct FloorRates {
  double bandwidth;  ///< GB/s
  double matmulRate; ///< TFLOP/s with 16-bit operands
  double fp8Rate;    ///< TFLOP/s with two 8-bit floating-point operands
  bool measured;     ///< true if measured, false if specified by NVIDIA
};

constexpr FloorRates floorRates(const Gpu &gpu) {
  // Every GPU with 8-bit matmuls runs them at twice the 16-bit rate.
  if (gpu.measuredBandwidth <= 0 || gpu.measuredMatmulRate <= 0)
    return {gpu.bandwidth, gpu.matmulRate, 2 * gpu.matmulRate, false};
  return {gpu.measuredBandwidth, gpu.measuredMatmulRate,
          gpu.measuredFp8Rate > 0 ? gpu.measuredFp8Rate
                                  : 2 * gpu.measuredMatmulRate,
          true};
}

/// Returns the row with a device pattern that occurs in the driver's device
/// name, or null.
constexpr const Gpu *findGpuByDevice(std::string_view deviceName) {
  for (const Gpu &gpu : kGpus) {
    std::string_view patterns = gpu.devices;
    while (!patterns.empty()) {
      const size_t end = patterns.find('|');
      const std::string_view pattern = patterns.substr(0, end);
      const size_t at = deviceName.find(pattern);
      if (at != std::string_view::npos) {
        // "H20" must not match "H200", nor "A10" match "A100".
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
