//===- LayerPromises.cpp - what options of a layer promise ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/FurtherRuns.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>

using namespace moec;
using namespace moec::check;
using namespace moec::run;

/// Runs with the memory of input `name` as the output's.
static Result<void> runInPlace(const FinishedCase &finished,
                               std::string_view name, CaseResult &result) {
  LoadedLayer &layer = finished.setup.layer;
  const int64_t tokens = finished.tokens;
  auto given = std::find_if(
      finished.device.tensors.begin(), finished.device.tensors.end(),
      [&](const runtime::Tensor &tensor) { return tensor.name == name; });
  if (given == finished.device.tensors.end())
    return {};
  auto buffers = RunBuffers::create(layer, tokens);
  if (!buffers)
    return buffers.takeError();
  const GuardedBuffer &out = buffers->outputs.buffers.at("out");
  HostArray content(out.bytes());
  if (auto ok = layer.device().download(content.data.get(), given->data,
                                        content.bytes);
      !ok)
    return ok;
  if (auto ok =
          layer.device().upload(out.data(), content.data.get(), content.bytes);
      !ok)
    return ok;
  DeviceInputs inPlace;
  inPlace.tensors = finished.device.tensors;
  inPlace.tensors[size_t(given - finished.device.tensors.begin())].data =
      out.data();
  auto outputs =
      runIn(layer, *buffers, inPlace, tokens, finished.setup.options.variant);
  if (!outputs)
    return outputs.takeError();
  if (std::string text = differing(finished.outputs, *outputs); !text.empty())
    result.fail(fmt::format("with {} in the output's memory: {}", name, text));
  return {};
}

Result<void> moec::check::checkInPlace(const FinishedCase &finished,
                                       CaseResult &result) {
  const reference::Layer &layer = finished.setup.layer.layer();
  const bool hasOut =
      layer.part.empty() || layer.part == "finalize" || layer.part == "down";
  if (layer.deferFinalize || !hasOut)
    return {};
  if (auto ok = runInPlace(finished, "residual", result); !ok)
    return ok;
  // On the host stages follow each other, so that few tokens show all.
  constexpr int64_t kMostOnHost = 16;
  const bool sameRows = !layer.batched && !layer.inputQuantized &&
                        layer.inputType == layer.outputType &&
                        finished.setup.options.inputs.rowStride == 0;
  if (!sameRows ||
      (finished.setup.layer.device().onHost() && finished.tokens > kMostOnHost))
    return {};
  return runInPlace(finished, "x", result);
}

/// Batched rows: with fewer slots taken, the others' rows stay as they are.
static Result<void> checkFewerSlots(const FinishedCase &finished,
                                    CaseResult &result) {
  LoadedLayer &loaded = finished.setup.layer;
  const reference::Layer &layer = loaded.layer();
  const tools::Device &device = loaded.device();
  const HostOutputs &whole = finished.outputs;
  const int64_t tokens = finished.tokens;
  const int64_t fewer = tokens / 2;
  const std::vector<int32_t> counts(size_t(layer.localExperts), int32_t(fewer));
  HostArray before(layer.localExperts * int64_t(sizeof(int32_t)));
  auto memory = device.allocate(before.bytes);
  if (!memory)
    return memory.takeError();
  if (auto ok = device.upload(memory->data(), counts.data(), before.bytes); !ok)
    return ok;
  DeviceInputs part;
  for (runtime::Tensor tensor : finished.device.tensors) {
    if (tensor.name == "expert_num_tokens") {
      if (auto ok =
              device.download(before.data.get(), tensor.data, before.bytes);
          !ok)
        return ok;
      tensor.data = memory->data();
    }
    part.tensors.push_back(tensor);
  }
  auto outputs = runOnce(loaded, part, tokens, finished.setup.options.variant);
  if (!outputs)
    return outputs.takeError();
  const HostArray &out = outputs->at("out");
  const int64_t rowBytes = out.bytes / layer.rowsOf(tokens);
  const auto *given = reinterpret_cast<const int32_t *>(before.data.get());
  for (int64_t e = 0; e < layer.localExperts; ++e) {
    const int64_t both = std::clamp<int64_t>(given[e], 0, fewer);
    const int64_t at = e * tokens * rowBytes;
    if (std::memcmp(out.data.get() + at, whole.at("out").data.get() + at,
                    static_cast<size_t>(both * rowBytes)) != 0)
      result.fail(
          fmt::format("the first {} rows of expert {} differ where each "
                      "expert has {} rows, but the layer is "
                      "batch-invariant",
                      both, e, fewer));
  }
  return {};
}

/// Whether a row of an output belongs to one token.
static bool isOutputOfTokens(const reference::Layer &layer,
                             std::string_view name) {
  if (name == "x_scale")
    return !layer.a1Scaling.ofTensor();
  return name == "out" || name == "ids" || name == "weights" ||
         name == "places" || name == "x_q";
}

/// The same of an input.
static bool isOfTokens(const reference::Layer &layer, std::string_view name) {
  if (name == "x_scale")
    return !layer.a1Scaling.ofTensor();
  if (name == "x_second_scale")
    return layer.a1Scaling.secondPerRow;
  return name != "valid_tokens" && name != "logical_to_physical" &&
         name != "replica_count" && name != "expert_map";
}

Result<void> moec::check::checkInvariance(const FinishedCase &finished,
                                          CaseResult &result) {
  LoadedLayer &loaded = finished.setup.layer;
  const reference::Layer &layer = loaded.layer();
  const HostOutputs &whole = finished.outputs;
  const int64_t tokens = finished.tokens;
  if (!layer.batchInvariant)
    return {};
  if (layer.batched)
    return checkFewerSlots(finished, result);
  // Parts begin at rows that lie aligned in every tensor.
  constexpr int64_t kAligned = 16;
  std::set<std::pair<int64_t, int64_t>> parts;
  for (int64_t count : {int64_t(1), tokens / 2, tokens - 1})
    if (count > 0 && count < tokens)
      parts.insert({0, count});
  // Valid tokens, and the pairs that take replicas in turn, count from the
  // first.
  const bool counts =
      finished.setup.options.inputs.validTokens >= 0 || layer.eplb;
  if (int64_t begin = (tokens - 1) / kAligned * kAligned; begin > 0 && !counts)
    parts.insert({begin, tokens - begin});
  for (auto [begin, count] : parts) {
    DeviceInputs part;
    for (runtime::Tensor tensor : finished.device.tensors) {
      for (const tools::Buffer &memory : finished.device.memory)
        if (begin > 0 && memory.data() == tensor.data &&
            isOfTokens(layer, tensor.name))
          tensor.data = static_cast<std::byte *>(tensor.data) +
                        memory.bytes() / tokens * begin;
      part.tensors.push_back(tensor);
    }
    auto outputs = runOnce(loaded, part, count, finished.setup.options.variant);
    if (!outputs)
      return outputs.takeError();
    finishDeferred(layer, count, *outputs);
    for (const auto &[name, array] : *outputs) {
      if (!isOutputOfTokens(layer, name))
        continue;
      const int64_t rowBytes = array.bytes / count;
      if (std::memcmp(array.data.get(),
                      whole.at(name).data.get() + begin * rowBytes,
                      static_cast<size_t>(array.bytes)) != 0)
        result.fail(
            fmt::format("{} of tokens {} to {} alone differs from that "
                        "among {} tokens, but the layer is batch-invariant",
                        name, begin, begin + count - 1, tokens));
    }
  }
  return {};
}
