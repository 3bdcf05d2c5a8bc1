//===- CompilerTest.cpp - the façade, end to end without a GPU ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every legal combination compiles to a package that validates; stopping at
// any phase and going on gives the same bytes; the pipeline is quick.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "compiler/TargetNames.h"
#include "dialect/catalog/Activations.h"
#include "dialect/catalog/Architectures.h"
#include "dialect/catalog/RoutingMethods.h"
#include "dialect/catalog/Schemes.h"
#include "runtime/support/Log.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

using namespace moec;
using namespace moec::compiler;

namespace {
struct LayerText {
  std::string scheme = "bf16", activation = "silu";
  std::string routing = "renormalize", options;
  int64_t experts = 8, topK = 2, hidden = 64, intermediate = 32;

  /// The type of the input: quantized schemes take any float.
  std::string inputType() const {
    const catalog::Scheme *row = catalog::find(catalog::kSchemes, scheme);
    return std::string(row && row->activations.scale.empty()
                           ? row->activations.element
                           : "bf16");
  }

  std::string str() const {
    return fmt::format(
        "moe.layer @tiny {{num_experts = {}, top_k = {}, hidden_size = {}, "
        "intermediate_size = {}, in_dtype = {}, out_dtype = {}, "
        "router_logits_dtype = {}, quant = #moe.quant<{}>, "
        "routing = #moe.routing<{}>, activation = #moe.activation<{}>, "
        "parallel = #moe.parallel<>{}}}\n",
        experts, topK, hidden, intermediate, inputType(), inputType(),
        inputType(), scheme, routing, activation, options);
  }
};

LayerText qwen() {
  LayerText layer;
  layer.routing = "renormalize_naive";
  layer.experts = 128, layer.topK = 8;
  layer.hidden = 2048, layer.intermediate = 768;
  return layer;
}

CompileOptions optionsFor(std::vector<std::string> archs) {
  CompileOptions options;
  options.archs = std::move(archs);
  options.cubins = false;
  return options;
}

/// Stops at each of `stops`, prints, parses in a new context and goes on.
Result<PackageFiles> compileWithStops(const std::string &text,
                                      const CompileOptions &options,
                                      const std::vector<Phase> &stops) {
  std::string current = text;
  for (Phase stop : stops) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    auto module = parse(current, "stop.mlir", context);
    if (!module)
      return module.takeError();
    if (auto lowered = lower(**module, stop, options); !lowered)
      return lowered.takeError();
    current = print(**module);
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = parse(current, "last.mlir", context);
  if (!module)
    return module.takeError();
  return compile(**module, options);
}

std::string errorOf(const Result<PackageFiles> &result) {
  return result ? "" : result.error().message;
}
} // namespace

TEST(Compiler, PhaseNamesRoundTrip) {
  for (const char *name :
       {"layer", "stages", "kernels", "scheduled", "cuda", "ptx", "package"}) {
    auto phase = parsePhase(name);
    ASSERT_TRUE(phase) << name;
    EXPECT_EQ(phaseName(*phase), name);
  }
  EXPECT_FALSE(parsePhase("sass"));
}

/// Each scheme has each activation, with and without biases. The backends take
/// turns, except in test-all, which runs all combinations.
TEST(Compiler, EveryLegalRowGivesAValidPackage) {
  const char *all = std::getenv("MOEC_TEST_ALL");
  const bool isWhole = all && std::string_view(all) == "1";
  size_t layers = 0;
  for (const catalog::Scheme &scheme : catalog::kSchemes)
    for (const catalog::Activation &activation : catalog::kActivations)
      for (const char *bias : {"", ", has_bias"}) {
        // Once weights are dequantized what follows is that of bf16.
        if (scheme.policy == catalog::kWeightOnly &&
            &activation != &catalog::kActivations[0])
          continue;
        LayerText layer;
        layer.scheme = scheme.name;
        layer.activation = activation.name;
        if (!activation.needs.empty())
          layer.activation +=
              fmt::format(", {} = 1.5", activation.needs.text());
        layer.options = bias;
        const std::string_view backends[] = {"", "grouped", "unfused"};
        const size_t turn = layers++ / 2 % std::size(backends);
        for (std::string_view backend : backends) {
          if (!isWhole && backend != backends[turn])
            continue;
          CompileOptions options =
              optionsFor({"sm_75", "sm_80", "sm_90a", "sm_120a"});
          options.backend = backend;
          auto made = compileWithStops(layer.str(), options, {});
          ASSERT_TRUE(made) << layer.str() << backend << "\n" << errorOf(made);
          EXPECT_TRUE(validate(*made));
          EXPECT_EQ(made->manifest.targets.size(), 4u);
        }
      }
}

