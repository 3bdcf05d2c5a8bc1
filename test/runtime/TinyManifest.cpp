//===- TinyManifest.cpp - a small complete manifest for tests -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/runtime/TinyManifest.h"

#include <nlohmann/json.hpp>

#include <map>
#include <utility>

using namespace moec;
using namespace moec::test;

Stage test::stage(std::string op, const std::vector<std::string> &operands,
                  const std::vector<std::string> &results,
                  const nlohmann::json &attributes) {
  auto map = [](const std::vector<std::string> &names) {
    std::map<std::string, std::string> result;
    for (const std::string &name : names) {
      size_t equals = name.find('=');
      result[name.substr(0, equals)] =
          equals == std::string::npos ? name : name.substr(equals + 1);
    }
    return result;
  };
  return {std::move(op), map(operands), map(results), BoxedJson(attributes)};
}

Value test::value(std::string name, ValueRole role,
                  std::vector<std::string> types,
                  std::vector<Expression> shape) {
  Value result;
  result.name = std::move(name);
  result.role = role;
  result.elementTypes = std::move(types);
  result.shape = std::move(shape);
  return result;
}

Kernel test::kernel(const std::string &name, BlockBuilder block,
                    std::vector<Stage> stages) {
  Kernel result;
  result.name = name;
  result.source = "sm_90a/" + name + ".cu";
  result.entry = "moec_" + name + "_90a";
  result.headers = {"moe/kernel/" + name + ".cuh"};
  result.options = {"-std=c++20", "-arch=sm_90a", "-default-device"};
  result.threads = 128;
  result.arguments = block.build();
  result.stages = std::move(stages);
  return result;
}

Launch test::launch(std::string kernel, Expression ctas) {
  Launch result;
  result.kernel = std::move(kernel);
  result.grid.ctas[0] = std::move(ctas);
  return result;
}

namespace {
/// The target of a tiny manifest.
class TinyTarget {
public:
  explicit TinyTarget(const TinyShape &shape) : s(shape) {}
  Target make() const;

private:
  std::vector<Value> values() const;
  Stage routeStage() const;
  Stage countStage(const char *result) const;
  Stage permuteStage(const char *counts) const;
  Stage matmul(int64_t n, int64_t k, bool gather, int64_t interleave,
               const char *result) const;
  BlockBuilder routeBlock() const;
  std::vector<Kernel> routingKernels() const;
  std::vector<Kernel> matmulKernels() const;
  std::vector<Kernel> packKernels() const;
  Variant variant(std::string name, int64_t least, int64_t most,
                  std::vector<Launch> launches) const;
  Pack pack() const;

  const TinyShape &s;
  const Expression tokens = Expression::symbol("tokens");
  const Expression rows = Expression::symbol("rows");
  const Expression blocks = ceilDiv(tokens, s.blockTokens);
  const Expression tiles = min(rows, ceilDiv(rows, s.tileRows) + s.experts);
};
} // namespace

std::vector<Value> TinyTarget::values() const {
  using enum ValueRole;
  std::vector<Value> made = {
      value("w13_packed", PackedWeight, {"bf16"},
            {s.experts, 2 * s.intermediate, s.hidden}),
      value("topk_ids", Workspace, {"i32"}, {tokens, s.topK}),
      value("topk_weights", Workspace, {"f32"}, {tokens, s.topK}),
      value("block_counts", Workspace, {"i32"}, {blocks, s.experts}),
      value("rows", Workspace, {"i32"}, {rows}),
      value("positions", Workspace, {"i32"}, {tokens, s.topK}),
      value("offsets", Workspace, {"i32"}, {s.experts + 1}),
      value("tiles", Workspace, {"i32"}, {tiles, 4}),
      value("tile_count", Workspace, {"i32"}, {3}),
      value("t", Workspace, {"bf16"}, {rows, s.intermediate}),
      value("y_f32", Workspace, {"f32"}, {rows, s.hidden}),
      value("pack_scratch", Workspace, {"bf16"},
            {Expression::symbol("experts"), 2 * s.intermediate, s.hidden}),
  };
  made[0].mayAlias = "w13";
  return made;
}

Stage TinyTarget::routeStage() const {
  return stage("route",
               {"logits", "given_ids", "given_weights", "valid_tokens"},
               {"topk_ids", "topk_weights", "ids", "weights"},
               {{"score", "softmax"},
                {"select", "top_k"},
                {"normalize", "sum"},
                {"experts", s.experts},
                {"top_k", s.topK},
                {"groups", 0},
                {"top_groups", 0},
                {"scale", 1.0}});
}

Stage TinyTarget::countStage(const char *result) const {
  return stage("count", {"topk_ids"}, {result},
               {{"experts", s.experts},
                {"local_experts", s.experts},
                {"block_tokens", s.blockTokens}});
}

