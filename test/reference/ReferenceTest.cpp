//===- ReferenceTest.cpp - tiny layers computed by hand
//--------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The expected numbers are worked out in the comments, not by other code.
//
//===----------------------------------------------------------------------===//

#include "test/reference/Reference.h"
#include "test/reference/TestData.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

using namespace moec::reference;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

nlohmann::json layerJson() {
  nlohmann::json descriptor = {
      {"element_type", "f32"},        {"group", nlohmann::json::array()},
      {"scale_type", nullptr},        {"dynamic", false},
      {"second_scale_type", nullptr}, {"zero_point_type", nullptr}};
  return {
      {"name", "tiny"},
      {"num_experts", 2},
      {"top_k", 1},
      {"hidden_size", 2},
      {"intermediate_size", 1},
      {"intermediate_size_per_partition", 1},
      {"local_experts", {{"begin", 0}, {"count", 2}}},
      {"in_dtype", "f32"},
      {"out_dtype", "f32"},
      {"router_logits_dtype", "f32"},
      {"routing",
       {{"name", "renormalize"},
        {"score", "identity"},
        {"select", "top_k"},
        {"normalize", "softmax"},
        {"groups", 0},
        {"top_groups", 0},
        {"scale", 1.0},
        {"bias", false}}},
      {"activation",
       {{"name", "silu"},
        {"function", "silu"},
        {"gated", true},
        {"alpha", nullptr},
        {"beta", nullptr},
        {"limit", nullptr}}},
      {"quant",
       {{"name", "f32"},
        {"a1", descriptor},
        {"a2", descriptor},
        {"w1", descriptor},
        {"w2", descriptor}}},
      {"gate_up_order", "gate_first"},
      {"has_bias", false},
      {"add_w2_bias", true},
      {"apply_router_weight_on_input", false},
      {"parallel", nlohmann::json::object()},
  };
}

Layer parse(const nlohmann::json &json) {
  auto layer = parseLayer(json);
  EXPECT_TRUE(layer) << (layer ? "" : layer.error().message);
  return layer ? *layer : Layer();
}

std::string parseError(const nlohmann::json &json) {
  auto layer = parseLayer(json);
  return layer ? "no error" : layer.error().message;
}

const Element *f32() { return findElement("f32"); }

/// E = 2, H = 2, I = 1. w13 of expert 0: gate (1, 0), up (0, 1); of expert 1:
/// gate (2, 0), up (0, 2). w2: (1, 10) and (3, 5).
struct Tiny {
  std::vector<float> x = {1, 2, 3, -1}, logits = {5, 1, 0, 4};
  std::vector<float> w13 = {1, 0, 0, 1, 2, 0, 0, 2}, w2 = {1, 10, 3, 5};
  std::vector<float> b13 = {0.5f, -1, 0.25f, 3}, b2 = {7, 8, 9, 11};
  Inputs inputs() const {
    Inputs in;
    in.tokens = 2;
    in.x = {x.data(), f32(), 0};
    in.logits = {logits.data(), f32(), 0};
    in.w13 = {w13.data(), f32(), {}};
    in.w2 = {w2.data(), f32(), {}};
    in.b13 = {b13.data(), f32(), {}};
    in.b2 = {b2.data(), f32(), {}};
    return in;
  }
};

double silu(double x) { return x / (1 + std::exp(-x)); }

std::vector<double> run(const Layer &layer, const Inputs &inputs) {
  auto routing = route(layer, inputs);
  EXPECT_TRUE(routing) << (routing ? "" : routing.error().message);
  std::vector<int64_t> list(inputs.tokens);
  std::iota(list.begin(), list.end(), 0);
  auto out = compute(layer, inputs, *routing, list, 1);
  EXPECT_TRUE(out) << (out ? "" : out.error().message);
  return out ? *out : std::vector<double>();
}

TEST(Reference, OneExpertEach) {
  Tiny tiny;
  const auto out = run(parse(layerJson()), tiny.inputs());
  // Token 0, expert 0: gate 1, up 2. Token 1, expert 1: gate 6, up -2.
  const double t0 = silu(1) * 2, t1 = silu(6) * -2;
  ASSERT_EQ(out.size(), 4u);
  EXPECT_DOUBLE_EQ(out[0], roundTo(*f32(), t0) * 1);
  EXPECT_DOUBLE_EQ(out[1], roundTo(*f32(), t0) * 10);
  EXPECT_DOUBLE_EQ(out[2], roundTo(*f32(), t1) * 3);
  EXPECT_DOUBLE_EQ(out[3], roundTo(*f32(), t1) * 5);
}

