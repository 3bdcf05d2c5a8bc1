# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes in numpy: the numbers that stored weights mean, and what activations are rounded to."""

from typing import Any

import numpy as np
from reference import Array, Rounding, nearest_bf16
from support import decode_e4m3, round_e4m3

import moec


def spread(scales: Array, shape: tuple[int, ...], rows: int, columns: int) -> Array:
    """A scale for each element, from one for each block of so many rows and columns."""
    whole = np.repeat(np.repeat(scales.astype(np.float64), rows, axis=1), columns, axis=2)
    return whole[:, : shape[1], : shape[2]]


def codes_of_4_bits(packed: Array) -> Array:
    """Two in a byte, the first in the lowest bits."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1).astype(np.int64)


def of_bf16(weights: dict[str, Array]) -> tuple[Array, Array, Rounding]:
    def wide(name: str) -> Array:
        return moec.from_bfloat16(weights[name]).astype(np.float64)

    return wide("w13"), wide("w2"), nearest_bf16


def of_int4_w4a16(weights: dict[str, Array]) -> tuple[Array, Array, Rounding]:
    def wide(name: str) -> Array:
        codes = codes_of_4_bits(weights[name]) - 8
        scales = moec.from_bfloat16(weights[f"{name}_scale"])
        return nearest_bf16(codes * spread(scales, codes.shape, 1, 128))

    return wide("w13"), wide("w2"), nearest_bf16


def of_int8_channel(weights: dict[str, Array]) -> tuple[Array, Array, Rounding]:
    def wide(name: str) -> Array:
        return weights[name].astype(np.float64) * weights[f"{name}_scale"][:, :, None]

    def rounded(rows: Array) -> Array:
        scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-10) / 127
        return np.clip(np.rint(rows / scale), -127, 127) * scale

    return wide("w13"), wide("w2"), rounded


def of_fp8_block(weights: dict[str, Array]) -> tuple[Array, Array, Rounding]:
    def wide(name: str) -> Array:
        codes, scales = decode_e4m3(weights[name]), weights[f"{name}_scale"]
        if name == "w2":
            return codes * spread(scales, codes.shape, 128, 128)
        # Gates and ups have blocks of their own.
        halves = zip(np.split(codes, 2, axis=1), np.split(scales, 2, axis=1), strict=True)
        return np.concatenate([half * spread(scale, half.shape, 128, 128) for half, scale in halves], axis=1)

    def rounded(rows: Array) -> Array:
        made = np.empty_like(rows)
        for begin in range(0, rows.shape[1], 128):
            group = rows[:, begin : begin + 128]
            scale = np.maximum(np.abs(group).max(axis=1, keepdims=True), 1e-10) / 448
            made[:, begin : begin + 128] = round_e4m3(group / scale) * scale
        return made

    return wide("w13"), wide("w2"), rounded


# How a scheme is computed, and the bound of docs/getting-started.md for the whole output.
SCHEMES: dict[str, tuple[Any, float]] = {
    "bf16": (of_bf16, 2.5e-3),
    "int4_w4a16": (of_int4_w4a16, 5e-3),
    "int8_channel": (of_int8_channel, 6e-3),
    "fp8_block": (of_fp8_block, 6e-3),
}
