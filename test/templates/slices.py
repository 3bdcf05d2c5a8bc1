# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The second matmul and combine: in two launches, and in slices by one."""

import texts

RESET = """#include "moe/core/ptx.cuh"
struct Args { int *tile_count; };
extern "C" __global__ void __launch_bounds__(32) moec_reset(const __grid_constant__ Args args) {
  moe::ptx::waitForPredecessor();
  moe::ptx::launchDependents();
  if (threadIdx.x < 8) args.tile_count[1 + threadIdx.x] = 0;
}
"""

SHARED_LIMIT = 232448
# By threads: warpgroups that do not multiply; registers of those, and of the others.
OTHERS = {512: (2, 88, 168), 640: (3, 72, 128)}


def rowsOf(tokens, topk, experts, processors):
    """Rows that a CTA keeps at most: those of each expert begin at a multiple of 8."""
    eights = (tokens * topk + 7 * experts) // 8
    return -(-eights // processors) * 8


def sharedOf(k, topk, element, quant, rows, tokens, tileM, columns, stages, buffers, threads,
             atoms):
    size = texts.SIZES[element]
    steps = -(-k * size // 128)
    scales = stages * columns * 128 + steps * rows * 128
    total = scales + (-(-k // 128) * rows * 4 if quant == "Fp8Block" else 0)
    total += max((rows // 8 + 1) * 16, 128) + -(-tokens * topk // 2) * 16
    total = max(total, scales + 24 * 128)
    staged = min(tileM, 64 // atoms) * (64 * atoms * 2 + 16)
    total += (threads // 128 - OTHERS[threads][0]) * staged
    return total + -(-stages // 4) * 16 + (2 * stages + 4 * buffers) * 8


def downSlices(name, experts, topk, hidden, inter, element, quant, rows, tokens, tileM,
               columns, stages, buffers, threads, atoms, bias=False, early=True):
    fields = [(f"const {texts.TYPES[element]} *", "lhs"), ("const int4 *", "tiles"),
              ("int *", "tile_count"), ("moe::TensorMap", "rhs")]
    if quant != "None":
        fields += [("const float *", "lhs_scale"), ("const float *", "rhs_scale")]
    if bias:
        fields += [("const moe::bf16 *", "bias")]
    fields += [("moe::bf16 *", "partials"), ("const int *", "positions"),
               ("const float *", "topk_weights"), ("int", "tokens"), ("moe::bf16 *", "out")]
    schedule = " ".join(texts.constants(
        kTileM=tileM, kTileN=columns, kTileK=128 // texts.SIZES[element], kStages=stages,
        kBuffers=buffers,
        kOtherWarpgroups=OTHERS[threads][0], kProducerRegisters=OTHERS[threads][1],
        kConsumerRegisters=OTHERS[threads][2], kCtasPerSm=1))
    members = texts.common(threads, True, True) + [
        f"using Input = {texts.TYPES[element]};", "using Result = moe::bf16;",
        "using Output = moe::bf16;", f"using Quant = moe::quant::{quant};",
        "using Activation = moe::activation::None;",
        f"using Mma = moe::mma::Wgmma<{texts.TYPES[element]}" +
        (f", false, {atoms}>;" if atoms > 1 else ">;"),
        f"struct Schedule {{ {schedule} }};"] + texts.constants(
            kN=hidden, kK=inter, kExperts=experts, kTopK=topk, kBias=bias, kInterleave=0,
            kTilesEarly=early, kRows=rows, kTokens=tokens)
    entry = f"moec_down_slices_{name}"
    shared = sharedOf(inter, topk, element, quant, rows, tokens, tileM, columns, stages,
                      buffers, threads, atoms)
    return entry, texts.text("down_slices", fields, members, entry, "downSlices", threads, 1, shared)


def addCell(plan, name, shape, quant, tokens, variants, processors, timing, patterns="uniform",
            bias=False):
    """variants: tileM, columns, buffers, threads, and atoms of 64 columns where not 1."""
    experts, topk, hidden, inter = shape
    element = "bf16" if quant == "None" else "e4m3"
    key = f"{name}_{quant.lower()}_{tokens}"
    size = texts.SIZES[element]
    baseTile = ((128, 128, 128), 5) if size == 1 else (
        ((256, 128, 64), 4) if tokens > 2048 else ((192, 128, 64), 5))
    if not timing:
        baseTile = ((64, 128, 128 // size), 4)
    roles = {"combine": plan.combine(f"{key}", hidden, topk)}
    text = texts.matmul(f"down_{key}", hidden, inter, experts, topk, baseTile[0], baseTile[1],
                        None, engine="Wgmma", element=element, quant=quant, result="bf16",
                        gather=False, group=1, bias=bias)
    roles["down"] = plan.kernel(
        "slicesdown", key, text, n=hidden, k=inter, experts=experts, tilen=128,
        tilem=baseTile[0][0], threads=384,
        shared=texts.matmulShared(*baseTile, element, "bf16", False, "Wgmma", quant))
    roles["reset"] = plan.kernel("reset", "reset", ("moec_reset", RESET), threads=32)
    rows = rowsOf(tokens, topk, experts, processors)
    own = -(-tokens // processors)
    ids = []
    for tileM, columns, buffers, threads, *atoms in variants:
        atoms = atoms[0] if atoms else 1
        stages = -(-inter * size // 128)
        def shared(stages):
            return sharedOf(inter, topk, element, quant, rows, own, tileM, columns, stages,
                            buffers, threads, atoms)
        if shared(stages) > SHARED_LIMIT:
            print(f"{key} {columns}: needs {shared(stages)} bytes")
            continue
        most = 4 if not timing else 12
        while stages < most and shared(stages + 1) <= SHARED_LIMIT:
            stages += 1
        variant = f"{key}_m{tileM}_n{columns}_b{buffers}_t{threads}_a{atoms}"
        ids.append(plan.kernel(
            "slices", variant, downSlices(
                variant, experts, topk, hidden, inter, element, quant, rows, own, tileM,
                columns, stages, buffers, threads, atoms, bias),
            n=hidden, k=inter, experts=experts, tilen=columns, buffers=buffers, threads=threads,
            stages=stages, shared=shared(stages)))
    plan.lines.append(
        f"slices name={key} E={experts} K={topk} H={hidden} I={inter} quant={quant} "
        f"tokens={tokens} processors={processors} timing={int(timing)} bias={int(bias)} "
        f"patterns={patterns} variants={','.join(ids)} " +
        " ".join(f"{role}={kernel}" for role, kernel in roles.items()))


def addSlices(plan):
    everything = "uniform,skewed,one,edge,local,few"
    for quant in ("Fp8Block", "None"):
        variants = [(64, 128, 2, 640), (64, 64, 3, 640), (128, 64, 2, 512),
                    (64, 128, 2, 512, 2)]
        addCell(plan, "small", (6, 2, 256, 208), quant, 300, variants, 4, False, everything,
                bias=True)
        addCell(plan, "many", (40, 6, 384, 272), quant, 200, variants, 12, False, everything)
        addCell(plan, "tiny", (3, 1, 128, 64), quant, 70, variants[:3], 3, False, everything)
    addCell(plan, "channel", (6, 3, 256, 400), "Fp8Channel", 200, variants, 4, False, everything)
    fp8 = [(128, 128, 3, 512), (64, 128, 2, 640), (64, 128, 2, 512, 2), (64, 128, 3, 512, 2)]
    bf16 = [(128, 128, 3, 640), (128, 128, 3, 512), (64, 128, 2, 512, 2)]
    deepseek, big, small = (256, 8, 7168, 256), (128, 8, 4096, 384), (128, 8, 2048, 768)
    for name, shape, quant, tokens, variants in (
            ("deepseek", deepseek, "Fp8Block", 8192, fp8),
            ("deepseek", deepseek, "Fp8Channel", 8192, fp8[1:]),
            ("deepseek", deepseek, "Fp8Block", 4096, fp8),
            ("deepseek", deepseek, "Fp8Block", 2048, fp8),
            ("qwen235", big, "Fp8Block", 4096, fp8),
            ("qwen235", big, "Fp8Block", 2048, fp8),
            ("qwen30", small, "Fp8Block", 2048, fp8),
            ("deepseek", deepseek, "None", 4096, bf16),
            ("deepseek", deepseek, "None", 2048, bf16),
            ("qwen235", big, "None", 2048, bf16)):
        addCell(plan, name, shape, quant, tokens, variants, 132, True)
