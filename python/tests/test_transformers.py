# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of transformers by moec, on the processor. It runs where torch and transformers are installed."""

import copy
import gc
import pathlib
import pickle
import weakref
from typing import Any

import pytest
from conftest import import_torch

import moec

torch = import_torch("transformers")

import transformers_models as models  # noqa: E402
from transformers_models import EXPERTS, HIDDEN, LIMIT, LIMIT_F32, TOP_K, eager, error, routed, tokens_of  # noqa: E402

import moec.integrations.transformers as integration  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize(("module", "name"), [("qwen3_moe", "Qwen3MoeExperts"), ("gpt_oss", "GptOssExperts")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_types(module: str, name: str, dtype: Any) -> None:
    experts = models.experts_module(module, name, dtype)
    x, ids, shares = routed(7, dtype=dtype)
    expected = eager(experts, x, ids, shares)
    report = integration.attach(experts, top_k=TOP_K, max_tokens=64)
    assert report.rows[0].error is not None
    assert report.rows[0].error < 4e-3
    assert error(experts(x, ids, shares), expected) < LIMIT


# Why a class is not served.
REFUSED = {"MuseSparkExperts": "has a norm after each expert"}


@pytest.mark.sweep
@pytest.mark.parametrize(("module", "name"), list(models.experts_classes()))
def test_all_classes(module: str, name: str) -> None:
    """Every experts class of the installed transformers, against its own forward."""
    experts = models.experts_module(module, name)
    before = {name: tensor.clone() for name, tensor in experts.state_dict().items()}
    if name in REFUSED:
        with pytest.raises(moec.InvalidArgument, match=REFUSED[name]):
            integration.attach(experts, top_k=TOP_K, max_tokens=64)
        return
    expected = {tokens: eager(experts, *routed(tokens)) for tokens in (1, 5, 33)}
    report = integration.attach(experts, top_k=TOP_K, max_tokens=64)
    assert len(report.rows) == 1
    for tokens, wanted in expected.items():
        assert error(experts(*routed(tokens)), wanted) < LIMIT
    assert integration.detach(experts) == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in experts.state_dict().items())


@pytest.mark.parametrize("name", ["qwen3_moe", "gpt_oss"])
def test_attach_and_detach(name: str) -> None:
    model = models.model(name)
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    parameters = dict(model.named_parameters())
    report = integration.attach(model, max_tokens=64)
    assert (len(report.rows), report.packages) == (3, 1)
    assert model.config._experts_implementation == "moec"
    assert f"{name.replace('_', '').lower()}experts" in str(report).lower()
    assert error(model(ids).logits, expected) < LIMIT
    saved = model.state_dict()
    assert saved.keys() == before.keys()
    assert all(torch.equal(saved[name], before[name]) for name in before)
    assert integration.detach(model) == 3
    assert integration.detach(model) == 0
    assert model.config._experts_implementation == "eager"
    after = dict(model.named_parameters())
    assert list(after) == list(parameters)
    assert all(after[name] is parameters[name] and torch.equal(after[name], before[name]) for name in parameters)
    assert torch.equal(model(ids).logits, expected)


@pytest.mark.sweep
@pytest.mark.parametrize("name", models.MODELS)
def test_models(name: str) -> None:
    model = models.model(name, torch.float32)
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    integration.attach(model, max_tokens=64)
    assert error(model(ids).logits, expected) < LIMIT_F32
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    integration.detach(model)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(model(ids).logits, expected)


def test_without_attach(model: Any) -> None:
    """The first forward packs copies. Changed weights are packed again."""
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    model.set_experts_implementation("moec")
    got = model(ids).logits
    assert error(got, expected) < LIMIT_F32
    experts = model.model.layers[1].mlp.experts
    for change in (
        lambda: experts.down_proj.mul_(2),
        lambda: setattr(experts, "gate_up_proj", torch.nn.Parameter(experts.gate_up_proj * 0.5)),
        lambda: model.load_state_dict({name: tensor * 1.25 for name, tensor in model.state_dict().items()}),
    ):
        change()
        changed = model(ids).logits
        assert error(changed, got) > 0.02
        model.set_experts_implementation("eager")
        assert error(changed, model(ids).logits) < LIMIT_F32
        model.set_experts_implementation("moec")
        got = changed
    copied = copy.deepcopy(model)
    assert torch.equal(copied(ids).logits, got)
    assert torch.equal(pickle.loads(pickle.dumps(model))(ids).logits, got)


def test_compiled_code_sees_changed_weights(model: Any) -> None:
    integration.attach(model, in_place=False, max_tokens=64)
    experts = model.model.layers[0].mlp.experts
    compiled = torch.compile(lambda *arguments: experts(*arguments) * 2, fullgraph=True, backend="aot_eager")
    arguments = routed(7, dtype=torch.float32)
    assert torch.equal(compiled(*arguments), experts(*arguments) * 2)
    experts.down_proj.mul_(2)
    with pytest.raises(moec.InvalidArgument, match=r"mlp.experts.down_proj has changed since moec packed it"):
        compiled(*arguments)


def test_nothing_stays(model: Any) -> None:
    integration.attach(model, max_tokens=64)
    kept = weakref.ref(model.model.layers[0].mlp.experts._moec)
    integration.detach(model)
    gc.collect()
    assert kept() is None
    model.set_experts_implementation("moec")
    model(tokens_of(1, 4))
    kept = weakref.ref(model.model.layers[0].mlp.experts._moec)
    model.set_experts_implementation("eager")
    del model.model.layers[0].mlp.experts.__dict__["_moec"]
    gc.collect()
    assert kept() is None


def test_packed_weights_are_not_read(model: Any, tmp_path: pathlib.Path) -> None:
    ids = tokens_of(1, 5)
    expected = model(ids).logits
    state = model.state_dict()
    integration.attach(model, max_tokens=64)
    got = model(ids).logits
    for implementation in ("eager", "grouped_mm", "batched_mm"):
        model.set_experts_implementation(implementation)
        with pytest.raises(
            moec.InvalidArgument, match=f"packed by moec, and the implementation of experts is '{implementation}'"
        ):
            model(ids)
    model.set_experts_implementation("moec")
    experts = model.model.layers[0].mlp.experts
    with pytest.raises(AttributeError, match=r"layers.0.mlp.experts.down_proj is packed by moec; call .*detach"):
        experts.down_proj  # noqa: B018
    with pytest.raises(RuntimeError, match=r"packed by moec, so that none can be loaded; call .*detach"):
        model.load_state_dict(state, strict=False)
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({})
    rest = {name: tensor for name, tensor in state.items() if ".experts." not in name}
    missing = model.load_state_dict(rest, strict=False).missing_keys
    assert set(missing) == {name for name in state if ".experts." in name}
    for call in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"packed by moec and cannot be (copied|pickled); call"):
            call(model)
    with pytest.raises(moec.InvalidArgument, match="moec has its weights already"):
        integration.attach(model)
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path, experts_implementation="eager", dtype=torch.float32)
    assert torch.equal(again(ids).logits, expected)
    assert torch.equal(model(ids).logits, got)


