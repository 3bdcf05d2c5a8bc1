//===- Search.h - schedules that are worth a measurement ------ -*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each list follows from what the lists before it gained.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_TUNE_SEARCH_H
#define MOEC_COMPILER_TUNE_SEARCH_H

#include "compiler/tune/Trial.h"
#include "compiler/tune/TunedInput.h"

namespace moec::compiler {

/// The best schedules for each size of tiles, best first by the model. That of
/// the choice's size is the choice, where it has schedules.
Result<std::vector<Trial>> centersOf(const TunedInput &input,
                                     const TokenRange &range,
                                     const DefaultChoice &choice);

/// Schedules beside the fastest centers; beside all of them where the options
/// are exhaustive.
std::vector<Trial> besideOf(std::vector<Trial> centers,
                            const TuneOptions &options,
                            const Hardware &hardware, int64_t tokens);

/// The fastest schedules of both matmuls together, as far as they are new.
std::vector<Trial> togetherOf(const std::vector<Trial> &all,
                              const Hardware &hardware, int64_t tokens);

} // namespace moec::compiler

#endif // MOEC_COMPILER_TUNE_SEARCH_H