TEST(Reference, BiasesBeforeActivationAndBeforeTheWeight) {
  Tiny tiny;
  auto json = layerJson();
  json["has_bias"] = true;
  json["top_k"] = 2;
  auto in = tiny.inputs();
  in.tokens = 1;
  // Weights of logits 5 and 1.
  const double w0 = float(1 / (1 + std::exp(-4.0))),
               w1 = float(std::exp(-4.0) / (1 + std::exp(-4.0)));
  // Expert 0: gate 1 + 0.5, up 2 - 1; expert 1: gate 2 + 0.25, up 4 + 3.
  const double t0 = roundTo(*f32(), silu(1.5) * 1);
  const double t1 = roundTo(*f32(), silu(2.25) * 7);
  auto out = run(parse(json), in);
  EXPECT_NEAR(out[0], w0 * (t0 + 7) + w1 * (3 * t1 + 9), 1e-6);
  EXPECT_NEAR(out[1], w0 * (10 * t0 + 8) + w1 * (5 * t1 + 11), 1e-6);
  json["add_w2_bias"] = false;
  out = run(parse(json), in);
  EXPECT_NEAR(out[0], w0 * t0 + w1 * 3 * t1, 1e-6);
}

TEST(Reference, ActivationsAndUngated) {
  Tiny tiny;
  auto json = layerJson();
  auto in = tiny.inputs();
  in.tokens = 1;
  json["activation"]["function"] = "gelu";
  // gelu(1) = (1 + erf(1/sqrt 2)) / 2 = 0.841344746...
  EXPECT_NEAR(run(parse(json), in)[0], 0.8413447460685429 * 2, 1e-6);
  json["activation"]["function"] = "gelu_tanh";
  // (1 + tanh(0.7978845608 * 1.044715)) / 2 = 0.841191990...
  EXPECT_NEAR(run(parse(json), in)[0], 0.8411919906082768 * 2, 1e-6);
  // Not gated: w13 is [E, I, H], so expert 1's row is (0, 1) of the same data.
  json["activation"]["gated"] = false;
  json["activation"]["function"] = "silu";
  EXPECT_NEAR(run(parse(json), in)[1], silu(1) * 10, 1e-6);
}

TEST(Reference, SecondOperandIsRoundedWhereTheSchemeSaysSo) {
  // bf16 operands: t = silu(1) * 2 = 1.46211... rounds to 1.4609375.
  auto json = layerJson();
  for (const char *operand : {"a1", "a2", "w1", "w2"})
    json["quant"][operand]["element_type"] = "bf16";
  json["in_dtype"] = json["out_dtype"] = "bf16";
  Tiny tiny;
  const Element *bf16 = findElement("bf16");
  auto convert = [&](const std::vector<float> &from) {
    std::vector<uint16_t> to(from.size());
    for (size_t i = 0; i < from.size(); ++i)
      store(*bf16, to.data(), i, from[i]);
    return to;
  };
  const auto x = convert(tiny.x), w13 = convert(tiny.w13),
             w2 = convert(tiny.w2);
  auto in = tiny.inputs();
  in.tokens = 1;
  in.x = {x.data(), bf16, 0};
  in.w13 = {w13.data(), bf16, {}};
  in.w2 = {w2.data(), bf16, {}};
  const Layer layer = parse(json);
  const auto out = run(layer, in);
  EXPECT_EQ(out[0], 1.4609375);
  EXPECT_EQ(out[1], 14.609375);
  EXPECT_THAT(roundOutput(layer, out), ElementsAre(1.4609375, 14.625))
      << "14.609375 lies between 14.5625 and 14.625";
}

