//===- RunBuffers.cpp - buffers that one run writes -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/RunBuffers.h"

#include <fmt/core.h>

#include <algorithm>

using namespace moec;
using namespace moec::run;

Result<RunBuffers> RunBuffers::create(LoadedLayer &layer, int64_t tokens) {
  RunBuffers buffers;
  buffers.outputs = TRY(layer.makeOutputs(tokens));
  buffers.workspace = TRY(layer.makeWorkspace(tokens));
  buffers.context = TRY(layer.makeContext(buffers.workspace));
  return buffers;
}

Result<HostOutputs> moec::run::download(const DeviceOutputs &outputs) {
  HostOutputs result;
  for (const auto &[name, buffer] : outputs.buffers) {
    auto array = TRY(buffer.download());
    result.emplace(name, std::move(array));
  }
  return result;
}

Result<HostOutputs> moec::run::runIn(LoadedLayer &layer,
                                     const RunBuffers &buffers,
                                     const DeviceInputs &inputs, int64_t tokens,
                                     const std::string &variant) {
  TRY(layer.run(*buffers.context, 0, inputs, buffers.outputs, tokens, variant));
  TRY(layer.device().synchronizeAll());
  return download(buffers.outputs);
}

Result<HostOutputs> moec::run::runOnce(LoadedLayer &layer,
                                       const DeviceInputs &inputs,
                                       int64_t tokens,
                                       const std::string &variant) {
  auto buffers = TRY(RunBuffers::create(layer, tokens));
  return runIn(layer, buffers, inputs, tokens, variant);
}

std::string moec::run::differing(const HostOutputs &first,
                                 const HostOutputs &second) {
  for (const auto &[name, array] : second) {
    const HostArray &before = first.at(name);
    auto begin = array.data.get();
    auto differs = std::mismatch(begin, begin + array.bytes, before.data.get());
    if (differs.first != begin + array.bytes)
      return fmt::format("output {} differs from byte {} of {}", name,
                         differs.first - begin, array.bytes);
  }
  return "";
}

void moec::run::finishDeferred(const reference::Layer &layer, int64_t tokens,
                               HostOutputs &outputs) {
  if (!layer.deferFinalize || tokens == 0)
    return;
  const int64_t hidden = layer.hidden, pairs = layer.pairsOfToken();
  const void *partials = outputs.at("partials").data.get();
  auto *positions =
      reinterpret_cast<const int32_t *>(outputs.at("positions").data.get());
  auto *weights =
      reinterpret_cast<const float *>(outputs.at("weights").data.get());
  const reference::Element &element = *layer.outputType;
  HostArray out(tokens * hidden * element.bytes);
  std::vector<float> sums(hidden);
  for (int64_t token = 0; token < tokens; ++token) {
    std::ranges::fill(sums, 0.0f);
    for (int64_t k = 0; k < pairs; ++k) {
      const int64_t pair = token * pairs + k;
      // The output factor applies only to routed experts.
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
