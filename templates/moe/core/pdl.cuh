//===- pdl.cuh - the protocol of programmatic dependent launch --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every CTA begins with beginKernel and calls awaitPredecessor before it reads
// what an earlier kernel wrote, before its first global write, and before it
// exits, with or without work. Ahead of the wait it may read only arguments
// and constants and write only shared memory.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx.cuh"

namespace moe {

/// Lets the next kernel's CTAs become resident as soon as all of this grid's
/// CTAs have begun; they then wait for this grid's end themselves.
template <class Config> __device__ __forceinline__ void beginKernel() {
  if constexpr (Config::kProgrammatic)
    ptx::launchDependents();
}

/// Returns when every earlier kernel has ended and its writes are visible.
template <class Config> __device__ __forceinline__ void awaitPredecessor() {
  if constexpr (Config::kProgrammatic)
    ptx::waitForPredecessor();
}

} // namespace moe
