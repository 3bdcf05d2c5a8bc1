//===- MoeAttrs.td - the attributes of the moe dialect -----*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Quantization, routing, activation, parallel layout, target, weight layout,
// schedule and report. Parameters that are names of catalog rows are printed
// as bare words; an unknown name is an error that lists the known ones. The
// parsers and printers stand in MoeAttrs.cpp.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEATTRS_TD
#define MOEC_DIALECT_MOEATTRS_TD

include "dialect/MoeDialect.td"
include "dialect/MoeSchedules.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

// An attribute with a parser that names fields in its errors, and a verifier.
class Moe_VerifiedAttr<string name, string attrMnemonic, list<Trait> traits = []>
    : Moe_Attr<name, attrMnemonic, traits> {
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// An attribute whose parameters are fields, a row of FieldParser.h each.
class Moe_FieldsAttr<string name, string attrMnemonic, code fields, list<Trait> traits = []>
    : Moe_VerifiedAttr<name, attrMnemonic, traits> {
  let extraClassDefinition = "static constexpr Field k" # name # "Fields[] = {" # fields # [{};

::mlir::Attribute $cppClass::parse(::mlir::AsmParser &parser, ::mlir::Type) {
  return parseFields<$cppClass>(parser, k}] # name # [{Fields, std::type_identity<ImplType::KeyTy>());
}
void $cppClass::print(::mlir::AsmPrinter &printer) const {
  printFields(printer, k}] # name # [{Fields, getImpl()->getAsKey());
}
}];
}

//===----------------------------------------------------------------------===//
// What is computed
//===----------------------------------------------------------------------===//

def Moe_RealizationAttr : I32EnumAttr<"Realization", "how a matmul multiplies its operands", [
    I32EnumAttrCase<"Native", 0, "native">,
    I32EnumAttrCase<"Dequantized", 1, "dequantized">,
    I32EnumAttrCase<"Codes", 2, "codes">,
    I32EnumAttrCase<"Emulated", 3, "emulated">,
    I32EnumAttrCase<"Blocks", 4, "blocks">]> {
  let cppNamespace = "::moec::moe";
}

