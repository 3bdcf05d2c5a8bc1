//===- Evidence.h - what has run kernels ------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Archs and engines whose kernels have run, for reports; docs/status.md lists
// the runs. The test emulator.emulated fails if a list does not match the archs
// that it ran.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_EVIDENCE_H
#define MOEC_DIALECT_CATALOG_EVIDENCE_H

#include "dialect/catalog/Engines.h"

namespace moec::catalog {

/// Archs of the GPUs in bench/results/runs.csv.
inline constexpr WordList kArchsOfGpus = "sm_90a";
/// Archs for which small layers ran on the emulator with each engine.
inline constexpr WordList kEmulatedArchs =
    "sm_80 sm_89 sm_100a sm_100f sm_103a sm_120a sm_120f sm_121a";

/// Returns a sentence that states what has run the kernels of an arch.
constexpr std::string_view evidenceOf(std::string_view arch) {
  if (kArchsOfGpus.contains(arch))
    return "its kernels ran on H100 and H200";
  if (kEmulatedArchs.contains(arch))
    return "emulated, never run on this GPU: small layers ran on the emulator";
  return "never run on this GPU: its kernels were only compiled";
}

/// Returns true if a GPU has run kernels of the engine, on any arch.
constexpr bool hasRunOnGpu(const Engine &engine) {
  for (const std::string_view arch : kArchsOfGpus)
    if (find(kArchitectures, arch)
            ->features.firstMissing(engine.features)
            .empty())
      return true;
  return false;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_EVIDENCE_H
