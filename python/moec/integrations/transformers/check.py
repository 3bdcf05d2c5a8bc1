# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Computes the output of an experts module's own forward in f32, for a comparison with moec."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from moec.errors import InvalidArgument
from moec.integrations.transformers.experts import FP4, FP8, eager_forward

# Size of a few experts in f32.
CHUNK_BYTES = 1 << 28
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# The largest accepted relative error of a token, by the input's type.
LIMITS = {"f32": 2e-3, "f16": 5e-3, "bf16": 1e-2}
# Like LIMITS, for quantized layers: moec may round activations to 8 bits, and the module's own forward does not.
LIMIT_OF_CODES = 0.25


class Sample(NamedTuple):
    """Random tokens, and the module's own output for them."""

    x: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    out: torch.Tensor
    """The module's own output in f32."""


def unpacked_fp4(codes: torch.Tensor) -> torch.Tensor:
    """Returns the f32 values of 4-bit codes stored in int8, the lower four bits first."""
    table = torch.tensor([*E2M1, *(-each for each in E2M1)], device=codes.device)
    wide = codes.view(torch.uint8).long()
    return torch.stack([table[wide & 15], table[wide >> 4]], -1).flatten(-2)


def dequantized(codes: torch.Tensor, scale: torch.Tensor, block: Any) -> torch.Tensor:
    """Returns f32 [experts, rows, columns], dequantized from codes with scales [experts, row blocks, column blocks]."""
    wide = unpacked_fp4(codes) if codes.dtype == FP4 else codes.float()
    rows, columns = wide.shape[1:]
    if codes.dtype == FP4:
        block = (1, columns // scale.shape[2])
    elif block is None:
        block = (rows // scale.shape[1], columns)
    scale = scale.float().repeat_interleave(block[0], 1)[:, :rows].repeat_interleave(block[1], 2)[:, :, :columns]
    return wide * scale


def in_f32(module: Any, experts: slice) -> Any:
    """Returns a copy of an experts module with some of its experts, in f32."""
    made = copy.copy(module)
    made.__dict__ = dict(module.__dict__)
    parameters = {}
    for name, parameter in module._parameters.items():
        tensor = None if parameter is None else parameter.data[experts]
        if tensor is not None and tensor.dtype in (FP8, FP4):
            tensor = dequantized(tensor, module._parameters[f"{name}_scale_inv"].data[experts], module.block_size)
        parameters[name] = None if tensor is None else tensor.float()
        made.num_experts = made.num_experts if tensor is None else len(tensor)
    made.__dict__["_parameters"] = parameters
    return made


def own_output(module: Any, x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Returns f32 [tokens, hidden]: the result of the module's own forward, computed a few experts at a time."""
    forward = eager_forward(module)
    assert forward is not None
    experts = module.num_experts
    numbers = sum(parameter[0].numel() for parameter in module._parameters.values() if parameter is not None)
    count = max(1, CHUNK_BYTES // (8 * numbers))
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for begin in range(0, experts, count):
        end = min(begin + count, experts)
        here = (ids >= begin) & (ids < end)
        with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
            # A (token, expert) pair of another expert uses the first expert of this chunk with weight 0.
            arguments = (torch.where(here, ids - begin, 0), torch.where(here, weights, 0.0).float())
            out += forward(in_f32(module, slice(begin, end)), x.float(), *arguments)
    return out


def sample(label: str, module: Any, *, hidden: int, top_k: int, dtype: torch.dtype, device: torch.device) -> Sample:
    """Creates tokens that select every expert. Raises InvalidArgument if the module's own output is not finite."""
    experts = module.num_experts
    tokens = max(8, -(-experts // top_k))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, hidden, generator=generator).to(device, dtype)
    order = torch.randperm(experts, generator=generator)
    ids = order[torch.arange(tokens * top_k) % experts].reshape(tokens, top_k).to(device)
    weights = ((torch.rand(tokens, top_k, generator=generator) + 0.5) / top_k).to(device)
    try:
        out = own_output(module, x, ids, weights)
    except Exception as error:
        raise InvalidArgument(f"{label}: its own forward fails in the check, so that moec cannot be compared: {error}") from error
    if not bool(out.isfinite().all()):
        raise InvalidArgument(f"{label}: its own forward returned non-finite values in the check; are its weights loaded?")
    return Sample(x, ids, weights, out)


def compare(
    label: str, found: Sample, run: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor], *, limit: float
) -> float:
    """Returns the largest relative error of a token in moec's output. Raises InvalidArgument above the limit."""
    worst = 0.0
    for tokens in (1, len(found.x)):
        got = run(found.x[:tokens], found.ids[:tokens], found.weights[:tokens]).float()
        expected = found.out[:tokens]
        size = expected.norm(dim=-1).clamp(min=1e-20)
        errors = torch.where(got.isfinite().all(-1), (got - expected).norm(dim=-1) / size, torch.inf)
        worst = max(worst, float(errors.max()))
    if not worst <= limit:
        raise InvalidArgument(
            f"{label}: moec differs from the module's own forward by {worst:.2g} of a token's length on random tokens; "
            f"expected at most {limit:g}"
        )
    return worst
