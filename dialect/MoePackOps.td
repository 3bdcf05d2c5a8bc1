//===- MoePackOps.td - level 2, the packing of weights -----*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that run once, when a layer is made. They stand in the program, not in
// its variants, since all kernels read the same packed weights.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEPACKOPS_TD
#define MOEC_DIALECT_MOEPACKOPS_TD

include "dialect/MoeStage.td"

def Moe_PackOp : Moe_ValueOp<"pack", [Pure]> {
  let summary = "a stored weight in the layout that kernels read";
  let description = [{
    Weight preparation, once at load: shape and element type stay, but for
    powers of two (f8E8M0FNU), which may become f32; the layout is the result
    type's encoding. With an `order` (of `moe.pack_order`) column c of the result
    is column order[expert, c] of the source.

    Scales and zero points may be repeated, `repeat = [parts, rows, columns]`: a
    number of the source is that of so many rows and columns of the result. The
    rows are of so many parts (gates and ups), each with its own numbers, which
    follow each other, or take turns every `alternate` rows. A source without
    columns has one.

    ```mlir
    func.func private @pack(%w13: tensor<128x1536x2048xbf16>) {
      %packed = moe.pack %w13 : tensor<128x1536x2048xbf16> -> tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>
      return
    }
    func.func private @repeat(%w13_scale: tensor<128x6x8xf32>) {
      %packed = moe.pack %w13_scale repeat = [2, 2, 2] : tensor<128x6x8xf32> -> tensor<128x12x16xf32, #moe.layout<>>
      return
    }
    ```
  }];
  let arguments = (ins Moe_Stored:$source, Optional<Moe_Int32Rows>:$order,
    OptionalAttr<DenseI64ArrayAttr>:$repeat, OptionalAttr<Moe_IntAttr>:$alternate);
  let results = (outs Moe_Stored:$result);
  let assemblyFormat = "$source (`order` `(` $order^ `:` type($order) `)`)? (`repeat` `=` $repeat^)? (`alternate` `=` $alternate^)? attr-dict `:` type($source) `->` type($result)";
}

def Moe_PackOrderOp : Moe_ValueOp<"pack_order", [Pure, AllTypesMatch<["index", "order"]>]> {
  let summary = "columns in the order of their groups";
  let description = [{
    Weight preparation, once at load: from the group of each column (`index`
    [experts, columns]) to the columns of the first group, of the second and so
    on, inside a group as they stand. Groups have `group` columns, the last the rest.

    ```mlir
    func.func private @pack_order(%index: tensor<128x2048xi32>) {
      %order = moe.pack_order group = 128 %index : tensor<128x2048xi32>
      return
    }
    ```
  }];
  let arguments = (ins Moe_IntAttr:$group, Moe_Int32Rows:$index);
  let results = (outs Moe_Int32Rows:$order);
  let assemblyFormat = "`group` `=` $group $index attr-dict `:` type($index)";
}

def Moe_QuantizeWeightsOp : Moe_ValueOp<"quantize_weights", [Pure]> {
  let summary = "a weight stored as floats, in codes and scales";
  let description = [{
    Weight preparation, once at load: of floats [experts, rows, columns] codes as
    `descriptor` says, in the layout that kernels read, then their scales, the
    scales of these and zero points where the descriptor has them. Scales that are
    powers of two (f8E8M0FNU) may become the f32 numbers that they are. A weight has
    `parts` matrices of as many rows (gates and ups), each with its own.

    ```mlir
    func.func private @quantize_weights(%w13: tensor<128x1536x2048xbf16>) {
      %codes, %scales = moe.quantize_weights <f8E4M3FN, group = [128, 128], scale = f32> parts = 2 %w13
          : (tensor<128x1536x2048xbf16>) -> (tensor<128x1536x2048xf8E4M3FN, #moe.layout<interleave = 8>>, tensor<128x12x16xf32>)
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_DescriptorAttr:$descriptor,
    Moe_IntAttr:$parts,
    Moe_Matrices:$source
  );
  let results = (outs Moe_CodeMatrices:$codes, Variadic<Moe_Stored>:$scales);
  let assemblyFormat = [{
    $descriptor `parts` `=` $parts $source attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::mlir::Value getScale() { return getScales().front(); }
    /// Null where there are none.
    ::mlir::Value getSecondScale() { return getDescriptor().getSecondScale() ? ::mlir::Value(getScales()[1]) : ::mlir::Value(); }
    ::mlir::Value getZeroPoint() { return getDescriptor().getZeroPoint() ? ::mlir::Value(getScales().back()) : ::mlir::Value(); }
    /// The suffix of a result, by its number: "", "_scale", "_second_scale",
    /// "_zero_point".
    ::llvm::StringRef getSuffix(unsigned result);
    /// The types of the scales that the descriptor asks for.
    static ::llvm::SmallVector<::mlir::Type> scaleTypes(DescriptorAttr descriptor, int64_t parts, ::mlir::RankedTensorType source);
  }];
}

#endif // MOEC_DIALECT_MOEPACKOPS_TD
