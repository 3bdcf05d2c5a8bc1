//===- LoadWeights.cpp - a layer's weights out of a checkpoint ------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each value is made of pieces: an expert's gates, ups, or rows of the second
// weight. A piece is found by name, in a tensor of its own or of gates and ups
// together, of one expert or of all; then all are copied at once.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include "runtime/host/Parallel.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/support/Threads.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

using namespace moec;
using namespace moec::weights;
using nlohmann::json;

struct WeightLoader::Piece {
  Source from;
  TargetMatrix to;
};

namespace {

/// How many groups there are; all of the extent is one where it is -1.
int64_t groupsIn(int64_t extent, int64_t group) {
  return group == -1 ? 1 : (extent + group - 1) / group;
}
/// The group that something begins in.
int64_t groupAt(int64_t begin, int64_t group) {
  return group == -1 ? 0 : begin / group;
}

/// Whether two shapes order the same elements alike: one says dimensions that
/// the other says together.
bool ordersAlike(const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  const auto strides = [](const std::vector<int64_t> &extents) {
    std::set<int64_t> products = {1};
    int64_t product = 1;
    for (size_t i = extents.size(); i-- > 0;)
      products.insert(product *= extents[i]);
    return products;
  };
  const std::set<int64_t> first = strides(a), second = strides(b);
  return *first.rbegin() == *second.rbegin() &&
         (std::includes(first.begin(), first.end(), second.begin(),
                        second.end()) ||
          std::includes(second.begin(), second.end(), first.begin(),
                        first.end()));
}

/// Exponents are scales, never weights or biases.
Conversion conversionFor(Kind kind, std::string_view type,
                         std::string_view element) {
  if (kind != Kind::Scale && type == "F8_E8M0" && element != "f8E8M0FNU")
    return Conversion::None;
  return conversionOf(type, element, kind == Kind::Packed);
}

std::string shapeText(const std::vector<int64_t> &extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

} // namespace

//===----------------------------------------------------------------------===//
// The layer
//===----------------------------------------------------------------------===//

Result<void> WeightLoader::findLayer(int64_t layer) {
  std::map<int64_t, std::map<TensorRole, Found>> layers;
  for (const auto &[name, file] : checkpoint.names()) {
    const std::optional<TensorName> parsed = readTensorName(name);
    if (!parsed || (layer >= 0 && parsed->layer != layer))
      continue;
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
      return {};
    }
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
  const json &described = manifest.layer;
  WeightLoader made(checkpoint);
  made.shape = TRY(LayerShape::read(described));
  if (options.quantize && described.contains("weights_type"))
    return refused("layer '{}' takes its weights as floats and quantizes them "
                   "itself; accepted: no --quantize",
                   made.shape.name);
  if (auto it = described.find("stored_layout");
      it != described.end() && !it->is_null()) {
    made.stored = TRY(readStoredLayout(*it));
  }
  TRY(made.findLayer(options.layer));
  TRY(made.checkTaken(manifest, options));
  if (options.quantize)
    TRY(made.quantizeExperts());
  return made;
}

//===----------------------------------------------------------------------===//
// Finding
//===----------------------------------------------------------------------===//

Result<const StoredTensor *> WeightLoader::tensorOf(const Found &found) {
  if (auto it = quantized.find(found.name); it != quantized.end())
    return &it->second.tensor;
  return checkpoint.find(found.name);
}

Result<WeightLoader::Wanted> WeightLoader::wantedOf(const Value &value) const {
  Wanted made;
  made.value = value.name;
  made.element = value.elementTypes.front();
  made.bits = findElementType(made.element)->bits;
  std::string_view rest = value.name;
  made.first = rest.starts_with("w13") || rest == "b13";
  const LayerShape::Group group = made.first ? shape.w1 : shape.w2;
  const char *unit = nullptr;
  rest.remove_prefix(made.first ? 3 : 2);
  if (value.name == "b13" || value.name == "b2") {
    made.kinds = {Kind::Bias};
    made.group = {1, -1};
  } else if (rest.empty()) {
    made.kinds = {Kind::Weight, Kind::Packed};
    made.group = {1, 1};
    made.packed = true;
    unit = "weights";
  } else if (rest == "_scale") {
    made.kinds = {Kind::Scale};
    made.group = group;
    unit = "scales";
  } else if (rest == "_zero_point") {
    made.kinds = {Kind::ZeroPoint};
    made.group = group;
    unit = "zero_points";
  } else if (rest == "_second_scale") {
    made.kinds = {Kind::SecondScale, Kind::SecondDivisor};
    made.group = {-1, -1};
  } else {
    return refused("value '{}': no checkpoint's name is known for it; "
                   "accepted: a layer without it",
                   value.name);
  }
  if (made.group.rows == 0)
    return refused("value '{}': expected layer.quant.{}.group of two extents, "
                   "got none; accepted: a layer without '{}', or with groups",
                   value.name, made.first ? "w1" : "w2", value.name);
  made.rowsInOrder = made.group.rows == 1;
  if (!unit || !stored.is_object())
    return made;
  // Codes of 32 bits a word, and matrices whose rows are its columns.
  const std::string name = stored.value("name", "");
  if (made.packed && (name.starts_with("gptq") || name == "awq"))
    made.kinds = {Kind::ColumnsPacked};
  const json layout = stored.value(unit, json::object());
  const std::string packed = layout.value("packed", "");
  const int64_t codes = std::max<int64_t>(32 / shape.codeBits, 1);
  made.rowAxis = layout.value("rows_last", false) ? 2 : 1;
  made.rowsPerElement = packed == "rows" ? codes : 1;
  made.columnsPerElement = packed == "columns" ? codes : 1;
  return made;
}

const WeightLoader::Found *WeightLoader::look(const Wanted &wanted, bool shared,
                                              int64_t expert, Part part) const {
  for (Kind kind : wanted.kinds)
    if (auto it = tensors.find({shared, expert, part, kind});
        it != tensors.end())
      return &it->second;
  return nullptr;
}

Error WeightLoader::missing(const Wanted &wanted, int64_t expert,
                            Part part) const {
  std::string kinds, there;
  for (Kind kind : wanted.kinds)
    kinds +=
        fmt::format("{}{}", kinds.empty() ? "" : " or ", textOf(kind).name);
  constexpr int kMost = 4;
  int count = 0;
  for (const auto &[role, found] : tensors)
    if ((role.expert == expert || role.expert == kAllExperts) &&
        !quantized.contains(found.name))
      if (count++ < kMost)
        there += fmt::format("{}{}", there.empty() ? "" : ", ", found.name);
  return refused(
      "{}: layer {}, value '{}': expected a tensor of expert {}, {}{}, with "
      "{}; got {}{}",
      checkpoint.path(), number, wanted.value, expert, partName(part),
      part == Part::Down ? "" : fmt::format(" or {}", partName(Part::GateUp)),
      kinds, there.empty() ? "nothing else of that expert" : there,
      count > kMost ? fmt::format(" and {} more", count - kMost) : "");
}

std::vector<Part> WeightLoader::candidatesOf(Part part) const {
  if (part == Part::Down)
    return {part};
  // Without gates the first weight is called either.
  return {part, shape.gated ? Part::GateUp : Part::Gate};
}

Result<WeightLoader::Source> WeightLoader::find(const Wanted &wanted,
                                                int64_t expert, Part part) {
  const bool shared = expert >= shape.experts;
  const int64_t own = shared ? expert - shape.experts : expert;
  for (Part candidate : candidatesOf(part))
    for (int64_t index : {own, kAllExperts})
      if (const Found *found = look(wanted, shared, index, candidate))
        return view(wanted, *found, own, part);
  return missing(wanted, expert, part);
}

/// Whether parameters of all experts have columns before rows. Gates and ups
/// are twice as many as what they become, so that one of both tells.
Result<bool> WeightLoader::bareAreTransposed() {
  for (const auto &[role, found] : tensors) {
    const bool isWeight = role.kind == Kind::Weight;
    if (!found.parsed.bare || !isWeight || role.shared ||
        role.expert != kAllExperts)
      continue;
    const StoredTensor *tensor = TRY(tensorOf(found));
    const std::vector<int64_t> &extents = tensor->shape;
    const int64_t rows = role.part == Part::Down     ? shape.hidden
                         : role.part == Part::GateUp ? 2 * shape.intermediate
                                                     : shape.intermediate;
    const int64_t columns =
        role.part == Part::Down ? shape.intermediate : shape.hidden;
    if (extents.size() == 3 && rows != columns && extents[1] == columns &&
        extents[2] == rows)
      return true;
  }
  return false;
}

/// This rank's rows and columns of a part of an expert in a tensor.
Result<WeightLoader::Source> WeightLoader::view(const Wanted &wanted,
                                                const Found &found,
                                                int64_t expert, Part part) {
  const StoredTensor *known = TRY(tensorOf(found));
  const StoredTensor &tensor = *known;
  const TensorRole &role = found.parsed.role;
  const bool ofAll = role.expert == kAllExperts;
  // Shared experts of one tensor stand behind each other in the intermediate.
  const int64_t shared = role.shared && ofAll ? shape.shared : 1;
  const int64_t wide = shape.intermediate * shared;
  const int64_t begin =
      shape.columnBegin + (shared > 1 ? expert * shape.intermediate : 0);
  const LayerShape::Group &group = wanted.group;
  const int64_t rowUnit = wanted.rowsPerElement;
  const int64_t columnUnit = wanted.columnsPerElement;
  const bool isFirst = wanted.first;
  int64_t rows = groupsIn(isFirst ? wide : shape.hidden, group.rows);
  const int64_t columns =
      groupsIn(isFirst ? shape.hidden : wide, group.columns);
  const bool together = role.part == Part::GateUp && shape.gated;

  Source made;
  made.tensor = found.name;
  made.inverse =
      role.kind == Kind::SecondDivisor || role.kind == Kind::InputDivisor;
  made.conversion = conversionFor(role.kind, tensor.type, wanted.element);
  if (role.kind == Kind::ColumnsPacked && tensor.type != "I32")
    made.conversion = Conversion::None;
  std::vector<int64_t> extents = tensor.shape;
  const int64_t bits = bitsOf(tensor.type);
  if (made.conversion == Conversion::Copy && bits != wanted.bits) {
    if (extents.empty())
      extents = {1};
    extents.back() = extents.back() * bits / wanted.bits;
  }
  const int64_t experts = ofAll && !role.shared ? shape.experts : 1;
  const bool onlyColumnsFirst =
      found.parsed.transposed && role.kind == Kind::Weight;
  const bool mayTurn = wanted.bits >= 8 && rowUnit == 1 && columnUnit == 1;
  bool turned = false, fits = false;
  int64_t all = 0;
  std::vector<int64_t> expected;
  // One scale may be of gates and ups together.
  for (int64_t times : {together ? 2 : 1, 1}) {
    all = rows * times;
    const int64_t a =
        wanted.rowAxis == 1 ? all / rowUnit : columns / columnUnit;
    const int64_t b =
        wanted.rowAxis == 1 ? columns / columnUnit : all / rowUnit;
    expected = {experts, a, b};
    if (!onlyColumnsFirst)
      fits = ordersAlike(extents, expected);
    if (mayTurn && (!fits || found.parsed.bare)) {
      const bool fitsTurned = ordersAlike(extents, {experts, b, a});
      if (fits && fitsTurned && a != 1 && b != 1) {
        bool areTransposed = TRY(bareAreTransposed());
        turned = areTransposed != (wanted.rowAxis == 2);
      } else if (!fits && fitsTurned &&
                 (found.parsed.bare || onlyColumnsFirst)) {
        fits = turned = true;
      }
    }
    if (fits || group.rows != -1)
      break;
  }
  if (!fits || made.conversion == Conversion::None)
    return refused(
        "{}: tensor '{}': expected {} {} for value '{}' of layer '{}', got {}",
        checkpoint.path(), found.name, wanted.element,
        experts == 1 ? shapeText({expected[1], expected[2]})
                     : shapeText(expected),
        wanted.value, shape.name, tensor.describe());

  SourceMatrix &matrix = made.matrix;
  matrix.data = tensor.bytes.data();
  matrix.storage = storageOfType(tensor.type);
  matrix.bits = made.conversion == Conversion::Copy ? wanted.bits : bits;
  const bool byRows = (wanted.rowAxis == 1) != turned;
  const int64_t allRows = all / rowUnit, allColumns = columns / columnUnit;
  matrix.rowStride = byRows ? allColumns : 1;
  matrix.columnStride = byRows ? 1 : allRows;
  if (experts > 1)
    matrix.data += expert * allRows * allColumns * matrix.bits / 8;

  // Of gates and ups together, one of both.
  int64_t from = 0, step = 1;
  if (together && all == 2 * rows) {
    const bool isUp = part == Part::Up;
    if (shape.gateUpOrder == "interleaved" && group.rows != -1) {
      if (group.rows != 1 || rowUnit != 1)
        return refused(
            "{}: tensor '{}': rows of gate and up alternate, but {} of them "
            "share an element or a scale; expected gates and ups apart",
            checkpoint.path(), found.name, std::max(group.rows, rowUnit));
      from = isUp, step = 2;
    } else {
      from = isUp == (shape.gateUpOrder != "up_first") ? rows / rowUnit : 0;
    }
  }
  const auto unitsOf = [](int64_t first, int64_t count, int64_t extent,
                          int64_t unit) {
    return std::pair(groupAt(first, extent) / unit,
                     groupsIn(count, extent) / unit);
  };
  const int64_t width = shape.columns;
  const auto [row, rowCount] = isFirst
                                   ? unitsOf(begin, width, group.rows, rowUnit)
                                   : std::pair(int64_t(0), rows / rowUnit);
  const auto [column, columnCount] =
      isFirst ? std::pair(int64_t(0), allColumns)
              : unitsOf(begin, width, group.columns, columnUnit);
  matrix = matrix.part(from + row * step, rowCount, step, column, columnCount);
  return made;
}

//===----------------------------------------------------------------------===//
// Filling
//===----------------------------------------------------------------------===//

Result<void> WeightLoader::loadExperts(const Wanted &wanted,
                                       std::span<std::byte> to) {
  const std::vector<Part> parts = partsOf(wanted.first);
  std::vector<Piece> pieces;
  int64_t done = 0; // elements
  for (int64_t i = 0; i < shape.localCount; ++i) {
    const int64_t expert = shape.localBegin + i * shape.localStride;
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
            "value '{}' has {} bytes, and its layer says more", wanted.value,
            to.size());
      target.rowStride = wanted.rowAxis == 1 ? columns : 1;
      target.columnStride = wanted.rowAxis == 1 ? 1 : all;
      target.data += done * wanted.bits / 8;
      int64_t first = 0, step = 1;
      if (count == 2) {
        const bool isUp = part == Part::Up;
        const bool alternate =
            shape.gateUpOrder == "interleaved" && wanted.rowsInOrder;
        if (alternate && wanted.rowsPerElement != 1)
          return refused("value '{}': rows of gate and up alternate, but {} of "
                         "them share an element",
                         wanted.value, wanted.rowsPerElement);
        step = alternate ? 2 : 1;
        first = alternate                                   ? int64_t(isUp)
                : isUp == (shape.gateUpOrder != "up_first") ? rows
                                                            : 0;
      }
      target = target.part(first, rows, step, 0, columns);
      pieces.push_back({std::move(from), target});
    }
    done += elements;
  }
  if (done * wanted.bits != int64_t(to.size()) * 8)
    return invalidManifest("value '{}' has {} bytes, and its layer says {}",
                           wanted.value, to.size(), done * wanted.bits / 8);
  std::mutex mutex;
  std::optional<Error> failed;
  host::parallelFor(
      usableThreads(), int64_t(pieces.size()), 1,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Piece &piece = pieces[size_t(i)];
          Result<void> ok =
              copyMatrix(piece.from.matrix, piece.to, piece.from.conversion,
                         piece.from.inverse);
          if (ok)
            continue;
          const std::lock_guard<std::mutex> guard(mutex);
          failed =
              Error(ok.error().code, "{}: tensor '{}' {}; value '{}' is {}",
                    checkpoint.path(), piece.from.tensor, ok.error().message,
                    wanted.value, wanted.element);
        }
      });
  if (failed)
    return *failed;
  return {};
}

