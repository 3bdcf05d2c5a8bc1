//===- Passes.td - the passes of the compiler --------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In the order in which they run, one file each: FormKernelsPass is
// FormKernels.cpp. A pass does not do again what has been done, so that a
// module may be printed after any of them and given to the compiler again.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_PASSES_PASSES_TD
#define MOEC_COMPILER_PASSES_PASSES_TD

include "mlir/Pass/PassBase.td"

class Moe_Pass<string name> : Pass<name, "::mlir::ModuleOp"> {
  let dependentDialects = ["::moec::moe::MoeDialect"];
}

// A pass over one program. Programs of several archs are compiled in parallel.
class Moe_ProgramPass<string name> : Pass<name, "::moec::moe::ProgramOp"> {
  let dependentDialects = ["::moec::moe::MoeDialect"];
}

def ResolveParallelPass : Moe_Pass<"moe-resolve-parallel"> {
  let summary = "Write down what of each layer this rank holds";
  let description = [{
    Flattens dp, pcp and tp into one size and rank; splits the intermediate by
    it, or with `ep` the experts, of which the first ranks hold the remainder.
    An intermediate that does not divide into whole runs of rows is split
    unevenly, not padded; `moe.first_column` says where a shard begins. Where
    blocks with a scale are fewer than shards, each shard lies in one. Without
    `ep` rank 0 alone adds the bias b2, since the ranks' outputs are summed.

    A layer may be for several ranks (`ranks`). Their shares have equal sizes, or
    the layer becomes one for each size, `@NAME_share0`, `@NAME_share1` and so on.

    What the caller moves between ranks is written as `moe.communication`: x,
    logits and valid tokens of `gather` ranks come together, outputs are summed
    over `scatter` ranks, of which each keeps its tokens', then over `reduce`
    ranks; or the transport `exchange` does it all. Transports that hand over
    rows per expert make the layer's `activation_format` `batched`.

    Before: `parallel = #moe.parallel<tp = 4, tp_rank = 1>`,
    `intermediate_size = 768`. After: besides `local_begin = 0`,
    `intermediate_size_per_partition = 192`, `local_experts = 128`,
    `w2_bias = false`, `moe.communication = {reduce = 4}`,
    `moe.first_column = 192`.
  }];
}

def InferRoutingPass : Moe_Pass<"moe-infer-routing"> {
  let summary = "Replace routing 'auto' by the method that its flags mean";
  let description = [{
    Importers that know a scoring function and flags, but no method, write
    `#moe.routing<auto, ...>`. The table of this pass finds the method. A method
    that needs a bias then has one, and the layer's factor becomes the
    routing's where it is not the output's.

    Before: `#moe.routing<auto, scoring = softmax, renormalize>`.
    After: `#moe.routing<renormalize_naive>`.
  }];
}

