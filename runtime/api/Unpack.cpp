//===- Unpack.cpp - restores stored weights from packed ones --------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The CPU unpacks, even if the layer is on a GPU: packed experts are copied to
// host memory and unpacked there, and the stored experts are copied back, a few
// experts at a time. Inference engines unpack to save a model, not during
// serving, so speed does not matter.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Layer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

/// The plan for unpacking one weight.
struct Layer::Unpacking {
  size_t value = 0;           ///< index of the stored weight
  const Pack *pack = nullptr; ///< null: kernels read the stored form
  uint64_t to = 0;
  int64_t bytes = 0;
  bool inPlace = false;
};

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

/// Returns the first pack whose first source is the weight `stored`, or null if
/// there is none. Returns Refused if any pack with this first source quantizes,
/// because quantizing cannot be reversed. Packs that compute scales from the
/// weight also have it as their first source.
static Result<const Pack *> packOf(const Target &target,
                                   const std::string &stored) {
  const Pack *found = nullptr;
  for (const Pack &pack : target.pack) {
    if (pack.from.front() != stored)
      continue;
    if (const Stage *losing = host::HostDevice::withoutOpposite(target, pack))
      return refused("weight '{}' cannot be unpacked: stage {} of its packing "
                     "quantizes, which loses numbers; keep the stored weight, "
                     "or load it again",
                     stored, losing->op);
    if (!found)
      found = &pack;
  }
  return found;
}

static std::string storedNames(const Manifest &manifest) {
  std::string names;
  for (const Value &value : manifest.values)
    if (value.role == ValueRole::StoredWeight)
      names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

Result<Layer::Unpacking> Layer::planOne(const Tensor &weight, size_t value,
                                        const Symbols &symbols,
                                        bool toHost) const {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  const auto at = [&](const std::string &name) {
    return static_cast<size_t>(valueIndex(manifest, target, name));
  };
  Value stored = valueAt(manifest, target, value);
  if (toHost)
    stored.alignment = 1;
  Unpacking made;
  made.value = value;
  made.pack = TRY(packOf(target, stored.name));
  made.bytes = TRY(valueBytes(stored, symbols));
  auto to = TRY(bindTensor(stored, symbols, weight));
  made.to = to.address;
  if (!made.pack) {
    if (bound[value].address == 0)
      return invalidArgument("weight '{}' is not packed, and the layer was "
                             "made without it",
                             stored.name);
    made.inPlace = made.to == bound[value].address;
    return made;
  }
  const size_t result = at(made.pack->result);
  made.inPlace =
      made.pack->inPlace && made.to == bound[result].address && !toHost;
  auto packedBytes =
      TRY(valueBytes(valueAt(manifest, target, result), symbols));
  const int64_t experts = made.pack->totalExperts;
  if (experts < 1 || made.bytes % experts || packedBytes % experts ||
      (made.inPlace && packedBytes > made.bytes))
    return invalidManifest(
        "'{}' of {} bytes and '{}' of {} are not those of {} experts",
        stored.name, made.bytes, made.pack->result, packedBytes, experts);
  return made;
}

/// Checks that the destinations overlap neither each other nor memory that
/// kernels read.
Result<void> Layer::checkOverlaps(const std::vector<Unpacking> &list) const {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  const auto nameOf = [&](size_t value) {
    return valueAt(manifest, target, value).name;
  };
  const auto overlap = [](uint64_t a, int64_t aBytes, uint64_t b,
                          int64_t bBytes) {
    return a < b + static_cast<uint64_t>(bBytes) &&
           b < a + static_cast<uint64_t>(aBytes);
  };
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (overlap(list[i].to, list[i].bytes, list[j].to, list[j].bytes))
        return invalidArgument("the memory given for '{}' overlaps that for "
                               "'{}'",
                               nameOf(list[i].value), nameOf(list[j].value));
    for (size_t v = 0; v < bound.size(); ++v) {
      const Value &value = valueAt(manifest, target, v);
      if (!isWeight(value) || bound[v].address == 0 ||
          (value.role == ValueRole::StoredWeight &&
           !readByVariants(target, value.name)))
        continue;
      auto bytes = TRY(valueBytes(value, symbols));
      const bool isOwn = list[i].inPlace && bound[v].address == list[i].to;
      if (!isOwn && overlap(list[i].to, list[i].bytes, bound[v].address, bytes))
        return invalidArgument(
            "the memory given for '{}' overlaps '{}' of the layer; accepted: "
            "other memory, or the very memory of a weight that was packed in "
            "place",
            nameOf(list[i].value), value.name);
    }
  }
  return {};
}