def Moe_DescriptorAttr : Moe_FieldsAttr<"Descriptor", "descriptor", [{
    "", "group", "scale", "dynamic",
    "second_scale", "zero_point", "scale_rule", "second_per_row"
  }]> {
  let summary = "what one operand of a matmul is made of";
  let description = [{
    The element type, and how elements are scaled:

    * `group`: `[rows, columns]` that share a scale; -1 is the whole extent.
      `[-1, -1]` is one scale a tensor, `[1, -1]` one a token or an output
      channel, `[128, 128]` a block, `[1, 32]` a group along K;
    * `scale`: the scale's element type; present exactly if `group` is;
    * `dynamic`: the scale is computed from the values at run time;
    * `second_scale`: the element type of a scale of the scales, one a tensor,
      which is stored; with `second_per_row` each row has its own: each output
      channel of a weight a stored one, each token one that is computed at run
      time beside `dynamic` scales;
    * `scale_rule`: how a dynamic scale of type f8E8M0FNU follows from the largest
      magnitude of its group, and the largest power of two P and value V of the
      element type: `even` is the power of two of the magnitude, rounded to the
      element's mantissa, over P; `ceil` the least power of two that is no smaller
      than magnitude / V; `floor` the magnitude's power of two over P. Absent it is
      `ceil` of 8-bit elements, else `even`;
    * `zero_point`: the zero point's element type, of an integer element type.

    ```mlir
    #plain = #moe.descriptor<bf16>
    #block = #moe.descriptor<f8E4M3FN, group = [1, 128], scale = f32, dynamic>
    #nvfp4 = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, second_scale = f32>
    #awq = #moe.descriptor<i4, group = [1, 128], scale = f16, zero_point = i4>
    #mx = #moe.descriptor<f4E2M1FN, group = [1, 32], scale = f8E8M0FNU, dynamic, scale_rule = floor>
    #two = #moe.descriptor<f4E2M1FN, group = [1, 16], scale = f8E4M3FN, dynamic, second_scale = f32, second_per_row>
    module attributes {moe.example = [#plain, #block, #nvfp4, #awq, #mx, #two]} {}
    ```
  }];
  let parameters = (ins
    "::mlir::Type":$element,
    OptionalArrayRefParameter<"int64_t">:$group,
    OptionalParameter<"::mlir::Type">:$scale,
    OptionalParameter<"bool">:$dynamic,
    OptionalParameter<"::mlir::Type">:$secondScale,
    OptionalParameter<"::mlir::Type">:$zeroPoint,
    StringRefParameter<"even, ceil, floor, or empty", "\"\"">:$scaleRule,
    OptionalParameter<"bool">:$secondPerRow
  );
  let builders = [
    AttrBuilder<(ins "::mlir::Type":$element), [{
      return $_get($_ctxt, element, ::llvm::ArrayRef<int64_t>(),
                   ::mlir::Type(), false, ::mlir::Type(), ::mlir::Type(),
                   ::llvm::StringRef(), false);
    }]>
  ];
  let extraClassDeclaration = [{
    /// No scale of any kind.
    bool isPlain() const { return !getScale(); }
    /// One scale of all values.
    bool isOfTensor() const { return !isPlain() && getGroup()[0] == -1 && getGroup()[1] == -1; }
    /// A scale of an activation's scales that is stored, below dynamic ones.
    bool hasStoredSecondScale() const { return getSecondScale() && !getSecondPerRow(); }
    /// A scale for each few elements of a row, of a type that tensor cores read.
    bool isOfBlocks() const;
    /// The rule by which dynamic powers of two follow; empty for other scales.
    ::llvm::StringRef getRule() const;
    /// The same with scales of other groups.
    DescriptorAttr withGroup(::llvm::ArrayRef<int64_t> group) const;
    /// The type that kernels read for a scale: f32 for powers of two, else as
    /// it is.
    ::mlir::Type getScaleAsRead() const;
  }];
}

