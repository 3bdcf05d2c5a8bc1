//===- MoeRoutingOps.td - level 2, from logits to tiles ----*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages that select experts and sort the rows by expert.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEROUTINGOPS_TD
#define MOEC_DIALECT_MOEROUTINGOPS_TD

include "dialect/MoeStage.td"

def Moe_RouteOp : Moe_StageOp<"route", [Pure, AttrSizedOperandSegments], ["addStageAttributes"]> {
  let summary = "selects the top-k experts of each token and their weights";
  let description = [{
    Selects `top_k` distinct experts per token with the method of `routing`,
    from the logits [tokens, experts]. If `given` ids and weights are operands
    and the caller passes them at a run, they are used instead. Without logits,
    `experts` is the number of experts. The value of `valid` is the number of
    valid tokens; tokens after them are routed to no expert. The leading `?` is
    the number of tokens. Optional operands and attributes:

    * `bias` [experts] is added to the scores for the selection, if the method
      supports it.
    * `expert_scale` [experts] holds a factor of each expert's weights.
    * `table` (token ids [tokens], ids [vocabulary, top_k]) specifies the
      experts of each token id; the logits then only determine the weights.
    * `output_scale` is a factor of the weights in the sum over experts, but not
      of the weights that are returned to the caller.

    The ids that are counted and permuted are places, the indices of an expert's
    weights:

    * With `replicas` (map, count), a logical expert e has the physical experts
      map[e, i] for i < count[e]. Pair k of a token uses i = (token * top_k + k)
      mod count[e].
    * With `map`, the place is the local expert that the map specifies. A pair
      has no place if this rank does not hold its expert.
    * `shared` experts are appended to each token's experts; their places follow
      the `physical` ones. Their weight is 1, or the sigmoid of the `gate`.
    * The last `zero` experts of the logits have no weights and return the
      token's x. Their place is -2, which later stages do not count.

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
    /// Returns the number of experts that the method selects from.
    int64_t getNumExperts() { return getLogits() ? ::llvm::cast<::mlir::RankedTensorType>(getLogits().getType()).getDimSize(1) : int64_t(*getExperts()); }
    /// Returns the number of columns of the replica map.
    int64_t getReplicaSlots() { return ::llvm::cast<::mlir::RankedTensorType>(getLogicalToPhysical().getType()).getDimSize(1); }
  }];
  let printedResults = ["ids", "weights"];
  let hasVerifier = 1;
}

def Moe_CountOp : Moe_StageOp<"count", [Pure], ["addStageAttributes"]> {
  let summary = "counts the pairs of each expert, per block of tokens";
  let description = [{
    Computes counts [blocks, experts] from ids [tokens, pairs]. A block is
    `block_tokens` tokens; 0 means that the block size is not chosen yet. With
    `most_blocks` there are at most that many blocks: a block is then the
    smallest sufficient multiple of `block_tokens` tokens. `local` is the number
    of experts that a rank holds (default: all); the first of them is known only
    at run time. The leading `?` is the number of tokens for the ids, and the
    number of blocks for the counts.

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
    /// Returns the number of experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
  }];
  let hasVerifier = 1;
}

