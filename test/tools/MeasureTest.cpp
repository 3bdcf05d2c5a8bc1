//===- MeasureTest.cpp - what a failed job says of a schedule -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-measure/Measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::measure;
using testing::HasSubstr;

/// As CudaDriver::check() says it.
static Error failed(const char *what, const char *name, int status,
                    const char *text) {
  return Error(ErrorCode::DriverFailed, "{} failed: {} ({}): {}", what, name,
               status, text);
}

// moec tune logs a fault and never measures that schedule again.
TEST(Measure, AFullGpuIsNoFaultOfTheSchedule) {
  EXPECT_EQ(kindOf(failed("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY", 2,
                          "out of memory"),
                   "refused"),
            "transient");
  EXPECT_EQ(kindOf(Error(ErrorCode::FileSystem, "cannot read 'a'"), "refused"),
            "transient");
  EXPECT_EQ(kindOf(failed("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS",
                          700, "an illegal memory access was encountered"),
                   "refused"),
            "fault");
  EXPECT_EQ(kindOf(Error(ErrorCode::DeviceLimit, "it does not fit"), "refused"),
            "refused");
}

namespace {

/// Times that a clock gives one after the other, and who asked for them.
struct Times {
  std::vector<double> baseline, package;
  std::string order;

  Result<Answer> time(const Job &job) {
    Answer answer;
    size_t bases = 0, packages = 0;
    auto next = [&](char who, const std::vector<double> &from, size_t &at) {
      order += who;
      return at < from.size() ? Result<double>(from[at++])
                              : Result<double>(Error(ErrorCode::DriverFailed,
                                                     "{} fails", who));
    };
    TRY(timeRounds(
        job, [&] { return next('b', baseline, bases); },
        [&] { return next('p', package, packages); }, answer));
    return answer;
  }
};

Job rounds(int count, double worse = 0) {
  Job job;
  job.rounds = count;
  job.worse = worse;
  return job;
}

} // namespace

// A slow drift of the clock cancels out: only ratios within a round count.
TEST(Measure, RoundsAlternateAndRatiosCount) {
  Times times{{10, 20, 40, 30, 50}, {20, 50, 80, 69, 100}, ""};
  auto answer = times.time(rounds(5));
  ASSERT_TRUE(answer);
  EXPECT_EQ(times.order, "bppbbppbbp");
  EXPECT_EQ(answer->rounds, 5);
  // Ratios 2, 2.5, 2, 2.3, 2.
  EXPECT_DOUBLE_EQ(answer->baselineUs, 30);
  EXPECT_DOUBLE_EQ(answer->us, 60);
  EXPECT_DOUBLE_EQ(answer->noise, 0);

  // Ratios 1, 2, 4: their median is 2, deviations are 0.5, 0 and 1.
  times = {{10, 10, 10}, {10, 20, 40}, ""};
  answer = times.time(rounds(3));
  EXPECT_DOUBLE_EQ(answer->us, 20);
  EXPECT_DOUBLE_EQ(answer->noise, 0.5);
  // Even counts: the mean of both ratios in the middle, 1.5; deviations 1/3.
  times = {{10, 10}, {10, 20}, ""};
  answer = times.time(rounds(2));
  EXPECT_DOUBLE_EQ(answer->us, 15);
  EXPECT_DOUBLE_EQ(answer->noise, 1.0 / 3);
}

TEST(Measure, AFarSlowerPackageIsTimedOnce) {
  Times times{{10, 10, 10}, {15, 5, 5}, ""};
  EXPECT_EQ(times.time(rounds(3, 1.4))->rounds, 1);
  EXPECT_EQ(times.order, "bp");
  // The limit itself, no limit, and a later round that is slower go on.
  EXPECT_EQ(times.time(rounds(3, 1.5))->rounds, 3);
  EXPECT_EQ(times.time(rounds(3))->rounds, 3);
  times.package = {5, 50, 50};
  EXPECT_EQ(times.time(rounds(3, 1.4))->rounds, 3);
}

