//===- VllmTuned.cpp - tile rows out of vLLM's files ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block that no engine has as a tile is left out with a word about it.
//
//===----------------------------------------------------------------------===//

#include "compiler/tune/VllmTuned.h"

#include "compiler/plan/MatmulProblems.h"
#include "compiler/plan/TunedStore.h"
#include "compiler/tune/TunedInput.h"
#include "dialect/catalog/Gpus.h"
#include "runtime/support/Files.h"
#include "runtime/support/JsonReader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

using namespace moec;
using namespace moec::compiler;

/// The value of `key=` in a name whose fields are apart by commas.
static std::string fieldOf(std::string_view name, std::string_view key) {
  const std::string word = fmt::format("{}=", key);
  size_t begin = name.starts_with(word) ? 0 : name.find("," + word);
  if (begin == std::string_view::npos)
    return "";
  begin = name.find('=', begin) + 1;
  const size_t end = name.find(',', begin);
  return std::string(name.substr(begin, end - begin));
}

static std::optional<int64_t> numberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    return std::nullopt;
  return number;
}

/// vLLM takes the nearest token count, of two the smaller one.
static void setRanges(std::vector<VllmTuned::Blocks> &blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].first = i == 0 ? 1 : blocks[i - 1].last + 1;
    blocks[i].last = i + 1 == blocks.size()
                         ? INT32_MAX
                         : (blocks[i].tokens + blocks[i + 1].tokens) / 2;
  }
  std::vector<VllmTuned::Blocks> merged;
  for (const VllmTuned::Blocks &block : blocks)
    if (!merged.empty() && merged.back().rows == block.rows)
      merged.back().last = block.last;
    else
      merged.push_back(block);
  blocks = std::move(merged);
}

Result<VllmTuned> compiler::parseVllmTuned(const std::string &path,
                                           std::string_view text) {
  std::string_view name = path;
  if (const size_t slash = name.rfind('/'); slash != std::string_view::npos)
    name.remove_prefix(slash + 1);
  VllmTuned made;
  const auto experts = numberOf(fieldOf(name, "E"));
  std::string_view stem = name;
  if (stem.ends_with(".json"))
    stem.remove_suffix(5);
  const auto intermediate = numberOf(fieldOf(stem, "N"));
  made.deviceName = fieldOf(stem, "device_name");
  made.dtype = fieldOf(stem, "dtype");
  if (!experts || !intermediate || made.deviceName.empty() ||
      stem.size() == name.size())
    return invalidArgument(
        "'{}': expected a file of vLLM's that is called "
        "E=..,N=..,device_name=..[,dtype=..].json, got this name",
        path);
  made.experts = *experts, made.intermediate = *intermediate;
  std::ranges::replace(made.deviceName, '_', ' ');
  JsonErrors errors{fmt::format("vLLM's blocks '{}'", path), std::nullopt,
                    ErrorCode::InvalidArgument};
  constexpr size_t kMostBytes = size_t(1) << 20;
  nlohmann::json root =
      TRY(parseJsonObject(text, errors.name, errors.code, {kMostBytes}));
  JsonReader file(root, "", errors);
  file.textOr("triton_version", "");
  std::map<int64_t, int64_t> rows;
  for (const auto &item : root.items()) {
    if (item.key() == "triton_version")
      continue;
    const auto tokens = numberOf(item.key());
    if (!tokens || *tokens > INT32_MAX) {
      file.refuse(item.key(), "expected a token count as the name");
      continue;
    }
    if (std::optional<JsonReader> block = file.object(item.key()))
      rows[*tokens] = block->integer("BLOCK_SIZE_M", 1, INT32_MAX);
    else
      file.expected(item.key(), "an object");
  }
  file.refuseUnknown();
  if (errors.first)
    return *std::move(errors.first);
  if (rows.empty())
    return invalidArgument("{}: expected token counts, got none", errors.name);
  for (const auto &[tokens, its] : rows)
    made.blocks.push_back({tokens, 0, 0, its});
  setRanges(made.blocks);
  return made;
}

