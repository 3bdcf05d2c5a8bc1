//===- CheckTensors.cpp - checks that each tensor is used -----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that no tensor of the layer is ignored by mistake. A tensor that no
// value uses (a scale, zero point or bias) could change the results of the
// layer. It is therefore an error, unless the tensor is known to be irrelevant.
// The names of all experts' tensors are checked, but only the bytes of this
// rank's experts.
//
//===----------------------------------------------------------------------===//

#include "runtime/weights/LoadWeights.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

using namespace moec;
using namespace moec::weights;

namespace {

/// Maps a part to the part that represents its matmul or the router: Gate for
/// gate and up, Down, or Routing.
Part takerOf(Part part) {
  return part == Part::Down || part == Part::Routing ? part : Part::Gate;
}

/// Groups of tensor kinds with the same meaning. Each part of an expert may
/// have only one kind of each group.
constexpr std::initializer_list<Kind> kAlternatives[] = {
    {Kind::Weight, Kind::Packed, Kind::ColumnsPacked},
    {Kind::Scale},
    {Kind::SecondScale, Kind::SecondDivisor},
    {Kind::ZeroPoint},
    {Kind::GroupIndex},
    {Kind::InputScale, Kind::InputDivisor},
    {Kind::Bias},
};

/// Returns true for an activation scale. It is irrelevant if the layer
/// quantizes activations differently or not at all.
bool isOfActivations(const TensorRole &role) {
  return role.kind == Kind::InputScale || role.kind == Kind::InputDivisor;
}

/// Returns the last word of a name, without a preceding part name such as
/// "gate_proj_".
std::string_view valueWord(std::string_view name) {
  std::string_view word = name.substr(name.rfind('.') + 1);
  for (std::string_view part :
       {"gate_up_proj_", "gate_proj_", "up_proj_", "down_proj_"})
    if (word.starts_with(part))
      word.remove_prefix(part.size());
  return word;
}

} // namespace

//===----------------------------------------------------------------------===//
// Used tensors
//===----------------------------------------------------------------------===//

/// Returns the kinds of tensors that the package's values are loaded from, each
/// with its representative part (see takerOf()).
Result<std::set<std::pair<Part, Kind>>>
WeightLoader::takenBy(const Manifest &manifest, bool quantize) const {
  std::set<std::pair<Part, Kind>> taken;
  for (const Value &value : manifest.values) {
    if (value.role != ValueRole::StoredWeight)
      continue;
    if (const std::optional<Kind> kind = kindOfLayer(value.name)) {
      taken.insert({Part::Routing, *kind});
      continue;
    }
    const std::optional<Wanted> wanted = TRY(wantedIfKnown(value));
    if (!wanted)
      continue;
    const bool isMade = quantize && isOfExperts(value.name) &&
                        !isGroupIndex(value.name) &&
                        wanted->kinds.front() != Kind::Bias;
    if (isMade && !wanted->packed)
      continue;
    for (Kind kind : wanted->kinds)
      if (!isMade || kind == Kind::Weight)
        taken.insert({wanted->first ? Part::Gate : Part::Down, kind});
  }
  return taken;
}

bool WeightLoader::leavesScaleOf(Part taker) const {
  return std::ranges::any_of(shape.leftOut, [&](const std::string &value) {
    return value.starts_with("a1_") == (taker == Part::Gate);
  });
}

bool WeightLoader::isOfThisRank(const TensorRole &role) const {
  if (role.expert == kAllExperts || (role.shared && shape.hasSharedMlp()))
    return true;
  const int64_t behind =
      role.expert + (role.shared ? shape.experts : 0) - shape.localBegin;
  return behind >= 0 && behind % shape.localStride == 0 &&
         behind / shape.localStride < shape.localCount;
}

//===----------------------------------------------------------------------===//
// Irrelevant tensors
//===----------------------------------------------------------------------===//

