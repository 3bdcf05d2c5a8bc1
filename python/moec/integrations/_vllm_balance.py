# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that vLLM can move packed experts between ranks while a server runs (expert-parallel load balancing, EPLB)."""

import hashlib
import json
from collections.abc import Sequence

import torch
from vllm.distributed.parallel_state import get_ep_group

from moec.errors import NotSupported
from moec.layer import Layer


def largest_of_ranks(scales: torch.Tensor) -> torch.Tensor:
    """Returns the largest scales of all ranks, so that an expert that moves to another rank finds the same scales there."""
    made = scales.clone()
    torch.distributed.all_reduce(made, op=torch.distributed.ReduceOp.MAX, group=get_ep_group().device_group)
    return made


def format_of(made: Layer | None) -> str:
    """Returns a digest of how the weights are packed; "" for a layer of vLLM's own."""
    if made is None:
        return ""
    target = next(each for each in made.package.manifest["targets"] if each["arch"] == made.package.arch)
    kernels = {launch.get("kernel") for pack in target["pack"] for launch in pack["launches"]}
    parts = (
        made.package.arch,
        target["pack"],
        [value for value in target["values"] if value["role"] == "packed_weight"],
        [kernel for kernel in target["kernels"] if kernel["name"] in kernels],
    )
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def check(made: Sequence[Layer | None], weights: Sequence[Sequence[torch.Tensor]]) -> None:
    """Raises NotSupported if an exchange of rows between ranks would make other weights. All ranks must call it.

    made: the layers of a model, None for those of vLLM's own.
    weights: the tensors of each layer whose rows vLLM exchanges. vLLM uses receive buffers of the first layer's shapes for all.
    """
    shapes = [[(tuple(tensor.shape), tensor.dtype) for tensor in of_layer] for of_layer in weights]
    for index, each in enumerate(shapes):
        if each != shapes[0] and any(layer is not None for layer in made):
            raise NotSupported(
                f"EPLB: expected all MoE layers of the model to be packed alike, because vLLM has receive buffers for the "
                f"first one; layer {index} has rows "
                f"of {[shape for shape, _ in each]}, layer 0 of {[shape for shape, _ in shapes[0]]}"
            )
    group, formats = get_ep_group(), [format_of(each) for each in made]
    of_ranks: list[list[str]] = [[] for _ in range(group.world_size)]
    torch.distributed.all_gather_object(of_ranks, formats, group=group.cpu_group)
    for rank, of_rank in enumerate(of_ranks):
        if of_rank != formats:
            raise NotSupported(
                f"EPLB: expected all ranks to pack the layers alike; rank {rank} differs from rank {group.rank_in_group}. "
                "Use GPUs of one kind and the same MOEC variables on all ranks"
            )
