//===- VllmTuned.cpp - tile rows out of vLLM's files ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Fields other than BLOCK_SIZE_M are not looked at.
//
//===----------------------------------------------------------------------===//

#include "compiler/plan/VllmTuned.h"

#include "runtime/support/JsonReader.h"

#include <fmt/format.h>

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
