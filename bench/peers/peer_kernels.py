# ===- peer_kernels.py - what lies between the matmuls of a peer ---------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Triton kernels around the grouped matmuls of PyTorch and DeepGEMM, which have no routing of their own: top-k, places of the
pairs, permutation, activation, quantization by row, weighted sum. Needs Triton and PyTorch."""

import torch
import triton
import triton.language as tl

LARGEST = 448.0  # of e4m3


def warps(padded):
    """A program has a whole row: up to 32 columns for each thread."""
    return min(16, max(4, padded // 512))


@triton.jit
def route_kernel(logits, weights, ids, tokens, EXPERTS: tl.constexpr, TOP_K: tl.constexpr, PADDED: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    expert = tl.arange(0, PADDED)
    inside = (token < tokens)[:, None] & (expert < EXPERTS)[None, :]
    left = tl.load(logits + token[:, None] * EXPERTS + expert[None, :], mask=inside, other=-float("inf")).to(tl.float32)
    top = tl.max(left, 1)
    for place in tl.static_range(TOP_K):
        best = tl.max(left, 1)
        chosen = tl.argmax(left, 1)
        # The weighted sum divides by their total, so that this kernel reads back nothing.
        tl.store(weights + token * TOP_K + place, tl.exp(best - top), mask=token < tokens)
        tl.store(ids + token * TOP_K + place, chosen, mask=token < tokens)
        left = tl.where(expert[None, :] == chosen[:, None], -float("inf"), left)


@triton.jit
def count_kernel(ids, counts, ranks, pairs, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = pair < pairs
    expert = tl.load(ids + pair, mask=inside, other=0)
    tl.store(ranks + pair, tl.atomic_add(counts + expert, 1, mask=inside), mask=inside)


@triton.jit
def place_kernel(counts, starts, ends, EXPERTS: tl.constexpr, PADDED: tl.constexpr, ALIGN: tl.constexpr):
    expert = tl.arange(0, PADDED)
    inside = expert < EXPERTS
    rows = (tl.load(counts + expert, mask=inside, other=0) + ALIGN - 1) // ALIGN * ALIGN
    end = tl.cumsum(rows, 0)
    tl.store(starts + expert, end - rows, mask=inside)
    tl.store(ends + expert, end, mask=inside)


@triton.jit
def scatter_kernel(x, scales, ids, ranks, starts, rows, row_scales, positions, owners, TOP_K: tl.constexpr, HIDDEN: tl.constexpr,
                   PADDED: tl.constexpr, SCALED: tl.constexpr, OWNED: tl.constexpr):
    pair = tl.program_id(0)
    token = pair // TOP_K
    expert = tl.load(ids + pair)
    position = tl.load(starts + expert) + tl.load(ranks + pair)
    tl.store(positions + pair, position)
    if OWNED:
        tl.store(owners + position, expert)
    if SCALED:
        tl.store(row_scales + position, tl.load(scales + token))
    column = tl.arange(0, PADDED)
    inside = column < HIDDEN
    value = tl.load(x + token.to(tl.int64) * HIDDEN + column, mask=inside)
    tl.store(rows + position.to(tl.int64) * HIDDEN + column, value, mask=inside)


@triton.jit
def store_row(value, out, scales, row, column, inside, WIDTH: tl.constexpr, LARGEST: tl.constexpr, SCALED: tl.constexpr):
    if SCALED:
        scale = tl.maximum(tl.max(tl.abs(value), 0), 1e-10) / LARGEST
        tl.store(scales + row, scale)
        value = value / scale
    tl.store(out + row.to(tl.int64) * WIDTH + column, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def quantize_kernel(x, out, scales, WIDTH: tl.constexpr, PADDED: tl.constexpr, LARGEST: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    value = tl.load(x + row.to(tl.int64) * WIDTH + column, mask=inside, other=0).to(tl.float32)
    store_row(value, out, scales, row, column, inside, WIDTH, LARGEST, True)


@triton.jit
def activate_kernel(x, out, scales, WIDTH: tl.constexpr, PADDED: tl.constexpr, LARGEST: tl.constexpr, SCALED: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, PADDED)
    inside = column < WIDTH
    start = x + row.to(tl.int64) * 2 * WIDTH + column
    gate = tl.load(start, mask=inside, other=0).to(tl.float32)
    up = tl.load(start + WIDTH, mask=inside, other=0).to(tl.float32)
    store_row(gate * tl.sigmoid(gate) * up, out, scales, row, column, inside, WIDTH, LARGEST, SCALED)


@triton.jit
def combine_kernel(rows, positions, weights, out, TOP_K: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < HIDDEN
    total = 0.0
    value = tl.zeros((BLOCK,), tl.float32)
    for place in tl.static_range(TOP_K):
        weight = tl.load(weights + token * TOP_K + place)
        position = tl.load(positions + token * TOP_K + place).to(tl.int64)
        value += weight * tl.load(rows + position * HIDDEN + column, mask=inside, other=0).to(tl.float32)
        total += weight
    tl.store(out + token.to(tl.int64) * HIDDEN + column, (value / total).to(out.dtype.element_ty), mask=inside)


def route(logits, top_k):
    """Weights, not yet divided by their total, and ids of each token's experts."""
    tokens, experts = logits.shape
    weights = logits.new_empty(tokens, top_k, dtype=torch.float32)
    ids = logits.new_empty(tokens, top_k, dtype=torch.int32)
    route_kernel[(triton.cdiv(tokens, 4),)](logits, weights, ids, tokens, experts, top_k, triton.next_power_of_2(experts), 4)
    return weights, ids


