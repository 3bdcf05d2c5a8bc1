//===- HostWeights.cpp - stored weights on the host -----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All cores fill the arrays. The values depend only on the seed and the
// position.
//
//===----------------------------------------------------------------------===//

#include "tools/moec-run/HostWeights.h"

#include "runtime/support/Progress.h"
#include "runtime/support/Sha256.h"
#include "test/reference/Check.h"
#include "test/reference/QuantizeWeights.h"
#include "test/reference/Stored.h"
#include "test/reference/TestData.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

using namespace moec;
using namespace moec::run;
using reference::Element;
using reference::Layer;

// Cost of creating a code (quantized value) or moving it to its place, in
// multiplications.
static constexpr int64_t kStepsOfCode = 16;

static std::string weightOfNumber(size_t number) {
  return std::string("activation_") + reference::kActivationNumbers[number];
}

namespace {
using Fill = std::function<void(const Layer &, uint64_t, int64_t, int64_t,
                                int64_t, void *)>;

/// The shape of a weight: [experts, rows, columns].
struct WeightShape {
  std::string name;
  int64_t experts, rows, columns;
  const Element *element;
  Fill fill;
  /// True if each local expert has its own part of the weight. Otherwise the
  /// weight belongs to all experts or to the router.
  bool ofLocalExperts;
  /// True if the weight belongs to the MLP of shared experts; its name then has
  /// the prefix kOfShared.
  bool ofShared = false;

  int64_t rowBytes() const { return element->bytesOf(columns); }
  int64_t expertBytes() const { return rows * rowBytes(); }
};
} // namespace

static constexpr std::string_view kOfShared = "shared_";
/// XORed with the seed, so that shared experts have other random values than
/// routed experts.
static constexpr uint64_t kSharedSeed = 0x5ead;

/// Returns the layer that owns the weight, and the weight's name in that layer.
static Layer layerOf(const Layer &layer, const WeightShape &shape) {
  return shape.ofShared ? layer.sharedMlp() : layer;
}
static std::string nameOf(const WeightShape &shape) {
  return shape.ofShared ? shape.name.substr(kOfShared.size()) : shape.name;
}

/// Returns the function that creates codes, or the floats that will be
/// quantized.
static Fill fillOf(const Layer &layer, bool first) {
  if (!layer.storedWeightType)
    return first ? reference::fillW13 : reference::fillW2;
  return [first](const Layer &of, uint64_t seed, int64_t expert, int64_t row,
                 int64_t rows, void *destination) {
    reference::fillFloats(of, first, seed, expert, row, rows, destination);
  };
}

/// Returns true if `layer`, which is only a part of a layer, reads the weight.
static bool isOfPart(const Layer &layer, std::string_view name) {
  if (layer.part == "gate_up" || layer.part == "down") {
    const bool first = name.starts_with("w13") || name == "b13" ||
                       name.starts_with("a1_") ||
                       name.starts_with("activation_");
    const bool second = name.starts_with("w2") || name == "b2" ||
                        name.starts_with("a2_") || name == "constant_experts" ||
                        name == "post_expert_norm";
    return layer.part == "gate_up" ? first : second;
  }
  if (layer.part == "quantize" && name == "a1_scale")
    return true;
  const bool routes = layer.part == "route" ||
                      (layer.part == "quantize" && layer.weightOnInput);
  return routes && (name == "routing_bias" || name == "per_expert_scale" ||
                    name == "hash_table");
}

namespace {
/// Lists a layer's weights as they are passed to a device.
class WeightList {
public:
  explicit WeightList(const Layer &layer) : layer(layer) {}

  std::vector<WeightShape> list() &&;

private:
  /// Adds a weight that each local expert has.
  void add(std::string name, int64_t rows, int64_t columns,
           const Element &element, Fill fill) {
    shapes.push_back({std::move(name), layer.localExperts, rows, columns,
                      &element, std::move(fill), true});
  }
  /// Adds a weight that all experts share.
  void addOnce(const char *name, int64_t rows, int64_t columns,
               const Element &element, Fill fill) {
    shapes.push_back(
        {name, 1, rows, columns, &element, std::move(fill), false});
  }
  void addMatrices();
  void addScales();
  void addGroupIndices();
  void addActivationScales();
  void addRouterWeights();
  void addActivationNumbers();
  void addSharedMlp();

  const Layer &layer;
  const Element &f32 = *reference::findElement("f32");
  const Element &i32 = *reference::findElement("i32");
  std::vector<WeightShape> shapes;
};
} // namespace

