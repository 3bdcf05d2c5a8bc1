//===- Formats.h - which kind of input a text is ----------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tells the kinds of input apart by their content and reads those that are
// JSON. No IR: this is the whole path of foreign bytes, and what the mutation
// tests exercise.
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

/// Whether the text begins as JSON does: an object, an array or a string. No
/// .mlir file does.
bool looksLikeJson(std::string_view text);

/// Reads a layer JSON or a Hugging Face config.json, told apart by their keys.
Result<LayerDescription> readDescription(std::string_view text,
                                         std::string_view name,
                                         const ImportOptions &options);

// The readers of both.

/// Reads moec's own layer JSON (docs/reference/layer-json.md and its schema,
/// docs/reference/layer.schema.json), whose fields are named as in vLLM's
/// FusedMoEConfig and its parts. `object` holds "moec_layer"; `name` is the
/// file's, for messages.
Result<LayerDescription> readLayerJson(const nlohmann::json &object,
                                       std::string_view name,
                                       const ImportOptions &options);

/// Reads the config of any family of the table in Families.cpp. `object` holds
/// "architectures" or "model_type". Keys that could change the layer and that
/// have no reader are refused, not ignored.
Result<LayerDescription> readHuggingFace(const nlohmann::json &object,
                                         std::string_view name,
                                         const ImportOptions &options);

/// The layer JSON of a layer: read again it is the same, but for its origin.
/// What a layer JSON does not say is refused.
Result<std::string> writeLayerJson(LayerDescription layer);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_FORMATS_H
