#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles layers whose two matmuls have descriptors of different kinds, which no named scheme has, and runs them on the host device.

The kernels go through NVRTC, so a schedule that a template does not serve is an error here. Needs no GPU.
"""

import itertools
import json
import pathlib
import sys
import time

import moec_testing as testing
import nvrtc

E4M3 = {"dtype": "f8E4M3FN", "scale": "f32"}
# Descriptors of x or the intermediate, and of the weights beside it.
KINDS = {
    "row": ({**E4M3, "shape": [1, -1], "dynamic": True}, {**E4M3, "shape": [1, -1]}),
    "group": ({**E4M3, "shape": [1, 128], "dynamic": True}, {**E4M3, "shape": [128, 128]}),
    "static": ({**E4M3, "shape": [-1, -1]}, {**E4M3, "shape": [-1, -1]}),
    "tensor": ({**E4M3, "shape": [-1, -1], "dynamic": True}, {**E4M3, "shape": [-1, -1]}),
}
SHAPE = {"num_experts": 8, "experts_per_token": 2, "hidden_dim": 1024, "intermediate_size": 1024, "in_dtype": "bf16"}
# Variants up to 128 rows an expert, and of more.
MOST_TOKENS = (512, 65536)


def check(job):
    """A sentence for each package or run of these pairs of kinds that failed."""
    tools, work, pairs = job
    lines, failures = [], []
    for first, second in pairs:
        (a1, w1), (a2, w2) = KINDS[first], KINDS[second]
        layer = work / f"{first}-{second}.json"
        layer.write_text(json.dumps({"moec_layer": 1, "name": "mixed", **SHAPE, "quant_config": {"a1": a1, "w1": w1, "a2": a2, "w2": w2}}))
        lines += [[layer, f"--max-tokens={most}", "-o", work / f"{first}-{second}-{most}.moec"] for most in MOST_TOKENS]
    cases = work / f"{'-'.join(pairs[0])}.cases"
    outcomes = testing.compile_lines(tools.moec, lines, cases, common=["--arch=sm_90a", "--gpu=h100_sxm"])
    failures = [f"{line[0].stem}, {line[1]}: moec exited with {status}: {said[-600:]}"
                for line, (status, said) in zip(lines, outcomes) if status]
    if not failures:
        runs = [(work / f"{first}-{second}-{MOST_TOKENS[-1]}.moec", ["--tokens=1,33", "--routing=skewed", "--seed=7"])
                for first, second in pairs]
        faults = testing.run_lines(tools.moec_check, runs, cases)
        failures = [f"{package.name}: {fault}" for (package, _), fault in zip(runs, faults) if fault]
    return failures


def main():
    options = testing.parser(__doc__.splitlines()[0]).parse_args()
    if not nvrtc.find():
        print("SKIPPED: no NVRTC found (MOEC_NVRTC_PATH, /usr/local/cuda)")
        sys.exit(77)
    started, work, tools = time.time(), pathlib.Path(options.work), testing.Tools(options.bin)
    work.mkdir(parents=True, exist_ok=True)
    pairs = list(itertools.permutations(KINDS, 2))
    jobs = [(tools, work, chunk) for chunk in testing.in_chunks(pairs, -(-len(pairs) // options.jobs))]
    failures = [failure for failures in testing.parallel(check, jobs, options.jobs) for failure in failures]
    testing.finish("two matmuls of other descriptors", len(pairs), failures, started, time.time())


if __name__ == "__main__":
    main()
