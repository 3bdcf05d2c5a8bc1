//===- MoeLayerOps.td - level 1, what the user said --------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The layer as an inference engine describes it. Its options are all that such
// an engine can say; what no backend does yet is refused by
// moe-check-target, never ignored.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOELAYEROPS_TD
#define MOEC_DIALECT_MOELAYEROPS_TD

include "dialect/MoeAttrs.td"
include "mlir/IR/SymbolInterfaces.td"

def Moe_LayerOp : Moe_Op<"layer", [Symbol]> {
  let summary = "a Mixture-of-Experts layer, whole, as the user describes it";
  let description = [{
    `num_experts` routed experts, of which `top_k` are chosen for each token; an
    expert is a matmul from `hidden_size` to `intermediate_size` (twice that where
    the activation is gated), the activation, and a matmul back. All sizes are
    the whole layer's, whatever `parallel` says. The layer JSON and the manifest
    have the same names.

    ```mlir
    moe.layer @qwen3_30b_a3b {
      num_experts = 128, top_k = 8, hidden_size = 2048, intermediate_size = 768,
      in_dtype = bf16, out_dtype = bf16, router_logits_dtype = bf16,
      quant = #moe.quant<bf16>, routing = #moe.routing<renormalize_naive>,
      activation = #moe.activation<silu>, parallel = #moe.parallel<tp = 4, tp_rank = 1>}
    ```

    Options, and what absence means:

    * `has_bias`: the matmuls add biases b13 and b2 (no);
    * `gate_up_order`: rows of w13, and what belongs to them in its bias and
      scales, are `gate_first` (default), `up_first` or `interleaved` (gate 0,
      up 0, gate 1, ...). Scales of blocks of rows, and of tensors, are those of
      gate and up apart: the gate's first, or the up's if `up_first`;
    * `accumulate`: products are added in `f32` (default), or `fast`, as the
      tensor core adds them over all of k: for 8-bit operands whose scales are
      of tensors, channels or tokens;
    * `stored_layout`: how w13 and w2, and what scales them, are stored: as
      `rows` [E, 2I, H] and [E, H, I] (default), `columns` [E, H, 2I] and
      [E, I, H] (scales as with rows), `columns_with_scales` (these so, too),
      `scales_128x4` (rows, whose scales lie in atoms of 128 x 4), or as
      checkpoints of integers are: `gptq`, `gptq_v2`, `awq`, `pack_quantized` (of
      compressed-tensors);
    * `group_index`: columns of the weights' k are in groups that
      `w13_group_index` [E, H] and `w2_group_index` [E, I] say, in place of the
      first ones, the next ones and so on (no): scales and zero points are those
      of groups. Gate and up of an expert share their order;
    * `weights_dtype`: w13 and w2 are stored as floats of this type, and become
      codes and scales as the scheme says when they are packed (as the scheme
      has them);
    * `input_quantized`: x comes quantized, with its scales (no);
    * `is_scale_swizzled`: block scales of activations come swizzled (no);
    * `apply_router_weight_on_input`: weights multiply x in place of the
      experts' outputs, with top_k = 1 (no);
    * `routed_scaling_factor`: multiplies the routing weights (1), or with
      `apply_routed_scale_to_output` the sum over experts;
    * `per_expert_scale`: each expert's weight has a factor (no);
    * `hash_vocabulary`: ids come from a table of so many token ids (0: no);
    * `num_zero_experts`: so many that the router may choose behind the real ones
      have no weights: each hands x on as it is (0). The first rank adds them;
    * `num_constant_experts`: so many experts behind the others have a vector
      each, of the weight `constant_experts`, in place of an output (0);
    * `n_shared_experts`, `shared_intermediate_size` (of each: as the others'),
      `shared_expert_gate`: experts that every token takes (0). Their weight is 1,
      or the sigmoid of an input. They are behind the others in the weights, or
      one MLP of as many times the width, with weights of its own: where
      `shared_intermediate_size_per_partition` says its columns on this rank;
    * `num_redundant_experts`, `enable_eplb`: replicas, and that each run says
      which physical experts there are of a logical one (0, no);
    * `expert_map`: the caller says at each run which of the local experts an
      id means (no: those from `local_begin` on);
    * `latent_hidden_size`: the experts' width where the caller projects x to it
      first, and the output back (0: none). x and the output are then as wide;
    * `stored_hidden_size`, `stored_intermediate_size_per_partition`: the sizes of
      the weights of a rank as stored, with what pads them (as what the rank
      computes): that is never read;
    * `activation_format`: `standard` (default), or `batched`: rows come
      dispatched, so many slots for each local expert with a count of those that
      it has, and go back unweighted. Routing is then the sender's;
    * `all_to_all`: the transport between ranks (none). With `gather_scatter` the
      package itself moves tokens and sums between ranks, and so it does with
      `one_sided`, where its kernels write into the memory of other ranks; with
      any other the caller does;
    * `residual`: an input of the output's type, which may be the output itself,
      is added to it before it is rounded, where the caller gives one (no);
    * `skip_final_all_reduce`: the caller reduces over ranks (no);
    * `defer_moe_finalize`: the caller sums over experts: of the output there are
      the rows of all pairs, sorted by expert, and their places (no);
    * `batch_invariant`: the bits of a token's result are the same in any batch:
      one variant serves all token counts (no);
    * `is_lora_enabled`: what adapters of the matmuls give each pair are inputs, added
      before the activation and before the sum over experts (no);
    * `post_expert_norm_eps`: each expert's row y of the output becomes its RMS
      norm before its weight multiplies it: with z = (1 + post_expert_norm) * y,
      z / sqrt(mean(z^2) + this number) (no).
    * `part`: what is compiled of the layer (all of it). `route`: the ids and
      weights of each token. `quantize`: the codes and scales of x. `finalize`:
      the weighted sum of the experts' outputs, whose ids and weights are given.

    * `ranks`: the flattened ranks that the package is for, ascending; the rank
      in `parallel` is the first of them (that one alone).

    `realization` is what `moe-choose-realization` chose where the scheme may be
    computed in several ways. `stored_quant` is then the scheme of the user, if
    the layer is computed by another one (`weight_only`).

    `intermediate_size_per_partition`, `local_begin`, `local_experts`,
    `local_stride`, `shared_intermediate_size_per_partition` and `w2_bias` are
    what the rank in `parallel` holds, written by `moe-resolve-parallel`: local
    expert i is expert `local_begin` + i * `local_stride`. Code depends on the
    sizes per partition and `local_experts` alone, which are equal for all
    `ranks`.
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
    /// Whether the package moves tokens and sums between ranks, not its caller.
    bool communicates() { return getAllToAll() == "gather_scatter" || getAllToAll() == "one_sided"; }
    /// Options that the manifest's layer has by the same names: flags, and those
    /// that have a default. It omits one with '?' where it has its default.
    static ::llvm::ArrayRef<::llvm::StringRef> getManifestOptions() {
      static constexpr ::llvm::StringRef words[] = {"accumulate", "activation_format?",
        "apply_router_weight_on_input", "batch_invariant", "defer_moe_finalize", "enable_eplb",
        "expert_map", "gate_up_order", "group_index?", "has_bias", "input_quantized",
        "is_lora_enabled", "part?", "post_expert_norm_eps?", "residual", "shared_expert_gate",
        "stored_hidden_size?", "stored_intermediate_size_per_partition?"};
      return words;
    }
    /// The options that have a default, with it.
    ::mlir::DictionaryAttr getDefaults();
    /// The width of x and of the experts' outputs.
    int64_t getWidth() { return getLatentHiddenSize().value_or(0) > 0 ? *getLatentHiddenSize() : getHiddenSize(); }
    /// Experts that routing may end at, replicas counted.
    int64_t getPhysicalExperts() { return getNumExperts() + getNumRedundantExperts().value_or(0); }
    /// Whether shared experts are an MLP with weights of its own.
    bool hasSharedMlp() { return bool(getSharedIntermediateSizePerPartition()); }
    /// The width of that MLP on all ranks together.
    int64_t getSharedWidth() {
      const int64_t own = getSharedIntermediateSize().value_or(0);
      return getNSharedExperts().value_or(0) * (own > 0 ? own : int64_t(getIntermediateSize()));
    }
    /// Shared experts behind the others in the weights.
    int64_t getSharedRows() { return hasSharedMlp() ? 0 : getNSharedExperts().value_or(0); }
    /// Experts whose weights stand together: shared ones behind the physical.
    int64_t getStoredExperts() { return getPhysicalExperts() + getSharedRows(); }
    /// The experts chosen for a token, and the shared ones behind them.
    int64_t getPairsOfToken() { return getTopK() + getSharedRows(); }
    /// Experts that the router knows: the real ones, then those without weights.
    int64_t getRoutedExperts() { return getNumExperts() + getNumZeroExperts().value_or(0) + getNumConstantExperts().value_or(0); }
    /// Places that a chosen expert may have: those of weights, then of constants,
    /// which no rank has rows of.
    int64_t getPlaces() { return getStoredExperts() + getNumConstantExperts().value_or(0); }
    /// The flattened ranks that the package is for.
    ::llvm::SmallVector<int64_t> getRanksOfPackage();
    /// Whether one rank alone of several adds b2, and what zero experts hand on.
    bool addsW2BiasByRank() { return getParallel().getShardSize() > 1; }
    bool addsZeroExpertsByRank() { return getParallel().getFlatSize() > 1; }
    /// Whether that part alone is compiled.
    bool isPart(::llvm::StringRef part) { return getPart() == part; }
    /// Whether weights of pairs multiply x before it is quantized.
    bool weighsX() { return getApplyRouterWeightOnInput() && !isBatched(); }
    /// Whether the place of a pair's weights may be another number than its id.
    bool hasPlaces() {
      return getEnableEplb() || getExpertMap() || getNumZeroExperts().value_or(0) > 0 ||
             getSharedRows() > 0;
    }
    /// Rows come by expert, with counts.
    bool isBatched() { return getActivationFormat() == "batched"; }
    /// Rows at most for each of a run's tokens, which are slots of an expert
    /// where rows come by expert. The layer must be resolved.
    int64_t getRowsOfToken() { return isBatched() ? *getLocalExperts() : getPairsOfToken(); }
    /// The type that matmuls multiply where weights are dequantized: the
    /// activations', or of emulated ones the input's type of 16 bits.
    ::mlir::Type getComputeType();
    /// The layer's inputs in the order of a program's arguments, then its
    /// outputs. The layer must be resolved.
    ::llvm::SmallVector<LayerTensor> getTensors();
    /// Weights are stored as floats, and their codes and scales made of these.
    bool quantizesWeights() { return bool(getWeightsDtype()); }
    /// Padding of a rank's weights, whose sizes as stored are these.
    bool padsWeights() { return getStoredHiddenSize() || getStoredIntermediateSizePerPartition(); }
    int64_t getStoredWidth() { return getStoredHiddenSize().value_or(getWidth()); }
    int64_t getStoredInner() { return getStoredIntermediateSizePerPartition().value_or(*getIntermediateSizePerPartition()); }
    /// The user's scheme.
    QuantAttr getUsersQuant() { return getStoredQuant().value_or(getQuant()); }
    bool accumulatesFast() { return getAccumulate() == "fast"; }
    /// moe-resolve-parallel has been here.
    bool isResolved() { return getIntermediateSizePerPartition() && getLocalBegin() && getLocalExperts() && getW2Bias(); }
    /// Rows of one expert's w13 on this rank. The layer must be resolved.
    int64_t getW13Rows() { return (isGated() ? 2 : 1) * *getIntermediateSizePerPartition(); }
    /// Shapes of the scales of w13 and w2; empty without scales. Gate and up
    /// rows are quantized apart. The layer must be resolved.
    ::llvm::SmallVector<int64_t, 3> getW13ScaleShape();
    ::llvm::SmallVector<int64_t, 3> getW2ScaleShape();
  }];
}

#endif // MOEC_DIALECT_MOELAYEROPS_TD
