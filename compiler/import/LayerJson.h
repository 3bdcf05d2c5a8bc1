//===- LayerJson.h - the versioned description of one layer -----*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads moec's own layer JSON (docs/reference/layer-json.md and its schema,
// docs/reference/layer.schema.json), whose fields are named as in vLLM's
// FusedMoEConfig and its parts. Called by Import.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_LAYERJSON_H
#define MOEC_COMPILER_IMPORT_LAYERJSON_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/LayerDescription.h"
#include "runtime/support/Result.h"

#include <nlohmann/json.hpp>

#include <string_view>

namespace moec::compiler {

/// The version that "moec_layer" must name.
inline constexpr int kLayerJsonVersion = 1;

/// `object` holds "moec_layer"; `name` is the file's, for messages.
Result<LayerDescription> readLayerJson(const nlohmann::json &object,
                                       std::string_view name,
                                       const ImportOptions &options);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_LAYERJSON_H
