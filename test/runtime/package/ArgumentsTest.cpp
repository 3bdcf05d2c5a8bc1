//===- ArgumentsTest.cpp - binding values, packing arguments --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bytes that a kernel receives, and what a caller may not give.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Arguments.h"
#include "runtime/package/Limits.h"
#include "test/runtime/TinyManifest.h"

#include <cstring>
#include <fmt/core.h>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::test;
using testing::HasSubstr;

namespace {

template <typename T>
T readAt(const std::vector<std::byte> &block, int64_t offset) {
  T value;
  std::memcpy(&value, block.data() + offset, sizeof(T));
  return value;
}

} // namespace

TEST(Arguments, packsEveryKind) {
  Manifest m = tinyManifest();
  Target &t = m.targets[0];
  TensorMap map;
  map.name = "map";
  map.value = "w2";
  t.tensorMaps = {map};
  BlockBuilder builder;
  builder.pointer("x").rowStride("stride", "x");
  builder.add("type", ArgumentField::Kind::ElementType).value = "given_ids";
  builder.size("tokens", Expression::symbol("tokens")).firstExpert();
  ArgumentField &wide = builder.add("wide", ArgumentField::Kind::Size);
  wide.expression = Expression(int64_t(1) << 40);
  wide.elementType = "i64";
  builder.pointer("logits");
  builder.add("peers", ArgumentField::Kind::Peers);
  builder.add("status", ArgumentField::Kind::Status);
  builder.add("map", ArgumentField::Kind::TensorMap).tensorMap = "map";
  Kernel k = kernel("k", builder, {});
  EXPECT_EQ(k.arguments.alignment, 64);
  EXPECT_EQ(k.arguments.bytes, 192);

  Result<ArgumentPacker> packer = ArgumentPacker::create(m, t, k);
  ASSERT_TRUE(packer) << packer.error().message;
  for (size_t i = 0; i < valueCount(m, t); ++i)
    EXPECT_EQ(valueIndex(m, t, valueAt(m, t, i).name), i);
  std::vector<BoundValue> values(valueCount(m, t));
  values[valueIndex(m, t, "x")] = {0x1000, 24, 2};
  values[valueIndex(m, t, "given_ids")] = {0, 0, 3};
  std::function<Result<void>(size_t, std::byte *)> encode =
      [](size_t index, std::byte *destination) -> Result<void> {
    std::memset(destination, static_cast<int>(0xa0 + index), 128);
    return {};
  };
  ArgumentSources sources;
  sources.values = values;
  sources.symbols.tokens = 9;
  sources.firstExpert = 5;
  sources.tensorMap = &encode;
  sources.peers = 0x2000, sources.status = 0x3000;
  std::vector<std::byte> block(packer->bytes(), std::byte{0xff});
  ASSERT_TRUE(packer->pack(sources, block.data()));
  EXPECT_EQ(readAt<uint64_t>(block, 0), 0x1000u);
  EXPECT_EQ(readAt<int64_t>(block, 8), 24);
  EXPECT_EQ(readAt<int32_t>(block, 16), 3);
  EXPECT_EQ(readAt<int32_t>(block, 20), 9);
  EXPECT_EQ(readAt<int32_t>(block, 24), 5);
  EXPECT_EQ(readAt<int32_t>(block, 28), 0); // a gap
  EXPECT_EQ(readAt<int64_t>(block, 32), int64_t(1) << 40);
  EXPECT_EQ(readAt<uint64_t>(block, 40), 0u); // an absent optional input
  EXPECT_EQ(readAt<uint64_t>(block, 48), 0x2000u);
  EXPECT_EQ(readAt<uint64_t>(block, 56), 0x3000u);
  EXPECT_EQ(readAt<uint8_t>(block, 64), 0xa0);
  EXPECT_EQ(readAt<uint8_t>(block, 191), 0xa0);

  auto problem = [&] {
    Result<void> done = packer->pack(sources, block.data());
    return done ? "" : done.error().message;
  };
  sources.symbols.tokens = int64_t(1) << 31;
  EXPECT_EQ(problem(), "kernel 'k', argument 'tokens': expected a 32-bit size, "
                       "got tokens = 2147483648");
  sources.symbols.tokens = 9;
  sources.status = 0;
  EXPECT_EQ(problem(), "kernel 'k', argument 'status': expected a run with the "
                       "windows of all ranks, and there is none");
  sources.status = 1;
  sources.tensorMap = nullptr;
  EXPECT_THAT(problem(), HasSubstr("encodes tensor maps"));
  values[valueIndex(m, t, "x")].address = 0;
  EXPECT_THAT(problem(),
              HasSubstr("argument 'x': expected a value with memory"));
}

