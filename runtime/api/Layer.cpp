//===- Layer.cpp - packed weights of one layer ----------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Binds and packs weights and encodes their tensor maps. Weight names are
// looked up here once, so that a run uses only indices.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Layer.h"

#include "runtime/cuda/TensorMaps.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/weights/LoadWeights.h"
#include "runtime/weights/NumberRules.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace moec;
using namespace moec::runtime;
using namespace moec::runtime::cuda;

/// A value larger than any layer's expert count. It selects all experts.
/// Each pack step limits it to its own expert count.
static constexpr int64_t kAllExperts = int64_t(1) << 32;

/// Returns the names of the package's weights as "w13, w2, ...".
static std::string weightNames(const Package &package) {
  std::string names;
  for (size_t i = 0; i < valueCount(package.manifest(), package.target()); ++i)
    if (const Value &value = valueAt(package.manifest(), package.target(), i);
        isWeight(value))
      names += (names.empty() ? "" : ", ") + value.name;
  return names;
}

bool runtime::readByVariants(const Target &target, const std::string &name) {
  for (const Variant &variant : target.variants)
    for (const Launch &launch : variant.launches) {
      const Kernel *kernel = findKernel(target, launch.kernel);
      if (!kernel)
        continue;
      for (const ArgumentField &field : kernel->arguments.fields)
        if (field.value == name)
          return true;
      for (const TensorMap &map : target.tensorMaps)
        if (map.value == name)
          return true;
    }
  return false;
}

/// Binds the weights that the caller passes by name and stores them in
/// `values`.
static Result<void> bindNamed(const Package &package,
                              std::span<const Tensor> weights,
                              std::vector<BoundValue> &values,
                              AdmittedMemory &reached) {
  const Manifest &manifest = package.manifest();
  const Target &target = package.target();
  auto symbols =
      TRY(symbolsFor(manifest, manifest.maxTokens, package.smCount()));
  std::vector<bool> seen(values.size());
  for (const Tensor &weight : weights) {
    int64_t index = valueIndex(manifest, target, weight.name);
    if (index < 0 ||
        !isWeight(valueAt(manifest, target, static_cast<size_t>(index))))
      return invalidArgument(
          "package {} has no weight '{}'; its weights are {}", manifest.name,
          weight.name, weightNames(package));
    auto at = static_cast<size_t>(index);
    if (seen[at])
      return invalidArgument("weight '{}' was given twice", weight.name);
    seen[at] = true;
    const Value &value = valueAt(manifest, target, at);
    values[at] = TRY(bindTensor(value, symbols, weight));
    if (package.cuda())
      TRY(reached.add(
          package.cuda()->place(), values[at].address,
          uint64_t(TRY(valueBytes(value, symbols, "", values[at].rowStride)))));
  }
  return {};
}

/// Checks the elements of the given stored weights. In GPU memory, block, group
/// and row scales and floating-point weights are skipped, because copying them
/// to the host takes too long.
static Result<void> checkStoredNumbers(const Package &package,
                                       std::span<const Tensor> weights,
                                       const weights::ExpertRange &range,
                                       CUstream stream) {
  const Manifest &manifest = package.manifest();
  const auto symbols =
      TRY(symbolsFor(manifest, manifest.maxTokens, package.smCount()));
  const CudaDriver *driver =
      package.cuda() ? package.cuda()->place().driver : nullptr;
  bool isDone = false; // true once the stream's writes have completed
  std::vector<std::byte> copy;
  for (const Tensor &weight : weights) {
    const auto index = static_cast<size_t>(
        valueIndex(manifest, package.target(), weight.name));
    const Value &value = valueAt(manifest, package.target(), index);
    if (value.role != ValueRole::StoredWeight)
      continue;
    const weights::NumberRule rule =
        weights::ruleOf(*manifest.layer, value.name);
    const bool isLarge = rule == weights::NumberRule::Scale ||
                         value.name.ends_with("w13") ||
                         value.name.ends_with("w2");
    if (rule == weights::NumberRule::Any || (driver && isLarge))
      continue;
    const BoundValue bound = TRY(bindTensor(value, symbols, weight));
    const bool isNamed =
        !weight.elementType.empty() && weight.elementType != "u8";
    const std::string_view type =
        isNamed ? weight.elementType : value.elementTypes.front();
    int64_t ofExpert = 1, experts = 1;
    std::vector<int64_t> extents; // of one expert
    for (size_t i = 0; i < value.shape.size(); ++i) {
      const int64_t extent = TRY(value.shape[i].evaluate(symbols));
      (i ? ofExpert : experts) *= extent;
      if (i)
        extents.push_back(extent);
    }
    const int64_t stride = bound.rowStride ? bound.rowStride : ofExpert;
    const auto *data = reinterpret_cast<const std::byte *>(bound.address);
    if (driver) {
      if (!isDone)
        TRY(driver->check(driver->streamSynchronize(stream),
                          "waiting for the given weights"));
      isDone = true;
      const int64_t bytes =
          ((experts - 1) * stride + ofExpert) * findElementType(type)->bits / 8;
      copy.resize(size_t(std::max<int64_t>(bytes, 0)));
      if (!copy.empty())
        TRY(driver->check(
            driver->memcpyDtoH(copy.data(), bound.address, copy.size()),
            "reading scales and biases"));
      data = copy.data();
    }
    const bool isPart = weights::WeightPlan::isOfExperts(value.name) &&
                        !weights::WeightPlan::isOfSharedMlp(value.name);
    const int64_t first = isPart ? std::min(range.first, experts) : 0;
    const int64_t count = isPart && range.count >= 0 ? range.count : experts;
    TRY(weights::checkStored(*manifest.layer, value, type, rule, data, first,
                             std::min(count, experts - first), extents,
                             stride));
  }
  return {};
}