TEST(Compiler, EveryArchAndRoutingGivesAValidPackage) {
  std::vector<std::string> archs;
  for (const catalog::Architecture &arch : catalog::kArchitectures)
    archs.emplace_back(arch.name);
  for (const catalog::RoutingMethod &routing : catalog::kRoutingMethods) {
    LayerText layer = qwen();
    layer.routing = routing.name;
    if (routing.needs.contains("groups"))
      layer.routing += ", groups = 8, top_groups = 8";
    if (routing.needs.contains("sinks"))
      layer.routing += ", sinks = 2";
    if (routing.needs.contains("weight_on_input"))
      layer.topK = 1;
    auto made = compileWithStops(layer.str(), optionsFor(archs), {});
    ASSERT_TRUE(made) << layer.routing << "\n" << errorOf(made);
    EXPECT_EQ(made->manifest.targets.size(), archs.size());
  }
}

TEST(Compiler, StoppingAnywhereGivesTheSamePackage) {
  CompileOptions options = optionsFor({"sm_80", "sm_90a"});
  std::string text = qwen().str();
  auto whole = compileWithStops(text, options, {});
  ASSERT_TRUE(whole) << errorOf(whole);
  std::vector<Phase> all = {Phase::Layer, Phase::Stages, Phase::Kernels,
                            Phase::Scheduled};
  std::vector<std::vector<Phase>> ways = {all};
  for (Phase phase : all)
    ways.push_back({phase});
  for (const auto &stops : ways) {
    auto made = compileWithStops(text, options, stops);
    ASSERT_TRUE(made) << phaseName(stops[0]) << "\n" << errorOf(made);
    EXPECT_EQ(toJson(made->manifest), toJson(whole->manifest))
        << phaseName(stops[0]);
    EXPECT_EQ(made->files, whole->files) << phaseName(stops[0]);
  }
}

