//===- CaseTest.cpp - what moec-run checks of a run and keeps for the next ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each check of a case is red for a run that it is there for.
//
//===----------------------------------------------------------------------===//

#include "test/tools/MoecRunTesting.h"
#include "tools/moec-measure/Measure.h"
#include "tools/moec-run/Npy.h"
#include "tools/moec-run/RunCase.h"
#include "tools/moec-run/Runner.h"

#include <cstring>

using namespace moec;
using namespace moec::run;
using namespace moec::test;
using testing::HasSubstr;

namespace {

class Cases : public MoecRun {
protected:
  void SetUp() override {
    MoecRun::SetUp();
    auto opened = tools::Device::open(runtime::DeviceKind::Host, "");
    ASSERT_TRUE(opened) << opened.error().message;
    device.emplace(std::move(*opened));
    options.package = root + "/package";
    options.device = runtime::DeviceKind::Host;
    options.check = true;
  }
  /// Loads what is in the folder, with weights of its own.
  void load() {
    auto opened = LoadedLayer::open(*device, options, options.package);
    ASSERT_TRUE(opened) << opened.error().message;
    layer = std::move(*opened);
    weights = HostWeights::make(layer->layer(), options.seed);
    const Result<void> set = layer->setWeights(weights);
    ASSERT_TRUE(set) << set.error().message;
  }
  CaseResult result(RunHooks &hooks, int64_t tokens, KeptRows *kept = nullptr) {
    RunSetup setup{hooks, options, weights, given, *layer, kept};
    auto made = runCase(setup, tokens, "uniform");
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : CaseResult();
  }
  /// Writes the package to another folder, with the function of its activation
  /// in the variants' kernels.
  std::string activated(const std::string &function) {
    PackageFiles other = package;
    other.manifest.layer["activation"]["function"] = function;
    for (Kernel &kernel : other.manifest.targets[0].kernels)
      for (Stage &stage : kernel.stages)
        if (stage.op == "activate")
          stage.attributes["function"] = function;
    const std::string folder = root + "/" + function;
    EXPECT_TRUE(writePackage(other, folder));
    return folder;
  }

  std::optional<tools::Device> device;
  Options options;
  HostWeights weights;
  GivenTensors given;
  std::unique_ptr<LoadedLayer> layer;
  RunHooks nothing;
};

} // namespace

TEST_F(Cases, BytesBesideABufferAreSeen) {
  constexpr int64_t kBytes = 100;
  for (const auto &[at, said] :
       {std::pair(int64_t(-1), "a byte was written 1 bytes before its start"),
        {int64_t(0), ""},
        {kBytes - 1, ""},
        {kBytes, "a byte was written 0 bytes past its end"}}) {
    auto made = GuardedBuffer::create(*device, kBytes, 3, /*poison=*/true);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(*made->damage(), "");
    auto *byte = static_cast<std::byte *>(made->data()) + at;
    *byte = ~*byte;
    EXPECT_EQ(*made->damage(), said) << at;
  }
}

TEST_F(Cases, SlotsThatAreNotTakenStayAsTheyWere) {
  reference::Layer described;
  described.batched = true;
  described.hidden = 4, described.localExperts = 2;
  described.outputType = reference::findElement("f32");
  reference::Inputs inputs;
  inputs.tokens = 4;
  inputs.expertCounts = {1, 2};
  constexpr int64_t kRowBytes = 16;
  for (const int64_t row : {0, 1, 2, 3})
    for (const bool poison : {true, false}) {
      HostOutputs outputs;
      HostArray out(4 * kRowBytes);
      std::memset(out.data.get(), 0xFF, size_t(out.bytes));
      out.data[size_t(row * kRowBytes + 15)] = std::byte(1);
      outputs.emplace("out", std::move(out));
      CaseResult result;
      settleRows(described, inputs, poison, outputs, result);
      EXPECT_EQ(result.passed, row != 1 || !poison) << row;
      EXPECT_EQ(result.text, row != 1 || !poison
                                 ? ""
                                 : "slot 1 of expert 0 was written, of which 1 "
                                   "are taken");
      EXPECT_EQ(outputs.at("out").data[kRowBytes + 15], std::byte(0));
    }
}

