//===- StagesTest.cpp - stages on the host device, one by one -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that the tiny layer lacks, with numbers that can be added up by hand:
// zero experts, sinks, row weights before a quantization, shared experts.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/host/StageCall.h"
#include "test/runtime/host/TinyLayer.h"

#include <cmath>
#include <gmock/gmock.h>

using namespace moec;
using namespace moec::host;
using namespace moec::test;
using testing::ElementsAre;
using testing::FloatEq;

namespace {

/// Two tokens with two pairs each. The first has an expert and a zero expert,
/// the second two zero experts.
StageCall combineOfZeroExperts() {
  StageCall call("combine", {{"pairs", 2}, {"hidden", 2}});
  call.size("tokens", 2);
  call.operand("positions", "i32", 2, {0, -1, -1, -1});
  call.operand("topk_ids", "i32", 2,
               {3, kIdentityPlace, kIdentityPlace, kIdentityPlace});
  call.operand("partials", "f32", 1, {10, 20});
  call.operand("identity", "f32", 2, {1, 2, 4, 8});
  call.result("out", "f32", 2, 2);
  return call;
}

/// Given ids, four experts in two slots each, and these counts of replicas.
StageCall routeToReplicas(const std::vector<float> &counts,
                          const std::vector<float> &ids) {
  StageCall call("route", {{"experts", 4},
                           {"top_k", 2},
                           {"groups", 0},
                           {"top_groups", 0},
                           {"score", "identity"},
                           {"select", "top_k"},
                           {"normalize", "softmax"},
                           {"physical_experts", 6},
                           {"replica_slots", 2}});
  const auto tokens = int64_t(ids.size()) / 2;
  call.size("tokens", tokens);
  call.operand("given_ids", "i32", tokens, ids);
  call.operand("given_weights", "f32", tokens,
               std::vector<float>(ids.size(), 1));
  call.operand("logical_to_physical", "i32", 4, {0, 4, 1, 5, 2, -1, 3, -1});
  call.operand("replica_count", "i32", 1, counts);
  call.result("topk_ids", "i32", tokens, 2);
  call.result("topk_weights", "f32", tokens, 2);
  return call;
}

} // namespace

/// The engine's tables are bounded: a count means a slot that there is.
TEST(Route, CountsOfReplicasAreBounded) {
  StageCall call = routeToReplicas({2, 9, 0, -3}, {1, 1, 1, 1, 1, 1});
  ASSERT_TRUE(call.run(stages::route));
  EXPECT_THAT(call.numbersOf("topk_ids"), ElementsAre(1, 5, 1, 5, 1, 5));
  call = routeToReplicas({2, 9, 0, -3}, {2, 2, 3, 3, 0, 0});
  ASSERT_TRUE(call.run(stages::route));
  EXPECT_THAT(call.numbersOf("topk_ids"), ElementsAre(2, 2, 3, 3, 0, 4));
  // Ids of no expert.
  call = routeToReplicas({2, 1, 1, 1}, {-1, 4, 7, -9});
  ASSERT_TRUE(call.run(stages::route));
  EXPECT_THAT(call.numbersOf("topk_ids"), ElementsAre(-1, -1, -1, -1));
}

TEST(Combine, ZeroExpertsHandWeightedRowsOn) {
  StageCall call = combineOfZeroExperts();
  call.operand("topk_weights", "f32", 2, {0.5f, 0.25f, 0.5f, 0.25f});
  Result<void> done = call.run(stages::combine);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("out"), ElementsAre(5.25f, 10.5f, 3, 6));

  // Without weights each is 1.
  StageCall plain = combineOfZeroExperts();
  done = plain.run(stages::combine);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(plain.numbersOf("out"), ElementsAre(11, 22, 8, 16));
}

