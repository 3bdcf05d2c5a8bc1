//===- SlabConversionsTest.cpp - every code of slabs by every scale -------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The converters of quant/slab_codes.cuh on the host, bit for bit. On a GPU
// GpuConversionsTest.cpp does the same.
//
//===----------------------------------------------------------------------===//

#include "test/templates/SlabConversions.h"

using namespace moe::conversions;

namespace {

using f32 = float;
using moe::bf16, moe::f16, moe::i4, moe::e2m1, moe::e2m3, moe::e3m2, moe::e4m3,
    moe::e5m2, moe::i8, moe::ue8m0;

template <class Config>
void convertSome(int first, const Rows &rows, unsigned *to) {
  for (int i = 0; i < kAtOnce; ++i)
    convert<Config>(first + i, rows,
                    to + i * wordsOf(moe::kBits<typename Config::Weight>));
}

} // namespace

#define MOEC_TEST_CASE(INPUT, WEIGHT, SCALE, ZEROS)                            \
  TEST(SlabConversions, WEIGHT##_##SCALE##_##ZEROS##_to_##INPUT) {             \
    check({#INPUT, #WEIGHT, #SCALE, ZEROS},                                    \
          convertSome<Config<INPUT, WEIGHT, SCALE, ZEROS>>);                   \
  }
MOEC_SLAB_CONVERSIONS(MOEC_TEST_CASE)