/// One number for each expert of the whole layer: the larger of gate's and
/// up's, which are multiplied with the same rows.
Result<void> WeightLoader::loadInputScales(const Wanted &wanted,
                                           std::span<std::byte> to) {
  const int64_t experts = shape.experts + shape.shared;
  if (to.size() != size_t(experts) * sizeof(float))
    return invalidManifest("value '{}' has {} bytes, and its layer says {}",
                           wanted.value, to.size(), experts * 4);
  const std::vector<Part> parts = partsOf(wanted.first);
  for (int64_t expert = 0; expert < experts; ++expert) {
    float largest = 0;
    for (Part part : parts) {
      Source from = TRY(find(wanted, expert, part));
      float number = 0;
      TargetMatrix target;
      target.data = reinterpret_cast<std::byte *>(&number);
      target.bits = 32;
      target.storage = host::Storage::F32;
      TRY(copyMatrix(from.matrix, target, from.conversion, from.inverse));
      largest = std::max(largest, number);
    }
    std::memcpy(to.data() + expert * int64_t(sizeof(float)), &largest,
                sizeof(float));
  }
  return {};
}

/// What belongs to the layer, not to an expert.
Result<void> WeightLoader::loadRouting(const Value &value, Kind kind,
                                       std::span<std::byte> to) {
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
  if (conversion == Conversion::None ||
      count * target.bits != int64_t(to.size()) * 8)
    return refused(
        "{}: tensor '{}': expected {} {} for value '{}' of layer '{}', got {}",
        checkpoint.path(), it->second.name,
        int64_t(to.size()) * 8 / target.bits, element, value.name, shape.name,
        tensor->describe());
  SourceMatrix source;
  source.data = tensor->bytes.data();
  source.bits = bits;
  source.storage = storageOfType(tensor->type);
  source.rows = target.rows = 1;
  source.columns = target.columns = count;
  Result<void> ok = copyMatrix(source, target, conversion, /*inverse=*/false);
  if (!ok)
    return Error(ok.error().code, "{}: tensor '{}' {}; value '{}' is {}",
                 checkpoint.path(), it->second.name, ok.error().message,
                 value.name, element);
  return ok;
}

Result<void> WeightLoader::load(const Value &value, std::span<std::byte> to) {
  if (const std::optional<Kind> kind = kindOfLayer(value.name))
    return loadRouting(value, *kind, to);
  const bool isFirst = value.name.starts_with("a1_");
  if (isFirst || value.name.starts_with("a2_")) {
    Wanted wanted;
    wanted.value = value.name;
    wanted.element = value.elementTypes.front();
    wanted.bits = 32;
    wanted.kinds = {Kind::InputScale, Kind::InputDivisor};
    wanted.first = isFirst;
    wanted.group = {-1, -1};
    return loadInputScales(wanted, to);
  }
  if (value.name.ends_with("_group_index"))
    return loadGroupIndex(value, to);
  if (!isOfExperts(value.name))
    return refused("value '{}': no checkpoint's name is known for it; "
                   "accepted: a layer without it",
                   value.name);
  Wanted wanted = TRY(wantedOf(value));
  if (wanted.packed)
    TRY(checkOrder(wanted));
  return loadExperts(wanted, to);
}