namespace {
/// One token, whose experts 3 and 4 are sinks.
StageCall routeWithSinks(nlohmann::json more = nlohmann::json::object()) {
  nlohmann::json attributes = {
      {"score", "log_sigmoid"}, {"select", "top_k"}, {"normalize", "softmax"},
      {"experts", 5},           {"top_k", 3},        {"groups", 0},
      {"top_groups", 0},        {"scale", 2.0},      {"sinks", 2}};
  attributes.update(more);
  StageCall call("route", std::move(attributes));
  call.size("tokens", 1);
  call.operand("logits", "f32", 1, {1, 0.5f, -1, 9, -2});
  call.operand("routing_bias", "f32", 1, {0, 0, 0.5f, -9, 9});
  call.result("topk_ids", "i32", 1, 3);
  call.result("topk_weights", "f32", 1, 3);
  return call;
}
} // namespace

TEST(Route, EveryTokenTakesTheSinks) {
  StageCall call = routeWithSinks();
  Result<void> done = call.run(stages::route);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("topk_ids"), ElementsAre(2, 3, 4));
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double sum = sigmoid(-1) + sigmoid(9) + sigmoid(-2);
  const std::vector<float> weights = call.numbersOf("topk_weights");
  EXPECT_NEAR(weights[0], 2 * sigmoid(-1) / sum, 1e-6);
  EXPECT_NEAR(weights[1], 2 * sigmoid(9) / sum, 1e-6);
  EXPECT_NEAR(weights[2], 2 * sigmoid(-2) / sum, 1e-6);
}

/// The lower index wins among zeros of both signs.
TEST(Route, ZerosOfBothSignsAreEqual) {
  StageCall call("route", {{"score", "identity"},
                           {"select", "top_k"},
                           {"normalize", "none"},
                           {"experts", 4},
                           {"top_k", 2},
                           {"groups", 0},
                           {"top_groups", 0},
                           {"scale", 1.0}});
  call.size("tokens", 2);
  call.operand("logits", "f32", 2, {-1, -0.0f, 0, 0, 0, -0.0f, -0.0f, -1});
  call.result("topk_ids", "i32", 2, 2);
  call.result("topk_weights", "f32", 2, 2);
  Result<void> done = call.run(stages::route);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("topk_ids"), ElementsAre(1, 2, 0, 1));
}

TEST(Route, SinksAreFewerThanTheExpertsOfAToken) {
  for (const nlohmann::json &more : {nlohmann::json{{"sinks", -1}},
                                     {{"sinks", 3}},
                                     {{"groups", 5}, {"top_groups", 5}}}) {
    StageCall call = routeWithSinks(more);
    EXPECT_THAT(messageOf(call.run(stages::route)),
                testing::HasSubstr("expected sinks of at least 0 and below "
                                   "top_k = 3, and none with groups or "
                                   "select top_k"));
  }
}

TEST(Combine, OneRankAddsZeroExperts) {
  for (const int64_t adds : {0, 1}) {
    StageCall call = combineOfZeroExperts();
    call.operand("topk_weights", "f32", 2, {0.5f, 0.25f, 0.5f, 0.25f});
    call.operand("residual", "f32", 2, {100, 100, 200, 200});
    call.operand("addend", "f32", 4, {2, 2, 7, 7, 7, 7, 7, 7});
    call.size("adds", adds);
    call.stage.operands["add_identity"] = "adds";
    Result<void> done = call.run(stages::combine);
    ASSERT_TRUE(done) << messageOf(done);
    if (adds)
      EXPECT_THAT(call.numbersOf("out"),
                  ElementsAre(106.25f, 111.5f, 203, 206));
    else
      EXPECT_THAT(call.numbersOf("out"), ElementsAre(106, 111, 200, 200));
  }
}

namespace {

/// Two tokens with two pairs each; the second has one expert.
StageCall combineNormed(double epsilon) {
  StageCall call("combine_normed",
                 {{"pairs", 2}, {"hidden", 2}, {"epsilon", epsilon}});
  call.size("tokens", 2);
  call.operand("positions", "i32", 2, {0, 1, -1, 1});
  call.operand("topk_weights", "f32", 2, {0.5f, 0.25f, 9, 2});
  call.operand("partials", "f32", 2, {1, 7, 3, 2});
  call.operand("norm_weight", "f32", 1, {0, -0.5f});
  call.result("out", "f32", 2, 2);
  return call;
}

} // namespace

