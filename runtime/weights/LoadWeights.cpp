//===- LoadWeights.cpp - loads weights from a checkpoint ------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An expert weight consists of parts: the gate rows and the up rows, or the w2
// rows, of each expert. First the tensor that holds each part is found by name.
// A tensor may hold gate and up together, or all experts. After all parts are
// found, they are copied in parallel. Other functions load routing tensors and
// activation scales.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include "runtime/host/Parallel.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/Env.h"
#include "runtime/support/Progress.h"
#include "runtime/weights/NumberRules.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>

using namespace moec;
using namespace moec::weights;

struct WeightLoader::Piece {
  Source from;
  TargetMatrix to;
};

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

/// Describes the layers that have experts, for error messages: "layer 3", "a
/// layer from 0 to 60", or "one of the layers 1, 3, 5, ...".
static std::string layersText(const std::set<int64_t> &layers) {
  constexpr size_t kMost = 16;
  const int64_t first = *layers.begin(), last = *layers.rbegin();
  if (first == last)
    return fmt::format("layer {}", first);
  if (static_cast<size_t>(last - first) + 1 == layers.size())
    return fmt::format("a layer from {} to {}", first, last);
  const std::vector<int64_t> all(layers.begin(), layers.end());
  const std::span<const int64_t> shown =
      std::span(all).first(std::min(kMost, all.size()));
  return fmt::format("one of the layers {}{}", fmt::join(shown, ", "),
                     shown.size() < all.size() ? ", ..." : "");
}

Result<void> WeightLoader::findLayer(int64_t layer, bool hasRoutingBias) {
  std::map<int64_t, std::map<TensorRole, Found>> layers;
  std::map<int64_t, Found> biasesOfGates;
  for (const auto &[name, file] : checkpoint.names()) {
    const std::optional<TensorName> parsed = readTensorName(name);
    if (!parsed || (layer >= 0 && parsed->layer != layer))
      continue;
    if (parsed->mayBeOfRouter) {
      biasesOfGates.emplace(parsed->layer, Found{name, *parsed});
      continue;
    }
    auto [known, isNew] =
        layers[parsed->layer].emplace(parsed->role, Found{name, *parsed});
    if (!isNew)
      return refused("{}: tensors '{}' and '{}' are the same weight of layer "
                     "{}; expected one of them",
                     checkpoint.path(), known->second.name, name,
                     parsed->layer);
  }
  for (auto &[candidate, roles] : layers)
    if (std::ranges::any_of(roles, [](const auto &entry) {
          return !entry.first.shared && entry.first.part != Part::Routing;
        })) {
      number = candidate;
      tensors = std::move(roles);
      if (auto it = biasesOfGates.find(number);
          hasRoutingBias && it != biasesOfGates.end())
        tensors.emplace(it->second.parsed.role, it->second);
      return {};
    }
  std::set<int64_t> found;
  for (const auto &[name, file] : checkpoint.names())
    if (const std::optional<TensorName> parsed = readTensorName(name);
        parsed && !parsed->mayBeOfRouter && !parsed->role.shared &&
        parsed->role.part != Part::Routing)
      found.insert(parsed->layer);
  if (layer >= 0 && !found.empty())
    return refused("{}: layer {} has no experts' weights; expected {}",
                   checkpoint.path(), layer, layersText(found));
  const std::string example =
      checkpoint.names().empty()
          ? "no tensors"
          : fmt::format("{} tensors, '{}' among them",
                        checkpoint.names().size(),
                        checkpoint.names().begin()->first);
  return refused("{}: expected experts' weights{}, names such as "
                 "'model.layers.3.mlp.experts.0.gate_proj.weight' "
                 "(docs/reference/checkpoints.md lists the words), got {}",
                 checkpoint.path(),
                 layer >= 0 ? fmt::format(" in layer {}", layer) : "", example);
}

