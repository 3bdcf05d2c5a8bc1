//===- SharesTest.cpp - the shares of all ranks are the layer -------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer whole and for every rank of a parallel layout, gives each
// rank its slices of one set of weights, runs all on the host device and
// demands that the ranks' outputs sum to the whole layer's, that routing does
// not depend on the rank, that counts are those of the experts held, and that
// a token without an expert of the rank gets zeros from it; but the first rank
// hands on what zero experts leave as it is. And the same of ranks to which
// rows are sent by expert: weighed and summed, what they give back is the
// layer's output. Quantized schemes too, where a rank's scales are those of the
// whole layer.
//
//===----------------------------------------------------------------------===//

#include "compiler/Compiler.h"
#include "runtime/host/HostDevice.h"
#include "runtime/package/Ranks.h"
#include "test/reference/Check.h"
#include "test/reference/TestData.h"

#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

using namespace moec;

namespace {

constexpr int64_t kTopK = 3;
constexpr uint64_t kSeed = 11;

struct Layout {
  const char *name, *parallel;
  int64_t ranks;
  int64_t experts;
  const char *scheme, *backend, *activation;
  int64_t zeroExperts = 0;
  int64_t hidden = 72, intermediate = 48;
  const char *inputType = scheme;
};

/// One of a quantized scheme: rows of 16 bytes, and groups of 128 that end
/// within a row and are shared out whole.
Layout quantized(const char *name, const char *parallel, int64_t ranks,
                 int64_t experts, const char *scheme, const char *backend,
                 const char *activation, int64_t intermediate) {
  return {name,       parallel, ranks, experts,      scheme, backend,
          activation, 0,        176,   intermediate, "bf16"};
}

void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name; }

/// 256-byte aligned bytes, filled with 0xff.
struct Bytes {
  explicit Bytes(int64_t bytes = 0) : memory(bytes + 256, std::byte{0xff}) {
    size_t skip = 256 - reinterpret_cast<uintptr_t>(memory.data()) % 256;
    span = {memory.data() + skip, static_cast<size_t>(bytes)};
  }
  std::vector<std::byte> memory;
  std::span<std::byte> span;
};

Shares compileLayer(const Layout &layout, const std::string &parallel,
                    bool isBatched, const std::string &more) {
  std::string text = fmt::format(
      "moe.layer @layer {{experts = {}, top_k = {}, hidden = {}, "
      "intermediate = {}, input_type = {}, output_type = f32, "
      "logits_type = f32, quant = #moe.quant<{}>, "
      "routing = #moe.routing<renormalize>, activation = #moe.activation<{}>, "
      "parallel = #moe.parallel<{}>, has_bias, zero_experts = {}{}{}}}\n",
      layout.experts, kTopK, layout.hidden, layout.intermediate,
      layout.inputType, layout.scheme, layout.activation, parallel,
      layout.zeroExperts, isBatched ? ", activation_format = \"batched\"" : "",
      more);
  compiler::CompileOptions options;
  options.archs = {"sm_90a"};
  options.backend = isBatched ? "batched" : layout.backend;
  options.maxTokens = 64;
  options.cubins = false;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = compiler::parse(text, "layer.mlir", context);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  auto shares = compiler::compileShares(**module, options);
  EXPECT_TRUE(shares) << (shares ? "" : shares.error().message);
  return std::move(*shares);
}

PackageFiles compileRank(const Layout &layout, const std::string &parallel,
                         bool isBatched = false) {
  Shares shares = compileLayer(layout, parallel, isBatched, "");
  EXPECT_EQ(shares.size(), 1u);
  return std::move(shares.front());
}

