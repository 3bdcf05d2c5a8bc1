//===- PackedWeights.cpp - weights that are packed again ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/check/PackedWeights.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>

using namespace moec;
using namespace moec::check;
using namespace moec::run;
using namespace moec::runtime;

/// Rows of codes in the order in which a stage packs them.
static HostArray inOrder(const reference::Layer &layer, const Stage &stage,
                         const HostArray &rows) {
  const int64_t interleave = stage.attributes->value("interleave", 0);
  const int64_t perExpert = stage.attributes->value("rows", 0);
  const int64_t rowBytes = rows.bytes / layer.localExperts / perExpert;
  HostArray made(rows.bytes);
  for (int64_t i = 0; i < rows.bytes / rowBytes; ++i) {
    int64_t stored = i % perExpert;
    if (interleave > 0) {
      const int64_t block = stored / interleave;
      stored = layer.storedRow(block % 2 == 1,
                               block / 2 * interleave + stored % interleave);
    }
    const int64_t from = i / perExpert * perExpert + stored;
    std::memcpy(made.data.get() + i * rowBytes,
                rows.data.get() + from * rowBytes,
                static_cast<size_t>(rowBytes));
  }
  return made;
}

/// Powers of two as f32.
static HostArray asFloats(const HostArray &powers) {
  HostArray made(powers.bytes * int64_t(sizeof(float)));
  const reference::Element &f32 = *reference::findElement("f32");
  const reference::Element &power = *reference::findElement("f8E8M0FNU");
  for (int64_t i = 0; i < powers.bytes; ++i)
    reference::store(f32, made.data.get(), i,
                     reference::load(power, powers.data.get(), i));
  return made;
}

Result<std::string> moec::check::checkQuantized(LoadedLayer &layer,
                                                const HostWeights &weights) {
  const reference::Layer &described = layer.layer();
  const Manifest &manifest = layer.package().manifest();
  const Target &target = layer.package().target();
  for (const Pack &pack : target.pack) {
    const Kernel *kernel = findKernel(target, pack.launches.back().kernel);
    if (!kernel || kernel->stages.empty())
      continue;
    const Stage &stage = kernel->stages.back();
    if (stage.op != "pack_codes" && stage.op != "pack_scales")
      continue;
    std::string name = pack.result;
    constexpr std::string_view kSuffix = "_packed";
    if (name.ends_with(kSuffix))
      name.resize(name.size() - kSuffix.size());
    const int64_t index = valueIndex(manifest, target, pack.result);
    const auto known = weights.arrays.find(name);
    if (index < 0 || known == weights.arrays.end())
      return Error{ErrorCode::InvalidManifest,
                   fmt::format("pack result {} is unknown", pack.result)};
    const bool areCodes = stage.op == "pack_codes";
    // Powers of two may be kept as f32.
    const Value &value = valueAt(manifest, target, static_cast<size_t>(index));
    const bool areFloats =
        stage.attributes->value("scale_type", "") == "f8E8M0FNU" &&
        value.elementTypes.front() == "f32";
    const HostArray made = areCodes ? inOrder(described, stage, known->second)
                           : areFloats ? asFloats(known->second)
                                       : HostArray();
    const HostArray &expected = areCodes || areFloats ? made : known->second;
    HostArray got(expected.bytes);
    if (auto ok = layer.device().download(
            got.data.get(),
            reinterpret_cast<void *>(
                layer.packed().values()[static_cast<size_t>(index)].address),
            got.bytes);
        !ok)
      return ok.takeError();
    int64_t wrong = 0, first = -1;
    for (int64_t i = 0; i < got.bytes; ++i)
      if (got.data[size_t(i)] != expected.data[size_t(i)] && wrong++ == 0)
        first = i;
    if (wrong > 0)
      return fmt::format("FAILED: {} is not what the reference makes of {}: {} "
                         "of {} bytes differ, the first is number {}",
                         pack.result, pack.from.front(), wrong, got.bytes,
                         first);
  }
  return std::string();
}

static Result<tools::Buffer> packScratch(const LoadedLayer &layer) {
  auto needed = layer.package().packScratchBytes();
  if (!needed)
    return needed.takeError();
  return layer.device().allocate(*needed);
}

