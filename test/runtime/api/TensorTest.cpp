//===- TensorTest.cpp - a caller's tensor against a value -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values of small types and of other ranks than those of the tiny layer, which
// ApiErrorsTest.cpp binds through the C interface.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::runtime;

namespace {

Value valueOf(const char *type, const std::vector<int64_t> &shape,
              bool callerRowStride = false) {
  Value made;
  made.name = std::string("v");
  made.role = ValueRole::StoredWeight;
  made.elementTypes = {type};
  for (int64_t extent : shape)
    made.shape.emplace_back(extent);
  made.callerRowStride = callerRowStride;
  return made;
}

Tensor tensorOf(std::initializer_list<int64_t> shape,
                std::initializer_list<int64_t> strides = {},
                std::string_view elementType = "") {
  Tensor made;
  made.name = "v";
  made.data = reinterpret_cast<void *>(0x1000);
  made.elementType = elementType;
  made.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), made.shape.begin());
  made.hasStrides = strides.size() > 0;
  std::copy(strides.begin(), strides.end(), made.strides.begin());
  return made;
}

/// The row stride that was bound, or what was said.
std::string bound(const Value &value, const Tensor &tensor) {
  Symbols symbols;
  Result<BoundValue> made = bindTensor(value, symbols, tensor);
  return made ? std::to_string(made->rowStride) : made.error().message;
}

} // namespace

TEST(Tensor, BytesOfSmallElements) {
  const Value codes = valueOf("i4", {2, 4, 16});
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 16})), "64");
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 8}, {}, "u8")), "64");
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 8}, {32, 8, 1}, "u8")), "64");
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 8})),
            "value 'v': expected [2, 4, 16] elements of 4 bits (or bytes, as "
            "element type 'u8'), got [2, 4, 8]");
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 16}, {}, "u8")),
            "value 'v': expected [2, 4, 8] bytes, got [2, 4, 16]");
  EXPECT_EQ(bound(codes, tensorOf({2, 4, 8}, {64, 16, 1}, "u8")),
            "value 'v': expected strides [32, 8, 1], got [64, 16, 1]; "
            "accepted: a contiguous tensor");
  EXPECT_EQ(bound(valueOf("f6E2M3FN", {2, 8}), tensorOf({2, 6}, {}, "u8")),
            "8");
  EXPECT_EQ(bound(valueOf("i4", {2, 3}), tensorOf({2, 1}, {}, "u8")),
            "value 'v': expected element type i4, got 'u8', of which no row is "
            "whole bytes");
  // Rows of whole bytes that begin within one.
  Value apart = valueOf("i4", {2, 4});
  apart.strides = {Expression(5), Expression(1)};
  EXPECT_THAT(bound(apart, tensorOf({2, 2}, {}, "u8")),
              testing::HasSubstr("of which no row is whole bytes"));
  EXPECT_EQ(bound(valueOf("f8E8M0FNU", {2, 3}), tensorOf({2, 3}, {}, "u8")),
            "3");
  // Other types have a name of their own.
  EXPECT_EQ(bound(valueOf("f8E4M3FN", {2, 3}), tensorOf({2, 3}, {}, "u8")),
            "value 'v': expected element type f8E4M3FN, got 'u8'");
}

TEST(Tensor, RowsOfBytes) {
  // A larger row stride counts bytes, too, and is bound in elements.
  const Value codes = valueOf("f4E2M1FN", {3, 32}, true);
  EXPECT_EQ(bound(codes, tensorOf({3, 16}, {32, 1}, "u8")), "64");
  EXPECT_EQ(bound(codes, tensorOf({3, 16}, {17, 1}, "u8")),
            "value 'v': expected a row stride that is a multiple of 16 bytes, "
            "got 34 elements of 4 bits");
  const Value small = valueOf("f6E2M3FN", {3, 64}, true);
  EXPECT_EQ(bound(small, tensorOf({3, 48}, {96, 1}, "u8")), "128");
  EXPECT_EQ(bound(small, tensorOf({3, 48}, {64, 1}, "u8")),
            "value 'v': expected a row stride of whole elements of 6 bits, got "
            "64 bytes");
  EXPECT_EQ(bound(codes, tensorOf({3, 16}, {INT64_MAX, 1}, "u8")),
            "value 'v': expected a row stride of whole elements of 4 bits, got "
            "9223372036854775807 bytes");
}

TEST(Tensor, Ranks) {
  EXPECT_EQ(bound(valueOf("f32", {4}), tensorOf({4}, {1})), "1");
  EXPECT_EQ(bound(valueOf("f32", {4}), tensorOf({4}, {2})),
            "value 'v': expected strides [1], got [2]; accepted: a contiguous "
            "tensor");
  // One number that was expanded.
  EXPECT_EQ(bound(valueOf("f32", {4}), tensorOf({4}, {0})),
            "value 'v': expected strides [1], got [0]; accepted: a contiguous "
            "tensor");
  EXPECT_EQ(bound(valueOf("f32", {4, 1}), tensorOf({4}, {1})),
            "value 'v': expected [4, 1], got [4]");
  // Strides of extents of 1 say nothing.
  EXPECT_EQ(bound(valueOf("f32", {1, 4, 1}), tensorOf({1, 4, 1}, {7, 1, 9})),
            "4");
  EXPECT_EQ(bound(valueOf("f32", {1, 2, 1, 2, 1, 2, 1, 2}),
                  tensorOf({1, 2, 1, 2, 1, 2, 1, 2})),
            "16");
  EXPECT_EQ(bound(valueOf("f32", {1, 2, 1, 2, 1, 2, 1, 2, 1}), tensorOf({})),
            "value 'v': expected at most 8 dimensions, got 9");
  const int64_t large = int64_t(1) << 40;
  EXPECT_EQ(bound(valueOf("f32", {large, large}), tensorOf({large, large})),
            "value 'v': the number of elements overflows 64 bits");
}
