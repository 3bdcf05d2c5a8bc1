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
      the scales (NVFP4's global scale), one per tensor and stored.
    * `second_per_row`: The second scale is per row. A weight stores one per
      output channel; activations with `dynamic` scales compute one per token at
      run time.
    * `scale_rule`: The rule for a dynamic f8E8M0FNU scale. A is the largest
      magnitude of the group, and V and P are the largest value and power of two
      of the element type. `even` is the power of two of A, rounded to the
      element's mantissa, over P. `ceil` is the smallest power of two that is at
      least A / V. `floor` is the power of two of A over P. The default is
      `ceil` for 8-bit elements and `even` otherwise.
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
    /// Returns true if the activations have a stored second scale in addition
    /// to their dynamic scales.
    bool hasStoredSecondScale() const { return getSecondScale() && !getSecondPerRow(); }
    /// Returns true if every few elements of a row share a scale of a type that
    /// tensor cores read.
    bool isOfBlocks() const;
    /// Returns the rule for dynamic power-of-two scales; empty for other
    /// scales.
    ::llvm::StringRef getRule() const;
    /// Returns this descriptor with scales of another group.
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
    /// Returns the scheme of the given name, which the catalog must have.
    static QuantAttr getScheme(::mlir::MLIRContext *context, ::llvm::StringRef name);
    /// Returns the scheme with these descriptors, by its name if it has one.
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
    /// of the two is used.
    bool mayMultiplyCodes() const;
    /// Returns the row of the engine and operands with which realization
    /// 'blocks' can replace 'emulated', or null. The target decides which of
    /// the two is used.
    const ::moec::catalog::BlockPair *getBlockPair() const;
    /// Returns the row of the engine that applies the scales in the tensor
    /// core, if both matmuls have 8-bit operands with power-of-two scales of
    /// 128 elements along K. Returns null otherwise.
    const ::moec::catalog::BlockPair *getPowerGroups() const;
    /// Returns the names of the rows of Realizations.h to try, in order: those
    /// of the scheme, or those that follow from the descriptors.
    ::moec::WordList getRealizations() const;
    /// Returns the scheme with unquantized activations of the given type.
    QuantAttr withPlainActivations(::mlir::Type type) const;
    /// Returns the bit widths of weights and activations, such as "w4a16", for
    /// both matmuls if they differ.
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

    * `groups`, `top_groups`: The numbers of expert groups and of groups kept.
    * `scale`: A factor of the weights.
    * `bias`: A correction bias is added to the scores for the selection. Without
      a bias, the selection compares the logits.
    * `logit_scale`: The scores are computed from logit_scale * logit.
    * `softcap`: The scores are computed from softcap * tanh(logit / softcap),
      with the logit already scaled by `logit_scale`.
    * `epsilon`: The addend of the sum that divides the scores (default: 1e-20).
    * `sinks`: The number of last experts that every token selects, as the last
      of its top_k. Their weights are normalized together with the others.

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
    /// Returns the names of the weights that hold the parameters if each expert
    /// has its own.
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
    * `gate_up_order`: The order of gate and up rows in the weight as stored,
      and in its scales and bias (`moe.layer` lists the orders).
    * `order`: `rows` (K contiguous, the default) or `fragment` (MMA fragment
      order, in which threads load it as an operand). With `fragment`, `tile` is
      the `[rows, columns]` that is laid out as a unit: `[64, 64]` codes for
      16-bit operands, `[64, 128]` codes for 8-bit operands, and `[64, 1]` for
      their scales and zero points (templates/moe/math/slabs.cuh).
    * `stored`: The stored layout of a weight, its scales or zero points that
      are not packed yet (`moe.layer` lists the layouts). No other field except
      `padded` is then allowed.
    * `padded`: The extents of an expert in memory including padding, `[rows,
      columns]` or `[rows]`, if larger than the shape. If all gate rows precede
      or follow all up rows, each of the two is padded separately.

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
    The values that follow from the kernel, its schedule and the neighboring
    launches (computed by `moe-plan-launches`):

    * `grid`: The number of CTAs, as an expression over tokens and rows. For a
      persistent kernel it is the number of CTAs that have work; a run launches
      at most the number that is resident on the GPU.
    * `shared_bytes`: The dynamic shared memory of a CTA, in bytes.
    * `early`: Rows, tiles or positions are read before the predecessor launch
      ends, because that launch does not write them.
    * `cursor`: The index of the word in `tile_count` that counts the tiles that
      persistent CTAs have claimed.
    * `counts`: The kernel counts the column tiles of each row tile as it stores
      them, for the next launch.
    * `awaits`: The number of column tiles per row tile that the kernel waits
      for, instead of waiting for the end of the predecessor launch.
    * `split_tiles`: The number of tiles up to which a cluster splits the K of a
      tile among its CTAs.
    * `column_blocks`: The number of CTAs per token.
    * `label`: The sizes in the entry's name.

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
    The value's name; its offset and size in bytes as expressions over tokens,
    rows, max_tokens and sm_count; and the first and last launch of the variant
    (inclusive) that use it. Two regions may share bytes only if no launch uses
    both.

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
    The realization, the operand widths it multiplies (`w4a16`: 4-bit weights,
    16-bit activations), the backend and the engine. `code` (stable) and
    `reason` (a sentence) state why the candidate was rejected; if both are
    absent, the candidate is usable. Without a backend, the realization is
    rejected for every backend.

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
  let summary = "a choice that the caller made for the resolver";
  let description = [{
    An option, its value, and its origin: `option`, or the name of an
    environment variable.

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
    The chosen backend and engine, all candidates in the order in which they
    were considered, the preferred choice that was not possible (absent: none),
    and the caller's choices. `realization` is a row of Realizations.h (default:
    `native`).

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
    /// Returns the candidate that states why the chosen backend rejects the
    /// engine for the chosen realization, or null.
    CandidateAttr getRefusalOf(::llvm::StringRef engine) const;
    /// Returns the caller's choice for the option, or null.
    ChoiceAttr getChoice(::llvm::StringRef option) const;
  }];
}

#endif // MOEC_DIALECT_MOEATTRS_TD
