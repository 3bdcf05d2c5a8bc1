# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Blocks of transformers whose routing is moec's, too."""

from typing import Any

import pytest
from conftest import import_torch

import moec

torch = import_torch("transformers")

import transformers_models as models  # noqa: E402
from transformers_models import LIMIT_F32, error, tokens_of  # noqa: E402

import moec.integrations.transformers as integration  # noqa: E402
from moec.integrations.transformers import blocks  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")


BLOCKS = ["qwen2_moe", "qwen3_moe", "mixtral", "gpt_oss", "olmoe", "deepseek_v3"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", BLOCKS)
def test_replace_blocks(name: str, dtype: Any) -> None:
    model = models.model(name, dtype)
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    report = integration.replace_blocks(model, max_tokens=64)
    assert len(report.rows) >= 2
    got = model(ids).logits
    # In bf16 another expert may be chosen where logits are equal.
    assert error(got, expected) < (LIMIT_F32 if dtype == torch.float32 else 0.1)
    saved = model.state_dict()
    assert all(torch.equal(saved[key], state[key]) for key in state)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(ids, use_cache=False).logits, got)
    integration.detach(model)
    assert torch.equal(model(ids).logits, expected)


def test_options_of_routers() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [("qwen3_moe", {"norm_topk_prob": True}), ("qwen3_moe", {"norm_topk_prob": False})]
    cases += [("qwen2_moe", {"norm_topk_prob": True}), ("olmoe", {"norm_topk_prob": True})]
    cases += [("deepseek_v3", {"norm_topk_prob": False}), ("deepseek_v3", {"n_group": 1, "topk_group": 1})]
    for name, fields in cases:
        model = models.model(name, torch.float32, **fields)
        expected = model(tokens_of(2, 9)).logits
        integration.replace_blocks(model, max_tokens=64)
        assert error(model(tokens_of(2, 9)).logits, expected) < LIMIT_F32


def test_logits_of_replaced_routers(model: Any) -> None:
    ids = tokens_of(1, 5)
    expected = model(ids, output_router_logits=True).router_logits
    integration.replace_blocks(model, in_place=False, max_tokens=64)
    got = model(ids, output_router_logits=True).router_logits
    assert len(got) == len(expected) == 3
    assert torch.equal(got[0], expected[0])
    assert all(error(one, other) < LIMIT_F32 for one, other in zip(got, expected, strict=True))
    model.set_experts_implementation("eager")
    assert torch.equal(model(ids, output_router_logits=True).router_logits[2], expected[2])


def test_weights_that_change_behind_a_replaced_router(model: Any) -> None:
    integration.replace_blocks(model, in_place=False, max_tokens=64)
    model.model.layers[0].mlp.experts.down_proj.mul_(2)
    with pytest.raises(moec.InvalidArgument, match=r"layers.0.mlp.experts.down_proj has changed since moec packed it"):
        model(tokens_of(1, 5))


def test_a_bias_that_changes_behind_a_replaced_router() -> None:
    model = models.model("deepseek_v3", torch.float32)
    integration.replace_blocks(model, max_tokens=64)
    model(tokens_of(1, 5))
    model.model.layers[1].mlp.gate.e_score_correction_bias.add_(1)
    with pytest.raises(moec.InvalidArgument, match=r"mlp.experts.e_score_correction_bias has changed since moec packed it"):
        model(tokens_of(1, 5))


def test_blocks_of_quantized_experts() -> None:
    model = models.model("qwen3_moe", moe_intermediate_size=128)
    for layer in model.model.layers:
        layer.mlp.experts = models.fp8_module(model.config, block_size=(128, 128))
    ids = tokens_of(2, 9)
    integration.attach(model, max_tokens=64)
    expected = model(ids).logits
    integration.detach(model)
    report = integration.replace_blocks(model, max_tokens=64)
    assert report.rows[0].scheme == "fp8_block"
    assert error(model(ids).logits, expected) < 0.1


def test_replace_blocks_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(moec.InvalidArgument, match=r"its block is a GraniteMoeMoE; replace_blocks supports Qwen2MoeSp.*attach"):
        integration.replace_blocks(models.model("granitemoe"))
    model = models.model("qwen3_moe", torch.float32)
    ids = tokens_of(1, 5)
    expected = model(ids).logits
    right = blocks.ROUTERS["Qwen3MoeTopKRouter"]
    for wrong, message in (
        (right._replace(fields=lambda router: {"routing_method": "sigmoid"}), "moec routes other than the module's router"),
        (right._replace(logits=lambda router, x: x @ router.weight.T * 2), "its router is not the Qwen3MoeTopKRouter"),
    ):
        monkeypatch.setitem(blocks.ROUTERS, "Qwen3MoeTopKRouter", wrong)
        with pytest.raises(moec.InvalidArgument, match=message):
            integration.replace_blocks(model, max_tokens=64)
        assert torch.equal(model(ids).logits, expected)
