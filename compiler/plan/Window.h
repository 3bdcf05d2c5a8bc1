//===- Window.h - memory that other ranks write -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The window is memory of this rank that other ranks write. Its layout is fixed
// for the largest token count and identical on all ranks. A kernel therefore
// finds a value at the same offset in every rank's window. The first words of
// the window are the words with which ranks synchronize.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PLAN_WINDOW_H
#define MOEC_COMPILER_PLAN_WINDOW_H

#include "dialect/Moe.h"
#include "runtime/support/Result.h"

#include <string_view>

namespace moec {
struct Target;
}

namespace moec::compiler {

/// Name of the counter in `state` with which a kernel's CTAs determine which of
/// them finishes last.
inline constexpr std::string_view kExchangeCounter = "exchange_counter";

/// Returns the number of ranks that write into each other's windows, or 1 if
/// the program has no window.
int64_t windowRanks(moe::ProgramOp program);

/// Adds the window's values and regions, and the exchange counter in `state`.
/// Does nothing if the program has no window.
Result<void> addWindow(moe::ProgramOp program, Target &target);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_WINDOW_H
