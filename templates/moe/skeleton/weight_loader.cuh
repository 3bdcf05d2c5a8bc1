//===- weight_loader.cuh - weights of a stage -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The weights of a stage of the ring come by the copy engine, as a box of a
// tensor map. One thread asks for them. A loader says the bytes that arrive at
// a stage's barrier, and copies; what lies outside of the weights is zeros.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/ptx_grid.cuh"

namespace moe {

/// Weight rows of the operands' type, of which kTileN by kTileK make a box.
template <class Config> struct TensorMapWeights {
  using Schedule = typename Config::Schedule;
  static constexpr int kBytes = Schedule::kTileN * Config::Mma::kRowBytes;
  const typename Config::Args &args;

  __device__ __forceinline__ void prefetch() const {
    ptx::prefetchMap(&args.rhs);
  }

  /// Begins to copy step k of an expert's rows from firstN on. once: nobody
  /// reads them a second time.
  __device__ __forceinline__ void copy(unsigned to, int firstN, int k,
                                       int expert, unsigned barrier,
                                       bool once = false) const {
    ptx::arriveExpecting(barrier, kBytes);
    int x = k * Schedule::kTileK;
    if (once)
      ptx::copyTileOnce(to, &args.rhs, x, firstN, expert, barrier);
    else
      ptx::copyTile(to, &args.rhs, x, firstN, expert, barrier);
  }
};

/// The loader of a Config's weights.
template <class Config> using WeightLoader = TensorMapWeights<Config>;

} // namespace moe
