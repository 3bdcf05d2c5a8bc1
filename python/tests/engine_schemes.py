# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes as checkpoints store them for engines, and the numbers that they mean. They share no code with moec or vLLM."""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor
Rounding: TypeAlias = Callable[[Tensor], Tensor]
Store: TypeAlias = "Callable[[Tensor, torch.Generator], Stored]"

E4M3 = torch.float8_e4m3fn
FP4 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.float64)
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


class Stored(NamedTuple):
    """A matrix [rows, columns] as a checkpoint stores it, and the numbers that it means."""

    tensors: dict[str, Tensor]
    """By the end of the parameter's name: "weight", "weight_scale", ..."""
    numbers: Tensor


def to_bf16(numbers: Tensor) -> Tensor:
    return numbers.to(torch.bfloat16).double()


def _e4m3(quotients: Tensor, scale: Tensor) -> Tensor:
    """The nearest e4m3 numbers times the scale. Quotients are f32, because their last bit decides ties."""
    return quotients.clamp(-448, 448).to(E4M3).double() * scale.double()


def _of_one_scale(rows: Tensor, scale: Tensor) -> Tensor:
    """vLLM's kernels multiply by the reciprocal here. They divide where rows or groups have scales."""
    return _e4m3(rows.float() * (1 / scale), scale)


def of_groups(columns: int) -> Rounding:
    """e4m3 with a scale for so many columns of a row; 0: for the row."""

    def rounded(rows: Tensor) -> Tensor:
        grouped = rows.reshape(len(rows), -1, columns or rows.shape[1])
        scale = grouped.float().abs().amax(-1, keepdim=True).clamp_min(1e-10) / 448
        return _e4m3(grouped.float() / scale, scale).reshape(rows.shape)

    return rounded


def of_tensor(scale: float) -> Rounding:
    """e4m3 with a scale that the checkpoint has."""
    return lambda rows: _of_one_scale(rows, torch.tensor(scale, dtype=torch.float32))


def dynamic_tensor(rows: Tensor) -> Tensor:
    """e4m3 with one scale for all rows. The caller gives all rows at once."""
    return _of_one_scale(rows, rows.float().abs().amax().clamp_min(1e-10) / 448)


def int8_rows(rows: Tensor) -> Tensor:
    scale = rows.float().abs().amax(-1, keepdim=True).clamp_min(1e-10) / 127
    return (rows.float() / scale).round().clamp(-127, 127).double() * scale


def store_bf16(matrix: Tensor, random: torch.Generator) -> Stored:
    weight = matrix.to(torch.bfloat16)
    return Stored({"weight": weight}, weight.double())


def _codes(matrix: Tensor, scale: Tensor) -> Tensor:
    return (matrix / scale).clamp(-448, 448).float().to(E4M3)