Result<void> Layer::bindZeros(size_t index) {
  const Manifest &manifest = code->manifest();
  const Value &value = valueAt(manifest, code->target(), index);
  const auto symbols =
      TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  const auto bytes = uint64_t(TRY(valueBytes(value, symbols)));
  if (const CudaCode *cuda = code->cuda()) {
    const CudaPlace &place = cuda->place();
    ContextScope scope(*place.driver, place.context);
    TRY(scope.status());
    zeros = TRY(DeviceMemory::allocate(place, bytes));
    TRY(place.driver->check(
        place.driver->memsetD8(zeros.address(), 0, bytes),
        "zeroing the memory of a weight that was not given"));
    bound[index].address = zeros.address();
    return {};
  }
  hostZeros.resize(bytes / sizeof(ZeroBlock) + 1);
  bound[index].address = reinterpret_cast<uint64_t>(hostZeros.data());
  return {};
}

Result<void> Layer::bindWeights(std::span<const Tensor> weights,
                                bool alreadyPacked) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  bound.assign(valueCount(manifest, target), BoundValue());
  TRY(bindNamed(*code, weights, bound, reached));

  auto at = [&](const std::string &name) -> BoundValue & {
    return bound[static_cast<size_t>(valueIndex(manifest, target, name))];
  };
  for (const Pack &pack : target.pack) {
    BoundValue &result = at(pack.result);
    BoundValue &from = at(pack.from.front());
    if (result.address == 0) {
      if (!pack.inPlace)
        return invalidArgument(
            "{} cannot be packed in place: give memory under the name '{}'",
            pack.from.front(), pack.result);
      result = from;
    } else if (result.address == from.address && !pack.inPlace &&
               !alreadyPacked) {
      return invalidArgument(
          "{} and {} have the same address, but {} cannot be packed in place",
          pack.result, pack.from.front(), pack.result);
    }
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    const Value &value = valueAt(manifest, target, i);
    if (!isWeight(value) || bound[i].address != 0)
      continue;
    bool neededForPacking = false;
    if (!alreadyPacked)
      for (const Pack &pack : target.pack)
        neededForPacking |=
            std::ranges::find(pack.from, value.name) != pack.from.end();
    // A run with given ids does not read the routing bias.
    if (value.name == kRoutingBias && !manifest.oneOf.empty()) {
      TRY(bindZeros(i));
      lacksBias = true;
      continue;
    }
    if (neededForPacking || readByVariants(target, value.name))
      return invalidArgument(
          "weight '{}' is missing; the weights of package {} are {}",
          value.name, manifest.name, weightNames(*code));
  }
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  for (size_t i = 0; i < bound.size(); ++i) {
    const Value &value = valueAt(manifest, code->target(), i);
    if (!isWeight(value) || bound[i].address == 0 ||
        !readByVariants(code->target(), value.name))
      continue;
    const int64_t bytes = TRY(valueBytes(value, symbols));
    spans.push_back({i, bound[i].address, bound[i].address + uint64_t(bytes)});
  }
  return {};
}

