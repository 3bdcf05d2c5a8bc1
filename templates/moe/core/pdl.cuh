//===- pdl.cuh - programmatic dependent launch ------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every CTA calls awaitPredecessor before it reads what the predecessor wrote,
// before its first global write, and before it exits, with or without work.
// Before the wait it may only write shared memory, and read arguments,
// constants, packed weights and data that a kernel before the predecessor
// wrote.
//
// Such data is complete because a kernel calls launchDependents only after its
// own wait: when a CTA runs, all kernels except the predecessor have ended, and
// their writes are visible.
//
// For the same reason a kernel may run concurrently with its predecessor if it
// waits for counters of the predecessor's progress (kAwaited). It then calls
// awaitPredecessor last, so that its own end still implies the end of all
// earlier kernels.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"

namespace moe {

/// Waits until every earlier kernel has ended and its writes are visible. Then
/// lets the next kernel's CTAs become resident as soon as all CTAs of this grid
/// have arrived here. Those CTAs wait for the end of this grid themselves.
template <class Config> __device__ __forceinline__ void awaitPredecessor() {
  if constexpr (Config::kProgrammatic) {
    ptx::waitForPredecessor();
    ptx::launchDependents();
  }
}

} // namespace moe