TEST(Reference, ColumnsSayTheirGroups) {
  auto json = layerJson();
  for (const char *weight : {"w1", "w2"}) {
    nlohmann::json &descriptor = json["quant"][weight];
    descriptor["element_type"] = "i8";
    descriptor["group"] = {1, 1};
    descriptor["scale_type"] = "f32";
  }
  json["group_index"] = true;
  const Element *i8 = findElement("i8"), *i32 = findElement("i32");
  // Expert 0 has gate (1, 1), up (1, -1); w2 1 and 2. Column 0 is of group 1.
  const std::vector<int8_t> w13 = {1, 1, 1, -1}, w2 = {1, 2};
  const std::vector<float> w13Scale = {2, 3, 5, 7}, w2Scale = {1, 1};
  const std::vector<int32_t> first = {1, 0}, second = {0};
  Tiny tiny;
  auto in = tiny.inputs();
  in.tokens = 1;
  in.w13 = {w13.data(), i8, {}};
  in.w2 = {w2.data(), i8, {}};
  in.w13Scale = {w13Scale.data(), f32(), {}};
  in.w2Scale = {w2Scale.data(), f32(), {}};
  in.w13GroupIndex = {first.data(), i32, {}};
  in.w2GroupIndex = {second.data(), i32, {}};
  // x is (1, 2): gate 1 * 3 + 2 * 2, up 1 * 7 - 2 * 5.
  const double t = roundTo(*f32(), silu(7) * -3);
  EXPECT_THAT(run(parse(json), in), ElementsAre(t, 2 * t));
}

TEST(Reference, StrideValidTokensGivenIdsAndRemoteExperts) {
  Tiny tiny;
  auto json = layerJson();
  auto in = tiny.inputs();
  const std::vector<float> strided = {1, 2, 99, 3, -1, 99};
  in.x = {strided.data(), f32(), 3};
  EXPECT_EQ(run(parse(json), in), run(parse(json), tiny.inputs()));

  in.validTokens = 1;
  auto out = run(parse(json), in);
  EXPECT_NE(out[0], 0);
  EXPECT_EQ(out[2], 0);
  EXPECT_EQ(out[3], 0);

  Inputs given = tiny.inputs();
  given.logits = {};
  const std::vector<int64_t> ids = {-1, 1};
  const std::vector<float> weights = {1, 0.5f};
  given.givenIds = {ids.data(), findElement("i64"), 0};
  given.givenWeights = {weights.data(), f32(), 0};
  out = run(parse(json), given);
  EXPECT_EQ(out[0], 0);
  EXPECT_NEAR(out[2], 0.5 * 3 * silu(6) * -2, 1e-5);

  // This rank owns expert 1 alone; its weights come first.
  json["local_experts"] = {{"begin", 1}, {"count", 1}};
  Inputs local = tiny.inputs();
  local.w13.data = tiny.w13.data() + 4;
  local.w2.data = tiny.w2.data() + 2;
  out = run(parse(json), local);
  EXPECT_EQ(out[0], 0) << "expert 0 is remote";
  EXPECT_NEAR(out[2], 3 * silu(6) * -2, 1e-5);
  EXPECT_THAT(route(parse(json), local)->counts, ElementsAre(1));
}

TEST(Reference, WeightsOnTheInputMultiplyNothingElse) {
  Tiny tiny;
  auto json = layerJson();
  json["apply_router_weight_on_input"] = true;
  Inputs in = tiny.inputs();
  in.logits = {};
  const std::vector<int32_t> ids = {0, 1};
  const std::vector<float> weights = {0.5f, 2};
  in.givenIds = {ids.data(), findElement("i32"), 0};
  in.givenWeights = {weights.data(), f32(), 0};
  const auto out = run(parse(json), in);
  // Token 0: gate 0.5, up 1. Token 1: gate 12, up -4.
  EXPECT_NEAR(out[1], silu(0.5) * 1 * 10, 1e-5);
  EXPECT_NEAR(out[3], silu(12) * -4 * 5, 1e-4);
}

TEST(Reference, ZeroExpertsHandTheTokenOn) {
  Tiny tiny;
  auto json = layerJson();
  json["top_k"] = 2;
  json["routing"]["num_zero_experts"] = 1;
  json["routing"]["output_scale"] = 3.0;
  json["routing"]["add_zero_experts"] = true;
  Inputs in = tiny.inputs();
  in.logits = {};
  const std::vector<int32_t> ids = {2, 0, -1, 2};
  const std::vector<float> weights = {0.25f, 1, 4, 0.5f};
  in.givenIds = {ids.data(), findElement("i32"), 0};
  in.givenWeights = {weights.data(), f32(), 0};
  auto out = run(parse(json), in);
  EXPECT_NEAR(out[0], 3 * (0.25 * 1 + silu(1) * 2), 1e-5);
  EXPECT_NEAR(out[3], 3 * 0.5 * -1, 1e-6);
  EXPECT_THAT(route(parse(json), in)->counts, ElementsAre(1, 0));
  // Another rank adds them.
  json["routing"]["add_zero_experts"] = false;
  out = run(parse(json), in);
  EXPECT_NEAR(out[0], 3 * silu(1) * 2, 1e-5);
  EXPECT_EQ(out[3], 0);
}

