//===- Session.cpp - a loaded package with weights, ready to run ----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything goes through Package, Layer and Context as an engine would.
//
//===----------------------------------------------------------------------===//

#include "runtime/tools/run/Session.h"

#include "test/reference/Rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

using namespace moec;
using namespace moec::run;
using namespace moec::runtime;

Result<std::unique_ptr<Session>> Session::open(Machine &machine,
                                               const Options &options,
                                               const std::string &folder) {
  LoadOptions load;
  load.device = options.device;
  load.strict = options.strict;
  load.jobs = options.jobs;
  load.arch = options.arch;
  std::unique_ptr<Session> session(new Session(machine, options.poison));
  auto package = Package::load(folder, load);
  if (!package)
    return package.takeError();
  session->code = std::move(*package);
  auto layer = reference::parseLayer(session->code->manifest().layer);
  if (!layer)
    return layer.takeError();
  session->described = std::move(*layer);
  return session;
}

Result<void> Session::setShape(Tensor &tensor, int64_t tokens) const {
  const Value *value = findValue(code->manifest(), code->target(), tensor.name);
  auto symbols = symbolsFor(code->manifest(), tokens, code->smCount());
  if (!symbols)
    return symbols.takeError();
  if (!value || value->shape.size() > size_t(kMaxRank))
    return Error{ErrorCode::InvalidManifest,
                 fmt::format("the package has no value {} of at most {} "
                             "dimensions",
                             tensor.name, kMaxRank)};
  tensor.rank = static_cast<int32_t>(value->shape.size());
  for (size_t i = 0; i < value->shape.size(); ++i) {
    auto extent = value->shape[i].evaluate(*symbols);
    if (!extent)
      return extent.takeError();
    tensor.shape[i] = *extent;
  }
  return {};
}

Result<void> Session::addTensor(std::vector<Tensor> &tensors,
                                std::string_view name, void *data,
                                int64_t tokens) const {
  Tensor tensor;
  tensor.name = name;
  tensor.data = data;
  if (auto ok = setShape(tensor, tokens); !ok)
    return ok;
  tensors.push_back(tensor);
  return {};
}

Result<void> Session::setWeights(const HostWeights &weights) {
  std::vector<Tensor> tensors;
  for (const auto &[name, rows] : weights.arrays) {
    if (weights.derived.contains(name))
      continue;
    const HostArray &array = weights.given(name);
    const Value *value = findValue(code->manifest(), code->target(), name);
    if (!value)
      return Error{ErrorCode::InvalidManifest,
                   fmt::format("the layer has a weight {}, the package has no "
                               "value of that name",
                               name)};
    auto symbols = symbolsFor(code->manifest(), 1, code->smCount());
    if (!symbols)
      return symbols.takeError();
    auto bytes = valueBytes(*value, *symbols);
    if (!bytes)
      return bytes.takeError();
    if (*bytes != array.bytes)
      return Error{
          ErrorCode::InvalidManifest,
          fmt::format("{} has {} bytes by the manifest's values and {} "
                      "by its layer",
                      name, *bytes, array.bytes)};
    auto memory = machine.allocate(array.bytes);
    if (!memory)
      return memory.takeError();
    if (auto ok =
            machine.upload(memory->address(), array.data.get(), array.bytes);
        !ok)
      return ok;
    if (auto ok = addTensor(tensors, name, memory->address(), 1); !ok)
      return ok;
    storedAt[name] = memory->address();
    weightMemory.push_back(std::move(*memory));
  }
  auto start = std::chrono::steady_clock::now();
  // Packed weights that cannot lie in place get memory of their own.
  for (const Pack &pack : code->target().pack) {
    if (pack.inPlace)
      continue;
    const Value *value =
        findValue(code->manifest(), code->target(), pack.result);
    auto symbols = symbolsFor(code->manifest(), 1, code->smCount());
    if (!value || !symbols)
      return Error{ErrorCode::InvalidManifest,
                   fmt::format("pack result {} is unknown", pack.result)};
    auto bytes = valueBytes(*value, *symbols);
    if (!bytes)
      return bytes.takeError();
    auto memory = machine.allocate(*bytes);
    if (!memory)
      return memory.takeError();
    if (auto ok = addTensor(tensors, value->name, memory->address(), 1); !ok)
      return ok;
    weightMemory.push_back(std::move(*memory));
  }
  auto layer = Layer::create(code, tensors, {}, machine.stream(0));
  if (!layer)
    return layer.takeError();
  packed = std::move(*layer);
  if (auto ok = machine.synchronize(0); !ok)
    return ok;
  packTime = std::chrono::duration<double, std::milli>(
                 std::chrono::steady_clock::now() - start)
                 .count();
  return {};
}

