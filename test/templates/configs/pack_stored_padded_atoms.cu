// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "moe/kernel/pack.cuh"
struct Args { const unsigned char * source; unsigned char * destination; int first_expert; int experts; };
struct Config {
  using Args = ::Args;
  static constexpr int kThreads = 256;
  static constexpr bool kProgrammatic = false;
  static constexpr bool kCpAsync = true;
  static constexpr int kRows = 1408;
  static constexpr int kColumns = 130;
  static constexpr int kBits = 8;
  static constexpr int kStoredBits = 8;
  static constexpr bool kRowsLast = false;
  static constexpr int kRowsPerWord = 1;
  static constexpr int kColumnsPerWord = 1;
  static constexpr int kSlots = 0;
  static constexpr int kAdded = 0;
  static constexpr int kFlipped = 0;
  static constexpr int kParts = 2;
  static constexpr int kStoredRows = 1536;
  static constexpr int kStoredColumns = 144;
  static constexpr bool kAtoms = true;
  static constexpr int kInterleave = 8;
  using GateUpOrder = moe::UpFirst;
  static constexpr int kBytesPerCta = 24576;
};
static_assert(moe::sharedBytes<Config>() == 0, "manifest and kernel disagree on shared memory");
extern "C" __global__ void __launch_bounds__(256, 1) moec_pack_stored_atoms(const __grid_constant__ Args args) { moe::packStored<Config>(args); }