void WeightList::addMatrices() {
  const Element &weight =
      layer.storedWeightType ? *layer.storedWeightType : *layer.weightType;
  add("w13", layer.gateUpRows(), layer.hidden, weight, fillOf(layer, true));
  add("w2", layer.hidden, layer.intermediate, weight, fillOf(layer, false));
  if (layer.hasBias) {
    add("b13", layer.gateUpRows(), 1, *layer.inputType, reference::fillB13);
    add("b2", layer.hidden, 1, *layer.inputType, reference::fillB2);
  }
}

void WeightList::addScales() {
  if (layer.w1Scaling.given)
    add("w13_scale", layer.w13ScaleRows(), layer.w13ScaleColumns(),
        *layer.w1Scaling.scaleType, reference::fillW13Scale);
  if (layer.w2Scaling.given)
    add("w2_scale", layer.w2ScaleRows(), layer.w2ScaleColumns(),
        *layer.w2Scaling.scaleType, reference::fillW2Scale);
  if (layer.w1Scaling.second)
    add("w13_second_scale",
        layer.w1Scaling.seconds(layer.gated ? 2 : 1, layer.gateUpRows()), 1,
        f32, reference::fillW13SecondScale);
  if (layer.w2Scaling.second)
    add("w2_second_scale", layer.w2Scaling.seconds(1, layer.hidden), 1, f32,
        reference::fillW2SecondScale);
  const Element &i8 = *reference::findElement("i8");
  if (layer.w1Scaling.zeroPoint)
    add("w13_zero_point", layer.w13ScaleRows(), layer.w13ScaleColumns(), i8,
        reference::fillW13ZeroPoint);
  if (layer.w2Scaling.zeroPoint)
    add("w2_zero_point", layer.w2ScaleRows(), layer.w2ScaleColumns(), i8,
        reference::fillW2ZeroPoint);
}

void WeightList::addGroupIndices() {
  for (const bool first : {true, false})
    add(first ? "w13_group_index" : "w2_group_index", 1,
        first ? layer.hidden : layer.intermediate, i32,
        [first](const Layer &of, uint64_t seed, int64_t expert, int64_t,
                int64_t, void *destination) {
          reference::fillGroupIndex(of, first, seed, expert, destination);
        });
}

void WeightList::addActivationScales() {
  if (layer.a1Scaling.storesNumber() && !layer.inputQuantized)
    addOnce(layer.a1Scaling.dynamic ? "a1_second_scale" : "a1_scale",
            layer.storedExperts(), 1, f32, reference::fillA1Scale);
  if (layer.a2Scaling.storesNumber())
    addOnce(layer.a2Scaling.dynamic ? "a2_second_scale" : "a2_scale",
            layer.storedExperts(), 1, f32, reference::fillA2Scale);
}

void WeightList::addRouterWeights() {
  if (layer.routingBias)
    addOnce("routing_bias", layer.routedExperts(), 1, f32,
            reference::fillRoutingBias);
  if (layer.expertScale)
    addOnce("per_expert_scale", layer.routedExperts(), 1, f32,
            reference::fillPerExpertScale);
  if (layer.constantExperts > 0)
    addOnce("constant_experts", layer.constantExperts, layer.hidden, f32,
            reference::fillConstantExperts);
  if (layer.postExpertNorm > 0)
    addOnce("post_expert_norm", layer.hidden, 1, f32,
            reference::fillPostExpertNorm);
}

void WeightList::addActivationNumbers() {
  for (size_t i = 0; i < layer.ofExperts.size(); ++i)
    if (layer.ofExperts[i])
      add(weightOfNumber(i), 1, 1, f32,
          [i](const Layer &, uint64_t seed, int64_t expert, int64_t, int64_t,
              void *destination) {
            *static_cast<float *>(destination) =
                reference::numberOfExpert(seed, expert, i);
          });
}

void WeightList::addSharedMlp() {
  for (WeightShape &shape : WeightList(layer.sharedMlp()).list()) {
    shape.name.insert(0, kOfShared);
    shape.ofLocalExperts = false;
    shape.ofShared = true;
    shape.fill = [fill = std::move(shape.fill)](
                     const Layer &of, uint64_t seed, int64_t expert,
                     int64_t row, int64_t rows, void *destination) {
      fill(of.sharedMlp(), seed ^ kSharedSeed, expert, row, rows, destination);
    };
    shapes.push_back(std::move(shape));
  }
}

