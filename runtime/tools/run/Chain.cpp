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

#include "runtime/tools/run/Chain.h"

#include <fmt/format.h>

using namespace moec;
using namespace moec::run;

/// The chain takes a stream of its own; the SMs are held from the other.
static constexpr int kStream = 1;
/// Longer than the chain of a layer of some gigabytes.
static constexpr int kHeldMilliseconds = 20;

Result<void> moec::run::runChain(Bench &bench, const DeviceInputs &inputs,
                                 const HostOutputs &first, int64_t tokens,
                                 CaseResult &result) {
  Session &session = bench.session;
  const std::string &variant = bench.options.variant;
  // What runs, with which variant, into which outputs. One workspace serves
  // all, as in an engine.
  struct Link {
    int64_t tokens;
    std::string variant;
    DeviceOutputs outputs;
  };
  std::vector<Link> links;
  for (int64_t count : {tokens, int64_t(0), int64_t(1), tokens}) {
    auto outputs = session.makeOutputs(count);
    if (!outputs)
      return outputs.takeError();
    links.push_back(
        {count, count == tokens ? variant : "", std::move(*outputs)});
  }
  auto workspace = session.makeWorkspace(tokens);
  if (!workspace)
    return workspace.takeError();
  auto context = session.makeContext(*workspace);
  if (!context)
    return context.takeError();
  auto stored = session.destroyPacked(bench.weights);
  if (!stored)
    return stored.takeError();

  if (auto ok = bench.machine.occupyHalf(0, kHeldMilliseconds); !ok)
    return ok;
  if (auto ok = session.repack(*stored, kStream); !ok)
    return ok;
  for (Link &link : links)
    if (auto ok = session.run(**context, kStream, inputs, link.outputs,
                              link.tokens, link.variant,
                              /*overlap=*/&link != &links.front());
        !ok)
      return ok;
  if (auto ok = bench.machine.synchronizeAll(); !ok)
    return ok;

  for (Link &link : links) {
    auto damage = link.outputs.damage();
    if (!damage)
      return damage.takeError();
    if (!damage->empty())
      failWith(result, "in the chain: " + *damage);
    if (link.tokens != tokens)
      continue;
    auto outputs = download(link.outputs);
    if (!outputs)
      return outputs.takeError();
    if (std::string text = differing(first, *outputs); !text.empty())
      failWith(result,
               fmt::format("{} of the chain is not identical: {}",
                           &link == &links.front() ? "the run behind packing"
                                                   : "the last run",
                           text));
  }
  auto damage = workspace->damage();
  if (!damage)
    return damage.takeError();
  if (!damage->empty())
    failWith(result, "in the chain: workspace: " + *damage);
  if (result.passed)
    result.text += "; chain: identical";
  return {};
}
