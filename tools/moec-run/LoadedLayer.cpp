//===- LoadedLayer.cpp - a loaded package with weights, ready to run ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses only Package, Layer and Context, like an inference engine.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/LoadedLayer.h"

#include "runtime/support/Clock.h"
#include "runtime/support/Interrupt.h"
#include "tools/moec-run/LayerSizes.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::run;
using namespace moec::runtime;
using tools::Buffer;
using tools::Device;

Result<std::unique_ptr<LoadedLayer>>
LoadedLayer::open(const Device &device, const Options &options,
                  const std::string &folder) {
  LoadOptions load;
  load.device = options.device;
  load.strict = options.strict;
  load.jobs = options.jobs;
  load.arch = options.arch;
  load.rank = options.rank;
  std::unique_ptr<LoadedLayer> loaded(new LoadedLayer(device, options.poison));
  {
    const SignalsInterrupt signals;
    loaded->code = TRY(Package::load(folder, load));
  }
  loaded->described =
      TRY(reference::parseLayer(*loaded->code->manifest().layer));
  TRY(checkSizes(loaded->described, loaded->code->manifest()));
  return loaded;
}

Result<void> LoadedLayer::setShape(Tensor &tensor, int64_t tokens) const {
  const Value *value = findValue(code->manifest(), code->target(), tensor.name);
  auto symbols = TRY(symbolsFor(code->manifest(), tokens, code->smCount()));
  if (!value || value->shape.size() > size_t(kMaxRank))
    return invalidManifest(
        "the package has no value {} of at most {} dimensions", tensor.name,
        kMaxRank);
  tensor.rank = static_cast<int32_t>(value->shape.size());
  for (size_t i = 0; i < value->shape.size(); ++i) {
    tensor.shape[i] = TRY(value->shape[i].evaluate(symbols));
  }
  return {};
}

Result<void> LoadedLayer::addTensor(std::vector<Tensor> &tensors,
                                    std::string_view name, void *data,
                                    int64_t tokens) const {
  Tensor tensor;
  tensor.name = name;
  tensor.data = data;
  TRY(setShape(tensor, tokens));
  tensors.push_back(tensor);
  return {};
}

Result<void> LoadedLayer::setWeights(const HostWeights &weights) {
  std::vector<Tensor> tensors;
  for (const auto &[name, rows] : weights.arrays) {
    if (weights.derived.contains(name))
      continue;
    const HostArray &array = weights.given(name);
    const Value *value = findValue(code->manifest(), code->target(), name);
    if (!value)
      return invalidManifest(
          "the layer has a weight {}, the package has no value of that name",
          name);
    auto symbols = TRY(symbolsFor(code->manifest(), 1, code->smCount()));
    auto bytes = TRY(valueBytes(*value, symbols));
    if (bytes != array.bytes)
      return invalidManifest(
          "{} has {} bytes by the manifest's values and {} by its layer", name,
          bytes, array.bytes);
    auto memory = TRY(owner.allocate(array.bytes));
    TRY(owner.upload(memory.data(), array.data.get(), array.bytes));
    TRY(addTensor(tensors, name, memory.data(), 1));
    storedAt[name] = memory.data();
    weightMemory.push_back(std::move(memory));
  }
  auto start = Clock::now();
  // Packed weights that cannot be packed in place need their own memory.
  for (const Pack &pack : code->target().pack) {
    if (pack.inPlace)
      continue;
    const Value *value =
        findValue(code->manifest(), code->target(), pack.result);
    auto symbols = symbolsFor(code->manifest(), 1, code->smCount());
    if (!value || !symbols)
      return invalidManifest("pack result {} is unknown", pack.result);
    auto bytes = TRY(valueBytes(*value, *symbols));
    auto memory = TRY(owner.allocate(bytes));
    TRY(addTensor(tensors, value->name, memory.data(), 1));
    weightMemory.push_back(std::move(memory));
  }
  packedLayer = TRY(Layer::create(code, tensors, {}, owner.stream(0)));
  TRY(owner.synchronize(0));
  weightTensors = std::move(tensors);
  packTime = millisecondsSince(start);
  return {};
}

Result<void> LoadedLayer::shareWeights(const LoadedLayer &other) {
  packedLayer = TRY(Layer::create(code, other.weightTensors,
                                  {.alreadyPacked = true}, owner.stream(0)));
  return {};
}

Result<void> LoadedLayer::checkInput(const Tensor &tensor, int64_t bytes,
                                     int64_t tokens) const {
  const Value *value = findValue(code->manifest(), code->target(), tensor.name);
  if (!value)
    return {}; // Context::run rejects the tensor
  auto symbols = TRY(symbolsFor(code->manifest(), tokens, code->smCount()));
  auto needed = TRY(valueBytes(*value, symbols, tensor.elementType,
                               tensor.hasStrides ? tensor.strides[0] : 0));
  if (bytes < needed)
    return invalidManifest(
        "{} has {} bytes by the manifest's values and {} by its layer",
        tensor.name, needed, bytes);
  return {};
}

