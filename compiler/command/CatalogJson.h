//===- CatalogJson.h - what can be named, for programs ----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tables of dialect/catalog and of families of models.
// docs/reference/c-api.md lists the fields.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_COMMAND_CATALOGJSON_H
#define MOEC_COMPILER_COMMAND_CATALOGJSON_H

#include <nlohmann/json.hpp>

namespace moec::compiler {

/// A table for each thing that a user names.
nlohmann::ordered_json catalogJson();

/// The families of models whose config.json is read.
nlohmann::ordered_json familiesJson();

} // namespace moec::compiler

#endif // MOEC_COMPILER_COMMAND_CATALOGJSON_H