TEST(CombineNormed, RowsAreScaledAndDividedByTheirRoot) {
  // The rows are (1, 3.5) and (3, 1) before their norms: mean squares 6.625 and
  // 5.
  StageCall call = combineNormed(2.375);
  Result<void> done = call.run(stages::combine_normed);
  ASSERT_TRUE(done) << messageOf(done);
  const float second = 1 / std::sqrt(7.375f);
  EXPECT_THAT(call.numbersOf("out"),
              ElementsAre(FloatEq(0.5f / 3 + 0.75f * second),
                          FloatEq(1.75f / 3 + 0.25f * second),
                          FloatEq(6 * second), FloatEq(2 * second)));

  StageCall more = combineNormed(2.375);
  more.operand("residual", "f32", 2, {1, 2, 3, 4});
  done = more.run(stages::combine_normed);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(more.numbersOf("out"),
              ElementsAre(FloatEq(1 + 0.5f / 3 + 0.75f * second),
                          FloatEq(2 + 1.75f / 3 + 0.25f * second),
                          FloatEq(3 + 6 * second), FloatEq(4 + 2 * second)));
}

TEST(CombineNormed, NeedsAnEpsilonAndPlaces) {
  StageCall call = combineNormed(0);
  EXPECT_NE(messageOf(call.run(stages::combine_normed))
                .find("expected an epsilon above 0, got 0"),
            std::string::npos);
  StageCall places = combineNormed(1);
  places.operand("positions", "i32", 2, {0, 1, -2, 1});
  EXPECT_NE(messageOf(places.run(stages::combine_normed))
                .find("expected positions >= -1, got -2 for token 1"),
            std::string::npos);
  StageCall sizes = combineNormed(1);
  sizes.stage.attributes["hidden"] = 0;
  EXPECT_NE(messageOf(sizes.run(stages::combine_normed))
                .find("expected pairs and hidden of at least 1, got 2 and 0"),
            std::string::npos);
}

namespace {

/// Two tokens with three pairs each, of 4 experts and 2 constants.
StageCall combineConstants() {
  StageCall call(
      "combine_constants",
      {{"pairs", 3}, {"hidden", 2}, {"experts", 4}, {"constants", 2}});
  call.size("tokens", 2);
  call.operand("positions", "i32", 2, {0, -1, -1, -1, 1, -1});
  call.operand("topk_ids", "i32", 2, {3, 5, -1, 4, 0, 4});
  call.operand("topk_weights", "f32", 2, {0.5f, 0.25f, 9, 2, 1, 3});
  call.operand("partials", "f32", 2, {2, 4, 6, 8});
  call.operand("constants", "f32", 2, {100, 200, 1000, 2000});
  call.result("out", "f32", 2, 2);
  return call;
}

} // namespace

TEST(CombineConstants, PairsBehindTheExpertsHaveVectors) {
  StageCall call = combineConstants();
  Result<void> done = call.run(stages::combine_constants);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("out"), ElementsAre(251, 502, 506, 1008));

  StageCall more = combineConstants();
  more.operand("residual", "f32", 2, {1, 2, 3, 4});
  done = more.run(stages::combine_constants);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(more.numbersOf("out"), ElementsAre(252, 504, 509, 1012));
}

TEST(CombineConstants, IdsAndSizesAreChecked) {
  StageCall call = combineConstants();
  call.operand("topk_ids", "i32", 2, {3, 6, -1, 4, 0, 4});
  EXPECT_NE(messageOf(call.run(stages::combine_constants))
                .find("expected positions >= -1 and ids below 6, got -1 and 6 "
                      "for token 0"),
            std::string::npos);
  StageCall sizes = combineConstants();
  sizes.stage.attributes["constants"] = 0;
  EXPECT_NE(messageOf(sizes.run(stages::combine_constants))
                .find("expected pairs, hidden, experts and constants of at "
                      "least 1, got 3, 2, 4 and 0"),
            std::string::npos);
}

