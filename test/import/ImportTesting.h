//===- ImportTesting.h - what the importer tests share ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Inputs as texts: the models of examples/ with single keys changed, and a
// small layer JSON likewise.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_TEST_IMPORT_IMPORTTESTING_H
#define MOEC_TEST_IMPORT_IMPORTTESTING_H

#include "compiler/import/Formats.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace moec::compiler::testing {

/// Returns the path of a file of the source tree. `name` is relative to its
/// root.
inline std::string sourcePath(const std::string &name) {
  return std::string(std::getenv("MOEC_SOURCE_DIR")) + "/" + name;
}

/// The text of examples/models/<name>.json.
inline std::string modelText(const std::string &name) {
  std::ifstream file(sourcePath("examples/models/" + name + ".json"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A valid layer JSON with `changes` laid over it (null removes a field).
inline std::string layerText(const nlohmann::json &changes = {}) {
  nlohmann::json layer = {
      {"moec_layer", 1},        {"name", "small"},
      {"num_experts", 8},       {"top_k", 2},
      {"hidden_size", 64},      {"intermediate_size", 32},
      {"in_dtype", "bfloat16"}, {"routing_method", "renormalize"},
  };
  if (!changes.is_null()) // {} is null to nlohmann
    layer.merge_patch(changes);
  return layer.dump(2);
}

/// A model's config with `changes` laid over it.
inline std::string changed(const std::string &model,
                           const nlohmann::json &changes) {
  nlohmann::json config = nlohmann::json::parse(modelText(model));
  config.merge_patch(changes);
  return config.dump(2);
}

/// The message of the refusal; "" when the text was accepted.
inline std::string refusalOf(const std::string &text,
                             const ImportOptions &options = {}) {
  Result<LayerDescription> layer = readDescription(text, "in.json", options);
  return layer ? "" : layer.error().message;
}

} // namespace moec::compiler::testing

#endif // MOEC_TEST_IMPORT_IMPORTTESTING_H