class Permutation:
    """The rows of each expert side by side. align: an expert's rows start at a multiple of it; owners: for each row its expert,
    or -1; ends: the row behind each expert's last one."""

    def __init__(self, ids, experts, align=1):
        self.ids, pairs = ids, ids.numel()
        counts = torch.zeros(experts, device=ids.device, dtype=torch.int32)
        self.ranks, self.positions = torch.empty_like(ids), torch.empty_like(ids)
        self.starts, self.ends = torch.empty_like(counts), torch.empty_like(counts)
        count_kernel[(triton.cdiv(pairs, 256),)](ids, counts, self.ranks, pairs, 256)
        place_kernel[(1,)](counts, self.starts, self.ends, experts, triton.next_power_of_2(experts), align)
        self.rows = triton.cdiv(pairs + min(pairs, experts) * (align - 1), align) * align
        self.owners = torch.full((self.rows,), -1, device=ids.device, dtype=torch.int32) if align > 1 else None

    def scatter(self, x, scales=None):
        hidden = x.shape[1]
        rows = x.new_empty(self.rows, hidden)
        row_scales = None if scales is None else scales.new_empty(self.rows)
        bits = torch.uint8 if x.element_size() == 1 else x.dtype
        scatter_kernel[(self.ids.numel(),)](x.view(bits), scales, self.ids, self.ranks, self.starts, rows.view(bits), row_scales,
                                            self.positions, self.owners, self.ids.shape[1], hidden, triton.next_power_of_2(hidden),
                                            scales is not None, self.owners is not None, num_warps=warps(triton.next_power_of_2(hidden)))
        return rows, row_scales

    def combine(self, rows, weights, out):
        tokens, hidden = out.shape
        combine_kernel[(tokens, triton.cdiv(hidden, 1024))](rows, self.positions, weights, out, self.ids.shape[1], hidden, 1024)
        return out


def quantize(x):
    out, scales = x.new_empty(x.shape, dtype=torch.float8_e4m3fn), x.new_empty(x.shape[0], dtype=torch.float32)
    padded = triton.next_power_of_2(x.shape[1])
    quantize_kernel[(x.shape[0],)](x, out, scales, x.shape[1], padded, LARGEST, num_warps=warps(padded))
    return out, scales


def activate(x, scaled):
    """silu(gate) * up of rows of both, in bf16 or in fp8 by row."""
    rows, width = x.shape[0], x.shape[1] // 2
    out = x.new_empty(rows, width, dtype=torch.float8_e4m3fn if scaled else x.dtype)
    scales = x.new_empty(rows, dtype=torch.float32) if scaled else None
    padded = triton.next_power_of_2(width)
    activate_kernel[(rows,)](x, out, scales, width, padded, LARGEST, scaled, num_warps=warps(padded))
    return out, scales
