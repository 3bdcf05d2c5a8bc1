# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs layers that exchange tokens between vLLM's ranks themselves, instead of vLLM's runner."""

import torch
from torch.nn.functional import pad
from vllm.distributed.parallel_state import get_ep_group
from vllm.forward_context import get_forward_context

from moec.comm import Communicator
from moec.errors import InvalidArgument
from moec.layer import Layer

_communicators: dict[str, Communicator] = {}


def communicator(device: torch.device) -> Communicator:
    """Returns the communicator of vLLM's expert-parallel group, created once. All ranks must call it in the same order."""
    group = get_ep_group()
    if group.unique_name not in _communicators:
        _communicators[group.unique_name] = Communicator.from_group(group.device_group, device=str(device))
    return _communicators[group.unique_name]


def most_tokens() -> int:
    """Returns the largest token count of any rank in this step, which vLLM sends to all ranks."""
    counts = get_forward_context().dp_metadata
    if counts is None:
        raise InvalidArgument("tokens: expected vLLM's token counts of all ranks of data parallel, got none")
    return int(counts.num_tokens_across_dp_cpu.max())


def run(moec_layer: Layer, comm: Communicator, x: torch.Tensor, out: torch.Tensor, **inputs: torch.Tensor) -> None:
    """Writes `out` [tokens, hidden] for this rank's x [tokens, hidden], which may have no rows.

    All ranks run with the largest token count of any rank, so a rank with fewer tokens pads them.
    """
    tokens, most = x.shape[0], most_tokens()
    if tokens > most:
        raise InvalidArgument(f"tokens: expected at most vLLM's largest count of a rank, {most}, got {tokens}")
    if most == 0:
        return
    given = {name: tensor.contiguous() for name, tensor in inputs.items()}
    x = x.contiguous()
    if tokens == most:
        moec_layer(x, out=out, comm=comm, **given)
        return
    padded = {name: pad(tensor, (0, 0, 0, most - tokens)) for name, tensor in given.items()}
    whole = x.new_empty((most, *out.shape[1:]))
    real = torch.full((1,), tokens, dtype=torch.int32, device=x.device)
    moec_layer(pad(x, (0, 0, 0, most - tokens)), out=whole, comm=comm, valid_tokens=real, **padded)
    out.copy_(whole[:tokens])
