//===- RankRuns.h - ranks of a layer on the host device ---------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compiles a layer for every rank of a parallel layout, gives each rank its
// slices of one set of weights, and runs it.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_CONFORMANCE_RANKRUNS_H
#define MOEC_TEST_CONFORMANCE_RANKRUNS_H

#include "compiler/Compiler.h"
#include "runtime/host/HostDevice.h"
#include "runtime/package/Ranks.h"
#include "test/reference/Check.h"
#include "test/reference/TestData.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>

namespace moec::test {

inline constexpr int64_t kTopK = 3;
inline constexpr uint64_t kSeed = 11;

struct Layout {
  const char *name, *parallel;
  int64_t ranks;
  int64_t experts;
  const char *scheme, *backend, *activation;
  int64_t zeroExperts = 0;
  int64_t hidden = 72, intermediate = 48;
  const char *inputType = scheme;
  const char *more = "";    ///< options of the layer of ranks
  const char *options = ""; ///< and of the whole layer
  int64_t maxTokens = 64;
  /// The ranks' sum may differ so much from the whole layer. Only sums in f32
  /// differ where a rank rounds what the whole layer rounds, too.
  double tolerance = 1e-5;

  /// Shared experts have no biases.
  bool hasShared() const {
    return std::string_view(options).find("shared") != std::string_view::npos;
  }
};

/// One of a quantized scheme: rows of 16 bytes, and groups of 128 that end
/// within a row and are shared out whole.
inline Layout quantized(const char *name, const char *parallel, int64_t ranks,
                        int64_t experts, const char *scheme,
                        const char *backend, const char *activation,
                        int64_t intermediate) {
  return {name,       parallel, ranks, experts,      scheme, backend,
          activation, 0,        176,   intermediate, "bf16"};
}

/// The same, where ranks share a block of columns whose scale is dynamic: each
/// rank makes it from columns of its own.
inline Layout quantizedInBlocks(const char *name, const char *parallel,
                                int64_t ranks, int64_t experts,
                                const char *scheme, const char *backend,
                                int64_t intermediate) {
  Layout made = quantized(name, parallel, ranks, experts, scheme, backend,
                          "silu", intermediate);
  made.tolerance = 0.03;
  return made;
}

/// With shared experts, of another width.
inline Layout shared(const char *name, const char *parallel, int64_t ranks,
                     int64_t experts, const char *scheme, const char *backend,
                     const char *options, int64_t zeroExperts = 0) {
  Layout made = {name,   parallel, ranks,  experts,
                 scheme, backend,  "silu", zeroExperts};
  made.options = options;
  return made;
}
inline Layout quantizedShared(const char *name, const char *parallel,
                              int64_t ranks, int64_t experts,
                              const char *scheme, int64_t intermediate,
                              const char *options) {
  Layout made = quantized(name, parallel, ranks, experts, scheme, "grouped",
                          "silu", intermediate);
  made.options = options;
  return made;
}

inline void PrintTo(const Layout &layout, std::ostream *out) {
  *out << layout.name;
}

/// 256-byte aligned bytes, filled with 0xff.
struct Bytes {
  explicit Bytes(int64_t bytes = 0) : memory(bytes + 256, std::byte{0xff}) {
    size_t skip = 256 - reinterpret_cast<uintptr_t>(memory.data()) % 256;
    span = {memory.data() + skip, static_cast<size_t>(bytes)};
  }
  std::vector<std::byte> memory;
  std::span<std::byte> span;
};

inline Shares compileLayer(const Layout &layout, const std::string &parallel,
                           bool isBatched, const std::string &more) {
  std::string text = fmt::format(
      "moe.layer @layer {{num_experts = {}, top_k = {}, hidden_size = {}, "
      "intermediate_size = {}, in_dtype = {}, out_dtype = f32, "
      "router_logits_dtype = f32, quant = #moe.quant<{}>, "
      "routing = #moe.routing<renormalize>, activation = #moe.activation<{}>, "
      "parallel = #moe.parallel<{}>, {}num_zero_experts = {}{}{}{}}}\n",
      layout.experts, kTopK, layout.hidden, layout.intermediate,
      layout.inputType, layout.scheme, layout.activation, parallel,
      layout.hasShared() ? "" : "has_bias, ", layout.zeroExperts,
      isBatched ? ", activation_format = \"batched\"" : "", more,
      layout.options);
  compiler::CompileOptions options;
  options.archs = {"sm_90a"};
  options.backend = isBatched ? "batched" : layout.backend;
  options.maxTokens = layout.maxTokens;
  options.cubins = false;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = compiler::parse(text, "layer.mlir", context);
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  auto shares = compiler::compileShares(**module, options);
  EXPECT_TRUE(shares) << (shares ? "" : shares.error().message);
  return std::move(*shares);
}

inline PackageFiles compileRank(const Layout &layout,
                                const std::string &parallel,
                                bool isBatched = false) {
  Shares shares = compileLayer(layout, parallel, isBatched, "");
  EXPECT_EQ(shares.size(), 1u);
  return std::move(shares.front());
}

/// A package for all ranks, with a share for each size that they hold.
inline Shares compileRanks(const Layout &layout, bool isBatched = false) {
  std::vector<int64_t> ranks(layout.ranks);
  std::iota(ranks.begin(), ranks.end(), 0);
  return compileLayer(layout, layout.parallel, isBatched,
                      fmt::format(", ranks = array<i64: {}>{}",
                                  fmt::join(ranks, ", "), layout.more));
}

/// The package of one rank out of that of all.
inline PackageFiles takeRank(const Shares &shares, int64_t rank) {
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
  int64_t column = 0;       ///< the first of its columns of the intermediate
  int64_t sharedColumn = 0; ///< the same of shared experts
  int64_t stride = 1;       ///< from one of its experts to the next
  std::map<std::string, Bytes> stored;
  Bytes out, ids, weights, counts;
  comm::Communicator *communicator = nullptr;
  const comm::Window *window = nullptr;

  explicit Rank(PackageFiles compiled) : files(std::move(compiled)) {
    // A manifest of one rank stays as it is.
    auto one = ofRank(files.manifest, std::nullopt);
    EXPECT_TRUE(one) << (one ? "" : one.error().message);
    files.manifest = std::move(*one);
    auto parsed = reference::parseLayer(*files.manifest.layer);
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    layer = *parsed;
    column = files.manifest.layer["intermediate_begin"];
    sharedColumn = files.manifest.layer->value("shared_intermediate_begin", 0);
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

  /// Experts whose weights stand together.
  struct Held {
    std::string prefix; ///< of the names of their weights
    reference::Layer layer;
    uint64_t seed;
    int64_t experts, begin, stride; ///< of them, the first, and to the next
    int64_t column;                 ///< the first of the intermediate
  };

  std::vector<Held> held() const {
    std::vector<Held> all = {{"", layer, kSeed, layer.localExperts,
                              layer.localBegin, stride, column}};
    if (layer.sharedIntermediate > 0)
      all.push_back(
          {"shared_", layer.sharedMlp(), kSeed + 1, 1, 0, 1, sharedColumn});
    return all;
  }

  static std::vector<Part> partsOf(const reference::Layer &of) {
    const int64_t runs = of.gated ? 2 : 1, hidden = of.hidden;
    std::vector<Part> all = {{"w13", of.weightType, of.gateUpRows(), hidden,
                              runs, false, 1, reference::fillW13},
                             {"w2", of.weightType, hidden, of.intermediate, 0,
                              true, 1, reference::fillW2}};
    if (of.hasBias) {
      all.push_back({"b13", of.inputType, of.gateUpRows(), 1, runs, false, 1,
                     reference::fillB13});
      all.push_back(
          {"b2", of.inputType, hidden, 1, 0, false, 1, reference::fillB2});
    }
    if (of.w1Scaling.given)
      all.push_back({"w13_scale", of.w1Scaling.scaleType, of.w13ScaleRows(),
                     of.w13ScaleColumns(), runs, false, of.w1Scaling.rows,
                     reference::fillW13Scale});
    if (of.w2Scaling.given)
      all.push_back({"w2_scale", of.w2Scaling.scaleType, of.w2ScaleRows(),
                     of.w2ScaleColumns(), 0, of.w2Scaling.columns > 0,
                     of.w2Scaling.columns, reference::fillW2Scale});
    return all;
  }

  void fillWeights() {
    for (const Held &of : held())
      for (const Part &part : partsOf(of.layer)) {
        Bytes bytes(of.experts * part.bytes());
        for (int64_t e = 0; e < of.experts; ++e)
          part.fill(of.layer, of.seed, e, 0, part.rows,
                    bytes.span.data() + e * part.bytes());
        stored.insert_or_assign(of.prefix + part.name, std::move(bytes));
      }
    if (layer.postExpertNorm > 0) {
      Bytes bytes(layer.hidden * 4);
      reference::fillPostExpertNorm(layer, kSeed, 0, 0, layer.hidden,
                                    bytes.span.data());
      stored.insert_or_assign(kNorm, std::move(bytes));
    }
  }

  /// The weight that all ranks have in full.
  static constexpr const char *kNorm = "post_expert_norm";

  /// Takes this rank's share of the whole layer's weights.
  void takeWeights(const Rank &whole) {
    const std::vector<Held> its = held(), wholes = whole.held();
    for (size_t i = 0; i < its.size(); ++i)
      takeOf(its[i], partsOf(wholes.at(i).layer), whole);
    if (layer.postExpertNorm > 0) {
      const Bytes &all = whole.stored.at(kNorm);
      Bytes bytes(int64_t(all.span.size()));
      std::ranges::copy(all.span, bytes.span.begin());
      stored.insert_or_assign(kNorm, std::move(bytes));
    }
  }

  void takeOf(const Held &of, const std::vector<Part> &wholes,
              const Rank &whole) {
    for (const Part &part : partsOf(of.layer)) {
      const Part &from =
          *std::find_if(wholes.begin(), wholes.end(), [&](const Part &other) {
            return std::string_view(other.name) == part.name;
          });
      const std::string name = of.prefix + part.name;
      Bytes bytes(of.experts * part.bytes());
      const std::byte *source = whole.stored.at(name).span.data();
      for (int64_t e = 0; e < of.experts; ++e)
        for (int64_t row = 0; row < part.rows; ++row) {
          // Gate first: this rank's rows of the gate half, then of the up half.
          int64_t at = row;
          if (part.runs) {
            const int64_t each = part.rows / part.runs;
            at = row / each * (from.rows / part.runs) + of.column / part.unit +
                 row % each;
          }
          at += (of.begin + e * of.stride) * from.rows;
          const int64_t skipped =
              part.ofColumns ? part.element->bytesOf(of.column / part.unit) : 0;
          std::memcpy(bytes.span.data() +
                          (e * part.rows + row) * part.rowBytes(),
                      source + at * from.rowBytes() + skipped, part.rowBytes());
        }
      stored.insert_or_assign(name, std::move(bytes));
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
    host::Options options;
    if (communicator)
      options.threads = 1;
    auto device = host::HostDevice::create(files.manifest, target, options);
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
              device->pack(pack, forPack, scratch.span, 0, pack.totalExperts);
          !done)
        return done;
      tensors[pack.result] = tensor(packed.back());
    }
    auto workspaceBytes = device->workspaceBytes(tokens);
    if (!workspaceBytes)
      return workspaceBytes.takeError();
    Bytes workspace(*workspaceBytes), state(target.stateBytes);
    std::ranges::fill(state.span, std::byte{0});
    return device->run(tokens, tensors, workspace.span, state.span, nullptr,
                       communicator, window);
  }
};

} // namespace moec::test

#endif // MOEC_TEST_CONFORMANCE_RANKRUNS_H