Stage TinyTarget::permuteStage(const char *counts) const {
  return stage(
      "permute", {"topk_ids", counts},
      {"rows", "positions", "offsets", "tiles", "tile_count", "counts"},
      {{"experts", s.experts},
       {"local_experts", s.experts},
       {"pairs", s.topK},
       {"block_tokens", s.blockTokens},
       {"tile_rows", s.tileRows}});
}

BlockBuilder TinyTarget::routeBlock() const {
  return BlockBuilder()
      .chosen("logits")
      .chosen("given_ids")
      .chosen("given_weights")
      .pointer("valid_tokens")
      .size("tokens", tokens)
      .pointer("topk_ids")
      .pointer("topk_weights")
      .pointer("ids")
      .pointer("weights");
}

static BlockBuilder permuteResults(BlockBuilder block) {
  return block.pointer("rows")
      .pointer("positions")
      .pointer("offsets")
      .pointer("tiles")
      .pointer("tile_count")
      .pointer("counts");
}

Stage TinyTarget::matmul(int64_t n, int64_t k, bool gather, int64_t interleave,
                         const char *result) const {
  std::vector<std::string> operands = {"lhs", "tiles", "tile_count", "rhs"};
  if (gather)
    operands.push_back("rows");
  nlohmann::json attributes = {{"n", n},
                               {"k", k},
                               {"experts", s.experts},
                               {"gather", gather},
                               {"interleave", interleave}};
  if (gather)
    attributes["pairs"] = s.topK;
  return stage("grouped_matmul", operands, {result}, attributes);
}

std::vector<Kernel> TinyTarget::routingKernels() const {
  return {
      kernel("route_permute", permuteResults(routeBlock()),
             {routeStage(), countStage("block_counts=%block_counts"),
              permuteStage("block_counts=%block_counts")}),
      kernel("route", routeBlock().pointer("block_counts"),
             {routeStage(), countStage("block_counts")}),
      kernel("permute",
             permuteResults(BlockBuilder()
                                .pointer("topk_ids")
                                .pointer("block_counts")
                                .size("tokens", tokens)),
             {permuteStage("block_counts")}),
  };
}

std::vector<Kernel> TinyTarget::matmulKernels() const {
  return {
      kernel("gate_up",
             BlockBuilder()
                 .pointer("lhs", "x")
                 .rowStride("lhs_row_stride", "x")
                 .pointer("rows")
                 .pointer("tiles")
                 .pointer("tile_count")
                 .pointer("rhs", "w13_packed")
                 .pointer("result", "t"),
             {matmul(2 * s.intermediate, s.hidden, true, 8, "result=%h"),
              stage("activate", {"input=%h"}, {"result"},
                    {{"function", "silu"},
                     {"gated", true},
                     {"interleave", 8},
                     {"alpha", nullptr},
                     {"beta", nullptr},
                     {"limit", nullptr}})}),
      kernel("down",
             BlockBuilder()
                 .pointer("lhs", "t")
                 .rowStride("lhs_row_stride", "t")
                 .pointer("tiles")
                 .pointer("tile_count")
                 .pointer("rhs", "w2")
                 .pointer("result", "y_f32"),
             {matmul(s.hidden, s.intermediate, false, 0, "result")}),
      kernel("combine",
             BlockBuilder()
                 .pointer("partials", "y_f32")
                 .pointer("positions")
                 .pointer("topk_weights")
                 .size("tokens", tokens)
                 .pointer("out"),
             {stage("combine", {"partials", "positions", "topk_weights"},
                    {"out"}, {{"pairs", s.topK}, {"hidden", s.hidden}})}),
  };
}

std::vector<Kernel> TinyTarget::packKernels() const {
  return {
      kernel("pack_copy",
             BlockBuilder()
                 .pointer("source", "w13")
                 .pointer("destination", "pack_scratch")
                 .firstExpert()
                 .size("experts", Expression::symbol("experts")),
             {stage("pack_copy", {"source"}, {"destination"},
                    {{"rows", 2 * s.intermediate}, {"columns", s.hidden}})}),
      kernel("pack_interleave",
             BlockBuilder()
                 .pointer("source", "pack_scratch")
                 .pointer("destination", "w13_packed")
                 .firstExpert()
                 .size("experts", Expression::symbol("experts")),
             {stage("pack_interleave", {"source"}, {"destination"},
                    {{"rows", 2 * s.intermediate},
                     {"columns", s.hidden},
                     {"interleave", 8}})}),
  };
}

