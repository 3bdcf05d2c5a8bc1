//===- Passes.td - the passes of the compiler --------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes are listed in the order in which they run. Each has its own file:
// FormKernelsPass is in FormKernels.cpp. A pass keeps results that are already
// in the module. A module that was printed after any pass can therefore be
// compiled further.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PASSES_TD
#define MOEC_COMPILER_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

class Moe_Pass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::moec::moe::MoeDialect"];
}

// A pass on one program. Programs of several archs are compiled in parallel.
class Moe_ProgramPass<string name> : Pass<name, "::moec::moe::ProgramOp"> {
  let dependentDialects = ["::moec::moe::MoeDialect"];
}

def ResolveParallelPass : Moe_Pass<"moe-resolve-parallel"> {
  let summary = "Store the share of each layer that this rank computes";
  let description = [{
    Flattens dp, pcp and tp into one size and one rank. Divides the intermediate
    by this size or, with `ep`, the experts; the first ranks get one of the
    remaining experts each. An intermediate that does not divide into whole runs
    of rows is divided unevenly instead of padded. `moe.first_column` is the
    first column of a shard. If there are fewer scale groups than shards, each
    shard is within one group. Without `ep` only rank 0 adds the bias b2,
    because the outputs of the ranks are summed.

    A layer may be for several ranks (`ranks`). If their shares have different
    sizes, the pass clones the layer for each size, as `@NAME_share0`,
    `@NAME_share1` and so on.

    The attribute `moe.communication` describes what the caller moves between
    ranks. x, logits and valid tokens of `gather` ranks are gathered. Outputs are
    reduce-scattered over `scatter` ranks, each of which keeps its own tokens,
    and then all-reduced over `reduce` ranks. The transport `exchange` may do all
    of this instead. If the transport delivers rows grouped by expert, the
    layer's `activation_format` becomes `batched`.

    Before: `parallel = #moe.parallel<tp = 4, tp_rank = 1>`,
    `intermediate_size = 768`. After: besides `local_begin = 0`,
    `intermediate_size_per_partition = 192`, `local_experts = 128`,
    `w2_bias = false`, `moe.communication = {reduce = 4}`,
    `moe.first_column = 192`.
  }];
}

def InferRoutingPass : Moe_Pass<"moe-infer-routing"> {
  let summary = "Replace routing 'auto' by the method that its flags specify";
  let description = [{
    Importers that read a scoring function and flags, but no method, write
    `#moe.routing<auto, ...>`. The table of this pass maps them to a method. If
    the method needs a bias, the pass adds one. The layer's scaling factor moves
    to the routing unless it applies to the output.

    Before: `#moe.routing<auto, scoring = softmax, renormalize>`.
    After: `#moe.routing<renormalize_naive>`.
  }];
}

def CheckTargetPass : Moe_Pass<"moe-check-target"> {
  let summary = "Reject layers that no backend supports";
  let description = [{
    Checks the options, types, sizes and parameters of each layer against tables,
    for every requested arch and for every program in the module. A layer is
    rejected by an error at its op with a stable code and a sentence:
    `refused [option_not_supported]: ...`. The pass changes nothing.
  }];
  let options = [
    ListOption<"archs", "arch", "std::string", "rows of the architecture table">,
    Option<"gpu", "gpu", "std::string", "\"\"", "a row of the GPU table; empty: the arch's usual one">
  ];
}

// The members of Choices (compiler/plan/Choices.h).
defvar Moe_ChoiceOptions = [
  Option<"backend", "backend", "std::string", "\"\"", "forces a row of the backend table">,
  Option<"engine", "engine", "std::string", "\"\"", "forces a row of the engine table">,
  ListOption<"exclude", "exclude", "std::string", "backends, engines and realizations that are not used">,
  ListOption<"allow", "allow", "std::string", "realizations that are another layer and may be taken">,
  ListOption<"variables", "variables", "std::string", "options that environment variables say">
];