TEST(Reference, ConstantExpertsAreVectors) {
  Tiny tiny;
  auto json = layerJson();
  json["top_k"] = 2;
  json["routing"]["num_constant_experts"] = 2;
  json["routing"]["output_scale"] = 3.0;
  Inputs in = tiny.inputs();
  in.logits = {};
  const int64_t hidden = parse(json).hidden;
  const int32_t first = int32_t(parse(json).experts);
  const std::vector<int32_t> ids = {first + 1, 0, -1, first};
  const std::vector<float> weights = {0.25f, 1, 4, 0.5f};
  in.givenIds = {ids.data(), findElement("i32"), 0};
  in.givenWeights = {weights.data(), f32(), 0};
  EXPECT_EQ(
      compute(parse(json), in, *route(parse(json), in), {0}, 1).error().message,
      "constant_experts is needed: experts are vectors");
  std::vector<float> constants(2 * hidden);
  for (size_t i = 0; i < constants.size(); ++i)
    constants[i] = float(i + 1);
  in.constants = {constants.data(), f32(), 0};
  const auto out = run(parse(json), in);
  EXPECT_NEAR(out[0], 3 * (0.25 * double(hidden + 1) + silu(1) * 2), 1e-5);
  EXPECT_NEAR(out[hidden], 3 * 0.5 * 1, 1e-6);
  EXPECT_THAT(route(parse(json), in)->counts, ElementsAre(1, 0));
}

TEST(Reference, EachOutputIsNormalized) {
  Tiny tiny;
  auto json = layerJson();
  Inputs in = tiny.inputs();
  in.logits = {};
  const std::vector<int32_t> ids = {0, 1};
  const std::vector<float> weights = {0.5f, 1};
  in.givenIds = {ids.data(), findElement("i32"), 0};
  in.givenWeights = {weights.data(), f32(), 0};
  const auto plain = run(parse(json), in);
  json["post_expert_norm_eps"] = 0.75;
  EXPECT_EQ(
      compute(parse(json), in, *route(parse(json), in), {0}, 1).error().message,
      "post_expert_norm is needed: outputs are normalized");
  const std::vector<float> norm(parse(json).hidden, 0.5f);
  in.normWeight = {norm.data(), f32(), 0};
  const auto out = run(parse(json), in);
  const int64_t hidden = parse(json).hidden;
  for (int64_t token = 0; token < 2; ++token) {
    double squares = 0;
    for (int64_t n = 0; n < hidden; ++n) {
      const double scaled =
          1.5 * plain[token * hidden + n] / weights[size_t(token)];
      squares += scaled * scaled;
    }
    const double root = std::sqrt(squares / double(hidden) + 0.75);
    for (int64_t n = 0; n < hidden; ++n)
      EXPECT_NEAR(out[token * hidden + n],
                  1.5 * plain[token * hidden + n] / root, 1e-6);
  }
}

//===----------------------------------------------------------------------===//
// Routing
//===----------------------------------------------------------------------===//

Layer routingLayer(const char *score, const char *normalize, int64_t experts,
                   int64_t topK) {
  auto json = layerJson();
  json["num_experts"] = experts;
  json["local_experts"]["count"] = experts;
  json["top_k"] = topK;
  json["routing"]["score"] = score;
  json["routing"]["normalize"] = normalize;
  return parse(json);
}

Routing routeRow(const Layer &layer, const std::vector<float> &logits,
                 const std::vector<int32_t> &observed = {}) {
  Inputs in;
  in.tokens = 1;
  in.logits = {logits.data(), f32(), 0};
  return *route(layer, in, observed.empty() ? nullptr : observed.data());
}

