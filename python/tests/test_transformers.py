# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts of transformers by moec, on the processor. It runs where torch and transformers are installed."""

import copy
import gc
import inspect
import json
import pathlib
import pickle
import types
import weakref
from typing import Any

import pytest

import moec

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import transformers_checkpoints  # noqa: E402
import transformers_models as models  # noqa: E402
from transformers_models import EXPERTS, HIDDEN, INNER, TOP_K  # noqa: E402

import moec.integrations.transformers as integration  # noqa: E402
from moec.integrations.transformers import activations, check  # noqa: E402

# eager rounds to bf16 more often than moec.
LIMIT = 1.5e-2
LIMIT_F32 = 1e-4


@pytest.fixture(autouse=True)
def no_gradients() -> Any:
    with torch.no_grad():
        yield


def error(got: Any, expected: Any) -> float:
    return float((got.float() - expected.float()).norm() / expected.float().norm())


def routed(tokens: int, experts: int = EXPERTS, top_k: int = TOP_K, seed: int = 3, dtype: Any = torch.bfloat16) -> Any:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, HIDDEN, generator=generator).to(dtype)
    shares, ids = torch.randn(tokens, experts, generator=generator).softmax(-1).topk(top_k)
    return x, ids, shares.to(dtype)


def tokens_of(*shape: int) -> Any:
    return torch.randint(0, 96, shape, generator=torch.Generator().manual_seed(1))


def eager(module: Any, *arguments: Any) -> Any:
    return type(module).forward.__wrapped__(module, *arguments)


@pytest.fixture
def model() -> Any:
    """In f32, so that rounding does not choose other experts."""
    return models.model("qwen3_moe", torch.float32)


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
REFUSED = {"MuseSparkExperts": "has a norm behind each expert"}


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


def test_long_inputs(model: Any) -> None:
    ids = tokens_of(2, 9)
    expected = model(ids).logits
    integration.attach(model, max_tokens=4)
    assert error(model(ids).logits, expected) < LIMIT_F32


def test_no_tokens(model: Any) -> None:
    integration.attach(model, max_tokens=4)
    x, ids, shares = routed(0, dtype=torch.float32)
    assert model.model.layers[0].mlp.experts(x, ids, shares).shape == (0, HIDDEN)


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
    config = small_config(moe_intermediate_size=128)
    experts = models.fp8_module(config, **options)
    x, ids, shares = routed(33)
    expected = of_fp8(experts, x, ids, shares, group=128 if options["block_size"] else HIDDEN)
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
    config = small_config(moe_intermediate_size=128, expert_dtype="fp4")
    more = {} if "expert_dtype" not in inspect.signature(fp8_class().__init__).parameters else {"expert_dtype": "fp4"}
    experts = models.fp8_module(config, block_size=(128, 128), scale_fmt="ue8m0", **more)
    x, ids, shares = routed(33)
    expected = of_fp8(experts, x, ids, shares, group=128)
    integration.attach(experts, top_k=TOP_K, max_tokens=64)
    # Activations are emulated: some of the intermediate round to another code.
    assert error(experts(x, ids, shares), expected) < 2e-2


def fp8_class() -> Any:
    from transformers.integrations.finegrained_fp8 import FP8Experts

    return FP8Experts


def small_config(**fields: Any) -> Any:
    sizes = {"hidden_size": HIDDEN, "num_experts": EXPERTS, "num_experts_per_tok": TOP_K, "moe_intermediate_size": INNER}
    return transformers.Qwen3MoeConfig(dtype=torch.bfloat16, **sizes | fields)


def same_bytes(one: Any, other: Any) -> bool:
    return one.dtype == other.dtype and bool(torch.equal(one.view(torch.uint8), other.view(torch.uint8)))


def of_fp8(experts: Any, x: Any, ids: Any, shares: Any, *, group: int) -> Any:
    """What FP8Experts compute, activations rounded for each token and group."""
    wide = check.in_f32(experts, slice(0, EXPERTS))
    out = torch.zeros(x.shape)
    for token in range(len(x)):
        for expert, share in zip(ids[token], shares[token].float(), strict=True):
            inner = wide._apply_gate(wide.gate_up_proj[expert] @ models.round_to_fp8(x[token], group))
            out[token] += share * (wide.down_proj[expert] @ models.round_to_fp8(inner, group))
    return out


def test_fp8_refuses() -> None:
    static = models.fp8_module(small_config(moe_intermediate_size=128), block_size=None, activation_scheme="static")
    static.gate_up_proj_activation_scale[3] = 1
    with pytest.raises(moec.InvalidArgument, match="expected one number for all experts, since moec uses one; got several"):
        integration.attach(static, top_k=TOP_K)
    across = models.fp8_module(small_config(), block_size=(128, 128))
    with pytest.raises(moec.InvalidArgument, match="expected an intermediate size that is a multiple of 128, got 96"):
        integration.attach(across, top_k=TOP_K)


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
    with pytest.raises(moec.InvalidArgument, match=r"layers.2.mlp.experts: its own forward gives numbers that are not finite"):
        integration.attach(model, max_tokens=64)
    assert all(same_bytes(tensor, before[name]) for name, tensor in model.state_dict().items())


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
        (lambda gate, up: torch.relu(gate) * up, None),
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
        (lambda experts: setattr(experts, "has_post_expert_norm", True), "has a norm behind each expert"),
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


def test_ids_of_other_ranks(model: Any) -> None:
    """Under expert parallelism pairs of other ranks have ids beyond the experts, and the weight 0."""
    experts = model.model.layers[0].mlp.experts
    x, ids, shares = routed(9, dtype=torch.float32)
    other = ids % 3 == 0
    expected = eager(experts, x, ids, shares * ~other)
    integration.attach(model, max_tokens=64)
    assert error(experts(x, torch.where(other, EXPERTS, ids), shares * ~other), expected) < LIMIT_F32


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


BLOCKS = ["qwen3_moe", "mixtral", "gpt_oss", "olmoe", "deepseek_v3"]


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


def test_replace_blocks_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    from moec.integrations.transformers import blocks

    with pytest.raises(moec.InvalidArgument, match=r"its block is a GraniteMoeMoE; replace_blocks knows Qwen2MoeSparse.*attach"):
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