def Moe_PermuteOp : Moe_StageOp<"permute", [Pure], ["addStageAttributes"]> {
  let summary = "sorts (token, expert) pairs by expert and lists the tiles of rows";
  let description = [{
    A pair is (token, k), and its index is token * pairs + k. Results:

    * `rows` [rows]: the pair index of each sorted row; the rows of an expert
      are in ascending order of pair index.
    * `positions` [tokens, pairs]: the row of each pair, or -1 if its expert is
      not one of the rank's `local` experts (default: all). The first local
      expert is known only at run time.
    * `offsets` [local + 1]: the first row of each local expert.
    * `tiles` [tiles, 4]: {local expert, first row, end row, 0}. A tile has at
      most `tile_rows` rows, all of one expert. An expert has the minimum number
      of tiles, n = ceildiv(count, tile_rows). Without `row_step` all tiles of
      an expert are full except the last. With `row_step`, which divides
      `tile_rows`, the rows are distributed evenly: each tile has ceildiv(count,
      n) rows, rounded up to `row_step`, and the last tile has the rest.
    * `tile_count` [3 or more]: the number of tiles, followed by
      zero-initialized counters. The first two count the tiles claimed by the
      persistent kernels of the first and second matmul. Any others synchronize
      the CTAs of a kernel.
    * `counts` [local]: the number of rows of each local expert.

    `block_tokens` and `most_blocks` must be equal to the attributes of the
    `moe.count` that computes the counts. `capacity` is an upper bound of the
    number of rows, as an expression over tokens.

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
    /// Returns the number of experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
    /// Returns `row_step`, or else `tile_rows`. The number of rows of each tile
    /// is a multiple of this value, except in the last tile of an expert.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
    /// Returns the number of (token, expert) pairs of each token.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
    /// Returns the number of counters after the number of tiles in
    /// `tile_count`.
    int64_t getCounters() { return ::mlir::cast<::mlir::RankedTensorType>(getTileCount().getType()).getDimSize(0) - 1; }
  }];
  let hasVerifier = 1;
}

def Moe_PairRowsOp : Moe_StageOp<"pair_rows", [Pure], ["addStageAttributes"]> {
  let summary = "positions of rows that are in the order of pairs";
  let description = [{
    Row token * pairs + k belongs to the pair (token, k). The position of a pair
    is its row, or -1 if its expert is not one of the rank's `local` experts
    (default: all `experts`). The first local expert is known only at run time.
    The leading `?` is the number of tokens.

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
    /// Returns the number of experts that a rank holds.
    int64_t getNumLocal() { return getLocalExperts().value_or(getExperts()); }
    /// Returns the number of (token, expert) pairs of each token.
    int64_t getPairs() { return ::llvm::cast<::mlir::RankedTensorType>(getPositions().getType()).getDimSize(1); }
  }];
  let hasVerifier = 1;
}

def Moe_BatchOp : Moe_StageOp<"batch", [Pure], ["addStageAttributes"]> {
  let summary = "tiles of rows that arrive batched by expert";
  let description = [{
    Rows arrive already dispatched as [experts, slots], with a count per expert,
    so no sort is needed. Row i of expert e is row e * slots + i, and the first
    `counts[e]` slots of an expert hold rows. A count is clamped to the range
    from 0 to the number of slots. `tiles`, `tile_count` and `row_step` have the
    same meaning as in `moe.permute`. No stage reads or writes slots past an
    expert's count.

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
    /// Returns `row_step`, or else `tile_rows`. The number of rows of each tile
    /// is a multiple of this value, except in the last tile of an expert.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
  }];
  let hasVerifier = 1;
}

def Moe_SharedRowsOp : Moe_StageOp<"shared_rows", [Pure, AttrSizedOperandSegments]> {
  let summary = "rows of the shared-expert MLP, which processes every token";
  let description = [{
    The MLP of shared experts has its own weights. Row t belongs to token t, so
    no selection or sort is needed. Tokens at and after the value of `valid`
    have no row. Results:

    * `tiles`, `tile_count` and `row_step` have the same meaning as in
      `moe.permute`, with one expert.
    * `offsets` [2]: 0 and the number of rows.
    * `positions` [tokens, 1]: the row of each token, or -1.
    * `topk_weights` [tokens, 1]: 1, or the sigmoid of the `gate`; 0 for a token
      without a row.

    In the stages that compute on these rows the leading `?` is the number of
    tokens, not of rows.

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
    /// Returns `row_step`, or else `tile_rows`. The number of rows of each tile
    /// is a multiple of this value, except in the last tile of an expert.
    int64_t getStepOfRows() { return getRowStep().value_or(getTileRows()); }
  }];
  let printedResults = ["tiles", "tile_count", "offsets", "positions", "weights"];
  let hasVerifier = 1;
}

#endif // MOEC_DIALECT_MOEROUTINGOPS_TD
