//===- Workload.cpp - one package, ready to be timed ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/Workload.h"

#include "test/reference/Element.h"

#include <algorithm>
#include <random>
#include <set>

using namespace moec;
using namespace moec::bench;

namespace {

/// Random elements are made once on the host and copied on the device to all
/// weights, each at an offset of its own.
constexpr uint64_t kBlockBytes = uint64_t(64) << 20;

Result<void> check(moec_status status) {
  if (status == MOEC_OK)
    return {};
  return Error{static_cast<ErrorCode>(status), moec_last_error()};
}

Result<std::vector<char>> randomElements(const std::string &type, int64_t count,
                                         double scale, uint64_t seed) {
  const reference::Element *element = reference::findElement(type);
  if (!element || !element->isFloat)
    return Error{ErrorCode::InvalidArgument,
                 "no random data for element type '" + type + "'"};
  std::vector<char> data(size_t(count * element->bytes));
  std::mt19937_64 random(seed);
  // About normal: a sum of four uniform 16-bit numbers, deviation `scale`.
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    double sum = 0;
    for (int part = 0; part < 4; ++part)
      sum += double((bits >> (16 * part)) & 0xFFFF) / 65536.0 - 0.5;
    reference::store(*element, data.data(), i, sum * 1.7320508 * scale);
  }
  return data;
}

} // namespace

/// Inputs and outputs of one layer of a graph.
struct Workload::Run {
  moec_layer *layer = nullptr;
  Buffer x, logits, out, ids;
};

Workload::~Workload() {
  for (moec_layer *layer : layers)
    moec_layer_destroy(layer);
  moec_context_destroy(context);
  moec_package_destroy(package);
}

std::string Workload::name() const { return moec_package_name(package); }
std::string Workload::arch() const { return moec_package_arch(package); }
int64_t Workload::maxTokens() const { return moec_package_max_tokens(package); }

Result<uint64_t> Workload::bytesOf(const char *name, int64_t tokens) const {
  uint64_t bytes = 0;
  if (Result<void> ok =
          check(moec_package_value_bytes(package, name, tokens, &bytes));
      !ok)
    return ok.takeError();
  return bytes;
}

Result<std::unique_ptr<Workload>>
Workload::load(const Device &device, const std::string &folder,
               const WorkloadOptions &options) {
  std::unique_ptr<Workload> work(new Workload(device, options));
  moec_load_options load = {};
  load.struct_size = sizeof load;
  load.device = device.isHost() ? MOEC_DEVICE_HOST : MOEC_DEVICE_CUDA;
  if (Result<void> ok =
          check(moec_package_load(folder.c_str(), &load, &work->package));
      !ok)
    return ok.takeError();
  work->manifestJson = nlohmann::json::parse(
      moec_package_manifest_json(work->package), nullptr, false);
  if (work->manifestJson.is_discarded() ||
      !work->manifestJson["layer"].is_object())
    return Error{ErrorCode::InvalidManifest,
                 folder + ": the manifest has no layer"};
  const nlohmann::json &layer = work->manifestJson["layer"];
  int64_t intermediate =
      layer.value("intermediate_size_per_partition", int64_t(0));
  int64_t hidden = layer.value("hidden_size", int64_t(0));
  bool gated = layer["activation"].value("gated", true);
  work->topK = layer.value("top_k", int64_t(0));
  work->localBegin = layer["local_experts"].value("begin", int64_t(0));
  work->localExperts = layer["local_experts"].value("count", int64_t(0));
  // Two flops for each weight of the expert.
  work->flopsPerPair =
      2.0 * double(hidden) * double(intermediate) * (gated ? 3 : 2);
  if (work->topK < 1 || work->localExperts < 1)
    return Error{ErrorCode::InvalidManifest,
                 folder + ": the manifest's layer has no experts"};
  if (Result<void> made = work->makeLayers(); !made)
    return made.takeError();
  return work;
}

Result<void> Workload::makeRandomBlock() {
  std::string type = manifestJson["layer"].value("input_type", "bf16");
  const reference::Element *element = reference::findElement(type);
  if (!element)
    return Error{ErrorCode::InvalidManifest, "unknown input type " + type};
  uint64_t bytes = device.isHost() ? uint64_t(1) << 20 : kBlockBytes;
  Result<std::vector<char>> data =
      randomElements(type, int64_t(bytes) / element->bytes, 0.02, options.seed);
  if (!data)
    return data.takeError();
  Result<Buffer> block = device.allocate(bytes);
  if (!block)
    return block.takeError();
  randomBlock = std::move(*block);
  return device.upload(randomBlock.data(), data->data(), bytes);
}

