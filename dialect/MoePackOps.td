//===- MoePackOps.td - level 2, packing of weights ---------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that run once, when a layer is created. They belong to the program,
// not to its variants, because all kernels read the same packed weights.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEPACKOPS_TD
#define MOEC_DIALECT_MOEPACKOPS_TD

include "dialect/MoeStage.td"

def Moe_PackOp : Moe_ValueOp<"pack", [Pure]> {
  let summary = "converts a stored weight to the layout that kernels read";
  let description = [{
    Runs once, when a layer is created. The shape and element type do not
    change, except that power-of-two scales (f8E8M0FNU) may become f32. The
    encoding of the result type is the packed layout. With an `order` (from
    `moe.pack_order`), column c of the result is column order[expert, c] of the
    source.

    `repeat = [parts, rows, columns]` repeats scales and zero points: each
    source value covers `rows` rows and `columns` columns of the result. The
    rows consist of `parts` parts (gate and up) with separate values, which
    follow each other, or alternate every `alternate` rows. A source without
    columns is treated as having one column.

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
  let summary = "sorts columns by their quantization group";
  let description = [{
    Runs once, when a layer is created. `index` [experts, columns] holds the
    quantization group of each column. The result lists each expert's columns
    sorted by group; columns of the same group keep their order. Each group has
    `group` columns; the last group may have fewer.

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
  let summary = "quantizes a floating-point weight to codes and scales";
  let description = [{
    Runs once, when a layer is created. Quantizes a weight [experts, rows,
    columns] as `descriptor` specifies. The results are the codes (quantized
    values) in the layout that kernels read, the scales, and the second scales
    and zero points if the descriptor has them. Power-of-two scales (f8E8M0FNU)
    may be stored as the equal f32 values. A weight consists of `parts` matrices
    with equally many rows (gate and up), each with separate scales.

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
    /// Returns the second scales (getZeroPoint(): the zero points), or null if
    /// the descriptor does not have them.
    ::mlir::Value getSecondScale() { return getDescriptor().getSecondScale() ? ::mlir::Value(getScales()[1]) : ::mlir::Value(); }
    ::mlir::Value getZeroPoint() { return getDescriptor().getZeroPoint() ? ::mlir::Value(getScales().back()) : ::mlir::Value(); }
    /// Returns the name suffix of the result with the given index: "",
    /// "_scale", "_second_scale" or "_zero_point".
    ::llvm::StringRef getSuffix(unsigned result);
    /// Returns the types of the scales that the descriptor requires.
    static ::llvm::SmallVector<::mlir::Type> scaleTypes(DescriptorAttr descriptor, int64_t parts, ::mlir::RankedTensorType source);
  }];
}

#endif // MOEC_DIALECT_MOEPACKOPS_TD
