//===- Validate.cpp - consistency of a manifest ---------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks properties that ManifestJson.cpp cannot check: names that resolve,
// sizes that fit and roles that are valid. ValidateKernels.cpp checks kernels,
// argument blocks, stages and tensor maps; ValidateVariants.cpp checks
// launches, workspace, pack and state. These checks run at load time and before
// a package is written.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Checker.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/package/Limits.h"
#include "runtime/package/Stages.h"
#include "runtime/support/Files.h"
#include "runtime/support/Sha256.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>

using namespace moec;

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

static bool isIdentifier(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9'))
    return false;
  return std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  });
}

static bool isPowerOfTwo(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

Result<void> Checker::checkName(const std::string &path,
                                const std::string &name,
                                std::set<std::string> &seen) {
  // Names of cache files consist of the entry name and up to 40 more
  // characters, and must not exceed the file system's limit.
  constexpr size_t kLongest = 160;
  if (name.size() > kLongest)
    return fail(path, "expected a name of at most {} characters, got {}",
                kLongest, name.size());
  if (!isIdentifier(name))
    return fail(path, "expected a name of letters, digits and '_', got '{}'",
                name);
  if (!seen.insert(name).second)
    return fail(path, "expected a unique name, got '{}' again", name);
  return {};
}

Result<void> Checker::checkInteger(const std::string &path, int64_t value,
                                   int64_t least, int64_t most) {
  if (value < least || value > most)
    return fail(path, "expected {} to {}, got {}", least, most, value);
  return {};
}

Result<void> Checker::checkWord(const std::string &path,
                                const std::string &value,
                                std::initializer_list<std::string_view> words) {
  if (std::ranges::find(words, value) == words.end())
    return fail(path, "expected one of {}, got '{}'", fmt::join(words, ", "),
                value);
  return {};
}

Result<int64_t> Checker::evaluate(const std::string &path,
                                  const Expression &expression,
                                  const Symbols &symbols, int64_t least,
                                  int64_t most) {
  Result<int64_t> value = expression.evaluate(symbols);
  if (!value)
    return fail(path, "{}", value.error().message);
  if (*value < least || *value > most)
    return fail(path, "expected {} to {}, got {} = {} with {}", least, most,
                expression.text(), *value, describe(symbols));
  return value;
}

std::vector<Symbols> moec::sampleSymbols(const Manifest &manifest,
                                         int64_t minTokens, int64_t maxTokens) {
  int64_t middle = minTokens + (maxTokens - minTokens) / 2;
  std::set<int64_t> counts = {minTokens, middle, maxTokens};
  for (int64_t tokens : {minTokens + 1, minTokens + (middle - minTokens) / 2,
                         middle + 1, maxTokens - 1})
    if (tokens >= minTokens && tokens <= maxTokens)
      counts.insert(tokens);
  std::vector<Symbols> samples;
  for (int64_t tokens : counts)
    for (int64_t smCount : {1, 1024})
      if (Result<Symbols> symbols = symbolsFor(manifest, tokens, smCount)) {
        // Sizes are the same for all ranks, so rank symbols must not occur in
        // them.
        symbols->localBegin.reset();
        symbols->addW2Bias.reset();
        symbols->addZeroExperts.reset();
        symbols->rank.reset();
        samples.push_back(*symbols);
      }
  return samples;
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static bool hasConstantShape(const Value &value) {
  return std::ranges::all_of(value.shape, [](const Expression &e) {
    return e.constant().has_value();
  });
}

Result<void> Checker::checkValue(const std::string &path, const Value &value,
                                 bool ofTarget) {
  using enum ValueRole;
  bool belongsToTarget = value.role == PackedWeight ||
                         value.role == Workspace || value.role == State ||
                         value.role == Window;
  if (belongsToTarget != ofTarget)
    return fail(path + ".role", "expected {}, which stand in {}",
                ofTarget ? "packed_weight, workspace, state or window"
                         : "an input, an output or stored_weight",
                ofTarget ? "targets[].values" : "values");
  bool isInput = value.role == Input || value.role == OptionalInput;
  bool isTensorOfRun =
      isInput || value.role == Output || value.role == OptionalOutput;
  if (value.elementTypes.empty())
    return fail(path + ".element_types", "expected at least one element type");
  if (value.elementTypes.size() > 1 && !isInput)
    return fail(path + ".element_types",
                "expected one element type; only an input may offer a choice");
  std::set<std::string> types;
  for (size_t i = 0; i < value.elementTypes.size(); ++i) {
    const std::string &type = value.elementTypes[i];
    if (!findElementType(type))
      return fail(fmt::format("{}.element_types[{}]", path, i),
                  "expected one of {}, got '{}'", elementTypeNames(), type);
    if (!types.insert(type).second)
      return fail(fmt::format("{}.element_types[{}]", path, i),
                  "expected each element type once, got '{}' again", type);
  }
  if (value.shape.size() > 8)
    return fail(path + ".shape", "expected at most 8 dimensions, got {}",
                value.shape.size());
  if (!isTensorOfRun && value.role != Workspace && value.role != Window &&
      !hasConstantShape(value))
    return fail(path + ".shape",
                "expected constant extents; only inputs, outputs, workspace "
                "and window depend on the run");
  if (!value.strides.empty() && value.strides.size() != value.shape.size())
    return fail(path + ".strides",
                "expected {} strides, one for each dimension, or none, got {}",
                value.shape.size(), value.strides.size());
  if (!isPowerOfTwo(value.alignment) || value.alignment > kBaseAlignment)
    return fail(path + ".alignment",
                "expected a power of two from 1 to {}, got {}", kBaseAlignment,
                value.alignment);
  if (value.callerRowStride && (!isTensorOfRun || value.shape.size() < 2))
    return fail(path + ".caller_row_stride",
                "expected false; only an input or output of two or more "
                "dimensions has rows with a stride of the caller's");

  for (const Symbols &symbols :
       sampleSymbols(manifest, 1, manifest.maxTokens)) {
    Symbols allowed = symbols;
    if (value.role == Workspace)
      // The scratch memory of a pack step may depend on `experts`, the number
      // of experts that the step packs.
      allowed.experts = 1;
    else
      allowed.smCount.reset();
    int64_t inner = 1;
    for (size_t i = value.shape.size(); i-- > 0;) {
      int64_t extent =
          TRY(evaluate(fmt::format("{}.shape[{}]", path, i), value.shape[i],
                       allowed, isTensorOfRun ? 0 : 1, kMaxBytes));
      int64_t step = inner;
      if (!value.strides.empty())
        step = TRY(evaluate(fmt::format("{}.strides[{}]", path, i),
                            value.strides[i], allowed, inner, kMaxBytes));
      if (__builtin_mul_overflow(step, std::max<int64_t>(extent, 1), &inner) ||
          inner > kMaxBytes)
        return fail(path + ".shape",
                    "expected fewer than 2^62 elements, got "
                    "more with {}",
                    describe(symbols));
    }
    Result<int64_t> bytes = valueBytes(value, allowed);
    if (!bytes)
      return fail(path + ".shape", "{}", bytes.error().message);
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

/// Splits "sm_103a" into 10, 3, 'a' (0 if there is no suffix).
static bool parseArch(std::string_view arch, int64_t &major, int64_t &minor,
                      char &suffix) {
  if (arch.substr(0, 3) != "sm_")
    return false;
  arch.remove_prefix(3);
  suffix = 0;
  if (!arch.empty() && (arch.back() == 'a' || arch.back() == 'f')) {
    suffix = arch.back();
    arch.remove_suffix(1);
  }
  int64_t number = 0;
  auto [end, code] =
      std::from_chars(arch.data(), arch.data() + arch.size(), number);
  if (code != std::errc() || end != arch.data() + arch.size() || number < 10 ||
      number > 9999)
    return false;
  major = number / 10;
  minor = number % 10;
  return true;
}

Result<void> Checker::checkTarget(const std::string &path, const Target &target,
                                  std::set<std::string> &entries) {
  int64_t major = 0, minor = 0;
  char suffix = 0;
  if (!parseArch(target.arch, major, minor, suffix))
    return fail(path + ".arch",
                "expected a name like sm_80, sm_90a or sm_100f, got '{}'",
                target.arch);
  if (target.computeMajor != major)
    return fail(path + ".compute_major", "expected {} for {}, got {}", major,
                target.arch, target.computeMajor);
  if (target.computeMinor != minor)
    return fail(path + ".compute_minor", "expected {} for {}, got {}", minor,
                target.arch, target.computeMinor);
  std::string_view compatibility = suffix == 'a'   ? "exact"
                                   : suffix == 'f' ? "family"
                                                   : "major";
  if (target.compatibility != compatibility)
    return fail(path + ".compatibility", "expected '{}' for {}, got '{}'",
                compatibility, target.arch, target.compatibility);

  std::set<std::string> names;
  for (const Value &value : manifest.values)
    names.insert(value.name);
  for (size_t i = 0; i < target.values.size(); ++i) {
    const Value &value = target.values[i];
    std::string where = fmt::format("{}.values[{}]", path, i);
    TRY(checkName(where + ".name", value.name, names));
    TRY(checkValue(where, value, /*ofTarget=*/true));
    if (value.mayAlias.empty())
      continue;
    const Value *other = findValue(manifest, target, value.mayAlias);
    if (!other || other->role != ValueRole::StoredWeight ||
        value.role != ValueRole::PackedWeight)
      return fail(where + ".may_alias",
                  "expected a stored weight, for a packed one, got '{}'",
                  value.mayAlias);
    if (*valueBytes(value, {}) > *valueBytes(*other, {}))
      return fail(where + ".may_alias",
                  "expected '{}' to hold at least the {} bytes of '{}', it has "
                  "{}",
                  other->name, *valueBytes(value, {}), value.name,
                  *valueBytes(*other, {}));
  }
  names.clear();
  for (size_t i = 0; i < target.tensorMaps.size(); ++i) {
    std::string where = fmt::format("{}.tensor_maps[{}]", path, i);
    TRY(checkName(where + ".name", target.tensorMaps[i].name, names));
    TRY(checkTensorMap(where, target, target.tensorMaps[i]));
  }
  names.clear();
  for (size_t i = 0; i < target.kernels.size(); ++i) {
    const Kernel &kernel = target.kernels[i];
    std::string where = fmt::format("{}.kernels[{}]", path, i);
    TRY(checkName(where + ".name", kernel.name, names));
    TRY(checkName(where + ".entry", kernel.entry, entries));
    TRY(checkKernel(where, target, kernel));
  }
  TRY(checkState(path, target));
  TRY(checkWindow(path, target));
  TRY(checkPacks(path, target));
  return checkVariants(path, target);
}

//===----------------------------------------------------------------------===//
// The manifest
//===----------------------------------------------------------------------===//

/// Returns the names of the static activation scales that a checkpoint of this
/// scheme contains, in order.
static std::vector<std::string> storedInputScales(const nlohmann::json &quant) {
  std::vector<std::string> names;
  const auto has = [](const nlohmann::json &operand, const char *field) {
    return operand.contains(field) && operand[field].is_string();
  };
  const auto is = [](const nlohmann::json &operand, const char *field) {
    return operand.contains(field) && operand[field] == true;
  };
  for (const char *name : {"a1", "a2"}) {
    if (!quant.is_object() || !quant.contains(name) || !quant[name].is_object())
      continue;
    const nlohmann::json &operand = quant[name];
    if (!is(operand, "dynamic") && has(operand, "scale_type"))
      names.push_back(fmt::format("{}_scale", name));
    if (has(operand, "second_scale_type") && !is(operand, "second_per_row"))
      names.push_back(fmt::format("{}_second_scale", name));
  }
  return names;
}

/// Checks that a layer whose realization is weight-only also specifies the
/// scheme that its checkpoint stores.
Result<void> Checker::checkRealization() {
  const nlohmann::json &layer = *manifest.layer;
  const bool hasStored = layer.is_object() && layer.contains("stored_quant");
  const std::string realization = layer.is_object() &&
                                          layer.contains("realization") &&
                                          layer["realization"].is_string()
                                      ? layer["realization"].get<std::string>()
                                      : "";
  if (hasStored != (realization == "weight_only"))
    return fail(
        "layer.stored_quant",
        "expected it only with realization 'weight_only', got realization '{}'",
        realization);
  if (!hasStored)
    return layer.is_object() && layer.contains("left_out")
               ? fail("layer.left_out", "expected it only with stored_quant")
               : Result<void>();
  const auto isText = [](const nlohmann::json &row, const char *field) {
    return row.is_object() && row.contains(field) && row[field].is_string();
  };
  const nlohmann::json list = layer.value("left_out", nlohmann::json::array());
  if (!list.is_array() || !std::ranges::all_of(list, [&](const auto &row) {
        return row.size() == 2 && isText(row, "value") &&
               isText(row, "because");
      }))
    return fail("layer.left_out",
                "expected an array of objects with the texts 'value' and "
                "'because'");
  std::vector<std::string> names;
  for (const nlohmann::json &row : list)
    names.push_back(row["value"]);
  std::ranges::sort(names);
  const std::vector<std::string> expected =
      storedInputScales(layer["stored_quant"]);
  if (names != expected)
    return fail("layer.left_out",
                "expected the stored scales of activations that stored_quant "
                "has ({}), got ({}); a package of another moec is compiled "
                "again",
                fmt::join(expected, ", "), fmt::join(names, ", "));
  for (const std::string &name : names)
    for (const Value &value : manifest.values)
      if (value.name == name)
        return fail("layer.left_out",
                    "expected no value of the package, got '{}'", name);
  return {};
}

Result<void> Checker::checkRanks() {
  if (manifest.ranks.empty())
    return fail("ranks", "expected at least one rank");
  for (size_t i = 0; i < manifest.ranks.size(); ++i) {
    const std::string path = fmt::format("ranks[{}]", i);
    const RankFacts &facts = manifest.ranks[i];
    TRY(checkInteger(path + ".rank", facts.rank,
                     i == 0 ? 0 : manifest.ranks[i - 1].rank + 1, 2147483647));
    TRY(checkInteger(path + ".local_begin", facts.localBegin, 0, kMostExperts));
    TRY(checkInteger(path + ".intermediate_begin", facts.intermediateBegin, 0,
                     2147483647));
    TRY(checkInteger(path + ".shared_intermediate_begin",
                     facts.sharedIntermediateBegin, 0, 2147483647));
  }
  return {};
}

Result<void> Checker::checkManifest() {
  std::set<std::string> seen;
  TRY(checkName("name", manifest.name, seen));
  TRY(checkInteger("max_tokens", manifest.maxTokens, 1, 2147483647));
  TRY(checkInteger("token_ranks", manifest.tokenRanks, 1, manifest.maxTokens));
  for (std::string_view symbol : {"rows", "sm_count", "experts", "own_tokens"})
    if (manifest.rows.uses(symbol))
      return fail("rows",
                  "expected an expression of tokens and max_tokens, "
                  "got '{}'",
                  manifest.rows.text());
  TRY(checkRanks());
  TRY(checkRealization());
  // The device uses 32-bit row indices.
  for (int64_t tokens : {int64_t(1), manifest.maxTokens}) {
    Symbols symbols;
    symbols.tokens = tokens;
    symbols.maxTokens = manifest.maxTokens;
    TRY(evaluate("rows", manifest.rows, symbols, 1, 2147483647));
  }

  seen.clear();
  for (size_t i = 0; i < manifest.values.size(); ++i) {
    std::string path = fmt::format("values[{}]", i);
    const Value &value = manifest.values[i];
    TRY(checkName(path + ".name", value.name, seen));
    TRY(checkValue(path, value, /*ofTarget=*/false));
    if (!value.mayAlias.empty())
      return fail(path + ".may_alias",
                  "expected none; only a packed weight may share memory");
  }
  for (size_t i = 0; i < manifest.oneOf.size(); ++i) {
    std::set<std::string> names;
    std::string path = fmt::format("one_of[{}]", i);
    if (manifest.oneOf[i].empty())
      return fail(path, "expected at least one name");
    for (const std::string &name : manifest.oneOf[i]) {
      auto value =
          std::ranges::find_if(manifest.values, [&](const Value &candidate) {
            return candidate.name == name;
          });
      if (value == manifest.values.end() ||
          value->role != ValueRole::OptionalInput)
        return fail(path, "expected names of optional inputs, got '{}'", name);
      TRY(checkName(path, name, names));
    }
  }
  for (const auto &[file, hash] : manifest.files) {
    constexpr size_t kLongest = 1024;
    if (file.size() > kLongest)
      return fail("files", "expected paths of at most {} characters, got {}",
                  kLongest, file.size());
    std::string path = "files." + file;
    if (!isContainedPath(file) || file == "manifest.json")
      return fail(path, "expected a path inside the package, with '/' and "
                        "without '.' and '..', other than manifest.json");
    if (!isSha256(hash))
      return fail(path,
                  "expected a SHA-256 as 64 lower-case hex digits, got "
                  "'{}'",
                  hash);
  }
  if (manifest.targets.empty())
    return fail("targets", "expected at least one target");
  std::set<std::string> archs, entries;
  for (size_t i = 0; i < manifest.targets.size(); ++i) {
    std::string path = fmt::format("targets[{}]", i);
    TRY(checkName(path + ".arch", manifest.targets[i].arch, archs));
    TRY(checkTarget(path, manifest.targets[i], entries));
  }
  return {};
}

Result<void> moec::validate(const Manifest &manifest) {
  return Checker(manifest).checkManifest();
}
