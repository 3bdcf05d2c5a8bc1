# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernel texts in the form in which the compiler prints them.

Each function returns (entry, text). Only tests and measurements of the
templates use this; packages come from the compiler.
"""

TYPES = {"bf16": "moe::bf16", "f16": "moe::f16", "f32": "float", "e4m3": "moe::e4m3"}
SIZES = {"bf16": 2, "f16": 2, "f32": 4, "e4m3": 1}
FUNCTIONS = {"silu": "Silu", "gelu": "Gelu", "gelu_tanh": "GeluTanh"}


def flag(value):
    return "true" if value else "false"


def text(header, fields, members, entry, call, threads, ctas, shared, cluster=1):
    """One include, Args, Config, the assertions, one entry."""
    cluster = f"__cluster_dims__({cluster}, 1, 1) " if cluster > 1 else ""
    args = " ".join(f"{kind} {name};" for kind, name in fields)
    config = "\n".join("  " + member for member in members)
    return f"""#include "moe/kernel/{header}.cuh"
struct Args {{ {args} }};
struct Config {{
  using Args = ::Args;
{config}
}};
static_assert(moe::sharedBytes<Config>() == {shared}, "manifest and kernel disagree on shared memory");
extern "C" __global__ void {cluster}__launch_bounds__({threads}, {ctas}) {entry}(const __grid_constant__ Args args) {{ moe::{call}<Config>(args); }}
"""


def common(threads, programmatic, async_):
    return [f"static constexpr int kThreads = {threads};",
            f"static constexpr bool kProgrammatic = {flag(programmatic)};",
            f"static constexpr bool kCpAsync = {flag(async_)};"]


def constants(**values):
    return [f"static constexpr {'bool' if isinstance(v, bool) else 'int'} {k} = "
            f"{flag(v) if isinstance(v, bool) else v};" for k, v in values.items()]


def quantizeFields(scaling, input):
    fields = [(f"const {TYPES[input]} *", "input"), ("long long", "input_row_stride")]
    if scaling == "StaticTensor":
        fields += [("const float *", "static_scale")]
    return fields + [("moe::e4m3 *", "data"), ("float *", "scale")]


def quantize(name, columns, scaling, input="f32", byOffsets=True, experts=1, scales=1,
             threads=256, programmatic=True, async_=True):
    fields = quantizeFields(scaling, input)
    fields[-2:-2] = [("const int *", "offsets") if byOffsets else ("int", "tokens")]
    members = common(threads, programmatic, async_) + [
        f"using Input = {TYPES[input]};", f"using Scaling = moe::quant::{scaling};"] + constants(
            kColumns=columns, kByOffsets=byOffsets, kExperts=experts, kScales=scales,
            kBlockRows=16)
    entry = f"moec_quantize_{name}"
    return entry, text("quantize", fields, members, entry, "quantize", threads, 1, 0)


def routingFields(given=False):
    """The fields of a run's routing tensors, with their types."""
    fields = []
    for name in ([] if given else ["logits"]) + ["given_ids", "given_weights"]:
        fields += [("const void *", name), ("moe::ElementCode", f"{name}_type")]
    return fields + [("const int *", "valid_tokens"), ("int", "tokens")]


def routingOptions(bias, scale, expertScale, table):
    """Fields and members that a routing may leave away."""
    fields, members = [], []
    if bias:
        fields += [("const float *", "routing_bias")]
        members += constants(kRoutingBias=True)
    if scale:
        members += [f"static constexpr float kRoutedScale = {scale}f;"]
    if expertScale:
        fields += [("const float *", "expert_scale")]
        members += constants(kExpertScale=True)
    if table:
        fields += [("const void *", "token_ids"), ("moe::ElementCode", "token_ids_type"),
                   ("const int *", "hash_table")]
        members += constants(kTableRows=table)
    return fields, members


