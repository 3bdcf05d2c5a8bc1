//===- MoeSchedules.td - schedules of kernels --------------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One schedule attribute for each way to build a kernel, and the interface
// through which passes and emitters query schedules.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESCHEDULES_TD
#define MOEC_DIALECT_MOESCHEDULES_TD

include "dialect/MoeDialect.td"

def Moe_ScheduleAttr : AttrInterface<"ScheduleAttr"> {
  let cppNamespace = "::moec::moe";
  let summary = "the schedule of a kernel";
  let description = [{
    The engine, tile, pipeline stages and warps of a kernel. The attribute's
    verifier checks that the members are consistent. The engine
    (compiler/matmul) decides if a schedule is legal for its kernel, layer and
    GPU: moe-select-schedule validates every schedule in a module, regardless of
    its origin. `moe.kernel` shows one.
  }];
  let methods = [
    InterfaceMethod<"Returns the engine's name, a row of Engines.h.", "::llvm::StringRef", "getEngine", (ins), "",
      "return $_attr.getFields().engineName();">,
    InterfaceMethod<"Returns the number of threads per CTA.", "int64_t", "getThreads", (ins), "",
      "return threadsOf($_attr.getFields());">,
    InterfaceMethod<"Returns true if the kernel may start before its predecessor launch has finished.", "bool", "getProgrammatic", (ins), "",
      "return $_attr.getFields().programmatic;">,
    InterfaceMethod<"Returns the schedule of the tiles and warps that multiply, or null without a matmul.",
      "const ::moec::Schedule *", "getMatmul", (ins), "", "return nullptr;">,
    InterfaceMethod<"Returns the number of pipeline stages, or 0 without a pipeline.", "int64_t", "getStages", (ins), "",
      "return $_attr.getFields().stages;">,
    InterfaceMethod<"Returns the number of tokens per CTA, or 0 if it is not fixed.", "int64_t", "getBlockTokens", (ins), "",
      "return $_attr.getFields().blockTokens;">,
    InterfaceMethod<"Returns the minimum number of CTAs per SM, passed to __launch_bounds__.", "int64_t", "getCtasPerSm", (ins), "",
      "return $_attr.getFields().ctasPerSm;">,
    InterfaceMethod<"Returns the number of CTAs that fit on an SM, including CTAs of the next kernel.",
      "int64_t", "getResidentCtas", (ins), "", "return $_attr.getCtasPerSm();">,
    InterfaceMethod<"Returns the cluster size in x, y and z; empty without clusters.",
      "::llvm::ArrayRef<int64_t>", "getCluster", (ins), "", "return $_attr.getFields().cluster;">,
    InterfaceMethod<"Returns true if the kernel is persistent: its grid is as many CTAs as fit on the GPU.", "bool", "getPersistent", (ins), "",
      "return $_attr.getFields().isPersistent();">,
    InterfaceMethod<"Returns true if the kernel has a grid-wide barrier.", "bool", "getCooperative", (ins), "",
      "return $_attr.getFields().isCooperative();">,
    InterfaceMethod<"Returns the origin of the schedule: tuned, modelled or default.", "::llvm::StringRef", "getSource", (ins), "",
      "return $_attr.getFields().source;">,
    InterfaceMethod<"Returns the schedule with source default, so that schedules can be compared.",
      "::mlir::Attribute", "withoutSource", (ins), "", "return $_attr;">,
    InterfaceMethod<"Returns the names and values of the schedule's members.", "::std::vector<::moec::Member>", "getMembers", (ins), "",
      "return membersOf($_attr.getFields());">
  ];
}

class Moe_ScheduleDef<string name, string fields> : AttrDef<Moe_Dialect, name # "Schedule", [Moe_ScheduleAttr]> {
  let parameters = (ins
    AttrParameter<"::moec::" # fields, "its members (Schedules.h)", "const ::moec::" # fields # " &">:$fields
  );
  let genVerifyDecl = 1;
  let extraClassDeclaration = "using Fields = ::moec::" # fields # ";";
}

