# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that an engine can move packed experts between ranks while a server runs (expert-parallel load balancing, EPLB)."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import torch

from moec.errors import NotSupported
from moec.layer import Layer


def format_of(made: Layer | None) -> str:
    """Returns a digest of how the weights are packed; "" for a layer of the engine's own."""
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


def check_layers(engine: str, weights: Sequence[Sequence[torch.Tensor]]) -> None:
    """Raises NotSupported if layers have rows of different shapes or types. Engines have receive buffers for the rows of one
    layer, and use them for all.

    weights: the tensors of each layer whose rows the engine exchanges.
    """
    shapes = [[(tuple(tensor.shape), tensor.dtype) for tensor in of_layer] for of_layer in weights]
    for index, each in enumerate(shapes):
        if each != shapes[0]:
            raise NotSupported(
                f"EPLB: expected all MoE layers of the model to be packed alike, because {engine} has receive buffers for one "
                f"layer; layer {index} has rows of {[shape for shape, _ in each]}, layer 0 of {[shape for shape, _ in shapes[0]]}"
            )


def check_ranks(formats: list[str], group: Any) -> None:
    """Raises NotSupported if a rank has packed layers differently. All ranks of the group must call it.

    formats: format_of() each layer of this rank.
    group: the engine's group of ranks, with world_size, rank_in_group and cpu_group.
    """
    of_ranks: list[list[str]] = [[] for _ in range(group.world_size)]
    torch.distributed.all_gather_object(of_ranks, formats, group=group.cpu_group)
    for rank, of_rank in enumerate(of_ranks):
        if of_rank != formats:
            raise NotSupported(
                f"EPLB: expected all ranks to pack the layers alike; rank {rank} differs from rank {group.rank_in_group}. "
                "Use GPUs of one kind and the same MOEC variables on all ranks"
            )
