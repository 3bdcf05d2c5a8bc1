//===- AttributeJson.h - attributes of the IR as JSON -----------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_EMIT_ATTRIBUTEJSON_H
#define MOEC_COMPILER_EMIT_ATTRIBUTEJSON_H

#include "mlir/IR/Attributes.h"

#include <nlohmann/json.hpp>

namespace moec::compiler {

/// Returns a bool, number, string or dictionary as JSON, and null for a unit
/// and for all that JSON does not have.
nlohmann::json attributeJson(mlir::Attribute attribute);

} // namespace moec::compiler

#endif // MOEC_COMPILER_EMIT_ATTRIBUTEJSON_H