TEST(Arguments, bindingChecksTheCaller) {
  Manifest m = tinyManifest();
  Symbols symbols = *symbolsFor(m, 10);
  const Value &x = m.values[0];
  Result<BoundValue> bound = bindValue(x, symbols, 0x100, "", 24);
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->rowStride, 24);
  EXPECT_EQ(bound->elementCode, 2);
  EXPECT_EQ(bindValue(x, symbols, 0x101).error().code, ErrorCode::Misaligned);
  EXPECT_EQ(bindValue(x, symbols, 0x100, "", 20).error().code,
            ErrorCode::Misaligned);
  EXPECT_EQ(bindValue(x, symbols, 0).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(bindValue(x, symbols, 0x100, "f32").error().message,
            "value 'x': expected element type bf16, got 'f32'");
  // Kernels count the pieces of its rows in 32 bits.
  const int64_t most = (kOperandBytes / 2 - 16) / 9 / 8 * 8;
  EXPECT_TRUE(bindValue(x, symbols, 0x100, "", most));
  Result<BoundValue> far = bindValue(x, symbols, 0x100, "", most + 8);
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(far.error().message,
            "value 'x': expected less than 68719476736 bytes from the first "
            "row to the last, got 68719476848 with a row stride of 3817748712 "
            "elements");
  Value logits = m.values[1];
  EXPECT_TRUE(bindValue(logits, symbols, 0));
  EXPECT_EQ(bindValue(logits, symbols, 0x100, "", 8).error().message,
            "value 'logits': expected row stride 4 (elements), got 8");
  // A value of several types needs the alignment of the given one.
  logits.alignment = 4;
  for (auto [type, code, bytes] :
       {std::tuple{"f32", 0, 4}, {"f16", 1, 2}, {"bf16", 2, 2}}) {
    bound = bindValue(logits, symbols, 0x100 + uint64_t(bytes), type);
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->elementCode, code);
    EXPECT_EQ(
        bindValue(logits, symbols, 0x100 + uint64_t(bytes) / 2, type)
            .error()
            .message,
        fmt::format("value 'logits': expected an address that is a multiple "
                    "of {} bytes, got {:#x}",
                    bytes, 0x100 + bytes / 2));
  }
  EXPECT_EQ(bindValue(logits, symbols, 0x100, "f64").error().message,
            "value 'logits': expected element type f32 or f16 or bf16, got "
            "'f64'");
  EXPECT_EQ(*valueBytes(logits, symbols, "bf16"), 80);
  EXPECT_EQ(*valueBytes(x, symbols), 320);
  EXPECT_EQ(*valueBytes(x, symbols, "", 24), (9 * 24 + 16) * 2);
  symbols.tokens = 0;
  EXPECT_EQ(*valueBytes(x, symbols), 0);
}

TEST(Arguments, gridsFollowTheSms) {
  Launch launch;
  Kernel kernel;
  launch.grid.persistent = true;
  launch.grid.tiles = Expression::symbol("rows");
  launch.grid.ctasPerSm = 2;
  kernel.cluster = {4, 1, 1};
  Symbols symbols;
  symbols.rows = 4000;
  symbols.smCount = 133;
  EXPECT_EQ((*gridOf(launch, kernel, symbols))[0], 264);
  symbols.rows = 8;
  EXPECT_EQ((*gridOf(launch, kernel, symbols))[0], 8);
  symbols.smCount.reset();
  EXPECT_FALSE(gridOf(launch, kernel, symbols));
  launch.grid.persistent = false;
  launch.grid.ctas = {Expression(4), Expression(65536), Expression(1)};
  EXPECT_THAT(gridOf(launch, kernel, symbols).error().message,
              HasSubstr("expected 1 to 65535 CTAs in y, got 65536"));
  // Sizes at their limits, and one past them.
  kernel.cluster = {1, 1, 1};
  const auto problemOf = [&](std::array<Expression, 3> ctas) {
    launch.grid.ctas = std::move(ctas);
    Result<std::array<int64_t, 3>> grid = gridOf(launch, kernel, symbols);
    return grid ? "" : grid.error().message;
  };
  const Expression one(1);
  EXPECT_EQ(problemOf({Expression(2147483647), one, one}), "");
  EXPECT_THAT(problemOf({Expression(2147483648), one, one}),
              HasSubstr("expected 1 to 2147483647 CTAs in x, got 2147483648"));
  EXPECT_EQ(problemOf({one, Expression(65535), Expression(65535)}), "");
  EXPECT_THAT(problemOf({one, one, Expression(65536)}),
              HasSubstr("expected 1 to 65535 CTAs in z, got 65536"));
  for (const int64_t none : {0, -1})
    for (size_t i = 0; i < 3; ++i) {
      std::array<Expression, 3> ctas = {one, one, one};
      ctas[i] = Expression(none);
      EXPECT_THAT(problemOf(ctas),
                  HasSubstr(fmt::format("CTAs in {}, got {}", "xyz"[i], none)));
    }
  // A symbol without a value.
  EXPECT_THAT(problemOf({Expression::symbol("experts"), one, one}),
              HasSubstr("experts"));
  kernel.cluster = {1, 2, 1};
  EXPECT_EQ(problemOf({one, Expression(4), one}), "");
  EXPECT_THAT(problemOf({one, Expression(3), one}),
              HasSubstr("a multiple of the cluster's 2 CTAs in y, got 3"));
}

