//===- MoeLayerOps.td - level 1, the layer op --------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer as a serving engine describes it. Its options cover what vLLM can
// specify. moe-check-target rejects an option that no backend supports; no
// option is ignored.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOELAYEROPS_TD
#define MOEC_DIALECT_MOELAYEROPS_TD

include "dialect/MoeAttrs.td"
include "mlir/IR/SymbolInterfaces.td"

def Moe_LayerOp : Moe_Op<"layer", [Symbol]> {
  let summary = "a Mixture-of-Experts layer as the user describes it";
  let description = [{
    The layer has `num_experts` routed experts, and each token is routed to
    `top_k` of them. An expert is a matmul with w13 from `hidden_size` to
    `intermediate_size` (twice that if the activation is gated), the activation,
    and a matmul with w2 back to `hidden_size`. All sizes describe the
    whole layer, regardless of `parallel`. The layer JSON and the manifest use
    the same names.

    ```mlir
    moe.layer @qwen3_30b_a3b {
      num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768,
      in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
      quant = #moe.quant<bf16>, routing = #moe.routing<renormalize_naive>,
      activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, tp_rank = 1>}
    ```

    The options are listed with their defaults in parentheses. E is the number
    of experts, H the hidden size and I the intermediate size.

    * `has_bias`: The two matmuls add biases, b13 and b2 (default: no).
    * `gate_up_order`: The order of the gate and up rows in w13, its bias and
      its scales: `gate_first`, `up_first`, `interleaved` (gate 0, up 0, gate 1,
      ...) or `interleaved_8` (8 gate rows, 8 up rows, ...) (default:
      `gate_first`). Scales of row blocks and of whole tensors are separate for
      gate and up; the gate's scales come first, or the up's scales if the order
      is `up_first`.
    * `accumulate`: The precision of the accumulators: `f32`, or `fast` to
      accumulate over all of K in the tensor core's own precision, which is
      supported for 8-bit operands with per-tensor, per-channel or per-token
      scales (default: `f32`).
    * `stored_layout`: The memory layout of w13, w2, their scales and their zero
      points in the checkpoint (default: `rows`). `rows` is w13 [E, 2I, H] and
      w2 [E, H, I]. `columns` is w13 [E, H, 2I] and w2 [E, I, H] with scales as
      in `rows`; `columns_with_scales` also transposes the scales.
      `scales_128x4` is `rows` with scales in swizzled 128 x 4 blocks. `gptq`,
      `gptq_v2`, `awq` and `pack_quantized` (compressed-tensors) are the layouts
      of integer checkpoints.
    * `group_index`: `w13_group_index` [E, H] and `w2_group_index` [E, I] hold
      the quantization group of each column along K, as in GPTQ act-order
      (`desc_act`) checkpoints. Scales and zero points are per group, and an
      expert's gate and up rows share one column order (default: no, groups are
      consecutive columns).
    * `weights_dtype`: The floating-point element type in which w13 and w2 are
      passed; packing quantizes them to the codes and scales of `quant`
      (default: absent, w13 and w2 are already quantized as `quant` specifies).
    * `input_quantized`: The input x is already quantized and comes with its
      scales (default: no).
    * `is_scale_swizzled`: The block scales of the quantized input are in the
      swizzled 128 x 4 layout (default: no).
    * `apply_router_weight_on_input`: The routing weight multiplies x before the
      first matmul instead of the expert's output; requires top_k = 1 (default:
      no).
    * `routed_scaling_factor`: A factor of the routing weights (default: 1).
    * `apply_routed_scale_to_output`: `routed_scaling_factor` multiplies the sum
      over the experts instead of the routing weights (default: no).
    * `per_expert_scale`: An input with one factor per expert, which multiplies
      the expert's routing weight (default: no).
    * `hash_vocabulary`: The number of rows of the table [vocabulary, top_k]
      that holds the top-k expert ids of each token id (default: 0, no table).
    * `num_zero_experts`: The number of identity experts, which have no weights
      and return x; the router can select them, and their ids follow the ids of
      the real experts (default: 0). Only the first rank adds their outputs.
    * `num_constant_experts`: The number of constant experts, whose output is a
      row of the weight `constant_experts` and does not depend on x; their ids
      follow all others (default: 0).
    * `n_shared_experts`: The number of shared experts, which process every
      token with weight 1 (default: 0). In w13 and w2, their weights follow the
      weights of the routed experts. If `shared_intermediate_size_per_partition`
      is set, they are instead one MLP with its own weights, whose width is the
      sum of their widths.
    * `shared_intermediate_size`: The intermediate size of each shared expert
      (default: `intermediate_size`).
    * `shared_expert_gate`: The weight of the shared experts is the sigmoid of
      an input, one value per token (default: no).
    * `num_redundant_experts`: The number of redundant physical experts
      (replicas) for expert load balancing (default: 0).
    * `enable_eplb`: Each run receives a map from logical to physical experts
      (EPLB) (default: no).
    * `expert_map`: Each run receives a map from expert ids to local experts
      (default: no, `local_begin` and `local_stride` determine the rank's
      experts).
    * `latent_hidden_size`: The width of x and of the output if the caller
      projects the hidden states to a smaller latent size before the layer and
      back after it (default: 0, the width is `hidden_size`).
    * `stored_hidden_size`: The hidden size of a rank's weights in memory
      including padding, which is never read (default: no padding).
    * `stored_intermediate_size_per_partition`: The intermediate size of a
      rank's weights in memory including padding, which is never read (default:
      no padding).
    * `activation_format`: `standard`, or `batched` if tokens arrive already
      dispatched as [local experts, slots] rows with a row count per expert and
      the results return unweighted; the sender then routes and combines
      (default: `standard`).
    * `all_to_all`: The transport between ranks (default: none). With
      `gather_scatter` and with `one_sided` the package dispatches tokens and
      combines results itself; `one_sided` kernels write directly into the
      memory of the other ranks. With any other value the caller communicates.
    * `residual`: An optional input of the output's element type is added to the
      result before rounding; it may alias the output (default: no).
    * `skip_final_all_reduce`: The caller performs the final all-reduce over
      ranks (default: no).
    * `defer_moe_finalize`: The caller computes the weighted sum over experts;
      the outputs are the rows of all (token, expert) pairs sorted by expert,
      and the position of each pair (default: no).
    * `batch_invariant`: The result of a token is bitwise identical in every
      batch, so one variant handles all token counts (default: no).
    * `is_lora_enabled`: The LoRA deltas of each (token, expert) pair are
      inputs, added before the activation and before the sum over experts
      (default: no).
    * `post_expert_norm_eps`: The epsilon of an RMS norm of each expert's output
      row y, applied before its routing weight: z / sqrt(mean(z^2) + epsilon)
      with z = (1 + post_expert_norm) * y (default: absent, no norm).
    * `part`: The part of the layer to compile (default: the whole layer).
      `route` computes top-k ids and weights, `quantize` the codes (quantized
      values) and scales of x, and `finalize` the weighted sum of the experts'
      outputs for given ids and weights.
    * `ranks`: The flattened ranks that run the package, in ascending order; the
      first is the rank in `parallel` (default: only that rank).

    `moe-choose-realization` writes `realization` if the scheme has several. If
    the layer is computed with another scheme (`weight_only`), `stored_quant` is
    the user's scheme.

    `moe-resolve-parallel` writes `intermediate_size_per_partition`,
    `local_begin`, `local_experts`, `local_stride`,
    `shared_intermediate_size_per_partition` and `w2_bias` for the rank in
    `parallel`. Local expert i is expert `local_begin` + i * `local_stride`.
    Generated code depends only on the sizes per partition and on
    `local_experts`, which are equal for all `ranks`.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    Moe_IntAttr:$num_experts,
    Moe_IntAttr:$top_k,
    Moe_IntAttr:$hidden_size,
    Moe_IntAttr:$intermediate_size,
    TypeAttr:$in_dtype,
    TypeAttr:$out_dtype,
    TypeAttr:$router_logits_dtype,
    Moe_QuantAttr:$quant,
    Moe_RoutingAttr:$routing,
    Moe_ActivationAttr:$activation,
    Moe_ParallelAttr:$parallel,
    UnitAttr:$has_bias,
    DefaultValuedStrAttr<StrAttr, "gate_first">:$gate_up_order,
    DefaultValuedStrAttr<StrAttr, "f32">:$accumulate,
    DefaultValuedStrAttr<StrAttr, "rows">:$stored_layout,
    UnitAttr:$group_index,
    OptionalAttr<TypeAttr>:$weights_dtype,
    UnitAttr:$input_quantized,
    UnitAttr:$is_scale_swizzled,
    UnitAttr:$apply_router_weight_on_input,
    OptionalAttr<F64Attr>:$routed_scaling_factor,
    UnitAttr:$apply_routed_scale_to_output,
    UnitAttr:$per_expert_scale,
    OptionalAttr<Moe_IntAttr>:$hash_vocabulary,
    OptionalAttr<Moe_IntAttr>:$num_zero_experts,
    OptionalAttr<Moe_IntAttr>:$num_constant_experts,
    OptionalAttr<Moe_IntAttr>:$n_shared_experts,
    OptionalAttr<Moe_IntAttr>:$shared_intermediate_size,
    UnitAttr:$shared_expert_gate,
    OptionalAttr<Moe_IntAttr>:$num_redundant_experts,
    UnitAttr:$enable_eplb,
    UnitAttr:$expert_map,
    OptionalAttr<Moe_IntAttr>:$latent_hidden_size,
    OptionalAttr<Moe_IntAttr>:$stored_hidden_size,
    OptionalAttr<Moe_IntAttr>:$stored_intermediate_size_per_partition,
    DefaultValuedStrAttr<StrAttr, "standard">:$activation_format,
    OptionalAttr<StrAttr>:$all_to_all,
    UnitAttr:$residual,
    UnitAttr:$skip_final_all_reduce,
    UnitAttr:$defer_moe_finalize,
    UnitAttr:$batch_invariant,
    UnitAttr:$is_lora_enabled,
    OptionalAttr<F64Attr>:$post_expert_norm_eps,
    OptionalAttr<StrAttr>:$part,
    OptionalAttr<DenseI64ArrayAttr>:$ranks,
    OptionalAttr<StrAttr>:$realization,
    OptionalAttr<Moe_QuantAttr>:$stored_quant,
    OptionalAttr<Moe_IntAttr>:$intermediate_size_per_partition,
    OptionalAttr<Moe_IntAttr>:$local_begin,
    OptionalAttr<Moe_IntAttr>:$local_experts,
    OptionalAttr<Moe_IntAttr>:$local_stride,
    OptionalAttr<Moe_IntAttr>:$shared_intermediate_size_per_partition,
    OptionalAttr<BoolAttr>:$w2_bias
  );
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    bool isGated() { return getActivation().isGated(); }
    /// Returns true if the package, not its caller, moves tokens and partial
    /// sums between ranks.
    bool communicates() { return getAllToAll() == "gather_scatter" || getAllToAll() == "one_sided"; }
    /// Returns the names of the options that the manifest stores under the same
    /// name: flags and options with a default. An option whose name ends in '?'
    /// is omitted if it has its default.
    static ::llvm::ArrayRef<::llvm::StringRef> getManifestOptions() {
      static constexpr ::llvm::StringRef words[] = {"accumulate", "activation_format?",
        "apply_router_weight_on_input", "batch_invariant", "defer_moe_finalize", "enable_eplb",
        "expert_map", "gate_up_order", "group_index?", "has_bias", "input_quantized",
        "is_lora_enabled", "part?", "post_expert_norm_eps?", "residual", "shared_expert_gate",
        "stored_hidden_size?", "stored_intermediate_size_per_partition?"};
      return words;
    }
    /// Returns the options that have a default, with their default values.
    ::mlir::DictionaryAttr getDefaults();
    /// Returns the width of x and of the experts' outputs.
    int64_t getWidth() { return getLatentHiddenSize().value_or(0) > 0 ? *getLatentHiddenSize() : getHiddenSize(); }
    /// Returns the number of physical experts, including replicas.
    int64_t getPhysicalExperts() { return getNumExperts() + getNumRedundantExperts().value_or(0); }
    /// Returns true if the shared experts are one MLP with its own weights.
    bool hasSharedMlp() { return bool(getSharedIntermediateSizePerPartition()); }
    /// Returns the width of the shared MLP over all ranks.
    int64_t getSharedWidth() {
      const int64_t own = getSharedIntermediateSize().value_or(0);
      return getNSharedExperts().value_or(0) * (own > 0 ? own : int64_t(getIntermediateSize()));
    }
    /// Returns the number of shared experts whose weights follow the
    /// weights of the routed experts in w13 and w2.
    int64_t getSharedRows() { return hasSharedMlp() ? 0 : getNSharedExperts().value_or(0); }
    /// Returns the number of experts in w13 and w2: the physical experts, then
    /// the shared experts.
    int64_t getStoredExperts() { return getPhysicalExperts() + getSharedRows(); }
    /// Returns the number of (token, expert) pairs of a token: top_k chosen
    /// experts, then the shared experts.
    int64_t getPairsOfToken() { return getTopK() + getSharedRows(); }
    /// Returns the number of experts the router scores: the real experts, then
    /// the zero and constant experts.
    int64_t getRoutedExperts() { return getNumExperts() + getNumZeroExperts().value_or(0) + getNumConstantExperts().value_or(0); }
    /// Returns the number of places (expert indices after mapping): the experts
    /// with weights, then the constant experts, for which no rank has rows.
    int64_t getPlaces() { return getStoredExperts() + getNumConstantExperts().value_or(0); }
    /// Returns the flattened ranks that run the package.
    ::llvm::SmallVector<int64_t> getRanksOfPackage();
    /// Returns true if only one of several ranks adds b2.
    bool addsW2BiasByRank() { return getParallel().getShardSize() > 1; }
    /// Returns true if only one of several ranks adds the outputs of zero experts.
    bool addsZeroExpertsByRank() { return getParallel().getFlatSize() > 1; }
    /// Returns true if only the given part of the layer is compiled.
    bool isPart(::llvm::StringRef part) { return getPart() == part; }
    /// Returns true if the package multiplies by the experts' first weight.
    bool hasGateUp() { return !getPart() || isPart("gate_up"); }
    /// Returns true if the package multiplies by the experts' second weight.
    bool hasDown() { return !getPart() || isPart("down"); }
    /// Returns true if the package multiplies by a weight of the experts.
    bool hasMatmul() { return hasGateUp() || hasDown(); }
    /// Returns true if the routing weights multiply x before x is quantized.
    bool weighsX() { return getApplyRouterWeightOnInput() && !isBatched(); }
    /// Returns true if the place of a pair's expert can differ from its expert
    /// id.
    bool hasPlaces() {
      return getEnableEplb() || getExpertMap() || getNumZeroExperts().value_or(0) > 0 ||
             getSharedRows() > 0;
    }
    /// Returns true if rows arrive grouped by expert with a count per expert.
    bool isBatched() { return getActivationFormat() == "batched"; }
    /// Returns the maximum number of rows per token of a run. In the batched
    /// format a token is a slot index, at which each of this rank's experts has
    /// a row, so this is the number of these experts. The layer must be
    /// resolved.
    int64_t getRowsOfToken() { return isBatched() ? *getLocalExperts() : getPairsOfToken(); }
    /// Returns the element type the matmuls multiply if weights are
    /// dequantized: the activations' type, or the 16-bit input type if
    /// activations are emulated.
    ::mlir::Type getComputeType();
    /// Returns the layer's inputs in the order of a program's arguments,
    /// followed by its outputs. The layer must be resolved.
    ::llvm::SmallVector<LayerTensor> getTensors();
    /// Returns true if weights are passed as floating-point values and
    /// quantized when they are packed.
    bool quantizesWeights() { return bool(getWeightsDtype()); }
    /// Returns true if a rank's weights are padded in memory. getStoredWidth()
    /// and getStoredInner() return the padded sizes.
    bool padsWeights() { return getStoredHiddenSize() || getStoredIntermediateSizePerPartition(); }
    int64_t getStoredWidth() { return getStoredHiddenSize().value_or(getWidth()); }
    int64_t getStoredInner() { return getStoredIntermediateSizePerPartition().value_or(*getIntermediateSizePerPartition()); }
    /// Returns the scheme that the user specified.
    QuantAttr getUsersQuant() { return getStoredQuant().value_or(getQuant()); }
    bool accumulatesFast() { return getAccumulate() == "fast"; }
    /// Returns true if moe-resolve-parallel has run on this layer.
    bool isResolved() { return getIntermediateSizePerPartition() && getLocalBegin() && getLocalExperts() && getW2Bias(); }
    /// Returns the number of rows of one expert's w13 on this rank. The layer
    /// must be resolved.
    int64_t getW13Rows() { return (isGated() ? 2 : 1) * *getIntermediateSizePerPartition(); }
    /// Returns the shape of w13's scales, or an empty shape if w13 has no
    /// scales. Gate and up rows are quantized separately. The layer must be
    /// resolved.
    ::llvm::SmallVector<int64_t, 3> getW13ScaleShape();
    /// Returns the shape of w2's scales, like getW13ScaleShape().
    ::llvm::SmallVector<int64_t, 3> getW2ScaleShape();
  }];
}

#endif // MOEC_DIALECT_MOELAYEROPS_TD