Result<void> Layer::encodeMaps() {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  maps.resize(target.tensorMaps.size());
  if (!code->cuda())
    return {};
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  for (size_t i = 0; i < maps.size(); ++i) {
    const TensorMap &map = target.tensorMaps[i];
    int64_t index = valueIndex(manifest, target, map.value);
    if (index < 0)
      return invalidManifest("tensor map {} names the unknown value '{}'",
                             map.name, map.value);
    auto at = static_cast<size_t>(index);
    const Value &value = valueAt(manifest, target, at);
    if (!isWeight(value))
      continue;
    auto encoded = TRY(
        encode(*code->cuda()->place().driver, map, bound[at].address, symbols));
    maps[i] = {true, encoded};
  }
  return {};
}

Result<std::unique_ptr<Layer>>
Layer::create(std::shared_ptr<const Package> package,
              std::span<const Tensor> weights, const LayerOptions &options,
              void *stream) {
  std::unique_ptr<Layer> layer(new Layer);
  layer->code = std::move(package);
  const Package &code = *layer->code;
  if (!code.cuda() && !code.onHost())
    return invalidArgument(
        "package {} was only prebuilt; load it on a device to make layers",
        code.manifest().name);
  TRY(layer->bindWeights(weights, options.alreadyPacked));

  std::optional<ContextScope> scope;
  if (code.cuda()) {
    const CudaPlace &place = code.cuda()->place();
    scope.emplace(*place.driver, place.context);
    TRY(scope->status());
    TRY(code.cuda()->refuseCapture(static_cast<CUstream>(stream),
                                   "creating a layer"));
    TRY(checkStoredNumbers(code, weights, {}, static_cast<CUstream>(stream)));
  } else {
    TRY(checkStoredNumbers(code, weights, {}, nullptr));
    auto device = TRY(host::HostDevice::create(code.manifest(), code.target(),
                                               host::Options()));
    layer->hostDevice = std::make_unique<host::HostDevice>(std::move(device));
    for (size_t i = 0; i < layer->bound.size(); ++i) {
      const Value &value = valueAt(code.manifest(), code.target(), i);
      if (isWeight(value) && layer->bound[i].address)
        layer->hostTensors[value.name] = {
            reinterpret_cast<void *>(layer->bound[i].address), "", 0};
    }
  }
  if (!options.alreadyPacked) {
    TRY(layer->packExperts(layer->bound, 0, kAllExperts, options.scratch,
                           options.scratchBytes, stream));
  }
  TRY(layer->encodeMaps());
  return layer;
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

Result<void> Layer::checkScratch(void *scratch, uint64_t bytes) const {
  auto needed = TRY(code->packScratchBytes());
  if (bytes < static_cast<uint64_t>(needed))
    return Error(ErrorCode::WorkspaceTooSmall,
                 "packing needs {} bytes of scratch, and {} were given; "
                 "moec_package_pack_scratch_bytes tells",
                 needed, bytes);
  if (reinterpret_cast<uint64_t>(scratch) % Package::kMemoryAlignment != 0)
    return Error(ErrorCode::Misaligned,
                 "the scratch's address {} is not a multiple of {}", scratch,
                 Package::kMemoryAlignment);
  return {};
}

namespace {
/// Deleter of host memory with the alignment of scratch and state.
struct AlignedDelete {
  void operator()(std::byte *memory) const { std::free(memory); }
};
} // namespace

Result<void> Layer::packExperts(const std::vector<BoundValue> &values,
                                int64_t first, int64_t count, void *scratch,
                                uint64_t scratchBytes, void *stream) {
  const Target &target = code->target();
  auto needed = TRY(code->packScratchBytes());
  DeviceMemory deviceScratch;
  std::unique_ptr<std::byte, AlignedDelete> hostScratch;
  bool own = !scratch && needed > 0;
  if (own && code->cuda()) {
    deviceScratch = TRY(DeviceMemory::allocate(code->cuda()->place(),
                                               static_cast<uint64_t>(needed)));
    scratch = reinterpret_cast<void *>(deviceScratch.address());
    scratchBytes = static_cast<uint64_t>(needed);
  } else if (own) {
    constexpr auto kAlignment = static_cast<size_t>(Package::kMemoryAlignment);
    size_t bytes = (static_cast<size_t>(needed) + kAlignment - 1) / kAlignment *
                   kAlignment;
    hostScratch.reset(
        static_cast<std::byte *>(std::aligned_alloc(kAlignment, bytes)));
    if (!hostScratch)
      return invalidArgument("no memory for {} bytes of scratch", bytes);
    scratch = hostScratch.get();
    scratchBytes = bytes;
  }
  TRY(checkScratch(scratch, scratchBytes));
  AdmittedMemory reachedScratch;
  if (code->cuda())
    TRY(reachedScratch.add(code->cuda()->place(),
                           reinterpret_cast<uint64_t>(scratch), scratchBytes));
  int64_t experts = 0;
  for (const Pack &pack : target.pack)
    experts = std::max(experts, pack.totalExperts);
  for (size_t i = 0; i < target.pack.size(); ++i) {
    int64_t last = std::min(first + count, target.pack[i].totalExperts);
    // Weights that do not belong to the layer's experts (the MLP of shared
    // experts) are packed only together with all experts.
    const bool isOfOthers = target.pack[i].totalExperts < experts;
    if (isOfOthers && (first > 0 || count < experts))
      continue;
    TRY(code->cuda() ? packOnCuda(values, i, first, last,
                                  reinterpret_cast<uint64_t>(scratch),
                                  static_cast<CUstream>(stream))
                     : packOnHost(values, i, first, last,
                                  {static_cast<std::byte *>(scratch),
                                   static_cast<size_t>(scratchBytes)}));
  }
  if ((own && code->cuda()) || code->isEmulated()) {
    const CudaDriver &driver = *code->cuda()->place().driver;
    return driver.check(driver.streamSynchronize(static_cast<CUstream>(stream)),
                        "waiting for the weights to be packed");
  }
  return {};
}

Result<void> Layer::packOnCuda(const std::vector<BoundValue> &values,
                               size_t packIndex, int64_t first, int64_t last,
                               uint64_t scratch, CUstream stream) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  const CudaCode &cuda = *code->cuda();
  const Pack &pack = target.pack[packIndex];
  auto symbols = TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));

  std::vector<BoundValue> local = values;
  std::vector<CUtensorMap> block(
      static_cast<size_t>(cuda.largestBlock()) / sizeof(CUtensorMap) + 1);
  ArgumentSources sources;
  // The tensor maps of pack steps are encoded at each launch, because packing
  // is rare.
  const std::function<Result<void>(size_t, std::byte *)> writeMap =
      [&](size_t index, std::byte *to) -> Result<void> {
    const TensorMap &map = target.tensorMaps[index];
    auto at = static_cast<size_t>(valueIndex(manifest, target, map.value));
    auto encoded = TRY(
        encode(*cuda.place().driver, map, local[at].address, sources.symbols));
    std::memcpy(to, &encoded, sizeof(CUtensorMap));
    return {};
  };
  sources.tensorMap = &writeMap;
  int64_t stepSize = std::max<int64_t>(1, pack.expertsPerStep);
  for (int64_t expert = first; expert < last; expert += stepSize) {
    symbols.experts = std::min(stepSize, last - expert);
    if (!pack.scratch.empty()) {
      int64_t index = valueIndex(manifest, target, pack.scratch);
      auto bound =
          TRY(bindValue(valueAt(manifest, target, static_cast<size_t>(index)),
                        symbols, scratch));
      local[static_cast<size_t>(index)] = bound;
    }
    sources.values = local;
    sources.symbols = symbols;
    sources.firstExpert = expert;
    for (const LaunchStep &step : cuda.packSteps(packIndex))
      TRY(cuda.launch(step, sources,
                      reinterpret_cast<std::byte *>(block.data()), stream,
                      /*overlap=*/false));
  }
  return {};
}