TEST(Arguments, sizesOfValues) {
  const auto bytes = [](std::vector<Expression> shape,
                        std::vector<Expression> strides = {}) {
    Value it = value("v", ValueRole::Workspace, {"f32"}, std::move(shape));
    it.strides = std::move(strides);
    Symbols symbols;
    symbols.tokens = 5;
    Result<int64_t> result = valueBytes(it, symbols);
    return result ? std::to_string(*result) : result.error().message;
  };
  const Expression tokens = Expression::symbol("tokens");
  EXPECT_EQ(bytes({tokens, 3}), "60");
  EXPECT_EQ(bytes({tokens, 3}, {8, 1}), std::to_string((4 * 8 + 3) * 4));
  EXPECT_EQ(bytes({tokens - 5, 3}), "0");
  EXPECT_EQ(bytes({3, tokens - 5}, {8, 1}), "0");
  EXPECT_THAT(bytes({tokens - 6, 3}),
              HasSubstr("expected an extent >= 0 for dimension 0, got "));
  EXPECT_THAT(bytes({tokens - 6, 3}), HasSubstr("= -1"));
  EXPECT_THAT(bytes({3, tokens - 6}), HasSubstr("dimension 1"));
  const int64_t large = int64_t(1) << 31;
  EXPECT_THAT(bytes({large, large, 2}), HasSubstr("overflows 64 bits"));
  EXPECT_THAT(bytes({3, 3}, {large * large * 2 - 1, 1}),
              HasSubstr("strides >= 0 that fit 64 bits"));
  EXPECT_THAT(bytes({3, 3}, {-1, 1}),
              HasSubstr("strides >= 0 that fit 64 bits, got -1"));
}

TEST(Arguments, variantsAreChosenByTokens) {
  Manifest m = tinyManifest();
  const Target &t = m.targets[0];
  EXPECT_EQ((*selectVariant(m, t, 8, 132))->name, "small");
  EXPECT_EQ((*selectVariant(m, t, 9, 132))->name, "large");
  Result<const Variant *> many = selectVariant(m, t, 65, 132);
  EXPECT_EQ(many.error().code, ErrorCode::TooManyTokens);
  EXPECT_EQ(many.error().message,
            "expected at most 64 tokens, got 65; compile the "
            "package with max_tokens of 65 or more");
  EXPECT_EQ(selectVariant(m, t, -1, 132).error().code,
            ErrorCode::InvalidArgument);
}

TEST(Arguments, variantsOfManySmsAreForDevicesThatHaveThem) {
  Manifest m = tinyManifest();
  Target &t = m.targets[0];
  Variant some = t.variants[1];
  some.name = "some", some.minSms = 100;
  some.minTokens = 16, some.maxTokens = 32;
  t.variants.insert(t.variants.begin() + 1, some);
  EXPECT_TRUE(validate(m));
  EXPECT_EQ((*selectVariant(m, t, 15, 132))->name, "large");
  EXPECT_EQ((*selectVariant(m, t, 16, 132))->name, "some");
  EXPECT_EQ((*selectVariant(m, t, 32, 100))->name, "some");
  EXPECT_EQ((*selectVariant(m, t, 32, 99))->name, "large");
  EXPECT_EQ((*selectVariant(m, t, 33, 132))->name, "large");
  const std::string unfit[] = {"", "it does not fit", ""};
  EXPECT_EQ((*selectVariant(m, t, 16, 132, unfit))->name, "large");
}
