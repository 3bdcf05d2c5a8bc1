#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the matmuls of models to cubins and counts their instructions, without a GPU.

Prints a table with a line for each scheme, arch, tile and warps of engine mma_sync_scaled: models, different kernels, registers,
multiplies (OMMA, QMMA) of a kernel and those of a warp and stage of k, calls, and loads and stores of local memory. Kernels with another
number of multiplies than whole stages are named, and the exit status is 1. --every: also kernels that are no matmuls, which are named
where they have a call or local memory. nvdisasm is no part of every toolkit: pip install nvidia-cuda-nvdisasm.
"""

import argparse
import collections
import concurrent.futures
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "test" / "conformance"))
import nvrtc as binding  # noqa: E402

INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+ +)?([A-Z][\w.]*)", re.MULTILINE)
# In .nv.info: the format and number of EIATTR_REGCOUNT, its size, a symbol, and the registers.
REGISTERS = re.compile(rb"\x04\x2f\x08\x00....(....)", re.DOTALL)
ENGINE = "mma_sync_scaled"
APART = "--no-shared-experts"  # of models that are refused with their shared experts
STEPS = 4  # MMA steps along K in a pipeline stage


def of_a_stage(schedule):
    """Multiplies of 16 tokens by 8 weight rows of a warp; and those of the warps that share the last rows of a tile of 128 tokens."""
    tokens, rows, _ = schedule["tile"]
    of_m, of_n = schedule["warps"]
    made = [STEPS * (tokens // of_m // 16) * (rows // of_n // 8)]
    if tokens >= 128 and rows % (of_m * of_n * 16) == 0:
        made.append(STEPS * (tokens // 4 // 16) * (rows // (of_m * of_n) // 8))
    return made


class Counter:
    """Counts the instructions of kernels, of each text once."""

    def __init__(self, arguments):
        self.arguments, self.nvrtc, self.counted = arguments, binding.Nvrtc(binding.find()), {}
        self.pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)

    def count(self, source, headers, options):
        """(registers, counts of opcodes)"""
        error, log, _, cubin = self.nvrtc.compile(source, "kernel.cu", headers, options)
        if error:
            raise RuntimeError(f"{error}: {log[:300]}")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(cubin)
            file.flush()
            text = subprocess.run([self.arguments.nvdisasm, "-c", file.name], check=True, capture_output=True, text=True).stdout
        opcodes = collections.Counter(word.split(".")[0] for word in INSTRUCTION.findall(text))
        return max((int.from_bytes(each, "little") for each in REGISTERS.findall(cubin)), default=0), opcodes

    def kernels_of(self, model, scheme):
        """(arch, name, schedule, future of counts) of the kernels of a model. Raises RuntimeError if it is refused."""
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder) / "package"
            words = [f"--scheme={scheme}", f"--arch={self.arguments.arch}", f"--max-tokens={self.arguments.max_tokens}", "--no-tuned-store"]
            command = [self.arguments.moec, "compile", model, *words, "--no-cubin", "-o", package]
            done = subprocess.run(command, capture_output=True, text=True)
            if APART in done.stderr:
                done = subprocess.run([*command, APART], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip()[-300:])
            for target in json.loads((package / "manifest.json").read_text())["targets"]:
                for kernel in target["kernels"]:
                    schedule = target["report"]["schedules"].get(kernel["name"], {})
                    if not self.arguments.every and schedule.get("engine") != ENGINE:
                        continue
                    source = (package / kernel["source"]).read_text().replace(kernel["entry"], "moec_kernel")
                    key = source, *kernel["options"]
                    if key not in self.counted:
                        headers = {header: (package / "include" / header).read_text() for header in kernel["headers"]}
                        self.counted[key] = self.pool.submit(self.count, source, headers, kernel["options"])
                    yield target["arch"], kernel["name"], schedule, key


def is_whole(multiplies, stages):
    """Whether a kernel has the multiplies of one stage, or of some of each kind of warps."""
    first, *others = stages
    left = [multiplies - first * count for count in range(1, multiplies // first + 1)]
    return any(rest > 0 and rest % others[0] == 0 for rest in left) if others else 0 in left


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", required=True, help="the program")
    parser.add_argument("--nvdisasm", required=True, help="the program")
    parser.add_argument("--models", type=Path, required=True, help="a folder of config.json files, examples/models say")
    parser.add_argument("--schemes", default="nvfp4,mxfp4")
    parser.add_argument("--arch", default="sm_120f,sm_121a")
    parser.add_argument("--max-tokens", type=int, default=8192)
    parser.add_argument("--only", default="", help="models whose names have one of the words")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    started, counter, uses, refused, faults = time.monotonic(), Counter(arguments), [], [], []
    models = [path for path in sorted(arguments.models.glob("*.json")) if any(word in path.stem for word in arguments.only.split(","))]
    for model in models:
        for scheme in arguments.schemes.split(","):
            try:
                uses += [(model.stem, scheme, *kernel) for kernel in counter.kernels_of(model, scheme)]
            except RuntimeError as error:
                refused.append(f"{model.stem} {scheme}: {error}")
        print(f"# {model.stem}: {len(counter.counted)} kernels, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    rows = {}
    for model, scheme, arch, name, schedule, key in uses:
        registers, opcodes = counter.counted[key].result()
        multiplies, calls, local = opcodes["OMMA"] + opcodes["QMMA"], opcodes["CALL"], opcodes["LDL"] + opcodes["STL"]
        title = f"{model} {scheme} {arch} {name}"
        if calls or local:
            print(f"{title}: {calls} calls, {local} accesses of local memory")
        if schedule.get("engine") != ENGINE:
            continue
        stages = of_a_stage(schedule)
        if not is_whole(multiplies, stages):
            faults.append(f"{title}: {multiplies} multiplies, of a stage {stages}")
        words = ("x".join(map(str, schedule[word])) for word in ("tile", "warps"))
        row = rows.setdefault((scheme, arch, *words, "+".join(map(str, stages))), ({}, set()))
        row[0][key] = registers, multiplies, calls, local
        row[1].add(model)
    print("| scheme | arch | tile | warps | models | kernels | registers | multiplies | of a stage | calls | local |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for (scheme, arch, tile, warps, stage), (kernels, names) in sorted(rows.items()):
        registers, multiplies, calls, local = (sorted({each[i] for each in kernels.values()}) for i in range(4))
        print(f"| {scheme} | {arch} | {tile} | {warps} | {len(names)} | {len(kernels)} | {registers[0]} to {registers[-1]} | "
              f"{', '.join(map(str, multiplies))} | {stage} | {sum(calls)} | {sum(local)} |")
    for fault in [*refused, *faults]:
        print(fault)
    print(f"{len(models)} models, {len(refused)} refused, {len(counter.counted)} kernels, {len(faults)} with other multiplies, "
          f"{time.monotonic() - started:.0f} s")
    return 1 if faults or not counter.counted else 0


if __name__ == "__main__":
    sys.exit(main())
