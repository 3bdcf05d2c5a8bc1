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
    the engine's to say (compiler/engine): moe-select-schedule asks it of every
    schedule that stands in a module, whoever wrote it. `moe.kernel` shows one.
  }];
  let methods = [
    InterfaceMethod<"A row of Engines.h.",
      "::llvm::StringRef", "getEngine", (ins), "", "return \"simt\";">,
    InterfaceMethod<"Threads of a CTA.", "int64_t", "getThreads">,
    InterfaceMethod<"Whether it may start before its predecessor has finished.",
      "bool", "getProgrammatic">,
    InterfaceMethod<"Tile of a matmul: rows of tokens, weight rows, k; empty elsewhere.",
      "::llvm::ArrayRef<int64_t>", "getTile", (ins), "", "return {};">,
    InterfaceMethod<"Stages of shared memory that are filled ahead; 0: none.",
      "int64_t", "getStages", (ins), "", "return 0;">,
    InterfaceMethod<"M tiles that share a traversal of n.",
      "int64_t", "getGroup", (ins), "", "return 1;">,
    InterfaceMethod<"Tokens of one CTA; 0: that is not fixed.",
      "int64_t", "getBlockTokens", (ins), "", "return 0;">,
    InterfaceMethod<"CTAs of a multiprocessor at least, as __launch_bounds__ says.",
      "int64_t", "getCtasPerSm", (ins), "", "return 1;">,
    InterfaceMethod<"The same, with the CTAs of the next kernel that find room beside them.",
      "int64_t", "getResidentCtas", (ins), "", "return $_attr.getCtasPerSm();">,
    InterfaceMethod<"CTAs of a cluster in x, y and z; empty without clusters.",
      "::llvm::ArrayRef<int64_t>", "getCluster", (ins), "", "return {};">,
    InterfaceMethod<"Roles of the warps; null where all do the same.",
      "const ::moec::moe::Roles *", "getRoles", (ins), "", "return nullptr;">,
    InterfaceMethod<"Whether weight rows are on the M side of the instruction.",
      "bool", "getSwap", (ins), "", "return false;">,
    InterfaceMethod<"Whether there are as many CTAs as the GPU holds.",
      "bool", "getPersistent", (ins), "", "return false;">,
    InterfaceMethod<"Whether it has a grid-wide wait.",
      "bool", "getCooperative", (ins), "", "return false;">,
    InterfaceMethod<"tuned, modelled or default.",
      "::llvm::StringRef", "getSource", (ins), "", "return \"default\";">,
    InterfaceMethod<"The same, wherever it is from.",
      "::mlir::Attribute", "withoutSource", (ins), "", "return $_attr;">
  ];
  let extraSharedClassDeclaration = [{
    int64_t getTileM() const { return $_attr.getTile().empty() ? 0 : $_attr.getTile()[0]; }
    int64_t getTileN() const { return $_attr.getTile().empty() ? 0 : $_attr.getTile()[1]; }
    int64_t getTileK() const { return $_attr.getTile().empty() ? 0 : $_attr.getTile()[2]; }
  }];
}

class Moe_ScheduleDef<string name> : AttrDef<Moe_Dialect, name # "Schedule", [Moe_ScheduleAttr]> {
  let parameters = (ins
    AttrParameter<"::moec::moe::" # name # "Schedule", "its members (Schedules.h)",
                  "const ::moec::moe::" # name # "Schedule &">:$fields
  );
  let genVerifyDecl = 1;
  code common = "using Fields = ::moec::moe::" # name # "Schedule;\n" # [{
    bool getProgrammatic() const { return getFields().programmatic; }
  }];
  code printed = [{
void $cppClass::print(::mlir::AsmPrinter &printer) const {
  printSchedule(printer, getFields());
}
}];
}

class Moe_MatmulScheduleDef<string name> : Moe_ScheduleDef<name> {
  let attrName = "moe." # !tolower(name) # "_schedule";
  code ofMatmul = common # [{
    ::llvm::StringRef getEngine() const { return getFields().engine; }
    ::llvm::ArrayRef<int64_t> getTile() const { return getFields().tile; }
    int64_t getStages() const { return getFields().stages; }
    int64_t getGroup() const { return getFields().group; }
    int64_t getCtasPerSm() const { return getFields().ctasPerSm; }
    ::llvm::StringRef getSource() const { return getFields().source; }
    ::mlir::Attribute withoutSource() const {
      auto fields = getFields();
      fields.source = "default";
      return get(getContext(), fields);
    }
    /// Behind the mnemonic, which says the engine.
    static ::mlir::Attribute parse(::mlir::AsmParser &parser, ::llvm::StringRef engine);
    void print(::mlir::AsmPrinter &printer) const;
  }];
  let extraClassDefinition = printed # [{