/// Checks that all zero points of a symmetric layer equal the zero point that
/// the layer implies.
Result<void> WeightLoader::checkSymmetric(const Found &found) {
  const StoredTensor *known = TRY(tensorOf(found));
  const StoredTensor &tensor = *known;
  const int64_t added = stored ? stored->zeroPoints.added : 0;
  // The implied zero point is the middle of the range for unsigned codes
  // (quantized values), and 0 for i8.
  const bool areWords = tensor.type == "I32";
  const bool isSigned = tensor.type == "I8" && shape.codeBits == 8;
  const int64_t bits = areWords ? shape.codeBits : 8;
  const int64_t expected =
      isSigned ? 0 : (int64_t(1) << (shape.codeBits - 1)) - added;
  if (!areWords && tensor.type != "I8" && tensor.type != "U8")
    return refused(
        "{}: tensor '{}': expected zero points in I32, I8 or U8, got {}",
        checkpoint.path(), found.name, tensor.describe());
  std::set<int64_t> points;
  for (const std::byte byte : tensor.bytes)
    for (int64_t shift = 0; shift < 8; shift += bits)
      points.insert(std::to_integer<int64_t>(byte) >> shift &
                    ((int64_t(1) << bits) - 1));
  points.erase(expected);
  if (points.empty())
    return {};
  // The stored zero points of the two GPTQ formats differ by one.
  const bool isGptq = stored && stored->name.starts_with("gptq");
  const bool isOther = isGptq && points.size() == 1 &&
                       *points.begin() == expected + (added ? 1 : -1);
  return refused(
      "{}: tensor '{}' holds zero point {}, and layer '{}' is symmetric: "
      "expected {} everywhere{}; accepted: {}",
      checkpoint.path(), found.name, *points.begin(), shape.name, expected,
      stored ? fmt::format(" in stored_layout {}", stored->name) : "",
      isOther ? otherFormat(found) : withZeroPoints());
}

/// Describes for an error message how to load a symmetric checkpoint whose zero
/// points are stored in the other GPTQ format.
std::string WeightLoader::otherFormat(const Found &found) const {
  return fmt::format(
      "the layer of checkpoint_format {} in quantization_config (stored_layout "
      "of a layer JSON), or {}{}, where {} is the middle of the codes",
      stored->zeroPoints.added ? "gptq_v2" : "gptq", names.ignored,
      valueWord(found.name), int64_t(1) << (shape.codeBits - 1));
}

/// Describes for an error message the config key that selects a layer with zero
/// points.
std::string WeightLoader::withZeroPoints() const {
  const std::string layout = stored ? stored->name : "";
  const std::string_view key = layout.starts_with("gptq") ? "sym false"
                               : layout == "awq"          ? "zero_point true"
                                                          : "symmetric false";
  return fmt::format("a layer with zero points ({} in quantization_config, or "
                     "quant_config int{}_zp_w{}a16 of a layer JSON)",
                     key, shape.codeBits, shape.codeBits);
}

/// Checks an activation scale that the package does not use. A scale that
/// calibration did not set is invalid whether or not it is used.
Result<void> WeightLoader::checkLeftOutScale(const Found &found) const {
  const TensorRole &role = found.parsed.role;
  const StoredTensor *tensor = TRY(tensorOf(found));
  SourceMatrix numbers;
  numbers.data = tensor->bytes.data();
  numbers.bits = bitsOf(tensor->type);
  numbers.storage = storageOfType(tensor->type);
  numbers.rows = int64_t(tensor->bytes.size()) * 8 / numbers.bits;
  numbers.columns = numbers.rowStride = 1;
  const bool isFloat = numbers.storage == host::Storage::F32 ||
                       numbers.storage == host::Storage::F16 ||
                       numbers.storage == host::Storage::BF16;
  if (!isFloat)
    return refused("{}: tensor '{}': expected scales in F32, F16 or BF16, got "
                   "{}",
                   checkpoint.path(), found.name, tensor->describe());
  const bool ofAll = role.expert == kAllExperts;
  const int64_t perExpert =
      ofAll ? std::max<int64_t>(numbers.rows / shape.experts, 1) : 1;
  for (int64_t row = 0; row < numbers.rows; ++row) {
    Result<void> ok = checkNumbers(numbers.part(row, 1, 1, 0, 1),
                                   role.kind == Kind::InputDivisor,
                                   NumberRule::PositiveScale);
    if (!ok)
      return Error(ok.error().code,
                   "{}: tensor '{}' of {} {}; or {}{} to leave it out",
                   checkpoint.path(), found.name,
                   ownerOf(role.shared, ofAll ? row / perExpert : role.expert),
                   ok.error().message, names.ignored, valueWord(found.name));
  }
  return {};
}

