//===- Chain.cpp - runs behind each other without a wait ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything is allocated and uploaded first, so that the host does not fall
// behind the stream.
//
//===----------------------------------------------------------------------===//

#include "test/check/FurtherRuns.h"

#include "test/check/PackedWeights.h"

#include <fmt/core.h>

using namespace moec;
using namespace moec::check;
using namespace moec::run;

/// The chain takes a stream of its own; the SMs are held from the other.
static constexpr int kStream = 1;
/// Longer than the chain of a layer of some gigabytes.
static constexpr int kHeldMilliseconds = 20;

Result<void> moec::check::runChain(const FinishedCase &finished,
                                   OccupySms &occupy, CaseResult &result) {
  LoadedLayer &layer = finished.setup.layer;
  const int64_t tokens = finished.tokens;
  const std::string &variant = finished.setup.options.variant;
  // One run: its variant and its outputs. One workspace serves
  // all, as in an engine.
  struct Link {
    int64_t tokens;
    std::string variant;
    DeviceOutputs outputs;
  };
  std::vector<Link> links;
  for (int64_t count : {tokens, int64_t(0), int64_t(1), tokens}) {
    auto outputs = layer.makeOutputs(count);
    if (!outputs)
      return outputs.takeError();
    links.push_back(
        {count, count == tokens ? variant : "", std::move(*outputs)});
  }
  auto workspace = layer.makeWorkspace(tokens);
  if (!workspace)
    return workspace.takeError();
  auto context = layer.makeContext(*workspace);
  if (!context)
    return context.takeError();
  auto stored = destroyPacked(layer, finished.setup.weights);
  if (!stored)
    return stored.takeError();

  if (auto ok = occupy.queue(0, kHeldMilliseconds); !ok)
    return ok;
  if (auto ok = repack(layer, *stored, kStream); !ok)
    return ok;
  for (Link &link : links)
    if (auto ok = layer.run(**context, kStream, finished.device, link.outputs,
                            link.tokens, link.variant,
                            /*overlap=*/&link != &links.front());
        !ok)
      return ok;
  if (auto ok = layer.device().synchronizeAll(); !ok)
    return ok;

  for (Link &link : links) {
    auto damage = link.outputs.damage();
    if (!damage)
      return damage.takeError();
    if (!damage->empty())
      result.fail("in the chain: " + *damage);
    if (link.tokens != tokens)
      continue;
    auto outputs = download(link.outputs);
    if (!outputs)
      return outputs.takeError();
    if (std::string text = differing(finished.outputs, *outputs); !text.empty())
      result.fail(fmt::format("{} of the chain is not identical: {}",
                              &link == &links.front() ? "the run behind packing"
                                                      : "the last run",
                              text));
  }
  auto damage = workspace->damage();
  if (!damage)
    return damage.takeError();
  if (!damage->empty())
    result.fail("in the chain: workspace: " + *damage);
  if (result.passed)
    result.text += "; chain: identical";
  return {};
}
