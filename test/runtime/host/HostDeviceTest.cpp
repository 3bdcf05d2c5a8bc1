//===- HostDeviceTest.cpp - a tiny layer end to end
//-------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The host device against a plain double computation.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/host/TinyLayer.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstring>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::HasSubstr;

TEST(HostDevice, equalsPlainDouble) {
  for (int64_t tokens : {1, 2, 7, 8, 9, 33, 64}) {
    Case c(tokens, static_cast<unsigned>(tokens));
    Result<void> done = c.run();
    ASSERT_TRUE(done) << messageOf(done);
    EXPECT_LT(c.error(), 2.5e-3) << tokens << " tokens";
    int64_t total = 0;
    for (int64_t e = 0; e < c.shape.experts; ++e)
      total += c.counts.as<int32_t>()[e];
    EXPECT_EQ(total, tokens * c.shape.topK);
  }
}

TEST(HostDevice, threadsDoNotChangeTheResult) {
  Case one(64), three(64);
  one.threads = 1;
  three.threads = 3;
  ASSERT_TRUE(one.run());
  ASSERT_TRUE(three.run());
  EXPECT_EQ(one.bytes(one.out), three.bytes(three.out));
}

TEST(HostDevice, scratchMayBeBytes) {
  Case c(10);
  for (Value &value : c.manifest.targets[0].values)
    if (value.name == "pack_scratch") {
      value.elementTypes = {"i8"};
      value.shape = {Expression::symbol("experts") * 1024};
    }
  Result<void> done = c.run();
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_LT(c.error(), 2.5e-3);
}

TEST(HostDevice, noTokensTouchNothing) {
  Case c(3);
  c.tokens = 0;
  ASSERT_TRUE(c.run());
  EXPECT_EQ(c.out.as<uint16_t>()[0], 0xffff);
}

TEST(HostDevice, givenIdsOfBothWidthsEqualLogits) {
  Case c(20);
  ASSERT_TRUE(c.run());
  std::vector<std::byte> want = c.bytes(c.out);
  Buffer weights(c.weights.span.size()), wide(20 * 2 * 8), narrow(20 * 2 * 4);
  for (int64_t i = 0; i < 20 * 2; ++i) {
    wide.as<int64_t>()[i] = narrow.as<int32_t>()[i] = c.ids.as<int32_t>()[i];
    weights.as<float>()[i] = c.weights.as<float>()[i];
  }
  for (bool isWide : {false, true}) {
    std::fill(c.out.span.begin(), c.out.span.end(), std::byte{0xff});
    Result<void> done = c.run([&](Tensors &tensors) {
      tensors.erase("logits");
      tensors["given_weights"] = {weights.span.data(), "", 0};
      tensors["given_ids"] = isWide ? Tensor{wide.span.data(), "i64", 0}
                                    : Tensor{narrow.span.data(), "i32", 0};
    });
    ASSERT_TRUE(done) << messageOf(done);
    EXPECT_EQ(c.bytes(c.out), want);
  }
}

TEST(HostDevice, idsThatNameNoExpertContributeNothing) {
  Case c(2);
  alignas(16) int32_t ids[] = {-1, 1, 7, -1};
  alignas(16) float weights[] = {0.5f, 1.0f, 1.0f, 1.0f};
  ASSERT_TRUE(c.run([&](Tensors &tensors) {
    tensors.erase("logits");
    tensors["given_weights"] = {weights, "", 0};
    tensors["given_ids"] = {ids, "", 0};
  }));
  EXPECT_NE(c.out.as<uint16_t>()[0], 0);
  for (int64_t h = 0; h < c.shape.hidden; ++h)
    EXPECT_EQ(c.out.as<uint16_t>()[c.shape.hidden + h], 0);
  EXPECT_EQ(c.counts.as<int32_t>()[1], 1);
}

TEST(HostDevice, rowsBeyondValidTokensAreZero) {
  for (int64_t tokens : {8, 30}) {
    Case c(tokens);
    int32_t valid = 5;
    alignas(16) int32_t memory[4] = {valid};
    ASSERT_TRUE(c.run(
        [&](Tensors &tensors) { tensors["valid_tokens"] = {memory, "", 0}; }));
    EXPECT_LT(c.error(valid), 2.5e-3);
    EXPECT_EQ(c.ids.as<int32_t>()[valid * 2], -1);
    EXPECT_EQ(c.weights.as<float>()[valid * 2], 0.0f);
  }
}