def Moe_MatmulScheduleAttr : Moe_ScheduleDef<"Matmul", "Schedule"> {
  let attrName = "moe.matmul_schedule";
  let summary = "the schedule of a grouped matmul";
  let description = [{
    The mnemonic is `<engine>_schedule`. The schedules of all engines have these
    members:

    * `tile = [m, n, k]`: m is the number of token rows and n the number of
      weight rows.
    * `stages`: The number of pipeline stages.
    * `group`: The number of m tiles per group. CTAs compute all m tiles of a
      group for one n tile before they go to the next n tile, so that the m
      tiles share the weight tile in L2.
    * `ctas_per_sm`: The minimum number of CTAs per SM, passed to
      `__launch_bounds__`.
    * `programmatic`: The kernel uses programmatic dependent launch and may
      start before its predecessor launch has finished.
    * `source`: `tuned`, `modelled` or `default`.

    If every warp both copies and multiplies, `warps = [m, n]` is the grid of
    warps.

    ```mlir
    #decode = #moe.mma_sync_schedule<tile = [16, 64, 64], stages = 4, warps = [1, 4], group = 8, ctas_per_sm = 2, programmatic, source = modelled>
    module attributes {moe.example = #decode} {}
    ```

    Warp-specialized kernels are persistent. They have these members:

    * `producer_warps`, `consumer_warps`, and `registers` per thread of the
      producer and the consumer warps.
    * `swap`: Weight rows are on the M side of the instruction, and tokens on
      its N side. A consumer warpgroup (4 warps) computes 64 or 128 weight rows
      with `swap`, and 64 or 128 token rows without it. The n of `tile` counts
      weight rows in both cases.
    * `cluster = [x, y, z]`: The CTAs of a cluster.

    ```mlir
    #roles = #moe.wgmma_schedule<tile = [256, 128, 64], stages = 4, group = 4, swap, producer_warps = 4, consumer_warps = 8, registers = [56, 224], programmatic, source = tuned>
    module attributes {moe.example = #roles} {}
    ```
  }];
  let extraClassDeclaration = [{
    using Fields = ::moec::Schedule;
    const ::moec::Schedule *getMatmul() const { return &getFields(); }
    ::mlir::Attribute withoutSource() const {
      Fields fields = getFields();
      fields.source = "default";
      return get(getContext(), fields);
    }
  }];
}

class Moe_NamedScheduleDef<string name, string attrMnemonic> : Moe_ScheduleDef<name, name # "Schedule"> {
  let mnemonic = attrMnemonic # "_schedule";
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = [{
::mlir::Attribute $cppClass::parse(::mlir::AsmParser &parser, ::mlir::Type) {
  return parseSchedule<$cppClass>(parser, {});
}
void $cppClass::print(::mlir::AsmPrinter &printer) const {
  printSchedule(printer, *this);
}
}];
}

def Moe_SlicesScheduleAttr : Moe_NamedScheduleDef<"Slices", "slices"> {
  let summary = "the schedule of the fused second matmul and combine";
  let description = [{
    `tile`, `stages` and the warp roles have the same meaning as in a wgmma
    schedule with `swap`. A CTA keeps `block_rows` rows of the matmul's lhs in
    shared memory. The result is computed in slices of n columns, with `buffers`
    slices in memory at a time, and each CTA combines `block_tokens` tokens.
    Producer warps also synchronize with other CTAs and compute the combine. The
    kernel is persistent and has a grid-wide barrier.

    ```mlir
    #slices = #moe.slices_schedule<tile = [64, 128, 128], stages = 4, block_tokens = 63, block_rows = 512, buffers = 2, producer_warps = 12, consumer_warps = 8, registers = [72, 128], programmatic>
    module attributes {moe.example = #slices} {}
    ```
  }];
  let extraClassDeclaration = [{
    using Fields = ::moec::SlicesSchedule;
    const ::moec::Schedule *getMatmul() const { return &getFields(); }
  }];
}

def Moe_GemvScheduleAttr : Moe_NamedScheduleDef<"Gemv", "gemv"> {
  let summary = "the schedule of a few-token kernel, which also routes";
  let description = [{
    Each of the `threads` threads keeps `stages` loads of weight-row segments in
    flight and multiplies each segment with up to `block_tokens` tokens. The
    kernel is persistent. If weights are in fragment order, a CTA processes
    `unit_rows` weight rows at a time. With `beside_next` a CTA uses at most
    half of an SM's registers, so that a CTA of the next kernel can start on the
    same SM.

    ```mlir
    #gemv = #moe.gemv_schedule<stages = 6, block_tokens = 4, threads = 512, programmatic>
    module attributes {moe.example = #gemv} {}
    ```
  }];
  let extraClassDeclaration = [{
    using Fields = ::moec::GemvSchedule;
    int64_t getResidentCtas() const { return getFields().ctasPerSm * (getFields().besideNext ? 2 : 1); }
  }];
}

def Moe_BlockScheduleAttr : Moe_NamedScheduleDef<"Block", "block"> {
  let summary = "the schedule of a kernel without a matmul";
  let description = [{
    `threads` is the number of threads of a CTA. `block_tokens` is the number of
    tokens that a CTA of route, count or permute processes. `cluster = [x, y,
    z]` is present if the CTAs of a cluster compute one permutation together.

    ```mlir
    #route = #moe.block_schedule<block_tokens = 8, threads = 256, cluster = [8, 1, 1], programmatic>
    module attributes {moe.example = #route} {}
    ```
  }];
}

def Moe_CombineScheduleAttr : Moe_NamedScheduleDef<"Combine", "combine"> {
  let summary = "the schedule of combine";
  let description = [{
    `threads` is the number of threads of a CTA, and `columns` is the number of
    columns of one token that a CTA computes.

    ```mlir
    #combine = #moe.combine_schedule<columns = 512, threads = 64, programmatic>
    module attributes {moe.example = #combine} {}
    ```
  }];
}

#endif // MOEC_DIALECT_MOESCHEDULES_TD