def ChooseRealizationPass : Moe_Pass<"moe-choose-realization"> {
  let summary = "Choose the realization of each layer";
  let description = [{
    A realization is a way to compute a quantization scheme
    (`dialect/catalog/Realizations.h`). The pass chooses the first realization of
    the scheme that all targets support for the shares of all ranks, because all
    targets and ranks must compute the same layer. If there is none, it chooses
    the last one, and `moe-choose-backend` reports the reasons. Layers whose
    scheme has only one realization, or that already have a realization, are not
    changed. `weight_only` computes a different layer: `quant` then has
    activations without scales, and `stored_quant` has the user's scheme.

    Before: `moe.layer @l {..., quant = #moe.quant<nvfp4>}`.
    After: besides `realization = emulated`; or with allow=weight_only
    `quant = #moe.quant<nvfp4_w4a16>, realization = weight_only,
    stored_quant = #moe.quant<nvfp4>`.
  }];
  let options = !listconcat([
    ListOption<"archs", "arch", "std::string", "rows of the architecture table">,
    Option<"gpu", "gpu", "std::string", "\"\"", "a row of the GPU table; empty: the arch's usual one">
  ], Moe_ChoiceOptions);
}

def DecomposeLayerPass : Moe_Pass<"moe-decompose-layer"> {
  let summary = "Build a program of stages for each layer and arch";
  let description = [{
    Adds a `moe.program` with one variant for all token counts: route, count,
    permute, matmul, activate, matmul, combine. The layer is kept. Archs that
    already have a program are skipped. If the layer's realization is `native`,
    codes (quantized values) of 4-bit floats are multiplied by 8-bit activations.

    Before: `moe.layer @l {...}`.
    After: besides `moe.program @l_sm_90a of @l for #moe.target<sm_90a> ... {...}`.
  }];
  let options = [
    ListOption<"archs", "arch", "std::string", "rows of the architecture table">,
    Option<"gpu", "gpu", "std::string", "\"\"", "a row of the GPU table; empty: the arch's usual one">,
    Option<"maxTokens", "max-tokens", "int64_t", "65536", "the maximum number of tokens of a run">
  ];
}

def ChooseWeightLayoutPass : Moe_ProgramPass<"moe-choose-weight-layout"> {
  let summary = "Pack each weight once, for all variants";
  let description = [{
    Chooses the layout in which kernels read each weight. Gate and up rows of
    gated weights are interleaved by 8, so that one thread of an MMA has both.
    Engines that read MMA fragment order get weights, scales and zero points in
    that order. Stored layouts other than rows are converted, columns are sorted
    by their group index, and scales are replicated if they cover more rows or
    columns than kernels expect. All other weights are read as stored in the
    checkpoint.

    Before: `moe.grouped_matmul ..., %w13`, `moe.activate <silu> %h`.
    After: `%packed = moe.pack %w13 : ... -> tensor<..., #moe.layout<interleave = 8>>`
    outside of the variants, `moe.grouped_matmul ..., %packed`,
    `moe.activate <silu> interleave = 8 %h`.
  }];
}

def ChooseBackendPass : Moe_ProgramPass<"moe-choose-backend"> {
  let summary = "Choose and report backend and engine of each program";
  let description = [{
    Before: a program without a report. After: `report #moe.report<...>` with the
    chosen backend and engine, and with every candidate in order. For a rejected
    candidate, the report has the reason.
  }];
  let options = Moe_ChoiceOptions;
}

def MakeVariantsPass : Moe_ProgramPass<"moe-make-variants"> {
  let summary = "Clone the stages once for each range of token counts";
  let description = [{
    The ranges follow from r, the mean number of rows per expert, and end at
    powers of two. The engine defines the rules (compiler/matmul/Engine.h). For
    mma_sync, tiles have 16 rows up to r = 8, 64 rows up to r = 48, and 128 rows
    above. For wgmma with 16-bit operands, tiles have 64 rows up to r = 8, 192
    rows up to r = 160, and 256 rows above. Tiles of 192 and 256 rows divide an
    expert's rows evenly (`row_step`).

    No range crosses 128 tokens, up to which one CTA may route and permute. The
    smallest token counts have a range with `engine "gemv"` if its two few-token
    kernels fit (compiler/matmul/Gemv.h) and the user requested no engine. If
    they do not fit, the report has the reason. If both matmuls were measured
    with the same tile rows, the measured token counts define a range with
    `tuned`, which replaces that part of the other ranges.

    Before: `moe.variant @all tokens [1, 65536]` with `tile_rows = 0`.
    After: `moe.variant @up_to_128 tokens [1, 128]` with `tile_rows = 16`, and so
    on.
  }];
  let options = [
    ListOption<"tuned", "tuned", "std::string", "JSON files of measured schedules, read before those built in">,
    ListOption<"ranges", "ranges", "std::string", "FIRST-LAST-ROWS-STEP of ranges that are tuned, in place of those of the files">
  ];
}