TEST(HostDevice, aResidualMayBeTheOutputItself) {
  for (int64_t tokens : {5, 30}) {
    Case without(tokens), with(tokens);
    ASSERT_TRUE(without.run());
    Value residual = *findValue(with.manifest, with.manifest.targets[0], "out");
    residual.name = "residual";
    residual.role = ValueRole::OptionalInput;
    with.manifest.values.push_back(residual);
    for (Kernel &kernel : with.manifest.targets[0].kernels) {
      if (kernel.name != "combine")
        continue;
      ArgumentField field = kernel.arguments.fields.front();
      field.name = field.value = "residual";
      field.offset = kernel.arguments.bytes;
      kernel.arguments.fields.push_back(field);
      kernel.arguments.bytes += 8;
      kernel.stages[0].operands["residual"] = "residual";
    }
    // Without one the layer adds nothing.
    ASSERT_TRUE(with.run());
    EXPECT_EQ(with.bytes(with.out), without.bytes(without.out));
    const int64_t count = tokens * with.shape.hidden;
    for (int64_t i = 0; i < count; ++i)
      with.out.as<uint16_t>()[i] = toBf16(i % 2 ? 1024.0f : -1024.0f);
    Result<void> done = with.run(
        [](Tensors &tensors) { tensors["residual"] = tensors["out"]; });
    ASSERT_TRUE(done) << messageOf(done);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_NEAR(fromBf16(with.out.as<uint16_t>()[i]),
                  fromBf16(without.out.as<uint16_t>()[i]) +
                      (i % 2 ? 1024.0f : -1024.0f),
                  4.5f);
  }
}

TEST(HostDevice, takesTheCallersRowStride) {
  Case c(10);
  const int64_t stride = 24;
  Buffer wide(10 * stride * 2);
  for (int64_t m = 0; m < 10; ++m)
    std::copy_n(c.x.as<uint16_t>() + m * 16, 16,
                wide.as<uint16_t>() + m * stride);
  ASSERT_TRUE(c.run([&](Tensors &tensors) {
    tensors["x"] = {wide.span.data(), "", stride};
  }));
  EXPECT_LT(c.error(), 2.5e-3);
  Result<void> odd = c.run(
      [&](Tensors &tensors) { tensors["x"] = {wide.span.data(), "", 17}; });
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().code, ErrorCode::Misaligned);
  Result<void> narrow = c.run(
      [&](Tensors &tensors) { tensors["x"] = {wide.span.data(), "", 8}; });
  EXPECT_THAT(messageOf(narrow), HasSubstr("at least 16 elements, got 8"));
}

TEST(HostDevice, edgeLogitsFollowTheRules) {
  Case c(4);
  float *l = c.logits.as<float>();
  const float nan = std::nanf(""), inf = INFINITY;
  const float rows[4][4] = {{nan, -inf, nan, -inf},
                            {1, 1, 1, 1},
                            {inf, 0, 2, nan},
                            {-inf, 3, nan, -inf}};
  std::copy_n(&rows[0][0], 16, l);
  ASSERT_TRUE(c.run());
  auto id = [&](int m, int k) { return c.ids.as<int32_t>()[m * 2 + k]; };
  auto weight = [&](int m, int k) { return c.weights.as<float>()[m * 2 + k]; };
  EXPECT_EQ(id(0, 0), 0);
  EXPECT_EQ(id(0, 1), 1);
  // No expert has a score.
  EXPECT_EQ(weight(0, 0), 0.0f);
  EXPECT_EQ(weight(0, 1), 0.0f);
  EXPECT_EQ(id(1, 0), 0);
  EXPECT_EQ(id(1, 1), 1);
  EXPECT_EQ(id(2, 0), 0);
  EXPECT_EQ(weight(2, 0), 0.0f);
  EXPECT_EQ(id(2, 1), 2);
  EXPECT_EQ(weight(2, 1), 1.0f);
  EXPECT_EQ(id(3, 0), 1);
  EXPECT_EQ(weight(3, 0), 1.0f);
  EXPECT_EQ(id(3, 1), 0);
  EXPECT_EQ(weight(3, 1), 0.0f);
}

