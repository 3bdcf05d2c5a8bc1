//===- weight_scale_atoms.cuh - scale blocks of weights ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The feed of weights' block scales that are in scale blocks of 128 rows by 4
// scales in memory (Config::kScaleAtoms, moe/math/scale_atoms.cuh). The scale
// blocks of a pipeline stage are contiguous, so one bulk copy loads them.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/ptx_async.cuh"
#include "moe/core/types.cuh"
#include "moe/matmul/feed/block_scales.cuh"

namespace moe {

template <class Config> struct WeightScaleAtoms {
  using Loader = ScaleAtomLoader<Config>;
  static constexpr int kWords = Loader::kWords;
  /// Number of scale blocks along k, and in the last pipeline stage if that is
  /// not full.
  static constexpr int kAtoms = Loader::kAtoms, kTail = kAtoms % kWords;

  /// Issues the copy for k tile `k` of the expert's weight rows, from row
  /// firstN on. `to`: shared-memory address of the stage's scales. The copy
  /// completes on the mbarrier `barrier`. One thread calls this before it
  /// arrives there.
  static __device__ __forceinline__ void copy(const typename Config::Args &args,
                                              int expert, int firstN, int k,
                                              unsigned to, unsigned barrier) {
    const int atoms = kTail == 0 || (k + 1) * kWords <= kAtoms ? kWords : kTail;
    const unsigned bytes = unsigned(atoms * Loader::kAtomBytes);
    const long long rows =
        (long long)expert * (Config::kN / ScaleAtoms::kRows) +
        firstN / ScaleAtoms::kRows;
    ptx::expectBytes(barrier, bytes);
    ptx::copyBulk(to,
                  reinterpret_cast<const unsigned char *>(args.rhs_scale) +
                      (rows * kAtoms + k * kWords) * Loader::kAtomBytes,
                  bytes, barrier);
  }
};

} // namespace moe
