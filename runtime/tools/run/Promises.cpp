//===- Promises.cpp - what options of a layer promise ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Promises.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

using namespace moec;
using namespace moec::run;

void moec::run::finishDeferred(const reference::Layer &layer, int64_t tokens,
                               HostOutputs &outputs) {
  if (!layer.deferFinalize || tokens == 0)
    return;
  const int64_t hidden = layer.hidden, topK = layer.pairsOfToken();
  const void *partials = outputs.at("partials").data.get();
  auto *positions =
      reinterpret_cast<const int32_t *>(outputs.at("positions").data.get());
  auto *weights =
      reinterpret_cast<const float *>(outputs.at("weights").data.get());
  const reference::Element &element = *layer.outputType;
  HostArray out(tokens * hidden * element.bytes);
  std::vector<float> sums(hidden);
  for (int64_t token = 0; token < tokens; ++token) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t k = 0; k < topK; ++k) {
      const int64_t pair = token * topK + k;
      // The factor of the output is the routed experts' alone.
      const double factor = k < layer.topK ? layer.outputScale : 1;
      for (int64_t c = 0; positions[pair] >= 0 && c < hidden; ++c)
        sums[c] += float(factor * weights[pair]) *
                   float(load(element, partials, positions[pair] * hidden + c));
    }
    for (int64_t c = 0; c < hidden; ++c)
      store(element, out.data.get(), token * hidden + c, sums[c]);
  }
  outputs.insert_or_assign("out", std::move(out));
}

/// Runs with the memory of input `name` as the output's.
static Result<void> runInPlace(Bench &bench, const DeviceInputs &inputs,
                               std::string_view name, const HostOutputs &first,
                               int64_t tokens, CaseResult &result) {
  auto given = std::find_if(
      inputs.tensors.begin(), inputs.tensors.end(),
      [&](const runtime::Tensor &tensor) { return tensor.name == name; });
  if (given == inputs.tensors.end())
    return {};
  auto place = Place::create(bench.session, tokens);
  if (!place)
    return place.takeError();
  const Guarded &out = place->outputs.buffers.at("out");
  HostArray content(out.bytes());
  if (auto ok = bench.machine.download(content.data.get(), given->data,
                                       content.bytes);
      !ok)
    return ok;
  if (auto ok = bench.machine.upload(out.address(), content.data.get(),
                                     content.bytes);
      !ok)
    return ok;
  DeviceInputs inPlace;
  inPlace.tensors = inputs.tensors;
  inPlace.tensors[size_t(given - inputs.tensors.begin())].data = out.address();
  auto outputs = runIn(bench, *place, inPlace, tokens);
  if (!outputs)
    return outputs.takeError();
  if (std::string text = differing(first, *outputs); !text.empty())
    failWith(result,
             fmt::format("with {} in the output's memory: {}", name, text));
  return {};
}

Result<void> moec::run::checkInPlace(Bench &bench, const DeviceInputs &inputs,
                                     const HostOutputs &first, int64_t tokens,
                                     CaseResult &result) {
  const reference::Layer &layer = bench.session.layer();
  if (layer.deferFinalize)
    return {};
  if (auto ok = runInPlace(bench, inputs, "residual", first, tokens, result);
      !ok)
    return ok;
  // On the host stages follow each other, so that few tokens show all.
  constexpr int64_t kMostOnHost = 16;
  const bool sameRows = !layer.batched && !layer.inputQuantized &&
                        layer.inputType == layer.outputType &&
                        bench.options.rowStride == 0;
  if (!sameRows || (bench.machine.onHost() && tokens > kMostOnHost))
    return {};
  return runInPlace(bench, inputs, "x", first, tokens, result);
}