def test_attach_again(model: Any) -> None:
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    for function, in_place in (
        (integration.attach, False),
        (integration.replace_blocks, False),
        (integration.attach, False),
        (integration.attach, True),
    ):
        function(model, in_place=in_place, max_tokens=64)
        assert error(model(ids).logits, expected) < LIMIT_F32
    integration.detach(model)
    assert model.config._experts_implementation == "eager"
    assert torch.equal(model(ids).logits, expected)


def test_inference_mode(model: Any) -> None:
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    model.set_experts_implementation("moec")
    with torch.inference_mode():
        assert error(model(ids).logits, expected) < LIMIT_F32
    assert error(model(ids).logits, expected) < LIMIT_F32
    with torch.inference_mode():
        integration.attach(model, max_tokens=64)
    assert error(model(ids).logits, expected) < LIMIT_F32
    integration.detach(model)
    assert model.config._experts_implementation == "moec"
    model.set_experts_implementation("eager")
    assert torch.equal(model(ids).logits, expected)


def test_long_inputs(model: Any) -> None:
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    integration.attach(model, max_tokens=4)
    assert error(model(ids).logits, expected) < LIMIT_F32


def test_no_tokens(model: Any) -> None:
    integration.attach(model, max_tokens=4)
    x, ids, shares = routed(0, dtype=torch.float32)
    assert model.model.layers[0].mlp.experts(x, ids, shares).shape == (0, HIDDEN)


def test_inputs_of_any_strides(model: Any) -> None:
    integration.attach(model, max_tokens=64)
    experts = model.model.layers[0].mlp.experts
    x, ids, shares = routed(9, dtype=torch.float32)
    expected = experts(x, ids, shares)
    turned = [tensor.T.contiguous().T for tensor in (x, ids, shares)]
    assert torch.equal(experts(*turned), expected)


@pytest.mark.parametrize("name", ["qwen3_moe", "gpt_oss"])
@pytest.mark.parametrize("cache", [None, "static"])
def test_generate(name: str, cache: str | None) -> None:
    # f32, so that rounding does not choose another token.
    model = models.model(name, torch.float32)
    ids = tokens_of(2, 6)
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0, "cache_implementation": cache}
    expected = model.generate(ids, **options)
    integration.attach(model, max_tokens=64)
    assert torch.equal(model.generate(ids, **options), expected)


@pytest.mark.parametrize("in_place", [False, True])
def test_torch_compile(model: Any, in_place: bool) -> None:
    integration.attach(model, in_place=in_place, max_tokens=64)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for shape in ((2, 9), (1, 5)):
        ids = tokens_of(*shape)
        assert torch.equal(compiled(ids, use_cache=False).logits, model(ids, use_cache=False).logits)


def test_torch_compile_before_attach(model: Any) -> None:
    model.set_experts_implementation("moec")
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"call moec.integrations.transformers.attach\(model\)"):
        torch.compile(model, fullgraph=True, backend="aot_eager")(tokens_of(1, 5), use_cache=False)


def test_ids_of_other_ranks(model: Any) -> None:
    """Under expert parallelism pairs of other ranks have ids beyond the experts, and the weight 0."""
    experts = model.model.layers[0].mlp.experts
    x, ids, shares = routed(9, dtype=torch.float32)
    other = ids % 3 == 0
    expected = eager(experts, x, ids, shares * ~other)
    integration.attach(model, max_tokens=64)
    assert error(experts(x, torch.where(other, EXPERTS, ids), shares * ~other), expected) < LIMIT_F32
