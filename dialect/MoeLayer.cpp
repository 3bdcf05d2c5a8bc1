//===- MoeLayer.cpp - the layer op ----------------------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parser, printer and verifier of moe.layer.
//
//===----------------------------------------------------------------------===//

#include "dialect/Moe.h"

using namespace mlir;
using namespace moec::moe;

/// In the order in which they are printed: that of the definition.
static ArrayRef<StringRef> optionNames() {
  return LayerOp::getAttributeNames().drop_front(); // without sym_name
}

ParseResult LayerOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  if (parser.parseSymbolName(name, "sym_name", result.attributes))
    return failure();
  const SMLoc at = parser.getCurrentLocation();
  NamedAttrList options;
  if (parser.parseOptionalAttrDict(options))
    return failure();
  for (NamedAttribute option : options) {
    const StringRef word = option.getName().getValue();
    if (!word.contains('.') && !llvm::is_contained(optionNames(), word)) {
      auto error = parser.emitError(at)
                   << "unknown layer option '" << word << "'; known: ";
      llvm::interleaveComma(optionNames(), error);
      return error;
    }
  }
  result.attributes.append(options);
  return success();
}

void LayerOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << " {";
  printer.increaseIndent();
  bool first = true;
  auto print = [&](StringRef name, Attribute value) {
    if (!first)
      printer << ',';
    first = false;
    printer.printNewline();
    printer << name;
    if (isa<UnitAttr>(value))
      return;
    printer << " = ";
    printer.printAttributeWithoutType(value);
  };
  for (StringRef name : optionNames()) {
    Attribute value = (*this)->getAttr(name);
    // Options with a textual default are always set.
    const bool isDefault =
        (name == getGateUpOrderAttrName() && getGateUpOrder() == "gate_first") ||
        (name == getActivationFormatAttrName() &&
         getActivationFormat() == "standard");
    if (value && !isDefault)
      print(name, value);
  }
  for (NamedAttribute attr : (*this)->getDiscardableAttrs())
    print(attr.getName(), attr.getValue());
  printer.decreaseIndent();
  printer.printNewline();
  printer << '}';
}

LogicalResult LayerOp::verify() { return success(); }
