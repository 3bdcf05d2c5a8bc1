//===- ActivationTest.cpp - activations keep NaN --------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The templates' activations, compiled for the host: a gate or an up value that
// is NaN must not become a number. ReLU is also compared with its formula.
//
//===----------------------------------------------------------------------===//

#include "templates/moe/math/host.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace moe::activation;

namespace {

struct Limited {
  static constexpr float kAlpha = 1.5f, kBeta = 0.5f, kLinearBeta = 3,
                         kLimit = 2;
};
struct Unlimited {
  static constexpr float kAlpha = 1.5f, kBeta = 0.5f, kLinearBeta = 0,
                         kLimit = 0;
};

template <class Activation> class Activations : public testing::Test {};

using All =
    testing::Types<Gated<Silu>, Gated<Gelu>, Gated<GeluTanh>, Gated<Relu>,
                   Gated<Relu2>, Ungated<Silu>, Ungated<Gelu>,
                   Ungated<GeluTanh>, Ungated<Relu>, Ungated<Relu2>,
                   Swiglu<OfLayer<Limited>>, Swiglu<OfExpert<Unlimited>>,
                   SwigluStep<OfLayer<Limited>>, Situ<OfLayer<Limited>>,
                   Situ<OfExpert<Unlimited>>, PowLu<OfLayer<Limited>>,
                   PowLu<OfExpert<Unlimited>>, ClampedRelu2<OfLayer<Limited>>,
                   ClampedRelu2<OfExpert<Unlimited>>>;
TYPED_TEST_SUITE(Activations, All);

TYPED_TEST(Activations, KeepNan) {
  const TypeParam activation{};
  if constexpr (TypeParam::kGated) {
    EXPECT_TRUE(std::isnan(activation.apply(NAN, 1.0f)));
    EXPECT_TRUE(std::isnan(activation.apply(1.0f, NAN)));
    EXPECT_FALSE(std::isnan(activation.apply(-3.0f, -3.0f)));
  } else {
    EXPECT_TRUE(std::isnan(activation.apply(NAN)));
    EXPECT_FALSE(std::isnan(activation.apply(-3.0f)));
  }
}

TEST(Relu, IsTheLargerOfZeroAndTheValue) {
  EXPECT_EQ(Gated<Relu>::apply(2.5f, -3.0f), -7.5f);
  EXPECT_EQ(Gated<Relu>::apply(-2.5f, -3.0f), 0.0f);
  EXPECT_EQ(Ungated<Relu>::apply(2.5f), 2.5f);
  EXPECT_EQ(Ungated<Relu>::apply(-INFINITY), 0.0f);
  EXPECT_EQ(Ungated<Relu>::apply(INFINITY), INFINITY);
}

} // namespace
