//===- Candidates.h - legal schedules ---------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every schedule that may serve a problem on a GPU, in a fixed order. What is
// legal is said once, by whyIllegal, which also judges schedules that a user
// or a tuned row names.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_SCHEDULE_CANDIDATES_H
#define MOEC_COMPILER_SCHEDULE_CANDIDATES_H

#include "compiler/schedule/Problem.h"

#include <optional>
#include <vector>

namespace moec::compiler {

/// A sentence saying why the schedule cannot serve the problem, or nullopt.
std::optional<std::string> whyIllegal(const MatmulProblem &problem,
                                      const Schedule &schedule,
                                      const Hardware &hardware);

/// A sentence saying why kernels of `engine` leave it to a launch of its own to
/// quantize a result of which so many columns share a scale, with m tiles of so
/// many rows; nullopt where a CTA's tile has whole groups and its epilogue does
/// it. Every such problem has candidates.
std::optional<std::string> whyGroupsApart(const std::string &engine,
                                          int64_t tileRows, int64_t columns,
                                          bool gated);

/// Legal schedules of the engine, ctasPerSm filled in. Never empty for a
/// problem with a tile row count that its rules have on a catalog GPU.
std::vector<Schedule> candidates(const MatmulProblem &problem,
                                 const std::string &engine,
                                 const Hardware &hardware);

/// What measured well over several layers on GPUs with large shared memory
/// (source "default"), with one of these engines: the table says which. nullopt
/// where nothing of it is legal.
std::optional<Schedule> knownGood(const MatmulProblem &problem,
                                  const std::vector<std::string> &engines,
                                  const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_SCHEDULE_CANDIDATES_H
