//===- Evidence.h - runs of kernels by arch ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A sentence for reports; docs/status.md has the runs.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_EVIDENCE_H
#define MOEC_DIALECT_CATALOG_EVIDENCE_H

#include <string_view>

namespace moec::catalog {

/// Returns the GPUs, or the emulator, that have run kernels of an arch.
constexpr std::string_view evidenceOf(std::string_view arch) {
  if (arch == "sm_90a")
    return "its kernels ran on H100 and H200";
  if (arch == "sm_80" || arch == "sm_100f" || arch == "sm_120a")
    return "no GPU has run its kernels; small layers ran on the emulator";
  return "no GPU has run its kernels; they were only compiled";
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_EVIDENCE_H