/// Returns true if all elements of the tensor are 0. Some quantizers write zero
/// biases for a layer without biases.
Result<bool> WeightLoader::isZero(const Found &found) {
  const StoredTensor *known = TRY(tensorOf(found));
  const StoredTensor &tensor = *known;
  const host::Storage storage = storageOfType(tensor.type);
  if (storage != host::Storage::F32 && storage != host::Storage::F16 &&
      storage != host::Storage::BF16)
    return false;
  const int64_t count = int64_t(tensor.bytes.size()) * 8 / bitsOf(tensor.type);
  std::vector<float> numbers(static_cast<size_t>(count));
  host::loadFloats(storage, tensor.bytes.data(), count, numbers.data());
  return std::ranges::all_of(numbers, [](float number) { return number == 0; });
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Returns the quantization scheme that a scale tensor belongs to, judged by
/// the element type of the weights.
std::string WeightLoader::schemeOfScales(const Found &found) const {
  if (hasWord(found.name, "weight_scale_inv"))
    return "quant_config fp8_block";
  TensorRole role = found.parsed.role;
  for (Kind kind : {Kind::ColumnsPacked, Kind::Packed, Kind::Weight}) {
    role.kind = kind;
    const auto it = tensors.find(role);
    if (it == tensors.end())
      continue;
    if (kind == Kind::ColumnsPacked)
      return "quant_config int4_w4a16 with the checkpoint's stored_layout";
    const Result<const StoredTensor *> tensor =
        checkpoint.find(it->second.name);
    const std::string type = tensor ? (*tensor)->type : std::string();
    if (type == "F8_E4M3" || type == "F8_E5M2")
      return "quant_config fp8_tensor, fp8_channel or fp8_block";
    if (type == "I8")
      return "quant_config int8_channel or int8_w8a16";
    if (type == "I32")
      return "quant_config int4_w4a16";
    if (type == "U8")
      return "quant_config mxfp4_w4a16 or nvfp4_w4a16";
  }
  return "quant_config of the checkpoint's scheme";
}

/// Describes for an error message the layer that would use a tensor of this
/// kind.
std::string WeightLoader::takerFor(const Found &found, bool quantize) const {
  const TensorRole &role = found.parsed.role;
  const bool isOfCodes =
      role.kind == Kind::Scale || role.kind == Kind::SecondScale ||
      role.kind == Kind::SecondDivisor || role.kind == Kind::ZeroPoint ||
      role.kind == Kind::GroupIndex;
  if (isOfCodes && quantize)
    return fmt::format("no {}, since these weights are quantized",
                       names.quantize);
  if (isOfCodes && shape.storesFloats)
    return "a layer without weights_dtype, since these weights are quantized";
  switch (role.kind) {
  case Kind::Weight:
  case Kind::Packed:
    return "a layer whose stored_layout is rows";
  case Kind::ColumnsPacked:
    return "a layer with quant_config int4_w4a16 and stored_layout gptq, "
           "gptq_v2 or awq";
  case Kind::Scale:
    return fmt::format("a layer with {}", schemeOfScales(found));
  case Kind::SecondScale:
  case Kind::SecondDivisor:
    return "a layer with quant_config nvfp4 or nvfp4_w4a16";
  case Kind::ZeroPoint:
    return "a layer with zero points (quant_config int4_zp_w4a16)";
  case Kind::GroupIndex:
    return "a layer with group_index";
  case Kind::InputScale:
  case Kind::InputDivisor:
    return "a layer with static scales of activations (quant_config "
           "fp8_tensor, int8_tensor or nvfp4)";
  case Kind::Bias:
    return "a layer with has_bias";
  case Kind::RoutingBias:
    return "a layer with e_score_correction_bias";
  case Kind::ExpertScale:
    return "a layer with per_expert_scale";
  case Kind::PostExpertNorm:
    return "a layer with post_expert_norm_eps";
  case Kind::HashTable:
    break;
  }
  return "a layer with hash_vocabulary";
}

Error WeightLoader::untaken(std::string_view name, std::string_view what,
                            std::string_view accepted,
                            std::string_view word) const {
  const std::string leftOut =
      word.empty() ? std::string()
                   : fmt::format(", or {}{} if no number of the layer depends "
                                 "on it",
                                 names.ignored, word);
  return refused("{}: tensor '{}' {}, and no value of layer '{}' takes it; "
                 "accepted: {}{}",
                 checkpoint.path(), name, what, shape.name, accepted, leftOut);
}

/// Returns an error for a tensor that no value uses, unless it may be left out.
Result<void> WeightLoader::checkUntaken(const Found &found, bool quantize) {
  const TensorRole &role = found.parsed.role;
  const std::string &codes = takerOf(role.part) == Part::Down
                                 ? shape.format2.element
                                 : shape.format1.element;
  const bool areIntegers =
      !quantize && !shape.storesFloats && (codes == "i4" || codes == "i8");
  // checkOrder() reads the group index when the codes are loaded, so nothing is
  // checked here.
  if (role.kind == Kind::GroupIndex && areIntegers)
    return {};
  if (role.kind == Kind::ZeroPoint && areIntegers)
    return isOfThisRank(role) ? checkSymmetric(found) : Result<void>();
  if (role.kind == Kind::Bias) {
    if (!isOfThisRank(role))
      return {};
    bool zero = TRY(isZero(found));
    if (zero)
      return {};
  }
  return untaken(found.name,
                 fmt::format("holds {} of {}", textOf(role.kind).noun,
                             role.part == Part::Routing ? "the router"
                             : role.shared ? "the layer's shared experts"
                                           : "the layer's experts"),
                 takerFor(found, quantize),
                 isOfActivations(role) ? valueWord(found.name) : "");
}

/// Checks that the expert index and part of the tensor's name exist in the
/// layer, given its expert count and activation.
Result<void> WeightLoader::checkExpert(const Found &found) const {
  const TensorRole &role = found.parsed.role;
  const int64_t count = role.shared ? shape.shared : shape.experts;
  if (role.shared && count == 0)
    return refused("{}: tensor '{}' is a shared expert's, and layer '{}' has "
                   "none; accepted: a layer with n_shared_experts, or "
                   "{} where the caller computes them",
                   checkpoint.path(), found.name, shape.name,
                   names.noSharedExperts);
  if (role.expert >= count)
    return refused("{}: tensor '{}': expected {}experts 0 to {} of layer '{}', "
                   "got expert {}",
                   checkpoint.path(), found.name, role.shared ? "shared " : "",
                   count - 1, shape.name, role.expert);
  if (isFused(role.part) && !shape.gated)
    return refused("{}: tensor '{}' holds gates, and layer '{}' has none; "
                   "accepted: a layer with a gated activation",
                   checkpoint.path(), found.name, shape.name);
  return {};
}

/// Checks that no part of any expert has two tensors with the same meaning.
Result<void> WeightLoader::checkOneEach() const {
  for (int64_t e = 0; e < shape.experts + shape.shared; ++e) {
    const bool shared = e >= shape.experts;
    const int64_t own = shared ? e - shape.experts : e;
    for (Part part : {Part::Gate, Part::Up, Part::Down}) {
      if (part == Part::Gate && !shape.gated)
        continue;
      for (const auto &kinds : kAlternatives) {
        const Found *first = nullptr;
        for (Part candidate : candidatesOf(part))
          for (int64_t index : {own, kAllExperts})
            for (Kind kind : kinds) {
              const auto it = tensors.find({shared, index, candidate, kind});
              if (it == tensors.end())
                continue;
              if (first)
                return refused("{}: tensors '{}' and '{}' both hold {} of "
                               "{}expert {}, {}; expected one of them",
                               checkpoint.path(), first->name, it->second.name,
                               textOf(kind).noun, shared ? "shared " : "", own,
                               partName(part));
              first = &it->second;
            }
      }
    }
  }
  return {};
}

//===----------------------------------------------------------------------===//
// All tensors of the layer
//===----------------------------------------------------------------------===//

namespace {
/// The words of --ignore-tensor. Records which words matched a tensor.
class Ignored {
public:
  explicit Ignored(const std::vector<std::string> &words)
      : words(words), used(words.size()) {}
  bool has(std::string_view name) {
    bool found = false;
    for (size_t i = 0; i < words.size(); ++i)
      if (hasWord(name, words[i]))
        found = used[i] = true;
    return found;
  }
  const std::string *unused() const {
    for (size_t i = 0; i < words.size(); ++i)
      if (!used[i])
        return &words[i];
    return nullptr;
  }

private:
  const std::vector<std::string> &words;
  std::vector<bool> used;
};
} // namespace

/// Checks that each tensor of the layer is used by a value, or may be left out
/// for a known reason.
class WeightLoader::TakenCheck {
public:
  TakenCheck(WeightLoader &loader, const Manifest &manifest,
             const LoadOptions &options,
             std::set<std::pair<Part, Kind>> takenKinds)
      : loader(loader), shape(loader.shape), options(options),
        takenKinds(std::move(takenKinds)), ignored(options.ignored) {
    routes = std::ranges::any_of(manifest.values, [](const Value &value) {
      return value.name == "logits";
    });
  }

  Result<void> checkRoles();
  /// Checks tensor names that have no role in any layer.
  Result<void> checkOtherNames();
  /// Returns an error for an option that had no effect.
  Result<void> checkOptions() const;

private:
  bool isTaken(const TensorRole &role) const {
    return takenKinds.contains({takerOf(role.part), role.kind}) &&
           (!role.shared || shape.shared > 0);
  }
  Result<bool> isLeftOut(const TensorRole &role, const Found &found);
  Result<void> checkKept(const TensorRole &role, const Found &found);

  WeightLoader &loader;
  const LayerShape &shape;
  const LoadOptions &options;
  std::set<std::pair<Part, Kind>> takenKinds;
  Ignored ignored;
  bool routes = false; ///< false: the caller computes the routing with the
                       ///< router's weights
  const Found *first = nullptr; ///< the first tensor that is used
  bool leavesShared = false;    ///< noSharedExperts left a tensor out
};

Result<void> WeightLoader::TakenCheck::checkRoles() {
  for (auto it = loader.tensors.begin(); it != loader.tensors.end();) {
    const auto &[role, found] = *it;
    if (TRY(isLeftOut(role, found))) {
      it = loader.tensors.erase(it);
      continue;
    }
    TRY(checkKept(role, found));
    ++it;
  }
  return {};
}

Result<bool> WeightLoader::TakenCheck::isLeftOut(const TensorRole &role,
                                                 const Found &found) {
  // transformers stores weights for zero experts (experts that return their
  // input) but never reads them.
  const bool isZeroExpert = !role.shared && role.expert >= shape.experts &&
                            role.expert - shape.experts < shape.zeroExperts;
  if (isZeroExpert)
    return true;
  const bool leavesScale = isOfActivations(role) &&
                           loader.leavesScaleOf(takerOf(role.part)) &&
                           (!role.shared || shape.shared > 0);
  if (leavesScale) {
    TRY(loader.checkExpert(found));
    if (!ignored.has(found.name))
      TRY(loader.checkLeftOutScale(found));
  }
  const bool leaves = (role.shared && options.noSharedExperts) ||
                      (role.part == Part::Routing && !routes) || leavesScale;
  if (isTaken(role) || !(leaves || ignored.has(found.name)))
    return false;
  leavesShared |= role.shared && options.noSharedExperts;
  return true;
}

Result<void> WeightLoader::TakenCheck::checkKept(const TensorRole &role,
                                                 const Found &found) {
  if (!first)
    first = &found;
  const auto prefixOf = [](const Found &of) {
    return std::string_view(of.name).substr(0, of.parsed.prefix);
  };
  if (prefixOf(*first) != prefixOf(found))
    return refused("{}: tensors '{}' and '{}' are of two models' layers {}; "
                   "expected one of them",
                   loader.checkpoint.path(), first->name, found.name,
                   loader.number);
  if (role.part != Part::Routing)
    TRY(loader.checkExpert(found));
  if (!isTaken(role))
    TRY(loader.checkUntaken(found, options.quantize));
  return {};
}

Result<void> WeightLoader::TakenCheck::checkOtherNames() {
  for (const auto &[name, file] : loader.checkpoint.names()) {
    const std::optional<TensorPlace> read = readTensorPlace(name);
    if (!read || read->layer != loader.number || !read->irrelevant.empty())
      continue;
    const bool isShared =
        read->place == Place::SharedExperts || read->place == Place::SharedGate;
    leavesShared |= isShared && options.noSharedExperts;
    if ((isShared && options.noSharedExperts) || ignored.has(name) ||
        (read->place == Place::SharedGate && shape.sharedGate))
      continue;
    if (read->place == Place::SharedGate)
      return loader.untaken(name, "weighs the layer's shared experts",
                            "a layer with shared_expert_gate",
                            "shared_expert_gate");
    if (isShared && shape.shared == 0)
      return refused(
          "{}: tensor '{}' is a shared expert's, and layer '{}' has none; "
          "accepted: {} where the caller computes them",
          loader.checkpoint.path(), name, shape.name,
          loader.names.noSharedExperts);
    return loader.untaken(name,
                          fmt::format("belongs to the layer's {}",
                                      read->place == Place::Router ? "router"
                                      : isShared ? "shared experts"
                                                 : "experts"),
                          "tensors that docs/reference/checkpoints.md lists",
                          valueWord(name));
  }
  return {};
}

Result<void> WeightLoader::TakenCheck::checkOptions() const {
  const OptionNames &names = loader.names;
  if (options.noSharedExperts && options.needsSharedExperts) {
    if (shape.shared > 0)
      return refused("layer '{}' of the package has shared experts, so that "
                     "their weights are loaded; leave {} out",
                     shape.name, names.noSharedExperts);
    if (!leavesShared)
      return refused("{}: layer {} has no shared experts; leave {} out",
                     loader.checkpoint.path(), loader.number,
                     names.noSharedExperts);
  }
  if (const std::string *word = ignored.unused())
    return refused("{}: {}{}: layer {} has no tensor of that word that no "
                   "value takes",
                   loader.checkpoint.path(), names.ignored, *word,
                   loader.number);
  return {};
}

Result<void> WeightLoader::checkTaken(const Manifest &manifest,
                                      const LoadOptions &options) {
  TakenCheck check(*this, manifest, options,
                   TRY(takenBy(manifest, options.quantize)));
  TRY(check.checkRoles());
  TRY(checkOneEach());
  TRY(check.checkOtherNames());
  TRY(check.checkOptions());

  // The shards and the index must agree about the tensors that this rank uses.
  for (const auto &[role, found] : tensors)
    if (isOfThisRank(role))
      if (Result<const StoredTensor *> known = checkpoint.find(found.name);
          !known)
        return known.takeError();
  return checkpoint.checkNames([&](std::string_view name) {
    const std::optional<TensorName> read = readTensorName(name);
    return read && read->layer == number;
  });
}