Result<void> Workload::fill(const Buffer &buffer, uint64_t offset) {
  uint64_t block = randomBlock.bytes();
  offset = offset % block / 256 * 256;
  for (uint64_t at = 0; at < buffer.bytes();) {
    uint64_t part = std::min(block - offset, buffer.bytes() - at);
    if (Result<void> copied =
            device.copy(static_cast<char *>(buffer.data()) + at,
                        static_cast<char *>(randomBlock.data()) + offset, part);
        !copied)
      return copied;
    at += part;
    offset = 0;
  }
  return {};
}

Result<void> Workload::makeLayers() {
  if (Result<void> made = makeRandomBlock(); !made)
    return made;
  struct Stored {
    std::string name;
    uint64_t bytes;
  };
  std::vector<Stored> stored;
  for (size_t i = 0; i < moec_package_num_values(package); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (Result<void> ok = check(moec_package_value(package, i, &value)); !ok)
      return ok;
    if (value.role != MOEC_STORED_WEIGHT)
      continue;
    Result<uint64_t> bytes = bytesOf(value.name, 1);
    if (!bytes)
      return bytes.takeError();
    stored.push_back({value.name, *bytes});
    weightBytes += *bytes;
  }
  // Two sets take turns where they fit, so that a layer never finds weights
  // that the layer before it has left in the L2 cache.
  Result<uint64_t> available = device.freeBytes();
  if (!available)
    return available.takeError();
  size_t sets = !device.isHost() && *available > 3 * weightBytes ? 2 : 1;
  for (size_t set = 0; set < sets; ++set) {
    std::vector<moec_tensor> tensors;
    for (const Stored &weight : stored) {
      Result<Buffer> buffer = device.allocate(weight.bytes);
      if (!buffer)
        return buffer.takeError();
      weights.push_back(std::move(*buffer));
      if (Result<void> ok =
              fill(weights.back(), 7919 * 4096 * uint64_t(weights.size()));
          !ok)
        return ok;
      moec_tensor tensor = {};
      tensor.name = weight.name.c_str();
      tensor.data = weights.back().data();
      tensors.push_back(tensor);
    }
    moec_layer *layer = nullptr;
    if (Result<void> ok =
            check(moec_layer_create(package, tensors.data(), tensors.size(),
                                    nullptr, device.stream(), &layer));
        !ok)
      return ok;
    layers.push_back(layer);
  }
  return device.synchronize();
}

Result<Workload::Run> Workload::makeRun(int64_t tokens, int index) {
  Run run;
  run.layer = layers[size_t(index) % layers.size()];
  auto allocate = [&](const char *name, Buffer &buffer) -> Result<void> {
    Result<uint64_t> bytes = bytesOf(name, tokens);
    if (!bytes)
      return bytes.takeError();
    Result<Buffer> made = device.allocate(*bytes);
    if (!made)
      return made.takeError();
    buffer = std::move(*made);
    return {};
  };
  auto randomize = [&](const char *name, const char *type, Buffer &buffer,
                       uint64_t stream) -> Result<void> {
    if (Result<void> ok = allocate(name, buffer); !ok)
      return ok;
    std::string element = manifestJson["layer"].value(type, "bf16");
    const reference::Element *row = reference::findElement(element);
    if (!row)
      return Error{ErrorCode::InvalidManifest, "unknown type " + element};
    Result<std::vector<char>> data =
        randomElements(element, int64_t(buffer.bytes()) / row->bytes, 1.0,
                       options.seed * 1000003 + uint64_t(index) * 131 + stream);
    if (!data)
      return data.takeError();
    return device.upload(buffer.data(), data->data(), buffer.bytes());
  };
  for (Result<void> ok : {randomize("x", "input_type", run.x, 1),
                          randomize("logits", "logits_type", run.logits, 2),
                          allocate("out", run.out), allocate("ids", run.ids)})
    if (!ok)
      return ok.takeError();
  return run;
}

