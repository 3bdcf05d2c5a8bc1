//===- Formats.cpp - input formats ----------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Formats.h"

#include "runtime/support/JsonReader.h"
#include "runtime/support/Words.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;

/// Larger than any known model configuration.
static constexpr size_t kMaxConfigBytes = size_t(16) << 20;

bool moec::compiler::looksLikeJson(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF"))
    text.remove_prefix(3);
  size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string_view::npos &&
         (text[start] == '{' || text[start] == '[' || text[start] == '"');
}

Result<LayerDescription>
moec::compiler::readDescription(std::string_view text, std::string_view name,
                                const ImportOptions &options) {
  nlohmann::json object =
      TRY(parseJsonObject(text, name, ErrorCode::Refused, {kMaxConfigBytes}));
  if (object.contains("moec_layer"))
    return readLayerJson(object, name, options);
  if (object.contains("architectures") || object.contains("model_type"))
    return readHuggingFace(object, name, options);
  std::vector<std::string_view> keys;
  for (auto it = object.begin(); it != object.end(); ++it)
    keys.push_back(it.key());
  std::string near;
  for (std::string_view key : {"moec_layer", "architectures", "model_type"})
    if (const std::string_view stray = nearestOf(key, keys); !stray.empty())
      near = fmt::format("; did you mean \"{}\" by \"{}\"?", key, stray);
  return refused("{}: expected an object with \"moec_layer\" (a layer JSON, "
                 "docs/reference/layer-json.md) or with \"architectures\" or "
                 "\"model_type\" (a Hugging Face config.json), got one with "
                 "none of these keys{}",
                 name, near);
}
