# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's load balancing of experts (EPLB) with moec's plug-in, on the processor. The ranks are threads; SGLang's own functions
place experts, map ids and move rows. It runs where torch and SGLang's files are."""

import queue
import threading
import types
from collections.abc import Iterator
from typing import Any

import pytest
import sglang_files
from conftest import import_torch

torch = import_torch(files=sglang_files.prepare)

import sglang_layers as layers  # noqa: E402
from engine_layers import EXPERTS, computed, error  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in layers.CASES}
# SGLang's class of gpt-oss loads all experts of a rank at once, and cannot place replicas.
NAMES = [name for name in CASES if "static" not in name and name != "gpt-oss"]
RANKS, REDUNDANT = 2, 4
PHYSICAL = EXPERTS + REDUNDANT
LOCAL = PHYSICAL // RANKS
# SGLang's first placement, and two later ones: experts stay, move within a rank, move to the other rank, get and lose replicas.
FIRST = [*range(EXPERTS), *range(REDUNDANT)]
SECOND = [0, 2, 1, 7, 7, 6, 3, 4, 5, 7, 0, 5]
THIRD = [7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 1]
UPDATER = "sglang.srt.eplb.expert_location_updater"

pytestmark = pytest.mark.usefixtures("moec_serves_sglang")


@pytest.fixture
def balanced() -> Iterator[None]:
    from sglang.srt.eplb.expert_location import set_global_expert_location_metadata

    configuration = layers.start(enable_eplb=True, ep_num_redundant_experts=REDUNDANT, ep_dispatch_algorithm="dynamic")
    yield
    set_global_expert_location_metadata(None, allow_overwrite=True)
    configuration.restore()


def placement(placed: list[int]) -> Any:
    """SGLang's maps of one layer."""
    from sglang.srt.eplb.expert_location import ExpertLocationMetadata

    places = [[at for at, logical in enumerate(placed) if logical == expert] for expert in range(EXPERTS)]
    padded = [each + [-1] * (PHYSICAL - len(each)) for each in places]
    return ExpertLocationMetadata._init_raw(RANKS, torch.tensor([placed]), torch.tensor([padded]), 0)


def build(case: Any, placed: list[int]) -> list[Any]:
    """The layers of all ranks, which SGLang loads in this placement."""
    from sglang.srt.eplb.expert_location import set_global_expert_location_metadata

    set_global_expert_location_metadata(placement(placed), allow_overwrite=True)
    made = []
    for rank in range(RANKS):
        with layers.rank(moe_ep_size=RANKS, moe_ep_rank=rank):
            made.append(layers.build(case, num_experts=PHYSICAL, logical=EXPERTS, layer_id=0))
    return made


def rows_of(layer: Any) -> list[Any]:
    """As SGLang's models collect the weights of a layer."""
    from sglang.srt.layers.moe.utils import filter_moe_weight_param_global_expert

    return [
        parameter.data
        for name, parameter in layer.named_parameters()
        if filter_moe_weight_param_global_expert(name, parameter, layer.num_local_experts)
    ]


def outputs(built: list[Any], x: Any, ids: Any, weights: Any) -> list[Any]:
    from sglang.srt.eplb.expert_location_dispatch import ExpertLocationDispatchInfo, topk_ids_logical_to_physical

    physical = topk_ids_logical_to_physical(ids.int(), ExpertLocationDispatchInfo.init_new(0))
    made = []
    for rank, each in enumerate(built):
        with layers.rank(moe_ep_size=RANKS, moe_ep_rank=rank):
            made.append(layers.forward(each.runner, x, physical, weights))
    return made


def rearrange(rows: list[list[Any]], old: list[int], new: list[int], monkeypatch: pytest.MonkeyPatch) -> int:
    """Moves the experts by SGLang's own function, with ranks as threads. Returns how many tensors went to another rank."""
    from sglang.srt.eplb import expert_location_updater as updater

    carried: Any = {(source, to): queue.Queue() for source in range(RANKS) for to in range(RANKS)}
    local, count = threading.local(), []

    def transfer(operations: list[Any]) -> list[Any]:
        for each in operations:
            if each.op is torch.distributed.isend:
                carried[local.rank, each.peer].put(each.tensor.clone())
                count.append(each)
        for each in operations:
            if each.op is torch.distributed.irecv:
                each.tensor.copy_(carried[each.peer, local.rank].get(timeout=20))
        return []

    monkeypatch.setattr(updater, "P2POp", lambda op, tensor, peer: types.SimpleNamespace(op=op, tensor=tensor, peer=peer))
    monkeypatch.setattr(torch.distributed, "batch_isend_irecv", transfer)
    failed = []

    def work(rank: int) -> None:
        local.rank = rank
        try:
            with torch.no_grad():
                buffers = updater.create_temp_buffers(rows[rank])
                updater.update_expert_weights_single_layer(rows[rank], buffers, old, new, LOCAL, RANKS, rank, RANKS)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    return len(count)