TEST(Compiler, TwoCallsGiveTheSameBytes) {
  auto first = compileWithStops(qwen().str(), optionsFor({"sm_90a"}), {});
  auto second = compileWithStops(qwen().str(), optionsFor({"sm_90a"}), {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(toJson(first->manifest), toJson(second->manifest));
  EXPECT_EQ(first->files, second->files);
}

TEST(Compiler, RefusalsCarryTheirCode) {
  LayerText layer;
  CompileOptions options = optionsFor({"sm_75"});
  options.engine = "mma_sync";
  auto made = compileWithStops(layer.str(), options, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::Refused);
  EXPECT_NE(errorOf(made).find("[feature_missing]: engine 'mma_sync' needs "
                               "mma_sync, which sm_75 lacks"),
            std::string::npos)
      << errorOf(made);
}

TEST(Compiler, UnknownNamesListTheKnownOnes) {
  auto made = compileWithStops(LayerText().str(), optionsFor({"sm_42"}), {});
  EXPECT_EQ(errorOf(made).substr(0, 42),
            "unknown arch 'sm_42'; known archs: sm_75, ");
  made = compileWithStops(LayerText().str(), optionsFor({}), {});
  EXPECT_EQ(
      errorOf(made),
      "no arch is given; expected one, such as sm_90a (`moec list archs`)");
  made = compileWithStops("module {}", optionsFor({"sm_80"}), {});
  EXPECT_EQ(errorOf(made), "the module holds no moe.layer");
  CompileOptions options = optionsFor({"sm_80"});
  options.gpu = "h900";
  made = compileWithStops(LayerText().str(), options, {});
  EXPECT_EQ(errorOf(made).substr(0, 37),
            "unknown GPU 'h900'; known GPUs: t4, a");
}

TEST(TargetNames, AGpuGetsTheArchThatHasMost) {
  const auto of = [](int major, int minor) {
    const auto *arch = bestArchOf(major, minor);
    return arch ? std::string(arch->name) : "none";
  };
  for (const auto &[major, minor, wanted] :
       {std::tuple(7, 0, "none"), std::tuple(7, 5, "sm_75"),
        std::tuple(8, 0, "sm_80"), std::tuple(8, 9, "sm_89"),
        // Nothing of sm_90a runs there.
        std::tuple(9, 0, "sm_90a"), std::tuple(9, 1, "sm_90"),
        std::tuple(10, 0, "sm_100a"), std::tuple(10, 1, "sm_100"),
        std::tuple(10, 3, "sm_103a"), std::tuple(12, 1, "sm_121a"),
        std::tuple(13, 0, "none")})
    EXPECT_EQ(of(major, minor), wanted) << major << "." << minor;
}

TEST(TargetNames, AnArchWithABetterTwinIsWarnedOf) {
  const auto warned = [](std::vector<std::string> archs) {
    std::string warnings;
    setLogSink([&](LogLevel, std::string_view text) { warnings += text; },
               LogLevel::Warning);
    CompileOptions options;
    options.archs = std::move(archs);
    EXPECT_TRUE(resolveTargets(options));
    EXPECT_TRUE(options.foundGpu);
    setLogSink({}, LogLevel::Warning);
    return warnings;
  };
  EXPECT_EQ(warned({"sm_90a"}), "");
  EXPECT_EQ(warned({"sm_90", "sm_90a"}), "");
  EXPECT_EQ(warned({"sm_80", "sm_90"}),
            "arch sm_90 has no wgmma and wgmma_rs, which sm_90a has on the "
            "same GPUs: kernels for sm_90 have older instructions; say sm_90a "
            "for those GPUs");
  EXPECT_EQ(warned({"sm_100", "sm_100a"}), "");
}

TEST(TargetNames, ArchsAndGpusAreWordsForEachOther) {
  const auto resolved = [](std::vector<std::string> archs, std::string gpu) {
    CompileOptions options;
    options.archs = std::move(archs);
    options.gpu = std::move(gpu);
    if (auto done = resolveTargets(options); !done)
      return done.error().message;
    return fmt::format("{} {} {}", fmt::join(options.archs, ","), options.gpu,
                       options.foundGpu ? "found" : "asked");
  };
  EXPECT_EQ(resolved({"h100"}, ""), "sm_90a h100_sxm asked");
  EXPECT_EQ(resolved({"sm_80", "h100"}, ""), "sm_80,sm_90a h100_sxm asked");
  EXPECT_EQ(resolved({"sm_90a", "h200", "sm_90a"}, ""),
            "sm_90a h200_sxm asked");
  EXPECT_EQ(resolved({"h100", "h100_sxm"}, ""), "sm_90a h100_sxm asked");
  // The GPU that is asked for counts, whatever words name archs.
  EXPECT_EQ(resolved({"h100", "a100"}, "h200"), "sm_90a,sm_80 h200_sxm asked");
  EXPECT_EQ(resolved({"h100", "h200"}, ""),
            "archs 'h100,h200' name GPUs h100_sxm and h200_sxm, but schedules "
            "assume one GPU; name the arch of h200_sxm, sm_90a, or one GPU by "
            "--gpu");
  for (const auto &[word, meant] : {std::pair("Hopper", "sm_90a?"),
                                    {"blackwell", "sm_100a, sm_103a or"},
                                    {"4090", "rtx_4090?"}})
    EXPECT_NE(resolved({word}, "").find(std::string("did you mean ") + meant),
              std::string::npos)
        << word;
  EXPECT_EQ(resolved({"sm_90a"}, "h1000").substr(0, 20),
            "unknown GPU 'h1000';");
  EXPECT_EQ(resolved({"natve"}, "").substr(0, 42),
            "unknown arch 'natve'; did you mean native?");
}

TEST(Compiler, ParseErrorsSayWhere) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = parse("moe.layer @x {num_experts = }", "bad.mlir", context);
  ASSERT_FALSE(module);
  EXPECT_EQ(module.error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(module.error().message.substr(0, 11), "bad.mlir:1:");
}
