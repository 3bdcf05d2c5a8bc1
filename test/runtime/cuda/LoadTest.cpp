//===- LoadTest.cpp - what a load asks the driver -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packages are loaded with the driver of FakeCuda.cpp: the SMs that a context
// has, kernels with a grid-wide wait that do not fit, local memory.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/cuda/CudaTesting.h"

#include "runtime/api/Package.h"
#include "test/runtime/jit/JitTesting.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::runtime;
using namespace moec::test;
using testing::HasSubstr;
using testing::Not;

namespace {
class LoadTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(kDriverIsSet, 0);
    *fakeGpu() = {};
  }
  Result<std::shared_ptr<const Package>> load(bool strict = false) {
    LoadOptions options;
    options.cacheFolder = "";
    options.strict = strict;
    return Package::load(package, options);
  }
  PackageFiles package = loadablePackage();
  Warnings warnings;
};
} // namespace

/// Variants that no run takes on this GPU need no workspace.
TEST_F(LoadTest, TheWorkspaceIsOfVariantsOfTheGpu) {
  for (Variant &variant : package.manifest.targets[0].variants)
    if (variant.name == "of_some") {
      variant.minSms = 100;
      Region &last = variant.regions.back();
      last.offset = last.offset + 4096;
      variant.workspaceBytes = variant.workspaceBytes + 4096;
    }
  hashFiles(package);
  const auto bytes = [&](int sms) {
    fakeGpu()->sms = sms;
    auto loaded = load();
    EXPECT_TRUE(loaded) << loaded.error().message;
    return *(*loaded)->workspaceBytes(64);
  };
  EXPECT_EQ(bytes(100), bytes(99) + 4096);
}

/// The scratch serves the largest pack step, whichever comes last.
TEST_F(LoadTest, TheScratchIsOfTheLargestPackStep) {
  Target &target = package.manifest.targets[0];
  auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  const int64_t bytes = *(*loaded)->packScratchBytes();
  EXPECT_GT(bytes, 0);
  Value other = *std::ranges::find(target.values, "w13_packed", &Value::name);
  other.name = "w13_other", other.mayAlias.clear();
  target.values.push_back(other);
  Kernel copy = *findKernel(target, "pack_copy");
  copy.name = "pack_other", copy.entry = "moec_pack_other_90a";
  for (ArgumentField &field : copy.arguments.fields)
    if (field.value == "pack_scratch")
      field.value = other.name;
  target.kernels.push_back(copy);
  Pack pack = target.pack.front();
  pack.result = other.name, pack.inPlace = false;
  pack.scratch.clear(), pack.scratchBytes = 0;
  pack.launches.resize(1);
  pack.launches[0].kernel = copy.name;
  target.pack.push_back(pack);
  hashFiles(package);
  loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(*(*loaded)->packScratchBytes(), bytes);
}

TEST_F(LoadTest, AsTheDriverSays) {
  auto loaded = load(/*strict=*/true);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ((*loaded)->deviceName(), "fake GPU");
  EXPECT_EQ((*loaded)->smCount(), 132);
  EXPECT_EQ(warnings.all, "");
  const auto &variants = (*loaded)->target().variants;
  EXPECT_EQ(variants[*(*loaded)->variantFor(64)].name, "of_some");
  auto report = nlohmann::json::parse((*loaded)->report().json());
  EXPECT_EQ(report["sm_count"], 132);
  EXPECT_EQ(report["variants_not_taken"].size(), 0u);
  for (const auto &kernel : report["kernels"]) {
    EXPECT_EQ(kernel["local_bytes"], 0);
    EXPECT_EQ(kernel["registers"], 168);
    EXPECT_EQ(kernel["ctas_per_sm"], 2);
  }
}

