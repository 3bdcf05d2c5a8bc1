//===- Window.h - memory that other ranks write -----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The window is memory of a rank that other ranks write. Its layout is fixed,
// for the largest token count, and identical on all ranks. A kernel therefore
// finds a value at the same offset in every rank's window. The words with which
// ranks synchronize come first.
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

/// Name of the counter in `state` with which the CTAs of a kernel determine
/// which of them is the last one.
inline constexpr std::string_view kExchangeCounter = "exchange_counter";

/// Returns the number of ranks that write into each other's windows; 1 if the
/// program has no window.
int64_t windowRanks(moe::ProgramOp program);

/// Adds the window's values and regions and the exchange counter in `state`.
/// Does nothing if the program has no window.
Result<void> addWindow(moe::ProgramOp program, Target &target);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_WINDOW_H