@pytest.mark.parametrize("name", NAMES)
def test_experts_move(name: str, balanced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After each move, every rank gives the bits of a fresh layer whose experts were loaded in the new placement."""
    from sglang.srt.eplb.expert_location import get_global_expert_location_metadata

    case = CASES[name]
    built = build(case, FIRST)
    x, ids, weights = layers.inputs(33)
    x = x.to(built[0].runner.params_dtype)
    wanted = computed(built[0], case, x, ids, weights)
    rows = [rows_of(each.runner) for each in built]
    assert {each.dtype for of_rank in rows for each in of_rank} == {torch.uint8}
    placed, before = FIRST, None
    for new in (FIRST, SECOND, THIRD, FIRST):
        fresh = build(case, new)
        get_global_expert_location_metadata().update(placement(placed), [0])
        crossed = rearrange(rows, placed, new, monkeypatch)
        assert (crossed > 0) == (new != placed)
        get_global_expert_location_metadata().update(placement(new), [0])
        placed = new
        got = outputs(built, x, ids, weights)
        for mine, its in zip(got, outputs(fresh, x, ids, weights), strict=True):
            assert (mine == its).all()
        # A rank has its own scale of the intermediate.
        bound = 5e-2 if case.scheme == "fp8_tensor_dynamic" else case.bound
        assert error(sum(each.double() for each in got), wanted) < bound
        assert before is None or new == FIRST or (got[0] != before).any()
        before = got[0]


def update(rows: dict[int, Any], monkeypatch: pytest.MonkeyPatch, others: Any = None) -> None:
    """SGLang's update of all layers, whose own part does nothing. others: the formats of the other rank."""
    from sglang.srt.eplb import expert_location_updater as updater
    from sglang.srt.runtime_context import get_parallel

    done: list[Any] = []
    monkeypatch.setattr(updater, "_update_expert_weights", lambda **options: done.append(options))
    monkeypatch.setattr(updater, "get_global_expert_location_metadata", lambda: placement(FIRST))

    def gather(into: list[Any], mine: Any, group: Any) -> None:
        assert group == "ranks"
        into[:] = [mine, mine if others is None else others]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    made = updater.ExpertLocationUpdater()
    made._first_execution = False
    group = types.SimpleNamespace(world_size=2, rank_in_group=0, cpu_group="ranks")
    with layers.rank(moe_ep_size=RANKS, moe_ep_rank=0), get_parallel().override(tp_group=group):
        made.update(rows, placement(SECOND), update_layer_ids=[0], nnodes=1, rank=0)
    assert len(done) == 1


def test_what_is_not_moved(balanced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    bf16, block = build(CASES["bf16"], FIRST)[0].runner, build(CASES["fp8 block"], FIRST)[0].runner
    update({0: rows_of(bf16), 1: rows_of(bf16)}, monkeypatch)
    with pytest.raises(moec.NotSupported, match="expected all MoE layers of the model to be packed alike.*layer 1 has rows of"):
        update({0: rows_of(bf16), 1: rows_of(block)}, monkeypatch)
    with pytest.raises(moec.NotSupported, match="layers that moec has packed; layer 1 has others"):
        update({0: rows_of(bf16), 1: [torch.zeros(LOCAL, 4)]}, monkeypatch)
    # Some models collect parameters before they are packed.
    with pytest.raises(moec.NotSupported, match="has collected its weights before they were packed"):
        update({0: rows_of(bf16)[:1]}, monkeypatch)
    for others in ([""], ["of another GPU"], []):
        with pytest.raises(moec.NotSupported, match="expected all ranks to pack the layers alike; rank 1 differs from rank 0"):
            update({0: rows_of(bf16)}, monkeypatch, others)
