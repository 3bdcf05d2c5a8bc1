# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's layers whose package moves tokens between ranks of data parallel. The ranks are threads of the host device: moec's
communicator is in the place of the one that vLLM's group gives on GPUs. It runs where torch and vLLM's files are."""

import threading
import types
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_eplb as eplb  # noqa: E402
import vllm_layers as layers  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in cases.CASES}
CONFIG = "vllm.model_executor.layers.fused_moe.config"
RANKS = 2


pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


@pytest.fixture
def build(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the layers of all ranks, one after the other."""
    from moec.integrations import _vllm_plan, _vllm_ranks

    monkeypatch.setattr(vllm_engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(_vllm_plan, "MOVING_DEVICES", ("cpu",))

    def make(name: str, **options: Any) -> list[Any]:
        ends = moec.Communicator.threads(RANKS, timeout_ms=20000)
        made = []
        for rank in range(RANKS):
            monkeypatch.setattr(f"{CONFIG}.get_dp_group", lambda rank=rank: types.SimpleNamespace(rank_in_group=rank))
            monkeypatch.setattr(_vllm_ranks, "communicator", lambda device, rank=rank: ends[rank])
            made.append(layers.build(vllm_engine, CASES[name], "cpu", dp_size=RANKS, **options))
        return made

    return make


def on_ranks(counts: tuple[int, ...], work: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Calls work(rank) in a thread for each rank, in a step of vLLM with these token counts. Returns the results."""
    from moec.integrations import _vllm_ranks

    metadata = types.SimpleNamespace(num_tokens_across_dp_cpu=torch.tensor(counts))
    monkeypatch.setattr(_vllm_ranks, "get_forward_context", lambda: types.SimpleNamespace(dp_metadata=metadata))
    results: list[Any] = [None] * RANKS

    def run(rank: int) -> None:
        with torch.no_grad():
            results[rank] = work(rank)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("counts", [(5, 5), (5, 3), (4, 0), (1, 33), (0, 0)], ids=str)
@pytest.mark.parametrize("name", ["bf16", "fp8 block", "gpt-oss", "GPTQ int4"])
def test_ranks_with_tokens_of_their_own(name: str, counts: tuple[int, ...], build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built, case = build(name, has_bias=name == "gpt-oss"), CASES[name]
    inputs = [layers.random_inputs(count, seed=rank) for rank, count in enumerate(counts)]
    for routes in (True, False):

        def work(rank: int, routes: bool = routes) -> Any:
            runner = built[rank].runner
            layer, (x, logits) = runner.routed_experts, inputs[rank]
            method = layer.quant_method
            assert method.moec_plan.moves
            assert method.is_monolithic
            # vLLM's runner moves nothing.
            assert not runner.do_naive_dispatch_combine
            if routes:
                return method.apply_monolithic(layer, x, logits)
            ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
            return method.apply(layer, x, weights.float(), ids.int(), None, None)

        outs = on_ranks(counts, work, monkeypatch)
        for rank, (x, logits) in enumerate(inputs):
            assert outs[rank].shape == x.shape
            if len(x):
                wanted = layers.computed(built[rank], case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
                assert layers.error(outs[rank], wanted) < case.bound


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "gpt-oss", "GPTQ int4"])
def test_experts_move(name: str, vllm_engine: Any, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's load balancing (EPLB) moves rows of the layers, whose package moves the tokens."""
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_eplb", True)
    first, later = [0, 1, 2, 3, 4, 5, 6, 7, 0, 1], [7, 7, 0, 5, 3, 2, 1, 6, 4, 2]
    options = {"enable_eplb": True, "num_redundant_experts": 2, "custom_routing_function": layers.given}
    built, case = build(name, has_bias=name == "gpt-oss", placed=first, **options), CASES[name]
    maps, inputs = eplb.Maps(first, layers.EXPERTS), [layers.random_inputs(count, seed=count) for count in (5, 3)]
    monkeypatch.setattr(f"{eplb.ROUTER}.eplb_map_to_physical_and_record", eplb.mapped)
    for each in built:
        maps.give(each.runner)

    def work(rank: int) -> Any:
        runner, (x, logits) = built[rank].runner, inputs[rank]
        assert runner.routed_experts.quant_method.moec_plan.moves
        assert not runner.routed_experts.quant_method.is_monolithic
        weights, ids = runner.router.select_experts(x, logits, None)
        return runner.routed_experts.quant_method.apply(runner.routed_experts, x, weights, ids, None, None)

    for old, new in ((first, first), (first, later)):
        eplb.rearrange([each.runner.get_expert_weights() for each in built], old, new)
        maps.commit(new)
        outs = on_ranks((5, 3), work, monkeypatch)
        for out, (x, logits) in zip(outs, inputs, strict=True):
            wanted = layers.computed(built[0], case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
            assert layers.error(out, wanted) < case.bound


def test_each_rank_has_its_share(build: Any) -> None:
    built = build("bf16")
    packages = [each.runner.routed_experts.quant_method.moec_layer.package for each in built]
    held = [package.manifest["layer"]["local_experts"] for package in packages]
    half = layers.EXPERTS // 2
    assert [(each["begin"], each["count"]) for each in held] == [(0, half), (half, half)]
    assert packages[0].max_tokens == layers.MOST_TOKENS


def test_who_moves_tokens(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's runner does where a package cannot."""
    from moec.integrations import _vllm_plan

    def moves(name: str = "bf16", **options: Any) -> bool:
        found = {each.runner.routed_experts.quant_method.moec_plan.moves for each in build(name, packs=False, **options)}
        assert len(found) == 1
        return bool(found.pop())

    assert moves()
    # One scale of all ranks' tokens.
    assert not moves("fp8 tensor, dynamic")
    # Its ranks have scales of their own.
    assert not moves("fp8 tensor, static")
    layer = build("bf16", packs=False)[0].runner.routed_experts
    # Ranks that share tokens.
    monkeypatch.setattr(f"{CONFIG}.get_tensor_model_parallel_rank", lambda: 0)
    assert not moves(tp_size=2)
    monkeypatch.setattr(_vllm_plan, "MOVING_DEVICES", ("cuda",))
    assert not moves()
    monkeypatch.setattr(_vllm_plan, "MOVING_DEVICES", ("cpu",))
    scheme, cpu = layer.quant_method.moec_plan.scheme, torch.device("cpu")
    assert _vllm_plan._moving({}, scheme, layer, cpu)
    # vLLM has this placement with other transports.
    monkeypatch.setattr(layer, "expert_placement_strategy", "round_robin")
    assert not _vllm_plan._moving({}, scheme, layer, cpu)


@pytest.mark.parametrize("captured", [layers.MOST_CAPTURED, 2 * layers.MOST_TOKENS])
def test_tokens_of_all_ranks(vllm_engine: Any, build: Any, captured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's runner gathers what a package does not, in CUDA graphs too. A graph has no more tokens than a run."""
    from moec.integrations import _vllm_plan

    monkeypatch.setattr(vllm_engine.compilation_config, "max_cudagraph_capture_size", captured)
    of_rank = min(captured, layers.MOST_TOKENS)

    def most() -> tuple[int, int]:
        plan = build("bf16", packs=False)[0].runner.routed_experts.quant_method.moec_plan
        return plan.max_tokens, plan.captured_tokens

    assert most() == (RANKS * layers.MOST_TOKENS, of_rank)
    monkeypatch.setattr(_vllm_plan, "MOVING_DEVICES", ("cuda",))
    assert most() == (RANKS * layers.MOST_TOKENS, RANKS * of_rank)


def test_steps_without_counts(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from moec.integrations import _vllm_ranks

    layer = build("bf16")[0].runner.routed_experts
    monkeypatch.setattr(_vllm_ranks, "get_forward_context", lambda: types.SimpleNamespace(dp_metadata=None))
    x, logits = layers.random_inputs(3)
    with pytest.raises(moec.InvalidArgument, match="expected vLLM's token counts of all ranks of data parallel, got none"):
        layer.quant_method.apply_monolithic(layer, x, logits)


def test_the_communicator_is_of_vllms_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made once for a group."""
    from moec.integrations import _vllm_ranks

    made: list[Any] = []
    group = types.SimpleNamespace(unique_name="ep:0", device_group=object())
    monkeypatch.setattr(_vllm_ranks, "_communicators", {})
    monkeypatch.setattr(_vllm_ranks, "get_ep_group", lambda: group)
    end = moec.Communicator.threads(1)[0]

    def from_group(*given: Any, **options: Any) -> Any:
        made.append((given, options))
        return end

    monkeypatch.setattr(moec.Communicator, "from_group", from_group)
    assert all(_vllm_ranks.communicator(torch.device("cuda", 1)) is end for _ in range(2))
    assert made == [((group.device_group,), {"device": "cuda:1"})]
