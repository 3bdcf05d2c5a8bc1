//===- HuggingFace.h - config.json of a model -------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads the config of any family of the table in Families.cpp. Keys that could
// change the layer and that nobody read are refused, not ignored.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_IMPORT_HUGGINGFACE_H
#define MOEC_COMPILER_IMPORT_HUGGINGFACE_H

#include "compiler/import/ImportOptions.h"
#include "compiler/import/LayerDescription.h"
#include "runtime/support/JsonReader.h"

namespace moec::compiler {

/// `object` holds "architectures" or "model_type".
Result<LayerDescription> readHuggingFace(const nlohmann::json &object,
                                         std::string_view name,
                                         const ImportOptions &options);

} // namespace moec::compiler

#endif // MOEC_COMPILER_IMPORT_HUGGINGFACE_H
