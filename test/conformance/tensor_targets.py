#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of models by engine tcgen05: what their kernels consist of, and the processor time that a package takes to compile.

  tensor_targets.py --bin=build/bin --work=build/targets [--all] [--only=MODEL,MODEL] [--table=FILE]

Each model of MODELS, with --all each of examples/models, is compiled in each scheme of SCHEMES for sm_100f. A matmul of engine tcgen05 must
have four multiplies in its text, which are those of a stage: a tile has as many as its stages have steps. It commits a stage and a tile, and
has no spill. It calls no function but those that ptxas adds to trap where tensor memory is misused, and the slow path of a division. Each package has
kernels of the engine, and may take MOST_SECONDS of processor time, which is 3 s of 16 cores. --table writes what was seen in Markdown.
"""

import argparse
import collections
import json
import re
import resource
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import compile_all  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402

ROOT = HERE.parent.parent
MODELS = ("qwen3-30b-a3b", "gpt-oss-20b")
SCHEMES = ("bf16", "fp8_block", "nvfp4", "mxfp8", "mxfp4_mxfp8")
ARCH = "sm_100f"
MOST_SECONDS = 3 * 16
# Multiplies of a stage: 128 bytes along k in steps of 32.
STEPS = 4
# The low 11 bits of the opcodes of multiplies into tensor memory.
MULTIPLY = 0x5ea
# Names of the functions that a kernel calls, and those that it may call.
CALLED = re.compile(rb"\$__internal_\d+_\$(__cuda_\w+)")
ALLOWED = re.compile(r"__cuda_sm10x_tcgen05_guardrail_trap_|__cuda_sm3x_div_rn_noftz_f32_slowpath")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def faults_of(cubin, log, ptx, source):
    """Sentences about what a kernel of engine tcgen05 misses. A kernel that promotes sums multiplies its first stage before its loop."""
    counts = collections.Counter(opcode & 0x7ff for opcode in compile_all.opcodes(cubin))
    promotes = "moe::mma::Tcgen05<moe::e4m3, false," in source
    steps = STEPS * (2 if promotes else 1)
    if counts[MULTIPLY] != steps:
        yield f"{counts[MULTIPLY]} multiplies, expected {steps}"
    spills = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores", log)
    if not spills or any(int(number) for pair in spills for number in pair):
        yield f"stack frames and spills {spills}"
    for name in sorted({name.decode() for name in CALLED.findall(cubin)}):
        if not ALLOWED.match(name):
            yield f"a call of {name}"
    commits = ptx.count("tcgen05.commit")
    if commits != 2:
        yield f"{commits} commits, expected two: of a stage and of a tile, or of the first stage and of the others"


def measure(tools, library, folder, model, scheme):
    """(row of the table, faults) of one package."""
    shutil.rmtree(folder, ignore_errors=True)
    begun = cpu_seconds()
    status, _, errors = testing.run([tools.moec, "compile", ROOT / "examples" / "models" / f"{model}.json", f"--scheme={scheme}", f"--arch={ARCH}",
                                     "--no-cubin", "-o", folder], 900)
    if status:
        return (model, scheme, "refused: " + errors.strip().splitlines()[0][:160], "", "", ""), []
    seconds, kernels, multiplying, faults, largest = cpu_seconds() - begun, 0, 0, [], 0
    for name, source, headers, options, _, _ in compile_all.kernels_of(folder):
        options = [option for option in options if "Werror" not in option and "-Xptxas=-warn" not in option] + ["-Xptxas=-v"]
        started = time.process_time()
        error, log, ptx, cubin = library.compile(source, name + ".cu", headers, options)
        seconds += time.process_time() - started
        kernels += 1
        if error:
            faults.append(f"{model} {scheme} {name}: {error}: {log[:300]}")
        elif "moe::mma::Tcgen05" in source:
            multiplying += 1
            largest = max(largest, *map(int, re.findall(r"Used (\d+) registers", log)), 0)
            faults += [f"{model} {scheme} {name}: {fault}" for fault in faults_of(cubin, log, ptx, source)]
    shutil.rmtree(folder)
    if not multiplying:
        faults.append(f"{model} {scheme}: no kernel of engine tcgen05")
    if seconds > MOST_SECONDS:
        faults.append(f"{model} {scheme}: {seconds:.1f} s of processor time, more than {MOST_SECONDS}")
    return (model, scheme, str(kernels), str(multiplying), str(largest), f"{seconds:.1f}"), faults


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="models, with commas")
    parser.add_argument("--table", type=Path)
    options: argparse.Namespace = parser.parse_args()
    path = nvrtc.find()
    if path is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    tools, library, work = testing.Tools(options.bin), nvrtc.Nvrtc(path), Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    models = [one.stem for one in sorted((ROOT / "examples" / "models").glob("*.json"))] if options.all or testing.runs_all() else list(MODELS)
    models = [one for one in options.only.split(",") if one] or models
    started, rows, failures = time.time(), [], []
    for model in models:
        for scheme in SCHEMES:
            row, faults = measure(tools, library, work / "package", model, scheme)
            rows.append(row)
            failures += faults
            print(json.dumps(row), *(f"\nFAILED {fault}" for fault in faults), flush=True)
    if options.table:
        options.table.write_text("| model | scheme | kernels | of tcgen05 | most registers | processor time [s] |\n| --- | --- | ---: | ---: | ---: | ---: |\n"
                                 + "".join(f"| {' | '.join(row)} |\n" for row in rows))
    testing.finish("targets of engine tcgen05", len(rows), failures, started, time.time())
    return 0


if __name__ == "__main__":
    sys.exit(main())