namespace {

/// Weighted pairs of a token, then a token of zeros.
StageCall weightedRows(const char *op, nlohmann::json attributes) {
  attributes["pairs"] = 2;
  StageCall call(op, std::move(attributes));
  call.size("tokens", 2);
  call.operand("input", "f32", 2, {1, -4, 2, 0, 0, 0});
  call.operand("row_weights", "f32", 2, {2, -3, 5, 6});
  return call;
}

} // namespace

TEST(Amax, IsOfMagnitudesOfWeightedRows) {
  StageCall call = weightedRows("amax", {{"block_rows", 1}});
  call.result("block_amax", "f32", 1, 4);
  Result<void> done = call.run(stages::amax);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(call.numbersOf("block_amax"), ElementsAre(8, 12, 0, 0));

  StageCall blocks = weightedRows("amax", {{"block_rows", 3}});
  blocks.result("block_amax", "f32", 1, 2);
  done = blocks.run(stages::amax);
  ASSERT_TRUE(done) << messageOf(done);
  EXPECT_THAT(blocks.numbersOf("block_amax"), ElementsAre(12, 0));
}

TEST(Amax, MagnitudesHaveNoSign) {
  for (const float sign : {1.0f, -1.0f}) {
    const float values[] = {sign * 3, sign * -2, sign * 0.5f};
    EXPECT_EQ(largestOf(values, 3), 3);
    EXPECT_EQ(largestOf(values + 1, 2), 2);
    const float withNan[] = {sign * NAN, sign * 7};
    EXPECT_EQ(largestOf(withNan, 2), 7);
    EXPECT_TRUE(std::isnan(largestOf(withNan, 2, /*propagatesNan=*/true)));
  }
  const float negative[] = {-1, -5, -2};
  EXPECT_EQ(largestOf(negative, 3), 5);
  EXPECT_EQ(largestOf(negative, 0), 0);
}

TEST(Quantize, EachPairHasItsWeightAndScale) {
  StageCall call = weightedRows(
      "quantize",
      {{"group_rows", 1}, {"group_columns", -1}, {"dynamic", true}});
  call.result("data", "f8E4M3FN", 4, 3);
  call.result("scale", "f32", 4, 1);
  Result<void> done = call.run(stages::quantize);
  ASSERT_TRUE(done) << messageOf(done);
  const std::vector<float> scales = call.numbersOf("scale");
  EXPECT_THAT(scales[0], FloatEq(8.0f / 448));
  EXPECT_THAT(scales[1], FloatEq(12.0f / 448));
  // The largest magnitude becomes the largest number, with its sign.
  EXPECT_THAT(call.numbersOf("data"),
              ElementsAre(112, -448, 224, -112, 448, -224, 0, 0, 0, 0, 0, 0));
}

TEST(SharedRows, TokensThatAreNotValidWeighNothing) {
  for (const bool gated : {false, true}) {
    StageCall call("shared_rows", {{"tile_rows", 16}});
    call.size("tokens", 3);
    call.operand("valid_tokens", "i32", 1, {2});
    if (gated)
      call.operand("shared_gate", "f32", 3, {0, 0, 0});
    call.result("offsets", "i32", 1, 2);
    call.result("positions", "i32", 3, 1);
    call.result("topk_weights", "f32", 3, 1);
    call.result("tiles", "i32", 1, 4);
    call.result("tile_count", "i32", 1, 3);
    Result<void> done = call.run(stages::shared_rows);
    ASSERT_TRUE(done) << messageOf(done);
    EXPECT_THAT(call.numbersOf("offsets"), ElementsAre(0, 2));
    EXPECT_THAT(call.numbersOf("positions"), ElementsAre(0, 1, -1));
    const float weight = gated ? 0.5f : 1.0f;
    EXPECT_THAT(call.numbersOf("topk_weights"), ElementsAre(weight, weight, 0));
    EXPECT_THAT(call.numbersOf("tiles"), ElementsAre(0, 0, 2, 0));
    EXPECT_THAT(call.numbersOf("tile_count"), ElementsAre(1, 0, 0));
  }
}
