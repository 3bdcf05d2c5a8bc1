//===- FindTensors.cpp - finds an expert's part in a checkpoint -----------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the tensor that holds a part (gate, up or down) of an expert, by name.
// The part may have its own tensor, or gate and up may share a tensor. A tensor
// may hold one expert or all experts. The shape of the tensor determines the
// location of the part's rows and columns.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"
#include "runtime/weights/NumberRules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

using namespace moec;
using namespace moec::weights;

namespace {

using Extents = std::vector<int64_t>;

/// The shapes that are accepted for a tensor with [rows, columns] elements per
/// expert. docs/reference/checkpoints.md lists them. Error messages report the
/// first shape as the expected shape.
class Spellings {
public:
  /// `experts`: number of experts in the tensor; 0 if the tensor belongs to one
  /// expert.
  Spellings(const TensorName &name, const Wanted &wanted, int64_t experts)
      : name(name), wanted(wanted), experts(experts) {}

  std::vector<Extents> of(int64_t rows, int64_t columns) const {
    const LayerShape::Group &group = wanted.group;
    const Kind kind = name.role.kind;
    if (kind == Kind::Bias || kind == Kind::GroupIndex)
      return {whole({std::max(rows, columns)})};
    // In this format the innermost dimension holds one group of 32 codes
    // (quantized values).
    constexpr int64_t kCodes = 32;
    if (name.blocks)
      return {whole({rows, columns / kCodes, kCodes})};
    if (name.stacked)
      return {{std::max<int64_t>(experts, 1) * rows, columns}};
    std::vector<Extents> made = {whole({rows, columns})};
    const bool isWeight = wanted.packed;
    const bool byRow = !isWeight && group.columns == -1;
    if (byRow && wanted.rowAxis == 1)
      made.push_back(whole({rows}));
    if (byRow && group.rows == -1 && rows == 1)
      made.push_back(whole({}));
    // ModelOpt stores block scales with additional dimensions of extent 1, one
    // for the rows and one for the columns within a block.
    if (kind == Kind::Scale && group.rows > 1 && group.columns > 1)
      made.push_back(whole({rows, 1, columns, 1}));
    return made;
  }

private:
  Extents whole(Extents ofExpert) const {
    if (experts > 0)
      ofExpert.insert(ofExpert.begin(), experts);
    return ofExpert;
  }

  const TensorName &name;
  const Wanted &wanted;
  int64_t experts;
};

} // namespace