Result<void> Layer::packOnHost(const std::vector<BoundValue> &values,
                               size_t packIndex, int64_t first, int64_t last,
                               std::span<std::byte> scratch) {
  const Pack &pack = code->target().pack[packIndex];
  host::Tensors tensors;
  auto add = [&](const std::string &name) {
    int64_t index = valueIndex(code->manifest(), code->target(), name);
    tensors[name] = {
        reinterpret_cast<void *>(values[static_cast<size_t>(index)].address),
        "", 0};
  };
  add(pack.result);
  for (const std::string &name : pack.from)
    add(name);
  std::lock_guard lock(hostMutex);
  return hostDevice->pack(pack, tensors, scratch, first, last);
}

/// Returns an error if only some experts are packed again in place although
/// their stored and packed sizes differ. Expert e's stored weights are then at
/// another offset than its packed weights, so writing stored weights in place
/// would overwrite other packed experts.
Result<void> Layer::checkPartInPlace(const std::vector<BoundValue> &sources,
                                     bool isWhole) const {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  const auto symbols =
      TRY(symbolsFor(manifest, manifest.maxTokens, code->smCount()));
  for (const Pack &pack : target.pack) {
    const auto at = [&](const std::string &name) {
      return static_cast<size_t>(valueIndex(manifest, target, name));
    };
    const size_t from = at(pack.from.front()), to = at(pack.result);
    if (isWhole || !pack.inPlace || sources[from].address != bound[to].address)
      continue;
    const int64_t stored =
        TRY(valueBytes(valueAt(manifest, target, from), symbols));
    const int64_t packed =
        TRY(valueBytes(valueAt(manifest, target, to), symbols));
    if (stored != packed)
      return invalidArgument(
          "'{}' has {} bytes as stored and {} as packed in the same memory, so "
          "some experts in place would overwrite others: expected their stored "
          "weights in memory of their own, or all experts",
          pack.from.front(), stored, packed);
  }
  return {};
}

