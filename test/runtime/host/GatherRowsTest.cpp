//===- GatherRowsTest.cpp - rows by pair and by expert on the host --------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/host/StageCall.h"
#include "test/runtime/host/TinyLayer.h"

#include <gmock/gmock.h>

#include <utility>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Two sorted rows of two experts, of four pairs.
StageCall sortedRows(const std::vector<float> &rows = {3, 1},
                     const std::string &type = "bf16") {
  StageCall call("gather_rows", {{"columns", 2}, {"experts", 2}});
  call.ctas = 4;
  call.operand("input", "bf16", 4, {1, 2, 3, 4, 5, 6, 7, 8});
  call.operand("rows", "i32", 1, rows);
  call.operand("offsets", "i32", 1, {0, 1, 2});
  call.result("result", type, 2, 2);
  return call;
}

StageCall rowsOfPairs(const std::vector<float> &positions = {-1, 1, -1, 0}) {
  StageCall call("gather_rows", {{"columns", 2}, {"pairs", 2}});
  call.ctas = 4;
  call.operand("input", "f32", 2, {1, 2, 3, 4});
  call.operand("positions", "i32", 2, positions);
  call.result("result", "f32", 4, 2);
  return call;
}

std::string errorOf(StageCall call) {
  return messageOf(call.run(stages::gather_rows));
}

} // namespace

TEST(GatherRows, AreSortedByExpert) {
  StageCall call = sortedRows();
  Result<void> done = call.run(stages::gather_rows);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("result"), ElementsAre(7, 8, 3, 4));
}

TEST(GatherRows, OfPairsAreZeroWithoutAPosition) {
  StageCall call = rowsOfPairs();
  Result<void> done = call.run(stages::gather_rows);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("result"), ElementsAre(0, 0, 3, 4, 0, 0, 1, 2));
}

TEST(GatherRows, AreChecked) {
  EXPECT_THAT(errorOf(sortedRows({3, -1})),
              HasSubstr("expected rows of the input, row 1 has -1"));
  EXPECT_THAT(errorOf(rowsOfPairs({-1, 1, -2, 0})),
              HasSubstr("expected rows of the input, row 2 has -2"));
  StageCall call = sortedRows();
  call.operand("offsets", "i32", 1, {0, 1, -2});
  EXPECT_THAT(errorOf(std::move(call)),
              HasSubstr("expected rows >= 0, offsets end with -2"));
  call = sortedRows();
  call.stage.attributes["experts"] = 0;
  EXPECT_THAT(errorOf(std::move(call)),
              HasSubstr("expected experts of at least 1, got 0"));
  call = sortedRows();
  call.stage.attributes["columns"] = 0;
  EXPECT_THAT(errorOf(std::move(call)),
              HasSubstr("expected columns of at least 1, got 0"));
  EXPECT_THAT(errorOf(sortedRows({3, 1}, "f32")),
              HasSubstr("expected input and result of one element type"));
}