Result<StoredWeights> moec::check::destroyPacked(LoadedLayer &layer,
                                                 const HostWeights &weights) {
  const Manifest &manifest = layer.package().manifest();
  const Target &target = layer.package().target();
  auto symbols = symbolsFor(manifest, 1, layer.package().smCount());
  if (!symbols)
    return symbols.takeError();
  StoredWeights stored;
  for (const Pack &pack : target.pack) {
    for (const std::string &name : pack.from) {
      const Value *value = findValue(manifest, target, name);
      // Made by an earlier pack, or of a weight that several are made of.
      if ((value && value->role == ValueRole::PackedWeight) ||
          std::any_of(
              stored.tensors.begin(), stored.tensors.end(),
              [&](const Tensor &tensor) { return tensor.name == name; }))
        continue;
      auto found = weights.arrays.find(name);
      if (found == weights.arrays.end())
        return Error{ErrorCode::InvalidManifest,
                     fmt::format("pack source {} is no weight", name)};
      const HostArray &array = weights.given(name);
      auto memory = layer.device().allocate(array.bytes);
      if (!memory)
        return memory.takeError();
      if (auto ok = layer.device().upload(memory->data(), array.data.get(),
                                          array.bytes);
          !ok)
        return ok.takeError();
      if (auto ok =
              layer.addTensor(stored.tensors, found->first, memory->data(), 1);
          !ok)
        return ok.takeError();
      stored.memory.push_back(std::move(*memory));
    }
    int64_t index = valueIndex(manifest, target, pack.result);
    if (index < 0)
      return Error{ErrorCode::InvalidManifest,
                   fmt::format("pack result {} is unknown", pack.result)};
    const Value &value = valueAt(manifest, target, static_cast<size_t>(index));
    auto bytes = valueBytes(value, *symbols);
    if (!bytes)
      return bytes.takeError();
    uint64_t address =
        layer.packed().values()[static_cast<size_t>(index)].address;
    constexpr int kNaN = 0xFF;
    if (auto ok = layer.device().fill(reinterpret_cast<void *>(address), kNaN,
                                      *bytes);
        !ok)
      return ok.takeError();
  }
  auto scratch = packScratch(layer);
  if (!scratch)
    return scratch.takeError();
  stored.scratch = std::move(*scratch);
  return stored;
}

Result<void> moec::check::replaceExpert(LoadedLayer &layer,
                                        const HostWeights &weights,
                                        int64_t expert) {
  const std::vector<Pack> &packs = layer.package().target().pack;
  StoredWeights stored;
  // Tensors refer to the names until they are packed.
  const std::vector<std::string> names = weightsOfExperts(layer.layer());
  for (const std::string &name : names) {
    const HostArray &array = weights.given(name);
    const int64_t bytes = array.bytes / layer.layer().localExperts;
    void *to = layer.storedWeight(name);
    // Packing in place has overwritten the stored bytes.
    if (std::any_of(packs.begin(), packs.end(), [&](const Pack &pack) {
          return std::find(pack.from.begin(), pack.from.end(), name) !=
                 pack.from.end();
        })) {
      auto memory = layer.device().allocate(array.bytes);
      if (!memory)
        return memory.takeError();
      // Other experts' bytes must not matter.
      constexpr int kNaN = 0xFF;
      if (auto ok = layer.device().fill(memory->data(), kNaN, array.bytes); !ok)
        return ok;
      to = memory->data();
      if (auto ok = layer.addTensor(stored.tensors, name, to, 1); !ok)
        return ok;
      stored.memory.push_back(std::move(*memory));
    }
    if (auto ok =
            layer.device().upload(static_cast<std::byte *>(to) + expert * bytes,
                                  array.data.get() + expert * bytes, bytes);
        !ok)
      return ok;
  }
  if (packs.empty())
    return {};
  auto scratch = packScratch(layer);
  if (!scratch)
    return scratch.takeError();
  if (auto ok = layer.packed().repack(
          stored.tensors, expert, 1, scratch->data(),
          static_cast<uint64_t>(scratch->bytes()), layer.device().stream(0));
      !ok)
    return ok;
  return layer.device().synchronizeAll();
}

Result<void> moec::check::repack(LoadedLayer &layer,
                                 const StoredWeights &stored, int stream) {
  int64_t experts = 0;
  for (const Pack &pack : layer.package().target().pack)
    experts = std::max(experts, pack.totalExperts);
  return layer.packed().repack(stored.tensors, 0, experts,
                               stored.scratch.data(),
                               static_cast<uint64_t>(stored.scratch.bytes()),
                               layer.device().stream(stream));
}