/// A package for all ranks, with a share for each size that they hold.
Shares compileRanks(const Layout &layout, bool isBatched = false) {
  std::vector<int64_t> ranks(layout.ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  return compileLayer(
      layout, layout.parallel, isBatched,
      fmt::format(", ranks = array<i64: {}>", fmt::join(ranks, ", ")));
}

/// The package of one rank out of that of all.
PackageFiles takeRank(const Shares &shares, int64_t rank) {
  auto share = shareOf(shares, rank);
  EXPECT_TRUE(share) << (share ? "" : share.error().message);
  PackageFiles files = **share;
  auto one = ofRank(std::move(files.manifest), rank);
  EXPECT_TRUE(one) << (one ? "" : one.error().message);
  files.manifest = std::move(*one);
  return files;
}

struct Rank {
  PackageFiles files;
  reference::Layer layer;
  int64_t column = 0; ///< the first of its columns of the intermediate
  int64_t stride = 1; ///< from one of its experts to the next
  std::map<std::string, Bytes> stored;
  Bytes out, ids, weights, counts;

  explicit Rank(PackageFiles compiled) : files(std::move(compiled)) {
    // A manifest of one rank stays as it is.
    auto one = ofRank(files.manifest, std::nullopt);
    EXPECT_TRUE(one) << (one ? "" : one.error().message);
    files.manifest = std::move(*one);
    auto parsed = reference::parseLayer(files.manifest.layer);
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    layer = *parsed;
    column = files.manifest.layer["intermediate_begin"];
    stride = files.manifest.layer["local_experts"]["stride"];
  }

  /// A matrix of each expert, and its units. Rows of gate and up (`runs` of
  /// them, one behind the other) and columns of the second matmul are columns
  /// of the intermediate. `unit` of these share a row or a column.
  struct Part {
    const char *name;
    const reference::Element *element;
    int64_t rows, columns;
    int64_t runs;   ///< of rows of the intermediate; 0: rows are others
    bool ofColumns; ///< whether columns are of the intermediate
    int64_t unit;   ///< columns of the intermediate in one of them
    void (*fill)(const reference::Layer &, uint64_t, int64_t, int64_t, int64_t,
                 void *);

    int64_t rowBytes() const { return element->bytesOf(columns); }
    int64_t bytes() const { return rows * rowBytes(); }
  };

  std::vector<Part> parts() const {
    const int64_t runs = layer.gated ? 2 : 1, hidden = layer.hidden;
    std::vector<Part> all = {
        {"w13", layer.weightType, layer.gateUpRows(), hidden, runs, false, 1,
         reference::fillW13},
        {"w2", layer.weightType, hidden, layer.intermediate, 0, true, 1,
         reference::fillW2},
        {"b13", layer.inputType, layer.gateUpRows(), 1, runs, false, 1,
         reference::fillB13},
        {"b2", layer.inputType, hidden, 1, 0, false, 1, reference::fillB2}};
    if (layer.w1Scaling.given)
      all.push_back({"w13_scale", layer.w1Scaling.scaleType,
                     layer.w13ScaleRows(), layer.w13ScaleColumns(), runs, false,
                     layer.w1Scaling.rows, reference::fillW13Scale});
    if (layer.w2Scaling.given)
      all.push_back({"w2_scale", layer.w2Scaling.scaleType, layer.w2ScaleRows(),
                     layer.w2ScaleColumns(), 0, layer.w2Scaling.columns > 0,
                     layer.w2Scaling.columns, reference::fillW2Scale});
    return all;
  }

  void fillWeights() {
    for (const Part &part : parts()) {
      Bytes bytes(layer.localExperts * part.bytes());
      for (int64_t e = 0; e < layer.localExperts; ++e)
        part.fill(layer, kSeed, e, 0, part.rows,
                  bytes.span.data() + e * part.bytes());
      stored.insert_or_assign(part.name, std::move(bytes));
    }
  }

  /// Takes this rank's share of the whole layer's weights.
  void takeWeights(const Rank &whole) {
    const std::vector<Part> wholes = whole.parts();
    for (const Part &part : parts()) {
      const Part &from =
          *std::find_if(wholes.begin(), wholes.end(), [&](const Part &other) {
            return std::string_view(other.name) == part.name;
          });
      Bytes bytes(layer.localExperts * part.bytes());
      const std::byte *source = whole.stored.at(part.name).span.data();
      for (int64_t e = 0; e < layer.localExperts; ++e)
        for (int64_t row = 0; row < part.rows; ++row) {
          // Gate first: this rank's rows of the gate half, then of the up half.
          int64_t at = row;
          if (part.runs) {
            const int64_t each = part.rows / part.runs;
            at = row / each * (from.rows / part.runs) + column / part.unit +
                 row % each;
          }
          at += (layer.localBegin + e * stride) * from.rows;
          const int64_t skipped =
              part.ofColumns ? part.element->bytesOf(column / part.unit) : 0;
          std::memcpy(bytes.span.data() +
                          (e * part.rows + row) * part.rowBytes(),
                      source + at * from.rowBytes() + skipped, part.rowBytes());
        }
      stored.insert_or_assign(part.name, std::move(bytes));
    }
  }

  /// The local expert of a global one, or -1.
  int32_t localOf(int64_t expert) const {
    const int64_t behind = expert - layer.localBegin;
    const bool held = behind >= 0 && behind % stride == 0 &&
                      behind / stride < layer.localExperts;
    return held ? int32_t(behind / stride) : -1;
  }

  static host::Tensor tensor(const Bytes &bytes) {
    return {bytes.span.data(), "", 0};
  }

  Result<void> run(int64_t tokens, const Bytes &x, const Bytes &logits) {
    out = Bytes(tokens * layer.hidden * 4);
    ids = Bytes(tokens * kTopK * 4), weights = Bytes(tokens * kTopK * 4);
    counts = Bytes(layer.localExperts * 4);
    host::Tensors tensors = {
        {"x", tensor(x)},           {"logits", tensor(logits)},
        {"out", tensor(out)},       {"ids", tensor(ids)},
        {"counts", tensor(counts)}, {"weights", tensor(weights)}};
    Bytes map(layer.experts * 4);
    for (int64_t e = 0; stride > 1 && e < layer.experts; ++e)
      reinterpret_cast<int32_t *>(map.span.data())[e] = localOf(e);
    if (stride > 1)
      tensors["expert_map"] = tensor(map);
    return run(tokens, std::move(tensors));
  }

  /// Runs rows that were sent: [experts of this rank, slots], and how many
  /// there are of each.
  Result<void> runBatched(int64_t slots, const Bytes &rows,
                          const Bytes &taken) {
    out = Bytes(layer.localExperts * slots * layer.hidden * 4);
    return run(slots, {{"x", tensor(rows)},
                       {"expert_num_tokens", tensor(taken)},
                       {"out", tensor(out)}});
  }

  Result<void> run(int64_t tokens, host::Tensors tensors) {
    const Target &target = files.manifest.targets[0];
    auto device = host::HostDevice::create(files.manifest, target);
    if (!device)
      return device.takeError();
    for (const auto &[name, bytes] : stored)
      tensors.insert({name, tensor(bytes)});
    std::vector<Bytes> packed;
    for (const Pack &pack : target.pack) {
      auto scratchBytes = device->scratchBytes(pack);
      if (!scratchBytes)
        return scratchBytes.takeError();
      const Bytes &from = stored.at(pack.from[0]);
      packed.emplace_back(int64_t(from.span.size()));
      std::memcpy(packed.back().span.data(), from.span.data(),
                  from.span.size());
      host::Tensors forPack = {{pack.from[0], tensor(packed.back())},
                               {pack.result, tensor(packed.back())}};
      Bytes scratch(*scratchBytes);
      if (auto done =
              device->pack(pack, forPack, scratch.span, 0, layer.localExperts);
          !done)
        return done;
      tensors[pack.result] = tensor(packed.back());
    }
    auto workspaceBytes = device->workspaceBytes(tokens);
    if (!workspaceBytes)
      return workspaceBytes.takeError();
    Bytes workspace(*workspaceBytes);
    return device->run(tokens, tensors, workspace.span, {});
  }
};

class OfLayouts : public testing::TestWithParam<Layout> {};

/// Ranks whose shares have equal sizes have the same kernels, byte for byte,
/// whether they are compiled together or one by one.
static PackageFiles withoutLayer(PackageFiles package) {
  EXPECT_EQ(package.files.erase("layer.mlir"), 1u);
  hashFiles(package);
  return package;
}

TEST_P(OfLayouts, RanksOfEqualSharesHaveTheSameSources) {
  const Layout &layout = GetParam();
  const Shares shares = compileRanks(layout);
  std::map<std::pair<int64_t, int64_t>, const PackageFiles *> bySize;
  for (int64_t r = 0; r < layout.ranks; ++r) {
    SCOPED_TRACE(fmt::format("rank {}", r));
    // The IR of a layer names its ranks.
    const PackageFiles alone = withoutLayer(
        compileRank(layout, fmt::format("{}, rank = {}", layout.parallel, r)));
    auto share = shareOf(shares, r);
    ASSERT_TRUE(share) << share.error().message;
    const PackageFiles its = withoutLayer(**share);
    EXPECT_EQ(alone.files, its.files);
    // And the manifests differ in the ranks alone.
    Manifest manifest = alone.manifest;
    EXPECT_EQ(manifest.ranks.size(), 1u);
    manifest.ranks = its.manifest.ranks;
    EXPECT_EQ(toJson(manifest), toJson(its.manifest));
    const Rank rank(alone);
    bySize.try_emplace({rank.layer.localExperts, rank.layer.intermediate},
                       *share);
    EXPECT_EQ(bySize.at({rank.layer.localExperts, rank.layer.intermediate}),
              *share);
  }
  EXPECT_EQ(bySize.size(), shares.size());
}

TEST_P(OfLayouts, SumToTheLayer) {
  const Layout &layout = GetParam();
  const int64_t hidden = layout.hidden;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  const Shares shares = compileRanks(layout);
  std::vector<Rank> ranks;
  int64_t held = 0;
  for (int64_t r = 0; r < layout.ranks; ++r) {
    ranks.emplace_back(takeRank(shares, r));
    ranks[r].takeWeights(whole);
    held += ranks[r].layer.localExperts * ranks[r].layer.intermediate;
  }
  EXPECT_EQ(held, layout.experts * layout.intermediate);

  for (int64_t tokens : {1, 9, 64})
    for (const char *pattern : {"uniform", "one_expert", "empty_expert"}) {
      SCOPED_TRACE(fmt::format("{} tokens, {}", tokens, pattern));
      Bytes x(tokens * hidden * whole.layer.inputType->bytes);
      fillX(whole.layer, kSeed, 0, tokens, x.span.data(), hidden);
      Bytes logits(tokens * (layout.experts + layout.zeroExperts) * 4);
      ASSERT_TRUE(fillLogits(whole.layer, kSeed, pattern, 0, tokens,
                             *whole.layer.logitsType, logits.span.data()));
      auto ran = whole.run(tokens, x, logits);
      ASSERT_TRUE(ran) << ran.error().message;
      auto wholeOut = reinterpret_cast<const float *>(whole.out.span.data());
      auto ids = reinterpret_cast<const int32_t *>(whole.ids.span.data());
      auto counts = reinterpret_cast<const int32_t *>(whole.counts.span.data());

      std::vector<double> sum(tokens * hidden);
      for (Rank &rank : ranks) {
        ran = rank.run(tokens, x, logits);
        ASSERT_TRUE(ran) << ran.error().message;
        EXPECT_EQ(std::memcmp(rank.ids.span.data(), whole.ids.span.data(),
                              whole.ids.span.size()),
                  0);
        EXPECT_EQ(std::memcmp(rank.weights.span.data(),
                              whole.weights.span.data(),
                              whole.weights.span.size()),
                  0);
        auto held = reinterpret_cast<const int32_t *>(rank.counts.span.data());
        for (int64_t e = 0; e < rank.layer.localExperts; ++e)
          EXPECT_EQ(held[e], counts[rank.layer.localBegin + e * rank.stride]);
        auto out = reinterpret_cast<const float *>(rank.out.span.data());
        for (int64_t token = 0; token < tokens; ++token) {
          bool local = false;
          for (int64_t k = 0; k < kTopK; ++k)
            local |= rank.localOf(ids[token * kTopK + k]) >= 0 ||
                     (rank.layer.addZeroExperts &&
                      ids[token * kTopK + k] >= layout.experts);
          for (int64_t h = 0; h < hidden; ++h) {
            const float value = out[token * hidden + h];
            if (!local) {
              ASSERT_EQ(value, 0.0f) << "token " << token;
            }
            sum[token * hidden + h] += value;
          }
        }
      }
      std::vector<int64_t> list(tokens);
      for (int64_t token = 0; token < tokens; ++token)
        list[token] = token;
      // Only sums in f32 differ, whatever the scheme: what a rank rounds, the
      // whole layer rounds alike.
      reference::Report report =
          reference::compareRows(sum, list, hidden, wholeOut,
                                 *reference::findElement("f32"), hidden, 1e-5);
      EXPECT_TRUE(report.passed) << report.text;
    }
}

TEST_P(OfLayouts, RowsSentByExpertSumToTheLayer) {
  const Layout &layout = GetParam();
  const int64_t hidden = layout.hidden;
  // No rows are sent to those.
  if (layout.zeroExperts > 0)
    return;
  Rank whole(compileRank(layout, ""));
  whole.fillWeights();
  const int64_t rowBytes = hidden * whole.layer.inputType->bytes;
  constexpr int64_t kTokens = 19;
  Bytes x(kTokens * rowBytes);
  fillX(whole.layer, kSeed, 0, kTokens, x.span.data(), hidden);
  Bytes logits(kTokens * layout.experts * 4);
  ASSERT_TRUE(fillLogits(whole.layer, kSeed, "uniform", 0, kTokens,
                         *whole.layer.logitsType, logits.span.data()));
  auto ran = whole.run(kTokens, x, logits);
  ASSERT_TRUE(ran) << ran.error().message;
  auto ids = reinterpret_cast<const int32_t *>(whole.ids.span.data());
  auto weights = reinterpret_cast<const float *>(whole.weights.span.data());

  std::vector<double> sum(kTokens * hidden);
  const Shares shares = compileRanks(layout, true);
  for (int64_t r = 0; r < layout.ranks; ++r) {
    Rank rank(takeRank(shares, r));
    rank.takeWeights(whole);
    // A token takes an expert once.
    Bytes rows(rank.layer.localExperts * kTokens * rowBytes);
    Bytes taken(rank.layer.localExperts * 4);
    auto count = reinterpret_cast<int32_t *>(taken.span.data());
    std::fill_n(count, rank.layer.localExperts, 0);
    std::vector<int64_t> slots(kTokens * kTopK, -1);
    for (int64_t pair = 0; pair < kTokens * kTopK; ++pair)
      if (const int32_t e = rank.localOf(ids[pair]); e >= 0) {
        slots[pair] = e * kTokens + count[e]++;
        std::memcpy(rows.span.data() + slots[pair] * rowBytes,
                    x.span.data() + pair / kTopK * rowBytes, rowBytes);
      }
    ran = rank.runBatched(kTokens, rows, taken);
    ASSERT_TRUE(ran) << ran.error().message;
    auto out = reinterpret_cast<const float *>(rank.out.span.data());
    for (int64_t pair = 0; pair < kTokens * kTopK; ++pair)
      for (int64_t h = 0; slots[pair] >= 0 && h < hidden; ++h)
        sum[pair / kTopK * hidden + h] +=
            weights[pair] * out[slots[pair] * hidden + h];
  }
  std::vector<int64_t> list(kTokens);
  std::iota(list.begin(), list.end(), 0);
  reference::Report report = reference::compareRows(
      sum, list, hidden, reinterpret_cast<const float *>(whole.out.span.data()),
      *reference::findElement("f32"), hidden, 1e-5);
  EXPECT_TRUE(report.passed) << report.text;
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, OfLayouts,
    testing::Values(
        Layout{"tp2", "tp = 2", 2, 5, "f32", "unfused", "silu"},
        Layout{"tp3", "tp = 3", 3, 5, "bf16", "grouped", "gelu_no_mul"},
        Layout{"dp2_tp3", "tp = 3, dp = 2", 6, 4, "bf16", "grouped", "silu"},
        // 48 columns are 6 runs of 8 gate rows, or 12 of 4.
        Layout{"tp5_uneven", "tp = 5", 5, 4, "bf16", "grouped", "silu"},
        Layout{"tp4_uneven", "tp = 2, dp = 2", 4, 4, "f32", "unfused", "silu"},
        Layout{"tp7_uneven", "tp = 7", 7, 3, "f32", "grouped", "gelu_no_mul"},
        Layout{"ep2", "tp = 2, ep", 2, 8, "f32", "unfused", "gelu"},
        Layout{"ep3_uneven", "tp = 3, ep", 3, 8, "bf16", "grouped", "silu"},
        Layout{"ep3_round_robin", "tp = 3, ep, placement = round_robin", 3, 8,
               "bf16", "grouped", "silu"},
        Layout{"tp2_zero", "tp = 2", 2, 5, "bf16", "grouped", "silu", 3},
        Layout{"ep3_zero", "tp = 3, ep", 3, 7, "f32", "unfused", "silu", 9},
        Layout{"ep5_dp", "dp = 5, ep", 5, 7, "f16", "grouped", "silu_no_mul"},
        Layout{"ep12_of_all", "tp = 2, pcp = 3, dp = 2, ep", 12, 13, "bf16",
               "grouped", "silu"},
        Layout{"one_expert_each", "dp = 4, ep", 4, 4, "f32", "grouped", "silu"},
        // 384 and 640 columns are 3 and 5 blocks.
        quantized("fp8_block_tp2_uneven", "tp = 2", 2, 4, "fp8_block",
                  "grouped", "silu", 384),
        quantized("fp8_block_tp3_uneven", "tp = 3", 3, 3, "fp8_block",
                  "unfused", "gelu_no_mul", 640),
        quantized("fp8_block_ep3_uneven", "tp = 3, ep", 3, 8, "fp8_block",
                  "grouped", "silu", 208),
        quantized("fp8_channel_ep3_uneven", "tp = 3, ep", 3, 7, "fp8_channel",
                  "grouped", "silu", 144),
        quantized("fp8_channel_ep4_round_robin",
                  "tp = 4, ep, placement = round_robin", 4, 8, "fp8_channel",
                  "unfused", "silu", 144),
        quantized("int4_tp3_uneven", "tp = 3", 3, 4, "int4_w4a16", "grouped",
                  "silu", 640),
        quantized("mxfp4_ep2", "tp = 2, ep", 2, 5, "mxfp4_w4a16", "grouped",
                  "silu", 160)),
    [](const auto &info) { return info.param.name; });

} // namespace
