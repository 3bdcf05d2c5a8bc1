# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers for the values of a package, and what their bits mean."""

import zlib
from typing import Any

import numpy as np

import moec

Array = Any

# The largest bits of floats of 8 bits that are finite, without the sign.
LARGEST = {"f8E4M3FN": 0x7E, "f8E5M2": 0x7B}


def decode_e4m3(bits: Array) -> Array:
    bits = bits.astype(np.int64)
    exponent, mantissa = (bits >> 3) & 15, bits & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    return np.where(bits & 0x80, -magnitude, magnitude)


E4M3 = decode_e4m3(np.arange(0x7F, dtype=np.uint8))


def round_e4m3(numbers: Array) -> Array:
    """The nearest e4m3 number, of two equally near the even one; beyond 448 it is 448."""
    magnitude = np.minimum(np.abs(numbers), 448.0)
    above = np.clip(np.searchsorted(E4M3, magnitude), 1, len(E4M3) - 1)
    low, high = E4M3[above - 1], E4M3[above]
    upper = (magnitude - low > high - magnitude) | ((magnitude - low == high - magnitude) & (above % 2 == 0))
    return np.copysign(np.where(upper, high, low), numbers)


def random_value(package: Any, name: str, tokens: int = 1, seed: int = 0) -> Array:
    """Numbers that tell rows, experts and scales apart; none is NaN."""
    value = package.values[name]
    element_type = value.element_types[0]
    random = np.random.default_rng([seed, zlib.crc32(name.encode()), tokens])
    shape = package.empty(name, tokens).shape
    is_scale = "scale" in name
    if name == "logits":
        return random.standard_normal(shape).astype(np.float32) * 2
    if name == "valid_tokens":
        return np.full(shape, tokens, dtype=np.int32)
    if element_type in ("bf16", "f16", "f32"):
        numbers = random.uniform(0.005, 0.02, shape) if is_scale else random.standard_normal(shape)
        if value.role == "stored_weight" and not is_scale:
            numbers = numbers * 0.1
        return moec.to_bfloat16(numbers) if element_type == "bf16" else numbers.astype(element_type.replace("f", "float"))
    if element_type == "f8E8M0FNU":
        return random.integers(118, 124, shape).astype(np.uint8)
    if element_type in LARGEST:
        low, high = (0x20, 0x38) if is_scale else (0, LARGEST[element_type] + 1)
        bits = random.integers(low, high, shape).astype(np.uint8)
        return bits if is_scale else bits | (random.integers(0, 2, shape).astype(np.uint8) << 7)
    if element_type == "i8":
        return (
            random.integers(0, 16, shape).astype(np.int8) if "zero" in name else random.integers(-127, 128, shape).astype(np.int8)
        )
    return random.integers(0, 256, shape).astype(np.uint8)