std::vector<WeightShape> WeightList::list() && {
  addMatrices();
  // Weights stored as floats are quantized later, which creates their scales.
  if (!layer.storedWeightType)
    addScales();
  if (layer.groupIndex)
    addGroupIndices();
  addActivationScales();
  addRouterWeights();
  addActivationNumbers();
  if (layer.tableRows)
    addOnce("hash_table", layer.tableRows, layer.topK, i32,
            reference::fillHashTable);
  if (!layer.part.empty())
    std::erase_if(shapes, [&](const WeightShape &shape) {
      return !isOfPart(layer, shape.name);
    });
  if (layer.sharedIntermediate > 0)
    addSharedMlp();
  return std::move(shapes);
}

static std::vector<WeightShape> weightShapes(const Layer &layer) {
  return WeightList(layer).list();
}

/// Fills experts [first, last) of `array` on all cores.
static void fillExperts(const Layer &layer, const WeightShape &shape,
                        uint64_t seed, int64_t first, int64_t last,
                        HostArray &array) {
  const int64_t rows = shape.rows, rowBytes = shape.rowBytes();
  std::byte *data = array.data.get() + first * shape.expertBytes();
  reference::parallelFor(
      "rows of " + shape.name + " made", (last - first) * rows,
      shape.columns * reference::kStepsOfDraw, 0,
      [&](int64_t begin, int64_t end) {
        // The rows of one thread may belong to several experts.
        for (int64_t row = begin; row < end;) {
          const int64_t expert = row / rows;
          const int64_t stop = std::min(end, (expert + 1) * rows);
          shape.fill(layer, seed, first + expert, row % rows, stop - row,
                     data + row * rowBytes);
          row = stop;
        }
      });
}

/// Converts all experts to the layout of the layer's checkpoint.
static void store(const Layer &layer, const WeightShape &shape,
                  HostWeights &weights) {
  const reference::StoredMatrix matrix =
      reference::storedMatrix(layerOf(layer, shape), nameOf(shape), shape.rows,
                              shape.columns, *shape.element);
  if (matrix.isRows())
    return;
  HostArray array(shape.experts * matrix.storedBytes());
  const std::byte *rows = weights.arrays.at(shape.name).data.get();
  reference::parallelFor(
      "experts' " + shape.name + " stored as in a checkpoint", shape.experts,
      shape.rows * shape.columns * kStepsOfCode, 0,
      [&](int64_t first, int64_t last) {
        for (int64_t expert = first; expert < last; ++expert)
          reference::toStored(matrix, rows + expert * matrix.rowsBytes(),
                              array.data.get() + expert * matrix.storedBytes());
      });
  weights.stored.emplace(shape.name, std::move(array));
}

/// Converts an array from the layout of a checkpoint to the layout of the
/// reference; inverse of store().
static void readStored(const Layer &layer, const WeightShape &shape,
                       HostWeights &weights) {
  const reference::StoredMatrix matrix =
      reference::storedMatrix(layerOf(layer, shape), nameOf(shape), shape.rows,
                              shape.columns, *shape.element);
  if (matrix.isRows())
    return;
  HostArray &array = weights.arrays.at(shape.name);
  HostArray rows(shape.experts * matrix.rowsBytes());
  reference::parallelFor(
      "experts' " + shape.name + " decoded", shape.experts,
      shape.rows * shape.columns * kStepsOfCode, 0,
      [&](int64_t first, int64_t last) {
        for (int64_t expert = first; expert < last; ++expert)
          reference::fromStored(
              matrix, array.data.get() + expert * matrix.storedBytes(),
              rows.data.get() + expert * matrix.rowsBytes());
      });
  weights.stored.emplace(shape.name, std::move(array));
  array = std::move(rows);
}

/// Quantizes weights that are given as floats to codes and scales. `whose`: the
/// prefix of the names.
static void quantize(const Layer &layer, HostWeights &weights,
                     const std::string &whose = "") {
  if (!layer.storedWeightType)
    return;
  if (layer.sharedIntermediate > 0)
    quantize(layer.sharedMlp(), weights, std::string(kOfShared));
  for (const bool first : {true, false}) {
    const std::string name = whose + (first ? "w13" : "w2");
    if (!weights.arrays.contains(name)) // a part may lack it
      continue;
    HostArray &floats = weights.arrays.at(name);
    const int64_t experts = layer.localExperts;
    const int64_t each = floats.bytes / experts;
    std::vector<reference::QuantizedWeight> made(static_cast<size_t>(experts));
    reference::parallelFor(
        "experts' " + name + " quantized", experts, each * kStepsOfCode, 0,
        [&](int64_t begin, int64_t end) {
          for (int64_t expert = begin; expert < end; ++expert)
            made[static_cast<size_t>(expert)] = reference::quantizeWeight(
                layer, first, floats.data.get() + expert * each);
        });
    const auto take = [&](const char *suffix, auto member) {
      const int64_t bytes = static_cast<int64_t>((made[0].*member).size());
      HostArray all(bytes * experts);
      for (int64_t expert = 0; bytes > 0 && expert < experts; ++expert)
        std::memcpy(all.data.get() + expert * bytes,
                    (made[static_cast<size_t>(expert)].*member).data(),
                    static_cast<size_t>(bytes));
      if (bytes > 0)
        weights.arrays.insert_or_assign(name + suffix, std::move(all));
      if (bytes > 0 && *suffix)
        weights.derived.insert(name + suffix);
    };
    weights.stored.insert_or_assign(name, std::move(floats));
    using Made = reference::QuantizedWeight;
    take("", &Made::codes);
    take("_scale", &Made::scales);
    take("_second_scale", &Made::secondScales);
    take("_zero_point", &Made::zeroPoints);
  }
}