/// Of batched rows: with fewer slots taken, the others' rows stay as they are.
static Result<void> checkFewerSlots(Bench &bench, const DeviceInputs &inputs,
                                    const HostOutputs &whole, int64_t tokens,
                                    CaseResult &result) {
  Session &session = bench.session;
  const reference::Layer &layer = session.layer();
  const int64_t fewer = tokens / 2;
  const std::vector<int32_t> counts(size_t(layer.localExperts), int32_t(fewer));
  HostArray before(layer.localExperts * int64_t(sizeof(int32_t)));
  auto memory = bench.machine.allocate(before.bytes);
  if (!memory)
    return memory.takeError();
  if (auto ok =
          bench.machine.upload(memory->address(), counts.data(), before.bytes);
      !ok)
    return ok;
  DeviceInputs part;
  for (runtime::Tensor tensor : inputs.tensors) {
    if (tensor.name == "expert_num_tokens") {
      if (auto ok = bench.machine.download(before.data.get(), tensor.data,
                                           before.bytes);
          !ok)
        return ok;
      tensor.data = memory->address();
    }
    part.tensors.push_back(tensor);
  }
  auto outputs = runOnce(bench, part, tokens);
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
      failWith(result,
               fmt::format("the first {} rows of expert {} differ where each "
                           "expert has {} rows, but the layer is "
                           "batch-invariant",
                           both, e, fewer));
  }
  return {};
}

/// Whether a row of an output belongs to one token.
static bool isOfTokens(std::string_view name) {
  return name == "out" || name == "ids" || name == "weights";
}

/// The same of an input.
static bool isOfTokens(const reference::Layer &layer, std::string_view name) {
  if (name == "x_scale")
    return !layer.a1Scaling.ofTensor();
  if (name == "x_second_scale")
    return layer.a1Scaling.secondPerToken;
  return name != "valid_tokens" && name != "logical_to_physical" &&
         name != "replica_count" && name != "expert_map";
}

Result<void> moec::run::checkInvariance(Bench &bench,
                                        const DeviceInputs &inputs,
                                        const HostOutputs &whole,
                                        int64_t tokens, CaseResult &result) {
  Session &session = bench.session;
  if (!session.layer().batchInvariant)
    return {};
  if (session.layer().batched)
    return checkFewerSlots(bench, inputs, whole, tokens, result);
  // Where parts begin: every tensor's row there lies aligned.
  constexpr int64_t kAligned = 16;
  std::set<std::pair<int64_t, int64_t>> parts;
  for (int64_t count : {int64_t(1), tokens / 2, tokens - 1})
    if (count > 0 && count < tokens)
      parts.insert({0, count});
  // Valid tokens, and the pairs that take replicas in turn, count from the
  // first.
  const bool counts = bench.options.validTokens >= 0 || session.layer().eplb;
  if (int64_t begin = (tokens - 1) / kAligned * kAligned; begin > 0 && !counts)
    parts.insert({begin, tokens - begin});
  for (auto [begin, count] : parts) {
    DeviceInputs part;
    for (runtime::Tensor tensor : inputs.tensors) {
      for (const Memory &memory : inputs.memory)
        if (begin > 0 && memory.address() == tensor.data &&
            isOfTokens(session.layer(), tensor.name))
          tensor.data = static_cast<std::byte *>(tensor.data) +
                        memory.bytes() / tokens * begin;
      part.tensors.push_back(tensor);
    }
    auto outputs = runOnce(bench, part, count);
    if (!outputs)
      return outputs.takeError();
    finishDeferred(session.layer(), count, *outputs);
    for (const auto &[name, array] : *outputs) {
      if (!isOfTokens(name))
        continue;
      const int64_t rowBytes = array.bytes / count;
      if (std::memcmp(array.data.get(),
                      whole.at(name).data.get() + begin * rowBytes,
                      static_cast<size_t>(array.bytes)) != 0)
        failWith(
            result,
            fmt::format("{} of tokens {} to {} alone differs from that "
                        "among {} tokens, but the layer is batch-invariant",
                        name, begin, begin + count - 1, tokens));
    }
  }
  return {};
}