TEST(Routing, MethodsByHand) {
  // exp(ln 1), exp(ln 2), exp(ln 5): probabilities 1/8, 2/8, 5/8.
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  auto weights = [&](const char *score, const char *normalize) {
    return routeRow(routingLayer(score, normalize, 3, 2), logits).weights;
  };
  auto near = [](double value) { return testing::FloatNear(value, 1e-6); };
  EXPECT_THAT(weights("softmax", "none"),
              ElementsAre(near(5 / 8.0), near(2 / 8.0)));
  EXPECT_THAT(weights("softmax", "sum"),
              ElementsAre(near(5 / 7.0), near(2 / 7.0)));
  EXPECT_THAT(weights("identity", "softmax"),
              ElementsAre(near(5 / 7.0), near(2 / 7.0)));
  EXPECT_THAT(weights("identity", "none"),
              ElementsAre(near(std::log(5.0)), near(std::log(2.0))));
  EXPECT_THAT(routeRow(routingLayer("softmax", "sum", 3, 2), logits).ids,
              ElementsAre(2, 1));
}

TEST(Routing, EdgesOfTheLogits) {
  const Layer renormalize = routingLayer("identity", "softmax", 4, 3);
  // NaN counts as -inf; among equals the lower index comes first.
  Routing routing = routeRow(renormalize, {kNan, 1, -kInf, 2});
  EXPECT_THAT(routing.ids, ElementsAre(3, 1, 0));
  EXPECT_FLOAT_EQ(routing.weights[0] + routing.weights[1], 1);
  EXPECT_EQ(routing.weights[2], 0);
  // +inf is selected first and has no weight.
  routing = routeRow(renormalize, {0, kInf, 0, 0});
  EXPECT_THAT(routing.ids, ElementsAre(1, 0, 2));
  EXPECT_THAT(routing.weights, ElementsAre(0, 0.5f, 0.5f));
  // Nothing finite: 0 each, distinct ids.
  for (float value : {kNan, kInf, -kInf})
    for (const char *score : {"identity", "softmax"}) {
      routing = routeRow(
          routingLayer(score, score[0] == 'i' ? "softmax" : "sum", 4, 3),
          {value, value, value, value});
      EXPECT_THAT(routing.ids, ElementsAre(0, 1, 2));
      EXPECT_THAT(routing.weights, ElementsAre(0, 0, 0));
    }
  // Scores that are all 0 in f32 weigh 0, as in transformers; one that is not
  // has the whole weight.
  for (const char *score : {"sigmoid", "sqrtsoftplus"})
    for (const char *normalize : {"sum", "sum_epsilon"}) {
      const Layer layer = routingLayer(score, normalize, 4, 2);
      routing = routeRow(layer, {-600, -700, -650, -720});
      EXPECT_THAT(routing.ids, ElementsAre(0, 2));
      EXPECT_THAT(routing.weights, ElementsAre(0, 0));
      routing = routeRow(layer, {-600, 3, -650, -720});
      EXPECT_THAT(routing.weights, ElementsAre(1, 0));
    }
  // Without renormalization a score that is not finite weighs 0.
  routing =
      routeRow(routingLayer("identity", "none", 4, 3), {5, kInf, kNan, -1});
  EXPECT_THAT(routing.ids, ElementsAre(1, 0, 3));
  EXPECT_THAT(routing.weights, ElementsAre(0, 5, -1));
}

TEST(Routing, LogitTiesAreExact) {
  const Layer layer = routingLayer("identity", "softmax", 4, 2);
  EXPECT_EQ(routeRow(layer, {1, 3, 3, 3}, {1, 2}).mistakes, 0);
  const Routing wrong = routeRow(layer, {1, 3, 3, 3}, {1, 3});
  EXPECT_EQ(wrong.mistakes, 1);
  EXPECT_THAT(wrong.ids, ElementsAre(1, 2));
  EXPECT_EQ(wrong.firstMistake,
            "token 0 selected expert 3 at place 1 where expert 2 is best");
}