/// Rows of codes in the order in which a stage packs them.
static HostArray inOrder(const reference::Layer &layer, const Stage &stage,
                         const HostArray &rows) {
  const int64_t interleave = stage.attributes.value("interleave", 0);
  const int64_t perExpert = stage.attributes.value("rows", 0);
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

Result<std::string> Session::checkQuantized(const HostWeights &weights) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
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
        stage.attributes.value("scale_type", "") == "f8E8M0FNU" &&
        value.elementTypes.front() == "f32";
    const HostArray made = areCodes ? inOrder(described, stage, known->second)
                           : areFloats ? asFloats(known->second)
                                       : HostArray();
    const HostArray &expected = areCodes || areFloats ? made : known->second;
    HostArray got(expected.bytes);
    if (auto ok = machine.download(
            got.data.get(),
            reinterpret_cast<void *>(
                packed->values()[static_cast<size_t>(index)].address),
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

Result<DeviceInputs> Session::upload(const HostInputs &inputs) {
  DeviceInputs result;
  auto add = [&](const char *name, const void *data, int64_t bytes,
                 std::string_view type) -> Result<void> {
    auto memory = machine.allocate(bytes);
    if (!memory)
      return memory.takeError();
    if (auto ok = machine.upload(memory->address(), data, bytes); !ok)
      return ok;
    Tensor tensor;
    tensor.name = name;
    tensor.data = memory->address();
    tensor.elementType = type;
    result.tensors.push_back(tensor);
    result.memory.push_back(std::move(*memory));
    return {};
  };
  const reference::Inputs &described = inputs.described;
  Result<void> ok = add("x", inputs.x.data.get(), inputs.x.bytes, "");
  if (ok) {
    Tensor &x = result.tensors.back();
    x.hasStrides = true;
    x.strides = {described.x.rowStride, 1};
  }
  if (ok && described.logits.data)
    ok = add("logits", inputs.logits.data.get(), inputs.logits.bytes,
             described.logits.element->name);
  if (ok && described.tokenIds.data)
    ok = add("token_ids", inputs.tokenIds.data.get(), inputs.tokenIds.bytes,
             described.tokenIds.element->name);
  if (ok && described.givenIds.data)
    ok = add("given_ids", inputs.ids.data.get(), inputs.ids.bytes,
             described.givenIds.element->name);
  if (ok && described.givenIds.data)
    ok = add("given_weights", inputs.weights.data.get(), inputs.weights.bytes,
             described.givenWeights.element->name);
  auto addMap = [&](const char *name, const std::vector<int32_t> &map) {
    if (ok && !map.empty())
      ok = add(name, map.data(), int64_t(map.size() * sizeof(int32_t)), "");
  };
  addMap("logical_to_physical", described.logicalToPhysical);
  addMap("replica_count", described.replicaCount);
  addMap("expert_map", described.expertMap);
  addMap("expert_num_tokens", described.expertCounts);
  if (ok && described.xScale.data)
    ok = add("x_scale", inputs.xScale.data.get(), inputs.xScale.bytes, "");
  if (ok && described.xSecondScale.data)
    ok = add("x_second_scale", inputs.xSecondScale.data.get(),
             inputs.xSecondScale.bytes, "");
  if (ok && described.sharedGate.data)
    ok = add("shared_gate", inputs.sharedGate.data.get(),
             inputs.sharedGate.bytes, described.sharedGate.element->name);
  if (ok && described.gateUpAddend.data)
    ok = add("gate_up_addend", inputs.gateUpAddend.data.get(),
             inputs.gateUpAddend.bytes, "");
  if (ok && described.downAddend.data)
    ok = add("down_addend", inputs.downAddend.data.get(),
             inputs.downAddend.bytes, "");
  if (ok && described.residual.data)
    ok = add("residual", inputs.residual.data.get(), inputs.residual.bytes, "");
  if (ok && inputs.validTokens >= 0)
    ok = add("valid_tokens", &inputs.validTokens, sizeof(int32_t), "");
  if (!ok)
    return ok.takeError();
  return result;
}

Result<DeviceOutputs> Session::makeOutputs(int64_t tokens) {
  DeviceOutputs result;
  auto symbols = symbolsFor(code->manifest(), tokens, code->smCount());
  if (!symbols)
    return symbols.takeError();
  uint64_t seed = 1;
  for (const Value &value : code->manifest().values) {
    if (value.role != ValueRole::Output &&
        value.role != ValueRole::OptionalOutput)
      continue;
    auto bytes = valueBytes(value, *symbols);
    if (!bytes)
      return bytes.takeError();
    auto buffer = Guarded::create(machine, *bytes, ++seed, poison);
    if (!buffer)
      return buffer.takeError();
    result.buffers.emplace(value.name, std::move(*buffer));
  }
  return result;
}

std::vector<Tensor> DeviceOutputs::tensors() const {
  std::vector<Tensor> result;
  for (const auto &[name, buffer] : buffers) {
    Tensor tensor;
    tensor.name = name;
    tensor.data = buffer.address();
    result.push_back(tensor);
  }
  return result;
}

Result<void> DeviceOutputs::refill() {
  for (auto &[name, buffer] : buffers)
    if (auto ok = buffer.refill(); !ok)
      return ok;
  return {};
}

Result<std::string> DeviceOutputs::damage() const {
  for (const auto &[name, buffer] : buffers) {
    auto text = buffer.damage();
    if (!text)
      return text;
    if (!text->empty())
      return fmt::format("output {}: {}", name, *text);
  }
  return std::string();
}

Result<Guarded> Session::makeWorkspace(int64_t tokens) {
  auto bytes = code->workspaceBytes(tokens);
  if (!bytes)
    return bytes.takeError();
  return Guarded::create(machine, *bytes, /*seed=*/99, poison);
}

Result<std::unique_ptr<Context>> Session::makeContext(const Guarded &memory) {
  return Context::create(code, memory.address(),
                         static_cast<uint64_t>(memory.bytes()));
}

Result<void> Session::run(Context &context, int stream,
                          const DeviceInputs &inputs,
                          const DeviceOutputs &outputs, int64_t tokens,
                          const std::string &variant, bool overlap) {
  std::vector<Tensor> tensors = inputs.tensors;
  for (const Tensor &tensor : outputs.tensors())
    tensors.push_back(tensor);
  for (Tensor &tensor : tensors)
    if (auto ok = setShape(tensor, tokens); !ok)
      return ok;
  RunOptions options;
  options.variant = variant;
  options.overlapPrevious = overlap;
  return context.run(*packed, machine.stream(stream), tensors, tokens, options);
}

Result<Session::Stored> Session::destroyPacked(const HostWeights &weights) {
  const Manifest &manifest = code->manifest();
  const Target &target = code->target();
  auto symbols = symbolsFor(manifest, 1, code->smCount());
  if (!symbols)
    return symbols.takeError();
  Stored stored;
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
      auto memory = machine.allocate(array.bytes);
      if (!memory)
        return memory.takeError();
      if (auto ok =
              machine.upload(memory->address(), array.data.get(), array.bytes);
          !ok)
        return ok.takeError();
      if (auto ok =
              addTensor(stored.tensors, found->first, memory->address(), 1);
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
    uint64_t address = packed->values()[static_cast<size_t>(index)].address;
    constexpr int kNaN = 0xFF;
    if (auto ok = machine.fill(reinterpret_cast<void *>(address), kNaN, *bytes);
        !ok)
      return ok.takeError();
  }
  auto scratch = packScratch();
  if (!scratch)
    return scratch.takeError();
  stored.scratch = std::move(*scratch);
  return stored;
}

Result<Memory> Session::packScratch() {
  auto needed = code->packScratchBytes();
  if (!needed)
    return needed.takeError();
  return machine.allocate(*needed);
}

Result<void> Session::replaceExpert(const HostWeights &weights,
                                    int64_t expert) {
  const std::vector<Pack> &packs = code->target().pack;
  Stored stored;
  // Tensors refer to the names until they are packed.
  const std::vector<std::string> names = weightsOfExperts(described);
  for (const std::string &name : names) {
    const HostArray &array = weights.given(name);
    const int64_t bytes = array.bytes / described.localExperts;
    void *to = storedAt.at(name);
    // Where packing lies in place, the stored bytes are there no more.
    if (std::any_of(packs.begin(), packs.end(), [&](const Pack &pack) {
          return std::find(pack.from.begin(), pack.from.end(), name) !=
                 pack.from.end();
        })) {
      auto memory = machine.allocate(array.bytes);
      if (!memory)
        return memory.takeError();
      // What is another expert's must not matter.
      constexpr int kNaN = 0xFF;
      if (auto ok = machine.fill(memory->address(), kNaN, array.bytes); !ok)
        return ok;
      to = memory->address();
      if (auto ok = addTensor(stored.tensors, name, to, 1); !ok)
        return ok;
      stored.memory.push_back(std::move(*memory));
    }
    if (auto ok = machine.upload(static_cast<std::byte *>(to) + expert * bytes,
                                 array.data.get() + expert * bytes, bytes);
        !ok)
      return ok;
  }
  if (packs.empty())
    return {};
  auto scratch = packScratch();
  if (!scratch)
    return scratch.takeError();
  if (auto ok = packed->repack(stored.tensors, expert, 1, scratch->address(),
                               static_cast<uint64_t>(scratch->bytes()),
                               machine.stream(0));
      !ok)
    return ok;
  return machine.synchronizeAll();
}

Result<void> Session::repack(const Stored &stored, int stream) {
  int64_t experts = 0;
  for (const Pack &pack : code->target().pack)
    experts = std::max(experts, pack.totalExperts);
  return packed->repack(stored.tensors, 0, experts, stored.scratch.address(),
                        static_cast<uint64_t>(stored.scratch.bytes()),
                        machine.stream(stream));
}

bool Session::roundsPartials(const Variant &variant) const {
  if (described.deferFinalize)
    return described.outputType->bytes < 4;
  for (const Launch &launch : variant.launches) {
    const Kernel *kernel = findKernel(code->target(), launch.kernel);
    for (const Stage &stage : kernel ? kernel->stages : std::vector<Stage>()) {
      auto operand = stage.operands.find("partials");
      if (stage.op != "combine" || operand == stage.operands.end())
        continue;
      // What stays inside a kernel is rounded where it goes through memory.
      std::string name = operand->second;
      if (name.starts_with('%'))
        name.erase(0, 1);
      for (const ArgumentField &field : kernel->arguments.fields) {
        if (field.name != name)
          continue;
        const Value *value =
            findValue(code->manifest(), code->target(), field.value);
        if (value && value->elementTypes.front() != "f32")
          return true;
      }
    }
  }
  return false;
}

double Session::errorOfSums(const Variant &variant) const {
  // Only wgmma multiplies e4m3 as it is, and it is of sm_90 alone. Variants
  // may have kernels of other engines, whose products are exact and whose sums
  // are f32's. Fast sums have a bound of their own.
  if (described.accumulatesFast)
    return 0;
  constexpr std::string_view kEngine = "wgmma";
  const nlohmann::json &report = code->target().report;
  if (machine.onHost() || !described.a1Scaling.given ||
      report.value("realization", "") != "native")
    return reference::kFloatError;
  for (const Launch &launch : variant.launches) {
    const Kernel *kernel = findKernel(code->target(), launch.kernel);
    for (const Stage &stage : kernel ? kernel->stages : std::vector<Stage>()) {
      if (stage.op != "grouped_matmul")
        continue;
      // The first matmul, whose sums are quantized again.
      const nlohmann::json::json_pointer path("/schedules/" + kernel->name +
                                              "/engine");
      return report.value(path, "") == kEngine ? reference::kNativeE4m3Error
                                               : reference::kFloatError;
    }
  }
  return reference::kFloatError;
}