Result<void> Workload::queue(const Run &run, int64_t tokens) {
  auto tensor = [](const char *name, const Buffer &buffer) {
    moec_tensor made = {};
    made.name = name;
    made.data = buffer.data();
    return made;
  };
  const moec_tensor tensors[] = {
      tensor("x", run.x), tensor("logits", run.logits), tensor("out", run.out)};
  moec_run_options run_options = {};
  run_options.struct_size = sizeof run_options;
  if (!options.variant.empty())
    run_options.variant = options.variant.c_str();
  return check(moec_run(run.layer, context, device.stream(), tensors,
                        std::size(tensors), tokens, &run_options));
}

Result<int64_t> Workload::countTouched(Run &run, int64_t tokens) {
  moec_tensor tensors[4] = {};
  const std::pair<const char *, const Buffer *> given[] = {
      {"x", &run.x},
      {"logits", &run.logits},
      {"out", &run.out},
      {"ids", &run.ids}};
  for (size_t i = 0; i < 4; ++i) {
    tensors[i].name = given[i].first;
    tensors[i].data = given[i].second->data();
  }
  if (Result<void> ok = check(moec_run(run.layer, context, device.stream(),
                                       tensors, 4, tokens, nullptr));
      !ok)
    return ok.takeError();
  if (Result<void> ok = device.synchronize(); !ok)
    return ok.takeError();
  std::vector<int32_t> ids(size_t(tokens * topK));
  if (Result<void> ok = device.download(ids.data(), run.ids.data(),
                                        ids.size() * sizeof(int32_t));
      !ok)
    return ok.takeError();
  std::set<int32_t> touched;
  for (int32_t id : ids)
    if (id >= localBegin && id < localBegin + localExperts)
      touched.insert(id);
  return int64_t(touched.size());
}

Result<Measurement> Workload::measure(int64_t tokens) {
  Measurement result;
  result.tokens = tokens;
  size_t index = 0;
  if (Result<void> ok =
          check(moec_package_variant_for(package, tokens, &index));
      !ok)
    return ok.takeError();
  moec_variant variant = {};
  variant.struct_size = sizeof variant;
  if (Result<void> ok = check(moec_package_variant(package, index, &variant));
      !ok)
    return ok.takeError();
  result.variant = options.variant.empty() ? variant.name : options.variant;

  uint64_t needed = 0;
  if (Result<void> ok =
          check(moec_package_workspace_bytes(package, tokens, &needed));
      !ok)
    return ok.takeError();
  if (needed > workspace.bytes() || !context) {
    Result<Buffer> larger = device.allocate(needed);
    if (!larger)
      return larger.takeError();
    moec_context_destroy(std::exchange(context, nullptr));
    workspace = std::move(*larger);
    if (Result<void> ok = check(moec_context_create(
            package, workspace.data(), workspace.bytes(), &context));
        !ok)
      return ok.takeError();
  }

  // The first layer says how many experts a layer touches, hence how many
  // layers a graph needs.
  double perExpert = double(weightBytes) / double(localExperts);
  std::vector<Run> runs;
  double touched = 0;
  for (int wanted = std::max(options.repeats, 1), i = 0; i < wanted; ++i) {
    Result<Run> run = makeRun(tokens, i);
    if (!run)
      return run.takeError();
    Result<int64_t> count = countTouched(*run, tokens);
    if (!count)
      return count.takeError();
    touched += double(*count);
    runs.push_back(std::move(*run));
    if (i == 0 && options.repeats == 0 && !device.isHost()) {
      double bytes = std::max(1.0, double(*count) * perExpert);
      wanted = int(std::clamp(
          (double(options.touchedBytes) + bytes - 1) / bytes, 1.0, 64.0));
    }
  }
  result.repeats = int(runs.size());
  result.touchedExperts = touched / double(runs.size());
  result.bytes =
      result.touchedExperts * perExpert +
      double(runs[0].x.bytes() + runs[0].logits.bytes() + runs[0].out.bytes());
  result.flops =
      double(tokens) * double(topK) * flopsPerPair * double(localExperts) /
      double(manifestJson["layer"].value("num_experts", localExperts));

  Result<double> ms = device.median(
      [&]() -> Result<void> {
        for (const Run &run : runs)
          if (Result<void> ok = queue(run, tokens); !ok)
            return ok;
        return {};
      },
      /*warmups=*/3, /*least=*/device.isHost() ? 1 : 7, /*budgetMs=*/40);
  if (!ms)
    return ms.takeError();
  result.microseconds = *ms * 1000 / double(runs.size());
  return result;
}