/// Before the first launch, which may be captured into a graph.
TEST_F(LoadTest, FunctionsAreSetUp) {
  Target &target = package.manifest.targets[0];
  for (size_t i = 0; i < target.kernels.size(); ++i)
    target.kernels[i].sharedBytes = int64_t(50000 + i),
    target.kernels[i].threads = 128 + 32 * int64_t(i);
  const auto setCluster = [&](size_t kernel, int64_t ctas) {
    target.kernels[kernel].cluster = {ctas, 1, 1};
    for (Variant &variant : target.variants)
      for (Launch &launch : variant.launches)
        if (launch.kernel == target.kernels[kernel].name)
          launch.grid.ctas[0] = launch.grid.ctas[0] * 16;
  };
  setCluster(3, 16);
  setCluster(4, 8);
  auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(fakeGpu()->functionsLoaded, int(target.kernels.size()));
  for (size_t i = 0; i < target.kernels.size(); ++i) {
    std::map<int, int> expected = {
        {cuda::kFuncMaxDynamicShared, 50000 + int(i)}};
    // A cluster of more than 8 CTAs is not portable.
    if (i == 3)
      expected[cuda::kFuncNonPortableCluster] = 1;
    const std::string &entry = target.kernels[i].entry;
    EXPECT_EQ(fakeGpu()->attributes[entry], expected) << i;
    EXPECT_EQ(fakeGpu()->images[entry],
              "the cubin of " + target.kernels[i].name);
    EXPECT_EQ(fakeGpu()->occupancies[entry],
              std::pair(int(target.kernels[i].threads), 50000 + i));
  }
}

TEST_F(LoadTest, SmsOfTheContext) {
  struct {
    unsigned affinity, resource;
    int64_t sms;
    const char *variant;
  } rows[] = {
      {0, 0, 132, "of_some"},    {0, 132, 132, "of_some"},
      {0, 100, 100, "of_some"},  {0, 96, 96, "large"}, // a green context
      {64, 0, 64, "large"},                            // a share of MPS
      {64, 16, 16, "large"},     {16, 64, 16, "large"},
      {500, 500, 132, "of_some"}};
  for (const auto &row : rows) {
    fakeGpu()->smsOfAffinity = row.affinity;
    fakeGpu()->smsOfResource = row.resource;
    auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ((*loaded)->smCount(), row.sms);
    auto variant = (*loaded)->variantFor(64);
    ASSERT_TRUE(variant);
    EXPECT_EQ((*loaded)->target().variants[*variant].name, row.variant)
        << row.affinity << " " << row.resource;
  }
}

TEST(Limits, OfComputeCapabilities) {
  for (const auto &[major, minor, cluster] : {std::tuple(7, 5, 1),
                                              {8, 0, 1},
                                              {8, 9, 1},
                                              {9, 0, 16},
                                              {10, 0, 16},
                                              {12, 1, 16}}) {
    DeviceInfo info;
    info.computeMajor = major, info.computeMinor = minor;
    info.smCount = 99, info.sharedBytesPerBlock = 1001;
    info.sharedBytesPerSm = 1002, info.maxThreadsPerBlock = 1003;
    info.maxThreadsPerSm = 1004, info.cooperative = major != 8;
    const DeviceLimits limits = limitsOf(info);
    EXPECT_EQ(limits.maxCluster, cluster) << major << "." << minor;
    EXPECT_EQ(limits.computeMajor, major);
    EXPECT_EQ(limits.computeMinor, minor);
    EXPECT_EQ(limits.smCount, 99);
    EXPECT_EQ(limits.sharedBytesPerBlock, 1001);
    EXPECT_EQ(limits.sharedBytesPerSm, 1002);
    EXPECT_EQ(limits.threadsPerBlock, 1003);
    EXPECT_EQ(limits.threadsPerSm, 1004);
    EXPECT_EQ(limits.cooperative, major != 8);
  }
}

TEST_F(LoadTest, DriversThatKnowNoShares) {
  cuda::CudaDriver old;
  EXPECT_EQ(smsOfContext(old, nullptr, 132), 132);
}