/// Rows of the reference are those of a routing, its weights included.
TEST_F(Cases, KeptRowsAreOfTheirRouting) {
  load();
  KeptRows kept;
  EXPECT_TRUE(result(nothing, 9, &kept).passed);
  const KeptRows right = kept;
  ASSERT_FALSE(right.rows.empty());
  const auto passesWithout = [&](const std::function<void()> &change) {
    kept = right;
    std::ranges::fill(kept.rows, 1e3);
    change();
    const bool passed = result(nothing, 9, &kept).passed;
    EXPECT_EQ(kept.rows == right.rows, passed);
    return passed;
  };
  EXPECT_FALSE(passesWithout([] {})) << "they are taken";
  EXPECT_TRUE(passesWithout([&] { ++kept.ids.front(); }));
  EXPECT_TRUE(passesWithout([&] { kept.weights.front() += 1; }));
  EXPECT_TRUE(passesWithout([&] { kept.list.pop_back(); }));
}

TEST_F(Cases, ASecondRunThatDiffersIsRed) {
  load();
  /// Changes a weight between the comparison and the second run.
  struct Disturb : RunHooks {
    std::byte *weight = nullptr;
    int calls = 0, at = 0;
    bool releaseDevice() override {
      if (++calls == at)
        for (int i = 0; i < 512; ++i)
          weight[2 * i + 1] ^= std::byte(0x80);
      return false;
    }
  } hooks;
  hooks.weight = static_cast<std::byte *>(layer->storedWeight("w2"));
  CaseResult made = result(hooks, 9);
  EXPECT_TRUE(made.passed) << made.text;
  EXPECT_EQ(made.twice, "identical");
  hooks.at = hooks.calls; // the last time that the host works
  hooks.calls = 0;
  made = result(hooks, 9);
  EXPECT_FALSE(made.passed);
  EXPECT_THAT(made.text,
              HasSubstr("the second, disturbed run is not identical: "));
}

/// The second run is of the variant that was asked for.
TEST_F(Cases, TheSecondRunHasTheVariantOfTheFirst) {
  Target &target = package.manifest.targets[0];
  Kernel other = *findKernel(target, "gate_up");
  other.name = "gate_up_other", other.entry = "moec_gate_up_other_90a";
  for (Stage &stage : other.stages)
    if (stage.op == "activate")
      stage.attributes["function"] = "gelu";
  target.kernels.push_back(other);
  const auto large =
      std::ranges::find(target.variants, "large", &Variant::name);
  Variant ofSome = *large;
  ofSome.name = "of_some", ofSome.minSms = 1;
  for (Launch &launch : ofSome.launches)
    if (launch.kernel == "gate_up")
      launch.kernel = other.name;
  target.variants.insert(large, ofSome);
  const Result<void> written = writePackage(package, root + "/package");
  ASSERT_TRUE(written) << written.error().message;
  options.check = false, options.twice = true;
  load();
  for (const char *variant : {"", "of_some", "large"}) {
    options.variant = variant;
    const CaseResult made = result(nothing, 9);
    EXPECT_TRUE(made.passed) << variant << made.text;
    EXPECT_EQ(made.twice, "identical") << variant;
  }
}

/// Another package, rank or way to make the weights is loaded anew.
TEST_F(Cases, WhatIsLoadedServesTheSameOptions) {
  struct Fresh : RunHooks {
    std::optional<bool> fresh;
    Result<void> prepare(const HostWeights &, LoadedLayer &, bool isFresh,
                         RunReport &) override {
      fresh = isFresh;
      return {};
    }
  } hooks;
  Runner runner(hooks);
  const auto isFresh = [&](const Options &asked) {
    hooks.fresh.reset();
    RunReport report;
    EXPECT_EQ(runner.run(asked, report), 0) << report.error;
    return hooks.fresh.value();
  };
  EXPECT_TRUE(isFresh(options));
  EXPECT_FALSE(isFresh(options));
  Options same = options;
  same.tokens = {9}, same.time = true, same.routing = {"ties"};
  EXPECT_FALSE(isFresh(same));
  const std::string file = root + "/w2.npy";
  HostArray numbers(4 * 16 * 16 * 2);
  std::memset(numbers.data.get(), 0x3C, size_t(numbers.bytes));
  ASSERT_TRUE(writeNpy(file, "<u2", {4, 16, 16}, numbers));
  const std::vector<std::pair<const char *, std::function<void(Options &)>>>
      changes = {
          {"package",
           [&](Options &asked) { asked.package = activated("gelu"); }},
          {"arch", [](Options &asked) { asked.arch = "sm_90a"; }},
          {"rank", [](Options &asked) { asked.rank = 0; }},
          {"strict", [](Options &asked) { asked.strict = true; }},
          {"poison", [](Options &asked) { asked.poison = false; }},
          {"seed", [](Options &asked) { asked.seed = 2; }},
          {"layer", [](Options &asked) { asked.layer = 3; }},
          {"inputFiles",
           [&](Options &asked) { asked.inputFiles = {{"w2", file}}; }},
          {"quantize", [](Options &asked) { asked.quantize = true; }},
          {"noSharedExperts",
           [](Options &asked) { asked.noSharedExperts = true; }},
          {"ignoredTensors",
           [](Options &asked) { asked.ignoredTensors = {"bias"}; }},
      };
  for (const auto &[name, change] : changes) {
    Options asked = options;
    change(asked);
    EXPECT_TRUE(isFresh(asked)) << name;
    EXPECT_FALSE(isFresh(asked)) << name;
    EXPECT_TRUE(isFresh(options)) << name;
  }
}

