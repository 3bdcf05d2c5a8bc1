//===- MoeStageOps.td - level 2, from rows to the output ---*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that compute on rows, and those that move them between ranks.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESTAGEOPS_TD
#define MOEC_DIALECT_MOESTAGEOPS_TD

include "dialect/MoeStage.td"

def Moe_AmaxOp : Moe_StageOp<"amax", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "the largest magnitude of each block of rows";
  let description = [{
    One number for each `block_rows` rows, from which `moe.quantize` takes a
    dynamic scale of all values. Rows at and beyond the value of `valid` (of
    tokens) or the last of `offsets` (of sorted rows) do not count, nor do rows
    behind their expert's `counts` (of batched rows, see `moe.batch`). With
    `weights` [tokens, pairs] they are of the products that `moe.quantize` has.
    With `propagates_nan` the number of a block that holds a NaN is NaN: codes
    that are integers have none. Without it a NaN does not count.
    The leading `?` of the input is tokens or rows, of the result their blocks.

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
  let summary = "values as a descriptor says, with their scales";
  let description = [{
    The result is quantized as `descriptor` says; a static scale comes as an
    operand, a dynamic one is a result. A static scale of the whole tensor may be given per expert: the
    largest is used, and is a result. A dynamic one needs the block maxima of
    `moe.amax`. The leading `?` is tokens or rows, the same for all; of sorted
    rows `offsets` says how many there are, of batched ones `counts`; in a kernel
    with the matmul that makes the input `tiles` says which rows there are.

    Data of 16 bits are emulated: what the codes of the descriptor's element stand
    for, dequantized at once, so that there is no scale as a result. They, and
    codes in blocks, may have a scale of scales: a stored one, or, of codes, one
    of each row that is a result.

    With `weights` [tokens, pairs] the input is of tokens and the result of
    their pairs: row i is the product of input row i / pairs and weight i, in
    f32. A descriptor without a scale then says what it is rounded to.

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
    /// The scales; null if there are none.
    ::mlir::Value getScale() { return getScales().empty() ? ::mlir::Value() : getScales().front(); }
    /// The second scale of each row; null if there is none.
    ::mlir::Value getSecondScale() { return getScales().size() < 2 ? ::mlir::Value() : getScales().back(); }
    /// Whether the data are not codes, but what codes stand for.
    bool isEmulated();
    /// Whether the scales are of blocks, and of the descriptor's own type.
    bool scalesBlocks() { return getScale() && getDescriptor().isOfBlocks(); }
  }];
  let printedResults = ["q", "scale"];
  let hasVerifier = 1;
}

def Moe_DequantizeOp : Moe_StageOp<"dequantize", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "what codes of activations that come quantized stand for";
  let description = [{
    data = input * scale (* second_scale), in f32, rounded once to 16 bits. The
    input is of the descriptor's element, the scales of its scale type:
    [?, groups], [?, 1] or [1]. The leading `?` is tokens, or rows where `counts`
    says how many each expert has (batched).

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
  let summary = "rows with their columns in the order of their expert's weight";
  let description = [{
    Of sorted row r of expert e, as `offsets` say, result[r, c] is
    input[r, order[e, c]]. With `gather` rows are those of pairs, result[rows[r], c]
    is input[rows[r] / pairs, order[e, c]], which a matmul gathers with pairs = 1.
    The leading `?` of the result is rows, of the input tokens (gather) or rows.

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

def Moe_GroupedMatmulOp : Moe_StageOp<"grouped_matmul", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "each tile of rows times its expert's weight, transposed";
  let description = [{
    result[r, n] = sum over k of lhs[row of r, k] * rhs[expert of r, n, k]
    (+ bias[expert of r, n]; with `bias_of_rank` one rank alone adds it, and
    which one is known when it runs). With `gather`, row r of the lhs is
    rows[r] / pairs; else it is r. `pairs` is given with `gather` alone: those of
    a token, or 1 where the lhs has a row for each pair. The weight is [experts,
    n, k]. Its rows may be those of `gate_up`, stored in that order: where its
    layout interleaves them, the result's columns are interleaved likewise; the
    bias and the weight's scales stand as the weight was stored. The leading `?`
    of the result is rows, of the lhs tokens (gather) or rows.

    A quantized operand has a descriptor, and its scales as operands of their
    own. `realization` says what is multiplied:

    * `native` (default): both operands as they are;
    * `dequantized`: what the weight's codes stand for, in the type of the lhs;
    * `codes`: the weight's codes of 4 bits as elements of the lhs;
    * `emulated`: as dequantized; the lhs is what its own codes stand for;
    * `blocks`: both operands as they are, with the scales of blocks along k.
      Second scales multiply the sums, of the lhs the largest of those that are
      stored, or the row's.

    Products are added in f32, or with `fast` as the tensor core adds them.

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
    /// Whether it is the first of the layer's two: it gathers, or its result is
    /// activated.
    bool isFirst();
    /// The weight's experts, rows (n) and columns (k).
    int64_t getNumExperts();
    int64_t getN();
    int64_t getK();
    /// The weight's interleave; 0 where gate and up rows are not interleaved.
    int64_t getInterleave();
    /// The order in the weight as stored, and in its scales and bias.
    ::llvm::StringRef getGateUpOrder() { return getGateUp().value_or("gate_first"); }
    /// Whether the weight, its scales and zero points are in the order of
    /// fragments.
    bool readsFragments();
    /// Whether the scales of the lhs change along k.
    bool scalesByGroup() { return getLhsScale() && getLhsDescriptor()->getGroup()[1] > 0; }
    /// Whether each row of lhs has a scale of its own.
    bool scalesByRow() { return getLhsScale() && !scalesByGroup() && !getLhsDescriptor()->isOfTensor(); }
  }];
  let nameResults = [{ setName(getResult(), isFirst() ? "h" : "y"); }];
  let hasVerifier = 1;
}

def Moe_ActivateOp : Moe_StageOp<"activate", [Pure, AttrSizedOperandSegments], ["addStageAttributes", "getOperandName"]> {
  let summary = "the activation between the two matmuls";
  let description = [{
    A gated activation halves the columns: with `interleave` = n, n gate
    columns alternate with n up columns; with 0 the gate columns come first.
    The leading `?` is rows; `offsets` tells a kernel of its own how many of
    them there are. Before it is activated, row r gets row rows[r] of the
    addend, if the caller gives one: that of its pair, gates before ups. An
    activation with numbers for each expert has them as operands; offsets say a
    row's expert, or in a kernel with a matmul `tiles`.

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
  let summary = "each token's weighted sum over its experts";
  let description = [{
    out[t] = sum over k = 0, 1, ... of weights[t, k] * partials[positions[t, k]],
    in f32 and in that order, skipping positions of -1; then residual[t] is
    added, if the caller gives one. So is, to the partials of pair
    t * pairs + k, row t * pairs + k of an addend. Without weights each is 1.
    With `identity` (x, ids) pairs whose id is -2 have row t of x as partials;
    with `identity_of_rank` those of one rank alone, known when it runs.
    The leading `?` of partials and addend is rows, of all else tokens. Partials
    that come in the order of pairs may be [tokens, pairs, width].

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
    /// The rows that a token brings, and the columns of each.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_CombineNormedOp : Moe_StageOp<"combine_normed", [Pure], ["addStageAttributes"]> {
  let summary = "each token's weighted sum over the norms of its experts' rows";
  let description = [{
    As `moe.combine`, of rows that are normalized first: with
    z = (1 + norm_weight) * partials[positions[t, k]] the sum over k of
    weights[t, k] * z / sqrt(mean(z^2) + epsilon), in f32 and in the order of k.
    The partials are whole sums: no other rank adds to them.

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
    /// The rows that a token brings, and the columns of each.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_CombineConstantsOp : Moe_StageOp<"combine_constants", [Pure], ["addStageAttributes"]> {
  let summary = "each token's weighted sum over its experts and constant vectors";
  let description = [{
    As `moe.combine`, where a pair whose id is `experts` + c, c at least 0, has
    row c of `constants` in place of a row of the partials.

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
    /// The rows that a token brings, and the columns of each.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getPartials().getType()).getShape().back(); }
  }];
  let hasVerifier = 1;
}

def Moe_DispatchOp : Moe_StageOp<"dispatch", [], ["addStageAttributes", "getOperandName", "getResultName"]> {
  let summary = "the tokens of all ranks to each rank";
  let description = [{
    Communication: x, the scales that its rows have, ids and weights of the
    tokens of `ranks` ranks stand one behind the other, those of rank i of the
    group at i * tokens. The group of a rank are those that are a multiple of
    `stride` away, `ranks` of them. The leading `?` is tokens, this rank's before
    and those of the group after. Stages in front of it are of this rank's.

    With `one_sided` a kernel writes rows into the other ranks' windows: ids and
    weights of every token into all, x and scales into those of the token's
    owners alone. An owner is a rank with an expert of the token: of `experts`
    each rank has as many as any other, the first ones one more where there is a
    rest. Without `experts` all ranks own each token that has an expert. The
    stage ends when the rows of all ranks have come.

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
  let summary = "partial sums to the ranks whose tokens they are of";
  let description = [{
    Communication behind a `moe.dispatch` that is `one_sided`: row r of the
    partial sums is of token r of all ranks. Its rank gets it in its window,
    at [t, j]: t is the token's number there, and this rank the j-th of its
    owners, ascending. A token that this rank does not own is left out. The
    leading `?` of the result is the rank's own tokens, of the operands those of
    all ranks. The stage ends when the sums of all ranks have come.

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
    /// Owners of a token at most.
    static int64_t mostOwners(int64_t ranks, bool spreadsExperts, int64_t pairs) {
      return spreadsExperts ? ::std::min(ranks, pairs) : ranks;
    }
  }];
  let hasVerifier = 1;
}

def Moe_FinalizeOp : Moe_StageOp<"finalize", [], ["addStageAttributes"]> {
  let summary = "sums over ranks back to the tokens' own ranks";
  let description = [{
    Communication, the way back of `moe.dispatch`: the sum over `ranks` ranks,
    which are `stride` apart, of what each computed for a token; each keeps its
    own tokens. Then the sum over `reduce` ranks that follow each other, which
    have the same tokens. One of the two numbers may be 1. The leading `?` is
    tokens.

    With `one_sided` the sums of a token's owners have come: out[t] is the sum of
    partials[t, j] over j = 0, 1, ..., in f32 and in that order, rounded once; j
    counts the owners of token t, whose ids are given. A token without an owner
    gets zeros.

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
    /// The columns of a token.
    int64_t getWidth() { return ::llvm::cast<::mlir::RankedTensorType>(getOut().getType()).getDimSize(1); }
  }];
  let hasVerifier = 1;
}

#endif // MOEC_DIALECT_MOESTAGEOPS_TD
