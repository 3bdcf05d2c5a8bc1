#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes each member that matmul/contract.cuh asks of an engine or a feed out of one that exists, one at a time: the first error of the
compiler must name it. And an atom that is empty ends in the first of them."""

import pathlib
import re
import sys

import compile as nvrtc

FOLDER = pathlib.Path(__file__).resolve().parent / "configs"
MATMUL = "moe/matmul/"
WGMMA = ("atom/wgmma.cuh", "accumulator/warpgroup.cuh")
TCGEN05 = ("atom/tcgen05.cuh", "accumulator/tensor_memory.cuh", "accumulator/warpgroup.cuh")
MMA_SYNC = ("atom/mma_sync.cuh", "accumulator/warp.cuh", "accumulator/sums.cuh")
MMA_SYNC_SCALED = ("atom/mma_sync_scaled.cuh", *MMA_SYNC[1:])
# A Config, the engine that it gets, and the files of that engine's atom and accumulator. What else the Config needs for its engine is
# checked later.
ENGINES = [
    ("wgmma_tail_f16_64x64x64", "Wgmma<moe::f16>", WGMMA),
    ("wgmma_fp8_block_groups_64x128x128", "Wgmma<moe::e4m3>", WGMMA),
    ("wgmma_rs_mxfp4_gate_up_64x128x64", "WgmmaRs<moe::bf16>", ("atom/wgmma_rs.cuh", *WGMMA)),
    ("tcgen05_gate_up_bf16_64x128x64", "Tcgen05<moe::bf16>", TCGEN05),
    ("tcgen05_fp8_block_96x128x128", "Tcgen05<moe::e4m3>", TCGEN05),
    ("tcgen05_nvfp4_gate_up_64x128x128", "Tcgen05Scaled<moe::e2m1x2, moe::e4m3, moe::e2m1x2>", TCGEN05),
    ("gate_up_bf16_16x64x128", "MmaSync<moe::bf16>", MMA_SYNC),
    ("gate_up_bf16_16x64x128", "MmaSync<moe::bf16, true>", MMA_SYNC),
    ("gate_up_bf16_16x64x128", "MmaSyncSlabs<moe::bf16>", MMA_SYNC),
    ("mma_sync_scaled_nvfp4_gate_up_16x64x128", "MmaSyncScaled<moe::e2m1x2, moe::e4m3, moe::e2m1x2>", MMA_SYNC_SCALED),
]
# Feeds, which are no engine's: a Config, the function that checks the feed, and its file.
FEEDS = [
    ("wgmma_tail_f16_64x64x64", "checkWeightFeed", "feed/weight_loader.cuh"),
    ("mma_sync_scaled_nvfp4_gate_up_16x64x128", "checkBlockScaleFeed", "feed/block_scales.cuh"),
]
# kSlabs tells engines apart: without it an engine is another one.
OF_OTHERS, TELLING = {check for _, check, _ in FEEDS}, {"kSlabs", "kSumsInTensorMemory"}
# Archs of engines that sm_90a lacks.
ARCHS = {"Tcgen05": "sm_100f", "Tcgen05Scaled": "sm_100f", "MmaSyncScaled": "sm_120f"}
REQUIRED = re.compile(r"MOE_REQUIRE_(?:VALUE|TYPE|CALL|MEMBER)\(\s*\w+,\s*(?:template )?(\w+)|lacks (?:the type )?(\w+)[(<]")
FUNCTION = re.compile(r"constexpr bool\s+(\w+)\(\) \{(.*?)\n\}", re.DOTALL)


def members_of(body):
    """The members that a function of the contract asks for."""
    return {first or second for first, second in REQUIRED.findall(body)}


def required(headers):
    """The members of engines that the contract names, and those of a Fragment."""
    found = set()
    for text in (headers[f"{MATMUL}contract.cuh"], headers["moe/core/concepts.cuh"]):
        for name, body in FUNCTION.findall(text):
            if name == "checkFragment" or (text is headers[f"{MATMUL}contract.cuh"] and name not in OF_OTHERS):
                found |= members_of(body)
    return found - TELLING


def first_error(library, text, config, arch, changed):
    """The first error of a compiler where some headers are others, or ""."""
    _, log, _, _ = library.compile(text, f"{config}.cu", changed, [*nvrtc.OPTIONS, f"-arch={arch}", f"-I{nvrtc.TEMPLATES}"])
    return next((line for line in log.splitlines() if "error" in line), "")


def is_named(error, member):
    return re.search(rf"lacks (the type )?(template )?{member}\b", error)


def faults_of_feeds(library, headers):
    """(number of members, sentences about those that no error names)."""
    count, faults = 0, []
    checks = dict(FUNCTION.findall(headers[f"{MATMUL}contract.cuh"]))
    for config, check, file in FEEDS:
        text = (FOLDER / f"{config}.cu").read_text(encoding="utf-8")
        arch = "sm_120f" if "scaled" in config else "sm_90a"
        name = f"{MATMUL}{file}"
        if error := first_error(library, text, config, arch, {}):
            faults.append(f"{config}: {error}")
        for member in sorted(members_of(checks[check])):
            count += 1
            # An engine's member of that name stays.
            changed = re.sub(rf"(?<!Mma::)\b{member}\b", f"{member}Gone", headers[name])
            error = "no file has it" if changed == headers[name] else first_error(library, text, config, arch, {name: changed})
            if not is_named(error, member):
                faults.append(f"{config}, {file} without {member}: {error}")
    return count, faults


def main():
    library = nvrtc.openNvrtc()
    if library is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    headers = nvrtc.templates()
    members, named, failures = required(headers), set(), []
    for config, engine, files in ENGINES:
        text = (FOLDER / f"{config}.cu").read_text(encoding="utf-8")
        arch = ARCHS.get(engine.split("<")[0], "sm_90a")
        text = re.sub(r"using Mma = [^;]*;", f"using Mma = moe::mma::{engine};", text)
        if engine.endswith("true>"):  # sums that are promoted have scales
            text = text.replace("moe::quant::None", "moe::quant::Fp8Block")

        fits = not first_error(library, text, config, arch, {})
        for member in sorted(members):
            # The engine alone loses the name: other parts keep it.
            without = {f"{MATMUL}{name}": re.sub(rf"\b{member}\b", f"{member}Gone", headers[f"{MATMUL}{name}"]) for name in files}
            if all(without[name] == headers[name] for name in without):
                continue
            error = first_error(library, text, config, arch, without)
            if is_named(error, member):
                named.add(member)
            elif error and fits:
                failures.append(f"{config}, {engine} without {member}: {error}")

        name = engine.split("<")[0]
        head = "template <class, class, class>" if name in ("MmaSyncScaled", "Tcgen05Scaled") else "template <class, bool = false, int = 1, int = 0>"
        empty = f"#pragma once\nnamespace moe::mma {{ {head} struct {name} {{}}; }}\n"
        error = first_error(library, text, config, arch, {f"{MATMUL}{files[0]}": empty})
        if "lacks the type Input" not in error:
            failures.append(f"{config} with an empty {name}: {error}")
    failures += [f"no engine shows that {member} is asked for" for member in sorted(members - named)]
    of_feeds, faults = faults_of_feeds(library, headers)
    failures += faults
    print("\n".join(failures))
    print(f"{len(members)} members of engines and {of_feeds} of feeds, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
