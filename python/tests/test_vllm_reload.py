# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's own reload of weights, layer by layer, with moec's plug-in on the processor. It needs torch and vLLM's files."""

from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402
from engine_layers import addresses, random_weights  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in cases.CASES}

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


def forward(engine: Any, runner: Any, x: Any, logits: Any) -> Any:
    from vllm.forward_context import set_forward_context

    with set_forward_context(None, engine):
        return runner(x.clone(), logits)


def built(engine: Any, case: Any, **options: Any) -> Any:
    """A packed layer, of which vLLM has recorded how parameters were before."""
    from vllm.model_executor.model_loader.reload import layerwise

    made = layers.build(engine, case, "cpu", packs=False, **options)
    layerwise.record_metadata_for_reloading(made.runner)
    layer = made.runner.routed_experts
    layer.quant_method.process_weights_after_loading(layer)
    return made


def load_again(engine: Any, runner: Any, case: Any, *, seed: int, without: tuple[Any, ...] = (), has_bias: bool = False) -> Any:
    """vLLM's reload of other random weights. without: the parameter and expert, or the shard, that does not come."""
    from vllm.config import set_current_vllm_config
    from vllm.model_executor.model_loader.reload import layerwise

    layer, sizes = runner.routed_experts, {"experts": layers.EXPERTS, "hidden": layers.HIDDEN, "width": layers.INTERMEDIATE}
    made = random_weights(case, has_bias=has_bias, seed=seed, **sizes)
    with set_current_vllm_config(engine):
        layerwise.initialize_layerwise_reload(runner)
        # As load_weights() of vLLM's models does.
        parameters = dict(layer.named_parameters())
        for expert, shard, name, tensor in layers.of_parameters(case, made):
            if without not in ((name, expert), (shard,)):
                parameter = parameters[name]
                parameter.weight_loader(parameter, tensor, f"{layer.layer_name}.{name}", shard_id=shard, expert_id=expert)
        layerwise.finalize_layerwise_reload(runner, engine.model_config)
    return layers.Built(runner, *made[1:])


# vLLM's own reload reads a number of a tensor that is not there yet.
NOT_BY_VLLM = ("compressed fp8 tensor, static",)


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_BY_VLLM])
def test_weights_come_again(vllm_engine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the memory of before, whose addresses graphs hold; twice, with the bits of a fresh layer's."""
    case = CASES[name]
    made = built(vllm_engine, case)
    layer = made.runner.routed_experts
    memory = addresses(layer)
    x, logits = layers.random_inputs(7)
    outputs = [forward(vllm_engine, made.runner, x, logits)]
    for seed in (5, 6):
        load_again(vllm_engine, made.runner, case, seed=seed)
        outputs.append(forward(vllm_engine, made.runner, x, logits))
        assert (outputs[-1] != outputs[-2]).any()
        assert addresses(layer) == memory
    fresh = built(vllm_engine, case)
    load_again(vllm_engine, fresh.runner, case, seed=6)
    assert (forward(vllm_engine, fresh.runner, x, logits) == outputs[-1]).all()


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "gpt-oss", "MXFP4", "GPTQ int4"])
def test_the_numbers_are_those_that_came(vllm_engine: Any, name: str) -> None:
    case = CASES[name]
    made = built(vllm_engine, case, has_bias=True)
    again = load_again(vllm_engine, made.runner, case, seed=9, has_bias=True)
    x, logits = layers.random_inputs(7)
    wanted = layers.computed(again, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(vllm_engine, made.runner, x, logits), wanted) < case.bound


@pytest.mark.parametrize(
    ("name", "without", "lacking"),
    [
        ("bf16", ("w2_weight", 3), "w2_weight of experts 3"),
        ("bf16", ("w3",), "w13_weight of experts 0, 1, 2, 3, 4, 5, 6, 7"),
        ("bf16", ("w2",), "w2_weight"),
        ("fp8 block", ("w13_weight_scale_inv", 3), "w13_weight_scale_inv of experts 3"),
        ("ModelOpt fp8", ("w2_weight_scale", 7), "w2_weight_scale of experts 7"),
    ],
)
def test_weights_that_come_in_part(vllm_engine: Any, name: str, without: Any, lacking: str) -> None:
    """The layer names what is missing, keeps its numbers, and does not run until all has come."""
    case = CASES[name]
    made = built(vllm_engine, case)
    x, logits = layers.random_inputs(7)
    reason = f"the weights came again in part, without {lacking}$"
    with pytest.raises(moec.NotSupported, match=reason):
        load_again(vllm_engine, made.runner, case, seed=5, without=without)
    with pytest.raises(moec.InvalidArgument, match=reason):
        forward(vllm_engine, made.runner, x, logits)