Result<std::vector<Layer::Unpacking>>
Layer::planUnpacking(std::span<const Tensor> weights, bool toHost) const {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  std::vector<Unpacking> list;
  for (const Tensor &weight : weights) {
    const int64_t index = valueIndex(manifest, target, weight.name);
    if (index < 0 || valueAt(manifest, target, size_t(index)).role !=
                         ValueRole::StoredWeight)
      return invalidArgument(
          "package {} has no stored weight '{}'; its stored weights are {}",
          manifest.name, weight.name, storedNames(manifest));
    if (lacksBias && weight.name == kRoutingBias)
      return invalidArgument("the layer was created without weight '{}'",
                             weight.name);
    if (std::ranges::find(list, size_t(index), &Unpacking::value) != list.end())
      return invalidArgument("weight '{}' was given twice", weight.name);
    auto one = TRY(planOne(weight, size_t(index), symbols, toHost));
    list.push_back(one);
  }
  if (!toHost || code->onHost())
    TRY(checkOverlaps(list));
  // repack() packs every weight of an in-place layout again. One call must
  // therefore unpack all of these weights, or none in place.
  const bool any = std::ranges::any_of(
      list, [](const Unpacking &one) { return one.pack && one.inPlace; });
  for (const Pack &pack : target.pack) {
    const auto from = size_t(valueIndex(manifest, target, pack.from.front()));
    const auto result = size_t(valueIndex(manifest, target, pack.result));
    if (!any || bound[from].address != bound[result].address)
      continue;
    const auto one = std::ranges::find(list, from, &Unpacking::value);
    if (one == list.end() || !one->inPlace)
      return invalidArgument("'{}' was packed in place, too: expected all such "
                             "weights to be unpacked in place together, or "
                             "none",
                             pack.from.front());
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Unpacking
//===----------------------------------------------------------------------===//

namespace {

struct Free {
  void operator()(std::byte *memory) const { std::free(memory); }
};

/// Allocates host memory with the alignment of scratch memory.
std::unique_ptr<std::byte, Free> allocateScratch(int64_t bytes) {
  constexpr auto kAlignment = static_cast<size_t>(Package::kMemoryAlignment);
  const size_t size = (std::max<size_t>(size_t(bytes), 1) + kAlignment - 1) /
                      kAlignment * kAlignment;
  return std::unique_ptr<std::byte, Free>(
      static_cast<std::byte *>(std::aligned_alloc(kAlignment, size)));
}

std::span<std::byte> memoryAt(uint64_t address, int64_t bytes) {
  return {reinterpret_cast<std::byte *>(address), size_t(bytes)};
}

} // namespace

/// Copies a weight that kernels read in its stored form.
Result<void> Layer::copyOne(const Unpacking &one, bool toHost) const {
  const uint64_t from = bound[one.value].address;
  const auto bytes = size_t(one.bytes);
  if (one.inPlace)
    return {};
  if (!code->cuda()) {
    std::memcpy(reinterpret_cast<void *>(one.to),
                reinterpret_cast<const void *>(from), bytes);
    return {};
  }
  const CudaDriver &driver = *code->cuda()->place().driver;
  if (toHost)
    return driver.check(
        driver.memcpyDtoH(reinterpret_cast<void *>(one.to), from, bytes),
        "copying a weight");
  TRY(driver.check(driver.memcpyDtoDAsync(one.to, from, bytes, nullptr),
                   "copying a weight"));
  return driver.check(driver.streamSynchronize(nullptr), "copying a weight");
}

Result<void> Layer::unpackOne(const Unpacking &one, bool toHost) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  const Pack &pack = *one.pack;
  const CudaDriver *driver =
      code->cuda() ? code->cuda()->place().driver : nullptr;
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  const int64_t storedEach = one.bytes / pack.totalExperts;
  // The sources of unpacking: the packed weight, and the values that packing
  // read besides the stored weight.
  struct Source {
    std::string name;
    uint64_t address;
    int64_t each;
    std::vector<std::byte> copy;
  };
  std::vector<Source> sources;
  std::vector<std::string> names(pack.from.begin() + 1, pack.from.end());
  names.push_back(pack.result);
  for (const std::string &name : names) {
    const auto index = size_t(valueIndex(manifest, target, name));
    auto bytes = TRY(valueBytes(valueAt(manifest, target, index), symbols));
    sources.push_back(
        {name, bound[index].address, bytes / pack.totalExperts, {}});
  }
  auto needed = TRY(hostDevice->scratchBytes(pack));
  const auto scratch = allocateScratch(needed);
  if (!scratch)
    return invalidArgument("no memory for {} bytes of scratch", needed);

  std::vector<std::byte> stored;
  const int64_t step = std::max<int64_t>(1, pack.expertsPerStep);
  // Experts are unpacked from the last to the first. In place, stored experts
  // may be larger than packed experts. Expert e's stored form then starts at or
  // after the end of the packed experts 0 to e - 1, so no expert that is still
  // packed is overwritten.
  for (int64_t first = (pack.totalExperts - 1) / step * step; first >= 0;
       first -= step) {
    const int64_t count = std::min(step, pack.totalExperts - first);
    std::map<std::string, std::span<std::byte>> memory;
    for (Source &source : sources) {
      const uint64_t from =
          source.address + static_cast<uint64_t>(first * source.each);
      memory[source.name] = memoryAt(from, count * source.each);
      if (!driver)
        continue;
      source.copy.resize(size_t(count * source.each));
      memory[source.name] = source.copy;
      TRY(driver->check(
          driver->memcpyDtoH(source.copy.data(), from, source.copy.size()),
          "copying packed weights"));
    }
    const uint64_t to = one.to + static_cast<uint64_t>(first * storedEach);
    const bool direct = !driver || toHost;
    stored.resize(direct ? 0 : size_t(count * storedEach));
    memory[pack.from.front()] =
        direct ? memoryAt(to, count * storedEach) : std::span(stored);
    {
      const std::lock_guard lock(hostMutex);
      if (Result<void> done = hostDevice->unpack(
              pack, memory, {scratch.get(), size_t(needed)}, count);
          !done)
        return Error(done.error().code, "experts {} to {} of '{}': {}", first,
                     first + count - 1, pack.result, done.error().message);
    }
    if (!direct)
      TRY(driver->upload(to, stored.data(), stored.size()));
  }
  return {};
}

Result<void> Layer::unpack(std::span<const Tensor> weights,
                           const UnpackOptions &options, void *stream) {
  if (unpacked)
    return invalidArgument("the layer's weights were unpacked in place "
                           "already; moec_layer_repack packs them again");
  const bool toHost = options.toHost || code->onHost();
  const auto list = TRY(planUnpacking(weights, toHost && !code->onHost()));
  std::optional<ContextScope> scope;
  if (code->cuda()) {
    const CudaPlace &place = code->cuda()->place();
    scope.emplace(*place.driver, place.context);
    TRY(scope->status());
    TRY(code->cuda()->refuseCapture(static_cast<CUstream>(stream),
                                    "unpacking a layer"));
    TRY(place.driver->check(
        place.driver->streamSynchronize(static_cast<CUstream>(stream)),
        "waiting for the weights to be packed"));
  }
  if (!hostDevice) {
    auto device = TRY(host::HostDevice::create(code->manifest(), code->target(),
                                               host::Options()));
    hostDevice = std::make_unique<host::HostDevice>(std::move(device));
  }
  AdmittedMemory reachedHere;
  for (const Unpacking &one : list) {
    if (code->cuda() && !toHost)
      TRY(reachedHere.add(code->cuda()->place(), one.to, uint64_t(one.bytes)));
    // From here on, the memory of the weights that are unpacked in place is
    // neither completely packed nor completely stored.
    if (one.pack && one.inPlace)
      unpacked = true;
    TRY(one.pack ? unpackOne(one, toHost) : copyOne(one, toHost));
  }
  return {};
}
