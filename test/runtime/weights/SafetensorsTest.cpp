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

#include <chrono>
#include <filesystem>
#include <fstream>
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

std::string one(const std::string &fields) {
  return errorOf(R"({"a":{)" + fields + "}}");
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
  EXPECT_EQ(errorOf("{}", 3), "in: expected 0 bytes of tensors after the "
                              "header, as the header specifies, got 3");
  EXPECT_EQ(errorOf(R"({"a":7})"),
            "in: tensor 'a': expected an object with dtype, shape and "
            "data_offsets, got 7");
  EXPECT_TRUE(
      one(R"("dtype":"F7","shape":[2],"data_offsets":[0,8])")
          .starts_with("in: tensor 'a': expected a dtype of F32, F16, BF16"));
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
            "after the header, got [0,9]");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
            "in: tensor 'a': expected data_offsets [begin, end] in the 8 bytes "
            "after the header, got [8,0]");
  EXPECT_EQ(one(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"),
            "in: tensor 'a': expected data_offsets of the 4 bytes of F32 [1], "
            "got [0,8], 8 bytes");
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
            "in: tensor 'b': expected data_offsets that start at 5, where the "
            "previous tensor ends, got 4");
  // A byte that is of no tensor: between two, and before the first.
  EXPECT_EQ(errorOf(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})"),
            "in: tensor 'b': expected data_offsets that start at 3, where the "
            "previous tensor ends, got 4");
  EXPECT_EQ(one(R"("dtype":"U8","shape":[7],"data_offsets":[1,8])"),
            "in: tensor 'a': expected data_offsets that start at 0, where the "
            "previous tensor ends, got 1");
}

TEST(Safetensors, HeadersAreStrictJson) {
  EXPECT_EQ(errorOf("[1]"), "in: header: expected a JSON object, got an array");
  EXPECT_EQ(errorOf(R"({"a":{},"a":{}})"),
            "in: header: line 1, column 9: expected each key once in an "
            "object, got \"a\" twice");
  const std::string deep = "in: header: line 1, column 69: expected at most 64 "
                           "levels of nesting, got more";
  EXPECT_EQ(errorOf(R"({"a":)" + std::string(70000, '[') +
                    std::string(70000, ']') + "}"),
            deep);
  EXPECT_LT(one(R"("dtype":"F32","shape":[)" + std::string(70000, '[')).size(),
            200u);
}

/// Models with this many tensors in one file are real.
TEST(Safetensors, ManyTensorsTakeLinearTime) {
  constexpr int kTensors = 20000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i) {
    header += i ? ",\"model.layers." : "\"model.layers.";
    header += std::to_string(i) +
              R"(.weight":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  const std::string text = file(header + "}", kTensors);
  const auto start = std::chrono::steady_clock::now();
  Result<StoredTensors> read = parse(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->size(), size_t(kTensors));
  // A tenth of a second; much more with sanitizers. Quadratic, it is a minute.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Safetensors, IndicesAreStrictJson) {
  const std::string folder = testing::TempDir() + "moec-index";
  std::filesystem::create_directories(folder);
  const std::string index = folder + "/model.safetensors.index.json";
  const auto indexError = [&](const std::string &text) {
    std::ofstream(index, std::ios::binary) << text;
    Result<Checkpoint> read = Checkpoint::open(folder);
    return read ? "read" : read.error().message;
  };
  EXPECT_EQ(indexError(R"({"weight_map":{"a":"a.safetensors"}})"), "read");
  EXPECT_EQ(indexError(R"({"weight_map":{"a":)" + std::string(70000, '[') +
                       std::string(70000, ']') + "}}"),
            index + ": line 1, column 82: expected at most 64 levels of "
                    "nesting, got more");
  EXPECT_EQ(indexError(R"({"weight_map":{"a":"a","a":"b"}})"),
            index + ": line 1, column 24: expected each key once in an object, "
                    "got \"a\" twice");
  std::filesystem::remove_all(folder);
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