TEST(Routing, ScoreTiesTakeAnyResolution) {
  const Layer layer = routingLayer("softmax", "none", 4, 2);
  // Experts 1 to 3 tie exactly; then within 1e-6.
  for (float step : {0.0f, 2e-6f}) {
    const std::vector<float> logits = {1, 3, 3 + step, 3};
    for (const std::vector<int32_t> &observed :
         {std::vector<int32_t>{1, 2}, {3, 1}, {2, 3}}) {
      const Routing routing = routeRow(layer, logits, observed);
      EXPECT_EQ(routing.mistakes, 0);
      EXPECT_EQ(routing.ids, observed) << "the observed resolution is adopted";
    }
    EXPECT_EQ(routeRow(layer, logits, {0, 1}).mistakes, 1);
  }
  EXPECT_EQ(routeRow(layer, {1, 3, 3.01f, 3}, {1, 2}).mistakes, 1)
      << "0.01 of a logit is no tie";
  EXPECT_EQ(routeRow(layer, {1, 3, 3, 3}, {1, 1}).mistakes, 1);
  EXPECT_EQ(routeRow(layer, {1, 3, 3, 3}, {1, 4}).mistakes, 1);
  EXPECT_EQ(routeRow(layer, {1, 3, 3, 3}, {1, -1}).mistakes, 1);
}

/// Routes one row of an f32 layer whose scores have a bias.
Routing routeBiased(const Layer &layer, const std::vector<float> &logits,
                    const std::vector<float> &bias,
                    const std::vector<int32_t> &observed = {}) {
  Inputs inputs;
  inputs.tokens = 1;
  inputs.logits = {logits.data(), layer.logitsType, 0};
  inputs.routingBias = {bias.data(), findElement("f32"), 0};
  auto routing =
      route(layer, inputs, observed.empty() ? nullptr : observed.data());
  EXPECT_TRUE(routing);
  return routing ? *routing : Routing();
}

TEST(Routing, LogitsWithAFactorAndAnEpsilonOfTheSum) {
  Layer layer = routingLayer("sigmoid", "sum_epsilon", 2, 2);
  layer.logitScale = 0.5;
  layer.sumEpsilon = 0.25;
  const Routing routing = routeRow(layer, {4, -2});
  const double best = 1 / (1 + std::exp(-2)), next = 1 / (1 + std::exp(1));
  ASSERT_EQ(routing.weights.size(), 2u);
  EXPECT_NEAR(routing.weights[0], best / (best + next + 0.25), 1e-6);
  EXPECT_NEAR(routing.weights[1], next / (best + next + 0.25), 1e-6);
}

TEST(Routing, GroupsAndBias) {
  Layer layer = routingLayer("sigmoid", "sum_epsilon", 6, 2);
  layer.routingBias = true;
  layer.groups = 3;
  layer.topGroups = 1;
  // Scores 1/2 each; groups are worth 1 + 0.3, 1 + 0.4, 1 + 0.35: the second,
  // though the best expert is of the first. The bias is not in the weights.
  const std::vector<float> logits(6, 0.0f);
  Routing routing = routeBiased(layer, logits, {0.3f, 0, 0.2f, 0.2f, 0.35f, 0});
  EXPECT_THAT(routing.ids, ElementsAre(2, 3));
  EXPECT_THAT(routing.weights, ElementsAre(0.5f, 0.5f));
  // Two groups that tie: either is right, and its weights follow; the poorer
  // third and a mixture are not.
  const std::vector<float> even = {0.2f, 0.1f, 0.2f, 0.1f, 0, 0};
  EXPECT_EQ(routeBiased(layer, logits, even, {0, 1}).mistakes, 0);
  EXPECT_EQ(routeBiased(layer, logits, even, {2, 3}).mistakes, 0);
  EXPECT_EQ(routeBiased(layer, logits, even, {4, 5}).mistakes, 1);
  EXPECT_EQ(routeBiased(layer, logits, even, {0, 2}).mistakes, 1);
  // Without a bias a group is worth its best.
  layer.routingBias = false;
  EXPECT_THAT(routeRow(layer, {0, 1, 0.9f, 0.9f, 0, 0}).ids, ElementsAre(1, 0));
  layer.select = "top_k_per_group";
  layer.groups = 2;
  EXPECT_THAT(routeRow(layer, {0, 1, 5, 2, 9, 7}).ids, ElementsAre(2, 4));
}

