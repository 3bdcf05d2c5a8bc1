# ===- fixture.py - predictions and measurements that are made up -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A report with times and a result of moec-bench that fits to it, without a GPU and a cost model."""

import copy

TOKENS = (1, 4, 16, 64, 128, 512, 2048, 8192)
HARDWARE = {"gpu": "h100_sxm", "bandwidth_gb_s": 3350, "tensor_tflops": {"16_bit": 989, "8_bit": 1979}, "sms": 132}


def _kernel(kernel, tokens, bytes_, flops):
    seconds = {
        "memory": bytes_ / (HARDWARE["bandwidth_gb_s"] * 1e3),
        "tensor": flops / (HARDWARE["tensor_tflops"]["16_bit"] * 1e6),
        "latency": 2.5,
    }
    bound = max(seconds, key=seconds.get)
    return {"kernel": kernel["name"], "microseconds": round(1.1 * seconds[bound] + 1, 2), "bytes": bytes_, "flops": flops,
            "bound": bound}


def with_times(report):
    """The report with hardware and predictions, as a cost model of three lines says."""
    report = copy.deepcopy(report)
    layer = report["layer"]
    for target in report["targets"]:
        target["hardware"] = dict(HARDWARE, gpu=target["gpu"])
        weights = target["summary"]["weight_bytes"]
        for variant in target["variants"]:
            variant["predictions"] = []
            for tokens in (t for t in TOKENS if variant["tokens"][0] <= t <= variant["tokens"][1]):
                pairs = tokens * layer["top_k"]
                share = min(pairs, layer["num_experts"]) / layer["num_experts"]
                values = pairs * layer["hidden_size"]
                kernels = []
                for kernel in variant["kernels"]:
                    matmul, first = "grouped_matmul" in kernel["stages"], "activate" in kernel["stages"]
                    part = (2 if first else 1) / 3 if matmul else 0
                    kernels.append(_kernel(kernel, tokens, int(weights * share * part + 2 * values),
                                           int(3 * part * 2 * values * layer["intermediate_size"])))
                variant["predictions"].append(
                    {"tokens": tokens, "microseconds": round(sum(k["microseconds"] for k in kernels) - 1, 2), "kernels": kernels})
    return report


def bench_of(report, device="NVIDIA H100 80GB HBM3"):
    """A result of moec-bench that is near the predictions; its last cell ran kernels of another schedule."""
    target = report["targets"][0]
    cells = []
    for variant in target["variants"]:
        for index, row in enumerate(variant["predictions"]):
            time = round(row["microseconds"] * (1.08 - 0.04 * (index % 4)), 2)
            cells.append({
                "tokens": row["tokens"], "us": time, "passes_us": [round(time * 0.99, 2), time, round(time * 1.01, 2)],
                "floor_us": round(time * 0.8, 2), "bytes": sum(k["bytes"] for k in row["kernels"]),
                "flops": sum(k["flops"] for k in row["kernels"]), "variant": variant["name"],
                "kernels": [{"name": k["name"], "entry": k["entry"], "schedule": {}} for k in variant["kernels"]]})
    cells[-1]["kernels"][0]["entry"] += "_other"
    return {
        "moec_bench": 3, "device": device, "suspect": False, "routing": "uniform",
        "packages": [{"package": "a.moec", "name": report["name"], "arch": target["arch"], "layer": report["layer"], "cells": cells}]}
