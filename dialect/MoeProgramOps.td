//===- MoeProgramOps.td - programs, variants, kernels and launches --*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The ops that hold stages (level 2), and the ops that stages become (level 3).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOEPROGRAMOPS_TD
#define MOEC_DIALECT_MOEPROGRAMOPS_TD

include "dialect/MoeAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Moe_RegionArrayAttr : TypedArrayAttrBase<Moe_RegionAttr, "array of regions">;

def Moe_ProgramOp : Moe_Op<"program", [
    Symbol, SymbolTable, IsolatedFromAbove, SingleBlock, NoTerminator,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a layer for a target: packing, variants and kernels";
  let description = [{
    The region's arguments are the layer's tensors, with the names in `inputs`.
    The region holds the packing of weights, the variants and, once they are
    formed, the kernels. The variants have ascending token ranges that cover 1
    to `max_tokens` without a gap. In addition there may be variants that only
    some GPUs run. No pass after `moe-decompose-layer` reads the layer op, so
    the program repeats what those passes need:

    * `scheme` is the name of the layer's scheme, if it has a name.
    * With `batch_invariant`, a token's result must not depend on the batch.
    * `part` is the part of the layer that is compiled (default: all). A part
      has no matmul, and therefore no backend and no report.

    ```mlir
    moe.layer @tiny {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32,
      in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, quant = #moe.quant<f32>,
      routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>,
      intermediate_size_per_partition = 32, local_begin = 0, local_experts = 4, w2_bias = true}
    moe.program @tiny_sm_80 of @tiny for #moe.target<sm_80> max_tokens 64 inputs ["x", "logits", "w13", "w2"] {
    ^bb0(%x: tensor<?x64xf32>, %logits: tensor<?x4xf32>, %w13: tensor<4x32x64xf32>, %w2: tensor<4x64x32xf32>):
      moe.variant @all tokens [1, 64] {
        %ids, %weights = moe.route <default> top_k = 2 %logits : (tensor<?x4xf32>) -> (tensor<?x2xi32>, tensor<?x2xf32>)
        %counts = moe.count experts = 4 block_tokens = 64 %ids : (tensor<?x2xi32>) -> tensor<?x4xi32>
        %rows, %positions, %offsets, %tiles, %tile_count, %expert_counts = moe.permute experts = 4 tile_rows = 16 block_tokens = 64 %ids, %counts
            : (tensor<?x2xi32>, tensor<?x4xi32>) -> (tensor<?xi32>, tensor<?x2xi32>, tensor<5xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4xi32>)
        %h = moe.grouped_matmul pairs = 2 %x gather %rows tiles (%tiles, %tile_count), %w13
            : (tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x32x64xf32>) -> tensor<?x32xf32>
        %t = moe.activate <silu_no_mul> %h : (tensor<?x32xf32>) -> tensor<?x32xf32>
        %y = moe.grouped_matmul %t tiles (%tiles, %tile_count), %w2
            : (tensor<?x32xf32>, tensor<?x4xi32>, tensor<3xi32>, tensor<4x64x32xf32>) -> tensor<?x64xf32>
        %out = moe.combine %y, %positions, %weights : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xf32>
        moe.return %out outputs ["out"] optional %ids, %weights, %expert_counts as ["ids", "weights", "counts"]
            : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>, tensor<4xi32>) -> ()
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    FlatSymbolRefAttr:$layer,
    Moe_TargetAttr:$target,
    Moe_IntAttr:$max_tokens,
    OptionalAttr<StrAttr>:$scheme,
    UnitAttr:$batch_invariant,
    OptionalAttr<StrAttr>:$part,
    StrArrayAttr:$inputs,
    OptionalAttr<Moe_ReportAttr>:$report
  );
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `of` $layer `for` qualified($target) `max_tokens` $max_tokens
    (`scheme` $scheme^)? (`batch_invariant` $batch_invariant^)?
    (`part` $part^)? `inputs` $inputs (`report` qualified($report)^)? attr-dict-with-keyword custom<IsolatedBody>($body)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the region argument for the input of the given name, or null.
    ::mlir::BlockArgument getInput(::llvm::StringRef name);
    LayerOp getLayerOp();
    /// Returns true if the program multiplies by a weight of the experts.
    bool hasMatmul();
    /// Returns true if the backend of the program's matmuls is chosen, or if
    /// the program has no matmul.
    bool isResolved() { return getReport() || !hasMatmul(); }
  }];
}

def Moe_VariantOp : Moe_Op<"variant", [
    Symbol, HasParent<"ProgramOp">, SingleBlock, NoRegionArguments]> {
  let summary = "the program for a range of token counts";
  let description = [{
    A variant handles the token counts `tokens [min, max]`, both inclusive. The
    region holds stages or launches and ends in `moe.return`. `moe.program`
    shows an example.

    * `regions` and `workspace_bytes` are the workspace plan.
    * `engine` is present if it differs from the program's engine: `gemv` for
      few tokens, with two kernels.
    * `multiprocessors` is the minimum number of SMs that a GPU needs to run
      this variant. The variant's second matmul and combine are one kernel whose
      CTAs must be co-resident. Such a variant precedes the variants that other
      GPUs run instead.
    * `tuned` marks a variant whose token range comes from measured schedules.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    Moe_IntAttr:$min_tokens,
    Moe_IntAttr:$max_tokens,
    OptionalAttr<StrAttr>:$engine,
    OptionalAttr<Moe_IntAttr>:$multiprocessors,
    UnitAttr:$tuned,
    OptionalAttr<Moe_RegionArrayAttr>:$regions,
    OptionalAttr<StrAttr>:$workspace_bytes
  );
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `tokens` `[` $min_tokens `,` $max_tokens `]` (`engine` $engine^)?
    (`multiprocessors` $multiprocessors^)? (`tuned` $tuned^)? (`workspace` $workspace_bytes^)? (`regions` $regions^)? attr-dict-with-keyword custom<Body>($body)
  }];
  let hasVerifier = 1;
}

def Moe_ReturnOp : Moe_Op<"return", [Terminator, HasParent<"VariantOp">, AttrSizedOperandSegments]> {
  let summary = "the outputs of a variant";
  let description = [{
    Returns each output with its name, and the optional outputs, which are
    written only if the caller requests them. `moe.program` shows an example.
  }];
  let arguments = (ins
    StrArrayAttr:$output_names,
    OptionalAttr<StrArrayAttr>:$optional_names,
    Variadic<AnyRankedTensor>:$outputs,
    Variadic<AnyRankedTensor>:$optional_outputs
  );
  let assemblyFormat = [{
    $outputs `outputs` $output_names (`optional` $optional_outputs^ `as` $optional_names)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def Moe_KernelOp : Moe_Op<"kernel", [
    Symbol, IsolatedFromAbove, SingleBlock, HasParent<"ProgramOp">,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a kernel that fuses stages";
  let description = [{
    The region holds the stages that the kernel computes; its `kind`, a row of
    Kernels.h, specifies which stages it may hold. The names of the region's
    arguments are `fields`, which are also the field names of the kernel's
    argument block. `results` names the values that the kernel yields. `plan` is
    the launch plan. Several variants may launch one kernel.

    ```mlir
    moe.layer @tiny {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32,
      in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, quant = #moe.quant<f32>,
      routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>}
    moe.program @tiny_sm_80 of @tiny for #moe.target<sm_80> max_tokens 64 inputs ["y", "positions", "weights"] {
    ^bb0(%y: tensor<?x64xf32>, %positions: tensor<?x2xi32>, %weights: tensor<?x2xf32>):
      moe.kernel @combine kind = combine schedule #moe.combine_schedule<columns = 64, threads = 128>
        plan #moe.plan<grid = "tokens", column_blocks = 1, label = "1x64"> fields ["partials", "positions", "topk_weights"] results ["out"] {
      ^bb0(%partials: tensor<?x64xf32>, %p: tensor<?x2xi32>, %w: tensor<?x2xf32>):
        %0 = moe.combine %partials, %p, %w : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xf32>
        moe.yield %0 : tensor<?x64xf32>
      }
      moe.variant @all tokens [1, 64] {
        %out = moe.launch @combine(%y, %positions, %weights) results ["out"] : (tensor<?x64xf32>, tensor<?x2xi32>, tensor<?x2xf32>) -> tensor<?x64xf32>
        moe.return %out outputs ["out"] : (tensor<?x64xf32>) -> ()
      }
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    StrAttr:$kind,
    OptionalAttr<Moe_ScheduleAttr>:$schedule,
    OptionalAttr<Moe_PlanAttr>:$plan,
    StrArrayAttr:$fields,
    OptionalAttr<StrArrayAttr>:$result_names
  );
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `kind` `=` custom<Word>($kind) custom<Fields>($schedule, $plan, $fields) (`results` $result_names^)?
    attr-dict-with-keyword custom<IsolatedBody>($body)
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the terminator, whose operands are the results of the kernel.
    YieldOp getYield();
    const ::moec::catalog::KernelKind &getRow();
  }];
}

