//===- MoeSchedules.td - how a kernel does its work --------*- tablegen -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One attribute for the schedules of each way to build a kernel, and the
// interface that passes and emitters ask.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_MOESCHEDULES_TD
#define MOEC_DIALECT_MOESCHEDULES_TD

include "dialect/MoeDialect.td"

def Moe_ScheduleAttr : AttrInterface<"ScheduleAttr"> {
  let cppNamespace = "::moec::moe";
  let summary = "how a kernel does its work";
  let description = [{
    How a kernel does its work. An attribute's verifier sees whether its members
    fit each other. Whether a schedule is legal for its kernel, layer and GPU is
    the engine's to say (compiler/matmul): moe-select-schedule asks it of every
    schedule that stands in a module, whoever wrote it. `moe.kernel` shows one.
  }];
  let methods = [
    InterfaceMethod<"A row of Engines.h.", "::llvm::StringRef", "getEngine", (ins), "",
      "return $_attr.getFields().engineName();">,
    InterfaceMethod<"Threads of a CTA.", "int64_t", "getThreads", (ins), "",
      "return threadsOf($_attr.getFields());">,
    InterfaceMethod<"Whether it may start before its predecessor has finished.", "bool", "getProgrammatic", (ins), "",
      "return $_attr.getFields().programmatic;">,
    InterfaceMethod<"What says how warps multiply tiles; null where none do.",
      "const ::moec::Schedule *", "getMatmul", (ins), "", "return nullptr;">,
    InterfaceMethod<"Stages of shared memory that are filled ahead; 0: none.", "int64_t", "getStages", (ins), "",
      "return $_attr.getFields().stages;">,
    InterfaceMethod<"Tokens of one CTA; 0: that is not fixed.", "int64_t", "getBlockTokens", (ins), "",
      "return $_attr.getFields().blockTokens;">,
    InterfaceMethod<"CTAs of a multiprocessor at least, as __launch_bounds__ says.", "int64_t", "getCtasPerSm", (ins), "",
      "return $_attr.getFields().ctasPerSm;">,
    InterfaceMethod<"The same, with the CTAs of the next kernel that find room beside them.",
      "int64_t", "getResidentCtas", (ins), "", "return $_attr.getCtasPerSm();">,
    InterfaceMethod<"CTAs of a cluster in x, y and z; empty without clusters.",
      "::llvm::ArrayRef<int64_t>", "getCluster", (ins), "", "return $_attr.getFields().cluster;">,
    InterfaceMethod<"Whether there are as many CTAs as the GPU holds.", "bool", "getPersistent", (ins), "",
      "return $_attr.getFields().isPersistent();">,
    InterfaceMethod<"Whether it has a grid-wide wait.", "bool", "getCooperative", (ins), "",
      "return $_attr.getFields().isCooperative();">,
    InterfaceMethod<"tuned, modelled or default.", "::llvm::StringRef", "getSource", (ins), "",
      "return $_attr.getFields().source;">,
    InterfaceMethod<"The same, wherever it is from.",
      "::mlir::Attribute", "withoutSource", (ins), "", "return $_attr;">,
    InterfaceMethod<"All that it says.", "::std::vector<::moec::Member>", "getMembers", (ins), "",
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
  let summary = "how warps copy and multiply the tiles of a matmul";
  let description = [{
    The mnemonic is `<engine>_schedule`. All engines have

    * `tile = [m, n, k]`: m counts token rows, n weight rows;
    * `stages`, `group` (m tiles that share a traversal of n);
    * `ctas_per_sm` (at least, as __launch_bounds__ says), `programmatic` (may
      start before its predecessor has finished);
    * `source`: `tuned`, `modelled` or `default`.

    Where every warp copies and multiplies there are `warps = [m, n]`.

    ```mlir
    #decode = #moe.mma_sync_schedule<tile = [16, 64, 64], stages = 4, warps = [1, 4], group = 8, ctas_per_sm = 2, programmatic, source = modelled>
    module attributes {moe.example = #decode} {}
    ```

    Kernels whose warps have roles are persistent. They have

    * `producer_warps`, `consumer_warps` and the `registers` of a thread of
      each. A warpgroup of 4 consuming warps takes 64 or 128 weight rows with
      `swap`, and as many token rows without. n also counts weight rows where
      `swap` puts them on the M side of the instruction's tile;
    * `cluster = [x, y, z]`.

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
  let summary = "how one kernel multiplies and combines in slices of the result";
  let description = [{
    `tile`, `stages` and the roles are those of a wgmma schedule with `swap`.
    A CTA keeps `block_rows` rows of its lhs in shared memory, while the result
    is made in slices of n columns, of which `buffers` are in memory at a time,
    and it combines `block_tokens` tokens. Producers also talk to other CTAs and
    combine. The kernel is persistent and has a grid-wide wait.

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
  let summary = "how a kernel of a few tokens routes and multiplies";
  let description = [{
    Each of its `threads` has `stages` pieces of weight rows on their way, for up
    to `block_tokens` tokens. The kernel is persistent. A CTA takes `unit_rows`
    rows of weights in the order of fragments at a time. With `beside_next` its CTA
    takes at most half of the registers of a multiprocessor, so that a CTA of the
    next kernel begins beside it.

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
  let summary = "how a kernel without a matmul does its work";
  let description = [{
    `threads` of a CTA, `block_tokens` of those that take tokens together (route,
    count and permute), `cluster = [x, y, z]` where CTAs share one permutation.

    ```mlir
    #route = #moe.block_schedule<block_tokens = 8, threads = 256, cluster = [8, 1, 1], programmatic>
    module attributes {moe.example = #route} {}
    ```
  }];
}

def Moe_CombineScheduleAttr : Moe_NamedScheduleDef<"Combine", "combine"> {
  let summary = "how combine sums";
  let description = [{
    `threads` of a CTA, which takes so many `columns` of one token.

    ```mlir
    #combine = #moe.combine_schedule<columns = 512, threads = 64, programmatic>
    module attributes {moe.example = #combine} {}
    ```
  }];
}

#endif // MOEC_DIALECT_MOESCHEDULES_TD
