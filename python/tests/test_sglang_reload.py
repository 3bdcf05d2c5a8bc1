# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's reload of weights, and its replay of routed experts, with moec's plug-in on the processor. It runs where torch and
SGLang's files are."""

from typing import Any

import pytest
import sglang_files
from conftest import import_torch

torch = import_torch(files=sglang_files.prepare)

import sglang_layers as layers  # noqa: E402
from engine_layers import EXPERTS, HIDDEN, INTERMEDIATE, Built, addresses, computed, error, random_weights  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in layers.CASES}

pytestmark = pytest.mark.usefixtures("moec_serves_sglang")


def load_again(layer: Any, case: Any, *, seed: int, without: tuple[Any, ...] = (), has_bias: bool = False) -> Built:
    """SGLang's own update of weights: it restores parameters, the model loads, and it processes them. without: the parameter and
    expert, or the shard, that does not come."""
    from sglang.srt.model_loader.loader import DefaultModelLoader

    made = random_weights(case, experts=EXPERTS, hidden=HIDDEN, width=INTERMEDIATE, has_bias=has_bias, seed=seed)
    model = torch.nn.ModuleList([layer])
    DefaultModelLoader.restore_weights_before_loading(model, torch.device("cpu"))
    layers.load(layer, case, made, INTERMEDIATE, without)
    DefaultModelLoader.postprocess_weights(model, torch.device("cpu"))
    return Built(layer, *made[1:])


@pytest.mark.parametrize("name", CASES)
def test_weights_come_again(name: str) -> None:
    """In the memory of before, whose addresses graphs hold; twice, with the bits of a fresh layer's."""
    case = CASES[name]
    layer = layers.build(case).runner
    memory = addresses(layer)
    x, ids, weights = layers.inputs(7)
    x = x.to(layer.params_dtype)
    outputs = [layers.forward(layer, x, ids, weights)]
    for seed in (5, 6):
        again = load_again(layer, case, seed=seed)
        outputs.append(layers.forward(layer, x, ids, weights))
        assert (outputs[-1] != outputs[-2]).any()
        assert error(outputs[-1], computed(again, case, x, ids, weights)) < case.bound
        assert addresses(layer) == memory
    fresh = layers.build(case, seed=6).runner
    assert (layers.forward(fresh, x, ids, weights) == outputs[-1]).all()


def test_biases_come_again() -> None:
    case = CASES["gpt-oss"]
    layer = layers.build(case, has_bias=True).runner
    again = load_again(layer, case, seed=9, has_bias=True)
    x, ids, weights = layers.inputs(7)
    assert error(layers.forward(layer, x, ids, weights), computed(again, case, x, ids, weights)) < case.bound


@pytest.mark.parametrize("rank", [0, 1])
def test_experts_of_a_rank_come_again(rank: int) -> None:
    case = CASES["fp8 block"]
    with layers.rank(moe_ep_size=2, moe_ep_rank=rank):
        layer = layers.build(case).runner
        again = load_again(layer, case, seed=5)
        x, ids, weights = layers.inputs(7)
        got = layers.forward(layer, x, ids, weights)
    local = list(range(EXPERTS // 2 * rank, EXPERTS // 2 * (rank + 1)))
    assert error(got, computed(again, case, x, ids, weights, local)) < case.bound


@pytest.mark.parametrize(
    ("name", "without", "lacking"),
    [
        ("bf16", ("w2_weight", 3), "w2_weight of experts 3"),
        ("bf16", ("w3",), "w13_weight of experts 0, 1, 2, 3, 4, 5, 6, 7"),
        ("bf16", ("w2",), "w2_weight"),
        ("fp8 block", ("w13_weight_scale_inv", 3), "w13_weight_scale_inv of experts 3"),
    ],
)
def test_weights_that_come_in_part(name: str, without: Any, lacking: str) -> None:
    """The layer names what is missing, and does not run until all has come."""
    case = CASES[name]
    layer = layers.build(case).runner
    reason = f"the weights came again in part, without {lacking}$"
    with pytest.raises(moec.NotSupported, match=reason):
        load_again(layer, case, seed=5, without=without)
    with pytest.raises(moec.InvalidArgument, match=reason):
        layers.forward(layer, *layers.inputs(7))
    again = load_again(layer, case, seed=6)
    x, ids, weights = layers.inputs(7)
    assert error(layers.forward(layer, x, ids, weights), computed(again, case, x, ids, weights)) < case.bound


def test_runs_while_weights_come(monkeypatch: pytest.MonkeyPatch) -> None:
    from moec.integrations import _sglang_layer

    layer = layers.build(CASES["bf16"], packs=False).runner
    method = layer.quant_method
    method.restore_weights_before_loading(layer)  # nothing is packed yet
    method.process_weights_after_loading(layer)
    method.restore_weights_before_loading(layer)
    # SGLang restores the whole model before it loads, so the memory must be that of the packed weights.
    for name in ("w13", "w2"):
        assert getattr(layer, f"{name}_weight").data_ptr() == method.moec_layer.weights[name].data_ptr()
    with pytest.raises(moec.InvalidArgument, match="its weights are being loaded again"):
        layers.forward(layer, *layers.inputs(7))
    monkeypatch.setattr(_sglang_layer, "balances", lambda: True)
    with pytest.raises(moec.NotSupported, match="does not load weights again with load balancing"):
        method.restore_weights_before_loading(layer)


def test_a_replay_has_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """SGLang captures the ids that its router chose; they give the same output again."""
    from sglang.srt.layers.moe import topk

    captured: list[Any] = []
    capturer = type("Capturer", (), {"capture": lambda self, layer_id, topk_indices: captured.append(topk_indices.clone())})()
    monkeypatch.setattr(topk, "get_global_experts_capturer", lambda: capturer)
    layer = layers.build(CASES["fp8 block"]).runner
    router = topk.TopK(top_k=layers.TOP_K, renormalize=True, layer_id=layer.layer_id)
    router.bind_runner_backend(layer.runner_backend, routing_method_type=layer.routing_method_type)
    x, _, _ = layers.inputs(7)
    chosen = router.forward_native(x, torch.randn(7, EXPERTS, generator=torch.Generator().manual_seed(1)))
    first = layer(x.clone(), chosen)
    assert (captured[-1] == chosen.topk_ids).all()
    assert (layers.forward(layer, x.clone(), captured[-1], chosen.topk_weights) == first).all()
    assert (layers.forward(layer, x.clone(), captured[-1].flip(0), chosen.topk_weights) != first).any()
