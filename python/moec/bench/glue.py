# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton kernels around the grouped matmuls of systems without their own routing: top-k, positions of pairs, permutation,
activation, quantization by row and by group, weighted sum.

A pair is a (token, expert) pair. Pairs whose expert belongs to another rank have no row.
"""

from typing import Any

import torch
import triton
import triton.language as tl

LARGEST = 448.0  # the largest e4m3 value


def _warps(padded: int) -> int:
    """Returns the number of warps of a program that processes a whole row of `padded` columns: 4 to 16, up to 32 columns per
    thread."""
    return int(min(16, max(4, padded // 512)))


@triton.jit
def _route(logits, weights, ids, tokens, EXPERTS: tl.constexpr, TOP_K: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.arange(0, PADDED)
    inside = (token < tokens)[:, None] & (expert < EXPERTS)[None, :]
    values = tl.load(logits + token[:, None] * EXPERTS + expert[None, :], mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.max(values, 1)
    left = values
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in tl.static_range(TOP_K):
        total += tl.exp(tl.max(left, 1) - top)
        left = tl.where(expert[None, :] == tl.argmax(left, 1)[:, None], -float("inf"), left)
    for place in tl.static_range(TOP_K):
        best = tl.max(values, 1)
        chosen = tl.argmax(values, 1)
        tl.store(weights + token * TOP_K + place, tl.exp(best - top) / total, mask=token < tokens)
        tl.store(ids + token * TOP_K + place, chosen, mask=token < tokens)
        values = tl.where(expert[None, :] == chosen[:, None], -float("inf"), values)


@triton.jit
def _count(ids, counts, ranks, pairs, first, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.load(ids + pair, mask=pair < pairs, other=-1) - first
    inside = (pair < pairs) & (expert >= 0) & (expert < EXPERTS)
    tl.store(ranks + pair, tl.atomic_add(counts + expert, 1, mask=inside), mask=inside)


@triton.jit
def _place(counts, starts, ends, EXPERTS: tl.constexpr, PADDED: tl.constexpr, ALIGN: tl.constexpr):
    expert = tl.arange(0, PADDED)
    inside = expert < EXPERTS
    rows = (tl.load(counts + expert, mask=inside, other=0) + ALIGN - 1) // ALIGN * ALIGN
    end = tl.cumsum(rows, 0)
    tl.store(starts + expert, end - rows, mask=inside)
    tl.store(ends + expert, end, mask=inside)


@triton.jit
def _scatter(
    x, scales, ids, ranks, starts, rows, row_scales, positions, first,
    EXPERTS: tl.constexpr, TOP_K: tl.constexpr, HIDDEN: tl.constexpr, PADDED: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0)
    token = pair // TOP_K
    expert = tl.load(ids + pair) - first
    if (expert >= 0) & (expert < EXPERTS):
        position = tl.load(starts + expert) + tl.load(ranks + pair)
        tl.store(positions + pair, position)
        if SCALED:
            tl.store(row_scales + position, tl.load(scales + token))
        column = tl.arange(0, PADDED)
        inside = column < HIDDEN
        value = tl.load(x + token.to(tl.int64) * HIDDEN + column, mask=inside)
        tl.store(rows + position.to(tl.int64) * HIDDEN + column, value, mask=inside)
    else:
        tl.store(positions + pair, -1)


@triton.jit
def _store_row(value, out, scales, row, column, inside, WIDTH: tl.constexpr, LARGEST: tl.constexpr, SCALED: tl.constexpr):
    if SCALED:
        scale = tl.maximum(tl.max(tl.abs(value), 0), 1e-10) / LARGEST
        tl.store(scales + row, scale)
        value = value / scale
    tl.store(out + row.to(tl.int64) * WIDTH + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _quantize(x, out, scales, WIDTH: tl.constexpr, PADDED: tl.constexpr, LARGEST: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    value = tl.load(x + row.to(tl.int64) * WIDTH + column, mask=inside, other=0).to(tl.float32)
    _store_row(value, out, scales, row, column, inside, WIDTH, LARGEST, True)


@triton.jit
def _quantize_groups(
    x, out, scales, rows, GROUPS: tl.constexpr, GROUP: tl.constexpr, PADDED: tl.constexpr, LARGEST: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    group = tl.arange(0, PADDED)
    column = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    inside = (group < GROUPS)[:, None]
    place = row.to(tl.int64) * GROUPS * GROUP + column
    value = tl.load(x + place, mask=inside, other=0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(value), 1), 1e-10) / LARGEST
    tl.store(scales + group * rows + row, scale, mask=group < GROUPS)
    tl.store(out + place, (value / scale[:, None]).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _activate(x, out, scales, WIDTH: tl.constexpr, PADDED: tl.constexpr, LARGEST: tl.constexpr, SCALED: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    start = x + row.to(tl.int64) * 2 * WIDTH + column
    gate = tl.load(start, mask=inside, other=0).to(tl.float32)
    up = tl.load(start + WIDTH, mask=inside, other=0).to(tl.float32)
    _store_row(gate * tl.sigmoid(gate) * up, out, scales, row, column, inside, WIDTH, LARGEST, SCALED)


@triton.jit
def _combine(rows, positions, weights, out, TOP_K: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < HIDDEN
    value = tl.zeros((BLOCK,), tl.float32)
    for place in tl.static_range(TOP_K):
        position = tl.load(positions + token * TOP_K + place).to(tl.int64)
        if position >= 0:
            weight = tl.load(weights + token * TOP_K + place)
            value += weight * tl.load(rows + position * HIDDEN + column, mask=inside, other=0).to(tl.float32)
    tl.store(out + token.to(tl.int64) * HIDDEN + column, value.to(out.dtype.element_ty), mask=inside)


def route(logits: Any, top_k: int) -> tuple[Any, Any]:
    """Returns float32 weights and int32 ids [tokens, top_k], by softmax, top-k and renormalization."""
    tokens, experts = logits.shape
    weights = logits.new_empty(tokens, top_k, dtype=torch.float32)
    ids = logits.new_empty(tokens, top_k, dtype=torch.int32)
    _route[(triton.cdiv(tokens, 4),)](logits, weights, ids, tokens, experts, top_k, triton.next_power_of_2(experts), 4)
    return weights, ids


class Permutation:
    """Permutes the pairs so that the rows of each expert are contiguous.

    ids: int32 [tokens, top_k]. Only the experts [first, first + experts) have rows.
    ends: the end row of each expert.
    positions: the row of each pair; -1 if the pair has no row.
    """

    def __init__(self, ids: Any, first: int, experts: int) -> None:
        self.ids, self.first, self.experts, pairs = ids, first, experts, ids.numel()
        counts = torch.zeros(experts, device=ids.device, dtype=torch.int32)
        self.ranks, self.positions = torch.empty_like(ids), torch.empty_like(ids)
        self.starts, self.ends = torch.empty_like(counts), torch.empty_like(counts)
        _count[(triton.cdiv(pairs, 256),)](ids, counts, self.ranks, pairs, first, experts, 256)
        _place[(1,)](counts, self.starts, self.ends, experts, triton.next_power_of_2(experts), 1)

    def scatter(self, x: Any, scales: Any = None) -> tuple[Any, Any]:
        """Returns the rows of x and their scales, in expert order."""
        hidden, pairs = x.shape[1], self.ids.numel()
        rows = x.new_empty(pairs, hidden)
        row_scales = None if scales is None else scales.new_empty(pairs)
        bits = torch.uint8 if x.element_size() == 1 else x.dtype
        padded = triton.next_power_of_2(hidden)
        _scatter[(pairs,)](
            x.view(bits), scales, self.ids, self.ranks, self.starts, rows.view(bits), row_scales, self.positions, self.first,
            self.experts, self.ids.shape[1], hidden, padded, scales is not None, num_warps=_warps(padded),
        )  # fmt: skip
        return rows, row_scales

    def combine(self, rows: Any, weights: Any, out: Any) -> Any:
        return combine(rows, self.positions, weights, out)


def combine(rows: Any, positions: Any, weights: Any, out: Any) -> Any:
    """Writes `out` [tokens, hidden]: the weighted sum of each token's rows. Returns `out`."""
    tokens, hidden = out.shape
    _combine[(tokens, triton.cdiv(hidden, 1024))](rows, positions, weights, out, positions.shape[1], hidden, 1024)
    return out