/// Slots one behind the other; values that never live together may share one.
Variant TinyTarget::variant(std::string name, int64_t least, int64_t most,
                            std::vector<Launch> launches) const {
  Variant v;
  v.name = std::move(name);
  v.minTokens = least;
  v.maxTokens = most;
  v.launches = std::move(launches);
  Expression offset;
  auto slot = [&](std::vector<Region> regions) {
    Expression size;
    for (Region &region : regions) {
      region.offset = offset;
      size = max(size, region.bytes);
      v.regions.push_back(region);
    }
    offset = offset + ceilDiv(size, 256) * 256;
  };
  int64_t last = static_cast<int64_t>(v.launches.size()) - 1;
  slot({{"topk_ids", {}, tokens * (s.topK * 4), 0, last - 3}});
  slot({{"topk_weights", {}, tokens * (s.topK * 4), 0, last}});
  slot({{"rows", {}, rows * 4, last - 3, last - 2}});
  slot({{"positions", {}, tokens * (s.topK * 4), last - 3, last}});
  slot({{"offsets", {}, (s.experts + 1) * 4, last - 3, last - 3}});
  slot({{"tiles", {}, tiles * 16, last - 3, last - 1}});
  slot({{"tile_count", {}, 12, last - 3, last - 1}});
  if (last == 4)
    slot({{"block_counts", {}, blocks * (s.experts * 4), 0, 1},
          {"t", {}, rows * (s.intermediate * 2), last - 2, last - 1}});
  else
    slot({{"t", {}, rows * (s.intermediate * 2), last - 2, last - 1}});
  slot({{"y_f32", {}, rows * (s.hidden * 4), last - 1, last}});
  v.workspaceBytes = offset;
  return v;
}

Pack TinyTarget::pack() const {
  Pack made;
  made.result = "w13_packed";
  made.from = {"w13"};
  made.inPlace = true;
  made.expertsPerStep = std::min<int64_t>(3, s.experts);
  made.totalExperts = s.experts;
  made.scratch = "pack_scratch";
  made.scratchBytes =
      Expression::symbol("experts") * (2 * s.intermediate * s.hidden * 2);
  made.launches = {launch("pack_copy", Expression::symbol("experts")),
                   launch("pack_interleave", Expression::symbol("experts"))};
  return made;
}

Target TinyTarget::make() const {
  Target t;
  t.arch = "sm_90a";
  t.gpu = "h100_sxm";
  t.compatibility = "exact";
  t.computeMajor = 9;
  t.computeMinor = 0;
  t.values = values();
  for (const std::vector<Kernel> &kernels :
       {routingKernels(), matmulKernels(), packKernels()})
    t.kernels.insert(t.kernels.end(), kernels.begin(), kernels.end());
  for (Kernel &each : t.kernels)
    each.programmatic = each.name.substr(0, 4) != "pack";
  t.variants = {
      variant("small", 1, s.smallTokens,
              {launch("route_permute", 1), launch("gate_up", tiles),
               launch("down", tiles), launch("combine", tokens)}),
      variant("large", s.smallTokens + 1, s.maxTokens,
              {launch("route", blocks), launch("permute", blocks),
               launch("gate_up", tiles), launch("down", tiles),
               launch("combine", tokens)}),
  };
  t.pack = {pack()};
  *t.report = {{"backend", "grouped"}};
  return t;
}

Manifest test::tinyManifest(const TinyShape &s) {
  using enum ValueRole;
  const Expression tokens = Expression::symbol("tokens");
  Manifest m;
  m.name = "tiny";
  m.compiler = "moec test";
  m.maxTokens = s.maxTokens;
  m.rows = tokens * Expression(s.topK);
  *m.layer = {{"name", "tiny"},
              {"num_experts", s.experts},
              {"top_k", s.topK},
              {"hidden_size", s.hidden},
              {"intermediate_size", s.intermediate}};
  m.values = {
      value("x", Input, {"bf16"}, {tokens, s.hidden}),
      value("logits", OptionalInput, {"f32", "f16", "bf16"},
            {tokens, s.experts}),
      value("given_ids", OptionalInput, {"i32", "i64"}, {tokens, s.topK}),
      value("given_weights", OptionalInput, {"f32", "f16", "bf16"},
            {tokens, s.topK}),
      value("valid_tokens", OptionalInput, {"i32"}, {1}),
      value("w13", StoredWeight, {"bf16"},
            {s.experts, 2 * s.intermediate, s.hidden}),
      value("w2", StoredWeight, {"bf16"},
            {s.experts, s.hidden, s.intermediate}),
      value("out", Output, {"bf16"}, {tokens, s.hidden}),
      value("ids", OptionalOutput, {"i32"}, {tokens, s.topK}),
      value("weights", OptionalOutput, {"f32"}, {tokens, s.topK}),
      value("counts", OptionalOutput, {"i32"}, {s.experts}),
  };
  m.values[0].callerRowStride = true;
  m.oneOf = {{"logits"}, {"given_ids", "given_weights"}};
  m.targets = {TinyTarget(s).make()};
  return m;
}

PackageFiles test::tinyPackage(const TinyShape &shape) {
  PackageFiles package;
  package.manifest = tinyManifest(shape);
  for (const Kernel &kernel : package.manifest.targets[0].kernels) {
    package.files[kernel.source] = "// " + kernel.entry + "\n";
    for (const std::string &header : kernel.headers)
      package.files[headerPath(header)] = "// " + header + "\n";
  }
  hashFiles(package);
  return package;
}