HostWeights HostWeights::make(const Layer &layer, uint64_t seed) {
  HostWeights result;
  for (const WeightShape &shape : weightShapes(layer)) {
    HostArray array(shape.experts * shape.expertBytes());
    fillExperts(layer, shape, seed, 0, shape.experts, array);
    result.arrays.emplace(shape.name, std::move(array));
    store(layer, shape, result);
  }
  quantize(layer, result);
  return result;
}

int64_t HostWeights::bytesOf(const Layer &layer) {
  int64_t bytes = 0;
  for (const WeightShape &shape : weightShapes(layer))
    bytes += shape.experts * shape.expertBytes();
  return bytes;
}

/// Returns true if `slots` is empty, or a permutation that assigns each element
/// of a word its own place.
static bool areSlots(const std::vector<int64_t> &slots, int64_t perWord) {
  std::vector<int64_t> sorted = slots;
  std::ranges::sort(sorted);
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i))
      return false;
  return slots.empty() || std::ssize(slots) == perWord;
}

Result<std::map<std::string, int64_t>>
HostWeights::sizesOf(const Layer &layer) {
  std::map<std::string, int64_t> sizes;
  for (const WeightShape &shape : weightShapes(layer)) {
    const reference::StoredMatrix matrix =
        reference::storedMatrix(layerOf(layer, shape), nameOf(shape),
                                shape.rows, shape.columns, *shape.element);
    const int64_t packed = matrix.how.packed == "rows" ? matrix.paddedRows
                           : matrix.how.packed.empty() ? 0
                                                       : matrix.paddedColumns;
    if (packed % matrix.perWord || !areSlots(matrix.how.slots, matrix.perWord))
      return invalidManifest(
          "layer.stored_layout of the manifest packs {} elements of {} into a "
          "word, in slots that are not 0 to {} or of {} {}",
          matrix.perWord, shape.name, matrix.perWord - 1, packed,
          matrix.how.packed);
    sizes[shape.name] =
        shape.experts *
        (matrix.isRows() ? shape.expertBytes() : matrix.storedBytes());
  }
  return sizes;
}

Result<HostWeights> HostWeights::load(const runtime::Package &package,
                                      weights::WeightLoader &loader) {
  HostWeights result;
  const Manifest &manifest = package.manifest();
  auto symbols = TRY(symbolsFor(manifest, 1, package.smCount()));
  for (const Value &value : manifest.values) {
    if (value.role != ValueRole::StoredWeight)
      continue;
    auto bytes = TRY(valueBytes(value, symbols));
    HostArray array(bytes);
    TRY(loader.load(value,
                    {array.data.get(), static_cast<size_t>(array.bytes)}));
    result.arrays.emplace(value.name, std::move(array));
  }
  auto layer = TRY(reference::parseLayer(*manifest.layer));
  result.read(layer);
  return result;
}

void HostWeights::read(const Layer &layer) {
  for (const WeightShape &shape : weightShapes(layer))
    readStored(layer, shape, *this);
  quantize(layer, *this);
}

void HostWeights::replace(const Layer &layer,
                          std::map<std::string, HostArray> others) {
  for (auto &[name, array] : stored)
    arrays.insert_or_assign(name, std::move(array));
  stored.clear();
  for (const std::string &name : derived)
    arrays.erase(name);
  derived.clear();
  for (auto &[name, array] : others)
    arrays.insert_or_assign(name, std::move(array));
  read(layer);
}

