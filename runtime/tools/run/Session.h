//===- Session.h - a loaded package with weights, ready to run --*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One package on one machine: loaded, weights uploaded and packed once, then
// run with inputs and outputs of any token count.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_TOOLS_RUN_SESSION_H
#define MOEC_RUNTIME_TOOLS_RUN_SESSION_H

#include "runtime/Context.h"
#include "runtime/tools/run/Data.h"

namespace moec::run {

/// Inputs in device memory, as tensors of a run, which gives them shapes.
struct DeviceInputs {
  std::vector<Memory> memory;
  std::vector<runtime::Tensor> tensors;
};

/// What a run writes: out, and ids, weights, counts where the package has them.
struct DeviceOutputs {
  std::map<std::string, Guarded> buffers;
  std::vector<runtime::Tensor> tensors() const;
  Result<void> refill();
  /// Damaged canaries by name, or "".
  Result<std::string> damage() const;
};

class Session {
public:
  static Result<std::unique_ptr<Session>>
  open(Machine &machine, const Options &options, const std::string &folder);

  const runtime::Package &package() const { return *code; }
  const reference::Layer &layer() const { return described; }
  double packMilliseconds() const { return packTime; }

  /// Uploads and packs; the weights stay with this session.
  Result<void> setWeights(const HostWeights &weights);

  /// Of weights that are stored as floats: whether each byte that packing made
  /// is the reference's. What is returned says how many are not, "" if all are.
  Result<std::string> checkQuantized(const HostWeights &weights);

  Result<DeviceInputs> upload(const HostInputs &inputs);
  Result<DeviceOutputs> makeOutputs(int64_t tokens);
  Result<Guarded> makeWorkspace(int64_t tokens);
  Result<std::unique_ptr<runtime::Context>> makeContext(const Guarded &memory);

  Result<void> run(runtime::Context &context, int stream,
                   const DeviceInputs &inputs, const DeviceOutputs &outputs,
                   int64_t tokens, const std::string &variant,
                   bool overlap = false);

  /// Stored weights, uploaded once more.
  struct Stored {
    std::vector<Memory> memory;
    std::vector<runtime::Tensor> tensors;
    Memory scratch;
  };
  /// Makes all that packing writes unusable, and what repack() takes.
  Result<Stored> destroyPacked(const HostWeights &weights);
  /// Queues packing; `stored` must live until it has ended.
  Result<void> repack(const Stored &stored, int stream);
  /// All that is this local expert's becomes that of `weights`, at the
  /// addresses where it is; waits.
  Result<void> replaceExpert(const HostWeights &weights, int64_t expert);

  /// Whether this variant rounds the second matmul's results to the output
  /// type before they are summed.
  bool roundsPartials(const Variant &variant) const;
  /// How far sums of this variant's first matmul may be off where its engine
  /// keeps fewer bits than f32 (see test/reference/Rounding.h); 0 elsewhere,
  /// on the host device too.
  double errorOfSums(const Variant &variant) const;

private:
  Session(Machine &machine, bool poison) : machine(machine), poison(poison) {}
  Result<Memory> packScratch();
  /// What the value has in a run of so many tokens.
  Result<void> setShape(runtime::Tensor &tensor, int64_t tokens) const;
  Result<void> addTensor(std::vector<runtime::Tensor> &tensors,
                         std::string_view name, void *data,
                         int64_t tokens) const;

  Machine &machine;
  bool poison;
  std::shared_ptr<const runtime::Package> code;
  reference::Layer described;
  std::vector<Memory> weightMemory;
  std::map<std::string, void *> storedAt; ///< weights as given, by name
  std::unique_ptr<runtime::Layer> packed;
  double packTime = 0;
};

} // namespace moec::run

#endif // MOEC_RUNTIME_TOOLS_RUN_SESSION_H
