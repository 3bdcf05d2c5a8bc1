//===- AttributeJson.cpp - attributes of the IR as JSON -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/emit/AttributeJson.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace moec;
using mlir::dyn_cast;
using nlohmann::json;

json compiler::attributeJson(mlir::Attribute attribute) {
  if (auto fields = dyn_cast<mlir::DictionaryAttr>(attribute)) {
    json made = json::object();
    for (mlir::NamedAttribute field : fields)
      made[field.getName().str()] = attributeJson(field.getValue());
    return made;
  }
  if (auto flag = dyn_cast<mlir::BoolAttr>(attribute))
    return flag.getValue();
  if (auto number = dyn_cast<mlir::IntegerAttr>(attribute))
    return number.getType().isInteger(64) ? json(number.getInt()) : json();
  if (auto number = dyn_cast<mlir::FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<mlir::StringAttr>(attribute))
    return text.str();
  return nullptr;
}
