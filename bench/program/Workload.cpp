//===- Workload.cpp - one package, ready to be timed ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "bench/program/Workload.h"

#include "runtime/support/Json.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <deque>
#include <set>

using namespace moec;
using namespace moec::bench;
using tools::Buffer;
using tools::Device;

namespace {

Result<void> check(moec_status status) {
  if (status == MOEC_OK)
    return {};
  return Error{static_cast<ErrorCode>(status), moec_last_error()};
}

} // namespace

/// Inputs and outputs of one layer of a graph.
struct Workload::Run {
  moec_layer *layer = nullptr;
  Buffer x, logits, out, ids;
  /// x, logits, out, and ids, which timed runs do not ask for.
  std::array<moec_tensor, 4> tensors;
  std::vector<Shape> shapes; ///< theirs, where they stay when a run moves
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

Result<moec_tensor> Workload::tensorOf(const char *name, const Buffer &buffer,
                                       int64_t tokens, Shape &shape) const {
  moec_tensor made = {};
  made.name = name;
  made.data = buffer.data();
  made.shape = shape.data();
  for (size_t i = 0; i < moec_package_num_values(package); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (Result<void> ok = check(moec_package_value(package, i, &value)); !ok)
      return ok.takeError();
    if (std::string_view(value.name) == name)
      made.rank = value.rank;
  }
  if (made.rank > int32_t(shape.size()))
    return Error{ErrorCode::InvalidManifest,
                 fmt::format("value '{}' has {} dimensions", name, made.rank)};
  if (Result<void> ok =
          check(moec_package_value_shape(package, name, tokens, shape.data()));
      !ok)
    return ok.takeError();
  return made;
}

Result<std::unique_ptr<Workload>>
Workload::load(const Device &device, const std::string &folder,
               const WorkloadOptions &options) {
  std::unique_ptr<Workload> work(new Workload(device, options));
  moec_load_options load = {};
  load.struct_size = sizeof load;
  load.rank_plus_one = options.rank + 1;
  load.device = device.onHost() ? MOEC_DEVICE_HOST : MOEC_DEVICE_CUDA;
  if (Result<void> ok =
          check(moec_package_load(folder.c_str(), &load, &work->package));
      !ok)
    return ok.takeError();
  std::string_view text = moec_package_manifest_json(work->package);
  Result<nlohmann::json> manifest =
      parseJsonObject(text, folder, ErrorCode::InvalidManifest, {text.size()});
  if (!manifest)
    return manifest.takeError();
  *work->manifestJson = std::move(*manifest);
  if (!work->manifestJson["layer"].is_object())
    return Error{ErrorCode::InvalidManifest,
                 folder + ": the manifest has no layer"};
  const nlohmann::json &layer = work->manifestJson["layer"];
  int64_t intermediate =
      layer.value("intermediate_size_per_partition", int64_t(0));
  int64_t hidden = layer.value("hidden_size", int64_t(0));
  bool gated = layer["activation"].value("gated", true);
  work->topK = layer.value("top_k", int64_t(0));
  work->numExperts = layer.value("num_experts", int64_t(0));
  work->localBegin = layer["local_experts"].value("begin", int64_t(0));
  work->localExperts = layer["local_experts"].value("count", int64_t(0));
  work->sharedExperts = layer.value("n_shared_experts", int64_t(0));
  // Two flops for each weight of the expert.
  work->flopsPerPair =
      2.0 * double(hidden) * double(intermediate) * (gated ? 3 : 2);
  if (work->topK < 1 || work->localExperts < 1 ||
      work->numExperts + work->sharedExperts < work->localExperts)
    return Error{ErrorCode::InvalidManifest,
                 folder + ": the manifest's layer has no experts"};
  if (Result<void> made = work->makeLayers(); !made)
    return made.takeError();
  return work;
}

Result<void> Workload::makeLayers() {
  struct Stored {
    std::string name, type;
    uint64_t bytes;
  };
  std::vector<Stored> stored;
  std::vector<Stored> apart; // packed weights that have memory of their own
  for (size_t i = 0; i < moec_package_num_values(package); ++i) {
    moec_value value = {};
    value.struct_size = sizeof value;
    if (Result<void> ok = check(moec_package_value(package, i, &value)); !ok)
      return ok;
    const bool isApart = value.role == MOEC_PACKED_WEIGHT && !*value.may_alias;
    if (value.role != MOEC_STORED_WEIGHT && !isApart)
      continue;
    Result<uint64_t> bytes = bytesOf(value.name, 1);
    if (!bytes)
      return bytes.takeError();
    if (isApart) {
      apart.push_back({value.name, "", *bytes});
      continue;
    }
    // The first type is the default one.
    std::string types = value.element_types;
    stored.push_back({value.name, types.substr(0, types.find(' ')), *bytes});
    weightBytes += *bytes;
  }
  // Two sets take turns where they fit, so that a layer never finds weights
  // that the layer before it has left in the L2 cache.
  Result<int64_t> available = device.freeBytes();
  if (!available)
    return available.takeError();
  size_t sets =
      !device.onHost() && uint64_t(*available) > 3 * weightBytes ? 2 : 1;
  for (size_t set = 0; set < sets; ++set) {
    std::vector<moec_tensor> tensors;
    std::deque<Shape> shapes;
    auto add = [&](const Stored &weight) -> Result<void> {
      Buffer buffer = TRY(device.allocate(weight.bytes));
      weights.push_back(std::move(buffer));
      shapes.emplace_back();
      moec_tensor tensor =
          TRY(tensorOf(weight.name.c_str(), weights.back(), 1, shapes.back()));
      tensors.push_back(tensor);
      return {};
    };
    for (const Stored &weight : stored) {
      TRY(add(weight));
      TRY(random.fill(weights.back(), weight.type, kindOfWeight(weight.name),
                      weights.size()));
    }
    for (const Stored &weight : apart)
      TRY(add(weight));
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
  for (Result<void> ok : {allocate("x", run.x), allocate("logits", run.logits),
                          allocate("out", run.out), allocate("ids", run.ids)})
    if (!ok)
      return ok.takeError();
  run.shapes.resize(run.tensors.size());
  const std::pair<const char *, const Buffer *> given[] = {
      {"x", &run.x},
      {"logits", &run.logits},
      {"out", &run.out},
      {"ids", &run.ids}};
  for (size_t i = 0; i < run.tensors.size(); ++i) {
    Result<moec_tensor> tensor =
        tensorOf(given[i].first, *given[i].second, tokens, run.shapes[i]);
    if (!tensor)
      return tensor.takeError();
    run.tensors[i] = *tensor;
  }
  if (Result<void> ok =
          random.fill(run.x, manifestJson["layer"].value("in_dtype", "bf16"),
                      Kind::Input, uint64_t(index) * 131 + 1);
      !ok)
    return ok.takeError();
  std::string type = manifestJson["layer"].value("router_logits_dtype", "bf16");
  Result<std::vector<char>> logits =
      routingLogits(options.routing, type, {tokens, numExperts, topK},
                    options.seed * 1000003 + uint64_t(index) * 131 + 2);
  if (!logits)
    return logits.takeError();
  if (std::ssize(*logits) != run.logits.bytes())
    return Error{ErrorCode::InvalidManifest,
                 fmt::format("expected logits of {} bytes (tokens x experts of "
                             "{}), got {}",
                             logits->size(), type, run.logits.bytes())};
  if (Result<void> ok =
          device.upload(run.logits.data(), logits->data(), logits->size());
      !ok)
    return ok.takeError();
  return run;
}

Result<void> Workload::queue(const Run &run, int64_t tokens) {
  moec_run_options runOptions = {};
  runOptions.struct_size = sizeof runOptions;
  if (!options.variant.empty())
    runOptions.variant = options.variant.c_str();
  return check(moec_run(run.layer, context, device.stream(), run.tensors.data(),
                        run.tensors.size() - 1, tokens, &runOptions));
}

Result<Workload::Touched> Workload::countTouched(Run &run, int64_t tokens) {
  moec_run_options runOptions = {};
  runOptions.struct_size = sizeof runOptions;
  if (!options.variant.empty())
    runOptions.variant = options.variant.c_str();
  if (Result<void> ok = check(moec_run(run.layer, context, device.stream(),
                                       run.tensors.data(), run.tensors.size(),
                                       tokens, &runOptions));
      !ok)
    return ok.takeError();
  if (Result<void> ok = device.synchronize(); !ok)
    return ok.takeError();
  std::vector<int32_t> ids(size_t(run.ids.bytes()) / sizeof(int32_t));
  if (Result<void> ok =
          device.download(ids.data(), run.ids.data(), run.ids.bytes());
      !ok)
    return ok.takeError();
  Touched touched;
  std::set<int32_t> experts;
  for (int32_t id : ids)
    if (id >= localBegin && id < localBegin + localExperts) {
      experts.insert(id);
      ++touched.pairs;
    }
  touched.experts = int64_t(experts.size());
  return touched;
}

int Workload::repeatsFor(double perExpert, const Touched &touched) const {
  // A rank may have no pair at all.
  const double bytes =
      perExpert * double(std::max<int64_t>(touched.experts, 1));
  return int(
      std::clamp(std::ceil(double(options.touchedBytes) / bytes), 1.0, 64.0));
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
  if (needed > uint64_t(workspace.bytes()) || !context) {
    Result<Buffer> larger = device.allocate(needed);
    if (!larger)
      return larger.takeError();
    moec_context_destroy(std::exchange(context, nullptr));
    workspace = std::move(*larger);
    if (Result<void> ok = check(moec_context_create(package, workspace.data(),
                                                    uint64_t(workspace.bytes()),
                                                    nullptr, &context));
        !ok)
      return ok.takeError();
  }

  double perExpert = double(weightBytes) / double(localExperts);
  result.repeats = options.repeats;
  std::vector<Run> runs;
  for (int i = 0; i == 0 || i < result.repeats; ++i) {
    Result<Run> run = makeRun(tokens, i);
    if (!run)
      return run.takeError();
    Result<Touched> touched = countTouched(*run, tokens);
    if (!touched)
      return touched.takeError();
    if (result.repeats < 1)
      result.repeats = device.onHost() ? 1 : repeatsFor(perExpert, *touched);
    result.touchedExperts += double(touched->experts) / result.repeats;
    result.localPairs += double(touched->pairs) / result.repeats;
    runs.push_back(std::move(*run));
  }
  result.bytes =
      result.touchedExperts * perExpert +
      double(runs[0].x.bytes() + runs[0].logits.bytes() + runs[0].out.bytes());
  result.flops = result.localPairs * flopsPerPair;

  for (int pass = 0; pass < options.passes; ++pass) {
    Result<double> ms = device.median(
        [&]() -> Result<void> {
          for (const Run &run : runs)
            if (Result<void> ok = queue(run, tokens); !ok)
              return ok;
          return {};
        },
        {.warmups = 3,
         .least = device.onHost() ? 1 : 7,
         .budgetMs = 40,
         .idleAboveMs = 0.4 * result.repeats,
         .idleMs = options.idleMs});
    if (!ms)
      return ms.takeError();
    result.passes.push_back(*ms * 1000 / result.repeats);
  }
  result.microseconds = tools::medianOf(result.passes);
  return result;
}