def CheckProgramPass : Moe_Pass<"moe-check-program"> {
  let summary = "Reject an input program that does not match its layer";
  let description = [{
    Checks programs of the input, which have a report and variants of stages or
    launches. The pass compiles each layer again for the program's target and
    emits an error at every op that differs. Schedules may be edited:
    `moe-select-schedule` checks them. Plans of the workspace and of launches may
    be removed: later passes then make them again.
  }];
}

def FormKernelsPass : Moe_ProgramPass<"moe-form-kernels"> {
  let summary = "Group stages into kernels";
  let description = [{
    Before: variants of stages. After: `moe.kernel` ops with the stages as their
    regions, and variants of `moe.launch`. A variant with `engine "gemv"` has two
    kernels: one with the stages up to the activation, and one with the remaining
    stages. Both have the routing stages, so that neither waits for a launch that
    routes. The kernel of the first matmul quantizes the intermediate if a CTA
    has all values that share a scale. Otherwise another kernel does, and its
    attribute `moe.apart` has the reason.
  }];
  let options = [
    Option<"quantizeApart", "quantize-apart", "bool", "false", "gives the quantization of the intermediate a kernel of its own wherever its scales are not given">
  ];
}

def SelectSchedulePass : Moe_ProgramPass<"moe-select-schedule"> {
  let summary = "Select a schedule for each kernel that has none";
  let description = [{
    A matmul may use the program's engine, or another engine that the backend
    supports and the report does not reject. A measured schedule for the GPU, the
    shape and the token range has precedence. Next is the first legal schedule
    that these engines list as good (compiler/matmul/Engine.h), and last the best
    schedule by the cost model. A schedule in the module is kept if it is legal.
    Kernels without a grouped matmul have exactly one legal schedule. The
    attribute `moe.measured_by` of a kernel names the measured row that provides
    its schedule. If there is none, `moe.measured_beside` has the token counts
    for which the same matmul was measured.
  }];
  let options = [
    ListOption<"tuned", "tuned", "std::string", "JSON files of measured schedules, read before those built in">
  ];
}

def PlanWorkspacePass : Moe_ProgramPass<"moe-plan-workspace"> {
  let summary = "Assign workspace memory by lifetime";
  let description = [{
    Before: a variant of launches. After: the variant also has its `workspace`
    size and its `regions`. Values share bytes only if their lifetimes do not
    overlap. A plan in the module must equal the plan that this pass would make.
  }];
}

def MergeKernelsPass : Moe_ProgramPass<"moe-merge-kernels"> {
  let summary = "Merge equal kernels";
  let description = [{
    Kernels with equal regions, fields and schedules are merged into one symbol,
    which several variants launch. If the schedules came from different sources,
    the kernel's attribute `moe.sources` has the source for each variant.
  }];
}

def PlanLaunchesPass : Moe_ProgramPass<"moe-plan-launches"> {
  let summary = "Plan the launches of each kernel";
  let description = [{
    Decides shared memory, the grid, and how a kernel overlaps with adjacent
    launches: what it reads before the predecessor launch ends, which word counts
    the tiles that persistent CTAs have claimed, and which column tiles it counts
    and waits for. If several variants launch a kernel, its plan is correct in
    all of them.

    Before: `moe.kernel @down kind = grouped_matmul schedule #moe.wgmma_schedule<...>`.
    After: besides `plan #moe.plan<grid = "...", shared_bytes = 192704, cursor = 2, awaits = 12, ...>`.
    A plan in the module must equal the plan that this pass would make.
  }];
}

#endif // MOEC_COMPILER_PASSES_PASSES_TD
