//===- Formats.h - input formats --------------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Detects an input's format from its content and reads the formats that are
// JSON. Untrusted input bytes are parsed only here, without MLIR, and the
// mutation tests exercise this code.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_FORMATS_H
#define MOEC_COMPILER_IMPORT_FORMATS_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/LayerDescription.h"
#include "runtime/support/Result.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace moec::compiler {

/// Returns true if the text begins like JSON: with an object, an array or a
/// string. No .mlir file begins like that.
bool looksLikeJson(std::string_view text);

/// Reads a layer JSON or a Hugging Face config.json; the keys distinguish them.
Result<LayerDescription> readDescription(std::string_view text,
                                         std::string_view name,
                                         const ImportOptions &options);

// The readers of the two formats.

/// Reads moec's layer JSON (docs/reference/layer-json.md; the schema is
/// docs/reference/layer.schema.json), whose fields are named as in vLLM's
/// FusedMoEConfig and its parts. `object` contains "moec_layer"; `name` is the
/// file's name, for messages.
Result<LayerDescription> readLayerJson(const nlohmann::json &object,
                                       std::string_view name,
                                       const ImportOptions &options);

/// Reads the config of any family of the table in Families.cpp. `object`
/// contains "architectures" or "model_type". Keys that could change the layer
/// and that are not read are errors, not ignored.
Result<LayerDescription> readHuggingFace(const nlohmann::json &object,
                                         std::string_view name,
                                         const ImportOptions &options);

/// Writes the layer JSON of a layer. Reading it again yields the same layer,
/// except for its origin. Properties that a layer JSON cannot express are
/// errors.
Result<std::string> writeLayerJson(LayerDescription layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FORMATS_H
