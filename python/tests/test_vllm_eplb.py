# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's load balancing of experts (EPLB) with moec's plug-in, on the processor. The ranks are built one after the other in one
process, or are two processes; vLLM's own functions move the rows. It runs where torch and vLLM's files are."""

import types
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_eplb as eplb  # noqa: E402
import vllm_eplb_ranks  # noqa: E402
import vllm_layers as layers  # noqa: E402
from engine_layers import realized  # noqa: E402
from engine_ranks import RANKS, results_of_ranks  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in cases.CASES}
REDUNDANT = 4
PHYSICAL = layers.EXPERTS + REDUNDANT
# vLLM's first placement, and two later ones: experts stay, move within a rank, move to the other rank, get and lose replicas.
FIRST = [*range(layers.EXPERTS), *range(REDUNDANT)]
SECOND = [0, 2, 1, 7, 7, 6, 3, 4, 5, 7, 0, 5]
THIRD = [7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0, 1]

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


@pytest.fixture
def build(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the layers of all ranks with experts in the given placement."""
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_eplb", True)
    monkeypatch.setattr(f"{eplb.ROUTER}.eplb_map_to_physical_and_record", eplb.mapped)

    def make(case: Any, placed: list[int], **options: Any) -> list[Any]:
        made = []
        for rank in range(RANKS):
            config = "vllm.model_executor.layers.fused_moe.config"
            monkeypatch.setattr(f"{config}.get_tensor_model_parallel_rank", lambda rank=rank: rank)
            options = {"custom_routing_function": layers.given} | options
            redundant: dict[str, Any] = {"enable_eplb": True, "num_redundant_experts": len(placed) - layers.EXPERTS}
            made.append(layers.build(vllm_engine, case, "cpu", tp_size=RANKS, placed=placed, **redundant, **options))
        return made

    return make


def outputs(built: list[Any], x: Any, logits: Any) -> list[Any]:
    """Returns the output of each rank for ids that vLLM's router made physical."""
    made = []
    for each in built:
        layer = each.runner.routed_experts
        assert not layer.quant_method.is_monolithic
        weights, ids = each.runner.router.select_experts(x, logits, None)
        made.append(layer.quant_method.apply(layer, x, weights, ids, None, None))
    return made


