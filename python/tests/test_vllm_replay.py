# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Routed experts out of vLLM's layer and into it again, with moec's plug-in on the processor. It needs torch and vLLM's files."""

import types
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402

CASES = {case.name: case for case in cases.CASES}

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


def test_vllm_routes_where_it_returns_routed_experts(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM captures ids in its router, or in kernels of its own that route."""
    assert layers.build(vllm_engine, CASES["bf16"], "cpu").runner.routed_experts.quant_method.is_monolithic
    monkeypatch.setattr(vllm_engine.aux_output_config, "enable_return_routed_experts", True)
    assert not layers.build(vllm_engine, CASES["bf16"], "cpu").runner.routed_experts.quant_method.is_monolithic


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "compressed int4", "gpt-oss", "ModelOpt NVFP4"])
def test_a_replay_has_the_same_bits(vllm_engine: Any, name: str) -> None:
    from vllm.forward_context import set_forward_context
    from vllm.model_executor.layers.fused_moe.routed_experts_capturer import bind_routed_experts_capturer

    recorded: dict[str, Any] = {}

    def route(hidden_states: Any, gating_output: Any, topk: int, renormalize: bool) -> Any:
        if "replayed" in recorded:
            return recorded["replayed"]
        recorded["weights"], recorded["ids"] = layers.given(hidden_states, gating_output, topk, renormalize)
        return recorded["weights"], recorded["ids"]

    made = layers.build(vllm_engine, CASES[name], "cpu", custom_routing_function=route)
    captured: list[Any] = []
    bind_routed_experts_capturer(made.runner, types.SimpleNamespace(capture=lambda layer, ids: captured.append(ids.clone())))
    x, logits = layers.random_inputs(33)
    with set_forward_context(None, vllm_engine):
        first = made.runner(x.clone(), logits)
        assert (captured[-1] == recorded["ids"]).all()
        # The training process gives back what the server returned. Other logits would choose other experts.
        recorded["replayed"] = (recorded["weights"], captured[-1].int())
        again = made.runner(x.clone(), logits.flip(-1))
        assert (again == first).all()
        del recorded["replayed"]
        assert (made.runner(x.clone(), logits.flip(-1)) != first).any()
