//===- ValidateKernels.cpp - kernels, arguments, stages, tensor maps ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The static checks of a target: all properties of kernels that do not depend
// on the token count, and the rules of cuTensorMapEncodeTiled.
//
//===----------------------------------------------------------------------===//

#include "runtime/package/Checker.h"
#include "runtime/package/ElementTypes.h"
#include "runtime/package/KernelText.h"
#include "runtime/package/Limits.h"
#include "runtime/package/Stages.h"
#include "runtime/support/Files.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace moec;
using Kind = ArgumentField::Kind;

/// Maximum size of kernel parameters in bytes. More than 4 KB would need a
/// newer driver than moec requires.
static constexpr int64_t kMaxArgumentBytes = 4096;
/// Maximum opt-in shared memory of any arch, 227 KB. The limit of the actual
/// device is checked at load time.
static constexpr int64_t kMaxSharedBytes = 232448;

static int64_t fieldAlignment(const ArgumentField &field) {
  return field.kind == Kind::TensorMap ? 64 : field.bytes();
}

static const TensorMap *findTensorMap(const Target &target,
                                      std::string_view name) {
  for (const TensorMap &map : target.tensorMaps)
    if (map.name == name)
      return &map;
  return nullptr;
}

std::vector<std::string> moec::touchedValues(const Target &target,
                                             const Kernel &kernel) {
  std::vector<std::string> names;
  for (const ArgumentField &field : kernel.arguments.fields) {
    if (field.kind == Kind::Pointer)
      names.push_back(field.value);
    if (field.kind == Kind::TensorMap)
      if (const TensorMap *map = findTensorMap(target, field.tensorMap))
        names.push_back(map->value);
  }
  return names;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

Result<void> Checker::checkKernel(const std::string &path, const Target &target,
                                  const Kernel &kernel) {
  if (!isContainedPath(kernel.source))
    return fail(path + ".source",
                "expected a path inside the package, got "
                "'{}'",
                kernel.source);
  if (!kernel.cubin.empty() && !isContainedPath(kernel.cubin))
    return fail(path + ".cubin", "expected a path inside the package, got '{}'",
                kernel.cubin);
  for (size_t i = 0; i < kernel.headers.size(); ++i)
    if (!isContainedPath(kernel.headers[i]))
      return fail(fmt::format("{}.headers[{}]", path, i),
                  "expected a relative path, got '{}'", kernel.headers[i]);
  // Other options are not allowed, because some NVRTC options read and write
  // files.
  if (std::vector<std::string> options = kernelOptions(target.arch);
      kernel.options != options)
    return fail(path + ".options", "expected [{}], got [{}]",
                fmt::join(options, ", "), fmt::join(kernel.options, ", "));
  if (kernel.threads < 32 || kernel.threads > 1024 || kernel.threads % 32)
    return fail(path + ".threads",
                "expected a multiple of 32 from 32 to 1024, got {}",
                kernel.threads);
  TRY(checkInteger(path + ".shared_bytes", kernel.sharedBytes, 0,
                   kMaxSharedBytes));
  TRY(checkInteger(path + ".min_ctas_per_sm", kernel.minCtasPerSm, 1, 32));
  if (kernel.minCtasPerSm * kernel.threads > 2048)
    return fail(path + ".min_ctas_per_sm",
                "expected at most {} CTAs of {} threads on an SM of 2048, got "
                "{}",
                2048 / kernel.threads, kernel.threads, kernel.minCtasPerSm);
  int64_t clusterCtas = 1;
  for (size_t i = 0; i < 3; ++i) {
    TRY(checkInteger(fmt::format("{}.cluster[{}]", path, i), kernel.cluster[i],
                     1, 16));
    clusterCtas *= kernel.cluster[i];
  }
  if (clusterCtas > 16)
    return fail(path + ".cluster", "expected at most 16 CTAs, got {}",
                clusterCtas);
  if (clusterCtas > 1 && target.computeMajor < 9)
    return fail(path + ".cluster",
                "expected [1, 1, 1]: {} has no clusters (sm_90 and later have)",
                target.arch);
  if (kernel.programmatic && target.computeMajor < 9)
    return fail(path + ".programmatic",
                "expected false: {} has no programmatic launch (sm_90 and "
                "later have)",
                target.arch);
  TRY(checkArguments(path + ".arguments", target, kernel));
  return checkStages(path + ".stages", target, kernel);
}

//===----------------------------------------------------------------------===//
// Argument blocks
//===----------------------------------------------------------------------===//

/// Checks the members that a field of this kind requires.
Result<void> Checker::checkArgument(const std::string &path,
                                    const std::string &where,
                                    const Target &target,
                                    const ArgumentBlock &block,
                                    const ArgumentField &field) {
  switch (field.kind) {
  case Kind::Pointer:
  case Kind::RowStride:
  case Kind::ElementType: {
    const Value *value = findValue(manifest, target, field.value);
    if (!value)
      return fail(where + ".value", "expected the name of a value, got '{}'",
                  field.value);
    if (field.kind == Kind::RowStride && value->shape.size() < 2)
      return fail(where + ".value",
                  "expected a value with rows, '{}' has {} dimension(s)",
                  field.value, value->shape.size());
    break;
  }
  case Kind::TensorMap:
    if (!findTensorMap(target, field.tensorMap))
      return fail(where + ".tensor_map",
                  "expected the name of a tensor map, got '{}'",
                  field.tensorMap);
    if (target.computeMajor < 9)
      return fail(where + ".kind",
                  "expected no tensor map: {} has no TMA (sm_90 and later "
                  "have)",
                  target.arch);
    if (block.alignment != 64)
      return fail(path + ".alignment",
                  "expected 64, since '{}' is a tensor map, got {}", field.name,
                  block.alignment);
    break;
  case Kind::Size:
    TRY(checkWord(where + ".element_type", field.elementType,
                  {"i32", "i64", "f32"}));
    break;
  case Kind::FirstExpert:
    break;
  case Kind::Peers:
  case Kind::Status:
    if (target.windowRanks == 1)
      return fail(where + ".kind",
                  "expected no '{}' without window_ranks: no rank has a "
                  "window",
                  field.name);
    break;
  }
  return {};
}

Result<void> Checker::checkArguments(const std::string &path,
                                     const Target &target,
                                     const Kernel &kernel) {
  const ArgumentBlock &block = kernel.arguments;
  TRY(checkInteger(path + ".bytes", block.bytes, 1, kMaxArgumentBytes));
  if (block.alignment != 8 && block.alignment != 64)
    return fail(path + ".alignment",
                "expected 8, or 64 with tensor maps, got "
                "{}",
                block.alignment);
  if (block.bytes % block.alignment)
    return fail(path + ".bytes",
                "expected a multiple of the alignment {}, got "
                "{}",
                block.alignment, block.bytes);
  if (block.fields.empty())
    return fail(path + ".fields", "expected at least one field");
  int64_t end = 0;
  std::set<std::string> names;
  for (size_t i = 0; i < block.fields.size(); ++i) {
    const ArgumentField &field = block.fields[i];
    std::string where = fmt::format("{}.fields[{}]", path, i);
    TRY(checkName(where + ".name", field.name, names));
    TRY(checkArgument(path, where, target, block, field));
    int64_t alignment = fieldAlignment(field);
    if (field.offset < 0 || field.offset % alignment)
      return fail(where + ".offset", "expected a multiple of {}, got {}",
                  alignment, field.offset);
    if (field.offset < end)
      return fail(where + ".offset",
                  "expected at least {}, where the field before it ends, got "
                  "{}",
                  end, field.offset);
    end = field.offset + field.bytes();
    if (end > block.bytes)
      return fail(where + ".offset",
                  "expected {} bytes to end within the block of {}, got "
                  "offset {}",
                  field.bytes(), block.bytes, field.offset);
  }
  // The C++ compiler inserts padding between fields only for alignment, so a
  // longer block means that a field is missing in the manifest.
  int64_t packed =
      (end + block.alignment - 1) / block.alignment * block.alignment;
  if (block.bytes != packed)
    return fail(path + ".bytes",
                "expected {}, where the last field ends, got "
                "{}",
                packed, block.bytes);
  // If a value has several element types, the kernel must receive the type
  // code. Otherwise it would read the value as its default type.
  for (size_t i = 0; i < block.fields.size(); ++i) {
    const ArgumentField &field = block.fields[i];
    if (field.kind != Kind::Pointer)
      continue;
    const Value *value = findValue(manifest, target, field.value);
    if (value->elementTypes.size() > 1 &&
        std::ranges::none_of(block.fields, [&](const ArgumentField &other) {
          return other.kind == Kind::ElementType && other.value == field.value;
        }))
      return fail(fmt::format("{}.fields[{}]", path, i),
                  "expected a field of kind element_type next to the pointer "
                  "to '{}', which a run may give as {}, got none",
                  field.value, fmt::join(value->elementTypes, " or "));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Returns true if the list contains `name`, as an optional or required name.
static bool rowHas(WordList row, std::string_view name) {
  return std::ranges::any_of(row, [&](std::string_view word) {
    return word.substr(0, word.find('?')) == name;
  });
}

static std::string_view typeProblem(const nlohmann::json &value,
                                    std::string_view type) {
  bool nullable = type.back() == '?';
  if (nullable)
    type.remove_suffix(1);
  if (nullable && value.is_null())
    return "";
  if (type == "integer" || type == "extent")
    return value.is_number_integer() ? "" : "an integer";
  if (type == "number")
    return value.is_number() ? "" : nullable ? "a number or null" : "a number";
  if (type == "boolean")
    return value.is_boolean() ? "" : "true or false";
  return value.is_string() ? "" : "a string";
}

/// Checks the width of an integer operand or result. Kernels and the host
/// device access it with the width that kIntegerValues defines for its name.
/// With a different width they would access memory outside the caller's tensor.
Result<void> Checker::checkIntegers(const std::string &path,
                                    std::string_view op, std::string_view name,
                                    const Value &value) {
  const IntegerValue *row = findIntegerValue(op, name);
  if (!row)
    return {};
  for (const std::string &type : value.elementTypes)
    if (type != "i32" && !(row->wide && type == "i64"))
      return fail(path,
                  "expected '{}' to be of {}, since {} is an integer of "
                  "{}, got {}",
                  value.name, row->wide ? "i32 or i64" : "i32", name, op, type);
  return {};
}

/// Returns true if the attribute is an expert count or a pair count.
static bool countsExperts(std::string_view attribute) {
  return attribute == "experts" || attribute == "local_experts" ||
         attribute == "physical_experts" || attribute == "replica_slots" ||
         attribute == "shared" || attribute == "zero" || attribute == "top_k" ||
         attribute == "pairs";
}

/// Checks that a rank operand refers to a Size argument whose expression is
/// exactly the operand's symbol.
Result<void> Checker::checkRankOperand(const std::string &path,
                                       std::string_view operand,
                                       std::string_view field,
                                       const Kernel &kernel) {
  const std::string_view symbol = findRankOperand(operand)->symbol;
  for (const ArgumentField &argument : kernel.arguments.fields)
    if (argument.name == field && argument.kind == Kind::Size &&
        argument.elementType == "i32" &&
        argument.expression == Expression::symbol(symbol))
      return {};
  return fail(
      path,
      "expected an argument of kind size, type i32 and expression '{}', "
      "got '{}'",
      symbol, field);
}

/// Checks that every rank's experts are among the layer's experts. Kernels rely
/// on it.
Result<void> Checker::checkLocalExperts(const std::string &path,
                                        const Stage &stage) {
  if (stage.op != "permute" && stage.op != "pair_rows")
    return {};
  const auto experts = stage.attributes->at("experts").get<int64_t>();
  const auto local = stage.attributes->at("local_experts").get<int64_t>();
  const bool takesBegin = stage.operands.contains("local_begin");
  if (local < experts && !takesBegin)
    return fail(path + ".operands",
                "expected 'local_begin', since a rank holds {} of {} experts",
                local, experts);
  for (const RankFacts &facts : manifest.ranks)
    if (const int64_t begin = takesBegin ? facts.localBegin : 0;
        begin + local > experts)
      return fail(path + ".attributes.local_experts",
                  "expected local experts within {}, got {} from {} on of rank "
                  "{}",
                  experts, local, begin, facts.rank);
  return {};
}

/// Returns the argument kind for an operand that is an address for the exchange
/// between ranks, or nullopt. The operand is named like its kind.
static std::optional<Kind> kindOfExchange(std::string_view operand) {
  if (operand == "peers")
    return Kind::Peers;
  if (operand == "status")
    return Kind::Status;
  return std::nullopt;
}

/// Checks the operands and results of a stage against its kind and the argument
/// block. `locals`: values that earlier stages of the kernel produced.
Result<void> Checker::checkOperands(const std::string &where,
                                    const Target &target, const Kernel &kernel,
                                    const Stage &stage, const StageKind &kind,
                                    std::set<std::string> &locals) {
  for (bool isResult : {false, true}) {
    const auto &names = isResult ? stage.results : stage.operands;
    const WordList row = isResult ? kind.results : kind.operands;
    std::string_view what = isResult ? "results" : "operands";
    for (std::string_view word : row)
      if (word.back() != '?' && !names.contains(std::string(word)))
        return fail(fmt::format("{}.{}", where, what),
                    "expected '{}' of {}, and it is missing", word, stage.op);
    for (const auto &[name, field] : names) {
      std::string at = fmt::format("{}.{}.{}", where, what, name);
      if (!rowHas(row, name))
        return fail(at, "unknown; {} has {}", stage.op, row.text());
      if (!field.empty() && field[0] == '%') {
        if (isResult && !locals.insert(field).second)
          return fail(at, "expected a new name, got '{}' again", field);
        if (!isResult && !locals.count(field))
          return fail(at,
                      "expected a value of an earlier stage of this "
                      "kernel, got '{}'",
                      field);
        continue;
      }
      if (!isResult && findRankOperand(name)) {
        TRY(checkRankOperand(at, name, field, kernel));
        continue;
      }
      auto argument = std::ranges::find_if(
          kernel.arguments.fields,
          [&](const ArgumentField &row) { return row.name == field; });
      if (const auto wanted = kindOfExchange(name); !isResult && wanted) {
        if (argument == kernel.arguments.fields.end() ||
            argument->kind != *wanted)
          return fail(at, "expected an argument of kind {}, got '{}'", name,
                      field);
        continue;
      }
      if (argument == kernel.arguments.fields.end() ||
          (argument->kind != Kind::Pointer &&
           argument->kind != Kind::TensorMap))
        return fail(at,
                    "expected a pointer or tensor map of the argument block, "
                    "or a '%name', got '{}'",
                    field);
      if (argument->kind != Kind::Pointer)
        continue;
      const Value &value = *findValue(manifest, target, argument->value);
      TRY(checkIntegers(at, stage.op, name, value));
      if (isResult && (value.role == ValueRole::Input ||
                       value.role == ValueRole::OptionalInput ||
                       value.role == ValueRole::StoredWeight))
        return fail(at,
                    "expected a value that may be written, '{}' is read "
                    "only",
                    argument->value);
    }
  }
  return {};
}

Result<void> Checker::checkAttributes(const std::string &where,
                                      const Stage &stage,
                                      const StageKind &kind) {
  std::set<std::string> known;
  for (std::string_view word : kind.attributes) {
    std::string name(word.substr(0, word.find(':')));
    known.insert(name);
    std::string at = fmt::format("{}.attributes", where);
    auto found = stage.attributes->find(name);
    bool mayMiss = word.ends_with('~');
    if (mayMiss)
      word.remove_suffix(1);
    if (found == stage.attributes->end()) {
      if (mayMiss)
        continue;
      return fail(at, "expected '{}' of {}, and it is missing", name, stage.op);
    }
    at += "." + name;
    std::string_view expected =
        typeProblem(*found, word.substr(word.find(':') + 1));
    if (!expected.empty())
      return fail(at, "expected {}, got {}", expected,
                  found->dump(-1, ' ', false,
                              nlohmann::json::error_handler_t::replace));
    if (!found->is_number_integer())
      continue;
    if (word.find(":extent") != std::string_view::npos) {
      if (integerIn(*found, -1, 2147483647).value_or(0) == 0)
        return fail(at, "expected -1 (all) or 1 to 2147483647, got {}",
                    found->dump());
      continue;
    }
    if (found->is_number_unsigned() ? found->get<uint64_t>() > 2147483647
                                    : found->get<int64_t>() < 0)
      return fail(at, "expected 0 to 2147483647, got {}", found->dump());
    if (countsExperts(name) && found->get<int64_t>() > kMostExperts)
      return fail(at, "expected 0 to {}, got {}", kMostExperts, found->dump());
  }
  for (const auto &item : stage.attributes->items())
    if (!known.count(item.key()))
      return fail(fmt::format("{}.attributes.{}", where, item.key()),
                  "unknown; {} has {}", stage.op, fmt::join(known, ", "));
  return {};
}

Result<void> Checker::checkStages(const std::string &path, const Target &target,
                                  const Kernel &kernel) {
  if (kernel.stages.empty())
    return fail(path, "expected at least one stage");
  std::set<std::string> locals;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const Stage &stage = kernel.stages[i];
    std::string where = fmt::format("{}[{}]", path, i);
    const StageKind *kind = findStageKind(stage.op);
    if (!kind) {
      std::string known;
      for (const StageKind &row : kStageKinds)
        known.append(known.empty() ? "" : ", ").append(row.op);
      return fail(where + ".op", "expected one of {}, got '{}'", known,
                  stage.op);
    }
    TRY(checkOperands(where, target, kernel, stage, *kind, locals));
    TRY(checkAttributes(where, stage, *kind));
    TRY(checkLocalExperts(where, stage));
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Tensor maps
//===----------------------------------------------------------------------===//

Result<void> Checker::checkTensorMap(const std::string &path,
                                     const Target &target,
                                     const TensorMap &map) {
  const Value *value = findValue(manifest, target, map.value);
  if (!value)
    return fail(path + ".value", "expected the name of a value, got '{}'",
                map.value);
  const ElementType *type = findElementType(map.elementType);
  if (!type)
    return fail(path + ".element_type", "expected one of {}, got '{}'",
                elementTypeNames(), map.elementType);
  TRY(checkWord(path + ".interleave", map.interleave, {"none", "16b", "32b"}));
  TRY(checkWord(path + ".swizzle", map.swizzle,
                {"none", "32b", "64b", "128b"}));
  TRY(checkWord(path + ".l2_promotion", map.l2Promotion,
                {"none", "64b", "128b", "256b"}));
  TRY(checkWord(path + ".out_of_bounds_fill", map.outOfBoundsFill,
                {"zeros", "nan"}));
  size_t rank = map.extents.size();
  bool interleaved = map.interleave != "none";
  if (rank < (interleaved ? 3u : 1u) || rank > 5)
    return fail(path + ".extents", "expected {} to 5 dimensions, got {}",
                interleaved ? 3 : 1, rank);
  if (map.strides.size() != rank - 1)
    return fail(path + ".strides",
                "expected {} strides, one for each dimension but the "
                "innermost, got {}",
                rank - 1, map.strides.size());
  if (map.box.size() != rank)
    return fail(path + ".box", "expected {} extents, got {}", rank,
                map.box.size());
  if (map.elementStrides.size() != rank)
    return fail(path + ".element_strides", "expected {} strides, got {}", rank,
                map.elementStrides.size());
  for (size_t i = 0; i < rank; ++i) {
    TRY(checkInteger(fmt::format("{}.box[{}]", path, i), map.box[i], 1, 256));
    TRY(checkInteger(fmt::format("{}.element_strides[{}]", path, i),
                     map.elementStrides[i], 1, 8));
  }
  if (map.outOfBoundsFill == "nan" && !type->floating)
    return fail(path + ".out_of_bounds_fill",
                "expected 'zeros': {} is no floating-point type",
                map.elementType);
  int64_t innerBits = map.box[0] * type->bits;
  if (!interleaved && innerBits % 128)
    return fail(path + ".box[0]",
                "expected a multiple of 16 bytes, got {} elements of {} bits",
                map.box[0], type->bits);
  for (auto [swizzle, bytes] :
       {std::pair{"32b", 32}, std::pair{"64b", 64}, std::pair{"128b", 128}})
    if (!interleaved && map.swizzle == swizzle && innerBits > bytes * 8)
      return fail(path + ".box[0]",
                  "expected at most {} bytes with swizzle '{}', got {} "
                  "elements of {} bits",
                  bytes, swizzle, map.box[0], type->bits);
  if (map.interleave == "32b" && map.swizzle != "32b")
    return fail(path + ".swizzle",
                "expected '32b' with interleave '32b', got "
                "'{}'",
                map.swizzle);
  int64_t unit = map.interleave == "32b" ? 32 : 16;
  if (value->alignment < unit)
    return fail(path + ".value",
                "expected a value aligned to {} bytes, '{}' is to {}", unit,
                map.value, value->alignment);
  for (const Symbols &symbols :
       sampleSymbols(manifest, 1, manifest.maxTokens)) {
    __int128 bits = 0; // from the first element to the end of the last element
    for (size_t i = 0; i < rank; ++i) {
      int64_t extent =
          TRY(evaluate(fmt::format("{}.extents[{}]", path, i), map.extents[i],
                       symbols, 1, int64_t(1) << 32));
      if (i == 0) {
        bits = static_cast<__int128>(extent) * type->bits;
        continue;
      }
      std::string where = fmt::format("{}.strides[{}]", path, i - 1);
      int64_t stride = TRY(evaluate(where, map.strides[i - 1], symbols, unit,
                                    (int64_t(1) << 40) - 1));
      if (stride % unit)
        return fail(where, "expected a multiple of {} bytes, got {} = {}", unit,
                    map.strides[i - 1].text(), stride);
      bits += static_cast<__int128>(extent - 1) * stride * 8;
    }
    Result<int64_t> bytes = valueBytes(*value, symbols);
    if (!bytes)
      return fail(path + ".value", "{}", bytes.error().message);
    if (bits > static_cast<__int128>(*bytes) * 8)
      return fail(path + ".extents",
                  "expected extents within the {} bytes of '{}', they reach to "
                  "byte {} with {}",
                  *bytes, map.value, static_cast<int64_t>(bits / 8),
                  describe(symbols));
  }
  return {};
}