TEST(Routing, SparseMixerByHand) {
  // Round 1: 1.00 and 0.99 are near ((1 - 0.99) / 1 <= 0.02), 0.5 is not.
  // Round 2, without 1.00: 0.99 alone.
  const Layer layer = routingLayer("sparsemixer", "none", 3, 2);
  const Routing routing = routeRow(layer, {0.99f, 1.0f, 0.5f});
  EXPECT_THAT(routing.ids, ElementsAre(1, 0));
  EXPECT_NEAR(routing.weights[0], 1 / (1 + std::exp(-0.01)), 1e-6);
  EXPECT_EQ(routing.weights[1], 1.0f);
}

TEST(Routing, SoftcapByHand) {
  Layer layer = routingLayer("sigmoid", "none", 3, 2);
  layer.softcap = 2;
  const std::vector<float> logits = {-1, 3, 100};
  const auto capped = [](double logit) {
    return 1 / (1 + std::exp(-2 * std::tanh(logit / 2)));
  };
  Routing routing = routeRow(layer, logits);
  EXPECT_THAT(routing.ids, ElementsAre(2, 1));
  EXPECT_NEAR(routing.weights[0], capped(100), 1e-6);
  EXPECT_NEAR(routing.weights[1], capped(3), 1e-6);
  // A bias is added to scores of capped logits, which lie closer together.
  layer.routingBias = true;
  routing = routeBiased(layer, logits, {0.2f, 0.1f, 0});
  EXPECT_THAT(routing.ids, ElementsAre(1, 2));
  EXPECT_NEAR(routing.weights[0], capped(3), 1e-6);
  layer.softcap = 0;
  EXPECT_THAT(routeBiased(layer, logits, {0.2f, 0.04f, 0}).ids,
              ElementsAre(2, 1));
}

