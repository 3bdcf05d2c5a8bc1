//===- MoeRoutingOps.td - level 2, from logits to tiles ----*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that choose experts, and sort their rows.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEROUTINGOPS_TD
#define MOEC_DIALECT_MOEROUTINGOPS_TD

include "dialect/MoeStage.td"

def Moe_RouteOp : Moe_StageOp<"route", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "ids and weights of the experts that each token takes";
  let description = [{
    `top_k` distinct experts a token, by the method of `routing`, from the
    logits [tokens, experts]. Where ids and weights are `given`, those are
    taken instead when the caller hands them over. Without logits `experts` says
    how many there are. Rows at and beyond the value of `valid` route nowhere.
    The leading `?` is tokens. Besides:

    * `bias` [experts] counts in the selection, where the method takes one;
    * `expert_scale` [experts] are factors of the experts' weights;
    * `table` (token ids [tokens], ids [vocabulary, top_k]) says which experts a
      token takes; the logits then only weigh them;
    * `output_scale` is a factor of the weights with which outputs are summed,
      not of those that the caller may ask for.

    What is counted and permuted are places of weights: with `replicas`, of the
    physical experts (map[e, i], i below count[e]) of the logical expert e the
    one that token * top_k + k, modulo their count, picks; with `map`, the local
    expert that it says, if any, of those that the rank holds.
    `shared` experts follow, of each token, behind the `physical` ones; their
    weight is 1, or the sigmoid of the `gate`.
    The last `zero` of the experts that the logits name have no weights, but
    hand the token on as it is: their place is -2, which nobody counts.

    ```mlir
    func.func private @route(%logits: tensor<?x128xbf16>, %given_ids: tensor<?x8xi32>, %given_weights: tensor<?x8xf32>, %valid: tensor<1xi32>) {
      %ids, %weights = moe.route <renormalize_naive> top_k = 8 %logits given (%given_ids, %given_weights) valid %valid
          : (tensor<?x128xbf16>, tensor<?x8xi32>, tensor<?x8xf32>, tensor<1xi32>) -> (tensor<?x8xi32>, tensor<?x8xf32>)
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_RoutingAttr:$routing,
    Moe_IntAttr:$top_k,
    OptionalAttr<Moe_IntAttr>:$experts,
    OptionalAttr<F64Attr>:$output_scale,
    Optional<Moe_Matrix>:$logits,
    Optional<Moe_CallersIdRows>:$given_ids,
    Optional<Moe_Float32Rows>:$given_weights,
    Optional<Moe_Int32s>:$valid_tokens,
    Optional<Moe_Float32s>:$routing_bias,
    Optional<Moe_Float32s>:$expert_scale,
    Optional<Moe_CallersIds>:$token_ids,
    Optional<Moe_Int32Rows>:$hash_table,
    Optional<Moe_Int32Rows>:$logical_to_physical,
    Optional<Moe_Int32s>:$replica_count,
    Optional<Moe_Int32s>:$expert_map,
    OptionalAttr<Moe_IntAttr>:$physical_experts,
    OptionalAttr<Moe_IntAttr>:$zero,
    OptionalAttr<Moe_IntAttr>:$shared,
    Optional<Moe_Matrix>:$shared_gate
  );
  let results = (outs Moe_Int32Rows:$topk_ids, Moe_Float32Rows:$topk_weights);
  let assemblyFormat = [{
    $routing `top_k` `=` $top_k (`experts` `=` $experts^)? (`output_scale` `=` $output_scale^)? ($logits^)?
    (`given` `(` $given_ids^ `,` $given_weights `)`)? (`valid` $valid_tokens^)?
    (`bias` $routing_bias^)? (`expert_scale` $expert_scale^)?
    (`table` `(` $token_ids^ `,` $hash_table `)`)?
    (`replicas` `(` $logical_to_physical^ `,` $replica_count `)`)?
    (`map` $expert_map^)? (`physical` `=` $physical_experts^)?
    (`zero` `=` $zero^)? (`shared` `=` $shared^)? (`gate` $shared_gate^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// Experts that the method chooses among.
    int64_t getNumExperts() { return getLogits() ? ::llvm::cast<::mlir::RankedTensorType>(getLogits().getType()).getDimSize(1) : int64_t(*getExperts()); }
    /// Columns of the map of replicas.
    int64_t getReplicaSlots() { return ::llvm::cast<::mlir::RankedTensorType>(getLogicalToPhysical().getType()).getDimSize(1); }
  }];
  let printedResults = ["ids", "weights"];
  let hasVerifier = 1;
}

def Moe_CountOp : Moe_StageOp<"count", [Pure], ["addStageAttributes"]> {
  let summary = "how many pairs each expert has, per block of tokens";
  let description = [{
    From ids [tokens, pairs] to counts [blocks, experts], a block being
    `block_tokens` tokens; 0 is not decided yet. With `most_blocks` there are at
    most so many: a block has the smallest multiple of `block_tokens` tokens
    with which these suffice. A rank holds `local` experts (absent: all); the
    first of them is known when it runs. The leading `?` of the ids is tokens,
    of the counts blocks.

    ```mlir
    func.func private @count(%ids: tensor<?x8xi32>) {
      %counts = moe.count experts = 128 block_tokens = 64 %ids : (tensor<?x8xi32>) -> tensor<?x128xi32>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$experts,
    Moe_IntAttr:$block_tokens,
    OptionalAttr<Moe_IntAttr>:$most_blocks,
    OptionalAttr<Moe_IntAttr>:$local_experts,
    Moe_Int32Rows:$topk_ids
  );
  let results = (outs Moe_Int32Rows:$block_counts);
  let assemblyFormat = [{
    `experts` `=` $experts `block_tokens` `=` $block_tokens
    (`most_blocks` `=` $most_blocks^)? (`local` `=` $local_experts^)? $topk_ids
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    /// The experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
  }];
  let hasVerifier = 1;
}

def Moe_PermuteOp : Moe_StageOp<"permute", [Pure], ["addStageAttributes"]> {
  let summary = "pairs sorted by expert, and the tiles of rows to multiply";
  let description = [{
    A pair is (token, k), its index token * pairs + k. Results:

    * `rows` [rows]: the pair of each sorted row; inside an expert pairs ascend;
    * `positions` [tokens, pairs]: the row of each pair, -1 where its expert is
      not one of the `local` ones of the rank (absent: all), whose first is
      known when it runs;
    * `offsets` [local + 1]: the first row of each local expert;
    * `tiles` [tiles, 4]: {local expert, first row, end row, 0}, at most
      `tile_rows` rows each and never two experts in one. An expert has the
      fewest tiles that there can be, n = ceildiv(count, tile_rows). They are
      full but for its last one; with `row_step`, which divides `tile_rows`,
      they are alike instead: ceildiv(count, n) rows each, rounded up to
      `row_step`, and the last one has the rest;
    * `tile_count` [3 or more]: the number of tiles, then two zeros, with which
      the persistent kernels of the first and of the second matmul count the
      tiles that they take, then zeros with which CTAs of a kernel wait for each
      other;
    * `counts` [local]: rows of each local expert.

    `block_tokens` and `most_blocks` are those of the counts. `capacity` bounds
    the number of rows, as an expression over tokens.

    ```mlir
    func.func private @permute(%ids: tensor<?x8xi32>, %counts: tensor<?x128xi32>) {
      %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 128 tile_rows = 16 block_tokens = 64 capacity = "tokens * 8" %ids, %counts
          : (tensor<?x8xi32>, tensor<?x128xi32>) -> (tensor<?xi32>, tensor<?x8xi32>, tensor<129xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<128xi32>)
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$experts,
    Moe_IntAttr:$tile_rows,
    OptionalAttr<Moe_IntAttr>:$row_step,
    Moe_IntAttr:$block_tokens,
    OptionalAttr<Moe_IntAttr>:$most_blocks,
    OptionalAttr<Moe_IntAttr>:$local_experts,
    OptionalAttr<StrAttr>:$capacity,
    Moe_Int32Rows:$topk_ids,
    Moe_Int32Rows:$block_counts
  );
  let results = (outs Moe_Int32s:$rows, Moe_Int32Rows:$positions,
    Moe_Int32s:$offsets, Moe_Int32Rows:$tiles,
    Moe_Int32s:$tile_count, Moe_Int32s:$counts);
  let assemblyFormat = [{
    `experts` `=` $experts `tile_rows` `=` $tile_rows (`row_step` `=` $row_step^)?
    `block_tokens` `=` $block_tokens (`most_blocks` `=` $most_blocks^)? (`local` `=` $local_experts^)?
    (`capacity` `=` $capacity^)? $topk_ids `,` $block_counts attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult result) { return result == getPositions(); }
    /// The experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
    /// By which the rows of an expert's tiles may differ from full ones.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
    /// The rows that a token brings.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    /// Zeros behind the number of tiles.
    int64_t getCounters() { return ::mlir::cast<::mlir::RankedTensorType>(getTileCount().getType()).getDimSize(0) - 1; }
  }];
  let hasVerifier = 1;
}

def Moe_PairRowsOp : Moe_StageOp<"pair_rows", [Pure], ["addStageAttributes"]> {
  let summary = "the positions of rows that come in the order of pairs";
  let description = [{
    Row token * pairs + k is that of the pair (token, k). Its position is that
    number, or -1 where its expert is not one of the `local` ones of the rank
    (absent: all `experts`), whose first is known when it runs. The leading `?`
    is tokens.

    ```mlir
    func.func private @pair_rows(%ids: tensor<?x8xi32>) {
      %positions = moe.pair_rows experts = 128 %ids : (tensor<?x8xi32>) -> tensor<?x8xi32>
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$experts,
    OptionalAttr<Moe_IntAttr>:$local_experts,
    Moe_Int32Rows:$topk_ids
  );
  let results = (outs Moe_Int32Rows:$positions);
  let assemblyFormat = [{
    `experts` `=` $experts (`local` `=` $local_experts^)? $topk_ids
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult) { return true; }
    /// The experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
    /// The rows that a token brings.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
  }];
  let hasVerifier = 1;
}

def Moe_BatchOp : Moe_StageOp<"batch", [Pure], ["addStageAttributes"]> {
  let summary = "the tiles of rows that come batched by expert";
  let description = [{
    Where rows come dispatched, [experts, slots] of them with a count of each
    expert, there is nothing to sort: row i of expert e is row e * slots + i, and
    the expert has its first `counts[e]` slots (what is below 0 or beyond the
    slots counts as the nearest of them). `tiles`, `tile_count` and `row_step`
    are as of `moe.permute`. Rows behind an expert's are neither read nor
    written by any stage.

    ```mlir
    func.func private @batch(%counts: tensor<16xi32>) {
      %tiles, %tile_count = moe.batch tile_rows = 64 %counts : (tensor<16xi32>) -> (tensor<?x4xi32>, tensor<3xi32>)
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$tile_rows,
    OptionalAttr<Moe_IntAttr>:$row_step,
    Moe_Int32s:$expert_num_tokens
  );
  let results = (outs Moe_Int32Rows:$tiles, Moe_Int32s:$tile_count);
  let assemblyFormat = [{
    `tile_rows` `=` $tile_rows (`row_step` `=` $row_step^)? $expert_num_tokens
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    int64_t getNumLocal() { return ::llvm::cast<::mlir::RankedTensorType>(getExpertNumTokens().getType()).getDimSize(0); }
    /// By which the rows of an expert's tiles may differ from full ones.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
  }];
  let hasVerifier = 1;
}

def Moe_SharedRowsOp : Moe_StageOp<"shared_rows", [Pure, AttrSizedOperandSegments]> {
  let summary = "the rows of one expert that every token takes";
  let description = [{
    The MLP of shared experts has weights of its own. Row t is that of token t,
    so there is nothing to choose and nothing to sort. Tokens at and beyond the
    value of `valid` have no row. Results:

    * `tiles`, `tile_count` and `row_step` are as of `moe.permute`, of one expert;
    * `offsets` [2]: 0 and the number of rows;
    * `positions` [tokens, 1]: the row of each token, or -1;
    * `topk_weights` [tokens, 1]: 1, or the sigmoid of the `gate`; 0 without a row.

    What is computed of these rows has `?` tokens, not rows.

    ```mlir
    func.func private @shared_rows(%valid: tensor<1xi32>, %gate: tensor<?x1xf32>) {
      %tiles, %tile_count, %offsets, %positions, %weights = moe.shared_rows tile_rows = 64 valid %valid gate %gate
          : (tensor<1xi32>, tensor<?x1xf32>) -> (tensor<?x4xi32>, tensor<3xi32>, tensor<2xi32>, tensor<?x1xi32>, tensor<?x1xf32>)
      return
    }
    ```
  }];
  let arguments = (ins
    Moe_IntAttr:$tile_rows,
    OptionalAttr<Moe_IntAttr>:$row_step,
    Optional<Moe_Int32s>:$valid_tokens,
    Optional<Moe_Matrix>:$shared_gate
  );
  let results = (outs Moe_Int32Rows:$tiles, Moe_Int32s:$tile_count,
    Moe_Int32s:$offsets, Moe_Int32Rows:$positions,
    Moe_Float32Rows:$topk_weights);
  let assemblyFormat = [{
    `tile_rows` `=` $tile_rows (`row_step` `=` $row_step^)?
    (`valid` $valid_tokens^)? (`gate` $shared_gate^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let members = [{
    bool isOfTokens(::mlir::OpResult result) { return result == getPositions() || result == getTopkWeights(); }
    /// By which the rows of tiles may differ from full ones.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
  }];
  let printedResults = ["tiles", "tile_count", "offsets", "positions", "weights"];
  let hasVerifier = 1;
}

#endif // MOEC_DIALECT_MOEROUTINGOPS_TD