/// Returns an error if only some experts are repacked, but `weights` contains a
/// weight that does not belong to the layer's experts, such as a weight of the
/// shared experts' MLP.
Result<void> Layer::checkPartIsOfExperts(std::span<const Tensor> weights,
                                         int64_t experts) const {
  for (const Pack &pack : code->target().pack)
    for (const Tensor &weight : weights)
      if (pack.totalExperts < experts &&
          std::ranges::find(pack.from, weight.name) != pack.from.end())
        return invalidArgument("'{}' is not of the layer's {} experts, so that "
                               "no part of them has it: leave it out, or pack "
                               "all experts",
                               weight.name, experts);
  return {};
}

Result<void> Layer::repack(std::span<const Tensor> weights, int64_t first,
                           int64_t count, void *scratch, uint64_t scratchBytes,
                           void *stream) {
  const Target &target = code->target();
  int64_t experts = 0;
  for (const Pack &pack : target.pack)
    experts = std::max(experts, pack.totalExperts);
  if (first < 0 || count < 0 || first > experts || count > experts - first)
    return invalidArgument("expected experts within [0, {}), got [{}, {})",
                           experts, first, first + count);
  if (unpacked && (first != 0 || count != experts))
    return invalidArgument("the layer's weights were unpacked in place: "
                           "expected all {} experts to be packed again, got "
                           "[{}, {})",
                           experts, first, first + count);
  // The layer keeps its packed memory. The given stored weights are only
  // sources to pack from.
  std::vector<BoundValue> sources = bound;
  AdmittedMemory reachedSources;
  TRY(bindNamed(*code, weights, sources, reachedSources));
  for (size_t i = 0; i < sources.size(); ++i) {
    const Value &value = valueAt(code->manifest(), target, i);
    if (value.role == ValueRole::PackedWeight &&
        sources[i].address != bound[i].address)
      return invalidArgument("'{}' cannot move when a layer is packed again; "
                             "give stored weights only",
                             value.name);
  }
  // Values in GPU memory cannot be read during a capture.
  if (!code->cuda())
    TRY(checkStoredNumbers(*code, weights, {first, count}, nullptr));
  TRY(checkPartInPlace(sources, count == experts));
  if (count < experts)
    TRY(checkPartIsOfExperts(weights, experts));
  std::optional<ContextScope> scope;
  if (code->cuda()) {
    const CudaPlace &place = code->cuda()->place();
    scope.emplace(*place.driver, place.context);
    TRY(scope->status());
    if (!scratch)
      TRY(code->cuda()->refuseCapture(static_cast<CUstream>(stream),
                                      "packing a layer again without scratch"));
  }
  TRY(packExperts(sources, first, count, scratch, scratchBytes, stream));
  unpacked = false;
  return {};
}

Result<void> Layer::runOnHost(int64_t tokens, const host::Tensors &tensors,
                              std::span<std::byte> workspace,
                              std::span<std::byte> state,
                              const Variant &variant,
                              comm::Communicator *communicator,
                              const comm::Window *window) const {
  std::lock_guard lock(hostMutex);
  return hostDevice->run(tokens, tensors, workspace, state, &variant,
                         communicator, window);
}
