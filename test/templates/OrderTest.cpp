//===- OrderTest.cpp - columns in the order of their groups ---------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels that order columns, compiled for the host and run thread by
// thread: none of their threads meet.
//
//===----------------------------------------------------------------------===//

#include "test/templates/DeviceFunctions.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "templates/moe/kernel/pack.cuh"
// Each kernel's header has its sharedBytes().
#define sharedBytes sharedBytesOfOrder
#include "templates/moe/kernel/pack_order.cuh"
#undef sharedBytes
// Every kernel's header has one of that name.
#define sharedBytes sharedBytesOfRows
#include "templates/moe/kernel/permute_columns.cuh"
#undef sharedBytes

namespace {

constexpr int kColumns = 72, kGroup = 16, kGroups = 5, kExperts = 3;

/// The members that all of these kernels' Configs have.
struct Common {
  static constexpr int kThreads = 32;
  static constexpr bool kProgrammatic = false, kCpAsync = true;
};

template <class Kernel>
void run(unsigned ctas, unsigned threads, Kernel kernel) {
  for (blockIdx.x = 0; blockIdx.x < ctas; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
      kernel();
}

/// The group of each column of each expert: of 16 columns, the last of 8.
std::vector<int> randomGroups() {
  std::mt19937 random(5);
  std::vector<int> groups(kExperts * kColumns);
  for (int e = 0; e < kExperts; ++e) {
    const auto begin = groups.begin() + e * kColumns;
    for (int c = 0; c < kColumns; ++c)
      begin[c] = c / kGroup;
    std::shuffle(begin, begin + kColumns, random);
  }
  return groups;
}

/// The expected order, found by sorting.
std::vector<int> sorted(const std::vector<int> &groups) {
  std::vector<int> order(groups.size());
  for (int e = 0; e < kExperts; ++e) {
    const auto begin = order.begin() + e * kColumns;
    std::iota(begin, begin + kColumns, 0);
    std::stable_sort(begin, begin + kColumns, [&](int a, int b) {
      return groups[size_t(e * kColumns + a)] <
             groups[size_t(e * kColumns + b)];
    });
  }
  return order;
}

struct OrderConfig : Common {
  struct Args {
    const int *source;
    int *destination;
    int first_expert, experts;
  };
  static constexpr int kColumns = ::kColumns, kGroup = ::kGroup;
};

TEST(Order, columnsFollowTheirGroups) {
  const std::vector<int> groups = randomGroups();
  std::vector<int> order(groups.size(), -1);
  // The first expert alone, then the others.
  for (const auto &[first, count] : {std::pair(0, 1), {1, 2}}) {
    const OrderConfig::Args args = {groups.data(), order.data(), first, count};
    run(unsigned(count), OrderConfig::kThreads,
        [&] { moe::packOrder<OrderConfig>(args); });
  }
  EXPECT_EQ(order, sorted(groups));
}

/// Groups that are not what they must be lead nowhere else.
TEST(Order, wrongGroupsStayInside) {
  std::vector<int> groups(size_t(kColumns), 1);
  groups[0] = -7, groups[1] = 1 << 30;
  std::vector<int> order(groups.size() + 1, -1);
  const OrderConfig::Args args = {groups.data(), order.data(), 0, 1};
  run(1, OrderConfig::kThreads, [&] { moe::packOrder<OrderConfig>(args); });
  for (size_t c = 0; c < groups.size(); ++c) {
    EXPECT_GE(order[c], 0);
    EXPECT_LT(order[c], kColumns);
  }
  EXPECT_EQ(order.back(), -1);
}

struct TokensConfig : Common {
  struct Args {
    const moe::bf16 *input;
    long long input_row_stride;
    const int *rows, *offsets, *order;
    moe::bf16 *result;
  };
  using Element = moe::bf16;
  static constexpr int kColumns = ::kColumns, kExperts = ::kExperts, kPairs = 2;
};

struct RowsConfig : Common {
  struct Args {
    const moe::bf16 *input;
    long long input_row_stride;
    const int *offsets, *order;
    moe::bf16 *result;
  };
  using Element = moe::bf16;
  static constexpr int kColumns = ::kColumns, kExperts = ::kExperts, kPairs = 1;
};

TEST(Order, rowsAreInTheOrderOfTheirExpert) {
  const std::vector<int> order = sorted(randomGroups());
  // Pairs of 4 tokens, of which expert 1 has none, and two are elsewhere's.
  const std::vector<int> rows = {1, 2, 7, 0, 3, 4}, offsets = {0, 3, 3, 6};
  constexpr int kTokens = 4, kStride = kColumns + 8, kRows = 8;
  std::vector<uint16_t> x(size_t(kTokens * kStride));
  std::iota(x.begin(), x.end(), uint16_t(1));
  std::vector<uint16_t> ofPairs(size_t(kRows * kColumns), 0);
  TokensConfig::Args tokens = {};
  tokens.input = reinterpret_cast<const moe::bf16 *>(x.data());
  tokens.input_row_stride = kStride;
  tokens.rows = rows.data(), tokens.offsets = offsets.data();
  tokens.order = order.data();
  tokens.result = reinterpret_cast<moe::bf16 *>(ofPairs.data());
  // One CTA more than there are rows.
  run(7, TokensConfig::kThreads,
      [&] { moe::permuteColumns<TokensConfig>(tokens); });
  std::vector<uint16_t> expected(ofPairs.size(), 0);
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < kColumns; ++c)
      expected[size_t(rows[size_t(r)] * kColumns + c)] =
          x[size_t(rows[size_t(r)] / 2 * kStride +
                   order[size_t((r < 3 ? 0 : 2) * kColumns + c)])];
  EXPECT_EQ(ofPairs, expected);

  // Rows that are sorted already stay where they are.
  std::vector<uint16_t> ofRows(size_t(6 * kColumns), 0);
  RowsConfig::Args args = {};
  args.input = reinterpret_cast<const moe::bf16 *>(ofPairs.data());
  args.input_row_stride = kColumns;
  args.offsets = offsets.data(), args.order = order.data();
  args.result = reinterpret_cast<moe::bf16 *>(ofRows.data());
  run(6, RowsConfig::kThreads, [&] { moe::permuteColumns<RowsConfig>(args); });
  for (int r = 0; r < 6; ++r)
    for (int c = 0; c < kColumns; ++c)
      EXPECT_EQ(ofRows[size_t(r * kColumns + c)],
                ofPairs[size_t(r * kColumns +
                               order[size_t((r < 3 ? 0 : 2) * kColumns + c)])]);
}

/// As GPTQ has codes of 4 bits: 8 of a row's columns in 32 bits, rows last.
struct StoredConfig : Common {
  struct Args {
    const unsigned char *source;
    unsigned char *destination;
    const int *order;
    int first_expert, experts;
  };
  static constexpr int kRows = 32, kColumns = ::kColumns, kBits = 4;
  static constexpr int kStoredBits = 4, kRowsPerWord = 1, kColumnsPerWord = 8;
  static constexpr bool kRowsLast = true;
  static constexpr int kSlots = 0x76543210, kAdded = 0, kFlipped = 0;
  static constexpr int kInterleave = 8, kBytesPerCta = 256;
};

TEST(Order, weightsArePackedByIt) {
  const std::vector<int> order = sorted(randomGroups());
  constexpr int kRows = StoredConfig::kRows, kHalf = kRows / 2;
  constexpr int kWords = kColumns / 8 * kRows, kRowBytes = kColumns / 2;
  std::mt19937 random(9);
  std::vector<uint32_t> stored(size_t(2 * kWords));
  for (uint32_t &word : stored)
    word = random();
  std::vector<unsigned char> packed(size_t(kExperts * kRows * kRowBytes), 0);
  // The weights of experts 1 and 2.
  const StoredConfig::Args args = {
      reinterpret_cast<const unsigned char *>(stored.data()), packed.data(),
      order.data(), 1, 2};
  run(2 * kRows * kRowBytes / StoredConfig::kBytesPerCta + 1,
      StoredConfig::kThreads, [&] { moe::packStored<StoredConfig>(args); });
  for (int e = 1; e < kExperts; ++e)
    for (int row = 0; row < kRows; ++row)
      for (int c = 0; c < kColumns; ++c) {
        // Gates first as stored, in runs of 8 as packed.
        const int from = row % 16 / 8 * kHalf + row / 16 * 8 + row % 8;
        const int column = order[size_t(e * kColumns + c)];
        const uint32_t word =
            stored[size_t((e - 1) * kWords + column / 8 * kRows + from)];
        const unsigned byte =
            packed[size_t((e * kRows + row) * kRowBytes + c / 2)];
        EXPECT_EQ(byte >> c % 2 * 4 & 15, word >> column % 8 * 4 & 15)
            << e << " " << row << " " << c;
      }
}

} // namespace