/// Whether the file is of this layer on this GPU.
static Result<void> checkFits(const std::string &path, const VllmTuned &file,
                              const TunedInput &input,
                              const TunedLayer &layer) {
  const catalog::Gpu *gpu = catalog::findGpuByDevice(file.deviceName);
  if (!gpu || gpu->name != input.hardware().gpu)
    return refused("'{}' is of device '{}', and schedules are for GPU '{}'; "
                   "expected --gpu and --arch of the file's",
                   path, file.deviceName, input.hardware().gpu);
  if (file.experts != layer.first.localExperts ||
      file.intermediate != layer.second.k)
    return refused("'{}' is of {} experts with an intermediate size of {}, and "
                   "the layer has {} with {}",
                   path, file.experts, file.intermediate,
                   layer.first.localExperts, layer.second.k);
  // Names of vLLM, and the bytes of what is multiplied and of what is stored.
  struct Type {
    std::string_view name;
    int64_t operandBytes;
    bool converts;
  };
  static constexpr Type kTypes[] = {
      {"", 2, false},          {"fp8_w8a8", 1, false},  {"int8_w8a8", 1, false},
      {"int8_w8a16", 2, true}, {"int4_w4a16", 2, true}, {"fp8_w8a16", 2, true}};
  const auto *type = std::ranges::find(kTypes, file.dtype, &Type::name);
  if (type == std::end(kTypes))
    return refused("'{}': dtype '{}' is none that maps", path, file.dtype);
  const bool converts = layer.first.codeBits > 0 ||
                        layer.first.elementType.find(' ') != std::string::npos;
  if (type->operandBytes != layer.first.elementBytes ||
      type->converts != converts)
    return refused("'{}' is of {}, and the layer multiplies {}", path,
                   file.dtype.empty() ? "weights as the model has them"
                                      : fmt::format("dtype {}", file.dtype),
                   layer.first.elementType);
  return {};
}

Result<std::string> compiler::importTuned(const ImportTunedOptions &options) {
  const TunedInput input = TRY(TunedInput::open(
      {options.input, std::nullopt}, options.import, options.compile));
  std::string output = options.output;
  if (output.empty()) {
    const std::string store = tunedStoreFolder(options.compile.cacheFolder);
    if (store.empty())
      return refused("there is no store of measured schedules "
                     "(MOEC_TUNED_STORE is off, or no folder of a cache is "
                     "known); expected --out");
    output = joinPath(store, input.hardware().gpu + ".json");
  }
  std::string said;
  std::vector<TunedRow> rows;
  constexpr int64_t kAnyTile = 16;
  const TunedLayer any = TRY(input.problemsFor({1, 1, 1}, kAnyTile));
  const std::vector<int64_t> sizes =
      tileRowsOf(any.engines, any.first.elementBytes);
  for (const std::string &path : options.files) {
    const VllmTuned file = TRY(parseVllmTuned(path, TRY(readFile(path))));
    TRY(checkFits(path, file, input, any));
    int64_t taken = 0;
    std::vector<std::string> left;
    for (const VllmTuned::Blocks &block : file.blocks) {
      if (block.first > input.maxTokens())
        continue;
      TokenRange range = {block.tokens, block.first,
                          std::min(block.last, input.maxTokens())};
      range.tokens = std::min(range.tokens, range.last);
      const TunedLayer layer = TRY(input.problemsFor(range, block.rows));
      const auto first = centerOf(layer.first, layer.engines, input.hardware());
      const auto second =
          centerOf(layer.second, layer.secondEngines, input.hardware());
      if (std::ranges::find(sizes, block.rows) == sizes.end() || !first ||
          !second) {
        left.push_back(fmt::format("{} for {} to {} tokens", block.rows,
                                   range.first, range.last));
        continue;
      }
      for (TunedRow row : input.rowsFor(range, layer, {*first, *second})) {
        row.microseconds = 0;
        const size_t slash = path.rfind('/');
        row.imported =
            slash == std::string::npos ? path : path.substr(slash + 1);
        rows.push_back(std::move(row));
      }
      ++taken;
    }
    said += fmt::format("{}: {} ranges of tile rows{}\n", path, taken,
                        left.empty()
                            ? std::string()
                            : fmt::format("; no engine has tiles of rows: {}",
                                          fmt::join(left, ", ")));
  }
  if (rows.empty())
    return refused("none of the files has tile rows that an engine has:\n{}",
                   said);
  TRY(addToTuned(output, rows));
  return said + fmt::format("{}: {} rows, imported and not measured here\n",
                            output, rows.size());
}
