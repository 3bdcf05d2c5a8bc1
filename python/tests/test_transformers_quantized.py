# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized experts of transformers, in its FP8Experts and from checkpoints."""

import importlib
import inspect
import json
import pathlib
from typing import Any

import pytest
from conftest import import_torch

import moec

torch = import_torch("transformers")
transformers = importlib.import_module("transformers")

import transformers_checkpoints  # noqa: E402
import transformers_models as models  # noqa: E402
from transformers_models import HIDDEN, LIMIT, TOP_K, eager, error, routed, same_bytes, tokens_of  # noqa: E402

import moec.integrations.transformers as integration  # noqa: E402
from moec.integrations.transformers import check  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize(
    ("options", "scheme"),
    [
        ({"block_size": (128, 128)}, "fp8_block"),
        ({"block_size": (128, 128), "scale_fmt": "ue8m0"}, "fp8_block_ue8m0"),
        ({"block_size": None}, "fp8_tensor_token"),
        ({"block_size": None, "activation_scheme": "static"}, "fp8_tensor"),
    ],
)
def test_fp8_experts(options: Any, scheme: str) -> None:
    config = models.fp8_config(moe_intermediate_size=128)
    experts = models.fp8_module(config, **options)
    x, ids, shares = routed(33)
    expected = models.of_fp8(experts, x, ids, shares, group=128 if options["block_size"] else HIDDEN)
    floats = check.own_output(experts, x, ids, shares)
    before = {name: tensor.clone() for name, tensor in experts.state_dict().items()}
    report = integration.attach(experts, top_k=TOP_K, max_tokens=64)
    assert report.rows[0].scheme == scheme
    got = experts(x, ids, shares)
    if scheme in ("fp8_block", "fp8_tensor_token"):
        assert error(got, expected) < 5e-3
    assert 1e-3 < error(got, floats) < 0.12
    saved = experts.state_dict()
    assert all(same_bytes(saved[name], before[name]) for name in before)
    integration.detach(experts)
    assert all(same_bytes(tensor, before[name]) for name, tensor in experts.state_dict().items())


def test_fp4_experts() -> None:
    config = models.fp8_config(moe_intermediate_size=128, expert_dtype="fp4")
    more = {} if "expert_dtype" not in inspect.signature(fp8_class().__init__).parameters else {"expert_dtype": "fp4"}
    experts = models.fp8_module(config, block_size=(128, 128), scale_fmt="ue8m0", **more)
    x, ids, shares = routed(33)
    expected = models.of_fp8(experts, x, ids, shares, group=128)
    integration.attach(experts, top_k=TOP_K, max_tokens=64)
    # Activations are emulated: some of the intermediate round to another code.
    assert error(experts(x, ids, shares), expected) < 2e-2


def fp8_class() -> Any:
    from transformers.integrations.finegrained_fp8 import FP8Experts

    return FP8Experts


def test_fp8_refuses() -> None:
    static = models.fp8_module(models.fp8_config(moe_intermediate_size=128), block_size=None, activation_scheme="static")
    static.gate_up_proj_activation_scale[3] = 1
    with pytest.raises(moec.InvalidArgument, match="expected one number for all experts, since moec uses one; got several"):
        integration.attach(static, top_k=TOP_K)
    across = models.fp8_module(models.fp8_config(), block_size=(128, 128))
    with pytest.raises(moec.InvalidArgument, match="expected an intermediate size that is a multiple of 128, got 96"):
        integration.attach(across, top_k=TOP_K)


@pytest.mark.parametrize("kind", ["gptq", "awq", "compressed-tensors", "fp8", "mxfp4"])
def test_load_experts(kind: str, tmp_path: pathlib.Path) -> None:
    model = models.model("gpt_oss") if kind == "mxfp4" else models.model("qwen3_moe", moe_intermediate_size=128)
    transformers_checkpoints.write(kind, model, tmp_path)
    experts = model.model.layers[1].mlp.experts
    arguments = routed(9)
    expected = eager(experts, *arguments)
    report = integration.load_experts(model, tmp_path, max_tokens=64, check=True)
    assert (len(report.rows), report.packages) == (3, 1)
    # fp8 rounds activations, too.
    assert error(experts(*arguments), expected) < (0.06 if kind == "fp8" else LIMIT)
    assert model(tokens_of(1, 5)).logits.isfinite().all()
    assert not any(".experts." in name for name, _ in model.named_parameters())
    for call in (model.state_dict, lambda: integration.detach(model)):
        with pytest.raises(moec.InvalidArgument, match="moec loaded its weights from a checkpoint"):
            call()
    model.set_experts_implementation("eager")
    with pytest.raises(moec.InvalidArgument, match="packed by moec, and the implementation of experts is 'eager'"):
        model(tokens_of(1, 5))


def test_load_experts_of_a_model_without_weights(tmp_path: pathlib.Path) -> None:
    model = models.model("qwen3_moe", moe_intermediate_size=128)
    transformers_checkpoints.write("gptq", model, tmp_path)
    ids = tokens_of(1, 5)
    for layer in model.model.layers:
        layer.mlp.experts.to("meta")
    integration.load_experts(model, tmp_path, max_tokens=64)
    got = model(ids).logits
    other = models.model("qwen3_moe", moe_intermediate_size=128)
    transformers_checkpoints.write("gptq", other, tmp_path)
    integration.attach(other, max_tokens=64)
    assert error(got, other(ids).logits) < 0.05


def test_load_experts_from_floats(tmp_path: pathlib.Path) -> None:
    """moec quantizes what transformers has saved."""
    model = models.model("qwen3_moe")
    model.save_pretrained(tmp_path)
    experts = model.model.layers[2].mlp.experts
    expected = eager(experts, *routed(9))
    report = integration.load_experts(model, tmp_path, scheme="int8_w8a16", quantize=True, max_tokens=64, check=True)
    assert report.rows[0].scheme == "int8_w8a16"
    assert 2e-3 < error(experts(*routed(9)), expected) < 2e-2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "gelu"}, r"layers.0.mlp.experts: the module's activation is .*silu.* config.json .*gelu"),
        ({"num_experts_per_tok": 3}, "the module's top_k is 4, and that of the checkpoint's config.json 3"),
        (
            {"num_experts": 8, "num_local_experts": 8},
            "the module's num_experts is 16, and that of the checkpoint's config.json 8",
        ),
        ({"moe_intermediate_size": 64}, "the module's intermediate_size is 128, and that of the checkpoint's config.json 64"),
    ],
)
def test_another_checkpoint(change: dict[str, Any], message: str, tmp_path: pathlib.Path) -> None:
    model = models.model("qwen3_moe", moe_intermediate_size=128)
    transformers_checkpoints.write("gptq", model, tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(moec.InvalidArgument, match=message):
        integration.load_experts(model, tmp_path)
    assert model(tokens_of(1, 5)).logits.isfinite().all()
