//===- SafetensorsTest.cpp - headers, good and damaged --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Files that PyPI's safetensors wrote are read in test/conformance; here is
// what nobody should write. Every prefix of a file and some thousand damages of
// its header give tensors in the file or an error with the file's name.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/Safetensors.h"

#include <gtest/gtest.h>

#include <random>

using namespace moec;
using namespace moec::weights;

namespace {

std::string file(const std::string &header, size_t dataBytes) {
  std::string made;
  for (size_t i = 0; i < 8; ++i)
    made += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return made + header + std::string(dataBytes, 'x');
}

Result<StoredTensors> parse(const std::string &text) {
  return parseSafetensors(std::as_bytes(std::span(text)), "in");
}

std::string errorOf(const std::string &header, size_t dataBytes = 8) {
  const std::string text = file(header, dataBytes);
  Result<StoredTensors> read = parse(text);
  if (read)
    return "read";
  EXPECT_EQ(read.error().code, ErrorCode::InvalidArgument);
  return read.error().message;
}

const std::string kGood =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},)"
    R"("b":{"dtype":"F4","shape":[8],"data_offsets":[4,8]},)"
    R"("none":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]}}   )";

} // namespace

TEST(Safetensors, Tensors) {
  const std::string text = file(kGood, 8);
  Result<StoredTensors> read = parse(text);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->size(), 3u);
  const StoredTensor &a = read->at("a");
  EXPECT_EQ(a.describe(), "BF16 [2, 1]");
  EXPECT_EQ(a.bytes.size(), 4u);
  EXPECT_EQ(reinterpret_cast<const char *>(a.bytes.data()),
            text.data() + text.size() - 8);
  EXPECT_EQ(read->at("b").bytes.size(), 4u);
  EXPECT_TRUE(read->at("none").bytes.empty());
}

TEST(Safetensors, Refused) {
  const auto one = [](const std::string &fields) {
    return errorOf(R"({"a":{)" + fields + "}}");
  };
  EXPECT_EQ(errorOf("{}", 3),
            "in: expected 0 bytes of tensors behind the header, as it says, "
            "got 3");
  EXPECT_EQ(errorOf(R"({"a":7})"),
            "in: tensor 'a': expected an object with dtype, shape and "
            "data_offsets, got 7");
  EXPECT_TRUE(
      one(R"("dtype":"F7","shape":[2],"data_offsets":[0,8])")
          .starts_with("in: tensor 'a': expected a dtype of F64, F32, F16"));
  EXPECT_EQ(one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
            "in: tensor 'a': expected a shape of whole numbers that fills "
            "whole bytes, got [-2]");
  EXPECT_EQ(one(R"("dtype":"F4","shape":[3],"data_offsets":[0,8])"),
            "in: tensor 'a': expected a shape of whole numbers that fills "
            "whole bytes, got [3]");
  // Products that do not fit 64 bits.
  EXPECT_EQ(one(R"("dtype":"F32","shape":[4294967296,4294967296],)"
                R"("data_offsets":[0,8])"),
            "in: tensor 'a': expected a shape of whole numbers that fills "
            "whole bytes, got [4294967296,4294967296]");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[2],"data_offsets":[0,9])"),
            "in: tensor 'a': expected data_offsets [begin, end] in the 8 bytes "
            "behind the header, got [0,9]");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
            "in: tensor 'a': expected data_offsets [begin, end] in the 8 bytes "
            "behind the header, got [8,0]");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
            "in: tensor 'a': expected data_offsets of the 4 bytes of F32 [1], "
            "got [0,8], 8 bytes");
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
            "in: tensor 'b': expected data_offsets that begin at 5, where the "
            "tensor before ends, got 4");
}

TEST(Safetensors, Damaged) {
  const std::string good = file(kGood, 8);
  const auto check = [](const std::string &text) {
    Result<StoredTensors> read = parse(text);
    if (!read) {
      EXPECT_TRUE(read.error().message.starts_with("in: "));
      EXPECT_LT(read.error().message.size(), 1000u);
      return;
    }
    const auto whole = std::as_bytes(std::span(text));
    for (const auto &[name, tensor] : *read) {
      if (tensor.bytes.empty())
        continue;
      EXPECT_GE(tensor.bytes.data(), whole.data());
      EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(),
                whole.data() + whole.size());
    }
  };
  for (size_t length = 0; length < good.size(); ++length)
    check(good.substr(0, length));
  constexpr int kDamages = 5000;
  std::mt19937_64 random(7);
  for (int i = 0; i < kDamages; ++i) {
    std::string text = good;
    for (uint64_t n = random() % 4 + 1; n > 0; --n) {
      const size_t at = random() % text.size();
      constexpr std::string_view kLikely = "{}[]\",:0123456789-\\";
      text[at] = random() % 3 ? kLikely[random() % kLikely.size()]
                              : static_cast<char>(random());
      if (random() % 4 == 0)
        text.insert(at, text.substr(at, random() % 16));
    }
    check(text);
  }
}