::mlir::Attribute $cppClass::parse(::mlir::AsmParser &parser, ::llvm::StringRef engine) {
  Fields fields;
  fields.engine = engine.str();
  return parseSchedule<$cppClass>(parser, fields);
}
}];
}

def Moe_WarpsScheduleAttr : Moe_MatmulScheduleDef<"Warps"> {
  let summary = "how every warp of a matmul copies and multiplies";
  let description = [{
    The mnemonic is `<engine>_schedule`, of an engine without roles.

    * `tile = [m, n, k]`: m counts token rows, n weight rows;
    * `stages`, `warps = [m, n]`, `group` (m tiles that share a traversal of n);
    * `ctas_per_sm` (at least, as __launch_bounds__ says), `programmatic` (may
      start before its predecessor has finished);
    * `source`: `tuned`, `modelled` or `default`.

    ```mlir
    #decode = #moe.mma_sync_schedule<tile = [16, 64, 64], stages = 4, warps = [1, 4], group = 8, ctas_per_sm = 2, programmatic, source = modelled>
    module attributes {moe.example = #decode} {}
    ```
  }];
  let extraClassDeclaration = ofMatmul # [{
    int64_t getThreads() const { return 32 * getFields().warps[0] * getFields().warps[1]; }
    ::llvm::ArrayRef<int64_t> getWarps() const { return getFields().warps; }
  }];
}

def Moe_RolesScheduleAttr : Moe_MatmulScheduleDef<"Roles"> {
  let summary = "how warps of a matmul share copying and multiplying";
  let description = [{
    The mnemonic is `<engine>_schedule`, of an engine whose warps have roles.
    Its kernels are persistent. Besides members that warps without roles have:

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
  let extraClassDeclaration = ofMatmul # [{
    int64_t getThreads() const { return getFields().threads(); }
    ::llvm::ArrayRef<int64_t> getCluster() const { return getFields().cluster; }
    const ::moec::moe::Roles *getRoles() const { return &getFields(); }
    bool getSwap() const { return getFields().swap; }
    bool getPersistent() const { return true; }
  }];
}

class Moe_NamedScheduleDef<string name, string attrMnemonic> : Moe_ScheduleDef<name> {
  let mnemonic = attrMnemonic # "_schedule";
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = printed # [{
::mlir::Attribute $cppClass::parse(::mlir::AsmParser &parser, ::mlir::Type) {
  return parseSchedule<$cppClass>(parser, {});
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
  let extraClassDeclaration = common # [{
    ::llvm::StringRef getEngine() const { return "wgmma"; }
    int64_t getThreads() const { return getFields().threads(); }
    ::llvm::ArrayRef<int64_t> getTile() const { return getFields().tile; }
    int64_t getStages() const { return getFields().stages; }
    int64_t getBlockTokens() const { return getFields().blockTokens; }
    int64_t getBlockRows() const { return getFields().blockRows; }
    int64_t getBuffers() const { return getFields().buffers; }
    const ::moec::moe::Roles *getRoles() const { return &getFields(); }
    bool getSwap() const { return true; }
    bool getPersistent() const { return true; }
    bool getCooperative() const { return true; }
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
  let extraClassDeclaration = common # [{
    ::llvm::StringRef getEngine() const { return "gemv"; }
    int64_t getThreads() const { return getFields().threads; }
    int64_t getCtasPerSm() const { return getFields().ctasPerSm; }
    int64_t getResidentCtas() const { return getCtasPerSm() * (getFields().besideNext ? 2 : 1); }
    int64_t getStages() const { return getFields().stages; }
    int64_t getBlockTokens() const { return getFields().blockTokens; }
    bool getPersistent() const { return true; }
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
  let extraClassDeclaration = common # [{
    int64_t getThreads() const { return getFields().threads; }
    int64_t getBlockTokens() const { return getFields().blockTokens; }
    ::llvm::ArrayRef<int64_t> getCluster() const { return getFields().cluster; }
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
  let extraClassDeclaration = common # [{
    int64_t getThreads() const { return getFields().threads; }
    int64_t getColumns() const { return getFields().columns; }
  }];
}

#endif // MOEC_DIALECT_MOESCHEDULES_TD