def CheckTargetPass : Moe_Pass<"moe-check-target"> {
  let summary = "Refuse what no backend can do, option by option";
  let description = [{
    Judges options, types, sizes and parameters of each layer, each against a
    table, for every arch asked for and for every program in the module. A
    refusal is an error at the layer with a stable code and a sentence:
    `refused [option_not_supported]: ...`. Nothing is changed.
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
  ListOption<"exclude", "exclude", "std::string", "backends, engines and realizations that are not taken">,
  ListOption<"allow", "allow", "std::string", "realizations that are another layer and may be taken">,
  ListOption<"variables", "variables", "std::string", "options that environment variables say">
];

def ChooseRealizationPass : Moe_Pass<"moe-choose-realization"> {
  let summary = "Choose how each layer is computed, where there are several ways";
  let description = [{
    The first realization of the scheme's row (`Realizations.h`) that each target
    serves, for the shares of all ranks, since a package has one meaning. If no
    target serves any, the last one: `moe-choose-backend` says why. A layer whose scheme has one
    realization, or that has been here, is left alone. `weight_only` is another
    layer: `quant` has activations without scales then, and `stored_quant` what
    the user said.

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
  let summary = "Turn each layer into a program of stages, one for each arch";
  let description = [{
    Adds a `moe.program` with one variant for all token counts: route, count,
    permute, matmul, activate, matmul, combine. The layer stays. An arch that
    has its program already is left alone. Codes of 4-bit floats are multiplied by
    8-bit activations where the layer's realization is `native`.

    Before: `moe.layer @l {...}`.
    After: besides `moe.program @l_sm_90a of @l for #moe.target<sm_90a> ... {...}`.
  }];
  let options = [
    ListOption<"archs", "arch", "std::string", "rows of the architecture table">,
    Option<"gpu", "gpu", "std::string", "\"\"", "a row of the GPU table; empty: the arch's usual one">,
    Option<"maxTokens", "max-tokens", "int64_t", "65536", "the most tokens of a run">
  ];
}

def ChooseWeightLayoutPass : Moe_ProgramPass<"moe-choose-weight-layout"> {
  let summary = "Pack each weight once, for all variants";
  let description = [{
    Decides how kernels read each weight. Gated weights of 8 bits and more
    get their gate and up rows interleaved by 8, so that both lie in one thread
    of an mma; all other weights are read as stored.

    Before: `moe.grouped_matmul ..., %w13`, `moe.activate <silu> %h`.
    After: `%packed = moe.pack %w13 : ... -> tensor<..., #moe.layout<interleave = 8>>`
    outside of the variants, `moe.grouped_matmul ..., %packed`,
    `moe.activate <silu> interleave = 8 %h`.
  }];
}

def ChooseBackendPass : Moe_ProgramPass<"moe-choose-backend"> {
  let summary = "Choose backend and engine of each program, and say why";
  let description = [{
    Before: a program without a report. After: `report #moe.report<...>` with the
    winner and every candidate in its order, refused ones with the reason.
  }];
  let options = Moe_ChoiceOptions;
}

def MakeVariantsPass : Moe_ProgramPass<"moe-make-variants"> {
  let summary = "Clone the stages once for each range of token counts";
  let description = [{
    The ranges follow from r, the mean number of rows of an expert, with limits
    at powers of two. The rules are the engine's (matmul/Engine.h): tiles
    of 16 rows up to r = 8, of 64 up to 48, then of 128; with wgmma of 192 up to
    160, then of 256, both cut evenly (`row_step`).
    No range crosses 128 tokens, up to which one CTA may route and permute. The
    first tokens have a range with `engine "gemv"` where its two kernels fit
    (matmul/Gemv.h), unless an engine was asked for; where they do not, a
    refusal in the report says why. Measured rows of both matmuls that agree on
    the tiles' rows make a range of their own, with `tuned`, which cuts the
    others.

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
  let summary = "Refuse a program that is not what its layer becomes";
  let description = [{
    Before: programs that stood in the input, with a report and variants of
    stages or launches. Each layer is compiled once more for the program's
    target, and what differs is refused where it stands. Schedules may be
    edited: `moe-select-schedule` judges them. The plans of the workspace and of
    launches may be taken away: they are then made again.
  }];
}

def FormKernelsPass : Moe_ProgramPass<"moe-form-kernels"> {
  let summary = "Move the stages that run together into kernels";
  let description = [{
    Before: variants of stages. After: `moe.kernel` ops with the stages as their
    regions, and variants of `moe.launch`. A variant with `engine "gemv"` has two:
    the stages up to the activation, and the rest with a copy of those that
    route, so that neither waits for a launch that does. The intermediate is
    quantized by the kernel of the first matmul where that has all values that
    share a scale; where not, `moe.apart` of the kernel that does says why.
  }];
  let options = [
    Option<"quantizeApart", "quantize-apart", "bool", "false", "gives the quantization of the intermediate a kernel of its own wherever its scales are not given">
  ];
}

def SelectSchedulePass : Moe_ProgramPass<"moe-select-schedule"> {
  let summary = "Write a schedule on each kernel that has none";
  let description = [{
    The engines' good schedules (matmul/Engine.h) say which engine
    serves a matmul: the program's, or another one that its backend admits and
    the report does not refuse. Of that engine a measured schedule is taken if
    there is one for the GPU, the shape and the range, else the table's, else
    the best by the cost model. A schedule that stands in the module is kept
    if it is legal; of a kernel without a grouped matmul one alone is.
    `moe.measured_by` of a kernel names the row that serves it;
    `moe.measured_beside` says for which token counts rows of the same matmul
    were measured where none serves.
  }];
  let options = [
    ListOption<"tuned", "tuned", "std::string", "JSON files of measured schedules, read before those built in">
  ];
}

def PlanWorkspacePass : Moe_ProgramPass<"moe-plan-workspace"> {
  let summary = "Give each workspace value its bytes while it lives";
  let description = [{
    Before: a variant of launches. After: besides its `workspace` size and its
    `regions`; values share bytes only if they share no launch. A plan that
    stands in the module must be the one that would be made.
  }];
}

def MergeKernelsPass : Moe_ProgramPass<"moe-merge-kernels"> {
  let summary = "Keep one of kernels that are equal";
  let description = [{
    Two kernels with equal regions, fields and schedules become one symbol,
    launched by several variants. Where these have their schedules from several
    sources, `moe.sources` of the kernel says each variant's.
  }];
}

def PlanLaunchesPass : Moe_ProgramPass<"moe-plan-launches"> {
  let summary = "Write down what a launch of each kernel takes";
  let description = [{
    Shared memory, the grid, and how a kernel works beside the launches around
    it: what it reads early, which word counts the tiles that persistent CTAs take,
    which column tiles it counts and awaits. A kernel that several variants launch
    does what is right in each.

    Before: `moe.kernel @down kind = grouped_matmul schedule #moe.wgmma_schedule<...>`.
    After: besides `plan #moe.plan<grid = "...", shared_bytes = 192704, cursor = 2, awaits = 12, ...>`.
    A plan that stands in the module must be the one that would be made.
  }];
}

#endif // MOEC_COMPILER_PASSES_PASSES_TD