TEST(HostDevice, aPersistentGridTakesAllTilesWithFewCtas) {
  for (bool complete : {true, false}) {
    Case c(40);
    c.smCount = 1;
    Grid &grid = c.manifest.targets[0].variants[1].launches[2].grid;
    grid.persistent = true;
    grid.tiles = complete ? grid.ctas[0] : Expression(2);
    grid.ctasPerSm = 1;
    Result<void> done = c.run();
    if (complete) {
      ASSERT_TRUE(done) << done.error().message;
      EXPECT_LT(c.error(), 1e-2);
    } else {
      EXPECT_TRUE(!done || c.error() > 1e-2);
    }
  }
}

TEST(HostDevice, largeNumbersDoNotOverflow) {
  Case c(40);
  c.smCount = 1;
  Grid &grid = c.manifest.targets[0].variants[1].launches[0].grid;
  grid.persistent = true;
  grid.tiles = Expression(int64_t(1) << 62);
  grid.ctasPerSm = 1;
  // More than INT64_MAX bytes of workspace are enough.
  c.workspace.span = {c.workspace.span.data(), SIZE_MAX};
  Result<void> done = c.run();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_LT(c.error(), 1e-2);
}

TEST(HostDevice, stepsOfRowsMakeTilesAlike) {
  for (int64_t step : {0, 4, 8, 16}) {
    Case c(40);
    nlohmann::json &attributes =
        *c.manifest.targets[0].kernels[2].stages[0].attributes;
    if (step > 0)
      attributes["row_step"] = step;
    Result<void> done = c.run();
    ASSERT_TRUE(done) << messageOf(done);
    EXPECT_LT(c.error(), 2.5e-3) << step;
    const int64_t full = c.shape.tileRows;
    std::vector<std::array<int32_t, 4>> want;
    int64_t first = 0, uneven = 0;
    for (int64_t e = 0; e < c.shape.experts; ++e) {
      const int64_t count = c.counts.as<int32_t>()[e], end = first + count;
      const int64_t tiles = (count + full - 1) / full;
      int64_t each = full;
      if (step > 0 && tiles > 0) {
        // The least multiple of the step with which so many tiles suffice.
        for (each = step; each * tiles < count;)
          each += step;
      }
      uneven += each != full;
      for (; first < end; first = std::min(first + each, end))
        want.push_back({int32_t(e), int32_t(first),
                        int32_t(std::min(first + each, end)), 0});
    }
    EXPECT_EQ(uneven > 0, step == 4 || step == 8);
    Symbols sizes;
    sizes.tokens = c.tokens;
    sizes.rows = c.tokens * c.shape.topK;
    Result<int64_t> at = region(c.manifest, "tiles").offset.evaluate(sizes);
    ASSERT_TRUE(at);
    std::vector<std::array<int32_t, 4>> got(want.size());
    std::memcpy(got.data(), c.workspace.span.data() + *at, want.size() * 16);
    EXPECT_EQ(got, want) << step;
  }
  Case c(40);
  c.manifest.targets[0].kernels[2].stages[0].attributes["row_step"] = 12;
  EXPECT_THAT(
      messageOf(c.run()),
      HasSubstr("expected row_step to divide the 16 tile_rows, got 12"));
}

TEST(HostDevice, refusesWhatTheCallerGetsWrong) {
  Case c(40);
  auto codeOf = [&](std::function<void(Tensors &)> change) {
    Result<void> done = c.run(std::move(change));
    return done ? ErrorCode::Ok : done.error().code;
  };
  EXPECT_EQ(codeOf([](Tensors &t) { t.erase("logits"); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([&](Tensors &t) { t["given_ids"] = t["ids"]; }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([](Tensors &t) { t.erase("out"); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([](Tensors &t) { t.erase("w13_packed"); }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([](Tensors &t) { t["nothing"] = t["x"]; }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([](Tensors &t) { t["x"].elementType = "f16"; }),
            ErrorCode::InvalidArgument);
  EXPECT_EQ(codeOf([](Tensors &t) {
              t["x"].data = static_cast<std::byte *>(t["x"].data) + 2;
            }),
            ErrorCode::Misaligned);
  c.workspace = Buffer(256);
  EXPECT_EQ(codeOf({}), ErrorCode::WorkspaceTooSmall);
  Case many(65);
  Result<void> done = many.run();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::TooManyTokens);
  EXPECT_THAT(done.error().message, HasSubstr("max_tokens of 65 or more"));
}
