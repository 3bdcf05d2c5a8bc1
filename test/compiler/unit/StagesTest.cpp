//===- StagesTest.cpp - stages in ODS and in manifests --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of runtime/package/Stages.h, which the runtime has without MLIR, are
// what ODS says of the stages.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Stages.h"
#include "dialect/Moe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

using namespace moec;
using testing::UnorderedElementsAreArray;

namespace {
std::vector<std::string> wordsOf(WordList list) {
  return {list.begin(), list.end()};
}

std::vector<std::string> wordsOf(llvm::ArrayRef<llvm::StringRef> names) {
  return {names.begin(), names.end()};
}

/// `shown`: results that a manifest has besides. `optional`: those that a
/// kernel may leave out. `ofRank`: a number of the rank that the stage may
/// take.
template <typename Op>
void compare(std::vector<std::string> shown = {}, std::string optional = {},
             std::string ofRank = {}) {
  const StageKind *kind =
      findStageKind(std::string_view(Op::getOperationName()).substr(4));
  ASSERT_NE(kind, nullptr) << Op::getOperationName().str();
  std::vector<std::string> operands, results = wordsOf(Op::getODSResults());
  // A variadic operand is one for each number of an activation.
  for (const std::string &word : wordsOf(Op::getODSOperands()))
    if (word != "numbers")
      operands.push_back(word);
    else
      for (const catalog::ActivationParameter &row :
           catalog::kActivationParameters)
        operands.push_back(std::string(row.weight) + "?");
  // Variadic scales are named one by one in `shown`.
  std::erase(results, "scales");
  for (std::string &word : results)
    if (word == optional)
      word += "?";
  if (!ofRank.empty()) {
    EXPECT_NE(findRankOperand(ofRank), nullptr);
    operands.push_back(ofRank + "?");
  }
  results.insert(results.end(), shown.begin(), shown.end());
  EXPECT_THAT(wordsOf(kind->operands), UnorderedElementsAreArray(operands))
      << kind->op;
  EXPECT_THAT(wordsOf(kind->results), UnorderedElementsAreArray(results))
      << kind->op;
}
} // namespace

TEST(Stages, AreCalledInManifestsAsInODS) {
  compare<moe::RouteOp>({"ids?", "weights?"}, "", "local_begin");
  compare<moe::CountOp>();
  compare<moe::PermuteOp>({}, "counts", "local_begin");
  compare<moe::PairRowsOp>({}, "", "local_begin");
  compare<moe::BatchOp>();
  compare<moe::SharedRowsOp>();
  compare<moe::AmaxOp>();
  compare<moe::QuantizeOp>({"scale?", "second_scale?"});
  compare<moe::DequantizeOp>();
  compare<moe::PermuteColumnsOp>();
  compare<moe::GatherRowsOp>();
  compare<moe::GroupedMatmulOp>({}, "", "add_bias");
  compare<moe::ActivateOp>();
  compare<moe::CombineOp>({}, "", "add_identity");
  compare<moe::CombineNormedOp>();
  compare<moe::CombineConstantsOp>();
}
