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

#ifndef MOEC_BENCH_WORKLOAD_H
#define MOEC_BENCH_WORKLOAD_H

#include "bench/Device.h"
#include "moec/moec.h"

#include <nlohmann/json.hpp>

#include <memory>

namespace moec::bench {

struct WorkloadOptions {
  uint64_t seed = 1;
  /// Weights that a graph touches at least, so that none is in the L2 cache.
  uint64_t touchedBytes = 400'000'000;
  int repeats = 0;     ///< layers in a graph; 0: from touchedBytes
  std::string variant; ///< forces one; "" by token count
};

/// What one token count gave.
struct Measurement {
  int64_t tokens = 0;
  double microseconds = 0; ///< of one layer
  int repeats = 0;         ///< layers in the graph
  double bytes = 0;        ///< of touched experts, x, out, logits; of one layer
  double flops = 0;        ///< of one layer
  double touchedExperts = 0; ///< mean over the layers
  std::string variant;
};

class Workload {
public:
  static Result<std::unique_ptr<Workload>> load(const Device &device,
                                                const std::string &folder,
                                                const WorkloadOptions &options);
  ~Workload();

  Result<Measurement> measure(int64_t tokens);

  const nlohmann::json &manifest() const { return manifestJson; }
  std::string name() const;
  std::string arch() const;
  int64_t maxTokens() const;

private:
  struct Run; ///< inputs and outputs of one layer of a graph

  Workload(const Device &device, WorkloadOptions options)
      : device(device), options(std::move(options)) {}
  Result<void> makeRandomBlock();
  Result<void> fill(const Buffer &buffer, uint64_t offset);
  Result<void> makeLayers();
  Result<Run> makeRun(int64_t tokens, int index);
  Result<void> queue(const Run &run, int64_t tokens);
  Result<int64_t> countTouched(Run &run, int64_t tokens);
  Result<uint64_t> bytesOf(const char *name, int64_t tokens) const;

  const Device &device;
  WorkloadOptions options;
  moec_package *package = nullptr;
  moec_context *context = nullptr;
  std::vector<moec_layer *> layers;
  std::vector<Buffer> weights;
  Buffer workspace, randomBlock;
  nlohmann::json manifestJson;
  int64_t localExperts = 0, localBegin = 0, topK = 0;
  uint64_t weightBytes = 0; ///< stored, of one layer
  double flopsPerPair = 0;
};

} // namespace moec::bench

#endif // MOEC_BENCH_WORKLOAD_H
