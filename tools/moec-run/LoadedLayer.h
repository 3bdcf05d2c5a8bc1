//===- LoadedLayer.h - a loaded package with its weights --------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One package on one device: loaded, its weights uploaded and packed once. It
// runs inputs and outputs of any token count.
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

/// Inputs in device memory, as tensors of a run, which gives them shapes.
struct DeviceInputs {
  std::vector<tools::Buffer> memory;
  std::vector<runtime::Tensor> tensors;
};

/// A run writes out, and ids, weights, counts where the package has them.
struct DeviceOutputs {
  std::map<std::string, GuardedBuffer> buffers;
  std::vector<runtime::Tensor> tensors() const;
  /// Damaged canaries by name, or "".
  Result<std::string> damage() const;
};

class LoadedLayer {
public:
  static Result<std::unique_ptr<LoadedLayer>> open(const tools::Device &device,
                                                   const Options &options,
                                                   const std::string &folder);

  const tools::Device &device() const { return owner; }
  const runtime::Package &package() const { return *code; }
  /// The layer, as the reference reads it out of the manifest.
  const reference::Layer &layer() const { return described; }
  double packMilliseconds() const { return packTime; }

  /// Uploads and packs; the weights stay with this object.
  Result<void> setWeights(const HostWeights &weights);
  /// Takes the packed weights of another package of the same layer, which must
  /// outlive this one and pack in the same way.
  Result<void> shareWeights(const LoadedLayer &other);
  runtime::Layer &packed() { return *packedLayer; }
  /// The device's copy of a weight as it was given.
  void *storedWeight(const std::string &name) const {
    return storedAt.at(name);
  }

  /// Checks that the inputs of a run of so many tokens are as large as the
  /// package reads them.
  Result<DeviceInputs> upload(const HostInputs &inputs, int64_t tokens);
  Result<DeviceOutputs> makeOutputs(int64_t tokens);
  Result<GuardedBuffer> makeWorkspace(int64_t tokens);
  Result<std::unique_ptr<runtime::Context>>
  makeContext(const GuardedBuffer &memory);

  Result<void> run(runtime::Context &context, int stream,
                   const DeviceInputs &inputs, const DeviceOutputs &outputs,
                   int64_t tokens, const std::string &variant,
                   bool overlap = false);

  /// Adds value `name` with the shape that it has in a run of so many tokens.
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
  std::map<std::string, void *> storedAt; ///< weights as given, by name
  std::unique_ptr<runtime::Layer> packedLayer;
  double packTime = 0;
};

} // namespace moec::run

#endif // MOEC_TOOLS_MOECRUN_LOADEDLAYER_H
