//===- pdl.cuh - the protocol of programmatic dependent launch --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every CTA calls awaitPredecessor before it reads what the predecessor wrote,
// before its first global write, and before it exits, with or without work.
// Ahead of the wait it may read arguments, constants, packed weights and what a
// kernel before the predecessor wrote, and write only shared memory.
//
// The last of these holds because a kernel lets its successor start only after
// its own wait: when a CTA runs at all, all kernels but the predecessor have
// ended and their writes are visible.
//
// For the same reason a kernel may run beside its predecessor where it awaits
// counters of what that one has done (kAwaited): it then calls awaitPredecessor
// last, so that its own end still implies that of all before it.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"

namespace moe {

/// Returns when every earlier kernel has ended and its writes are visible; then
/// lets the next kernel's CTAs become resident as soon as all of this grid's
/// CTAs are that far. They wait for this grid's end themselves.
template <class Config> __device__ __forceinline__ void awaitPredecessor() {
  if constexpr (Config::kProgrammatic) {
    ptx::waitForPredecessor();
    ptx::launchDependents();
  }
}

} // namespace moe
