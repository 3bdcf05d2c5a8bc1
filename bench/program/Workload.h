//===- Workload.h - one package, ready to be timed --------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loads a package through the C ABI, makes layers of random weights, and runs
// R of them in a row with inputs of their own. Knows what a run must move and
// compute at least.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_BENCH_PROGRAM_WORKLOAD_H
#define MOEC_BENCH_PROGRAM_WORKLOAD_H

#include "bench/program/RandomData.h"
#include "bench/program/Routing.h"
#include "moec/moec.h"
#include "tools/device/Device.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <memory>

namespace moec::bench {

struct WorkloadOptions {
  uint64_t seed = 1;
  Routing routing;
  int32_t rank = -1; ///< of the package; -1: its only one
  /// Weights that a graph touches at least, so that none is in the L2 cache.
  uint64_t touchedBytes = 400'000'000;
  int repeats = 0;     ///< layers in a graph; 0: from touchedBytes
  std::string variant; ///< forces one; "" by token count
  int passes = 3;      ///< medians of replays, of which the median counts
  /// A card that was busy is slower: idle for so long before a layer that
  /// takes over 400 us.
  double idleMs = 100;
};

/// The result of one token count.
struct Measurement {
  int64_t tokens = 0;
  double microseconds = 0; ///< of one layer
  int repeats = 0;         ///< layers in the graph
  double bytes = 0;        ///< of touched experts, x, out, logits; of one layer
  double flops = 0;        ///< of one layer
  double touchedExperts = 0;  ///< local ones, mean over the layers
  double localPairs = 0;      ///< pairs of them and a token, the same
  std::vector<double> passes; ///< microseconds of each
  std::string variant;
};

class Workload {
public:
  static Result<std::unique_ptr<Workload>> load(const tools::Device &device,
                                                const std::string &folder,
                                                const WorkloadOptions &options);
  ~Workload();

  Result<Measurement> measure(int64_t tokens);

  const nlohmann::json &manifest() const { return *manifestJson; }
  std::string name() const;
  std::string arch() const;
  int64_t maxTokens() const;

private:
  struct Run; ///< inputs and outputs of one layer of a graph

  /// The work of one layer of a graph on this rank.
  struct Touched {
    int64_t experts = 0, pairs = 0;
  };

  Workload(const tools::Device &device, WorkloadOptions options)
      : device(device), options(std::move(options)),
        random(device, this->options.seed) {}
  Result<void> makeLayers();
  Result<Run> makeRun(int64_t tokens, int index);
  Result<void> queue(const Run &run, int64_t tokens);
  Result<Touched> countTouched(Run &run, int64_t tokens);
  /// Layers of a graph, if each is like this one. perExpert: bytes.
  int repeatsFor(double perExpert, const Touched &touched) const;
  Result<uint64_t> bytesOf(const char *name, int64_t tokens) const;
  /// At most as many dimensions as any value has.
  using Shape = std::array<int64_t, 8>;
  /// `shape` gets the extents and must stay where it is.
  Result<moec_tensor> tensorOf(const char *name, const tools::Buffer &buffer,
                               int64_t tokens, Shape &shape) const;

  const tools::Device &device;
  WorkloadOptions options;
  moec_package *package = nullptr;
  moec_context *context = nullptr;
  std::vector<moec_layer *> layers;
  std::vector<tools::Buffer> weights;
  tools::Buffer workspace;
  RandomData random;
  BoxedJson manifestJson;
  int64_t numExperts = 0, topK = 0;
  int64_t localExperts = 0, localBegin = 0; ///< with the shared ones
  int64_t sharedExperts = 0; ///< of every token, ids behind the others
  uint64_t weightBytes = 0;  ///< stored, of one layer
  double flopsPerPair = 0;
};

} // namespace moec::bench

#endif // MOEC_BENCH_PROGRAM_WORKLOAD_H
