//===- SharedMemory.h - bytes a schedule needs ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host's copy of moe::sharedBytes of the kernel templates. Every emitted
// .cu asserts that both agree, so a change of one without the other does not
// compile.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_SCHEDULE_SHAREDMEMORY_H
#define MOEC_COMPILER_SCHEDULE_SHAREDMEMORY_H

#include "compiler/schedule/Problem.h"

namespace moec::compiler {

/// Dynamic shared memory of a grouped matmul, in bytes.
int64_t sharedBytes(const MatmulProblem &problem, const Schedule &schedule);

/// Registers a thread needs, estimated from accumulators and fragments; an
/// upper estimate that decides how many CTAs an SM is asked to hold.
int64_t estimateRegisters(const MatmulProblem &problem,
                          const Schedule &schedule);

/// CTAs that fit one SM by shared memory, registers and threads; 0 if none.
int64_t occupancy(const MatmulProblem &problem, const Schedule &schedule,
                  const Hardware &hardware);

} // namespace moec::compiler

#endif // MOEC_COMPILER_SCHEDULE_SHAREDMEMORY_H