def route(name, experts, topk, score="Softmax", select="TopK", normalize="Sum",
          bias=False, scale=None, expertScale=False, table=0, block=64, fused=False, tileRows=16, rowStep=None, threads=512, begin=0,
          local=None, cluster=1, programmatic=True, async_=True, scaling=None, hidden=0,
          input="bf16"):
    local = experts if local is None else local
    fields = routingFields(select == "Given") + [
        ("int *", "topk_ids"), ("float *", "topk_weights"), ("int *", "ids"), ("float *", "weights")]
    if fused:
        fields += [("int *", "rows"), ("int *", "positions"), ("int *", "offsets"),
                   ("int4 *", "tiles"), ("int *", "tile_count"), ("int *", "counts")]
    else:
        fields += [("int *", "block_counts")]
    if scaling:
        fields += quantizeFields(scaling, input)
    moreFields, moreMembers = routingOptions(bias, scale, expertScale, table)
    fields += moreFields
    members = common(threads, programmatic, async_) + moreMembers + [
        f"using Score = moe::routing::{score};",
        f"using Select = moe::routing::{select};",
        f"using Normalize = moe::routing::{normalize};"] + constants(
            kExperts=experts, kTopK=topk, kBlockTokens=block, kPermute=fused,
            kCluster=cluster, kTileRows=tileRows, kRowStep=rowStep or tileRows, kCounters=2,
            kLocalBegin=begin, kLocalExperts=local)
    if scaling:
        members += [f"using Input = {TYPES[input]};",
                    f"using Scaling = moe::quant::{scaling};"] + constants(
                        kColumns=hidden, kScales=experts, kBlockRows=16)
    entry = f"moec_route_{name}"
    return entry, text("route", fields, members, entry, "route", threads, 1, 0, cluster)


def permute(name, experts, topk, block=64, tileRows=16, rowStep=None, threads=512,
            begin=0, local=None, programmatic=True, async_=True):
    local = experts if local is None else local
    fields = [("const int *", "topk_ids"), ("const int *", "block_counts"),
              ("int", "tokens"), ("int *", "rows"), ("int *", "positions"),
              ("int *", "offsets"), ("int4 *", "tiles"), ("int *", "tile_count"),
              ("int *", "counts")]
    members = common(threads, programmatic, async_) + constants(
        kExperts=experts, kLocalBegin=begin, kLocalExperts=local, kTopK=topk,
        kBlockTokens=block, kTileRows=tileRows, kRowStep=rowStep or tileRows, kCounters=2)
    entry = f"moec_permute_{name}"
    return entry, text("permute", fields, members, entry, "permute", threads, 1, 0)


def matmulShared(tile, stages, element, result, gated, engine="MmaSync", quant="None",
                 scaling=None, atoms=1, swapped=True):
    m, n, k = tile
    columns = n // 2 if gated else n
    ring = stages * (m + n) * k * SIZES[element]
    if engine == "Wgmma":
        own = (32 if gated else 64) * atoms
        tokens = min(m, 32 if SIZES[result] == 4 or own > 64 else 64)
        staging = n // (64 * atoms) * tokens * (own * SIZES[result] + 16)
        if scaling == "Group128":
            staging = m * 128 * 4
        if not swapped:
            staging = m // 16 // atoms * 8 * (columns + 8) * SIZES[result]
        scales = stages * m * 4 if quant == "Fp8Block" else 0
        return ring + staging + 32 + scales + (2 * stages + 4) * 8
    staging = m * (columns * SIZES[result] + 16)
    return max(ring, staging)


