//===- KeysTest.cpp - keys have the order of their logits -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Zeros of both signs are equal, and NaN is the least, in 32 bits and in 16.
//
//===----------------------------------------------------------------------===//

#include "templates/moe/math/host.h"

#include "templates/moe/math/keys.cuh"

#include <cmath>
#include <gtest/gtest.h>
#include <vector>

using moe::routing::keyOfHalf;
using moe::routing::keyOfLogit;
using moe::routing::logitOfKey;

TEST(Keys, OrderLogits) {
  const float inf = INFINITY;
  const std::vector<float> rising = {-inf,   -3e38f, -1,    -1e-40f, 0,
                                     1e-40f, 1,      3e38f, inf};
  for (size_t i = 0; i < rising.size(); ++i) {
    const unsigned key = keyOfLogit(rising[i]);
    EXPECT_GT(key, 0u);
    EXPECT_EQ(logitOfKey(key), rising[i]);
    if (i) {
      EXPECT_GT(key, keyOfLogit(rising[i - 1])) << rising[i];
    }
  }
  EXPECT_EQ(keyOfLogit(-0.0f), keyOfLogit(0.0f));
  for (const float nan : {NAN, -NAN})
    EXPECT_EQ(keyOfLogit(nan), keyOfLogit(-inf));
  constexpr unsigned kInfinity = 0x7f80; // of bf16
  EXPECT_EQ(keyOfHalf(0x8000, kInfinity), keyOfHalf(0, kInfinity));
  EXPECT_GT(keyOfHalf(0x0001, kInfinity), keyOfHalf(0, kInfinity));
  EXPECT_LT(keyOfHalf(0x8001, kInfinity), keyOfHalf(0, kInfinity));
  for (const unsigned nan : {0x7fc0u, 0xffc0u, 0x7f81u})
    EXPECT_EQ(keyOfHalf(nan, kInfinity), keyOfHalf(0xff80, kInfinity));
}
