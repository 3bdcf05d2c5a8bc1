//===- CApiCheckpoint.cpp - the C interface: checkpoints ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the functions of moec/moec.h for checkpoints on top of
// runtime/weights. Host memory is checked against the values of the package
// before anything is written to it.
//
//===----------------------------------------------------------------------===//

#include "runtime/api/CallerStructs.h"

#include <set>

using namespace moec;
using namespace moec::runtime;

// Parameters have the names of moec.h, which follows C conventions.
// NOLINTBEGIN(readability-identifier-naming)

//===----------------------------------------------------------------------===//
// Opening checkpoints
//===----------------------------------------------------------------------===//

moec_status moec_checkpoint_open(const char *path,
                                 moec_checkpoint **checkpoint) {
  return guarded([&]() -> Result<void> {
    if (checkpoint)
      *checkpoint = nullptr;
    if (!path || !checkpoint)
      return nullArgument("moec_checkpoint_open", path ? "checkpoint" : "path");
    auto files = TRY(weights::Checkpoint::open(path));
    *checkpoint = new moec_checkpoint{
        std::make_shared<weights::Checkpoint>(std::move(files))};
    return {};
  });
}

void moec_checkpoint_close(moec_checkpoint *checkpoint) { delete checkpoint; }

moec_status moec_checkpoint_layers_json(const moec_checkpoint *checkpoint,
                                        moec_text **layers) {
  return guarded([&]() -> Result<void> {
    if (layers)
      *layers = nullptr;
    if (!checkpoint || !layers)
      return nullArgument("moec_checkpoint_layers_json",
                          checkpoint ? "layers" : "checkpoint");
    *layers = new moec_text{weights::layersJson(*checkpoint->files)};
    return {};
  });
}

static Result<weights::LoadOptions>
readWeightsOptions(const moec_weights_options *given, int64_t layer) {
  auto options = TRY(readOptions(given, "moec_weights_options"));
  if (layer < -1)
    return invalidArgument("moec_weights_open: expected a layer >= 0, or -1 "
                           "for the first that has experts, got {}",
                           layer);
  weights::LoadOptions made;
  made.layer = layer;
  made.quantize = options.quantize != 0;
  made.noSharedExperts = options.no_shared_experts != 0;
  if (!options.ignored && options.num_ignored > 0)
    return nullArgument("moec_weights_options", "ignored");
  for (size_t i = 0; i < options.num_ignored; ++i) {
    if (!options.ignored[i])
      return nullArgument("moec_weights_options", "a word of ignored");
    made.ignored.emplace_back(options.ignored[i]);
  }
  made.names = {"moec_weights_options.quantize",
                "moec_weights_options.no_shared_experts",
                "moec_weights_options.ignored="};
  return made;
}

moec_status moec_weights_open(moec_checkpoint *checkpoint,
                              const moec_package *package, int64_t layer,
                              const moec_weights_options *options,
                              moec_weights **weights) {
  return guarded([&]() -> Result<void> {
    if (weights)
      *weights = nullptr;
    if (!checkpoint || !package || !weights)
      return nullArgument("moec_weights_open", !checkpoint ? "checkpoint"
                                               : !package  ? "package"
                                                           : "weights");
    auto read = TRY(readWeightsOptions(options, layer));
    auto loader = TRY(weights::WeightLoader::create(
        *checkpoint->files, package->package->manifest(), read));
    *weights = new moec_weights{package->package, checkpoint->files,
                                std::move(loader)};
    return {};
  });
}

int64_t moec_weights_layer(const moec_weights *weights) {
  return weights ? weights->loader.layer() : -1;
}

void moec_weights_close(moec_weights *weights) { delete weights; }

//===----------------------------------------------------------------------===//
// Loading weights
//===----------------------------------------------------------------------===//

/// Returns the stored weight called `name`.
static Result<Value> storedWeight(const Package &package,
                                  std::string_view name) {
  std::string known;
  for (const Value &value : package.manifest().values) {
    if (value.role != ValueRole::StoredWeight)
      continue;
    if (value.name == name)
      return value;
    known += (known.empty() ? "" : ", ") + value.name;
  }
  return invalidArgument(
      "package {} has no stored weight '{}'; its stored weights are {}",
      package.manifest().name, name, known);
}

static Result<void> load(const moec_weights &weights, const Tensor &tensor,
                         const weights::ExpertRange &asked) {
  const Package &package = *weights.package;
  Value value = TRY(storedWeight(package, tensor.name));
  const weights::ExpertRange range = TRY(weights.loader.rangeOf(value, asked));
  // The CPU copies the bytes, so the destination needs no alignment.
  value.alignment = 1;
  if (asked.count != -1 && !value.shape.empty())
    value.shape.front() = Expression(range.count);
  auto symbols =
      TRY(symbolsFor(package.manifest(), /*tokens=*/1, package.smCount()));
  TRY(bindTensor(value, symbols, tensor));
  auto bytes = TRY(valueBytes(value, symbols));
  return weights.loader.load(
      value, {static_cast<std::byte *>(tensor.data), size_t(bytes)}, asked);
}

static moec_status loadAll(const char *function, const moec_weights *weights,
                           const moec_tensor *tensors, size_t count,
                           const weights::ExpertRange &range) {
  return guarded([&]() -> Result<void> {
    if (!weights)
      return nullArgument(function, "weights");
    std::vector<Tensor> storage;
    auto list = TRY(readTensors(tensors, count, function, storage));
    std::set<std::string_view> names;
    for (const Tensor &tensor : list)
      if (!names.insert(tensor.name).second)
        return invalidArgument("weight '{}' was given twice", tensor.name);
    for (const Tensor &tensor : list)
      TRY(load(*weights, tensor, range));
    return {};
  });
}

moec_status moec_weights_load(const moec_weights *weights,
                              const moec_tensor *tensors, size_t num_tensors) {
  return loadAll("moec_weights_load", weights, tensors, num_tensors, {});
}

moec_status moec_weights_load_experts(const moec_weights *weights,
                                      const moec_tensor *tensors,
                                      size_t num_tensors, int64_t first_expert,
                                      int64_t num_experts) {
  if (num_experts < 0)
    return fail(invalidArgument("moec_weights_load_experts: expected a number "
                                "of experts >= 0, got {}",
                                num_experts));
  return loadAll("moec_weights_load_experts", weights, tensors, num_tensors,
                 {first_expert, num_experts});
}

moec_status moec_package_weight_map_json(const moec_package *package,
                                         moec_text **map) {
  return guarded([&]() -> Result<void> {
    if (map)
      *map = nullptr;
    if (!package || !map)
      return nullArgument("moec_package_weight_map_json",
                          package ? "map" : "package");
    const Package &code = *package->package;
    auto symbols =
        TRY(symbolsFor(code.manifest(), /*tokens=*/1, code.smCount()));
    auto plan = TRY(weights::WeightPlan::create(code.manifest()));
    auto text = TRY(plan.mapJson(code.manifest(), symbols));
    *map = new moec_text{std::move(text)};
    return {};
  });
}

// NOLINTEND(readability-identifier-naming)