Result<WeightLoader> WeightLoader::create(Checkpoint &checkpoint,
                                          const Manifest &manifest,
                                          const LoadOptions &options) {
  WeightPlan plan = TRY(WeightPlan::create(manifest));
  WeightLoader made(std::move(plan), checkpoint, options.names);
  // A package for a part of the layer, such as its routing, uses only a few of
  // the layer's tensors, so the check for unused tensors would always fail.
  if (const auto part = manifest.layer->find("part");
      part != manifest.layer->end() && part->is_string())
    return refused("package '{}' is part '{}' of a layer, and a checkpoint is "
                   "held against a whole one; accepted: the package of the "
                   "layer, whose weights have the same names",
                   made.shape.name, part->get<std::string>());
  if (options.quantize && manifest.layer->contains("weights_dtype"))
    return refused("layer '{}' takes its weights as floats and quantizes them "
                   "itself; accepted: no {}",
                   made.shape.name, options.names.quantize);
  const bool hasRoutingBias =
      std::ranges::any_of(manifest.values, [](const Value &value) {
        return kindOfLayer(value.name) == Kind::RoutingBias;
      });
  TRY(made.findLayer(options.layer, hasRoutingBias));
  TRY(made.checkTaken(manifest, options));
  if (options.quantize)
    TRY(made.quantizeExperts());
  return made;
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

Result<void> WeightLoader::loadExperts(const Wanted &wanted,
                                       std::span<std::byte> to,
                                       const ExpertRange &range) const {
  const std::vector<Part> parts = partsOf(wanted.first);
  std::vector<Piece> pieces;
  int64_t done = 0; // elements copied so far
  for (int64_t i = range.first; i < range.first + range.count; ++i) {
    const int64_t expert = expertAt(wanted, i);
    int64_t elements = 0;
    for (Part part : parts) {
      Source from = TRY(find(wanted, expert, part));
      TargetMatrix target;
      target.data = to.data();
      target.bits = wanted.bits;
      target.storage = host::storageOf(wanted.element);
      const int64_t count = int64_t(parts.size());
      const int64_t rows = from.matrix.rows, columns = from.matrix.columns;
      const int64_t all = count * rows;
      elements = all * columns;
      if ((done + elements) * wanted.bits > int64_t(to.size()) * 8)
        return invalidManifest(
            "value '{}' has {} bytes, and its layer specifies more",
            wanted.value, to.size());
      target.rowStride = wanted.rowAxis == 1 ? columns : 1;
      target.columnStride = wanted.rowAxis == 1 ? 1 : all;
      target.data += done * wanted.bits / 8;
      const Lines place = TRY(placeOf(wanted, part, rows));
      target = target.part(place.begin, rows, place.step, 0, columns);
      pieces.push_back({std::move(from), target});
    }
    done += elements;
  }
  if (done * wanted.bits != int64_t(to.size()) * 8)
    return invalidManifest(
        "value '{}' has {} bytes, and its layer specifies {}", wanted.value,
        to.size(), done * wanted.bits / 8);
  std::mutex mutex;
  std::optional<Error> failed;
  int64_t failedAt = 0; // index of the first copy that failed; makes the error
                        // independent of thread timing
  Progress progress("parts of experts read", int64_t(pieces.size()));
  host::parallelFor(usableThreads(), int64_t(pieces.size()), 1,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const Piece &piece = pieces[size_t(i)];
                        Result<void> ok = copyMatrix(
                            piece.from.matrix, piece.to, piece.from.conversion,
                            piece.from.inverse, piece.from.rule);
                        progress.advance();
                        if (ok)
                          continue;
                        const std::lock_guard<std::mutex> guard(mutex);
                        if (!failed || i < failedAt) {
                          failed = badNumbers(piece.from, ok.error(), wanted);
                          failedAt = i;
                        }
                      }
                    });
  if (failed)
    return *failed;
  return {};
}

Error WeightLoader::badNumbers(const Source &from, const Error &error,
                               const Wanted &wanted) const {
  return Error(error.code, "{}: tensor '{}' of {} {}; value '{}' is {}",
               checkpoint.path(), from.tensor, from.owner, error.message,
               wanted.value, wanted.element);
}

/// Loads one activation scale per expert of the whole layer. Gate and up
/// multiply the same rows of x, so the larger of their two scales is used.
Result<void> WeightLoader::loadInputScales(const Wanted &wanted,
                                           std::span<std::byte> to) const {
  // Shared experts with their own weights have their own scales.
  const int64_t rows = shape.hasSharedMlp() ? 0 : shape.shared;
  const int64_t begin = wanted.ofSharedMlp ? shape.experts : 0;
  const int64_t experts = wanted.ofSharedMlp ? 1 : shape.experts + rows;
  if (to.size() != size_t(experts) * sizeof(float))
    return invalidManifest(
        "value '{}' has {} bytes, and its layer specifies {}", wanted.value,
        to.size(), experts * 4);
  const std::vector<Part> parts = partsOf(wanted.first);
  for (int64_t expert = 0; expert < experts; ++expert) {
    float largest = 0;
    for (Part part : parts) {
      Source from = TRY(find(wanted, begin + expert, part));
      float number = 0;
      TargetMatrix target;
      target.data = reinterpret_cast<std::byte *>(&number);
      target.bits = 32;
      target.storage = host::Storage::F32;
      if (Result<void> ok = copyMatrix(from.matrix, target, from.conversion,
                                       from.inverse, from.rule);
          !ok)
        return badNumbers(from, ok.error(), wanted);
      largest = std::max(largest, number);
    }
    std::memcpy(to.data() + expert * int64_t(sizeof(float)), &largest,
                sizeof(float));
  }
  return {};
}