TEST(Measure, AFailedTimingEndsTheRounds) {
  Times times{{10}, {10, 10}, ""};
  EXPECT_EQ(times.time(rounds(3)).error().message, "b fails");
  times = {{10, 10}, {10}, ""};
  EXPECT_EQ(times.time(rounds(3)).error().message, "p fails");
}

// A graph reads more weights than an L2 cache holds, whatever the tokens.
TEST(Measure, TimedLayersReadMoreThanTheCache) {
  reference::Layer layer;
  layer.weightType = layer.inputType = reference::findElement("bf16");
  layer.experts = layer.localExperts = 64;
  layer.topK = 8;
  layer.hidden = 1024;
  layer.intermediate = 512;
  const double bytes = double(run::HostWeights::bytesOf(layer));
  ASSERT_GT(bytes, 1e6);
  for (const auto &[tokens, active] : std::vector<std::pair<int64_t, double>>{
           {1, 8.0 / 64}, {2, 1 - 0.875 * 0.875}, {1000, 1}}) {
    const double wanted = std::ceil(400e6 / (bytes * active));
    EXPECT_EQ(numTimedLayers(layer, tokens),
              std::min(64, std::max(1, int(wanted))))
        << tokens;
  }
  EXPECT_GT(numTimedLayers(layer, 1), numTimedLayers(layer, 2));
  EXPECT_EQ(numTimedLayers(layer, 0), 64);
  layer.hidden = 1024 * 64;
  EXPECT_EQ(numTimedLayers(layer, 1000), 1);
}

// Each key of a job is read, bounded and known.
TEST(Measure, Jobs) {
  const std::string good =
      R"({"package": "a", "baseline": "b", "tokens": 3, "seed": 4, "sample": 5, "rounds": 6, "worse": 1.5})";
  auto job = Job::parse(good);
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_EQ(job->package, "a");
  EXPECT_EQ(job->baseline, "b");
  EXPECT_EQ(job->tokens, 3);
  EXPECT_EQ(job->seed, 4u);
  EXPECT_EQ(job->sample, 5);
  EXPECT_EQ(job->rounds, 6);
  EXPECT_EQ(job->worse, 1.5);
  for (const char *key :
       {"package", "baseline", "tokens", "seed", "sample", "rounds", "worse"}) {
    std::string without = good;
    without.replace(without.find(key), 1, "X");
    auto refused = Job::parse(without);
    ASSERT_FALSE(refused) << key;
    EXPECT_THAT(refused.error().message, HasSubstr(key));
  }
  for (const char *wrong :
       {R"("tokens": 0)", R"("sample": 0)", R"("rounds": 0)",
        R"("rounds": 1001)", R"("seed": -1)", R"("tokens": 2147483648)"}) {
    const std::string key = std::string(wrong).substr(0, 5);
    std::string text = good;
    const size_t at = text.find(key);
    text.replace(at, text.find(',', at) - at, wrong);
    EXPECT_FALSE(Job::parse(text)) << text;
  }
  EXPECT_FALSE(Job::parse(""));
  EXPECT_FALSE(Job::parse("[]"));
}

TEST(Measure, Answers) {
  Answer answer;
  answer.ok = true;
  answer.us = 1.5;
  answer.baselineUs = 2.5;
  answer.noise = 0.25;
  answer.rounds = 7;
  answer.check = "passed";
  answer.kind = "refused";
  answer.text = "no";
  EXPECT_EQ(answer.print(),
            R"({"ok":true,"us":1.5,"baseline_us":2.5,"noise":0.25,)"
            R"("rounds":7,"check":"passed"})");
  answer.ok = false;
  answer.text = "no\xff";
  EXPECT_EQ(answer.print(),
            "{\"ok\":false,\"kind\":\"refused\",\"text\":\"no\xEF\xBF\xBD\"}");
}
