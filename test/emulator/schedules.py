#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schedules that models get on GPUs that nobody ran, in a small layer on the emulator, against the reference and with all checkers.

Each schedule of engine mma_sync that a layer of MODELS gets on an arch of ARCHS is forced on both matmuls of SHAPE by rows of --tuned,
with some more tokens than a tile has rows, and must fit the arch's shared memory. By default every STEPth runs, with --all or
MOEC_TEST_ALL=1 each. --only: schemes and archs whose names have the word, sm_89-int4_w4a16 say.
"""

import concurrent.futures
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import passed  # noqa: E402

ARCHS = {"sm_80": "a100_sxm", "sm_89": "l40s", "sm_120f": "rtx_5090"}
SHARED_BYTES = {"sm_80": 163 * 1024, "sm_89": 99 * 1024, "sm_120f": 99 * 1024}
MODELS = ("qwen3-30b-a3b", "mixtral-8x7b", "gpt-oss-20b", "deepseek-v3")
# Element types of operands by scheme, as rows of schedules have them.
SCHEMES = {"bf16": "bf16", "fp8_channel": "f8E4M3FN", "fp8_block": "f8E4M3FN", "int8_channel": "i8", "int4_w4aint8": "i8 i4",
           "int4_w4a16": "bf16 i4", "mxfp4_w4a16": "bf16 f4E2M1FN", "nvfp4_w4a16": "bf16 f4E2M1FN", "fp8_w8a16": "bf16 f8E4M3FN",
           "nvfp4": "bf16 f4E2M1FN"}
ENGINE = "mma_sync"
SHAPE = {"num_experts": 3, "top_k": 2, "hidden_size": 384, "intermediate_size": 512}
MORE_TOKENS = 5
STEP = 12
LIMIT = 600


def matmuls_of(tools, source, words):
    """The matmuls of ENGINE in the report of a layer. Raises RuntimeError if it is refused."""
    status, output, errors = testing.run([tools.moec, "explain", source, "--json", "--no-tuned-store", *words], LIMIT)
    if status:
        raise RuntimeError(f"{source.name} {words}: {errors.strip()[-300:]}")
    kernels = [kernel for variant in json.loads(output)["targets"][0]["variants"] for kernel in variant["kernels"]]
    return [kernel for kernel in kernels if kernel.get("engine") == ENGINE and "grouped_matmul" in kernel["stages"]]


def cases_of(tools, arch, scheme):
    """(arch, scheme, tile, stages, warps) of the schedules that models get."""
    found = set()
    for model in MODELS:
        words = [f"--arch={arch}", f"--gpu={ARCHS[arch]}", f"--scheme={scheme}"]
        for kernel in matmuls_of(tools, ROOT / "examples" / "models" / f"{model}.json", words):
            found.add((arch, scheme, tuple(kernel["tile"]), kernel["pipeline_stages"], tuple(kernel["warps"])))
    return sorted(found)


def fault_of(tools, work, real, cases, case):
    """The name of a schedule, and None or what is wrong with it: "passed over" if it is not legal in the small layer."""
    arch, scheme, tile, stages, warps = case
    name = f"{arch}-{scheme}-{'x'.join(map(str, tile))}-s{stages}-{'x'.join(map(str, warps))}"
    folder, tokens = work / name, tile[0] + MORE_TOKENS
    folder.mkdir(parents=True, exist_ok=True)
    layer = {"moec_layer": 1, "name": "schedules", **SHAPE, "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu",
             "quant_config": scheme}
    hidden, intermediate = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    rows = [{"gpu": ARCHS[arch], "tokens": [1, tokens],
             "problem": {"n": n, "k": k, "experts": SHAPE["num_experts"], "pairs": SHAPE["top_k"],
                         "element_type": SCHEMES[scheme], "gated": first, "gather": first, "scheme": scheme},
             "schedule": {"engine": ENGINE, "tile": tile, "stages": stages, "warps": warps, "group": 1},
             "measured": {"tokens": tokens, "microseconds": 1.0, "noise": 0.0, "date": "2026-11-30", "commit": "none"}}
            for n, k, first in ((2 * intermediate, hidden, True), (hidden, intermediate, False))]
    (folder / "layer.json").write_text(json.dumps(layer))
    (folder / "tuned.json").write_text(json.dumps({"tuned": 2, "rows": rows}))
    words = [f"--arch={arch}", f"--gpu={ARCHS[arch]}", f"--engine={ENGINE}", f"--max-tokens={tokens}", f"--tuned={folder / 'tuned.json'}"]
    made = [kernel for kernel in matmuls_of(tools, folder / "layer.json", words)
            if (tuple(kernel["tile"]), kernel["pipeline_stages"], tuple(kernel["warps"])) == (tile, stages, warps)]
    if not made:
        return name, "passed over"
    largest = max(kernel["shared_bytes"] for kernel in made)
    if largest > SHARED_BYTES[arch]:
        return name, f"{largest} bytes of shared memory, the arch has {SHARED_BYTES[arch]}"
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", "--no-cubin", "--no-tuned-store", *words,
                                     "-o", folder / "package"], LIMIT)
    if status:
        return name, errors.strip()[-300:]
    settings = testing.emulator_settings(arch, scheme, "random")
    digest = cases.digest(folder / "package", name, str(tokens), settings)
    if cases.has(name, digest):
        return name, None
    status, output, errors = testing.run(
        [tools.moec_check, folder / "package", "--device=emulated", "--check", "--alone", "--json", f"--tokens={tokens}"], LIMIT,
        MOEC_NVRTC_PATH=real, MOEC_EMULATOR=settings, MOEC_CACHE_DIR=work / "cache",
        MOEC_WORKER="off", MOEC_JOBS="1", MOEC_TUNED_STORE="off")
    if status or "emulator:" in errors or not all(run["passed"] for run in json.loads(output)["runs"]):
        return name, f"moec-check exited with {status}: {errors.strip()[-400:]}"
    cases.add(name, digest)
    return name, None


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--update", action="store_true", help="write test/golden/emulated-schedules.txt, if all pass")
    options = parser.parse_args()
    real = nvrtc.find()
    if real is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started, tools, work = time.monotonic(), testing.Tools(options.bin), Path(options.work)
    every = options.all or testing.runs_all()
    listed = passed.Cases(nvrtc.Nvrtc(real).release(), __file__, options.update, not (every or options.only))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        wanted = [(arch, scheme) for arch in ARCHS for scheme in SCHEMES if options.only in f"{arch}-{scheme}"]
        cases = [case for cases in pool.map(lambda each: cases_of(tools, *each), wanted) for case in cases]
        cases = cases[::1 if every else STEP]
        failures, passed_over = 0, 0
        for name, fault in pool.map(lambda case: fault_of(tools, work, real, listed, case), cases):
            passed_over += fault == "passed over"
            failures += fault not in (None, "passed over")
            if fault:
                print(f"{'FAILED ' if fault != 'passed over' else ''}{name}: {fault}", flush=True)
    known = listed.end(failures)
    print(f"{len(cases)} schedules, {known}, {passed_over} passed over, {failures} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures or passed_over == len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