/// Loads a tensor that belongs to the layer's routing, not to an expert.
Result<void> WeightLoader::loadRouting(const Value &value, Kind kind,
                                       std::span<std::byte> to) const {
  const auto it = tensors.find({false, kAllExperts, Part::Routing, kind});
  if (it == tensors.end())
    return refused(
        "{}: layer {}, value '{}': expected a tensor called {}, got none",
        checkpoint.path(), number, value.name, textOf(kind).name);
  const StoredTensor *tensor = TRY(tensorOf(it->second));
  const std::string &element = value.elementTypes.front();
  const Conversion conversion = conversionFor(kind, tensor->type, element);
  const int64_t bits = bitsOf(tensor->type);
  const int64_t count = int64_t(tensor->bytes.size()) * 8 / bits;
  TargetMatrix target;
  target.data = to.data();
  target.bits = findElementType(element)->bits;
  target.storage = host::storageOf(element);
  std::vector<int64_t> extents;
  for (const Expression &extent : value.shape) {
    int64_t size = TRY(extent.evaluate(Symbols()));
    extents.push_back(size);
  }
  // Some routers store the bias with a dimension for a single expert group, [1,
  // experts].
  std::vector<int64_t> given = tensor->shape;
  if (kind == Kind::RoutingBias && given.size() == 2 && given.front() == 1)
    given.erase(given.begin());
  // Sinks (shared experts that are always selected) have no routing bias in
  // checkpoints, because it would not be used.
  std::vector<int64_t> expected = extents;
  if (kind == Kind::RoutingBias)
    expected.front() -= shape.sinks;
  const bool oneOfAll = it->second.parsed.oneOfAll;
  if (oneOfAll)
    expected = {1};
  int64_t numbers = 1;
  for (int64_t extent : extents)
    numbers *= extent;
  if (conversion == Conversion::None || given != expected ||
      numbers * target.bits != int64_t(to.size()) * 8)
    return refused(
        "{}: tensor '{}': expected {} {} for value '{}' of layer '{}', got {}",
        checkpoint.path(), it->second.name, element, shapeText(expected),
        value.name, shape.name, tensor->describe());
  std::ranges::fill(to, std::byte(0));
  SourceMatrix source;
  source.data = tensor->bytes.data();
  source.bits = bits;
  source.storage = storageOfType(tensor->type);
  source.rows = target.rows = 1;
  source.columns = target.columns = count;
  if (oneOfAll) {
    source.rows = target.rows = numbers;
    target.rowStride = 1;
  }
  Result<void> ok = copyMatrix(source, target, conversion, /*inverse=*/false,
                               ruleOf(kind, {}, /*areFloats=*/false));
  if (!ok)
    return Error(ok.error().code, "{}: tensor '{}' {}; value '{}' is {}",
                 checkpoint.path(), it->second.name, ok.error().message,
                 value.name, element);
  return ok;
}

Result<ExpertRange> WeightLoader::rangeOf(const Value &value,
                                          const ExpertRange &range) const {
  const int64_t all = isOfSharedMlp(value.name) ? 1 : shape.localCount;
  if (range.first < 0 || range.count < -1 || range.first > all ||
      range.count > all - range.first)
    return invalidArgument("value '{}': expected experts within [0, {}), got "
                           "{} from {} on",
                           value.name, all, range.count, range.first);
  if (!isOfExperts(value.name) && (range.first != 0 || range.count != -1))
    return invalidArgument("value '{}' is not made of one part for each local "
                           "expert; load all of it",
                           value.name);
  return ExpertRange{range.first,
                     range.count == -1 ? all - range.first : range.count};
}

Result<void> WeightLoader::load(const Value &value, std::span<std::byte> to,
                                const ExpertRange &range) const {
  const ExpertRange some = TRY(rangeOf(value, range));
  if (const std::optional<Kind> kind = kindOfLayer(value.name))
    return loadRouting(value, *kind, to);
  if (isInputScale(value.name))
    return loadInputScales(wantedInputScale(value), to);
  if (isGroupIndex(value.name))
    return loadGroupIndex(value, to, some);
  if (!isOfExperts(value.name))
    return refused("value '{}': no checkpoint's name is known for it; "
                   "accepted: a layer without it",
                   value.name);
  const Wanted wanted = TRY(wantedOf(value));
  if (wanted.packed)
    TRY(checkOrder(wanted, some));
  return loadExperts(wanted, to, some);
}