def quantize(x: Any) -> tuple[Any, Any]:
    """Quantizes to e4m3 with one scale per row."""
    out, scales = x.new_empty(x.shape, dtype=torch.float8_e4m3fn), x.new_empty(x.shape[0], dtype=torch.float32)
    padded = triton.next_power_of_2(x.shape[1])
    _quantize[(x.shape[0],)](x, out, scales, x.shape[1], padded, LARGEST, num_warps=_warps(padded))
    return out, scales


def quantize_groups(x: Any, group: int) -> tuple[Any, Any]:
    """Quantizes to e4m3 with one scale per group of columns: float32 [columns / group, rows]."""
    rows, groups = x.shape[0], x.shape[1] // group
    out, scales = x.new_empty(x.shape, dtype=torch.float8_e4m3fn), x.new_empty(groups, rows, dtype=torch.float32)
    padded = triton.next_power_of_2(groups)
    _quantize_groups[(rows,)](x, out, scales, rows, groups, group, padded, LARGEST, num_warps=_warps(padded * group))
    return out, scales


def activate(x: Any, scaled: bool) -> tuple[Any, Any]:
    """Returns silu(gate) * up for rows [gate, up], in bf16 or in e4m3 with one scale per row."""
    rows, width = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, width, dtype=torch.float8_e4m3fn if scaled else x.dtype)
    scales = x.new_empty(rows, dtype=torch.float32) if scaled else None
    padded = triton.next_power_of_2(width)
    _activate[(rows,)](x, out, scales, width, padded, LARGEST, scaled, num_warps=_warps(padded))
    return out, scales
