#!/usr/bin/env python3
# ===- thermometer.py - what PyTorch reaches on this card, now ----------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times what does not change with moec, so that two runs of the bench can be told apart from two states of a card.

  bench/run/thermometer.py [--json] [--out=FILE]

* Two cells of torch._grouped_mm, both matmuls of a layer in one CUDA graph, cold weights, random data, near-uniform rows:
  one that the memory bounds and one that the matrix units bound, beside what the baseline's card took for the same, where
  that was measured.
* The matmul rates of cuBLAS (bf16) and cuBLASLt (fp8 by row), 8192^3, beside those of this GPU's floor.

Exit status 77 and one line where there is no PyTorch, no GPU or no torch._grouped_mm."""

import argparse
import json
import statistics
import sys
import time

import benchlib

# expected_us: by GPU, the sum of both grouped matmuls in the baseline's profile of `gmm` (bench/baseline/README.md).
CELLS = (
    {"name": "qwen3-30b-a3b, 512 tokens", "bound": "memory", "experts": 128, "top_k": 8, "hidden": 2048, "width": 768,
     "tokens": 512, "expected_us": {"h100_sxm": 474.5}},
    {"name": "mixtral-8x7b, 2048 tokens", "bound": "matmul", "experts": 8, "top_k": 2, "hidden": 4096, "width": 14336,
     "tokens": 2048, "expected_us": {"h100_sxm": 2331.3}},
)
TOLERANCE = 0.05
SIDE = 8192


def compared(value, expected):
    """The ratio to what is expected, and whether it is off; None and False where nothing is."""
    if expected is None:
        return {"ratio": None, "off": False}
    return {"ratio": value / expected, "off": abs(value / expected - 1) > TOLERANCE}


def flops_of(cell):
    return 6 * cell["tokens"] * cell["top_k"] * cell["hidden"] * cell["width"]


def row_of(cell, us, gpu):
    expected = cell["expected_us"].get(gpu)
    return {"name": cell["name"], "bound": cell["bound"], "us": us, "expected_us": expected, **compared(us, expected),
            "tflops": flops_of(cell) / us / 1e6}


def rate_row(name, tflops, expected):
    return {"name": name, "tflops": tflops, "floor_tflops": expected, **compared(tflops, expected)}


class Timer:
    """The method of moec-bench: a graph, 3 warm replays with an idle 100 ms behind the first, 7 to 300 timed ones."""

    def __init__(self, torch):
        self.torch = torch

    def graph(self, work):
        torch = self.torch
        torch.cuda.synchronize()  # the operands come from another stream
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = work()
        return graph, kept

    def replay(self, graph):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1000

    def us(self, work, budget_ms=40, least=7, passes=3):
        graph, kept = self.graph(work)
        medians = []
        for _ in range(passes):
            if self.replay(graph) > 400:
                time.sleep(0.1)
            for _ in range(2):
                self.replay(graph)
            times = []
            while len(times) < least or (sum(times) < budget_ms * 1000 and len(times) < 300):
                times.append(self.replay(graph))
            medians.append(statistics.median(times))
        del kept
        return statistics.median(medians)


def time_cell(torch, timer, cell, gpu):
    def random(*extents):
        return torch.randn(*extents, device="cuda", dtype=torch.bfloat16)

    logits = torch.randn(cell["tokens"], cell["experts"], device="cuda")
    ids = logits.topk(cell["top_k"], dim=-1).indices
    ends = torch.bincount(ids.flatten(), minlength=cell["experts"]).cumsum(0).to(torch.int32)
    rows = cell["tokens"] * cell["top_k"]
    lhs, middle = random(rows, cell["hidden"]), random(rows, cell["width"])
    first = random(cell["experts"], 2 * cell["width"], cell["hidden"]) * 0.02
    second = random(cell["experts"], cell["hidden"], cell["width"]) * 0.02

    def work():
        return (torch._grouped_mm(lhs, first.transpose(-2, -1), offs=ends),
                torch._grouped_mm(middle, second.transpose(-2, -1), offs=ends))

    return row_of(cell, timer.us(work), gpu)


def time_rates(torch, timer, gpu):
    flops = 2 * SIDE**3
    floor = benchlib.RATES_OF_GPU.get(gpu, {})
    a, b = (torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    rates = [rate_row("cuBLAS bf16 8192^3", flops / timer.us(lambda: a @ b, 60) / 1e6, floor.get("matmul_tflops"))]
    a, b = (matrix.to(torch.float8_e4m3fn) for matrix in (a, b))
    by_row = torch.ones(SIDE, 1, device="cuda")
    by_column = torch.ones(1, SIDE, device="cuda")

    def fp8():
        return torch._scaled_mm(a, b.t(), scale_a=by_row, scale_b=by_column, out_dtype=torch.bfloat16, use_fast_accum=True)

    rates.append(rate_row("cuBLASLt fp8 8192^3 by row", flops / timer.us(fp8, 60) / 1e6, floor.get("fp8_tflops")))
    return rates


def measure(torch):
    torch.manual_seed(1)
    timer = Timer(torch)
    result = {"moec_thermometer": 1, "device": torch.cuda.get_device_name(0), "torch": torch.__version__, "cells": [],
              "rates": [], "errors": []}
    gpu = benchlib.GPUS.get(result["device"])
    for cell in CELLS:
        try:
            result["cells"].append(time_cell(torch, timer, cell, gpu))
        except RuntimeError as error:
            result["errors"].append(f"{cell['name']}: {str(error).splitlines()[0]}")
        torch.cuda.empty_cache()
    try:
        result["rates"] = time_rates(torch, timer, gpu)
    except RuntimeError as error:
        result["errors"].append(f"rates: {str(error).splitlines()[0]}")
    result["off"] = any(row["off"] for row in result["cells"] + result["rates"])
    return result


def verdict(row, expected, what):
    if row["ratio"] is None:
        return f"no {what} for this GPU"
    return f"{expected} ({100 * (row['ratio'] - 1):+.1f} %){' MORE THAN 5 % OFF' if row['off'] else ''}"


def lines(result):
    for row in result["cells"]:
        expected = verdict(row, f"{row['expected_us']} us on the baseline's card", "time of the baseline")
        yield f"torch._grouped_mm, {row['name']} ({row['bound']} bound): {row['us']:.1f} us, {expected}"
    for row in result["rates"]:
        expected = verdict(row, f"floor by {row['floor_tflops']}", "rate of the floor")
        yield f"{row['name']}: {row['tflops']:.0f} TFLOP/s, {expected}"
    for error in result["errors"]:
        yield f"not timed: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--out", help="write it to this file, too")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("thermometer.py: skipped, PyTorch is not installed for this python3", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("thermometer.py: skipped, PyTorch finds no GPU", file=sys.stderr)
        return 77
    if not hasattr(torch, "_grouped_mm"):
        print(f"thermometer.py: skipped, PyTorch {torch.__version__} has no torch._grouped_mm", file=sys.stderr)
        return 77
    result = measure(torch)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    print(json.dumps(result, indent=1) if options.json else "\n".join(lines(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
