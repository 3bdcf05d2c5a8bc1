#!/usr/bin/env python3
# ===- benchlib.py - shapes, schemes and floors of the bench ------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Helpers of the bench's scripts: its data files, the shape of a result's layer, and a floor from first principles,
against which the tests hold what moec-bench and the baseline say."""

import csv
import json
import pathlib

BENCH = pathlib.Path(__file__).resolve().parents[1]
DATA = BENCH / "data"
ROOT = BENCH.parent
RATES = {"bandwidth_gbs": 3150, "matmul_tflops": 781, "fp8_tflops": 1402}  # of an H100 SXM, as in the catalog's row
RATES_H200 = {"bandwidth_gbs": 4583, "matmul_tflops": 762, "fp8_tflops": 1498}  # the same of an H200
GPUS = {"NVIDIA H100 80GB HBM3": "h100_sxm", "NVIDIA H200": "h200_sxm"}  # by the driver's name
RATES_OF_GPU = {"h100_sxm": RATES, "h200_sxm": RATES_H200}
# Columns of K that share a scale, bytes of the scale.
FOUR_BITS = {"int4_w4a16": (128, 2), "int4_w4afp8": (128, 2), "mxfp4_w4a16": (32, 1), "nvfp4_w4a16": (16, 1)}
KEYS = ("num_experts", "top_k", "hidden_size", "intermediate_size_per_partition", "local_experts")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def layer_of_cell(cell):
    """The numbers that tell a shape, from a layer JSON."""
    parallel = cell.get("moe_parallel_config", {})
    ranks = parallel.get("tp_size", 1)
    spread = parallel.get("use_ep", False)
    experts, width = cell["num_experts"], cell["intermediate_size"]
    return {"num_experts": experts, "top_k": cell["top_k"], "hidden_size": cell["hidden_size"],
            "intermediate_size_per_partition": width if spread else width // ranks,
            "local_experts": experts // ranks if spread else experts}


def shapes(folder=DATA):
    """The shapes of shapes.json, each with its numbers and all of its token counts."""
    data = read(folder / "shapes.json")
    rows = []
    for row in data["shapes"]:
        numbers = layer_of_cell(read(folder / "cells" / f"{row['shape']}.json"))
        rows.append({"shape": row["shape"], **numbers, "tokens": data["tokens"] + row.get("more_tokens", [])})
    return rows


def schemes_of(row, data, kinds=("schemes", "four_bit")):
    """{scheme: row of target_ratio} of one of the shapes of shapes.json."""
    found = {}
    for kind in kinds:
        found.update(row.get(kind, data.get(kind, {})))
    return found


def shape_of(layer, rows):
    """The name of the shape with the numbers of a manifest's layer, else the layer's own name."""
    numbers = {key: layer.get(key) for key in KEYS}
    numbers["local_experts"] = layer.get("local_experts", {}).get("count")
    for row in rows:
        if all(row[key] == numbers[key] for key in KEYS):
            return row["shape"]
    return layer["name"]


def gpu_of(device):
    """The catalog's row of a GPU that has targets, else an empty string."""
    return GPUS.get(device, "")


def baseline(gpu="h100_sxm"):
    """{(shape, scheme, tokens): {"peer", "version", "us", "ratio", "floor_us"}}; empty for a GPU without a file."""
    path = BENCH / "baseline" / f"{gpu.partition('_')[0]}.csv"
    if not path.is_file():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {(row["shape"], row["scheme"], int(row["tokens"])):
                {"peer": row["peer"], "version": row["version"], **{key: float(row[key]) for key in ("us", "ratio", "floor_us")}}
                for row in csv.DictReader(file)}


def expert_bytes(shape, scheme):
    """Stored bytes of one expert: weights and scales; no biases, which are under 0.2 %."""
    hidden, width = shape["hidden_size"], shape["intermediate_size_per_partition"]
    matrices = ((2 * width, hidden), (hidden, width))
    if scheme == "bf16":
        return sum(2 * n * k for n, k in matrices)
    if scheme == "fp8_block":
        return sum(n * k + 4 * (-(-n // 128) * -(-k // 128)) for n, k in matrices)
    if scheme == "fp8_channel":
        return sum(n * k + 4 * n for n, k in matrices)
    if scheme in FOUR_BITS:
        group, scale = FOUR_BITS[scheme]
        return sum(n * k // 2 + scale * n * -(-k // group) for n, k in matrices)
    raise ValueError(f"expected bf16, fp8_block, fp8_channel or one of {', '.join(FOUR_BITS)}, got {scheme}")


def floor_us(shape, scheme, tokens, touched, pairs, rates=None):
    """max(bytes / bandwidth, flops / rate); bytes of the touched experts, x, out and the logits, all of those in bf16."""
    rates = rates or RATES
    moved = touched * expert_bytes(shape, scheme) + 2 * tokens * (2 * shape["hidden_size"] + shape["num_experts"])
    flops = 6 * pairs * shape["hidden_size"] * shape["intermediate_size_per_partition"]
    rate = rates["fp8_tflops" if scheme.startswith("fp8") else "matmul_tflops"]
    return max(moved / (rates["bandwidth_gbs"] * 1e3), flops / (rate * 1e6))
