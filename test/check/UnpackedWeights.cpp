//===- UnpackedWeights.cpp - weights that are unpacked --------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/PackedWeights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::check;
using namespace moec::run;
using namespace moec::runtime;

/// The processor unpacks on a GPU, too: large layers would take minutes.
static constexpr int64_t kMostBytes = int64_t(64) << 20;

namespace {
/// A stored weight that a pack reads, and memory for it.
struct Unpacked {
  std::string name;
  tools::Buffer memory;
};
} // namespace

/// The text of a difference from the weights as they were given, or "".
static Result<std::string> difference(const LoadedLayer &layer,
                                      const HostWeights &weights,
                                      const std::string &name,
                                      const void *memory) {
  const auto described =
      TRY(reference::parseLayer(*layer.package().manifest().layer));
  const HostArray expected = weights.unpacked(described, name);
  HostArray got(expected.bytes);
  if (auto ok = layer.device().download(got.data.get(), memory, got.bytes); !ok)
    return ok.takeError();
  if (std::memcmp(got.data.get(), expected.data.get(),
                  static_cast<size_t>(got.bytes)) == 0)
    return std::string();
  return fmt::format("FAILED: {} was not unpacked as it was given", name);
}

Result<std::string> moec::check::checkUnpacked(LoadedLayer &layer,
                                               const HostWeights &weights) {
  const Target &target = layer.package().target();
  std::vector<Unpacked> list;
  std::vector<Tensor> elsewhere, inPlace;
  int64_t bytes = 0;
  bool loses = false;
  for (const Pack &pack : target.pack) {
    const std::string &name = pack.from.front();
    if (std::ranges::find(list, name, &Unpacked::name) != list.end())
      continue;
    const bool isLost = std::ranges::any_of(target.pack, [&](const Pack &one) {
      return one.from.front() == name &&
             host::HostDevice::withoutOpposite(target, one);
    });
    loses |= isLost;
    if (isLost)
      continue;
    bytes += weights.given(name).bytes;
    auto memory = layer.device().allocate(weights.given(name).bytes);
    if (!memory)
      return memory.takeError();
    list.push_back({name, std::move(*memory)});
  }
  if (list.empty() || bytes > kMostBytes)
    return std::string();
  for (const Unpacked &one : list)
    if (auto ok = layer.addTensor(elsewhere, one.name, one.memory.data(), 1);
        !ok)
      return ok.takeError();
  void *stream = layer.device().stream(0);
  if (auto ok = layer.packed().unpack(elsewhere, {}, stream); !ok)
    return ok.takeError();
  for (const Unpacked &one : list) {
    auto text = difference(layer, weights, one.name, one.memory.data());
    if (!text || !text->empty())
      return text;
  }
  // A package that also quantizes cannot be unpacked in place.
  for (const Unpacked &one : list)
    for (const Pack &pack : target.pack)
      if (pack.from.front() == one.name && pack.inPlace && !loses)
        if (auto ok = layer.addTensor(inPlace, one.name,
                                      layer.storedWeight(one.name), 1);
            !ok)
          return ok.takeError();
  if (inPlace.empty())
    return std::string();
  if (auto ok = layer.packed().unpack(inPlace, {}, stream); !ok)
    return ok.takeError();
  for (const Tensor &tensor : inPlace) {
    auto text =
        difference(layer, weights, std::string(tensor.name), tensor.data);
    if (!text || !text->empty())
      return text;
  }
  int64_t experts = 0;
  for (const Pack &pack : target.pack)
    experts = std::max(experts, pack.totalExperts);
  if (auto ok = layer.packed().repack({}, 0, experts, nullptr, 0, stream); !ok)
    return ok.takeError();
  if (auto ok = layer.device().synchronizeAll(); !ok)
    return ok.takeError();
  return std::string();
}
