#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of the checks and timings and writes their plan.

  plan.py FOLDER [checks] [timings] [wgmma] [scaled] [fused] [routing]
          [few] [few-timings] [slices] [conversions] [--arch=sm_90a]

wgmma: the schedules of that engine, timed beside the best of mma_sync.
scaled: its matmuls of e4m3 operands, for templates-scaled.
fused: fp8 layers whose quantization is inside of other kernels or apart, for
templates-fused.
routing: CTAs that route and permute, for templates-routing.
few: layers of a few tokens in two launches, for templates-few.
slices: second matmul and combine in one launch or two, for templates-slices.
conversions: every half and bfloat16 to each format, for templates-conversions.

FOLDER receives plan.txt and one cubin a kernel; templates-checks and
templates-timings run them on a machine with a GPU.
"""

import concurrent.futures
import os
import sys

import compile as nvrtc
import conversions_text
import few
import routing
import slices
import texts

MODELS = {"qwen3-30b": (128, 8, 2048, 768), "mixtral-8x7b": (8, 2, 4096, 14336)}

FILL = """#include "moe/core/types.cuh"
__device__ float draw(unsigned long long v) {
  v = (v ^ (v >> 31)) * 0x9e3779b97f4a7c15ull; v = (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9ull; v ^= v >> 32;
  return float((v & 0xffff) + (v >> 16 & 0xffff) + (v >> 32 & 0xffff) + (v >> 48)) * (1.0f / 37837.0f) - 3.4640f;
}
struct Args { void *at; long long count; unsigned seed; float scale; int type; };
extern "C" __global__ void __launch_bounds__(256) moec_fill(const __grid_constant__ Args args) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.count; i += gridDim.x * 256ll) {
    float value = draw(i * 0x2545f4914f6cdd1dull + args.seed * 0x632be59bd9b4e019ull) * args.scale;
    if (args.type == 0) static_cast<float *>(args.at)[i] = value;
    else if (args.type == 1) static_cast<moe::f16 *>(args.at)[i] = moe::fromFloat<moe::f16>(value);
    else if (args.type == 2) static_cast<moe::bf16 *>(args.at)[i] = moe::fromFloat<moe::bf16>(value);
    else static_cast<moe::e4m3 *>(args.at)[i] = moe::fromFloat<moe::e4m3>(value);
  }
}
"""


class Plan:
    def __init__(self, folder, arch):
        self.folder, self.arch = folder, arch
        self.texts, self.lines = {}, []

    def kernel(self, kind, name, entryText, **numbers):
        """Adds a kernel once; returns its id."""
        key = f"{kind}_{name}"
        if key not in self.texts:
            entry, source = entryText
            self.texts[key] = source
            words = " ".join(f"{k}={int(v) if isinstance(v, bool) else v}"
                             for k, v in numbers.items())
            self.lines.append(f"kernel id={key} file={key}.cubin entry={entry} "
                              f"kind={kind} {words}")
        return key

    def route(self, name, timing=0, **o):
        numbers = dict(threads=o.get("threads", 512), block=o.get("block", 64),
                       fused=o.get("fused", False), score=o.get("score", "Softmax"),
                       normalize=o.get("normalize", "Sum"), timing=timing,
                       cluster=o.get("cluster", 1), bias=o.get("bias", False))
        return self.kernel("route", name, texts.route(name, **o), **numbers)

    def permute(self, name, timing=0, **o):
        return self.kernel("permute", name, texts.permute(name, **o), timing=timing,
                           threads=o.get("threads", 512), block=o.get("block", 64))

    def matmul(self, name, n, k, experts, topk, tile, stages, warps, timing=0, grid=None,
               **o):
        """grid: of a persistent kernel; without, as many CTAs as fit."""
        gated = o.get("activation") is not None and o.get("gated", True)
        engine, element = o.get("engine", "MmaSync"), o.get("element", "bf16")
        shared = texts.matmulShared(tile, stages, element, o.get("result") or element, gated,
                                    engine)
        specialized = engine == "Wgmma"
        numbers = dict(threads=128 + 2 * tile[1] if specialized else 32 * warps[0] * warps[1],
                       warps="4+%d" % (tile[1] // 16) if specialized
                       else f"{warps[0]}x{warps[1]}")
        if grid:
            numbers["grid"] = grid
        return self.kernel(
            "matmul", name,
            texts.matmul(name, n, k, experts, topk, tile, stages, warps, **o),
            shared=shared, n=n, k=k, experts=experts, engine=engine, element=element,
            tilem=tile[0], tilen=tile[1], tilek=tile[2], stages=stages,
            group=o.get("group", 8), ctas=o.get("ctas", 1), gather=o.get("gather", True),
            bias=o.get("bias", False), timing=timing, **numbers)

    def combine(self, name, hidden, topk, timing=0, **o):
        return self.kernel("combine", name, texts.combine(name, hidden, topk, **o),
                           threads=o.get("threads", 256), cblocks=o.get("blocks", 1),
                           timing=timing)

    def write(self):
        os.makedirs(self.folder, exist_ok=True)
        library = nvrtc.openNvrtc()
        bad = 0

        def one(item):
            return item[0], nvrtc.compileText(library, item[1], self.arch, item[0] + ".cu")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for key, result in pool.map(one, self.texts.items()):
                if not result.clean:
                    bad += 1
                    print(f"NOT CLEAN {key}: {result.registers} registers, {result.spills} "
                          f"spilled, local {result.local}\n"
                          f"{chr(10).join(result.remarks) if result.ok else result.log}")
                if result.ok:
                    with open(f"{self.folder}/{key}.cubin", "wb") as file:
                        file.write(result.cubin)
        with open(f"{self.folder}/plan.txt", "w", encoding="utf-8") as file:
            file.write("\n".join(self.lines) + "\n")
        print(f"{len(self.texts)} kernels, {bad} not clean")
        return bad


def addCheck(plan, name, experts, topk, hidden, inter, tile, stages, warps, *,
             dtype="bf16", partial=None, act="silu", gated=True, bias=False,
             engine="MmaSync", logits=None, score="Softmax", normalize="Sum",
             begin=0, local=None, ctas=1, unfused=False, tokens="1,2,7,8,33,500",
             patterns="uniform,one,edge,given32,given64,valid,uniform@f32,given32@f16", group=3, block=64,
             grid=None, registers=(56, 224)):
    rowStep = 16 if engine == "Wgmma" else tile[0]
    local = experts if local is None else local
    partial, logits = partial or dtype, logits or dtype
    routing = dict(experts=experts, topk=topk, score=score, normalize=normalize, tileRows=tile[0],
                   rowStep=rowStep, begin=begin, local=local)
    fused = plan.route(f"fused_{name}", fused=True, threads=256, block=64, **routing)
    route = plan.route(f"split_{name}", block=block, **routing)
    permute = plan.permute(f"{name}", experts=experts, topk=topk, begin=begin,
                           local=local, tileRows=tile[0], rowStep=rowStep, block=block)
    up = 2 * inter if gated else inter
    shape = dict(stages=stages, warps=warps, tile=tile, element=dtype, engine=engine,
                 group=group, ctas=ctas, bias=bias, topk=topk, experts=local, grid=grid)
    activate = ""
    if engine == "Wgmma":
        shape["registers"] = registers
    if unfused:
        gateUp = plan.matmul(f"up_{name}", up, hidden, result="f32",
                             interleave=8 if gated else 0, **shape)
        kernel = plan.kernel("activate", name, texts.activate(
            name, up, local, act, gated, dtype, interleave=8), threads=256)
        activate = f" activate={kernel}"
    else:
        gateUp = plan.matmul(f"up_{name}", up, hidden, activation=act, gated=gated, **shape)
    down = plan.matmul(f"down_{name}", hidden, inter, gather=False, result=partial, **shape)
    combine = plan.combine(name, hidden, topk, partial=partial, output=dtype,
                           threads=64, blocks=2)
    plan.lines.append(
        f"check name={name} E={experts} K={topk} H={hidden} I={inter} dtype={dtype} "
        f"partial={partial} logits={logits} act={act} gated={int(gated)} bias={int(bias)} "
        f"begin={begin} local={local} tilerows={tile[0]} rowstep={rowStep} fused={fused} route={route} "
        f"permute={permute} gateup={gateUp} down={down} combine={combine}{activate} "
        f"tokens={tokens} patterns={patterns}")


def addChecks(plan):
    few = "uniform,one,valid"
    addCheck(plan, "tiny", 8, 2, 64, 48, (16, 64, 64), 4, (1, 4))
    addCheck(plan, "odd", 5, 3, 200, 136, (32, 128, 64), 3, (1, 4), act="gelu", bias=True)
    addCheck(plan, "single", 1, 1, 72, 24, (16, 64, 64), 4, (1, 4), dtype="f16",
             act="gelu_tanh", patterns=few)
    addCheck(plan, "f32", 7, 2, 100, 40, (32, 64, 32), 3, (2, 2), dtype="f32",
             engine="Simt", bias=True, score="Identity", normalize="SoftmaxSelected")
    addCheck(plan, "unfused", 6, 2, 136, 72, (32, 64, 64), 2, (2, 2), partial="f32",
             engine="Simt", unfused=True, bias=True, score="Identity",
             normalize="None", logits="f32", patterns="uniform,edge,valid")
    addCheck(plan, "wide256", 16, 4, 264, 136, (128, 256, 32), 4, (2, 4), bias=True, patterns=few)
    addCheck(plan, "wide128", 16, 4, 256, 264, (128, 128, 32), 4, (2, 2), ctas=2,
             begin=4, local=8, dtype="f16", logits="bf16", patterns="uniform,one,edge,given64")
    addCheck(plan, "deep256", 16, 4, 256, 256, (128, 256, 64), 3, (2, 4), patterns=few)
    addCheck(plan, "column256", 5, 2, 520, 776, (128, 256, 64), 3, (2, 4), bias=True,
             patterns="uniform,given32")
    addCheck(plan, "remainder", 3, 2, 136, 264, (128, 256, 64), 3, (2, 4),
             patterns="uniform,valid", tokens="30,100,200,500")
    addCheck(plan, "mid64", 160, 6, 128, 128, (64, 128, 64), 4, (2, 4), partial="f32",
             score="Softmax", normalize="None", patterns="uniform,edge,given32", block=16)
    addCheck(plan, "deep16", 12, 4, 320, 96, (16, 64, 128), 4, (1, 4), gated=False,
             act="gelu", patterns=few)
    addCheck(plan, "big", 1024, 16, 64, 64, (16, 64, 64), 2, (1, 4), block=128,
             tokens="1,33,300", patterns="uniform,edge")
    if plan.arch == "sm_90a":
        addWgmmaChecks(plan)
    for rows, columns in ((96, 64), (1536, 256)):
        copy = plan.kernel("copy", f"{rows}", texts.pack(f"c{rows}", "pack_copy", rows, columns),
                           threads=256, rows=rows, columns=columns, chunk=32768)
        interleave = plan.kernel("interleave", f"{rows}",
                                 texts.pack(f"i{rows}", "pack_interleave", rows, columns),
                                 threads=256)
        plan.lines.append(f"pack copy={copy} interleave={interleave}")


def addWgmmaChecks(plan):
    """Engine wgmma; few CTAs, so that each takes several tiles."""
    def check(name, experts, topk, hidden, inter, rows, stages, columns=128, **o):
        o = dict(patterns="uniform,one,valid", grid=3) | o
        addCheck(plan, "wgmma_" + name, experts, topk, hidden, inter, (rows, columns, 64),
                 stages, None, engine="Wgmma", **o)
    check("tiny", 8, 2, 64, 64, 16, 10, patterns="uniform,one,edge,given32,given64,valid")
    check("tail", 5, 2, 200, 136, 32, 6, bias=True, act="gelu", grid=2)
    check("f16", 6, 3, 136, 72, 64, 4, dtype="f16", partial="f32", bias=True, grid=None)
    check("wide", 4, 2, 264, 200, 256, 4, bias=True, tokens="1,7,17,33,129,257,500")
    check("wide_f32", 4, 2, 128, 256, 256, 4, partial="f32", gated=False,
          tokens="1,31,65,100,161,193,257,300", grid=2)
    check("mid", 16, 4, 320, 96, 128, 6, begin=4, local=8, grid=None,
          patterns="uniform,one,edge,given64")
    check("narrow", 6, 2, 256, 128, 16, 8, columns=64, gated=False, bias=True, ctas=2,
          registers=(40, 216))
    check("unfused", 6, 2, 136, 72, 64, 3, partial="f32", unfused=True, bias=True)


# Schedules to time: tile, stages, warps, CTAs per SM, group.
SCHEDULES = {
    16: [((16, 64, 128), 4, (1, 4), 3, 1), ((16, 64, 128), 3, (1, 4), 4, 1)],
    32: [((32, 64, 128), 4, (1, 4), 2, 1)],
    64: [((64, 128, 64), 3, (1, 4), 2, 4), ((64, 64, 128), 3, (1, 4), 2, 1)],
    128: [((128, 256, 32), 4, (2, 4), 1, 4), ((128, 256, 64), 3, (2, 4), 1, 4)]}

# Engine wgmma beside the best of mma_sync: tile, stages, registers (None:
# mma_sync's warps), CTAs per SM, group.
WGMMA_SCHEDULES = {
    16: [((16, 64, 128), 4, None, 3, 1), ((16, 128, 64), 10, (56, 224), 1, 1),
         ((16, 128, 64), 5, (40, 96), 2, 1), ((16, 64, 64), 10, (40, 216), 2, 1)],
    32: [((32, 128, 64), 10, (56, 224), 1, 1), ((32, 128, 64), 5, (40, 96), 2, 1)],
    64: [((64, 64, 128), 3, None, 2, 1), ((64, 128, 64), 8, (56, 224), 1, 1),
         ((64, 128, 64), 4, (40, 96), 2, 1)],
    128: [((128, 256, 64), 3, None, 1, 4), ((128, 128, 64), 6, (56, 224), 1, 4),
          ((128, 128, 64), 4, (56, 224), 1, 4)],
    256: [((256, 128, 64), 4, (56, 224), 1, 4), ((256, 128, 64), 4, (56, 224), 1, 1),
          ((256, 128, 64), 3, (56, 224), 1, 8)]}
WGMMA_TOKENS = {
    "qwen3-30b": {16: "1,8,32,128", 32: "128", 64: "128,512", 128: "512,2048,8192",
                  256: "512,2048,8192"},
    "mixtral-8x7b": {16: "1,32", 64: "128", 128: "512", 256: "512,2048,8192"}}


def addScaled(plan):
    """Engine wgmma with e4m3 operands: single matmuls, for templates-scaled."""
    def add(name, n, k, experts, topk, tile, stages, quant, tokens, result, timing=0, **o):
        o = dict(gather=True, ctas=1, group=3, bias=False) | o
        gated = o.get("activation") is not None
        atoms, swapped = o.get("atoms", 1), o.get("swapped", True)
        plan.kernel(
            "scaled", name,
            texts.matmul(name, n, k, experts, topk, tile, stages, None, engine="Wgmma",
                         element="e4m3", result=result, quant=quant, **o),
            shared=texts.matmulShared(tile, stages, "e4m3", result, gated, "Wgmma", quant,
                                      atoms=atoms, swapped=swapped),
            threads=128 + 2 * tile[1 if swapped else 0] // atoms, n=n, k=k, experts=experts,
            topk=topk, tilem=tile[0], tilen=tile[1], quant=quant, gated=gated, gather=o["gather"], bias=o["bias"],
            fast=o.get("fast", False), ctas=o["ctas"], result=result, timing=timing,
            tokens=tokens)
    for quant in ("Fp8Block", "Fp8Channel", "Fp8Tensor"):
        key = quant.lower()
        few, many = "1,7,33", "2,33,100,300"
        add(f"{key}_up", 400, 336, 5, 2, (128, 128, 128), 5, quant, many, "f32",
            activation="silu")
        add(f"{key}_up_few", 528, 208, 4, 2, (16, 128, 128), 10, quant, few, "f32",
            activation="silu", bias=True)
        add(f"{key}_up_narrow", 400, 1040, 6, 3, (32, 64, 128), 5, quant, many, "f32",
            activation="silu", ctas=2, registers=(48, 208))
        add(f"{key}_down", 264, 208, 5, 2, (128, 128, 128), 6, quant, many, "bf16",
            gather=False, bias=True)
        add(f"{key}_down_mid", 384, 656, 4, 2, (64, 128, 128), 4, quant, many, "f32",
            gather=False)
        whole = dict(atoms=2, ctas=2, registers=(40, 216))
        add(f"{key}_up_whole", 528, 336, 5, 2, (128, 128, 128), 3, quant, many, "f32",
            activation="silu", bias=True, **whole)
        add(f"{key}_down_whole", 264, 208, 5, 2, (128, 128, 128), 3, quant, many, "bf16",
            gather=False, **whole)
        if quant == "Fp8Block":
            rows = dict(swapped=False)
            add("fp8block_up_rows", 528, 336, 5, 2, (128, 128, 128), 6, quant, many, "f32",
                activation="silu", bias=True, **rows)
            add("fp8block_up_rows_three", 400, 208, 5, 2, (192, 128, 128), 4, quant, many,
                "f32", activation="silu", registers=(40, 152), **rows)
            add("fp8block_down_rows", 264, 208, 5, 2, (128, 128, 128), 3, quant, many, "bf16",
                gather=False, bias=True, ctas=2, atoms=2, registers=(40, 216), **rows)
            add("fp8block_down_rows_mid", 392, 656, 4, 2, (128, 128, 128), 5, quant, many,
                "bf16", gather=False, **rows)
        if quant != "Fp8Block":
            add(f"{key}_up_fast", 400, 336, 5, 2, (64, 128, 128), 5, quant, many, "f32",
                activation="silu", fast=True)
            add(f"{key}_down_fast", 264, 208, 5, 2, (128, 128, 128), 6, quant, many, "bf16",
                gather=False, bias=True, fast=True)
        if quant == "Fp8Tensor":  # takes as long as Fp8Channel
            continue
        for rows, stages, tokens in ((64, 8, "128,512"), (128, 5, "512,2048,8192")):
            o = dict(timing=1, group=1)
            add(f"{key}_qwen_up_{rows}", 1536, 2048, 128, 8, (rows, 128, 128), stages, quant,
                tokens, "f32", activation="silu", **o)
            add(f"{key}_qwen_down_{rows}", 2048, 768, 128, 8, (rows, 128, 128), stages, quant,
                tokens, "bf16", gather=False, **o)


SCALINGS = {"Fp8Block": "Group128", "Fp8Channel": "Token", "Fp8Tensor": "StaticTensor"}


def addFusedLayer(plan, name, shape, quant, up, down, tokens, timing=0):
    """up, down: engine, tile, stages, warps or registers, CTAs per SM, group."""
    experts, topk, hidden, inter = shape
    scaling = SCALINGS[quant]
    rows = up[1][0]
    key = f"{name}_{quant.lower()}"
    routing = dict(experts=experts, topk=topk, tileRows=rows)
    x = dict(scaling=scaling, hidden=hidden)
    roles = {
        "few": plan.route(f"few_{key}", fused=True, threads=1024, block=128, **routing),
        "fewx": plan.route(f"fewx_{key}", fused=True, threads=1024, block=128, **x, **routing),
        "route": plan.route(f"{key}", threads=1024, block=64, **routing),
        "routex": plan.route(f"x_{key}", threads=1024, block=64, **x, **routing),
        "permute": plan.permute(key, block=64, **routing)}
    for which, columns, byOffsets, element in (("x", hidden, False, "bf16"),
                                               ("t", inter, True, "f32")):
        roles["quantize" + which] = plan.kernel(
            "quantize", f"{which}_{key}", texts.quantize(
                f"{which}_{key}", columns, scaling, element, byOffsets, experts, experts),
            threads=256)

    def matmul(role, n, k, schedule, **o):
        engine, tile, stages, how, ctas, group = schedule
        warps = None
        if engine == "Wgmma":
            o["registers"] = how
        else:
            warps = how
        gated = "activation" in o
        text = texts.matmul(f"{role}_{key}", n, k, experts, topk, tile, stages, warps,
                            engine=engine, element="e4m3", quant=quant, ctas=ctas, group=group,
                            **o)
        roles[role] = plan.kernel(
            "fused", f"{role}_{key}", text, n=n, k=k, experts=experts, engine=engine,
            tilen=tile[1], ctas=ctas, threads=128 + 2 * tile[1] if engine == "Wgmma"
            else 32 * warps[0] * warps[1],
            shared=texts.matmulShared(tile, stages, "e4m3", o["result"], gated, engine, quant,
                                      o.get("scaling")))
    for withX in (False, True):
        # The intermediate is quantized by gate_up where its scale is given, or where
        # a CTA computes all columns that share one.
        inside = quant == "Fp8Tensor" or (
            quant == "Fp8Block" and up[0] == "Wgmma" and rows <= 64)
        for withT in (False, True) if inside else (False,):
            matmul("up" + "t" * withT + "x" * withX, 2 * inter, hidden, up, result="f32",
                   activation="silu", early=not withX, scaling=scaling if withT else None)
    matmul("down", hidden, inter, down, result="bf16", gather=False)
    plan.lines.append(
        f"fused name={key} E={experts} K={topk} H={hidden} I={inter} quant={quant} "
        f"tilerows={rows} timing={timing} tokens={tokens} " +
        " ".join(f"{role}={kernel}" for role, kernel in roles.items()))


def addFused(plan):
    def wgmma(rows, stages, columns=128, ctas=1, registers=(56, 224), group=1):
        return ("Wgmma", (rows, columns, 128), stages, registers, ctas, group)

    def sync(rows, columns, depth, stages, warps, ctas, group=1):
        return ("MmaSync", (rows, columns, depth), stages, warps, ctas, group)
    few = sync(16, 64, 128, 4, (1, 4), 3)
    for quant in SCALINGS:
        for name, shape, up, down, tokens in (
                ("few", (6, 2, 256, 208), few, few, "1,7,33"),
                ("many", (5, 2, 336, 272), sync(128, 128, 64, 3, (2, 4), 1),
                 sync(128, 128, 64, 3, (2, 4), 1), "2,100,300"),
                ("wide", (3, 2, 144, 400), sync(64, 256, 64, 3, (2, 4), 1),
                 sync(64, 256, 64, 3, (2, 4), 1), "65,200"),
                ("wgmma", (5, 2, 400, 336), wgmma(128, 5, group=3), wgmma(128, 5), "2,100,300"),
                ("wgmma_mid", (3, 2, 336, 640), wgmma(64, 8), wgmma(64, 8), "9,100,400"),
                ("wgmma_few", (6, 3, 208, 272), wgmma(16, 10), wgmma(16, 10), "1,7,33"),
                ("wgmma_narrow", (6, 2, 208, 400), wgmma(32, 5, 64, 2, (48, 208)),
                 wgmma(32, 5, 64, 2, (48, 208)), "7,33,140")):
            addFusedLayer(plan, name, shape, quant, up, down, tokens)
        for model, shape in (("qwen3", (128, 8, 2048, 768)), ("dsv3tp8", (256, 8, 7168, 256))):
            for name, up, tokens in (
                    ("sync16", few, "1,8,32,128"),
                    ("wgmma16", wgmma(16, 10), "8,32,128"),
                    ("wgmma64", wgmma(64, 8), "512"),
                    ("wgmma128", wgmma(128, 5), "512,8192")):
                addFusedLayer(plan, f"{model}_{name}", shape, quant, up, up, tokens, 1)


def addLayerTimings(plan, model, rows, tokens, schedules, sample=True):
    experts, topk, hidden, inter = MODELS[model]
    key = model.replace("-", "_")
    base = dict(experts=experts, topk=topk, tileRows=rows)
    fused = plan.route(f"t_{key}_{rows}", timing=1, fused=True, threads=1024, block=64, **base)
    routeKernel = plan.route(f"t_{key}_split", timing=1, threads=1024, block=64,
                             experts=experts, topk=topk)
    permute = plan.permute(f"t_{key}_{rows}", timing=1, threads=512, block=64, **base)
    few = plan.combine(f"t_{key}_few", hidden, topk, timing=1, threads=64,
                       blocks=hidden // 512)
    combine = plan.combine(f"t_{key}", hidden, topk, timing=1)
    ups, downs = [], []
    for tile, stages, how, ctas, group, engine in schedules:
        name = (f"t_{key}_{engine}_{tile[0]}x{tile[1]}x{tile[2]}_s{stages}_"
                f"{how[0]}x{how[1]}_c{ctas}_g{group}")
        o = dict(ctas=ctas, group=group, timing=1, engine=engine)
        if engine == "Wgmma":
            o["registers"], how = how, None
        ups.append(plan.matmul("up_" + name, 2 * inter, hidden, experts, topk, tile, stages,
                               how, activation="silu", **o))
        downs.append(plan.matmul("down_" + name, hidden, inter, experts, topk, tile, stages,
                                 how, gather=False, **o))
    plan.lines.append(
        f"time model={model} E={experts} K={topk} H={hidden} I={inter} dtype=bf16 "
        f"tilerows={rows} fused={fused} route={routeKernel} permute={permute} "
        f"few={few} combine={combine} gateup={','.join(ups)} "
        f"down={','.join(downs)} tokens={tokens} sample={int(sample)}")


def addWgmmaTimings(plan):
    warps = {16: (1, 4), 64: (1, 4), 128: (2, 4)}
    for model, rows in WGMMA_TOKENS.items():
        for tileRows, tokens in rows.items():
            schedules = [
                (tile, stages, registers or warps[tileRows], ctas, group,
                 "Wgmma" if registers else "MmaSync")
                for tile, stages, registers, ctas, group in WGMMA_SCHEDULES[tileRows]]
            addLayerTimings(plan, model, tileRows, tokens, schedules,
                            sample=model == "qwen3-30b")


def addTimings(plan):
    for model, (experts, topk, hidden, inter) in MODELS.items():
        for rows in (16, 32, 64, 128):
            tokens = {16: "1,8,32,128", 32: "32,128,512", 64: "32,128,512,2048",
                      128: "512,2048,8192"}[rows]
            if model == "mixtral-8x7b":
                tokens = {16: "1,8,32", 32: "32", 64: "32,128,512", 128: "512,2048,8192"}[rows]
            addLayerTimings(plan, model, rows, tokens,
                            [(*s, "MmaSync") for s in SCHEDULES[rows]])
        for block, tokens in ((64, "128,2048,8192"), (256, "8192,40960")):
            key = f"{model.replace('-', '_')}_order_{block}"
            route = plan.route(key, timing=1, threads=1024, block=block, experts=experts,
                               topk=topk)
            permute = plan.permute(key, timing=1, threads=512, block=block,
                                   experts=experts, topk=topk, tileRows=128)
            plan.lines.append(f"order model={model} E={experts} K={topk} H={hidden} "
                              f"I={inter} dtype=bf16 tilerows=128 block={block} "
                              f"route={route} permute={permute} tokens={tokens}")


def main(arguments):
    arch = "sm_90a"
    names = [a for a in arguments if not a.startswith("-")]
    for argument in arguments:
        if argument.startswith("--arch="):
            arch = argument[7:]
    if not names:
        print(__doc__, file=sys.stderr)
        return 2
    plan = Plan(names[0], arch)
    plan.kernel("fill", "fill", ("moec_fill", FILL), threads=256)
    if "checks" in names[1:] or not names[1:]:
        addChecks(plan)
    if "timings" in names[1:] or not names[1:]:
        addTimings(plan)
    if "wgmma" in names[1:]:
        addWgmmaTimings(plan)
    if "scaled" in names[1:]:
        addScaled(plan)
    if "fused" in names[1:]:
        addFused(plan)
    if "routing" in names[1:]:
        routing.addRouting(plan)
    if "few" in names[1:]:
        few.addChecks(plan)
    if "few-timings" in names[1:]:
        few.addTimings(plan)
    if "slices" in names[1:]:
        slices.addSlices(plan)
    if "conversions" in names[1:]:
        plan.kernel("conversions", "all", conversions_text.text(), threads=256, words=conversions_text.WORDS)
    return 1 if plan.write() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