/// One expert made anew is that of weights of that seed.
TEST_F(Cases, AnExpertMadeAnew) {
  load();
  const reference::Layer &described = layer->layer();
  const HostWeights others = HostWeights::make(described, 7);
  for (int64_t expert = 0; expert < described.localExperts; ++expert) {
    const HostWeights made = weights.withExpert(described, 7, expert);
    for (const char *name : {"w13", "w2"}) {
      const HostArray &got = made.arrays.at(name);
      const int64_t each = got.bytes / described.localExperts;
      for (int64_t e = 0; e < described.localExperts; ++e)
        EXPECT_EQ(
            std::memcmp(
                got.data.get() + e * each,
                (e == expert ? others : weights).arrays.at(name).data.get() +
                    e * each,
                size_t(each)),
            0)
            << name << " " << expert << " " << e;
    }
  }
}

/// One process measures packages of several layers and token counts.
TEST_F(Cases, AMeasurementIsOfItsLayerAndTokens) {
  measure::Measurer measurer(*device, runtime::DeviceKind::Host);
  measure::Job job;
  job.rounds = 1;
  for (const std::string &folder : {root + "/package", activated("gelu")})
    for (const int64_t tokens : {9, 64, 9}) {
      job.package = job.baseline = folder;
      job.tokens = tokens;
      const measure::Answer answer = measurer.measure(job);
      EXPECT_TRUE(answer.ok) << folder << " " << tokens << ": " << answer.kind
                             << ": " << answer.text;
      EXPECT_EQ(answer.rounds, 1);
      EXPECT_GT(answer.us, 0);
    }
}

/// Jobs end by their rounds or by the first one, and wrong packages by their
/// kind.
TEST_F(Cases, AMeasurementEndsAsItsJobSays) {
  measure::Measurer measurer(*device, runtime::DeviceKind::Host);
  measure::Job job;
  job.package = job.baseline = root + "/package";
  job.tokens = 9;
  for (const auto &[rounds, worse, expected] :
       {std::tuple(3, 0.0, 3), {4, 1e9, 4}, {4, 1e-9, 1}}) {
    job.rounds = rounds, job.worse = worse;
    const measure::Answer answer = measurer.measure(job);
    EXPECT_TRUE(answer.ok) << answer.kind << ": " << answer.text;
    EXPECT_EQ(answer.rounds, expected);
    EXPECT_GE(answer.noise, 0);
    EXPECT_GT(answer.baselineUs, 0);
    EXPECT_THAT(answer.check, HasSubstr("passed"));
  }
  const auto kind = [&](const std::string &folder, const std::string &base) {
    job.package = folder, job.baseline = base;
    const measure::Answer answer = measurer.measure(job);
    EXPECT_FALSE(answer.ok);
    EXPECT_NE(answer.text, "");
    return answer.kind;
  };
  // The reference computes gelu, the kernels silu.
  PackageFiles wrong = package;
  wrong.manifest.layer["activation"]["function"] = "gelu";
  ASSERT_TRUE(writePackage(wrong, root + "/wrong"));
  EXPECT_EQ(kind(root + "/wrong", root + "/wrong"), "wrong");
  const std::string other = activated("gelu");
  EXPECT_EQ(kind("/nowhere", other), "transient");
  EXPECT_EQ(kind(other, "/nowhere"), "baseline");
  job.tokens = 1000;
  EXPECT_EQ(kind(other, other), "baseline") << "more tokens than it takes";
  job.tokens = 9;
  job.package = job.baseline = other;
  EXPECT_TRUE(measurer.measure(job).ok);
}
