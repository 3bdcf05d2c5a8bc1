# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and values of layers whose experts vLLM moves between ranks while a server runs (EPLB)."""

from collections.abc import Sequence

import torch
from vllm.distributed.parallel_state import get_ep_group

from moec.integrations._balance import check_layers, check_ranks, format_of
from moec.layer import Layer


def largest_of_ranks(scales: torch.Tensor) -> torch.Tensor:
    """Returns the largest scales of all ranks, so that an expert that moves to another rank finds the same scales there."""
    made = scales.clone()
    torch.distributed.all_reduce(made, op=torch.distributed.ReduceOp.MAX, group=get_ep_group().device_group)
    return made


def check(made: Sequence[Layer | None], weights: Sequence[Sequence[torch.Tensor]]) -> None:
    """Raises NotSupported if an exchange of rows between ranks would make other weights. All ranks must call it.

    made: the layers of a model, None for those of vLLM's own.
    weights: the tensors of each layer whose rows vLLM exchanges.
    """
    if any(layer is not None for layer in made):
        check_layers("vLLM", weights)
    check_ranks([format_of(each) for each in made], get_ep_group())