def matmul(name, n, k, experts, topk, tile, stages, warps, group=8, ctas=1,
           gather=True, activation=None, gated=True, bias=False, element="bf16",
           result=None, engine="MmaSync", interleave=None, programmatic=True,
           async_=True, registers=(56, 224), quant="None", scaling=None, early=None,
           fast=False, atoms=1, swapped=True):
    result = result or element
    specialized = engine == "Wgmma"
    if specialized:
        consumers = 2 * (tile[1] if swapped else tile[0]) // atoms
        threads = 128 + consumers
        # With fewer at hand, consumers would wait for registers for ever.
        allotted = 65536 // (threads * ctas) // 8 * 8
        if 128 * registers[0] + consumers * registers[1] > threads * allotted:
            raise ValueError(f"{name}: {registers} registers, {allotted} are allotted")
    else:
        threads = 32 * warps[0] * warps[1]
    fused = activation is not None
    if interleave is None:
        interleave = 8 if fused and gated else 0
    fields = [(f"const {TYPES[element]} *", "lhs"), ("long long", "lhs_row_stride")]
    if gather:
        fields += [("const int *", "rows")]
    fields += [("const int4 *", "tiles"), ("int *", "tile_count"),
               ("moe::TensorMap" if specialized else f"const {TYPES[element]} *", "rhs")]
    if quant != "None":
        fields += [("const float *", "lhs_scale"), ("const float *", "rhs_scale")]
    if bias:
        stored = "bf16" if element == "e4m3" else element
        fields += [(f"const {TYPES[stored]} *", "bias")]
    if scaling:
        if scaling == "StaticTensor":
            fields += [("const float *", "static_scale")]
        fields += [("moe::e4m3 *", "data"), ("float *", "scale")]
    else:
        fields += [(f"{TYPES[result]} *", "result")]
    policy = "moe::activation::None"
    if fused:
        policy = (f"moe::activation::{'Gated' if gated else 'Ungated'}"
                  f"<moe::activation::{FUNCTIONS[activation]}>")
    parts = dict(kTileM=tile[0], kTileN=tile[1], kTileK=tile[2], kStages=stages)
    if specialized:
        parts.update(kProducerWarps=4, kConsumerWarps=consumers // 32,
                     kProducerRegisters=registers[0], kConsumerRegisters=registers[1],
                     kPersistent=True, kCtasPerSm=ctas)
    else:
        parts.update(kWarpsM=warps[0], kWarpsN=warps[1])
    schedule = " ".join(constants(**parts, kGroupM=group))
    more = f", {flag(fast)}, {atoms}" if atoms > 1 else ", true" if fast else ""
    if not swapped:
        more = f", false, {atoms}, {tile[1]}"
    members = common(threads, programmatic, async_) + [
        f"using Input = {TYPES[element]};", f"using Weight = {TYPES[element]};",
        f"using Result = {TYPES[result]};", f"using Quant = moe::quant::{quant};",
        f"using Activation = {policy};",
        f"using Mma = moe::mma::{engine}<{TYPES[element]}{more}>;",
        f"struct Schedule {{ {schedule} }};"] + constants(
            kN=n, kK=k, kExperts=experts, kTopK=topk, kGather=gather, kBias=bias,
            kInterleave=interleave,
            kTilesEarly=(programmatic and not gather) if early is None else early)
    if scaling:
        members += [f"using Scaling = moe::quant::{scaling};"] + constants(kScales=experts)
    if specialized:
        members += constants(kCursor=1 if gather else 2, kCounts=False, kAwaited=0)
    entry = f"moec_grouped_matmul_{name}"
    shared = matmulShared(tile, stages, element, result, fused and gated, engine,
                          quant, scaling, atoms, swapped)
    return entry, text("grouped_matmul", fields, members, entry, "groupedMatmul",
                       threads, ctas, shared)


def activate(name, columns, experts, activation="silu", gated=True, result="bf16",
             interleave=8, threads=256, programmatic=True, async_=True):
    fields = [("const float *", "input"), ("const int *", "offsets"),
              (f"{TYPES[result]} *", "result")]
    policy = (f"moe::activation::{'Gated' if gated else 'Ungated'}"
              f"<moe::activation::{FUNCTIONS[activation]}>")
    members = common(threads, programmatic, async_) + [
        f"using Result = {TYPES[result]};", f"using Activation = {policy};"] + constants(
            kColumns=columns, kExperts=experts, kInterleave=interleave)
    entry = f"moec_activate_{name}"
    return entry, text("activate", fields, members, entry, "activate", threads, 1, 0)


def combine(name, hidden, topk, partial="bf16", output="bf16", blocks=1,
            threads=256, programmatic=True, async_=True):
    fields = [(f"const {TYPES[partial]} *", "partials"), ("const int *", "positions"),
              ("const float *", "topk_weights"), ("int", "tokens"),
              (f"{TYPES[output]} *", "out")]
    members = common(threads, programmatic, async_) + [
        f"using Partial = {TYPES[partial]};", f"using Output = {TYPES[output]};"] + constants(
            kTopK=topk, kHidden=hidden, kColumnBlocks=blocks, kPlacesEarly=programmatic)
    entry = f"moec_combine_{name}"
    return entry, text("combine", fields, members, entry, "combine", threads, 1, 0)


