# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layer in numpy, double precision. It shares no code with moec."""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
Rounding = Callable[[Array], Array]


def nearest_bf16(numbers: Array) -> Array:
    """The nearest of the numbers with 8 bits of mantissa, of two the even one."""
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.rint(mantissa * 256), exponent - 8)


def silu(numbers: Array) -> Array:
    return numbers / (1 + np.exp(-numbers))


def route(logits: Array, top_k: int) -> tuple[Array, Array]:
    """The experts of the largest logits, of equal ones the first, and the softmax of those."""
    ids = np.argsort(-logits, axis=1, kind="stable")[:, :top_k]
    chosen = np.take_along_axis(logits.astype(np.float64), ids, axis=1)
    weights = np.exp(chosen - chosen.max(axis=1, keepdims=True))
    return np.ascontiguousarray(ids), weights / weights.sum(axis=1, keepdims=True)


def moe(x: Array, *, ids: Array, weights: Array, w13: Array, w2: Array, rounded: Rounding) -> Array:
    """out [tokens, hidden] of x [tokens, hidden], w13 [experts, gates then ups, hidden] and w2 [experts, hidden, intermediate].

    rounded() rounds the rows that the matmuls read.
    """
    out = np.zeros_like(x)
    rows = rounded(x)
    for token, (chosen, shares) in enumerate(zip(ids, weights, strict=True)):
        for expert, share in zip(chosen, shares, strict=True):
            if 0 <= expert < len(w13):
                gate, up = np.split(w13[expert] @ rows[token], 2)
                out[token] += share * (w2[expert] @ rounded((silu(gate) * up)[None])[0])
    return out


def error(got: Array, wanted: Array) -> float:
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