HostArray HostWeights::unpacked(const Layer &layer,
                                const std::string &name) const {
  HostArray made(given(name).bytes);
  std::memcpy(made.data.get(), given(name).data.get(),
              static_cast<size_t>(made.bytes));
  for (const WeightShape &shape : weightShapes(layer)) {
    const reference::StoredMatrix matrix =
        reference::storedMatrix(layerOf(layer, shape), nameOf(shape),
                                shape.rows, shape.columns, *shape.element);
    if (shape.name != name || matrix.isRows() || layer.storedWeightType)
      continue;
    for (int64_t expert = 0; expert < shape.experts; ++expert)
      reference::toStored(
          matrix, arrays.at(name).data.get() + expert * matrix.rowsBytes(),
          made.data.get() + expert * matrix.storedBytes(), /*padding=*/0);
  }
  return made;
}

std::map<std::string, std::string> HostWeights::digests() const {
  std::map<std::string, std::string> result;
  Progress progress("weights hashed", int64_t(arrays.size()));
  for (const auto &entry : arrays) {
    if (derived.contains(entry.first))
      continue;
    const HostArray &array = given(entry.first);
    result[entry.first] =
        sha256({reinterpret_cast<const char *>(array.data.get()),
                static_cast<size_t>(array.bytes)});
    progress.advance();
  }
  return result;
}

HostWeights HostWeights::withExpert(const Layer &layer, uint64_t seed,
                                    int64_t expert) const {
  HostWeights result;
  for (const WeightShape &shape : weightShapes(layer)) {
    // Random rows are created in row-major order, whatever the stored layout.
    const HostArray &before =
        layer.storedWeightType ? given(shape.name) : arrays.at(shape.name);
    HostArray array(before.bytes);
    std::memcpy(array.data.get(), before.data.get(),
                static_cast<size_t>(before.bytes));
    if (shape.ofLocalExperts)
      fillExperts(layer, shape, seed, expert, expert + 1, array);
    result.arrays.emplace(shape.name, std::move(array));
    store(layer, shape, result);
  }
  quantize(layer, result);
  return result;
}

std::vector<std::string> moec::run::weightsOfExperts(const Layer &layer) {
  std::vector<std::string> names;
  for (const WeightShape &shape : weightShapes(layer))
    if (shape.ofLocalExperts)
      names.push_back(shape.name);
  return names;
}

static void describeOf(const std::map<std::string, HostArray> &arrays,
                       const std::string &whose, const Layer &layer,
                       reference::Inputs &inputs) {
  auto point = [&](const char *name, const Element *element,
                   reference::Weight &weight) {
    if (auto it = arrays.find(whose + name); it != arrays.end())
      weight = {it->second.data.get(), element, nullptr};
  };
  point("w13", layer.weightType, inputs.w13);
  point("w2", layer.weightType, inputs.w2);
  point("b13", layer.inputType, inputs.b13);
  point("b2", layer.inputType, inputs.b2);
  const Element *f32 = reference::findElement("f32");
  point("w13_scale", layer.w1Scaling.scaleType, inputs.w13Scale);
  point("w2_scale", layer.w2Scaling.scaleType, inputs.w2Scale);
  point("w13_second_scale", f32, inputs.w13SecondScale);
  point("w2_second_scale", f32, inputs.w2SecondScale);
  const Element *i8 = reference::findElement("i8");
  point("w13_zero_point", i8, inputs.w13ZeroPoint);
  point("w2_zero_point", i8, inputs.w2ZeroPoint);
  const Element *i32 = reference::findElement("i32");
  point("w13_group_index", i32, inputs.w13GroupIndex);
  point("w2_group_index", i32, inputs.w2GroupIndex);
  point("a1_scale", f32, inputs.a1Scale);
  point("a2_scale", f32, inputs.a2Scale);
  point("a1_second_scale", f32, inputs.a1Scale);
  point("a2_second_scale", f32, inputs.a2Scale);
}

void HostWeights::describe(const Layer &layer,
                           reference::Inputs &inputs) const {
  describeOf(arrays, "", layer, inputs);
  if (layer.sharedIntermediate > 0) {
    auto shared = std::make_shared<reference::Inputs>();
    describeOf(arrays, std::string(kOfShared), layer.sharedMlp(), *shared);
    inputs.shared = std::move(shared);
  }
  auto see = [&](const char *name, const char *element,
                 reference::Matrix &matrix) {
    if (auto it = arrays.find(name); it != arrays.end())
      matrix = {it->second.data.get(), reference::findElement(element), 0};
  };
  see("routing_bias", "f32", inputs.routingBias);
  see("per_expert_scale", "f32", inputs.expertScale);
  see("post_expert_norm", "f32", inputs.normWeight);
  see("constant_experts", "f32", inputs.constants);
  see("hash_table", "i32", inputs.hashTable);
  for (size_t i = 0; i < inputs.numbers.size(); ++i)
    see(weightOfNumber(i).c_str(), "f32", inputs.numbers[i]);
}