TEST_F(LoadTest, GridWideWaitThatDoesNotFit) {
  fakeGpu()->ctasPerSm["moec_waits_90a"] = 1;
  for (Variant &variant : package.manifest.targets[0].variants)
    if (variant.name == "of_some")
      variant.launches.back().grid.ctasPerSm = 2;
  for (Kernel &kernel : package.manifest.targets[0].kernels)
    if (kernel.name == "waits")
      kernel.minCtasPerSm = 2;
  auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(warnings.all,
              HasSubstr("variant of_some is not taken: kernel waits does not "
                        "fit fake GPU: its grid-wide wait needs 2 resident "
                        "CTAs on each SM, and 1 fit"));
  const auto &variants = (*loaded)->target().variants;
  EXPECT_EQ(variants[*(*loaded)->variantFor(64)].name, "large");
  auto forced = (*loaded)->variantFor(64, "of_some");
  ASSERT_FALSE(forced);
  EXPECT_EQ(forced.error().code, ErrorCode::DeviceLimit);
  EXPECT_THAT(forced.error().message,
              HasSubstr("variant of_some cannot run here: kernel waits"));
  EXPECT_TRUE((*loaded)->workspaceBytes(64));
  auto report = nlohmann::json::parse((*loaded)->report().json());
  ASSERT_EQ(report["variants_not_taken"].size(), 1u);
  EXPECT_EQ(report["variants_not_taken"][0]["name"], "of_some");
  // Nobody serves in place of a variant of all GPUs.
  for (Variant &variant : package.manifest.targets[0].variants)
    if (variant.name == "large")
      variant.launches = package.manifest.targets[0].variants[1].launches;
  loaded = load();
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::DeviceLimit);
  EXPECT_THAT(loaded.error().message, HasSubstr("kernel waits does not fit"));
}

TEST_F(LoadTest, LocalMemory) {
  const std::string entry = "moec_waits_90a";
  fakeGpu()->localBytes[entry] = 48;
  auto loaded = load();
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(warnings.all,
              HasSubstr("kernel waits on fake GPU uses 48 bytes of local "
                        "memory per thread in addition to 168 registers"));
  EXPECT_THAT(warnings.all, Not(HasSubstr("kernel route")));
  auto report = nlohmann::json::parse((*loaded)->report().json());
  EXPECT_EQ(report["kernels"].back()["local_bytes"], 48);
  EXPECT_EQ(report["kernels"].front()["local_bytes"], 0);
  auto strict = load(/*strict=*/true);
  ASSERT_FALSE(strict);
  EXPECT_EQ(strict.error().code, ErrorCode::DeviceLimit);
  EXPECT_THAT(strict.error().message,
              HasSubstr("kernel waits on fake GPU uses 48 bytes"));
  ::setenv("MOEC_STRICT", "1", 1);
  EXPECT_FALSE(load());
  ::unsetenv("MOEC_STRICT");
}

/// A load that fails gives back what it had of the driver, as does a package.
TEST_F(LoadTest, GivesBackContextsAndModules) {
  const auto held = [] {
    return std::pair(fakeGpu()->contexts, fakeGpu()->modules);
  };
  const std::pair none(0, 0);
  {
    const auto loaded = load();
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(fakeGpu()->contexts, 1);
    EXPECT_EQ(fakeGpu()->modules, int((*loaded)->target().kernels.size()));
  }
  EXPECT_EQ(held(), none);
  // The third module.
  fakeGpu()->loadsUntilFailure = 2;
  EXPECT_FALSE(load());
  EXPECT_EQ(held(), none);
  fakeGpu()->loadsUntilFailure = -1;
  // A kernel that no SM takes, and local memory of a strict load.
  fakeGpu()->ctasPerSm["moec_waits_90a"] = 0;
  EXPECT_FALSE(load());
  EXPECT_EQ(held(), none);
  fakeGpu()->ctasPerSm.clear();
  fakeGpu()->localBytes["moec_waits_90a"] = 8;
  EXPECT_FALSE(load(/*strict=*/true));
  EXPECT_EQ(held(), none);
  // No target for the device, by its number or its name.
  LoadOptions options;
  options.cacheFolder = "";
  options.arch = "sm_80";
  EXPECT_EQ(Package::load(package, options).error().code,
            ErrorCode::NoMatchingTarget);
  EXPECT_EQ(held(), none);
  Target &target = package.manifest.targets[0];
  target.arch = "sm_100a", target.computeMajor = 10, target.computeMinor = 0;
  for (Kernel &kernel : target.kernels)
    for (std::string &option : kernel.options)
      if (option == "-arch=sm_90a")
        option = "-arch=sm_100a";
  auto absent = load();
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::NoMatchingTarget)
      << absent.error().message;
  EXPECT_EQ(held(), none);
  // A device that is not there.
  options.arch.clear();
  options.ordinal = 7;
  EXPECT_FALSE(Package::load(package, options));
  EXPECT_EQ(held(), none);
}
