# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Activations and modules that moec.integrations.transformers recognises or refuses."""

import importlib
import types
from typing import Any

import pytest
from conftest import import_torch

import moec

torch = import_torch("transformers")
transformers = importlib.import_module("transformers")

import transformers_models as models  # noqa: E402
from transformers_models import TOP_K, same_bytes, tokens_of  # noqa: E402

import moec.integrations.transformers as integration  # noqa: E402
from moec.integrations.transformers import activations  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda gate, up: torch.nn.functional.silu(gate) * up, "silu"),
        (lambda gate, up: torch.nn.functional.gelu(gate) * up, "gelu"),
        (lambda gate, up: torch.nn.functional.gelu(gate, approximate="tanh") * up, "gelu_tanh"),
        (lambda gate, up: torch.relu(gate) ** 2 * up, "relu2"),
        (activations._swiglu(1.702, 0.0, 1e99), "swigluoai (swiglu_alpha 1.702, swiglu_beta 0, swiglu_limit 3e+38)"),
        (activations._swiglu(1.0, 0.0, 10.0), "silu (swiglu_limit 10)"),
        (activations._swiglu(1.5, 0.5, 3.0), "swigluoai (swiglu_alpha 1.5, swiglu_beta 0.5, swiglu_limit 3)"),
        (activations._swiglustep(7.0), "swiglustep (swiglu_limit 7)"),
        (activations._situ(4.0, 25.0), "situ (situ_beta 4, situ_linear_beta 25)"),
        (activations._situ(4.0, 0.0), "situ (situ_beta 4, situ_linear_beta 0)"),
        (lambda gate, up: torch.relu(gate) * up, "relu"),
        (lambda gate, up: torch.nn.functional.silu(gate) * up * 0.999, None),
        (lambda gate, up: torch.nn.functional.silu(gate.clamp(max=5)) * up, None),
        (lambda gate, up: torch.nn.functional.silu(gate.clamp(max=500)) * up, None),
        (lambda gate, up: torch.nn.functional.silu(gate) * up.clamp(-5, 6), None),
        (lambda gate, up: gate * up, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", ["gate_first", "up_first", "interleaved"])
def test_activations(function: Any, expected: str | None, order: str) -> None:
    def apply_gate(both: Any) -> Any:
        gate, up = (both[..., ::2], both[..., 1::2]) if order == "interleaved" else both.chunk(2, -1)
        return function(up, gate) if order == "up_first" else function(gate, up)

    if expected is None:
        with pytest.raises(moec.InvalidArgument, match="layer: its _apply_gate is no activation of moec"):
            activations.gated(apply_gate, "layer")
        return
    found = activations.gated(apply_gate, "layer")
    assert (str(found), found.order) == (expected, order)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda experts: setattr(experts, "has_post_expert_norm", True), "norm after each expert .* config.json"),
        (lambda experts: experts.to("meta"), "is on the meta device: it was offloaded or not loaded"),
        (lambda experts: setattr(experts, "act_fn", torch.nn.ReLU()), "its _apply_gate is no activation of moec"),
        (lambda experts: setattr(experts, "_apply_gate", lambda both: both), "its _apply_gate is no activation of moec"),
        (lambda experts: experts.register_buffer("more", torch.ones(3)), "has a tensor 'more', which moec does not use"),
        (lambda experts: setattr(experts, "num_experts", 8), "expected weights of 8 experts, got 16 and 16"),
        (
            lambda experts: setattr(experts, "down_proj", torch.nn.Parameter(torch.zeros(16, 128, 64))),
            "gate_up_proj and down_proj do not fit each other",
        ),
        (lambda experts: experts.to(torch.float64), "says the input's type|expected an input of bfloat16"),
        (lambda experts: experts.register_parameter("down_proj", None), "expected a parameter 'down_proj'"),
        (lambda experts: torch.nn.utils.parametrize.register_parametrization(experts, "down_proj", torch.nn.Identity()),
         "expected a parameter 'down_proj'"),
    ],
)  # fmt: skip
def test_refusals(change: Any, message: str) -> None:
    experts = models.experts_module("qwen3_moe", "Qwen3MoeExperts")
    change(experts)
    with pytest.raises(moec.InvalidArgument, match=message):
        integration.attach(experts, top_k=TOP_K)


