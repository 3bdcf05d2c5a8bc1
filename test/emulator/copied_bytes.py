#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bytes that matmuls with scales of blocks copy, as the emulator counts them, are those of the plan, and enough are in flight.

Layers of each scheme with a block engine have one token, and so one row for each of its experts. Both matmuls must then copy the weights
and scales of the touched experts once, within TOLERANCE of the bytes that `moec explain` predicts. Schedules for one token of MODELS must
have IN_FLIGHT bytes on their way to each SM of GPU.
"""

import concurrent.futures
import json
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402

ENGINE, ARCH, GPU = "mma_sync_scaled", "sm_120f", "rtx_5090"
SHAPE = {"num_experts": 6, "top_k": 3, "hidden_size": 1024, "intermediate_size": 512}
TOLERANCE = 0.05
IN_FLIGHT = 8192
MODELS = ("qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v3")
LIMIT = 600
COPIED = re.compile(r"^emulator: launch of (\S+): (\d+) bytes copied$", re.MULTILINE)


def explained(tools, layer, words):
    """The report of `moec explain` for the block engine, or what went wrong."""
    status, output, errors = testing.run([tools.moec, "explain", layer, f"--arch={ARCH}", f"--gpu={GPU}", "--no-tuned-store", "--json", *words], LIMIT)
    return json.loads(output)["targets"][0] if status == 0 else errors.strip()[-300:]


def matmuls_of(variant):
    """The kernels that multiply."""
    return [kernel for kernel in variant["kernels"] if "grouped_matmul" in kernel["stages"]]


def copies_fault(tools, work, real, scheme, engine):
    """None, or a sentence about the bytes of a layer of a scheme."""
    folder = work / scheme
    folder.mkdir(parents=True, exist_ok=True)
    layer = {"moec_layer": 1, "name": "bytes", **SHAPE, "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu",
             "quant_config": scheme}
    (folder / "layer.json").write_text(json.dumps(layer))
    words = [f"--engine={engine}", "--max-tokens=1"]
    report = explained(tools, folder / "layer.json", words)
    if isinstance(report, str):
        return f"{scheme}: {report}"
    variant = report["variants"][0]
    entries = {kernel["name"]: kernel["entry"] for kernel in matmuls_of(variant)}
    planned = {row["kernel"]: row["bytes"] for row in variant["predictions"][0]["kernels"] if row["kernel"] in entries}
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={ARCH}", f"--gpu={GPU}", "--no-cubin", *words,
                                     "-o", folder / "package"], LIMIT)
    if status:
        return f"{scheme}: {errors.strip()[-300:]}"
    status, _, errors = testing.run([tools.moec_check, folder / "package", "--device=emulated", "--check", "--alone", "--tokens=1"], LIMIT,
                                    MOEC_NVRTC_PATH=real, MOEC_EMULATOR=f"arch={ARCH} log=2", MOEC_CACHE_DIR=work / "cache",
                                    MOEC_WORKER="off", MOEC_JOBS="1", MOEC_TUNED_STORE="off")
    if status:
        return f"{scheme}: moec-check exited with {status}: {errors.strip()[-300:]}"
    copied = {}
    for entry, count in COPIED.findall(errors):
        copied.setdefault(entry, set()).add(int(count))
    for name, wanted in planned.items():
        counts = copied.get(entries[name], set())
        if len(planned) != 2 or not counts or any(abs(count - wanted) > TOLERANCE * wanted for count in counts):
            return f"{scheme}: {name} copied {sorted(counts)} bytes, the plan has {wanted:.0f}; launches: {sorted(copied)}"
    return None


def flight_fault(tools, model, scheme):
    """None, or a sentence about the bytes in flight for one token of a model."""
    report = explained(tools, ROOT / "examples" / "models" / f"{model}.json", [f"--scheme={scheme}", f"--engine={ENGINE}", "--max-tokens=1"])
    if isinstance(report, str):
        return f"{model}, {scheme}: {report}"
    for kernel in matmuls_of(report["variants"][0]):
        _, rows, depth = kernel["tile"]
        # Weights alone: the scales and the one row of tokens come in addition.
        flight = (kernel["pipeline_stages"] - 1) * rows * depth
        if flight < IN_FLIGHT:
            return f"{model}, {scheme}, {kernel['name']}: {flight} bytes in flight, expected {IN_FLIGHT}"
    return None


def main():
    options = testing.parser(__doc__).parse_args()
    real = nvrtc.find()
    if real is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started, tools, work = time.monotonic(), testing.Tools(options.bin), Path(options.work)
    schemes = {row["name"]: ENGINE for row in tools.rows()["schemes"] if ENGINE in row["block_engines"]}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        faults = [*pool.map(lambda scheme: copies_fault(tools, work, real, scheme, schemes[scheme]), schemes)]
        faults += pool.map(lambda case: flight_fault(tools, *case), [(model, scheme) for model in MODELS for scheme in schemes])
    faults = [fault for fault in faults if fault]
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{len(schemes)} schemes, {len(faults)} failed, {time.monotonic() - started:.0f} s")
    return 1 if faults or not schemes else 0


if __name__ == "__main__":
    sys.exit(main())