TEST(Routing, SinksByHand) {
  Layer layer = routingLayer("log_sigmoid", "softmax", 5, 3);
  layer.sinks = 2;
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  // Experts 3 and 4 are sinks: neither is selected, both are taken.
  const std::vector<float> logits = {1, 0.5f, -1, 9, -2};
  const auto expectWeights = [&](const Routing &routing) {
    double sum = 0;
    for (int32_t id : routing.ids)
      sum += sigmoid(logits[id]);
    for (size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(routing.weights[k], sigmoid(logits[routing.ids[k]]) / sum,
                  1e-6);
  };
  Routing routing = routeRow(layer, logits);
  EXPECT_THAT(routing.ids, ElementsAre(0, 3, 4));
  expectWeights(routing);
  EXPECT_EQ(routeRow(layer, logits, {0, 3, 4}).mistakes, 0);
  for (const std::vector<int32_t> &wrong :
       {std::vector<int32_t>{3, 0, 4}, {1, 3, 4}, {0, 4, 3}, {4, 3, 0}})
    EXPECT_EQ(routeRow(layer, logits, wrong).mistakes, 1);
  // The bias is added to the sigmoid. It is in no weight, and moves no sink.
  layer.routingBias = true;
  routing = routeBiased(layer, logits, {0, 0, 0.5f, -9, 9});
  EXPECT_THAT(routing.ids, ElementsAre(2, 3, 4));
  expectWeights(routing);
  // The weights are shares also of sigmoids that f32 cannot hold.
  routing =
      routeBiased(layer, {-200, -300, -300, -201, -202}, {0.5f, 0, 0, 0, 0});
  const double all = 1 + std::exp(-1.0) + std::exp(-2.0);
  EXPECT_THAT(routing.ids, ElementsAre(0, 3, 4));
  EXPECT_NEAR(routing.weights[0], 1 / all, 1e-6);
  EXPECT_NEAR(routing.weights[2], std::exp(-2.0) / all, 1e-6);
}

TEST(Routing, ScaleMultipliesWeights) {
  auto json = layerJson();
  json["routing"]["scale"] = 2.5;
  EXPECT_EQ(routeRow(parse(json), {1, 0}).weights[0], 2.5f);
}

//===----------------------------------------------------------------------===//
// Sampling and errors
//===----------------------------------------------------------------------===//

TEST(Sample, HoldsExpertsAndTilesEnds) {
  const Layer layer = routingLayer("identity", "softmax", 4, 1);
  const int64_t tokens = 400;
  Routing routing;
  routing.tokens = tokens;
  routing.pairs = 1;
  for (int64_t token = 0; token < tokens; ++token)
    routing.locals.push_back(token < 10 ? 3 : token < 300 ? 1 : 0);
  const auto sample = sampleTokens(layer, routing, {64}, 40, 1);
  EXPECT_EQ(sample.size(), 40u);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  // Ends of experts 3, 1, 0; tile ends of expert 1 (rows from token 10).
  for (int64_t token : {0, 9, 10, 299, 300, 399, 73, 74, 137, 138, 363, 364})
    EXPECT_TRUE(std::binary_search(sample.begin(), sample.end(), token))
        << token;
  EXPECT_EQ(sampleTokens(layer, routing, {64}, 1000, 1).size(), 400u);
  EXPECT_EQ(sampleTokens(layer, routing, {1}, 20, 1).size(), 20u);
}

TEST(Layer, WhatTheReferenceCannotDoIsAnError) {
  auto json = layerJson();
  json.erase("top_k");
  EXPECT_EQ(parseError(json), "layer.top_k is missing");
  json = layerJson();
  json["routing"]["score"] = "entropy";
  EXPECT_EQ(parseError(json),
            "layer.routing.score must be one of identity, softmax, sigmoid, "
            "log_sigmoid, sqrtsoftplus, sparsemixer, drawn, drawn_normal, none "
            "for the reference, not \"entropy\"");
  json = layerJson();
  json["top_k"] = 2;
  json["routing"]["sinks"] = 1;
  json["routing"]["num_zero_experts"] = 1;
  json["routing"]["add_zero_experts"] = true;
  EXPECT_EQ(parseError(json),
            "layer.routing.sinks belong to select \"top_k\" without groups and "
            "zero experts");
  json = layerJson();
  json["activation"]["per_expert"] = {"gamma"};
  EXPECT_EQ(parseError(json),
            "layer.activation.per_expert has an unknown number, \"gamma\"");
  json = layerJson();
  json["quant"]["w1"]["group"] = {1, 128};
  EXPECT_THAT(parseError(json), HasSubstr("layer.quant.w1.group is [1,128]"));
  json = layerJson();
  json["in_dtype"] = "f64";
  EXPECT_THAT(parseError(json), HasSubstr("must be f32, f16 or bf16"));
  json = layerJson();
  json["top_k"] = 3;
  EXPECT_EQ(parseError(json), "layer.top_k is larger than num_experts");
  json = layerJson();
  json["local_experts"]["begin"] = 1;
  EXPECT_EQ(parseError(json), "layer.local_experts ends behind num_experts");
  json = layerJson();
  json["routing"] = 3;
  EXPECT_EQ(parseError(json), "layer.routing.score is missing");
}

TEST(Compute, InputsAreChecked) {
  Tiny tiny;
  const Layer layer = parse(layerJson());
  auto in = tiny.inputs();
  const Routing routing = *route(layer, in);
  EXPECT_EQ(compute(layer, in, routing, {2}).error().message,
            "token 2 does not exist");
  in.w2 = {};
  EXPECT_EQ(compute(layer, in, routing, {0}).error().message,
            "w13 and w2 are needed");
  in = tiny.inputs();
  in.logits = {};
  EXPECT_FALSE(route(layer, in));
}

TEST(Compute, ThreadsAndListsChangeNothing) {
  auto json = layerJson();
  json["num_experts"] = 5;
  json["local_experts"]["count"] = 5;
  json["top_k"] = 3;
  json["hidden_size"] = 72;
  json["intermediate_size_per_partition"] = 40;
  json["has_bias"] = true;
  const Layer layer = parse(json);
  std::vector<float> x(50 * 72), logits(50 * 5);
  fillX(layer, 3, 0, 50, x.data(), 72);
  ASSERT_TRUE(fillLogits(layer, 3, "uniform", 0, 50, *f32(), logits.data()));
  Inputs in;
  in.tokens = 50;
  in.x = {x.data(), f32(), 0};
  in.logits = {logits.data(), f32(), 0};
  in.w13 = makeW13(layer, 3);
  in.w2 = makeW2(layer, 3);
  in.b13 = makeB13(layer, 3);
  in.b2 = makeB2(layer, 3);
  const Routing routing = *route(layer, in);
  const auto one = *compute(layer, in, routing, {7, 31}, 1);
  EXPECT_EQ(one, *compute(layer, in, routing, {7, 31}, 5));
  const auto other = *compute(layer, in, routing, {31}, 3);
  EXPECT_TRUE(std::equal(other.begin(), other.end(), one.begin() + 72));
}

} // namespace
