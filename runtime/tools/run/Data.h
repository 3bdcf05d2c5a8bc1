//===- Data.h - weights and inputs of a run ---------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Host copies, made by the counter-based generator of the reference (hence the
// same on every machine), which the reference reads; and guarded device memory
// for what a run writes.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_DATA_H
#define MOEC_RUNTIME_TOOLS_RUN_DATA_H

#include "runtime/tools/run/Machine.h"
#include "runtime/tools/run/Options.h"
#include "runtime/weights/LoadWeights.h"
#include "test/reference/Reference.h"

#include <map>
#include <memory>
#include <set>
#include <string>

namespace moec::run {

/// Uninitialized host memory: weights are gigabytes.
struct HostArray {
  explicit HostArray(int64_t bytes = 0)
      : bytes(bytes), data(new std::byte[static_cast<size_t>(bytes)]) {}
  int64_t bytes;
  std::unique_ptr<std::byte[]> data;
};

/// The stored weights of a layer by value name; made once for all runs.
struct HostWeights {
  std::map<std::string, HostArray> arrays; ///< as the reference reads them
  /// Those that the layer stores in another way, so.
  std::map<std::string, HostArray> stored;
  /// Those that follow from weights which are stored as floats: no value of a
  /// package.
  std::set<std::string> derived;
  /// What a device is given.
  const HostArray &given(const std::string &name) const {
    const auto found = stored.find(name);
    return found == stored.end() ? arrays.at(name) : found->second;
  }
  static HostWeights make(const reference::Layer &layer, uint64_t seed);
  /// Of `arrays`.
  static int64_t bytesOf(const reference::Layer &layer);
  /// Those that the package names, out of a checkpoint.
  static Result<HostWeights> load(const runtime::Package &package,
                                  weights::WeightLoader &loader);
  /// SHA-256 of each.
  std::map<std::string, std::string> digests() const;
  /// These, with all that is one local expert's made anew.
  HostWeights withExpert(const reference::Layer &layer, uint64_t seed,
                         int64_t expert) const;
  /// Points the weights of `inputs` here.
  void describe(const reference::Layer &layer, reference::Inputs &inputs) const;
};

/// Those that each local expert has its own of.
std::vector<std::string> weightsOfExperts(const reference::Layer &layer);

/// The tensors that a run reads.
struct HostInputs {
  HostArray x, xScale, xSecondScale, logits, ids, weights, tokenIds, sharedGate,
      residual;
  HostArray gateUpAddend, downAddend;
  int32_t validTokens = -1;
  reference::Inputs described;
};

/// Of a run of so many tokens, or slots of each expert.
Result<HostInputs> makeInputs(const reference::Layer &layer,
                              const Options &options, int64_t slots,
                              const std::string &pattern);

/// Memory that a run writes, with canaries before and behind.
class Guarded {
public:
  /// `poison`: every byte between the canaries becomes 0xFF; else they are as
  /// the machine gave them.
  static Result<Guarded> create(Machine &machine, int64_t bytes, uint64_t seed,
                                bool poison);
  void *address() const;
  int64_t bytes() const { return size; }
  /// Every byte becomes `byte`.
  Result<void> refill(int byte = 0xFF);
  /// A sentence about a damaged canary, or "".
  Result<std::string> damage() const;
  Result<HostArray> download() const;

private:
  Machine *machine = nullptr;
  Memory memory;
  int64_t size = 0;
  uint64_t seed = 0;
};

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_DATA_H