@pytest.mark.parametrize("name", CASES)
def test_experts_move(name: str, build: Any) -> None:
    """After each move, every rank gives the bits of a fresh layer whose experts were loaded in the new placement."""
    has_bias = name in ("bf16", "gpt-oss", "GPTQ int4")
    built = build(CASES[name], FIRST, has_bias=has_bias)
    case = realized(CASES[name], built[0].runner.routed_experts.quant_method.moec_plan.realization)
    maps = eplb.Maps(FIRST, layers.EXPERTS)
    for each in built:
        maps.give(each.runner)
    rows = [each.runner.get_expert_weights() for each in built]
    addresses = [[tensor.data_ptr() for tensor in of_rank] for of_rank in rows]
    x, logits = layers.random_inputs(33)
    wanted = layers.computed(built[0], case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    placed, before = FIRST, None
    for new in (FIRST, SECOND, THIRD, FIRST):
        crossed = eplb.rearrange(rows, placed, new)
        assert (crossed > 0) == (new != placed)
        maps.commit(new)
        placed = new
        fresh = build(CASES[name], new, has_bias=has_bias)
        for each in fresh:
            maps.give(each.runner)
        got = outputs(built, x, logits)
        for mine, its in zip(got, outputs(fresh, x, logits), strict=True):
            assert (mine == its).all()
        # A rank has its own scale of the intermediate.
        bound = 5e-2 if case.scheme == "fp8_tensor_dynamic" else case.bound
        assert layers.error(sum(each.double() for each in got), wanted) < bound
        # The test would not notice layers that ignore placements if ranks always gave the same.
        assert before is None or new == FIRST or (got[0] != before).any()
        before = got[0]
    assert [[tensor.data_ptr() for tensor in each.runner.get_expert_weights()] for each in built] == addresses


def test_vllm_routes(build: Any) -> None:
    """vLLM's router counts experts and chooses replicas, so moec must not route, though it could route this layer."""
    (layer, *_) = [each.runner.routed_experts for each in build(CASES["bf16"], FIRST, custom_routing_function=None)]
    plan = layer.quant_method.moec_plan
    assert not plan.routes
    assert plan.source["routing_method"] == "custom"
    assert plan.source["num_experts"] == PHYSICAL
    assert layer.quant_method.supports_eplb


def test_weights_of_vllms_own_layers(build: Any) -> None:
    (layer, *_) = [each.runner.routed_experts for each in build(CASES["bf16"], FIRST, packs=False)]
    method = layer.quant_method
    with pytest.raises(moec.InvalidArgument, match="its weights were not loaded yet"):
        layer.get_expert_weights()
    # A layer that moec left to vLLM.
    method.__class__ = type(method).__bases__[1]
    assert [each.shape[0] for each in layer.get_expert_weights()] == [PHYSICAL // RANKS] * 2
    assert {each.dtype for each in layer.get_expert_weights()} == {torch.bfloat16}


def test_weights_come_again(build: Any) -> None:
    """vLLM would load the experts of the first placement."""
    layer = build(CASES["bf16"], FIRST)[0].runner.routed_experts
    method = layer.quant_method
    with pytest.raises(moec.NotSupported, match="vLLM places as at the start, whatever experts EPLB has moved since"):
        method.process_weights_after_loading(layer)
    x, logits = layers.random_inputs(3)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    with pytest.raises(moec.InvalidArgument, match="whatever experts EPLB has moved since"):
        method.apply(layer, x, weights.float(), ids.int(), None, None)


def test_weights_that_are_not_of_experts(build: Any) -> None:
    from moec.integrations._packing import expert_rows

    made = build(CASES["bf16"], FIRST)[0].runner.routed_experts.quant_method.moec_layer
    local = PHYSICAL // RANKS
    assert len(expert_rows(made, local, "layers.0")) == 2
    with pytest.raises(moec.NotSupported, match=r"layers.0: .* divided into 5 experts, got w13 of \[6, 256, 256\]"):
        expert_rows(made, 5, "layers.0")
    made.weights["routing_bias"] = torch.zeros(local)
    with pytest.raises(moec.NotSupported, match=r"got routing_bias of \[6\]"):
        expert_rows(made, local, "layers.0")
    del made.weights["routing_bias"]
    whole = torch.zeros(made.weights["w2"].numel() + 1, dtype=torch.bfloat16)
    made.weights["w2"] = whole[1:].view(made.weights["w2"].shape)
    with pytest.raises(moec.NotSupported, match="w2 is not aligned, so that runs read a copy"):
        expert_rows(made, local, "layers.0")


def model_of(*built: Any) -> Any:
    return types.SimpleNamespace(
        moe_layers=[each.runner for each in built],
        expert_weights=[list(each.runner.get_expert_weights()) for each in built],
    )


def check(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Registers a model at vLLM's EplbState, whose own part does nothing."""
    from vllm.distributed.eplb.eplb_state import EplbState

    own = EplbState.add_model
    given: list[Any] = []
    (cell,) = own.__closure__
    monkeypatch.setattr(cell, "cell_contents", lambda self, *arguments, **options: given.append((arguments, options)))
    own(None, model, "config", model_name="name")
    assert given == [((model, "config"), {"model_name": "name"})]


def test_layers_that_are_packed_otherwise(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM has buffers for the rows of the first layer alone, and would convert or cut those of others."""
    bf16, block = build(CASES["bf16"], FIRST)[0], build(CASES["fp8 block"], FIRST)[0]
    check(model_of(bf16, bf16), monkeypatch)
    with pytest.raises(moec.NotSupported, match="expected all MoE layers of the model to be packed alike.*layer 1 has rows of"):
        check(model_of(bf16, block), monkeypatch)


def test_ranks_that_pack_otherwise(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from moec.integrations import _balance, _vllm_balance

    bf16, block = build(CASES["bf16"], FIRST)[0], build(CASES["fp8 block"], FIRST)[0]
    formats = {name: _balance.format_of(each.runner.routed_experts.quant_method.moec_layer) for name, each in
               (("bf16", bf16), ("block", block))}  # fmt: skip
    assert formats["bf16"] != formats["block"]
    group = types.SimpleNamespace(world_size=2, rank_in_group=0, cpu_group="ranks")
    monkeypatch.setattr(_vllm_balance, "get_ep_group", lambda: group)
    others: list[str] = []

    def gather(into: list[Any], mine: Any, group: Any) -> None:
        assert group == "ranks"
        into[:] = [mine, others]

    monkeypatch.setattr(torch.distributed, "all_gather_object", gather)
    for others in ([formats["block"]], [""]):  # noqa: B007
        with pytest.raises(moec.NotSupported, match="expected all ranks to pack the layers alike; rank 1 differs from rank 0"):
            check(model_of(bf16), monkeypatch)
    others = [formats["bf16"]]
    check(model_of(bf16), monkeypatch)


@pytest.mark.parametrize("transport", ["allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency"])
def test_two_processes(transport: str) -> None:
    """vLLM's EplbState counts, chooses a placement, exchanges rows between processes and commits maps."""
    for results in results_of_ranks(vllm_eplb_ranks.__file__, transport):
        assert results[0] == {"run": "scales", "result": [3.0, 4.0]}
        assert len(results) == 1 + len(vllm_eplb_ranks.NAMES) * 13
        wrong = [each for each in results[1:] if each["result"] is not True and not 0 < each["result"] < 1]
        assert wrong == []
