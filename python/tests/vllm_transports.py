# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of vLLM's transports that a processor lacks, over gloo. vllm_files.prepare() comes before install().

DeepEP's package: its buffer, with the calls that vLLM makes and the meanings of DeepEP's documentation. Two collectives, which
vLLM's communicator for processors lacks.
"""

import sys
import types
from typing import Any, NamedTuple, TypeAlias

import torch
import torch.distributed as dist

Tensor: TypeAlias = torch.Tensor


class Event(NamedTuple):
    """Nothing is asynchronous here."""

    event: None = None


class Sent(NamedTuple):
    """Which rows went where, for the way back."""

    rows: list[list[Tensor]]
    """For each sending rank the rows of its tokens that each rank got."""
    tokens: int


class Config:
    """DeepEP's choice of block counts."""


def _gathered(value: Any) -> list[Any]:
    made: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(made, value)
    return made


class Buffer:
    capture = staticmethod(Event)

    @staticmethod
    def get_dispatch_config(ranks: int) -> Config:
        return Config()

    get_combine_config = get_dispatch_config

    def get_dispatch_layout(self, topk_idx: Tensor, num_experts: int, **options: Any) -> tuple[Any, ...]:
        assert topk_idx.dtype == torch.int64
        ranks = dist.get_world_size()
        owner = topk_idx // (num_experts // ranks)
        in_rank = torch.stack([(owner == rank).any(1) for rank in range(ranks)], 1)
        return in_rank.sum(0), None, torch.bincount(topk_idx.flatten(), minlength=num_experts), in_rank, Event()

    def dispatch(
        self, x: Tensor, topk_idx: Tensor, topk_weights: Tensor, is_token_in_rank: Tensor, **options: Any
    ) -> tuple[Any, ...]:
        """Rows of all ranks' tokens that have an expert here. Ids count local experts; -1 is an expert elsewhere."""
        assert x.dtype == torch.bfloat16
        rank, ranks = dist.get_rank(), dist.get_world_size()
        local = len(options["num_tokens_per_expert"]) // ranks
        sent = _gathered((x, topk_idx, topk_weights, is_token_in_rank))
        rows = [[each[3][:, to].nonzero().flatten() for to in range(ranks)] for each in sent]
        got = torch.cat([each[0][rows[sender][rank]] for sender, each in enumerate(sent)])
        ids = torch.cat([each[1][rows[sender][rank]] for sender, each in enumerate(sent)])
        weights = torch.cat([each[2][rows[sender][rank]] for sender, each in enumerate(sent)])
        here = (ids >= rank * local) & (ids < (rank + 1) * local)
        ids, weights = torch.where(here, ids - rank * local, -1), torch.where(here, weights, 0.0)
        counts = torch.bincount(ids[here], minlength=local).tolist()
        return got, ids, weights, counts, Sent(rows, len(x)), Event()

    def combine(self, x: Tensor, handle: Sent, **options: Any) -> tuple[Any, ...]:
        """The sum over ranks of the rows that each rank made of this rank's tokens."""
        assert x.dtype == torch.bfloat16
        rank, ranks = dist.get_rank(), dist.get_world_size()
        out = torch.zeros(handle.tokens, x.shape[1])
        for worker, made in enumerate(_gathered(x)):
            begin = sum(len(handle.rows[sender][worker]) for sender in range(rank))
            mine = handle.rows[rank][worker]
            out.index_add_(0, mine, made[begin : begin + len(mine)].float())
            assert len(made) == sum(len(handle.rows[sender][worker]) for sender in range(ranks))
        return out.bfloat16(), None, Event()

    def low_latency_dispatch(
        self, x: Tensor, topk_idx: Tensor, most: int, num_experts: int, use_fp8: bool, **options: Any
    ) -> tuple[Any, ...]:
        """Rows by expert: [local experts, ranks * most, hidden]. NaN stands in slots without a row, which nobody may read."""
        assert x.dtype == torch.bfloat16
        assert topk_idx.dtype == torch.int64
        assert len(x) <= most
        assert not use_fp8
        rank, ranks = dist.get_rank(), dist.get_world_size()
        local = num_experts // ranks
        made = torch.full((local, ranks * most, x.shape[1]), torch.nan, dtype=x.dtype)
        places: list[list[tuple[int, int, int]]] = [[] for _ in range(local)]
        for sender, (rows, ids) in enumerate(_gathered((x, topk_idx))):
            for token, k in (ids // local == rank).nonzero().tolist():
                expert = int(ids[token, k]) % local
                made[expert, len(places[expert])] = rows[token]
                places[expert].append((sender, token, k))
        counts = torch.tensor([len(each) for each in places], dtype=torch.int32)
        return made, counts, places, Event(), lambda: None

    def low_latency_combine(
        self, x: Tensor, topk_idx: Tensor, topk_weights: Tensor, handle: Any, out: Tensor, **options: Any
    ) -> tuple[Any, ...]:
        """The weighted sum of the results of this rank's tokens, into out."""
        rank, total = dist.get_rank(), torch.zeros(out.shape)
        for made, places in _gathered((x, handle)):
            for expert, each in enumerate(places):
                for slot, (sender, token, k) in enumerate(each):
                    if sender == rank:
                        total[token] += topk_weights[token, k] * made[expert, slot].float()
        out.copy_(total)
        return out, Event(), lambda: None


def all_gatherv(self: Any, input_: Any, dim: int = 0, sizes: list[int] | None = None) -> Any:
    """The rows of all ranks, one rank after the other."""
    assert dim == 0
    tensors = input_ if isinstance(input_, list) else [input_]
    gathered = _gathered(tensors)
    assert sizes in (None, [len(each[0]) for each in gathered])
    made = [torch.cat(parts) for parts in zip(*gathered, strict=True)]
    return made if isinstance(input_, list) else made[0]


def reduce_scatterv(self: Any, input_: Tensor, dim: int = -1, sizes: list[int] | None = None) -> Tensor:
    """This rank's rows of the sum of all ranks' tensors."""
    assert dim == 0
    total = torch.stack([each.float() for each in _gathered(input_)]).sum(0).to(input_.dtype)
    ranks = dist.get_world_size()
    made: Tensor = total.split(sizes or [len(total) // ranks] * ranks)[dist.get_rank()]
    return made


def install() -> None:
    """Makes vLLM's Python layer use this on a processor."""
    made: Any = types.ModuleType("deep_ep")
    made.Buffer, made.Config, made.EventOverlap = Buffer, Config, Event
    sys.modules["deep_ep"] = made
    from vllm.distributed.device_communicators.all2all import AgRsAll2AllManager
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
    from vllm.model_executor.layers.fused_moe import all2all_utils
    from vllm.model_executor.layers.fused_moe.prepare_finalize import deepep_ll
    from vllm.model_executor.layers.fused_moe.prepare_finalize.deepep_ht import DeepEPHTPrepareAndFinalize

    all2all_utils.DeepEPHTPrepareAndFinalize = DeepEPHTPrepareAndFinalize
    all2all_utils.DeepEPLLPrepareAndFinalize = deepep_ll.DeepEPLLPrepareAndFinalize
    all2all_utils.DEEPEP_QUANT_BLOCK_SHAPE = deepep_ll.DEEPEP_QUANT_BLOCK_SHAPE
    AgRsAll2AllManager.get_handle = lambda self, arguments: Buffer()
    CpuCommunicator.all_gatherv, CpuCommunicator.reduce_scatterv = all_gatherv, reduce_scatterv
