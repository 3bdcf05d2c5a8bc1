//===- MoeAttrs.td - attributes of the moe dialect ---------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes for quantization, routing, activation, parallelism, target, weight
// layout, launch plan and report. Parameters that name a catalog row are
// printed as bare words; an unknown name is an error that lists the known
// names. MoeAttrs.cpp has the parsers and printers.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEATTRS_TD
#define MOEC_DIALECT_MOEATTRS_TD

include "dialect/MoeDialect.td"
include "dialect/MoeSchedules.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

// An attribute with a verifier and a parser whose errors name the fields.
class Moe_VerifiedAttr<string name, string attrMnemonic, list<Trait> traits = []>
    : Moe_Attr<name, attrMnemonic, traits> {
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

// An attribute whose parameters are fields, each with one row in
// FieldParser.h's format.
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
// Quantization, routing, activation and parallelism
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
  let summary = "the element type and scales of one matmul operand";
  let description = [{
    The element type, and how elements are scaled:

    * `group`: The block `[rows, columns]` of elements that share a scale; -1 is
      the whole extent. `[-1, -1]` is per tensor, `[1, -1]` per token or output
      channel, `[128, 128]` per block, and `[1, 32]` per group of 32 along K.
    * `scale`: The element type of the scale; present if and only if `group` is.
    * `dynamic`: The scale is computed from the values at run time.
    * `second_scale`: The element type of a second-level scale that multiplies
      the scales (NVFP4's global scale). The layer's weights include one second
      scale per tensor.
    * `second_per_row`: There is one second scale per row. A weight's second
      scales, one per output channel, are stored with the weight. Activations
      with `dynamic` scales compute one second scale per token at run time.
    * `scale_rule`: The rule for a dynamic f8E8M0FNU scale. A is the group's
      largest magnitude, V the largest value of the element type, and P the
      largest power of two that the element type represents. `even` rounds A to
      the element type's mantissa width; the scale is then 2^floor(log2(A)) / P.
      `ceil` is the smallest power of two that is at least A / V. `floor` is
      2^floor(log2(A)) / P without rounding A. The default is `ceil` for 8-bit
      elements and `even` otherwise.
    * `zero_point`: The element type of the zero point, for integer elements.

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
    /// Returns true if the operand has no scales.
    bool isPlain() const { return !getScale(); }
    /// Returns true if one scale applies to the whole tensor.
    bool isOfTensor() const { return !isPlain() && getGroup()[0] == -1 && getGroup()[1] == -1; }
    /// Returns true if the layer's weights include a second scale for these
    /// activations, in addition to the dynamic scales.
    bool hasStoredSecondScale() const { return getSecondScale() && !getSecondPerRow(); }
    /// Returns true if each 16 or 32 elements of a row share a scale of type
    /// f8E8M0FNU or f8E4M3FN, which tensor cores can apply.
    bool isOfBlocks() const;
    /// Returns the rule for dynamic power-of-two scales, or "" for other
    /// scales.
    ::llvm::StringRef getRule() const;
    /// Returns a copy of this descriptor with another scale group.
    DescriptorAttr withGroup(::llvm::ArrayRef<int64_t> group) const;
    /// Returns the element type in which kernels read a scale: f32 for
    /// power-of-two scales, else the scale's own type.
    ::mlir::Type getScaleAsRead() const;
  }];
}

def Moe_QuantAttr : Moe_VerifiedAttr<"Quant", "quant"> {
  let summary = "the quantization scheme of a layer";
  let description = [{
    The name of a scheme, or its four descriptors: `a1` and `a2` describe the
    activations of the two matmuls, and `w1` and `w2` their weights. Four
    descriptors that match a named scheme are replaced by its name.

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
    /// Returns the scheme of the given name, or null if the catalog does not
    /// have it.
    static QuantAttr getScheme(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// Returns the scheme with these descriptors: the catalog's named scheme if
    /// one matches, otherwise a scheme without a name.
    static QuantAttr getSpelled(::mlir::MLIRContext *context, DescriptorAttr a1,
                                DescriptorAttr a2, DescriptorAttr w1, DescriptorAttr w2);
    /// Returns the name of the catalog row; empty if the scheme is spelled out.
    ::llvm::StringRef getScheme() const { return getName(); }
    /// Returns how the layer's first or second matmul multiplies its operands.
    Realization getRealization(bool first) const;
    /// Returns true if weights are converted to 16-bit values before they are
    /// multiplied.
    bool dequantizesWeights() const;
    /// Returns true if both matmuls multiply 8-bit elements and the scales
    /// multiply the accumulators.
    bool multipliesBytes() const;
    /// Returns true if 4-bit codes (quantized values) are converted exactly to
    /// the activations' 8-bit element type, and the scales multiply the
    /// accumulators.
    bool multipliesCodes() const;
    /// Returns true if realization 'codes' can replace 'emulated', because the
    /// activations' e4m3 represents each code exactly. The target decides which
    /// of the two realizations is used.
    bool mayMultiplyCodes() const;
    /// Returns the catalog row (operand types and engines) with which
    /// realization 'blocks' can replace 'emulated', or null. The target decides
    /// which of the two realizations is used.
    const ::moec::catalog::BlockPair *getBlockPair() const;
    /// Returns the catalog row with the engines that apply the scales in the
    /// tensor core, or null. Both matmuls must have 8-bit operands with one
    /// power-of-two scale per 128 elements along K.
    const ::moec::catalog::BlockPair *getPowerGroups() const;
    /// Returns the names of the realizations to try, in order (rows of
    /// dialect/catalog/Realizations.h). A named scheme lists them; for another
    /// scheme they follow from the descriptors.
    ::moec::WordList getRealizations() const;
    /// Returns the scheme with unquantized activations of the given type.
    QuantAttr withPlainActivations(::mlir::Type type) const;
    /// Returns the bit widths of weights and activations, such as "w4a16". If
    /// the two matmuls differ, returns the widths of each, joined by '_'.
    std::string getBits() const;
  }];
}

def Moe_RoutingAttr : Moe_FieldsAttr<"Routing", "routing", [{
    "", "scoring", "renormalize", "groups", "top_groups", "scale", "bias", "softcap", "logit_scale", "epsilon", "sinks"
  }]> {
  let summary = "the method that selects and weights experts";
  let description = [{
    The name of a routing method, whose catalog row specifies its score,
    selection and normalization, and the method's optional parameters:

    * `groups`, `top_groups`: The number of expert groups, and the number of
      groups that the selection keeps per token.
    * `scale`: A factor of the weights.
    * `bias`: A correction bias is added to the scores for the selection. Without
      a bias, the selection compares the logits.
    * `logit_scale`: The scores are computed from logit_scale * logit.
    * `softcap`: The scores are computed from softcap * tanh(logit / softcap),
      with the logit already scaled by `logit_scale`.
    * `epsilon`: A value that is added to the sum of scores by which
      normalization divides (default: 1e-20).
    * `sinks`: Every token selects the last `sinks` experts, as the last of its
      top_k. Their weights are normalized together with the weights of the other
      selected experts.

    An importer that finds a scoring function and flags but no method name
    writes `auto` with `scoring` (softmax, sigmoid, sqrtsoftplus) and
    `renormalize`; `moe-infer-routing` infers the method.

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
    /// Returns true if the method cannot select experts itself and needs ids
    /// from the caller.
    bool takesGivenIdsAlone() const;
  }];
}

def Moe_ActivationAttr : Moe_FieldsAttr<"Activation", "activation", [{
    "", "alpha", "beta", "linear_beta", "limit", "per_expert"
  }]> {
  let summary = "the activation between the two matmuls";
  let description = [{
    The name of an activation, whose catalog row specifies the function, whether
    it is gated and which parameters it has. An absent parameter has the row's
    default, which is not zero: without a limit values are not clamped. With
    `per_expert` each expert has its own parameters, which are weights of the
    layer.

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
    /// Returns true if the first matmul computes two halves, gate and up.
    bool isGated() const;
    /// Returns true if the function needs many registers, as erf and two tanh
    /// calls do.
    bool takesManyRegisters() const;
    /// Returns the parameters, with the row's defaults for absent ones.
    ::moec::catalog::ActivationNumbers getNumbers() const;
    /// Returns the names of the layer weights that hold the activation
    /// parameters of each expert; empty without `per_expert`.
    ::llvm::SmallVector<::llvm::StringRef> getNumbersOfExperts() const;
  }];
}

def Moe_ParallelAttr : Moe_FieldsAttr<"Parallel", "parallel", [{
    {"tp", 1}, "tp_rank", {"pcp", 1}, "pcp_rank", {"dp", 1},
    "dp_rank", {"sp", 1}, "ep", {"placement", "linear"}, "rank"
  }]> {
  let summary = "how the layer is distributed over ranks";
  let description = [{
    The sizes of tensor (`tp`), prefill-context (`pcp`), data (`dp`) and
    sequence (`sp`) parallelism with this process's ranks (default: size 1, rank
    0). `ep` enables expert parallelism, and `placement` assigns experts to
    ranks: `linear` or `round_robin`. `rank` specifies the flattened rank,
    `(dp_rank * pcp + pcp_rank) * tp + tp_rank`, instead of the three ranks.
    `moe-resolve-parallel` computes what this rank holds.

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
    /// Returns dp * pcp * tp, the number of ranks that share the layer.
    int64_t getFlatSize() const { return getTp() * getPcp() * getDp(); }
    /// Returns the flattened rank of this process.
    int64_t getFlatRank() const;
    /// Returns true if experts are distributed over more than one rank.
    bool usesExpertParallelism() const { return getEp() && getFlatSize() > 1; }
    /// Returns the number of shards of the intermediate dimension.
    int64_t getShardSize() const { return usesExpertParallelism() ? 1 : getFlatSize(); }
    /// Returns the index of this rank's shard of the intermediate dimension.
    int64_t getShardRank() const { return usesExpertParallelism() ? 0 : getFlatRank(); }
    /// Returns the number of ranks that experts are distributed over.
    int64_t getExpertSize() const { return usesExpertParallelism() ? getFlatSize() : 1; }
    /// Returns this rank's index among the ranks that hold experts.
    int64_t getExpertRank() const { return usesExpertParallelism() ? getFlatRank() : 0; }
  }];
}

//===----------------------------------------------------------------------===//
// Target, layout, plan and workspace
//===----------------------------------------------------------------------===//

def Moe_TargetAttr : Moe_FieldsAttr<"Target", "target", [{
    "", "gpu"
  }]> {
  let summary = "an arch, and the GPU that decisions assume";
  let description = [{
    `arch` is the architecture that code is compiled for. Code never depends on
    `gpu`; token ranges and schedules may. Without `gpu`, the default GPU of the
    arch's row is assumed.

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
    /// Returns the row of the named GPU, or of the arch's default GPU, or null.
    const catalog::Gpu *getGpuRow() const;
  }];
}

def Moe_LayoutAttr : Moe_FieldsAttr<"Layout", "layout", [{
    "interleave", {"gate_up_order", "gate_first"}, {"order", "rows"},
    "tile", "stored", "padded"
  }], [
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the memory layout of a weight";
  let description = [{
    The encoding of a weight's tensor type; the shape stays logical. There is
    one packed copy of each weight, and all kernels read it.

    * `interleave = 8`: Gate and up rows alternate in runs of 8: packed rows
      16b to 16b + 7 are gate rows 8b to 8b + 7, followed by the same up rows.
    * `gate_up_order`: The order of gate and up rows in the checkpoint's weight,
      and in its scales and bias (`moe.layer` lists the orders).
    * `order`: `rows` (K contiguous, the default) or `fragment` (MMA fragment
      order, in which threads load an operand directly into registers). With
      `fragment`, `tile` is the `[rows, columns]` that is stored contiguously:
      `[64, 64]` codes (quantized values) for 16-bit operands, `[64, 128]` codes
      for 8-bit operands, and `[64, 1]` for scales and zero points
      (templates/moe/math/slabs.cuh). `[128, 4]` is for scales that MMAs read
      from tensor memory (templates/moe/math/scale_atoms.cuh).
    * `stored`: The checkpoint layout of a weight, or of its scales or zero
      points, before packing (`moe.layer` lists the layouts). No other field
      except `padded` is then allowed.
    * `padded`: An expert's extents in memory including padding, `[rows,
      columns]` or `[rows]`, if larger than the shape. If all gate rows precede
      or follow all up rows, the gate rows and the up rows are padded
      separately.

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
    /// Returns the layout of a weight before it is packed. `padded` is empty if
    /// no dimension is padded.
    static LayoutAttr getStored(::mlir::MLIRContext *context, ::llvm::StringRef row,
                                ::llvm::ArrayRef<int64_t> padded);
  }];
}

def Moe_PlanAttr : Moe_Attr<"Plan", "plan"> {
  let summary = "the launch plan of a kernel";
  let description = [{
    A launch plan has the values that follow from the kernel, its schedule and
    the neighboring launches (computed by `moe-plan-launches`):

    * `grid`: The number of CTAs, as an expression over tokens and rows. For a
      persistent kernel it is the number of CTAs that have work; a run launches
      at most the number that is resident on the GPU.
    * `shared_bytes`: The dynamic shared memory of a CTA, in bytes.
    * `early`: The kernel reads rows, tiles or positions before its predecessor
      launch ends, because that launch does not write them.
    * `cursor`: The index of the word in `tile_count` that counts the tiles that
      persistent CTAs have claimed.
    * `counts`: For each row tile, the kernel counts the column tiles that it
      has stored. The next launch waits for these counts.
    * `awaits`: The number of column tiles per row tile that the kernel waits
      for, instead of waiting for the end of the predecessor launch.
    * `split_tiles`: The largest number of tiles for which a cluster splits a
      tile's K dimension among its CTAs.
    * `column_blocks`: The number of CTAs per token, each of which computes one
      block of columns.
    * `label`: The sizes in the kernel's entry name.

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
  let summary = "the location and lifetime of a workspace value";
  let description = [{
    A region has the value's name; its offset and size in bytes as expressions
    over tokens, rows, max_tokens and sm_count; and the first and last launch of
    the variant (inclusive) that use the value. Two regions may share bytes only
    if no launch uses both.

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
// Decisions of the resolver
//===----------------------------------------------------------------------===//

def Moe_CandidateAttr : Moe_FieldsAttr<"Candidate", "candidate", [{
    "backend", "engine", "realization", "computed",
    Field("code").text(), Field("reason").text()
  }]> {
  let summary = "a way to compute a layer that the resolver considered";
  let description = [{
    A candidate has the realization, the operand widths that it multiplies
    (`w4a16`: 4-bit weights, 16-bit activations), the backend and the engine.
    `code` (stable) and `reason` (a sentence) state why the candidate was
    rejected; if both are absent, the candidate is usable. Without a backend,
    the realization is rejected for every backend.

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
    StringRefParameter<"stable, lower case; empty if the candidate is supported", "\"\"">:$code,
    StringRefParameter<"a sentence; empty if the candidate is supported", "\"\"">:$reason
  );
  let extraClassDeclaration = [{
    bool isRefused() const { return !getCode().empty(); }
  }];
}

def Moe_ChoiceAttr : Moe_FieldsAttr<"Choice", "choice", [{
    Field("option").required(), Field("value").required().text(), {"by", "option"}
  }]> {
  let summary = "a choice that the caller made for the resolver";
  let description = [{
    A choice has an option, its value, and its origin: `option`, or the name of
    an environment variable.

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
  let summary = "the resolver's decision and its reasons";
  let description = [{
    The report has the chosen backend and engine, all candidates in the order in
    which the resolver considered them, the preferred choice that was not
    possible (absent: none), and the caller's choices. `realization` is a row of
    Realizations.h (default: `native`).

    ```mlir
    #r = #moe.report<backend = unfused, engine = simt, candidates = [<backend = grouped, code = "not_requested", reason = "another backend was requested">], degraded = "mma_sync, since sm_75 has no bf16">
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
    /// Returns the candidate that states why the chosen backend rejects the
    /// engine for the chosen realization, or null.
    CandidateAttr getRefusalOf(::llvm::StringRef engine) const;
    /// Returns the caller's choice for the option, or null.
    ChoiceAttr getChoice(::llvm::StringRef option) const;
  }];
}

#endif // MOEC_DIALECT_MOEATTRS_TD
