# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's load balancing of experts on the processor, where vLLM has no kernel that maps ids and no communicator.

vllm_files.prepare() comes before the import.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from engine_schemes import Tensor

ROUTER = "vllm.model_executor.layers.fused_moe.router.base_router"


def mapped(
    topk_ids: Tensor,
    expert_load_view: Tensor,
    logical_to_physical_map: Tensor,
    logical_replica_count: Tensor,
    record_enabled: Tensor,
    num_unpadded_tokens: Tensor | None = None,
) -> Tensor:
    """The physical experts of logical ones, which vLLM's Triton kernel computes, with its choice of a replica by token."""
    tokens = torch.arange(len(topk_ids)).unsqueeze(1)
    hashed = (tokens * 2654435769) & 0xFFFFFFFF
    ids = topk_ids.long()
    made = logical_to_physical_map[ids, hashed % logical_replica_count[ids]]
    if bool(record_enabled):
        real = made if num_unpadded_tokens is None else made[: int(num_unpadded_tokens)]
        expert_load_view.index_add_(0, real.reshape(-1), torch.ones(real.numel(), dtype=expert_load_view.dtype))
    return made.to(topk_ids.dtype)


class Recorder:
    """In the place of a rank's communicator: keeps what a rank sends and receives."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, list[Tensor]]] = []
        self.wanted: list[tuple[int, int, list[Tensor]]] = []

    def set_transfer_context(self, old_indices: Any, layer_idx: int) -> None:
        pass

    def add_send(self, tensors: list[Tensor], dst_rank: int, expert_id: int) -> None:
        self.sent.append((dst_rank, expert_id, tensors))

    def add_recv(self, tensors: list[Tensor], src_rank: int, expert_id: int) -> None:
        self.wanted.append((src_rank, expert_id, tensors))

    def execute(self) -> None:
        pass


def _carry(ranks: Sequence[Recorder]) -> Iterator[tuple[Tensor, Tensor]]:
    """The tensors that are received, each with what was sent."""
    for rank, each in enumerate(ranks):
        for source, expert, into in each.wanted:
            (given,) = [tensors for to, sent, tensors in ranks[source].sent if (to, sent) == (rank, expert)]
            yield from zip(into, given, strict=True)


def rearrange(weights: Sequence[Sequence[Tensor]], old: Sequence[int], new: Sequence[int]) -> int:
    """Moves the experts of a layer by vLLM's own functions, and returns how many rows went to another rank.

    weights: the tensors of each rank. old, new: the logical expert of each physical one.
    """
    from vllm.distributed.eplb.rebalance_execute import move_from_buffer, move_to_buffer

    local, ranks = len(old) // len(weights), [Recorder() for _ in weights]
    before, after = numpy.array(old), numpy.array(new)
    buffers = [[torch.empty_like(each) for each in of_rank] for of_rank in weights]
    moved = [
        move_to_buffer(local, before, after, of_rank, buffers[rank], None, rank, ranks[rank])
        for rank, of_rank in enumerate(weights)
    ]
    for into, given in _carry(ranks):
        into.copy_(given)
    for rank, of_rank in enumerate(weights):
        move_from_buffer(of_rank, buffers[rank], moved[rank], after, rank)
    return sum(len(each.wanted) for each in ranks)


class Maps:
    """The maps of one layer, as EplbState has them."""

    def __init__(self, placed: Sequence[int], logical: int) -> None:
        self.load = torch.zeros(1, len(placed), dtype=torch.int32)
        self.to_physical = torch.full((1, logical, len(placed)), -1)
        self.replicas = torch.zeros(1, logical, dtype=torch.long)
        self.commit(placed)

    def commit(self, placed: Sequence[int]) -> None:
        from vllm.distributed.eplb.eplb_state import compute_logical_maps

        made, counts = compute_logical_maps(torch.tensor(placed), self.replicas.shape[1])
        self.to_physical[0].fill_(-1)
        self.to_physical[0, :, : made.shape[1]] = made
        self.replicas[0].copy_(counts)

    def give(self, runner: Any) -> None:
        runner.set_eplb_state(0, self.load, self.to_physical, self.replicas)
        state = runner.router.eplb_state
        state.should_record_tensor = torch.tensor(True)
        state.num_unpadded_tokens_tensors = [torch.tensor(1 << 20)]
