//===- MoeInterfaces.td - the interface of stages ----------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface through which a stage describes itself for the manifest, which
// uses the ODS names of the stage's operands and results.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEINTERFACES_TD
#define MOEC_DIALECT_MOEINTERFACES_TD

include "mlir/IR/OpBase.td"

def Moe_StageOpInterface : OpInterface<"StageOpInterface"> {
  let cppNamespace = "::moec::moe";
  let description = [{
    A stage of a kernel. Manifests use the ODS names of operands, results and
    attributes. A field of an argument block has the name of its operand or
    result.
  }];
  let methods = [
    InterfaceMethod<"Returns the ODS names of the operands. A name ends with '?' if the operand is optional.",
      "::llvm::ArrayRef<::llvm::StringRef>", "getOperandWords", (ins), "", [{
        return ConcreteOp::getODSOperands();
      }]>,
    InterfaceMethod<"Returns the ODS names of the results. A name ends with '?' if the result is optional.",
      "::llvm::ArrayRef<::llvm::StringRef>", "getResultWords", (ins), "", [{
        return ConcreteOp::getODSResults();
      }]>,
    InterfaceMethod<"Returns the ODS name of an operand.",
      "::llvm::StringRef", "getOperandName", (ins "unsigned":$operand), "", [{
        unsigned group = 0;
        for (;; ++group) {
          auto [first, length] = $_op.getODSOperandIndexAndLength(group);
          if (operand < first + length)
            break;
        }
        return ConcreteOp::getODSOperands()[group].rtrim('?');
      }]>,
    InterfaceMethod<"Returns the ODS name of a result.",
      "::llvm::StringRef", "getResultName", (ins "unsigned":$result), "", [{
        unsigned group = 0;
        for (;; ++group) {
          auto [first, length] = $_op.getODSResultIndexAndLength(group);
          if (result < first + length)
            break;
        }
        return ConcreteOp::getODSResults()[group].rtrim('?');
      }]>,
    InterfaceMethod<"Adds the stage's attributes in the manifest: integers, floats, strings and flags. A unit attribute becomes null.",
      "void", "addStageAttributes", (ins "::mlir::NamedAttrList &":$attributes), "", [{
        addDeclaredAttributes($_op, attributes);
      }]>,
    InterfaceMethod<"Returns true if the dynamic leading dimension of a result is tokens instead of sorted rows.",
      "bool", "isOfTokens", (ins "::mlir::OpResult":$result), "", [{
        return false;
      }]>
  ];
}

#endif // MOEC_DIALECT_MOEINTERFACES_TD
