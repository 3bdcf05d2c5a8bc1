//===- MoeDialect.td - the moe dialect ---------------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect itself and the base classes of its attributes and operations.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEDIALECT_TD
#define MOEC_DIALECT_MOEDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::moec::moe";
  let summary = "Mixture-of-Experts layers, from what the user says to launches";
  let description = [{
    The language of moec, in three levels, each of which can be printed, parsed
    and stopped at:

    1. `moe.layer`: what the user said;
    2. `moe.program`: the layer as stages in value form, once per range of
       token counts (`moe.variant`);
    3. the same program as kernels (`moe.kernel`, a region of stages) and
       launches (`moe.launch`).

    Everything that can be named (schemes, routing methods, activations,
    engines, backends, archs, GPUs) is a row of a table in `dialect/catalog`.
    A leading `?` in a tensor type is a number of tokens or of rows (pairs of a
    token and one of its experts, sorted by expert); each operation says which.
  }];
  let usePropertiesForAttributes = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Schedules of a matmul are called as their engine, a row of Engines.h.
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser,
                                     ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attribute,
                        ::mlir::DialectAsmPrinter &printer) const override;
  }];
}

class Moe_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Moe_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Moe_Op<string mnemonic, list<Trait> traits = []>
    : Op<Moe_Dialect, mnemonic, traits>;

// I64Attr with a signed accessor.
def Moe_IntAttr
    : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute">;

#endif // MOEC_DIALECT_MOEDIALECT_TD
