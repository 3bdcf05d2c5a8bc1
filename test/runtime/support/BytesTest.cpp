//===- BytesTest.cpp - sizes as people write them -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/support/Bytes.h"

#include <gtest/gtest.h>

using namespace moec;

TEST(Bytes, AreRead) {
  const std::pair<const char *, uint64_t> rows[] = {
      {"0", 0},
      {"1024", 1024},
      {"500M", 500000000},
      {"2G", 2000000000},
      {"1.5KB", 1500},
      {"2Gi", uint64_t(2) << 30},
      {"1KiB", 1024},
      {"3B", 3},
      {"1T", 1000000000000},
      {"1e18", 1000000000000000000}};
  for (const auto &[text, bytes] : rows) {
    const Result<uint64_t> read = parseBytes(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, bytes) << text;
  }
}

TEST(Bytes, AreRefused) {
  for (const char *text :
       {"", "x", "2X", "-1", "2 G", "2GG", "nan", "inf", "1e30", "2iB", "G"}) {
    const Result<uint64_t> read = parseBytes(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message,
              "expected a size, such as 500M, 2G or 1GiB, got '" +
                  std::string(text) + "'");
  }
}

TEST(Bytes, AreShown) {
  EXPECT_EQ(bytesText(0), "0.00 MB");
  EXPECT_EQ(bytesText(596590), "0.60 MB");
  EXPECT_EQ(bytesText(1000000000), "1.00 GB");
  EXPECT_EQ(bytesText(1320000000), "1.32 GB");
}
