#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles layers whose two matmuls have descriptors of different kinds, which no named scheme has, and runs them on the host device.

compile_all.py compiles their kernels, so a schedule that a template does not serve is an error there. Needs no GPU.
"""

import itertools
import json
import time

import moec_testing as testing

E4M3 = {"dtype": "f8E4M3FN", "scale": "f32"}
# Descriptors of x or the intermediate, and of the weights beside it.
KINDS = {
    "row": ({**E4M3, "shape": [1, -1], "dynamic": True}, {**E4M3, "shape": [1, -1]}),
    "group": ({**E4M3, "shape": [1, 128], "dynamic": True}, {**E4M3, "shape": [128, 128]}),
    "static": ({**E4M3, "shape": [-1, -1]}, {**E4M3, "shape": [-1, -1]}),
    "tensor": ({**E4M3, "shape": [-1, -1], "dynamic": True}, {**E4M3, "shape": [-1, -1]}),
}
SHAPE = {"num_experts": 8, "top_k": 2, "hidden_size": 1024, "intermediate_size": 1024, "in_dtype": "bf16"}
# Variants up to 128 rows an expert, and of more.
MOST_TOKENS = (512, 65536)


def packages():
    """(name, layer, words of the compiler) of each package."""
    for first, second in itertools.permutations(KINDS, 2):
        (a1, w1), (a2, w2) = KINDS[first], KINDS[second]
        layer = {"moec_layer": 1, "name": "mixed", **SHAPE, "quant_config": {"a1": a1, "w1": w1, "a2": a2, "w2": w2}}
        for most in MOST_TOKENS:
            yield f"mixed-{first}-{second}-{most}", layer, ["--arch=sm_90a", "--gpu=h100_sxm", f"--max-tokens={most}"]


def check(tools, folder, chosen):
    """A sentence for each of these packages that failed, None of another."""
    lines = []
    for name, layer, words in chosen:
        (folder / f"{name}.json").write_text(json.dumps(layer))
        lines.append([folder / f"{name}.json", *words, "-o", folder / name])
    file = folder / f"{chosen[0][0]}.cases"
    outcomes = testing.compile_lines(tools.moec, lines, file, common=["--no-cubin"])
    faults = [f"moec exited with {status}: {said[-600:]}" if status else None for status, said in outcomes]
    if not any(faults):
        names = [name for name, _, _ in chosen if name.endswith(f"-{MOST_TOKENS[-1]}")]
        runs = [(folder / name, ["--tokens=1,33", "--routing=skewed", "--seed=7"]) for name in names]
        return [fault and f"{name}: {fault}" for name, fault in zip(names, testing.run_lines(tools.moec_check, runs, file))]
    return [fault and f"{name}: {fault}" for (name, _, _), fault in zip(chosen, faults)]


def main():
    options = testing.parser(__doc__.splitlines()[0]).parse_args()
    started, scratch, tools = time.time(), testing.Scratch(options.work), testing.Tools(options.bin)
    chosen = list(packages())
    results = testing.parallel(lambda chunk: check(tools, scratch.folder, chunk),
                               testing.in_chunks(chosen, -(-len(chosen) // options.jobs)), options.jobs)
    failures = [fault for chunk in results for fault in chunk if fault]
    testing.finish("two matmuls of other descriptors", len(chosen), failures, started, time.time())


if __name__ == "__main__":
    main()
