//===- CatalogTest.cpp - the tables agree with each other -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Names are unique, every word of one table that names a row of another finds
// it, and device names lead to the right GPU.
//
//===----------------------------------------------------------------------===//

#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Gpus.h"
#include "dialect/catalog/Kernels.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

using namespace moec;

namespace {

template <typename Row, size_t N>
void expectUniqueNames(const Row (&table)[N]) {
  std::set<std::string_view> seen;
  for (const Row &row : table)
    EXPECT_TRUE(seen.insert(row.name).second) << row.name << " stands twice";
}

TEST(Catalog, NamesAreUnique) {
  expectUniqueNames(catalog::kSchemes);
  expectUniqueNames(catalog::kRoutingMethods);
  expectUniqueNames(catalog::kActivations);
  expectUniqueNames(catalog::kEngines);
  expectUniqueNames(catalog::kBackends);
  expectUniqueNames(catalog::kKernelKinds);
  expectUniqueNames(catalog::kArchitectures);
  expectUniqueNames(catalog::kGpus);
}

TEST(Catalog, KindsOfKernelHoldTheirStagesInOrder) {
  const auto kind = [](std::string_view stages) {
    const catalog::KernelKind *row = catalog::kindOf(WordList(stages));
    return row ? row->name : "";
  };
  EXPECT_EQ(kind("route count"), "route");
  EXPECT_EQ(kind("route count permute quantize"), "route_permute");
  EXPECT_EQ(kind("grouped_matmul quantize"), "grouped_matmul");
  EXPECT_EQ(kind("grouped_matmul combine"), "down_slices");
  EXPECT_EQ(kind("route"), "");
  EXPECT_EQ(kind("quantize grouped_matmul"), "");
  EXPECT_EQ(kind(""), "");
  // No row holds what another one holds.
  for (const catalog::KernelKind &row : catalog::kKernelKinds) {
    std::string stages;
    for (std::string_view word : row.stages)
      if (!word.ends_with('?'))
        stages.append(stages.empty() ? "" : " ").append(word);
    EXPECT_EQ(kind(stages), row.name);
  }
}

TEST(Catalog, ListsOfWordsAreSearchedByWholeWords) {
  EXPECT_TRUE(WordList("mma_sync cp_async").contains("cp_async"));
  EXPECT_FALSE(WordList("fp8_mma_sync cp_async").contains("mma_sync"));
  EXPECT_FALSE(WordList("").contains("simt"));
  EXPECT_EQ(WordList("a b c").firstMissing("a c"), "");
  EXPECT_EQ(WordList("a c").firstMissing("a b c d"), "b");
  EXPECT_EQ(WordList("a").firstMissing(""), "");
  EXPECT_EQ(WordList("").size(), 0u);
  EXPECT_EQ(WordList("a b c").size(), 3u);
  EXPECT_EQ(WordList("a b c")[2], "c");
}

TEST(Catalog, NamesListsEveryRow) {
  EXPECT_TRUE(
      catalog::names(catalog::kSchemes).starts_with("f32, f16, bf16, fp8_"));
  EXPECT_EQ(catalog::names(catalog::kBackends), "grouped, batched, unfused");
}

TEST(Catalog, BackendsAdmitEnginesThatExist) {
  for (const catalog::Backend &backend : catalog::kBackends)
    for (std::string_view engine : backend.engines)
      EXPECT_NE(catalog::find(catalog::kEngines, engine), nullptr) << engine;
}

TEST(Catalog, PairsOfBlocksAreOfEnginesThatScaleThem) {
  for (const catalog::BlockPair &pair : catalog::kBlockPairs) {
    for (const std::string_view name : pair.engines) {
      const catalog::Engine *engine = catalog::find(catalog::kEngines, name);
      ASSERT_NE(engine, nullptr) << name;
      EXPECT_TRUE(engine->scalesBlocks) << name;
      EXPECT_TRUE(engine->elements.contains(pair.activation)) << name;
    }
    EXPECT_NE(catalog::blockInstruction(pair.activation, pair.scale,
                                        pair.weight, pair.scale),
              nullptr)
        << pair.activation << " by " << pair.weight;
    EXPECT_EQ(catalog::blockPair(pair.activation, pair.weight, pair.scale,
                                 pair.group, pair.secondPerRow),
              &pair);
  }
  EXPECT_EQ(catalog::blockPair("f8E4M3FN", "f8E4M3FN", "f8E8M0FNU", 16),
            nullptr);
}

TEST(Catalog, GpusAndArchsNameEachOther) {
  for (const catalog::Gpu &gpu : catalog::kGpus) {
    EXPECT_NE(catalog::find(catalog::kArchitectures, gpu.arch), nullptr)
        << gpu.name;
    EXPECT_GT(gpu.sms, 0) << gpu.name;
    EXPECT_GT(gpu.bandwidth, 0) << gpu.name;
    EXPECT_GT(gpu.l2, 0) << gpu.name;
    EXPECT_GT(gpu.matmulRate, 0) << gpu.name;
    EXPECT_GT(gpu.memory, 0) << gpu.name;
    EXPECT_FALSE(gpu.source.empty()) << gpu.name;
  }
  for (const catalog::Architecture &arch : catalog::kArchitectures) {
    if (arch.gpu.empty())
      continue;
    const catalog::Gpu *gpu = catalog::find(catalog::kGpus, arch.gpu);
    ASSERT_NE(gpu, nullptr) << arch.name;
    const catalog::Architecture &device =
        *catalog::find(catalog::kArchitectures, gpu->arch);
    EXPECT_TRUE(catalog::runsOn(arch, device.major, device.minor)) << arch.name;
  }
}

TEST(Catalog, ATwinHasMoreEngines) {
  const auto twinOf = [](std::string_view arch) {
    const catalog::Architecture *twin =
        catalog::betterTwin(*catalog::find(catalog::kArchitectures, arch));
    return twin ? twin->name : "";
  };
  EXPECT_EQ(twinOf("sm_90"), "sm_90a");
  EXPECT_EQ(twinOf("sm_90a"), "");
  EXPECT_EQ(twinOf("sm_80"), "");
  // The family, which more GPUs run.
  EXPECT_EQ(twinOf("sm_100"), "sm_100f");
  EXPECT_EQ(twinOf("sm_100a"), "");
  EXPECT_EQ(twinOf("sm_120"), "");
}

TEST(Catalog, SomeArchHasEachFeatureThatIsNeeded) {
  const auto expectKnown = [](WordList features) {
    for (std::string_view feature : features)
      EXPECT_TRUE(std::ranges::any_of(
          catalog::kArchitectures,
          [&](const catalog::Architecture &arch) { return arch.has(feature); }))
          << feature;
  };
  for (const catalog::Engine &engine : catalog::kEngines)
    expectKnown(engine.features);
  for (const catalog::NativeElement &row : catalog::kNativeElements)
    expectKnown(WordList(row.feature));
  for (const catalog::BlockInstruction &row : catalog::kBlockInstructions)
    expectKnown(row.features);
}

TEST(Catalog, RealizationsOfSchemesExist) {
  for (const catalog::Scheme &scheme : catalog::kSchemes) {
    EXPECT_FALSE(scheme.realizations.empty()) << scheme.name;
    EXPECT_TRUE(catalog::areNames(scheme.realizations, catalog::kRealizations))
        << scheme.name;
  }
}

TEST(Catalog, FeaturesGrowWithinAMajorVersion) {
  for (const catalog::Architecture &arch : catalog::kArchitectures) {
    for (const catalog::Architecture &later : catalog::kArchitectures) {
      const bool isLater =
          arch.compatibility == "major" && later.compatibility == "major" &&
          arch.major == later.major && arch.minor < later.minor;
      if (isLater) {
        EXPECT_EQ(later.features.firstMissing(arch.features), "")
            << later.name << " lacks a feature of " << arch.name;
      }
    }
  }
}

TEST(Catalog, CodeRunsWhereItsCompatibilitySays) {
  const auto runs = [](std::string_view arch, int major, int minor) {
    return catalog::runsOn(*catalog::find(catalog::kArchitectures, arch), major,
                           minor);
  };
  EXPECT_TRUE(runs("sm_80", 8, 9));
  EXPECT_FALSE(runs("sm_86", 8, 0));
  EXPECT_FALSE(runs("sm_80", 9, 0));
  EXPECT_TRUE(runs("sm_90a", 9, 0));
  EXPECT_TRUE(runs("sm_100f", 10, 3));
  EXPECT_FALSE(runs("sm_100a", 10, 3));
  EXPECT_FALSE(runs("sm_103f", 10, 0));
}

TEST(Catalog, FloorsAreOfMeasuredRatesOrOfTheSpecification) {
  using catalog::floorRates;
  catalog::Gpu gpu;
  gpu.bandwidth = 1000, gpu.matmulRate = 200;
  const auto expect = [&](double bandwidth, double rate, double fp8, bool is) {
    const catalog::FloorRates rates = floorRates(gpu);
    EXPECT_EQ(rates.bandwidth, bandwidth);
    EXPECT_EQ(rates.matmulRate, rate);
    EXPECT_EQ(rates.fp8Rate, fp8);
    EXPECT_EQ(rates.measured, is);
  };
  expect(1000, 200, 400, false);
  // Both must be measured.
  gpu.measuredBandwidth = 900;
  expect(1000, 200, 400, false);
  gpu.measuredBandwidth = 0, gpu.measuredMatmulRate = 150;
  expect(1000, 200, 400, false);
  gpu.measuredBandwidth = 900;
  expect(900, 150, 300, true);
  gpu.measuredFp8Rate = 260;
  expect(900, 150, 260, true);
}

TEST(Catalog, DeviceNamesFindTheirGpu) {
  const auto name = [](std::string_view device) -> std::string_view {
    const catalog::Gpu *gpu = catalog::findGpuByDevice(device);
    return gpu ? gpu->name : "";
  };
  EXPECT_EQ(name("NVIDIA H100 80GB HBM3"), "h100_sxm");
  EXPECT_EQ(name("NVIDIA H100 PCIe"), "h100_pcie");
  EXPECT_EQ(name("NVIDIA H100 NVL"), "h100_nvl");
  EXPECT_EQ(name("NVIDIA H200"), "h200_sxm");
  EXPECT_EQ(name("NVIDIA H20"), "h20");
  EXPECT_EQ(name("NVIDIA GH200 480GB"), "gh200");
  EXPECT_EQ(name("NVIDIA A100-SXM4-80GB"), "a100_sxm");
  EXPECT_EQ(name("NVIDIA A100 80GB PCIe"), "a100_pcie");
  EXPECT_EQ(name("NVIDIA A10"), "a10");
  EXPECT_EQ(name("NVIDIA A10G"), "a10g");
  EXPECT_EQ(name("NVIDIA L4"), "l4");
  EXPECT_EQ(name("NVIDIA L40S"), "l40s");
  EXPECT_EQ(name("NVIDIA GeForce RTX 5090"), "rtx_5090");
  EXPECT_EQ(name("NVIDIA RTX PRO 6000 Blackwell Workstation Edition"),
            "rtx_pro_6000");
  EXPECT_EQ(name("NVIDIA GB10"), "dgx_spark");
  EXPECT_EQ(name("Radeon"), "");
  // A pattern is whole words of a name, which ' ', '-' and its end limit.
  EXPECT_EQ(name("NVIDIA A100-SXM4-40GB"), "a100_sxm");
  EXPECT_EQ(name("NVIDIA A100-PCIE-40GB"), "a100_sxm");
  for (const catalog::Gpu &gpu : catalog::kGpus) {
    const std::string pattern(
        gpu.devices.substr(gpu.devices.rfind('|') + 1)); // the shortest
    for (const char *after : {"", " 40GB", "-40GB", "-"})
      EXPECT_EQ(name(pattern + after), gpu.name) << pattern << after;
    for (const char *after : {"0", "X", "_"})
      EXPECT_NE(name(pattern + after), gpu.name) << pattern << after;
  }
}

} // namespace