def test_refused_models(model: Any) -> None:
    with pytest.raises(moec.InvalidArgument, match="expected a module whose class has the decorator .*, and Linear has none"):
        integration.attach(torch.nn.Linear(2, 2))
    first, second = (model.model.layers[layer].mlp.experts for layer in (0, 1))
    with pytest.raises(moec.InvalidArgument, match="give attach.model, top_k=N."):
        integration.attach(types.SimpleNamespace(named_modules=lambda: [("", lonely(first))], modules=list), in_place=False)
    second.down_proj = first.down_proj
    with pytest.raises(moec.InvalidArgument, match="share memory, which packing in place would overwrite"):
        integration.attach(model)
    integration.attach(model, in_place=False, max_tokens=64)


def test_a_view_with_gaps_shares_memory(model: Any) -> None:
    """Its second element is inside of weights that packing would overwrite."""
    experts = model.model.layers[1].mlp.experts
    shape, count = experts.down_proj.shape, experts.down_proj.numel()
    memory = torch.zeros(256 + count, dtype=experts.down_proj.dtype)
    memory[256:] = experts.down_proj.data.flatten()
    experts.down_proj = torch.nn.Parameter(memory[256:].view(shape), requires_grad=False)
    model.model.norm.register_buffer("far", memory[:: 256 + count // 2][:2])
    with pytest.raises(moec.InvalidArgument, match="share memory, which packing in place would overwrite"):
        integration.attach(model)
    model.model.norm.far = memory[:2]
    integration.attach(model, max_tokens=64)


def lonely(experts: Any) -> Any:
    experts.config = transformers.PreTrainedConfig()
    return experts


def test_a_dtensor_is_refused() -> None:
    distributed = pytest.importorskip("torch.distributed.tensor")
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        experts = models.experts_module("qwen3_moe", "Qwen3MoeExperts")
        sharded = distributed.distribute_tensor(experts.down_proj.data, mesh, [distributed.Shard(0)])
        experts.down_proj = torch.nn.Parameter(sharded)
        with pytest.raises(moec.InvalidArgument, match=r"down_proj is a DTensor; expected a plain tensor of this process"):
            integration.attach(experts, top_k=TOP_K)
    finally:
        torch.distributed.destroy_process_group()


def test_another_router(model: Any) -> None:
    integration.attach(model, top_k=3, max_tokens=64)
    with pytest.raises(moec.InvalidArgument, match=r"prepared for 3 experts a token, and the router gives 4; call attach"):
        model(tokens_of(1, 4))


def test_a_wrong_layer_is_seen(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights are as before then, and the check sees a wrong order of gates and ups."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    right = activations.gated
    monkeypatch.setattr(
        "moec.integrations.transformers.experts.gated", lambda *arguments: right(*arguments)._replace(order="up_first")
    )
    with pytest.raises(moec.InvalidArgument, match=r"layers.0.mlp.experts: moec differs from the module's own forward by"):
        integration.attach(model, max_tokens=64)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.config._experts_implementation == "eager"


def test_a_failure_leaves_the_model(model: Any) -> None:
    """The last layer is refused by its check, when others are packed."""
    last = model.model.layers[2].mlp.experts
    last.down_proj[5, 0, 0] = float("nan")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(moec.InvalidArgument, match=r"layers.2.mlp.experts: its own forward returned non-finite values"):
        integration.attach(model, max_tokens=64)
    assert all(same_bytes(tensor, before[name]) for name, tensor in model.state_dict().items())
    # The model's own parameters have them, and its own code computes.
    assert {name for name, _ in model.named_parameters()} == before.keys()
    assert all(same_bytes(tensor.data, before[name]) for name, tensor in model.named_parameters())
    assert model.config._experts_implementation == "eager"
    last.down_proj[5, 0, 0] = 0.0
    assert len(integration.attach(model, max_tokens=64).rows) == 3


def test_gradients_are_refused(model: Any) -> None:
    integration.attach(model, max_tokens=64)
    message = r"experts_implementation='moec' computes no gradients; call the model in torch.no_grad\(\)"
    with torch.enable_grad():
        with pytest.raises(moec.InvalidArgument, match=message):
            model(tokens_of(1, 4))
        # The embeddings are frozen, the experts are not.
        model.requires_grad_(False)
        with pytest.raises(moec.InvalidArgument, match=message):
            model(tokens_of(1, 4))
        integration.detach(model)
        model.requires_grad_(False)
        integration.attach(model, max_tokens=64)
        model(tokens_of(1, 4))
        integration.detach(model)
        model.set_experts_implementation("moec")
        model(tokens_of(1, 4))
        model.model.layers[1].mlp.experts.requires_grad_(True)
        with pytest.raises(moec.InvalidArgument, match=message):
            model(tokens_of(1, 4))
