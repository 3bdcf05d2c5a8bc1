//===- LoadedLayer.h - a loaded package with its weights --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One package, loaded on one device, whose weights are uploaded and packed
// once. It runs with any number of tokens.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TOOLS_MOECRUN_LOADEDLAYER_H
#define MOEC_TOOLS_MOECRUN_LOADEDLAYER_H

#include "runtime/api/Context.h"
#include "tools/moec-run/GuardedBuffer.h"
#include "tools/moec-run/HostInputs.h"
#include "tools/moec-run/HostWeights.h"
#include "tools/moec-run/Options.h"

namespace moec::run {

/// Inputs in device memory, as tensors for a run. The run sets their shapes.
struct DeviceInputs {
  std::vector<tools::Buffer> memory;
  std::vector<runtime::Tensor> tensors;
};

/// The output buffers of a run: out, and ids, weights and counts if the package
/// has them.
struct DeviceOutputs {
  std::map<std::string, GuardedBuffer> buffers;
  std::vector<runtime::Tensor> tensors() const;
  /// Describes the first output with damaged canaries, or returns "".
  Result<std::string> damage() const;
};

/// A loaded package with its packed weights.
class LoadedLayer {
public:
  static Result<std::unique_ptr<LoadedLayer>> open(const tools::Device &device,
                                                   const Options &options,
                                                   const std::string &folder);

  const tools::Device &device() const { return owner; }
  const runtime::Package &package() const { return *code; }
  /// Returns the layer as the reference parses it from the manifest.
  const reference::Layer &layer() const { return described; }
  double packMilliseconds() const { return packTime; }

  /// Uploads and packs the weights, which this object then owns.
  Result<void> setWeights(const HostWeights &weights);
  /// Uses the packed weights of `other`, which must outlive this object. The
  /// package of `other` must be of the same layer and have the same packed
  /// layout.
  Result<void> shareWeights(const LoadedLayer &other);
  runtime::Layer &packed() { return *packedLayer; }
  /// Returns the device memory that a stored weight was uploaded to.
  void *storedWeight(const std::string &name) const {
    return storedAt.at(name);
  }

  /// Uploads the inputs of a run of `tokens` tokens. Checks that each input is
  /// at least as large as the package's value.
  Result<DeviceInputs> upload(const HostInputs &inputs, int64_t tokens);
  Result<DeviceOutputs> makeOutputs(int64_t tokens);
  Result<GuardedBuffer> makeWorkspace(int64_t tokens);
  Result<std::unique_ptr<runtime::Context>>
  makeContext(const GuardedBuffer &memory);

  Result<void> run(runtime::Context &context, int stream,
                   const DeviceInputs &inputs, const DeviceOutputs &outputs,
                   int64_t tokens, const std::string &variant,
                   bool overlap = false);

  /// Appends a tensor for value `name`, with its shape for a run of `tokens`
  /// tokens.
  Result<void> addTensor(std::vector<runtime::Tensor> &tensors,
                         std::string_view name, void *data,
                         int64_t tokens) const;

private:
  LoadedLayer(const tools::Device &device, bool poison)
      : owner(device), poison(poison) {}
  Result<void> checkInput(const runtime::Tensor &tensor, int64_t bytes,
                          int64_t tokens) const;
  Result<void> setShape(runtime::Tensor &tensor, int64_t tokens) const;

  const tools::Device &owner;
  bool poison;
  std::shared_ptr<const runtime::Package> code;
  reference::Layer described;
  std::vector<tools::Buffer> weightMemory;
  std::vector<runtime::Tensor> weightTensors;
  std::map<std::string, void *> storedAt; ///< uploaded stored weights, by name
  std::unique_ptr<runtime::Layer> packedLayer;
  double packTime = 0;
};

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_LOADEDLAYER_H
