//===- MoeStageOps.td - level 2, computation on rows -------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that compute on rows, and stages that move rows between ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESTAGEOPS_TD
#define MOEC_DIALECT_MOESTAGEOPS_TD

include "dialect/MoeStage.td"

def Moe_AmaxOp : Moe_StageOp<"amax", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "the largest magnitude of each block of rows";
  let description = [{
    Computes one value for each `block_rows` rows, from which `moe.quantize`
    computes a dynamic per-tensor scale. Rows are ignored if their index is at
    least the value of `valid` (token rows) or at least the last of `offsets`
    (sorted rows), or if their slot is past the expert's count in `counts`
    (batched rows, see `moe.batch`). With `weights` [tokens, pairs], the rows
    are the products that `moe.quantize` computes with the same operand. With
    `propagates_nan`, the value of a block that contains a NaN is NaN, which is
    needed because integer codes (quantized values) have no NaN. Without it,
    NaNs are ignored. The leading `?` of the input is the number of tokens or
    rows, and the leading `?` of the result is the number of blocks.

    ```mlir
    func.func private @amax(%x: tensor<?x2048xbf16>, %valid: tensor<1xi32>) {
      %amax = moe.amax block_rows = 64 %x valid %valid : (tensor<?x2048xbf16>, tensor<1xi32>) -> tensor<?xf32>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$block_rows,
    UnitAttr:$propagates_nan,
    Moe_Matrix:$input,
    Optional<Moe_Float32Rows>:$row_weights,
    Optional<Moe_Int32s>:$valid_tokens,
    Optional<Moe_Int32s>:$offsets,
    Optional<Moe_Int32s>:$expert_num_tokens
  );
  let results = (outs Moe_Float32s:$block_amax);
  let assemblyFormat = [{
    `block_rows` `=` $block_rows (`propagates_nan` $propagates_nan^)? $input (`weights` $row_weights^)? (`valid` $valid_tokens^)?
    (`offsets` $offsets^)? (`counts` $expert_num_tokens^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return !getOffsets() && !getExpertNumTokens() && !getRowWeights(); }
  }];
  let printedResults = ["amax"];
  let hasVerifier = 1;
}

def Moe_QuantizeOp : Moe_StageOp<"quantize", [Pure, AttrSizedOperandSegments], ["addStageAttributes", "getResultName"]> {
  let summary = "quantizes values as a descriptor specifies";
  let description = [{
    Quantizes the input as `descriptor` specifies. A static scale is an operand,
    and a dynamic scale is a result. A static per-tensor scale may have one
    value per expert: the largest value is used and is a result. A dynamic
    per-tensor scale needs the block maxima of `moe.amax`. The leading `?` is
    the number of tokens or rows, the same for the input and all results.
    `offsets` specifies the number of sorted rows, and `counts` the number of
    batched rows. In a kernel with the matmul that computes the input, `tiles`
    specifies the rows.

    A 16-bit result is emulated quantization: values are quantized to the
    descriptor's element type and dequantized immediately, so no scale is a
    result. Emulated values and block-scaled codes (quantized values) may have a
    second-level scale: either a stored one, or, for codes, one per row that is
    a result.

    With `weights` [tokens, pairs], the input has a row per token and the result
    a row per pair: row i is the product of input row i / pairs and weight i, in
    f32. A descriptor without a scale then only specifies the element type that
    the product is rounded to.

    ```mlir
    func.func private @quantize(%x: tensor<?x2048xbf16>) {
      %q, %s = moe.quantize <f8E4M3FN, group = [1, 128], scale = f32, dynamic> %x
          : (tensor<?x2048xbf16>) -> (tensor<?x2048xf8E4M3FN>, tensor<?x16xf32>)
      %e = moe.quantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x
          : (tensor<?x2048xbf16>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_DescriptorAttr:$descriptor,
    Moe_Matrix:$input,
    Optional<Moe_Float32Rows>:$row_weights,
    Optional<Moe_Scales>:$static_scale,
    Optional<Moe_Float32s>:$static_second_scale,
    OptionalAttr<Moe_IntAttr>:$block_rows,
    Optional<Moe_Float32s>:$block_amax,
    Optional<Moe_Int32s>:$valid_tokens,
    Optional<Moe_Int32s>:$offsets,
    Optional<Moe_Int32s>:$expert_num_tokens,
    Optional<Moe_Int32Rows>:$tiles,
    Optional<Moe_Int32s>:$tile_count
  );
  let results = (outs Moe_CodeMatrix:$data, Variadic<Moe_Scales>:$scales);
  let assemblyFormat = [{
    $descriptor $input (`weights` $row_weights^)? (`scale` $static_scale^)? (`second_scale` $static_second_scale^)?
    (`block_rows` `=` $block_rows^)? (`amax` $block_amax^)?
    (`valid` $valid_tokens^)? (`offsets` $offsets^)? (`counts` $expert_num_tokens^)?
    (`tiles` `(` $tiles^ `,` $tile_count `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return !getOffsets() && !getExpertNumTokens() && !getTiles() && !getRowWeights(); }
    /// Returns the scales, or null if there are none.
    ::mlir::Value getScale() { return getScales().empty() ? ::mlir::Value() : getScales().front(); }
    /// Returns the second scale of each row, or null if there is none.
    ::mlir::Value getSecondScale() { return getScales().size() < 2 ? ::mlir::Value() : getScales().back(); }
    /// Returns true if the result holds dequantized values instead of codes.
    bool isEmulated();
    /// Returns true if the scales are block scales of the descriptor's own
    /// scale type.
    bool scalesBlocks() { return getScale() && getDescriptor().isOfBlocks(); }
  }];
  let printedResults = ["q", "scale"];
  let hasVerifier = 1;
}

def Moe_DequantizeOp : Moe_StageOp<"dequantize", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "dequantizes activations that the caller passes quantized";
  let description = [{
    Computes data = input * scale (* second_scale) in f32, rounded once to 16
    bits. The input has the descriptor's element type. The scales have the
    descriptor's scale type and the shape [?, groups], [?, 1] or [1]. The
    leading `?` is the number of tokens, or of rows if `counts` specifies the
    number of rows of each expert (batched).

    ```mlir
    func.func private @dequantize(%x: tensor<?x2048xf4E2M1FN>, %s: tensor<?x64xf8E8M0FNU>) {
      %d = moe.dequantize <f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic> %x scale %s
          : (tensor<?x2048xf4E2M1FN>, tensor<?x64xf8E8M0FNU>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_DescriptorAttr:$descriptor,
    Moe_CodeMatrix:$input,
    Moe_Scales:$scale,
    Optional<Moe_Scales>:$second_scale,
    Optional<Moe_Int32s>:$expert_num_tokens
  );
  let results = (outs Moe_Values16:$data);
  let assemblyFormat = [{
    $descriptor $input `scale` $scale (`second_scale` $second_scale^)?
    (`counts` $expert_num_tokens^)? attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return !getExpertNumTokens(); }
  }];
  let printedResults = ["dequantized"];
  let hasVerifier = 1;
}

def Moe_PermuteColumnsOp : Moe_StageOp<"permute_columns", [Pure], ["addStageAttributes"]> {
  let summary = "permutes the columns of rows to the order of their expert's weight";
  let description = [{
    For sorted row r of expert e, which `offsets` determines, result[r, c] is
    input[r, order[e, c]]. With `gather`, the result has one row per pair:
    result[rows[r], c] is input[rows[r] / pairs, order[e, c]], and the following
    matmul gathers this result with pairs = 1. The leading `?` of the result is
    the number of rows. The leading `?` of the input is the number of tokens
    with `gather`, else of rows.

    ```mlir
    func.func private @permute_columns(%x: tensor<?x2048xbf16>, %rows: tensor<?xi32>, %offsets: tensor<129xi32>, %order: tensor<128x2048xi32>) {
      %ordered = moe.permute_columns pairs = 8 %x gather %rows offsets %offsets, %order
          : (tensor<?x2048xbf16>, tensor<?xi32>, tensor<129xi32>, tensor<128x2048xi32>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins OptionalAttr<Moe_IntAttr>:$pairs, Moe_CodeMatrix:$input,
    Optional<Moe_Int32s>:$rows, Moe_Int32s:$offsets, Moe_Int32Rows:$order);
  let results = (outs Moe_CodeMatrix:$result);
  let assemblyFormat = [{
    (`pairs` `=` $pairs^)? $input (`gather` $rows^)? `offsets` $offsets `,` $order
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    int64_t getNumExperts() { return ::llvm::cast<::mlir::RankedTensorType>(getOrder().getType()).getDimSize(0); }
    int64_t getColumns() { return ::llvm::cast<::mlir::RankedTensorType>(getOrder().getType()).getDimSize(1); }
  }];
  let printedResults = ["ordered"];
  let hasVerifier = 1;
}

def Moe_GatherRowsOp : Moe_StageOp<"gather_rows", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "copies rows between the order of pairs and the order of experts";
  let description = [{
    Without `positions`, the result is sorted by expert: row r, of which
    `offsets` specifies the number, is input row rows[r]. With `positions`
    [tokens, pairs], the result has a row for each pair: row t * pairs + k is
    input row positions[t, k], or zeros if the position is -1. The leading `?`
    of input and result is the number of rows.

    ```mlir
    func.func private @gather_rows(%t: tensor<?x768xbf16>, %rows: tensor<?xi32>, %offsets: tensor<129xi32>, %positions: tensor<?x8xi32>) {
      %sorted = moe.gather_rows %t rows(%rows, %offsets) : (tensor<?x768xbf16>, tensor<?xi32>, tensor<129xi32>) -> tensor<?x768xbf16>
      %pairs = moe.gather_rows %sorted positions %positions : (tensor<?x768xbf16>, tensor<?x8xi32>) -> tensor<?x768xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Moe_Matrix:$input, Optional<Moe_Int32s>:$rows, Optional<Moe_Int32s>:$offsets,
    Optional<Moe_Int32Rows>:$positions);
  let results = (outs Moe_Matrix:$result);
  let assemblyFormat = [{
    $input (`rows` `(` $rows^ `,` $offsets `)`)? (`positions` $positions^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    int64_t getColumns() { return ::llvm::cast<::mlir::RankedTensorType>(getInput().getType()).getDimSize(1); }
  }];
  let printedResults = ["gathered"];
  let hasVerifier = 1;
}

def Moe_GroupedMatmulOp : Moe_StageOp<"grouped_matmul", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "multiplies each tile of rows by its expert's transposed weight";
  let description = [{
    Computes result[r, n] = sum over k of lhs[row of r, k] * rhs[expert of r, n,
    k] (+ bias[expert of r, n]).

    * With `bias_of_rank`, only one rank adds the bias; which rank is known only
      at run time.
    * With `gather`, the row of r in the lhs is rows[r] / pairs; otherwise it is
      r. `pairs` is present only with `gather`: the number of (token, expert)
      pairs of each token, or 1 if the lhs has one row per pair.
    * The weight is [experts, n, k]. `gate_up` is the order of the gate and up
      rows in the checkpoint. If the weight's layout interleaves the rows, the
      columns of the result are interleaved in the same way. The bias and the
      weight's scales keep the checkpoint's order.
    * The leading `?` of the result is the number of rows. The leading `?` of
      the lhs is the number of tokens with `gather`, else of rows.

    A quantized operand has a descriptor, and its scales are separate operands.
    `realization` specifies which values are multiplied:

    * `native` (default): both operands in their own element types;
    * `dequantized`: the dequantized weight, in the element type of the lhs;
    * `codes`: the weight's 4-bit codes (quantized values), converted to the
      element type of the lhs;
    * `emulated`: like `dequantized`, with an lhs of values that were quantized
      and dequantized;
    * `blocks`: both operands in their own element types, with block scales
      along K applied by the engine. Second scales multiply the accumulators.
      The second scale of the lhs is the largest of the layer's static ones, or
      the row's own.

    Products are accumulated in f32, or with `fast` in the precision of the
    tensor core.

    ```mlir
    func.func private @matmul(%x: tensor<?x2048xbf16>, %rows: tensor<?xi32>, %tiles: tensor<?x4xi32>, %tile_count: tensor<3xi32>, %w13: tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>) {
      %h = moe.grouped_matmul pairs = 8 %x gather %rows tiles (%tiles, %tile_count), %w13
          : (tensor<?x2048xbf16>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128x1536x2048xbf16, #moe.layout<interleave = 8>>) -> tensor<?x1536xf32>
      return
    }
    ```
  }];
  let arguments = (ins
    DefaultValuedAttr<Moe_RealizationAttr, "::moec::moe::Realization::Native">:$realization,
    OptionalAttr<Moe_IntAttr>:$pairs,
    OptionalAttr<StrAttr>:$gate_up,
    UnitAttr:$fast,
    UnitAttr:$bias_of_rank,
    OptionalAttr<Moe_DescriptorAttr>:$lhs_descriptor,
    OptionalAttr<Moe_DescriptorAttr>:$rhs_descriptor,
    Moe_CodeMatrix:$lhs,
    Optional<Moe_Int32s>:$rows,
    Moe_Int32Rows:$tiles,
    Moe_Int32s:$tile_count,
    Moe_CodeMatrices:$rhs,
    Optional<Moe_Scales>:$lhs_scale,
    Optional<Moe_Scales>:$rhs_scale,
    Optional<Moe_Scales>:$rhs_second_scale,
    Optional<Moe_ZeroPoints>:$rhs_zero_point,
    Optional<Moe_Matrix>:$bias,
    Optional<Moe_SecondScales>:$lhs_second_scale
  );
  let results = (outs Moe_Matrix:$result);
  let assemblyFormat = [{
    (`realization` `=` $realization^)? (`pairs` `=` $pairs^)? (`gate_up` `=` $gate_up^)? (`fast` $fast^)?
    (`lhs_descriptor` `=` $lhs_descriptor^)? (`rhs_descriptor` `=` $rhs_descriptor^)?
    $lhs (`gather` $rows^)? `tiles` `(` $tiles `,` $tile_count `)` `,` $rhs
    (`lhs_scale` $lhs_scale^)? (`rhs_scale` $rhs_scale^)? (`rhs_second_scale` $rhs_second_scale^)?
    (`rhs_zero_point` $rhs_zero_point^)? (`bias` $bias^)? (`lhs_second_scale` $lhs_second_scale^)? (`bias_of_rank` $bias_of_rank^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    /// Returns true if this is the first of the layer's two matmuls, which
    /// gathers or whose result is activated.
    bool isFirst();
    /// Returns the number of experts of the weight.
    int64_t getNumExperts();
    /// Returns the number of rows of an expert's weight.
    int64_t getN();
    /// Returns the number of columns of an expert's weight.
    int64_t getK();
    /// Returns the weight's interleave; 0 if gate and up rows are not
    /// interleaved.
    int64_t getInterleave();
    /// Returns the order of gate and up rows in the stored weight, its scales
    /// and its bias.
    ::llvm::StringRef getGateUpOrder() { return getGateUp().value_or("gate_first"); }
    /// Returns true if the weight, its scales and its zero points are in
    /// fragment order.
    bool readsFragments();
    /// Returns true if the scales of the lhs vary along K.
    bool scalesByGroup() { return getLhsScale() && getLhsDescriptor()->getGroup()[1] > 0; }
    /// Returns true if each row of the lhs has its own scale.
    bool scalesByRow() { return getLhsScale() && !scalesByGroup() && !getLhsDescriptor()->isOfTensor(); }
  }];
  let nameResults = [{ setName(getResult(), isFirst() ? "h" : "y"); }];
  let hasVerifier = 1;
}

def Moe_ActivateOp : Moe_StageOp<"activate", [Pure, AttrSizedOperandSegments], ["addStageAttributes", "getOperandName"]> {
  let summary = "the activation between the two matmuls";
  let description = [{
    A gated activation halves the number of columns. With `interleave` = n, n
    gate columns alternate with n up columns; with 0, all gate columns come
    first. The leading `?` is the number of rows. In a kernel without a matmul,
    `offsets` specifies the number of rows. If the caller passes an `addend`,
    addend row rows[r] (r's pair index) is added to input row r before the
    activation; in the addend, gate columns precede up columns. If each expert
    has its own activation parameters, they are operands, and the expert of a
    row is determined by `offsets`, or by `tiles` in a kernel with a matmul.

    ```mlir
    func.func private @activate(%h: tensor<?x1536xf32>, %offsets: tensor<129xi32>) {
      %t = moe.activate <silu> interleave = 8 %h offsets %offsets : (tensor<?x1536xf32>, tensor<129xi32>) -> tensor<?x768xbf16>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_ActivationAttr:$activation,
    DefaultValuedOptionalAttr<Moe_IntAttr, "0">:$interleave,
    Moe_Matrix:$input,
    Optional<Moe_Int32s>:$offsets,
    Optional<Moe_Matrix>:$addend,
    Optional<Moe_Int32s>:$rows,
    Optional<Moe_Int32Rows>:$tiles,
    Optional<Moe_Int32s>:$tile_count,
    Variadic<Moe_Float32s>:$numbers
  );
  let results = (outs Moe_Matrix:$result);
  let assemblyFormat = [{
    $activation (`interleave` `=` $interleave^)? $input (`offsets` $offsets^)?
    (`addend` `(` $addend^ `,` $rows `)`)? (`tiles` `(` $tiles^ `,` $tile_count `)`)?
    (`numbers` `(` $numbers^ `)`)?
    attr-dict `:` functional-type(operands, results)
  }];
  let printedResults = ["t"];
  let hasVerifier = 1;
}

def Moe_CombineOp : Moe_StageOp<"combine", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "the weighted sum of each token over its experts";
  let description = [{
    Computes out[t] = sum over k = 0, 1, ... of weights[t, k] *
    partials[positions[t, k]], in f32 and in that order. Positions of -1 are
    skipped. Weights default to 1.

    * If the caller passes a `residual`, residual[t] is then added.
    * If the caller passes an `addend`, its row t * pairs + k is added to the
      partials of that pair.
    * With `identity` (x, ids), the partials of a pair with id -2 are row t of
      x. With `identity_of_rank`, only one rank adds them; which rank is known
      only at run time.

    The leading `?` of partials and addend is the number of rows. The leading
    `?` of all other tensors is the number of tokens. Partials in the order of
    pairs may be [tokens, pairs, width].

    ```mlir
    func.func private @combine(%y: tensor<?x2048xf32>, %positions: tensor<?x8xi32>, %weights: tensor<?x8xf32>) {
      %out = moe.combine %y, %positions, %weights : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins UnitAttr:$identity_of_rank,
    Moe_Sums:$partials, Moe_Int32Rows:$positions,
    Optional<Moe_Float32Rows>:$topk_weights,
    Optional<Moe_Matrix>:$residual, Optional<Moe_Matrix>:$addend,
    Optional<Moe_Matrix>:$identity, Optional<Moe_Int32Rows>:$topk_ids);
  let results = (outs Moe_Matrix:$out);
  let assemblyFormat = [{
    $partials `,` $positions (`,` $topk_weights^)? (`residual` $residual^)? (`addend` $addend^)?
    (`identity` `(` $identity^ `,` $topk_ids `)`)? (`identity_of_rank` $identity_of_rank^)? attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Returns the number of (token, expert) pairs of each token.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    /// Returns the number of columns of a row.
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_CombineNormedOp : Moe_StageOp<"combine_normed", [Pure], ["addStageAttributes"]> {
  let summary = "the weighted sum of each token over its experts' normalized rows";
  let description = [{
    Like `moe.combine`, with rows that are normalized first: with z = (1 +
    norm_weight) * partials[positions[t, k]], the sum over k of weights[t, k] *
    z / sqrt(mean(z^2) + epsilon), in f32 and in the order of k. The partials
    must be complete: no other rank may add to them.

    ```mlir
    func.func private @combine_normed(%y: tensor<?x2048xf32>, %positions: tensor<?x8xi32>, %weights: tensor<?x8xf32>, %norm: tensor<2048xf32>) {
      %out = moe.combine_normed epsilon = 1.0e-08 %y, %positions, %weights norm %norm
          : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<2048xf32>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins F64Attr:$epsilon,
    Moe_Matrix:$partials, Moe_Int32Rows:$positions,
    Moe_Float32Rows:$topk_weights, Moe_Float32s:$norm_weight,
    Optional<Moe_Matrix>:$residual);
  let results = (outs Moe_Matrix:$out);
  let assemblyFormat = [{
    `epsilon` `=` $epsilon $partials `,` $positions `,` $topk_weights `norm` $norm_weight (`residual` $residual^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Returns the number of (token, expert) pairs of each token.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    /// Returns the number of columns of a row.
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_CombineConstantsOp : Moe_StageOp<"combine_constants", [Pure], ["addStageAttributes"]> {
  let summary = "the weighted sum of each token over its experts and constant vectors";
  let description = [{
    Like `moe.combine`, except that a pair with id `experts` + c, c >= 0, uses
    row c of `constants` instead of a row of the partials.

    ```mlir
    func.func private @combine_constants(%y: tensor<?x2048xf32>, %positions: tensor<?x8xi32>, %weights: tensor<?x8xf32>, %ids: tensor<?x8xi32>, %constants: tensor<6x2048xf32>) {
      %out = moe.combine_constants experts = 58 %y, %positions, %weights, %ids constants %constants
          : (tensor<?x2048xf32>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<?x8xi32>, tensor<6x2048xf32>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Moe_IntAttr:$experts,
    Moe_Matrix:$partials, Moe_Int32Rows:$positions,
    Moe_Float32Rows:$topk_weights, Moe_Int32Rows:$topk_ids,
    Moe_Float32Rows:$constants, Optional<Moe_Matrix>:$residual);
  let results = (outs Moe_Matrix:$out);
  let assemblyFormat = [{
    `experts` `=` $experts $partials `,` $positions `,` $topk_weights `,` $topk_ids `constants` $constants
    (`residual` $residual^)? attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Returns the number of (token, expert) pairs of each token.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    /// Returns the number of columns of a row.
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_DispatchOp : Moe_StageOp<"dispatch", [], ["addStageAttributes", "getOperandName", "getResultName"]> {
  let summary = "dispatches tokens to the ranks";
  let description = [{
    Communication: concatenates the x rows, row scales, ids and weights of the
    tokens of `ranks` ranks. The tokens of rank i of the group start at i *
    tokens. The group of a rank consists of the `ranks` ranks whose numbers
    differ by multiples of `stride`. The leading `?` of the operands is the
    number of this rank's tokens, and the leading `?` of the results is the
    number of tokens of the group. Earlier stages process only this rank's
    tokens.

    With `one_sided`, a kernel writes rows into the windows of other ranks. The
    kernel writes the ids and weights of every token to all ranks, but x and its
    scales only to the owners of the token. An owner is a rank that holds an
    expert of the token. The `experts` are distributed evenly over the ranks; if
    there is a remainder, the first ranks hold one more. Without `experts`,
    every rank owns each token that has an expert. The stage ends when the rows
    of all ranks have arrived.

    ```mlir
    func.func private @dispatch(%x: tensor<?x2048xbf16>, %ids: tensor<?x8xi32>, %weights: tensor<?x8xf32>) {
      %rx, %rids, %rweights = moe.dispatch ranks = 4 %x ids %ids weights %weights
          : (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>) -> (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>)
      %wx, %wids, %wweights = moe.dispatch ranks = 4 one_sided experts = 128 %x ids %ids weights %weights
          : (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>) -> (tensor<?x2048xbf16>, tensor<?x8xi32>, tensor<?x8xf32>)
      return
    }
    ```
  }];
  let arguments = (ins Moe_IntAttr:$ranks, DefaultValuedOptionalAttr<Moe_IntAttr, "1">:$stride,
    UnitAttr:$one_sided, OptionalAttr<Moe_IntAttr>:$experts,
    Moe_CodeMatrix:$x, Variadic<Moe_Scales>:$scales,
    Moe_Int32Rows:$topk_ids, Moe_Float32Rows:$topk_weights);
  let results = (outs Moe_CodeMatrix:$received_x, Variadic<Moe_Scales>:$received_scales,
    Moe_Int32Rows:$received_ids, Moe_Float32Rows:$received_weights);
  let assemblyFormat = [{
    `ranks` `=` $ranks (`stride` `=` $stride^)? (`one_sided` $one_sided^)? (`experts` `=` $experts^)?
    $x (`scales` $scales^)? `ids` $topk_ids `weights` $topk_weights
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
  }];
  let printedResults = ["received", "received_scale", "received_ids", "received_weights"];
  let hasVerifier = 1;
}

def Moe_SendBackOp : Moe_StageOp<"send_back", [], ["addStageAttributes"]> {
  let summary = "sends partial sums to the ranks that own the tokens";
  let description = [{
    Communication after a `one_sided` `moe.dispatch`. Row r of the partial sums
    belongs to token r of the tokens of all ranks. The row is sent to that
    token's rank and stored in that rank's window at [t, j]: t is the token's
    index on that rank, and this rank is the j-th of the token's owners in
    ascending order. Tokens that this rank does not own are skipped. The leading
    `?` of the result is the number of the rank's own tokens, and the leading
    `?` of the operands is the number of tokens of all ranks. The stage ends
    when the partial sums of all ranks have arrived.

    ```mlir
    func.func private @send_back(%y: tensor<?x2048xbf16>, %ids: tensor<?x8xi32>) {
      %back = moe.send_back ranks = 4 experts = 128 %y ids %ids : (tensor<?x2048xbf16>, tensor<?x8xi32>) -> tensor<?x4x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Moe_IntAttr:$ranks, OptionalAttr<Moe_IntAttr>:$experts,
    Moe_Matrix:$partials, Moe_Int32Rows:$topk_ids);
  let results = (outs Moe_Matrices:$back);
  let assemblyFormat = [{
    `ranks` `=` $ranks (`experts` `=` $experts^)? $partials `ids` $topk_ids attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Returns the maximum number of owners of a token.
    static int64_t mostOwners(int64_t ranks, bool spreadsExperts, int64_t pairs) {
      return spreadsExperts ? ::std::min(ranks, pairs) : ranks;
    }
  }];
  let hasVerifier = 1;
}

def Moe_FinalizeOp : Moe_StageOp<"finalize", [], ["addStageAttributes"]> {
  let summary = "sums over ranks and returns tokens to their own ranks";
  let description = [{
    Communication, the inverse of `moe.dispatch`: sums the results of `ranks`
    ranks, which are `stride` apart, for each token; each rank keeps its own
    tokens. Then sums over `reduce` consecutive ranks, which have the same
    tokens. One of the two counts may be 1. The leading `?` is tokens.

    With `one_sided`, the partial sums of a token's owners have already arrived:
    out[t] is the sum of partials[t, j] over j = 0, 1, ..., in f32 and in that
    order, rounded once. j counts the owners of token t, which are computed from
    the `ids`. A token without an owner gets zeros.

    ```mlir
    func.func private @finalize(%y: tensor<?x2048xbf16>, %back: tensor<?x4x2048xbf16>, %ids: tensor<?x8xi32>) {
      %out = moe.finalize ranks = 4 stride = 2 reduce = 2 %y : (tensor<?x2048xbf16>) -> tensor<?x2048xbf16>
      %sum = moe.finalize ranks = 4 one_sided experts = 128 %back ids %ids : (tensor<?x4x2048xbf16>, tensor<?x8xi32>) -> tensor<?x2048xbf16>
      return
    }
    ```
  }];
  let arguments = (ins Moe_IntAttr:$ranks, DefaultValuedOptionalAttr<Moe_IntAttr, "1">:$stride,
    DefaultValuedOptionalAttr<Moe_IntAttr, "1">:$reduce,
    UnitAttr:$one_sided, OptionalAttr<Moe_IntAttr>:$experts,
    Moe_Sums:$partials, Optional<Moe_Int32Rows>:$topk_ids);
  let results = (outs Moe_Sums:$out);
  let assemblyFormat = [{
    `ranks` `=` $ranks (`stride` `=` $stride^)? (`reduce` `=` $reduce^)? (`one_sided` $one_sided^)? (`experts` `=` $experts^)?
    $partials (`ids` $topk_ids^)? attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Returns the number of columns of a token.
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getOut().getType()).getDimSize(1); }
  }];
  let hasVerifier = 1;
}

#endif // MOEC_DIALECT_MOESTAGEOPS_TD