def Moe_QuantAttr : Moe_VerifiedAttr<"Quant", "quant"> {
  let summary = "the quantization scheme of a layer";
  let description = [{
    The name of a scheme, or its four descriptors spelled out: `a1` and `a2`
    are what the two matmuls read as activations, `w1` and `w2` their weights.
    Four descriptors that are those of a named scheme are that scheme.

    ```mlir
    #named = #moe.quant<bf16>
    #spelled = #moe.quant<a1 = <bf16>, a2 = <bf16>,
                          w1 = <i4, group = [1, 128], scale = bf16>,
                          w2 = <i4, group = [1, 128], scale = bf16>>
    module attributes {moe.example = [#named, #spelled]} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"of the scheme; empty when spelled out">:$name,
    "::moec::moe::DescriptorAttr":$a1,
    "::moec::moe::DescriptorAttr":$a2,
    "::moec::moe::DescriptorAttr":$w1,
    "::moec::moe::DescriptorAttr":$w2
  );
  let extraClassDeclaration = [{
    /// The scheme of that name, which must be a row of the catalog.
    static QuantAttr getScheme(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// The scheme with these descriptors, by its name if it has one.
    static QuantAttr getSpelled(::mlir::MLIRContext *context, DescriptorAttr a1,
                                DescriptorAttr a2, DescriptorAttr w1, DescriptorAttr w2);
    /// The row's name; empty when spelled out.
    ::llvm::StringRef getScheme() const { return getName(); }
    /// How the layer's first or second matmul multiplies its operands.
    Realization getRealization(bool first) const;
    /// Weights become numbers of 16 bits before they are multiplied.
    bool dequantizesWeights() const;
    /// Both matmuls multiply elements of 8 bits, of which scales multiply sums.
    bool multipliesBytes() const;
    /// Codes of 4 bits become elements of the activations' 8 as they are, and
    /// scales multiply sums.
    bool multipliesCodes() const;
    /// Realization 'codes' is possible in place of 'emulated': the activations'
    /// e4m3 holds each code. Which one it is depends on the target.
    bool mayMultiplyCodes() const;
    /// Realization 'blocks' is possible in place of 'emulated': the engine and
    /// the operands of it, or null. Which one it is depends on the target.
    const ::moec::catalog::BlockPair *getBlockPair() const;
    /// Returns the row of the engine that applies the scales in the tensor core
    /// where both matmuls have 8-bit operands with power-of-two scales of 128
    /// elements along k; null otherwise.
    const ::moec::catalog::BlockPair *getPowerGroups() const;
    /// Rows of Realizations.h in their order: the scheme's, or what follows from
    /// the descriptors.
    ::moec::WordList getRealizations() const;
    /// The same weights, and activations of the type without scales.
    QuantAttr withPlainActivations(::mlir::Type type) const;
    /// "w4a16": bits of weights and activations, of both matmuls if they differ.
    std::string getBits() const;
  }];
}

def Moe_RoutingAttr : Moe_FieldsAttr<"Routing", "routing", [{
    "", "scoring", "renormalize", "groups", "top_groups", "scale", "bias", "softcap", "logit_scale", "epsilon", "sinks"
  }]> {
  let summary = "how experts are chosen and weighed";
  let description = [{
    The name of a routing method, whose row says score, selection and
    normalization; and what the method may take besides:

    * `groups`, `top_groups`: experts in groups, of which the best are kept;
    * `scale`: multiplies the weights;
    * `bias`: a correction bias is added to the scores for the selection. The
      keys that are compared are the scores with it; without, the logits;
    * `logit_scale`: scores are those of logit_scale * logit;
    * `softcap`: scores are those of softcap * tanh(logit / softcap), where the
      logit has its scale;
    * `epsilon`: what the sum of the scores gets before it divides them (1e-20);
    * `sinks`: so many of the experts, the last ones, are taken by every token.
      They are the last of its top_k, and their weights are normalized with
      those of the others.

    An importer that knows a scoring function and flags, but no method, writes
    `auto` with `scoring` (softmax, sigmoid, sqrtsoftplus) and `renormalize`;
    `moe-infer-routing` finds the method.

    ```mlir
    #method = #moe.routing<renormalize_naive>
    #grouped = #moe.routing<auto, scoring = sigmoid, renormalize, groups = 8, top_groups = 4, scale = 2.5, bias>
    module attributes {moe.example = [#method, #grouped]} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"a row of RoutingMethods.h, or auto">:$method,
    StringRefParameter<"scoring function, of auto alone", "\"\"">:$scoring,
    OptionalParameter<"bool">:$renormalize,
    OptionalParameter<"int64_t", "0">:$groups,
    OptionalParameter<"int64_t", "0">:$topGroups,
    OptionalParameter<"::mlir::FloatAttr">:$scale,
    OptionalParameter<"bool">:$bias,
    OptionalParameter<"::mlir::FloatAttr">:$softcap,
    OptionalParameter<"::mlir::FloatAttr">:$logitScale,
    OptionalParameter<"::mlir::FloatAttr">:$epsilon,
    OptionalParameter<"int64_t", "0">:$sinks
  );
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$method), [{
      return $_get($_ctxt, method, ::llvm::StringRef(), false, int64_t(0), int64_t(0),
                   ::mlir::FloatAttr(), false, ::mlir::FloatAttr(), ::mlir::FloatAttr(),
                   ::mlir::FloatAttr(), int64_t(0));
    }]>
  ];
  let extraClassDeclaration = [{
    double getScaleValue() const { return getScale() ? getScale().getValueAsDouble() : 1.0; }
    /// The method has no way to choose experts by itself.
    bool takesGivenIdsAlone() const;
  }];
}

def Moe_ActivationAttr : Moe_FieldsAttr<"Activation", "activation", [{
    "", "alpha", "beta", "linear_beta", "limit", "per_expert"
  }]> {
  let summary = "what is applied between the two matmuls";
  let description = [{
    The name of an activation, whose row says the function, whether it is gated
    and which numbers it takes. One that is absent is what the row says, and not
    zero: without a limit there is none. With `per_expert` each expert has
    numbers of its own, which are weights of the layer.

    ```mlir
    #plain = #moe.activation<silu>
    #ungated = #moe.activation<gelu_tanh_no_mul>
    #limited = #moe.activation<swigluoai_uninterleave, alpha = 1.702, beta = 1.0, limit = 7.0>
    #of_experts = #moe.activation<swigluoai, per_expert>
    module attributes {moe.example = [#plain, #ungated, #limited, #of_experts]} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"a row of Activations.h">:$function,
    OptionalParameter<"::mlir::FloatAttr">:$alpha,
    OptionalParameter<"::mlir::FloatAttr">:$beta,
    OptionalParameter<"::mlir::FloatAttr">:$linearBeta,
    OptionalParameter<"::mlir::FloatAttr">:$limit,
    OptionalParameter<"bool">:$perExpert
  );
  let builders = [
    AttrBuilder<(ins "::llvm::StringRef":$function), [{
      return $_get($_ctxt, function, ::mlir::FloatAttr(), ::mlir::FloatAttr(),
                   ::mlir::FloatAttr(), ::mlir::FloatAttr(), false);
    }]>
  ];
  let extraClassDeclaration = [{
    const ::moec::catalog::Activation &getRow() const;
    /// Whether the first matmul has two halves, gate and up.
    bool isGated() const;
    /// Whether it takes many registers, as erf and two tanh do.
    bool takesManyRegisters() const;
    /// The parameters, the row's where none is said.
    ::moec::catalog::ActivationNumbers getNumbers() const;
    /// The weights that hold the parameters where each expert has its own.
    ::llvm::SmallVector<::llvm::StringRef> getNumbersOfExperts() const;
  }];
}

def Moe_ParallelAttr : Moe_FieldsAttr<"Parallel", "parallel", [{
    {"tp", 1}, "tp_rank", {"pcp", 1}, "pcp_rank", {"dp", 1},
    "dp_rank", {"sp", 1}, "ep", {"placement", "linear"}, "rank"
  }]> {
  let summary = "how the layer is spread over ranks";
  let description = [{
    Sizes of tensor, prefill-context, data and sequence parallelism with this
    process's ranks (absent: 1 and 0), whether experts are spread (`ep`), and
    how: `placement` is `linear` or `round_robin`. `rank` names the flattened
    rank, `(dp_rank * pcp + pcp_rank) * tp + tp_rank`, instead of the three.
    `moe-resolve-parallel` says what this rank holds.

    ```mlir
    #alone = #moe.parallel<>
    #sharded = #moe.parallel<tp = 4, tp_rank = 1>
    #spread = #moe.parallel<tp = 2, dp = 4, rank = 5, ep, placement = round_robin>
    module attributes {moe.example = [#alone, #sharded, #spread]} {}
    ```
  }];
  let parameters = (ins
    OptionalParameter<"int64_t", "1">:$tp,
    OptionalParameter<"int64_t", "0">:$tpRank,
    OptionalParameter<"int64_t", "1">:$pcp,
    OptionalParameter<"int64_t", "0">:$pcpRank,
    OptionalParameter<"int64_t", "1">:$dp,
    OptionalParameter<"int64_t", "0">:$dpRank,
    OptionalParameter<"int64_t", "1">:$sp,
    OptionalParameter<"bool">:$ep,
    StringRefParameter<"linear or round_robin", "\"linear\"">:$placement,
    OptionalParameter<"std::optional<int64_t>">:$rank
  );
  let builders = [
    AttrBuilder<(ins "const ::moec::moe::Parallel &":$fields)>
  ];
  let extraClassDeclaration = [{
    Parallel getFields() const;
    /// dp * pcp * tp: the ranks that share the layer.
    int64_t getFlatSize() const { return getTp() * getPcp() * getDp(); }
    /// This process among them.
    int64_t getFlatRank() const;
    /// Experts are spread, and there is more than one rank to spread them over.
    bool usesExpertParallelism() const { return getEp() && getFlatSize() > 1; }
    /// The size and rank by which the intermediate is split.
    int64_t getShardSize() const { return usesExpertParallelism() ? 1 : getFlatSize(); }
    int64_t getShardRank() const { return usesExpertParallelism() ? 0 : getFlatRank(); }
    /// The size and rank by which experts are split.
    int64_t getExpertSize() const { return usesExpertParallelism() ? getFlatSize() : 1; }
    int64_t getExpertRank() const { return usesExpertParallelism() ? getFlatRank() : 0; }
  }];
}

//===----------------------------------------------------------------------===//
// Where and how it runs
//===----------------------------------------------------------------------===//

def Moe_TargetAttr : Moe_FieldsAttr<"Target", "target", [{
    "", "gpu"
  }]> {
  let summary = "an arch, and the GPU that decisions assume";
  let description = [{
    `arch` is what code is compiled for. Code never depends on `gpu`; token
    ranges and schedules may. Without one, the arch row's is assumed.

    ```mlir
    #hopper = #moe.target<sm_90a, gpu = h100_sxm>
    #turing = #moe.target<sm_75>
    module attributes {moe.example = [#hopper, #turing]} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"a row of Architectures.h">:$arch,
    StringRefParameter<"a row of Gpus.h, or empty", "\"\"">:$gpu
  );
  let extraClassDeclaration = [{
    const catalog::Architecture &getArchRow() const;
    /// The named GPU's row, else that of the arch's usual GPU, else null.
    const catalog::Gpu *getGpuRow() const;
  }];
}

def Moe_LayoutAttr : Moe_FieldsAttr<"Layout", "layout", [{
    "interleave", {"gate_up_order", "gate_first"}, {"order", "rows"},
    "tile", "stored", "padded"
  }], [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "how a packed weight is stored";
  let description = [{
    The encoding of a weight's tensor type; the shape stays logical.
    There is one packed copy of each weight, and all kernels read it.

    * `interleave = 8`: gate and up rows alternate in runs of 8: packed rows
      16 b .. 16 b + 7 are gate rows 8 b .., the next 8 the up rows 8 b ..;
    * `gate_up_order`: how gate and up rows stand in the weight as stored
      (`moe.layer` says which orders there are), and in its scales and bias;
    * `order`: `rows` (K contiguous, the default) or `fragment` (the order in
      which threads hold it as an operand), then with the `tile` of
      `[rows, columns]` that is laid out as a unit: `[64, 64]` of codes for
      operands of 16 bits, `[64, 128]` of codes for operands of 8 bits, `[64, 1]`
      of their scales and zero points (templates/moe/math/slabs.cuh);
    * `stored`: of a weight, its scales or zero points that are not packed yet,
      how they are stored (`moe.layer` says which ways there are); then no other
      field but the next;
    * `padded`: the extents of an expert behind which memory has more than the
      shape says, `[rows, columns]` or `[rows]`: gate and up rows that follow each
      other are padded apart.

    ```mlir
    #gate_up = #moe.layout<interleave = 8, gate_up_order = up_first>
    #int4 = #moe.layout<interleave = 8, order = fragment, tile = [64, 64]>
    #checkpoint = #moe.layout<stored = gptq>
    #shard = #moe.layout<stored = rows, padded = [5888, 3072]>
    module attributes {moe.example = [#gate_up, #int4, #checkpoint, #shard]} {}
    ```
  }];
  let parameters = (ins
    OptionalParameter<"int64_t", "0">:$interleave,
    StringRefParameter<"a row of GateUpOrders.h", "\"gate_first\"">:$gateUpOrder,
    StringRefParameter<"rows or fragment", "\"rows\"">:$order,
    OptionalArrayRefParameter<"int64_t">:$tile,
    StringRefParameter<"a row of StoredLayouts.h, or empty", "\"\"">:$stored,
    OptionalArrayRefParameter<"int64_t">:$padded
  );
  let builders = [
    AttrBuilder<(ins "int64_t":$interleave, CArg<"::llvm::StringRef", "\"gate_first\"">:$gateUpOrder), [{
      return $_get($_ctxt, interleave, gateUpOrder, ::llvm::StringRef("rows"),
                   ::llvm::ArrayRef<int64_t>(), ::llvm::StringRef(),
                   ::llvm::ArrayRef<int64_t>());
    }]>
  ];
  let extraClassDeclaration = [{
    /// The layout of a weight before it is packed; `padded` is empty where no
    /// size is padded.
    static LayoutAttr getStored(::mlir::MLIRContext *context, ::llvm::StringRef row,
                                ::llvm::ArrayRef<int64_t> padded);
  }];
}

def Moe_PlanAttr : Moe_Attr<"Plan", "plan"> {
  let summary = "what a launch of a kernel takes";
  let description = [{
    Everything that follows from the kernel, its schedule and the launches beside
    it (`moe-plan-launches`):

    * `grid`: CTAs, as an expression over tokens and rows; of a persistent
      kernel as many as have work, of which a GPU starts those that it holds;
    * `shared_bytes`: dynamic shared memory of a CTA;
    * `early`: rows, tiles or places are read before the launch in front has
      ended, which does not write them;
    * `cursor`: the word of `tile_count` that counts the tiles that persistent CTAs
      have taken;
    * `counts`: column tiles of a row tile are counted as they are stored, for the
      next launch; `awaits`: so many of them are waited for, in place of the end of
      the launch in front;
    * `split_tiles`: a cluster shares the k of a tile where a run has no more tiles;
    * `column_blocks`: CTAs of a token;
    * `label`: the sizes in the name of the entry.

    ```mlir
    #gate_up = #moe.plan<grid = "min(rows, ceildiv(rows, 16) + 128) * 12", shared_bytes = 94784, cursor = 1, counts = true, label = "16x128x64">
    #combine = #moe.plan<grid = "tokens * 4", early = true, column_blocks = 4, label = "1x512">
    module attributes {moe.example = [#gate_up, #combine]} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"expression">:$grid,
    OptionalParameter<"int64_t", "0">:$shared_bytes,
    OptionalParameter<"bool">:$early,
    OptionalParameter<"int64_t", "0">:$cursor,
    OptionalParameter<"bool">:$counts,
    OptionalParameter<"int64_t", "0">:$awaits,
    OptionalParameter<"int64_t", "0">:$split_tiles,
    OptionalParameter<"int64_t", "0">:$column_blocks,
    StringRefParameter<"sizes joined by x", "\"\"">:$label
  );
  let assemblyFormat = "`<` struct(params) `>`";
}

def Moe_RegionAttr : Moe_FieldsAttr<"Region", "region", [{
    Field("").text(), Field("offset").required().text(), Field("bytes").required().text(),
    Field("first").required(), Field("last").required()
  }]> {
  let summary = "where a workspace value lies, and when";
  let description = [{
    The value's name, the offset and size in bytes as expressions over tokens,
    rows, max_tokens and sm_count, and the first and the last launch of the
    variant (inclusive) that need it. Two regions share bytes only if they do
    not share a launch.

    ```mlir
    #t = #moe.region<"t", offset = "0", bytes = "rows * 1536", first = 1, last = 2>
    module attributes {moe.example = #t} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"name of a workspace value">:$value,
    StringRefParameter<"expression">:$offset,
    StringRefParameter<"expression">:$bytes,
    "int64_t":$first,
    "int64_t":$last
  );
}

//===----------------------------------------------------------------------===//
// Why it was decided so
//===----------------------------------------------------------------------===//

def Moe_CandidateAttr : Moe_FieldsAttr<"Candidate", "candidate", [{
    "backend", "engine", "realization", "computed",
    Field("code").text(), Field("reason").text()
  }]> {
  let summary = "a way to compute a layer that was judged";
  let description = [{
    The realization, a word for what it multiplies (`w4a16`: weights of 4 bits,
    activations of 16), the backend and the engine. A stable code and a sentence
    say why it was refused; without them it would serve. No backend: the
    realization is refused whoever would do it.

    ```mlir
    #c = #moe.candidate<backend = grouped, engine = mma_sync, realization = native, computed = w32a32, code = "dtype_not_supported", reason = "engine 'mma_sync' multiplies f16, bf16, not f32">
    module attributes {moe.example = #c} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"of the candidate, or empty", "\"\"">:$backend,
    StringRefParameter<"of the candidate, or empty", "\"\"">:$engine,
    StringRefParameter<"a row of Realizations.h, or empty", "\"\"">:$realization,
    StringRefParameter<"what is multiplied, or empty", "\"\"">:$computed,
    StringRefParameter<"stable, lower case; empty: it serves", "\"\"">:$code,
    StringRefParameter<"a sentence; empty: it serves", "\"\"">:$reason
  );
  let extraClassDeclaration = [{
    bool isRefused() const { return !getCode().empty(); }
  }];
}

def Moe_ChoiceAttr : Moe_FieldsAttr<"Choice", "choice", [{
    Field("option").required(), Field("value").required().text(), {"by", "option"}
  }]> {
  let summary = "what the caller asked of the resolver";
  let description = [{
    An option, its value, and whether an option said it or an environment
    variable, by its name.

    ```mlir
    #c = #moe.choice<option = exclude, value = "gemv,emulated", by = MOEC_EXCLUDE>
    module attributes {moe.example = #c} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"backend, engine, exclude or allow">:$option,
    StringRefParameter<"words with commas between them">:$value,
    StringRefParameter<"option, or a variable", "\"option\"">:$by
  );
}

def Moe_ReportAttr : Moe_FieldsAttr<"Report", "report", [{
    Field("backend").required(), Field("engine").required(), "candidates",
    Field("degraded").text(), {"realization", "native"}, "choices"
  }]> {
  let summary = "what the resolver decided, and why";
  let description = [{
    The winner, every candidate in the order in which they were judged, what the
    choice degraded from (absent: nothing), and what the caller asked for.
    `realization` is a row of Realizations.h (absent: `native`).

    ```mlir
    #r = #moe.report<backend = unfused, engine = simt, candidates = [<backend = grouped, code = "not_requested", reason = "another backend was asked for">], degraded = "mma_sync, since sm_75 has no bf16">
    module attributes {moe.example = #r} {}
    ```
  }];
  let parameters = (ins
    StringRefParameter<"a row of Backends.h">:$backend,
    StringRefParameter<"a row of Engines.h">:$engine,
    OptionalArrayRefParameter<"::moec::moe::CandidateAttr">:$candidates,
    StringRefParameter<"a sentence, or empty", "\"\"">:$degraded,
    StringRefParameter<"a row of Realizations.h", "\"native\"">:$realization,
    OptionalArrayRefParameter<"::moec::moe::ChoiceAttr">:$choices
  );
  let extraClassDeclaration = [{
    /// Why the chosen backend does not take the engine for what is computed;
    /// null where nothing says so.
    CandidateAttr getRefusalOf(::llvm::StringRef engine) const;
    /// The caller's choice by the option; null for none.
    ChoiceAttr getChoice(::llvm::StringRef option) const;
  }];
}

#endif // MOEC_DIALECT_MOEATTRS_TD