Result<DeviceInputs> LoadedLayer::upload(const HostInputs &inputs,
                                         int64_t tokens) {
  DeviceInputs result;
  auto add = [&](const char *name, const void *data, int64_t bytes,
                 std::string_view type) -> Result<void> {
    // A part of a layer reads only some of its inputs.
    if (!described.part.empty() &&
        !findValue(code->manifest(), code->target(), name))
      return {};
    auto memory = TRY(owner.allocate(bytes));
    TRY(owner.upload(memory.data(), data, bytes));
    Tensor tensor;
    tensor.name = name;
    tensor.data = memory.data();
    tensor.elementType = type;
    if (tensor.name != "x") // the stride of x is not known yet
      TRY(checkInput(tensor, bytes, tokens));
    result.tensors.push_back(tensor);
    result.memory.push_back(std::move(memory));
    return {};
  };
  const reference::Inputs &given = inputs.described;
  TRY(add("x", inputs.x.data.get(), inputs.x.bytes, ""));
  if (!result.tensors.empty()) {
    Tensor &x = result.tensors.back();
    x.hasStrides = true;
    x.strides = {given.x.rowStride, 1};
    TRY(checkInput(x, inputs.x.bytes, tokens));
  }
  struct Row {
    const char *name;
    const HostArray &array;
    const reference::Matrix &matrix;
    bool choosesType = false; ///< the caller chooses the element type; else the
                              ///< value has only one
  };
  for (const Row &row :
       {Row{"logits", inputs.logits, given.logits, true},
        {"token_ids", inputs.tokenIds, given.tokenIds, true},
        {"given_ids", inputs.ids, given.givenIds, true},
        {"given_weights", inputs.weights, given.givenWeights, true},
        {"x_scale", inputs.xScale, given.xScale},
        {"x_second_scale", inputs.xSecondScale, given.xSecondScale},
        {"shared_gate", inputs.sharedGate, given.sharedGate, true},
        {"gate_up_addend", inputs.gateUpAddend, given.gateUpAddend},
        {"down_addend", inputs.downAddend, given.downAddend},
        {"residual", inputs.residual, given.residual},
        {"partials", inputs.partials, given.partials},
        {"intermediate", inputs.intermediate, given.intermediate}})
    if (row.matrix.data)
      TRY(add(row.name, row.array.data.get(), row.array.bytes,
              row.choosesType ? row.matrix.element->name : ""));
  for (const auto &[name, map] :
       {std::pair("logical_to_physical", &given.logicalToPhysical),
        {"replica_count", &given.replicaCount},
        {"expert_map", &given.expertMap},
        {"expert_num_tokens", &given.expertCounts}})
    if (!map->empty())
      TRY(add(name, map->data(), int64_t(map->size() * sizeof(int32_t)), ""));
  if (inputs.validTokens >= 0)
    TRY(add("valid_tokens", &inputs.validTokens, sizeof(int32_t), ""));
  return result;
}

Result<DeviceOutputs> LoadedLayer::makeOutputs(int64_t tokens) {
  DeviceOutputs result;
  auto symbols = TRY(symbolsFor(code->manifest(), tokens, code->smCount()));
  uint64_t seed = 1;
  for (const Value &value : code->manifest().values) {
    if (value.role != ValueRole::Output &&
        value.role != ValueRole::OptionalOutput)
      continue;
    auto bytes = TRY(valueBytes(value, symbols));
    auto buffer = TRY(GuardedBuffer::create(owner, bytes, ++seed, poison));
    result.buffers.emplace(value.name, std::move(buffer));
  }
  return result;
}

std::vector<Tensor> DeviceOutputs::tensors() const {
  std::vector<Tensor> result;
  for (const auto &[name, buffer] : buffers) {
    Tensor tensor;
    tensor.name = name;
    tensor.data = buffer.data();
    result.push_back(tensor);
  }
  return result;
}

Result<std::string> DeviceOutputs::damage() const {
  for (const auto &[name, buffer] : buffers) {
    auto text = TRY(buffer.damage());
    if (!text.empty())
      return fmt::format("output {}: {}", name, text);
  }
  return std::string();
}

Result<GuardedBuffer> LoadedLayer::makeWorkspace(int64_t tokens) {
  auto bytes = TRY(code->workspaceBytes(tokens));
  return GuardedBuffer::create(owner, bytes, /*seed=*/99, poison);
}

Result<std::unique_ptr<Context>>
LoadedLayer::makeContext(const GuardedBuffer &memory) {
  return Context::create(code, memory.data(),
                         static_cast<uint64_t>(memory.bytes()));
}

Result<void> LoadedLayer::run(Context &context, int stream,
                              const DeviceInputs &inputs,
                              const DeviceOutputs &outputs, int64_t tokens,
                              const std::string &variant, bool overlap) {
  std::vector<Tensor> tensors = inputs.tensors;
  for (const Tensor &tensor : outputs.tensors())
    tensors.push_back(tensor);
  for (Tensor &tensor : tensors)
    TRY(setShape(tensor, tokens));
  RunOptions options;
  options.variant = variant;
  options.overlapPrevious = overlap;
  return context.run(*packedLayer, owner.stream(stream), tensors, tokens,
                     options);
}