def pack(name, kind, rows, columns, element="bf16", interleave=8, threads=256,
         bytesPerCta=32768):
    fields = [(f"const {TYPES[element]} *", "source"),
              (f"{TYPES[element]} *", "destination"), ("int", "first_expert"),
              ("int", "experts")]
    members = common(threads, False, True) + [
        f"using Element = {TYPES[element]};"] + constants(
            kRows=rows, kColumns=columns, kInterleave=interleave,
            kBytesPerCta=bytesPerCta)
    entry = f"moec_{kind}_{name}"
    call = {"pack_copy": "packCopy", "pack_interleave": "packInterleave"}[kind]
    return entry, text("pack", fields, members, entry, call, threads, 1, 0)


SCALINGS = {"none": ("Unscaled", "None"), "fp8_block": ("Group128", "Fp8Block"),
            "fp8_channel": ("Token", "Fp8Channel"), "fp8_tensor": ("StaticTensor", "Fp8Tensor"),
            "fp8_tensor_dynamic": ("DynamicTensor", "Fp8Tensor")}


def gemvShared(rows, k, weightRows, scheme, element, stages, warps):
    """The operand with its scales, and the ring."""
    scaled = scheme != "none"
    operand = rows * k * SIZES["e4m3" if scaled else element]
    if scaled:
        scales = rows * (-(-k // 128) if scheme == "fp8_block" else 1)
        operand += -(-scales // 4) * 16
    return operand + warps * stages * weightRows * (640 if scaled else 512)


def gemv(kind, name, experts, topk, hidden, inter, tokens=4, scheme="none", element="bf16",
         score="Softmax", normalize="Sum", begin=0, local=None, activation="silu", gated=True, bias=False, stages=8, outputs=1, warps=8, ctas=1,
         early=True, programmatic=True, async_=True):
    """route_gate_up or down_combine."""
    first = kind == "route_gate_up"
    local = experts if local is None else local
    scaled = scheme != "none"
    scaling, quant = SCALINGS[scheme]
    weight = "e4m3" if scaled else element
    middle = "f32" if scaled else element
    n, k = ((2 if gated else 1) * inter, hidden) if first else (hidden, inter)
    fields = routingFields()
    if first:
        fields += [("int *", "ids"), ("float *", "weights"), ("int *", "counts"),
                   (f"const {TYPES[element]} *", "lhs"), ("long long", "lhs_row_stride")]
    else:
        fields += [(f"const {TYPES[middle]} *", "lhs")]
    if scheme == "fp8_tensor":
        fields += [("const float *", "static_scale")]
    fields += [(f"const {TYPES[weight]} *", "rhs")]
    if scaled:
        fields += [("const float *", "rhs_scale")]
    if bias:
        fields += [(f"const {TYPES[element]} *", "bias")]
    fields += [(f"{TYPES[middle if first else element]} *", "result" if first else "out")]
    policy = "moe::activation::None"
    if first:
        policy = (f"moe::activation::{'Gated' if gated else 'Ungated'}"
                  f"<moe::activation::{FUNCTIONS[activation]}>")
    threads = 32 * warps
    members = common(threads, programmatic, async_) + [
        f"using Score = moe::routing::{score};", "using Select = moe::routing::TopK;",
        f"using Normalize = moe::routing::{normalize};",
        f"using Scaling = moe::quant::{scaling};",
        f"using Input = {TYPES[element if first else middle]};",
        f"using Weight = {TYPES[weight]};",
        f"using Result = {TYPES[middle if first else element]};",
        f"using Quant = moe::quant::{quant};", f"using Activation = {policy};",
        "struct Schedule { " + " ".join(constants(kStages=stages, kOutputs=outputs)) + " };"]
    members += constants(
        kExperts=experts, kLocalBegin=begin, kLocalExperts=local, kTopK=topk,
        kTokens=tokens, kN=n, kK=k, kBias=bias,
        kInterleave=8 if first and gated else 0,
        kScales=local if scheme == "fp8_tensor" else 1)
    if not first:
        members += constants(kRouteEarly=early)
    rows = tokens if first else tokens * topk
    parts = 2 if first and gated else 1
    shared = gemvShared(rows, k, parts * outputs, scheme, element, stages, warps)
    entry = f"moec_{kind}_{name}"
    call = "routeGateUp" if first else "downCombine"
    return entry, text(kind, fields, members, entry, call, threads, ctas, shared)