def Moe_YieldOp : Moe_Op<"yield", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "the results of a kernel";
  let description = [{
    Yields one value for each result of the kernel's launches. `moe.kernel`
    shows an example.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

def Moe_LaunchOp : Moe_Op<"launch", [
    HasParent<"VariantOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "one launch of a kernel";
  let description = [{
    The operands match the kernel's fields, and the results match the values
    that the kernel yields. `results` names the workspace values and outputs
    that the results become. `moe.kernel` shows an example.
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$kernel,
    StrArrayAttr:$result_names,
    Variadic<AnyRankedTensor>:$arguments
  );
  let results = (outs Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = [{
    $kernel `(` $arguments `)` `results` $result_names attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    KernelOp getKernelOp();
  }];
}

def Moe_CollectiveOp : Moe_Op<"collective", [
    HasParent<"VariantOp">, DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a collective operation of ranks between kernel launches";
  let description = [{
    A collective is one entry of the launch list, executed by `ranks` ranks that
    are `stride` apart. `all_gather` concatenates the tokens of the ranks.
    `reduce_scatter` sums over the ranks and leaves each rank its own tokens;
    `all_reduce` leaves each rank all tokens. There is one result per operand,
    with the names in `results`.

    ```mlir
    moe.layer @tiny {num_experts = 4, top_k = 2, hidden_size = 64, intermediate_size = 32,
      in_dtype = f32, out_dtype = f32, router_logits_dtype = f32, quant = #moe.quant<f32>,
      routing = #moe.routing<default>, activation = #moe.activation<silu_no_mul>, parallel = #moe.parallel<>}
    moe.program @tiny_sm_80 of @tiny for #moe.target<sm_80> max_tokens 64 inputs ["y"] {
    ^bb0(%y: tensor<?x64xf32>):
      moe.variant @all tokens [1, 64] {
        %out = moe.collective all_reduce ranks = 2 (%y) results ["out"] : (tensor<?x64xf32>) -> tensor<?x64xf32>
        moe.return %out outputs ["out"] : (tensor<?x64xf32>) -> ()
      }
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$kind,
    Moe_IntAttr:$ranks,
    DefaultValuedOptionalAttr<Moe_IntAttr, "1">:$stride,
    StrArrayAttr:$result_names,
    Variadic<AnyRankedTensor>:$arguments
  );
  let results = (outs Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = [{
    custom<Word>($kind) `ranks` `=` $ranks (`stride` `=` $stride^)? `(` $arguments `)` `results` $result_names
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // MOEC_DIALECT_MOEPROGRAMOPS_TD
