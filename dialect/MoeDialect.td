//===- MoeDialect.td - the moe dialect ---------------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dialect, and the base classes of its attributes and operations.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEDIALECT_TD
#define MOEC_DIALECT_MOEDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"

def Moe_Dialect : Dialect {
  let name = "moe";
  let cppNamespace = "::moec::moe";
  let summary = "Mixture-of-Experts layers, from the user's description to kernel launches";
  let description = [{
    The IR of moec has three levels. The pipeline can print, parse and stop at
    each level:

    1. `moe.layer`: the layer as the user describes it;
    2. `moe.program`: the layer as stages on tensor values, one `moe.variant`
       per range of token counts;
    3. the same program as kernels (`moe.kernel`, a region of stages) and
       launches (`moe.launch`).

    Schemes, routing methods, activations, engines, backends, archs and GPUs are
    rows of tables in `dialect/catalog`. A leading `?` in a tensor type is the
    number of tokens or of rows ((token, expert) pairs sorted by expert); each
    operation specifies which.
  }];
  let usePropertiesForAttributes = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    /// Parses and prints attributes. The mnemonic of a matmul schedule is the
    /// name of its engine (a row of Engines.h), followed by `_schedule`.
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

// An I64Attr whose accessor is signed.
def Moe_IntAttr
    : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute">;

#endif // MOEC_DIALECT_MOEDIALECT_TD