def store_fp8_block(name: str) -> Store:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        blocks = tuple(-(-extent // 128) for extent in matrix.shape)
        scale = torch.rand(blocks, generator=random).float() * 2e-4 + 2e-4
        wide = scale.double().repeat_interleave(128, 0).repeat_interleave(128, 1)[: matrix.shape[0], : matrix.shape[1]]
        codes = _codes(matrix, wide)
        return Stored({"weight": codes, name: scale}, codes.double() * wide)

    return store


def store_fp8_tensor(inputs: float | None) -> Store:
    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        scale = torch.rand((), generator=random).float() * 2e-4 + 2e-4
        codes = _codes(matrix, scale.double())
        tensors = {"weight": codes, "weight_scale": scale}
        if inputs is not None:
            tensors["input_scale"] = torch.tensor(inputs, dtype=torch.float32)
        return Stored(tensors, codes.double() * scale.double())

    return store


def store_fp8_channel(matrix: Tensor, random: torch.Generator) -> Stored:
    scale = torch.rand((len(matrix), 1), generator=random).float() * 2e-4 + 2e-4
    codes = _codes(matrix, scale.double())
    return Stored({"weight": codes, "weight_scale": scale}, codes.double() * scale.double())


def store_int8_channel(matrix: Tensor, random: torch.Generator) -> Stored:
    scale = torch.rand((len(matrix), 1), generator=random).float() * 1e-3 + 1e-3
    codes = (matrix / scale.double()).round().clamp(-127, 127).to(torch.int8)
    return Stored({"weight": codes, "weight_scale": scale}, codes.double() * scale.double())


def _fp4_codes(matrix: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Codes, two in a byte, and the numbers that they mean with the scale of each element."""
    magnitude = (matrix / scale).abs()
    nearest = (magnitude[..., None] - FP4).abs().argmin(-1)
    codes = nearest + 8 * (matrix < 0)
    numbers = torch.where(matrix < 0, -FP4[nearest], FP4[nearest]) * scale
    return (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8), numbers


def store_mxfp4(matrix: Tensor, random: torch.Generator) -> Stored:
    exponent = torch.randint(122, 125, (matrix.shape[0], matrix.shape[1] // 32), generator=random)
    wide = (2.0 ** (exponent.double() - 127)).repeat_interleave(32, 1)
    packed, numbers = _fp4_codes(matrix, wide)
    return Stored({"weight": packed, "weight_scale": exponent.to(torch.uint8)}, to_bf16(numbers))


def store_nvfp4(names: tuple[str, str, str], *, inverse: bool, inputs: float) -> Store:
    """names: of the codes, of the second scale and of the activations' second scale. inverse: it is stored inverse."""

    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        scale = (torch.rand((matrix.shape[0], matrix.shape[1] // 16), generator=random) * 200 + 50).to(E4M3)
        second = torch.tensor(2.0**-12, dtype=torch.float32)
        packed, numbers = _fp4_codes(matrix, (scale.double() * second.double()).repeat_interleave(16, 1))
        of_inputs = torch.tensor(1 / inputs if inverse else inputs, dtype=torch.float32)
        tensors = {names[0]: packed, "weight_scale": scale, names[1]: 1 / second if inverse else second, names[2]: of_inputs}
        return Stored(tensors, to_bf16(numbers))

    return store


def nvfp4_groups(second: float) -> Rounding:
    """e2m1 with an e4m3 scale for 16 columns, beside a second scale."""

    def rounded(rows: Tensor) -> Tensor:
        grouped = rows.float().reshape(len(rows), -1, 16)
        scale = (grouped.abs().amax(-1, keepdim=True) / 6 / second).clamp(max=448).to(E4M3).double() * second
        quotients = (grouped.double() / scale.clamp_min(1e-30)).abs()
        # The even one of two codes that are equally near.
        odd = torch.arange(len(FP4)) % 2
        distance = (quotients[..., None] - FP4).abs() + odd * 1e-9
        numbers = FP4[distance.argmin(-1)] * scale * grouped.sign()
        return to_bf16(numbers.reshape(rows.shape))

    return rounded


def _words(codes: Tensor, axis: int, bits: int, order: tuple[int, ...] = ()) -> Tensor:
    """Codes in 32-bit words along an axis. order: which of a word's codes each place has, from the lowest bits."""
    order = order or tuple(range(32 // bits))
    moved = codes.long().movedim(axis, -1).unflatten(-1, (-1, 32 // bits))
    words = torch.stack([moved[..., which] << (bits * place) for place, which in enumerate(order)]).sum(0)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, axis)


def store_integers(
    layout: str, group: int, *, bits: int = 4, zero_points: bool = False, dtype: torch.dtype = torch.bfloat16
) -> Store:
    """Codes of 4 or 8 bits with scales for groups of columns. group: -1 is all columns. dtype: of the scales, and of x."""
    middle = 2 ** (bits - 1)

    def store(matrix: Tensor, random: torch.Generator) -> Stored:
        rows, columns = matrix.shape
        size = columns if group < 0 else group
        shape = (rows, columns // size)
        scale = ((torch.rand(shape, generator=random) * 0.005 + 0.01) * 8 / middle).to(dtype)
        zero = torch.randint(middle - 4, middle + 4, shape, generator=random) if zero_points else torch.full(shape, middle)
        wide, wide_zero = scale.double().repeat_interleave(size, 1), zero.double().repeat_interleave(size, 1)
        codes = (matrix / wide + wide_zero).round().clamp(0, 2**bits - 1)
        numbers = ((codes - wide_zero) * wide).to(dtype).double()
        if layout == "gptq":
            zeros = _words((zero - 1).t(), 1, bits)
            tensors = {"qweight": _words(codes.t(), 0, bits), "scales": scale.t().contiguous(), "qzeros": zeros}
        elif layout == "awq":
            tensors = {
                "qweight": _words(codes.t(), 1, bits, AWQ_ORDER),
                "scales": scale.t().contiguous(),
                "qzeros": _words(zero.t(), 1, bits, AWQ_ORDER),
            }
        else:
            tensors = {"weight_packed": _words(codes, 1, bits), "weight_scale": scale}
            tensors["weight_shape"] = torch.tensor([rows, columns])
            if zero_points:
                tensors["weight_zero_point"] = _words(zero, 0, bits)
        return Stored(tensors, numbers)

    return store


def spoilt(case: Any, name: str, number: float, which: Collection[int]) -> Any:
    """The case with that number in place of a scale of some matrices: random_weights() makes three for an expert, w2 last."""
    count = 0

    def store(numbers: Tensor, random: torch.Generator) -> Stored:
        nonlocal count
        made: Stored = case.store(numbers, random)
        if count in which:
            made.tensors[name].fill_(number)
        count += 1
        return made

    return case._replace(store=store)
