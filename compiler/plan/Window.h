//===- Window.h - where other ranks write -----------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A window is laid out for the most tokens, and alike on all ranks: a kernel
// finds a value in another rank's window where it finds its own. The words that
// ranks tell each other by come first.
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

/// The value in `state` by which the CTAs of a kernel know the last of them.
inline constexpr std::string_view kExchangeCounter = "exchange_counter";

/// Ranks that write into each other's windows; 1 where none does.
int64_t windowRanks(moe::ProgramOp program);

/// Adds the window's values and regions, and the counter in the state. Nothing
/// where there is no window.
Result<void> addWindow(moe::ProgramOp program, Target &target);

} // namespace moec::compiler

#endif // MOEC_COMPILER_PLAN_WINDOW_H