std::string weights::shapeText(const std::vector<int64_t> &extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

NumberRule WeightLoader::ruleFor(const Wanted &wanted,
                                 const Found &found) const {
  if (quantized.contains(found.name))
    return NumberRule::Any;
  return ruleOf(found.parsed.role.kind, wanted.group, shape.storesFloats);
}

std::string WeightLoader::ownerOf(bool shared, int64_t expert) {
  return fmt::format("{}expert {}", shared ? "shared " : "", expert);
}

/// Returns the conversion for a tensor. E8M0 is converted only if the tensor
/// holds scales.
Conversion WeightLoader::conversionFor(Kind kind, std::string_view type,
                                       std::string_view element) {
  if (kind != Kind::Scale && type == "F8_E8M0" && element != "f8E8M0FNU")
    return Conversion::None;
  return conversionOf(type, element, kind == Kind::Packed);
}

Result<const StoredTensor *> WeightLoader::tensorOf(const Found &found) const {
  if (auto it = quantized.find(found.name); it != quantized.end())
    return &it->second.tensor;
  return checkpoint.find(found.name);
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

Result<WeightLoader::Source>
WeightLoader::find(const Wanted &wanted, int64_t expert, Part part) const {
  const bool shared = expert >= shape.experts;
  const int64_t own = shared ? expert - shape.experts : expert;
  for (Part candidate : candidatesOf(part))
    for (int64_t index : {own, kAllExperts})
      if (const Found *found = look(wanted, shared, index, candidate))
        return view(wanted, *found, own, part);
  return missing(wanted, expert, part);
}

/// Returns true if the parameters that hold all experts store columns before
/// rows. This is inferred from the shape of one weight. Rows of gate and up
/// together have twice the extent of the intermediate size.
Result<bool> WeightLoader::bareAreTransposed() const {
  for (const auto &[role, found] : tensors) {
    const bool isWeight = role.kind == Kind::Weight;
    if (!found.parsed.bare || !isWeight || role.shared ||
        role.expert != kAllExperts)
      continue;
    const StoredTensor *tensor = TRY(tensorOf(found));
    const std::vector<int64_t> &extents = tensor->shape;
    const int64_t rows = role.part == Part::Down ? shape.hidden
                         : isFused(role.part)    ? 2 * shape.intermediate
                                                 : shape.intermediate;
    const int64_t columns =
        role.part == Part::Down ? shape.intermediate : shape.hidden;
    if (extents.size() == 3 && rows != columns && extents[1] == columns &&
        extents[2] == rows)
      return true;
  }
  return false;
}

/// Locates this rank's rows and columns of an expert's part within a tensor.
class WeightLoader::PartInTensor {
public:
  PartInTensor(const WeightLoader &loader, const Wanted &wanted,
               const Found &found, const StoredTensor &tensor, int64_t expert);

  Result<Source> view(Part part) const;

private:
  /// The result of matching the expected row and column counts with the
  /// tensor's shape.
  struct Fit {
    bool fits = false;
    bool turned = false; ///< the tensor stores columns before rows
    /// Number of rows; gate and up together if the tensor holds both.
    int64_t rows = 0;
    Extents expected; ///< the expected shape, for error messages
  };
  Result<Fit> fitShape() const;
  Extents givenShape() const;
  Error badShape(const Extents &expected) const;
  /// Returns the view of the expert's whole matrix in the tensor.
  SourceMatrix matrixOf(const Fit &fit) const;
  Result<Lines> rowsOf(const Fit &fit, Part part) const;

  const WeightLoader &loader;
  const Wanted &wanted;
  const Found &found;
  const TensorRole &role;
  const StoredTensor &tensor;
  const int64_t expert;
  PartExtents extents;
  int64_t begin = 0;     ///< start of this rank's share within the intermediate
                         ///< dimension of the tensor
  int64_t experts = 0;   ///< extent of the first dimension; 0 if the tensor has
                         ///< no expert dimension
  bool together = false; ///< the tensor holds gate and up
  int64_t bits = 0;      ///< bits of an element of the tensor
  Conversion conversion = Conversion::None;
};

WeightLoader::PartInTensor::PartInTensor(const WeightLoader &loader,
                                         const Wanted &wanted,
                                         const Found &found,
                                         const StoredTensor &tensor,
                                         int64_t expert)
    : loader(loader), wanted(wanted), found(found), role(found.parsed.role),
      tensor(tensor), expert(expert) {
  const bool ofAll = role.expert == kAllExperts;
  // If one tensor holds all shared experts, they are concatenated along the
  // intermediate dimension. If the tensor has an expert dimension, they are
  // stored like routed experts.
  const LayerShape &of = loader.shapeOf(wanted);
  const bool hasExperts = role.shared && ofAll && !wanted.ofSharedMlp &&
                          found.parsed.bare && tensor.shape.size() == 3;
  const int64_t shared = role.shared && ofAll && !hasExperts ? of.shared : 1;
  begin = of.columnBegin + (shared > 1 ? expert * of.intermediate : 0);
  extents = loader.extentsOf(wanted, of.intermediate * shared);
  if (ofAll && !role.shared)
    experts = loader.shape.experts;
  else if (hasExperts)
    experts = of.shared;
  together = isFused(role.part) && loader.shape.gated;
  bits = bitsOf(tensor.type);
  conversion = conversionFor(role.kind, tensor.type, wanted.element);
  if (role.kind == Kind::ColumnsPacked && tensor.type != "I32")
    conversion = Conversion::None;
}

/// Returns the tensor's shape in elements of the value. If the tensor stores
/// bytes, the last extent is converted.
Extents WeightLoader::PartInTensor::givenShape() const {
  Extents given = tensor.shape;
  if (conversion == Conversion::Copy && bits != wanted.bits && !given.empty())
    given.back() = given.back() * bits / wanted.bits;
  return given;
}

Result<WeightLoader::PartInTensor::Fit>
WeightLoader::PartInTensor::fitShape() const {
  const Extents given = givenShape();
  const Spellings spellings(found.parsed, wanted, experts);
  const bool bare = found.parsed.bare;
  const bool onlyColumnsFirst =
      found.parsed.transposed && role.kind == Kind::Weight;
  const bool mayTurn = wanted.bits >= 8 && wanted.rowsPerElement == 1 &&
                       wanted.columnsPerElement == 1;
  Fit fit;
  // Gate and up in one tensor may share one scale, so both row counts are
  // tried.
  for (int64_t times : {together ? 2 : 1, 1}) {
    fit.rows = extents.rows * times;
    int64_t a = fit.rows / wanted.rowsPerElement;
    int64_t b = extents.columns / wanted.columnsPerElement;
    if (wanted.rowAxis != 1)
      std::swap(a, b);
    const std::vector<Extents> accepted = spellings.of(a, b);
    fit.expected = accepted.front();
    if (!onlyColumnsFirst)
      fit.fits = std::ranges::find(accepted, given) != accepted.end();
    if (mayTurn && (!fit.fits || bare)) {
      const bool fitsTurned = given == spellings.of(b, a).front();
      if (fit.fits && fitsTurned && a != 1 && b != 1) {
        bool areTransposed = TRY(loader.bareAreTransposed());
        fit.turned = areTransposed != (wanted.rowAxis == 2);
      } else if (!fit.fits && fitsTurned && (bare || onlyColumnsFirst)) {
        fit.fits = fit.turned = true;
      }
    }
    if (fit.fits || wanted.group.rows != -1)
      break;
  }
  return fit;
}

Error WeightLoader::PartInTensor::badShape(const Extents &expected) const {
  const bool isFloat =
      tensor.type == "BF16" || tensor.type == "F16" || tensor.type == "F32";
  return refused(
      "{}: tensor '{}': expected {} {} for value '{}' of layer '{}', got "
      "{}{}",
      loader.checkpoint.path(), found.name, wanted.element, shapeText(expected),
      wanted.value, loader.shape.name, tensor.describe(),
      isFloat && role.kind == Kind::Weight && wanted.bits <= 8
          ? fmt::format("; {} quantizes the weights of a float checkpoint",
                        loader.names.quantize)
          : "");
}

SourceMatrix WeightLoader::PartInTensor::matrixOf(const Fit &fit) const {
  SourceMatrix matrix;
  matrix.data = tensor.bytes.data();
  matrix.storage = storageOfType(tensor.type);
  matrix.bits = conversion == Conversion::Copy ? wanted.bits : bits;
  const bool byRows = (wanted.rowAxis == 1) != fit.turned;
  const int64_t rows = fit.rows / wanted.rowsPerElement;
  const int64_t columns = extents.columns / wanted.columnsPerElement;
  matrix.rowStride = byRows ? columns : 1;
  matrix.columnStride = byRows ? 1 : rows;
  if (experts > 1)
    matrix.data += expert * rows * columns * matrix.bits / 8;
  return matrix;
}

Result<Lines> WeightLoader::PartInTensor::rowsOf(const Fit &fit,
                                                 Part part) const {
  Lines lines = loader.rowsOf(wanted, extents, begin);
  if (!together || fit.rows != 2 * extents.rows)
    return lines;
  const std::optional<Lines> own =
      loader.linesTogether(wanted, role.part, part, extents.rows);
  if (!own)
    return refused(
        "{}: tensor '{}': rows of gate and up alternate, but {} of them "
        "share an element or a scale; expected gates and ups apart",
        loader.checkpoint.path(), found.name,
        std::max(wanted.group.rows, wanted.rowsPerElement));
  lines.begin = own->begin + lines.begin * own->step;
  lines.step = own->step;
  return lines;
}

Result<WeightLoader::Source> WeightLoader::PartInTensor::view(Part part) const {
  Source made;
  made.tensor = found.name;
  made.owner = ownerOf(role.shared, expert);
  made.rule = loader.ruleFor(wanted, found);
  made.inverse =
      role.kind == Kind::SecondDivisor || role.kind == Kind::InputDivisor;
  made.conversion = conversion;
  const Fit fit = TRY(fitShape());
  if (!fit.fits || conversion == Conversion::None)
    return badShape(fit.expected);
  const Lines rows = TRY(rowsOf(fit, part));
  const Lines columns = loader.columnsOf(wanted, extents, begin);
  made.matrix = matrixOf(fit).part(rows.begin, rows.count, rows.step,
                                   columns.begin, columns.count);
  return made;
}

Result<WeightLoader::Source> WeightLoader::view(const Wanted &wanted,
                                                const Found &found,
                                                int64_t expert,
                                                Part part) const {
  const StoredTensor *tensor = TRY(tensorOf(found));
  return PartInTensor(*this, wanted, found, *tensor, expert).view(part);
}
