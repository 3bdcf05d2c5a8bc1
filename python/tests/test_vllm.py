# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Python layer with moec's plug-in, on the processor. It runs where torch and vLLM's files are (vllm_files.py)."""

import logging
import os
import types
from collections.abc import Iterator
from typing import Any

import pytest
import vllm_files
from conftest import run_python

torch = pytest.importorskip("torch", reason="torch is not installed")
os.environ.setdefault("VLLM_TARGET_DEVICE", "cpu")
if missing := vllm_files.prepare():
    pytest.skip(missing, allow_module_level=True)

import vllm_layers as layers  # noqa: E402
import vllm_schemes as schemes  # noqa: E402

import moec  # noqa: E402
from moec.integrations import vllm as plugin  # noqa: E402

CASES = {case.name: case for case in schemes.CASES}
BF16 = CASES["bf16"]


@pytest.fixture(scope="module")
def engine() -> Any:
    return layers.start("cpu")


@pytest.fixture(autouse=True)
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """moec takes every layer, or the test fails."""
    monkeypatch.setenv("MOEC_VLLM", "force")
    plugin.register()
    from moec.integrations import _vllm_layer

    monkeypatch.setattr(_vllm_layer, "_journal", _vllm_layer._Journal())
    with torch.no_grad():
        yield


def choose(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MOEC_VLLM", value)
    plugin.register()


def inputs(tokens: int, hidden: int = layers.HIDDEN, experts: int = layers.EXPERTS) -> tuple[Any, Any]:
    random = torch.Generator().manual_seed(tokens)
    return torch.randn(tokens, hidden, generator=random).bfloat16(), torch.randn(tokens, experts, generator=random)


def forward(engine: Any, runner: Any, x: Any, logits: Any) -> Any:
    from vllm.forward_context import set_forward_context

    with set_forward_context(None, engine):
        return runner(x.clone(), logits)


def given(hidden_states: Any, gating_output: Any, topk: int, renormalize: bool) -> tuple[Any, Any]:
    """A router of the model's own, so that vLLM routes and moec gets ids and weights."""
    ids, weights = layers.softmax_top_k(gating_output, topk, renormalize)
    return weights.float(), ids.int()


@pytest.mark.parametrize("routes", [True, False], ids=["moec routes", "vLLM routes"])
@pytest.mark.parametrize("case", schemes.CASES, ids=CASES)
def test_a_scheme(engine: Any, case: Any, routes: bool) -> None:
    built = layers.build(engine, case, "cpu", custom_routing_function=None if routes else given)
    method = built.runner.routed_experts.quant_method
    assert type(method).__name__ == case.method
    assert method.moec_plan.scheme.name == case.scheme
    assert method.moec_plan.routes == method.is_monolithic == routes
    for tokens in (1, 7, 33):
        x, logits = inputs(tokens)
        wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
        assert layers.error(forward(engine, built.runner, x, logits), wanted) < case.bound


@pytest.mark.parametrize("name", ["bf16", "gpt-oss", "GPTQ int4", "compressed int8 channel", "compressed int4"])
def test_biases(engine: Any, name: str) -> None:
    built = layers.build(engine, CASES[name], "cpu", has_bias=True)
    x, logits = inputs(7)
    wanted = layers.computed(built, CASES[name], x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(engine, built.runner, x, logits), wanted) < CASES[name].bound


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        ("gelu", {}, lambda gate, up: torch.nn.functional.gelu(gate) * up),
        ("gelu_tanh", {}, lambda gate, up: torch.nn.functional.gelu(gate, approximate="tanh") * up),
        ("silu", {"swiglu_limit": 0.5}, lambda gate, up: torch.nn.functional.silu(gate.clamp(max=0.5)) * up.clamp(-0.5, 0.5)),
        (
            "swigluoai_uninterleave",
            {"swiglu_limit": 0.5, "swiglu_alpha": 1.5, "swiglu_beta": 0.5},
            lambda gate, up: gate.clamp(max=0.5) * torch.sigmoid(1.5 * gate.clamp(max=0.5)) * (up.clamp(-0.5, 0.5) + 0.5),
        ),
        (
            "situ",
            {"activation_situ_beta": 0.5, "activation_situ_linear_beta": 0.7},
            lambda gate, up: torch.tanh(gate / 0.5) * 0.5 * torch.sigmoid(gate) * torch.tanh(up / 0.7) * 0.7,
        ),
        (
            "situ",
            {"activation_situ_beta": 0.5},
            lambda gate, up: torch.tanh(gate / 0.5) * 0.5 * torch.sigmoid(gate) * up,
        ),
    ],
)
def test_an_activation(engine: Any, name: str, options: dict[str, Any], function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BF16._replace(act=name)
    built = layers.build(engine, case, "cpu", **options)
    monkeypatch.setattr(layers, "activation", lambda _, gate, up: function(gate, up))
    x, logits = inputs(7)
    wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(engine, built.runner, x, logits), wanted) < case.bound


def grouped(logits: Any, bias: Any, factor: float, groups: int = 4, kept: int = 2) -> tuple[Any, Any]:
    """DeepSeek-V3's routing in double precision."""
    scores = torch.sigmoid(logits.double())
    keys = scores + bias.double()
    best = keys.unflatten(1, (groups, -1)).topk(2).values.sum(-1).topk(kept).indices
    allowed = (
        torch.zeros(len(keys), groups, dtype=torch.bool).scatter_(1, best, True).repeat_interleave(keys.shape[1] // groups, 1)
    )
    ids = keys.masked_fill(~allowed, -torch.inf).topk(layers.TOP_K).indices
    weights = scores.gather(1, ids)
    return ids, weights / weights.sum(-1, keepdim=True) * factor


BIAS = torch.linspace(-0.3, 0.3, layers.EXPERTS)


@pytest.mark.parametrize(
    ("options", "name", "wanted"),
    [
        ({"renormalize": False}, "default", lambda logits: layers.softmax_top_k(logits, layers.TOP_K, False)),
        ({}, "renormalize_naive", lambda logits: layers.softmax_top_k(logits, layers.TOP_K, True)),
        (
            {"scoring_func": "sigmoid", "renormalize": False},
            "sigmoid",
            lambda logits: torch.sigmoid(logits.double()).topk(layers.TOP_K)[::-1],
        ),
        (
            {"scoring_func": "sigmoid", "e_score_correction_bias": BIAS, "routed_scaling_factor": 2.5},
            "deepseek_v3",
            lambda logits: grouped(logits, BIAS, 2.5, groups=1, kept=1),
        ),
        (
            {
                "scoring_func": "sigmoid",
                "e_score_correction_bias": BIAS,
                "routed_scaling_factor": 2.5,
                "use_grouped_topk": True,
                "num_expert_group": 4,
                "topk_group": 2,
            },
            "deepseek_v3",
            lambda logits: grouped(logits, BIAS, 2.5),
        ),
    ],
    ids=["softmax", "softmax renormalized", "sigmoid", "sigmoid with a bias", "sigmoid with a bias and groups"],
)
def test_a_routing(engine: Any, options: dict[str, Any], name: str, wanted: Any) -> None:
    if "e_score_correction_bias" in options:
        options = options | {"e_score_correction_bias": torch.nn.Parameter(BIAS.clone(), requires_grad=False)}
    built = layers.build(engine, BF16, "cpu", **options)
    method = built.runner.routed_experts.quant_method
    assert method.moec_plan.source["routing_method"] == name
    x, logits = inputs(33)
    assert layers.error(forward(engine, built.runner, x, logits), layers.computed(built, BF16, x, *wanted(logits))) < BF16.bound


def test_weights_on_the_input(engine: Any) -> None:
    def route(hidden_states: Any, gating_output: Any, topk: int, renormalize: bool) -> tuple[Any, Any]:
        best, ids = gating_output.topk(topk)
        return torch.sigmoid(best), ids.int()

    options: dict[str, Any] = {"custom_routing_function": route, "apply_router_weight_on_input": True, "top_k": 1}
    built = layers.build(engine, BF16, "cpu", **options)
    x, logits = inputs(7)
    best, ids = logits.topk(1)
    scaled = (x.double() * torch.sigmoid(best).double()).bfloat16()
    wanted = layers.computed(built, BF16, scaled, ids, torch.ones_like(best))
    assert layers.error(forward(engine, built.runner, x, logits), wanted) < BF16.bound


@pytest.mark.parametrize("placement", ["linear", "round_robin"])
@pytest.mark.parametrize("name", ["bf16", "fp8 block", "fp8 tensor, static", "gpt-oss", "AWQ"])
def test_expert_parallel(engine: Any, name: str, placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three ranks of 8 experts adds its experts' share; vLLM sums them."""
    case = CASES[name]
    monkeypatch.setattr(engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(engine.parallel_config, "expert_placement_strategy", placement)
    x, logits = inputs(33)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    seen: set[int] = set()
    for rank in range(3):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        groups: dict[str, Any] = {"use_grouped_topk": True, "num_expert_group": 4, "topk_group": 4}
        groups = groups if placement == "round_robin" else {}
        built = layers.build(engine, case, "cpu", tp_size=3, **groups)
        layer = built.runner.routed_experts
        local = {expert for expert, place in enumerate(layer._expert_map.tolist()) if place >= 0}
        assert len(local) == layer.local_num_experts in (2, 3)
        seen |= local
        got = layer.quant_method.apply(layer, x, weights.float(), ids.int(), None, None)
        assert layers.error(got, layers.computed(built, case, x, ids, weights, sorted(local))) < case.bound
        assert layer.expert_placement_strategy == placement
        if layer.quant_method.is_monolithic:  # moec routes over all experts, and skips the others
            routed = layer.quant_method.apply_monolithic(layer, x, logits)
            assert layers.error(routed, got.double()) < case.bound
        else:
            assert placement == "round_robin"
    assert seen == set(range(layers.EXPERTS))


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "fp8 tensor, dynamic", "gpt-oss", "GPTQ int4", "AWQ", "compressed int4"])
def test_tensor_parallel(engine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's weight_loader gives each rank its columns; the ranks' outputs add up."""
    case = CASES[name]
    x, logits = inputs(7)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    total: Any = 0
    for rank in range(2):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        built = layers.build(engine, case, "cpu", tp_size=2, tp_rank=rank, intermediate_size=256)
        layer = built.runner.routed_experts
        assert layer.quant_method.moec_plan.source["intermediate_size"] == 128
        total = total + layer.quant_method.apply(layer, x, weights.float(), ids.int(), None, None).double()
    # A rank's own scale of all activations rounds otherwise than one of all ranks.
    bound = 5e-2 if name == "fp8 tensor, dynamic" else 2 * case.bound
    assert layers.error(total, layers.computed(built, case, x, ids, weights)) < bound


def test_tensor_parallel_of_gpt_oss(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """192 columns over four ranks are three times 64 and none."""
    case = CASES["gpt-oss"]
    x, logits = inputs(7)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    total: Any = 0
    for rank in range(4):
        built = layers.build(engine, case, "cpu", tp_size=4, tp_rank=rank, intermediate_size=192, has_bias=True)
        layer = built.runner.routed_experts
        assert layer.intermediate_size_per_partition == 64
        total = total + layer.quant_method.apply(layer, x, weights.float(), ids.int(), None, None).double()
    assert layers.error(total, layers.computed(built, case, x, ids, weights)) < 2 * case.bound


def test_shared_experts(engine: Any) -> None:
    shared = torch.nn.Linear(layers.HIDDEN, layers.HIDDEN, bias=False, dtype=torch.bfloat16)
    built = layers.build(engine, BF16, "cpu", shared_experts=shared)
    x, logits = inputs(7)
    wanted = layers.computed(built, BF16, x, *layers.softmax_top_k(logits, layers.TOP_K, True)) + shared(x).double()
    assert layers.error(forward(engine, built.runner, x, logits), wanted) < 2 * BF16.bound


def test_no_tokens(engine: Any) -> None:
    built = layers.build(engine, BF16, "cpu")
    assert forward(engine, built.runner, *inputs(0)).shape == (0, layers.HIDDEN)


def test_sizes_are_not_padded(engine: Any) -> None:
    """vLLM's kernels would pad 96 and 160."""
    case = CASES["gpt-oss"]
    built = layers.build(engine, case, "cpu", intermediate_size=96, hidden_size=160)
    layer = built.runner.routed_experts
    assert (layer.hidden_size, layer.intermediate_size_per_partition) == (160, 96)
    x, logits = inputs(7, hidden=160)
    wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(engine, built.runner, x, logits), wanted) < case.bound


def test_weights_are_packed_in_place(engine: Any) -> None:
    built = layers.build(engine, CASES["AWQ"], "cpu")
    layer = built.runner.routed_experts
    packed = layer.quant_method.moec_layer.weights
    for name in ("w13", "w2"):
        assert packed[name].data_ptr() == getattr(layer, f"{name}_qweight").data_ptr()
    built = layers.build(engine, CASES["GPTQ int4"], "cpu")
    assert built.runner.routed_experts.w13_qzeros.numel() == 0, "a symmetric scheme reads no zero points"


def test_packed_weights_are_not_loaded_or_saved(engine: Any) -> None:
    layer = layers.build(engine, BF16, "cpu").runner.routed_experts
    parameter = layer.w2_weight
    with pytest.raises(moec.NotSupported, match="cannot be loaded again"):
        parameter.weight_loader(parameter, torch.zeros(layers.HIDDEN, layers.INTERMEDIATE), "experts.w2_weight", "w2", 0)
    with pytest.raises(moec.NotSupported, match="start without MOEC_VLLM to save them"):
        torch.nn.ModuleList([layer]).state_dict()
    with pytest.raises(moec.NotSupported, match="moec packs weights once"):
        layer.quant_method.process_weights_after_loading(layer)


def test_a_parameter_that_nothing_used(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod as Method

    made = Method.create_weights

    def create(self: Any, layer: Any, **options: Any) -> None:
        made(self, layer, **options)
        layer.register_parameter("w13_new_scale", torch.nn.Parameter(torch.ones(2)))

    monkeypatch.setattr(Method, "create_weights", create)
    with pytest.raises(moec.NotSupported, match="does not know the parameters w13_new_scale of UnquantizedFusedMoEMethod"):
        layers.build(engine, BF16, "cpu")


def _parallel(**values: Any) -> dict[str, Any]:
    return {f"parallel_config.{name}": value for name, value in values.items()}


GROUP64 = CASES["fp8 block"]._replace(
    config=schemes._fp8(activation_scheme="dynamic", weight_block_size=[64, 128]),
    store=schemes.store_fp8_block("weight_scale_inv"),
)


@pytest.mark.parametrize(
    ("case", "engine_values", "options", "reason"),
    [
        (BF16, {"lora_config": types.SimpleNamespace(fully_sharded_loras=False)}, {}, "LoRA adapters"),
        (BF16, _parallel(ubatch_size=2), {}, "micro-batches that overlap"),
        (BF16, _parallel(enable_elastic_ep=True), {}, "elastic expert parallelism"),
        (BF16, {"offload_config.uva.cpu_offload_gb": 1.0}, {}, "weights that are offloaded"),
        (
            BF16,
            _parallel(enable_expert_parallel=True, all2all_backend="passthrough"),
            {"tp_size": 2},
            "the transport passthrough; moec takes allgather_reducescatter",
        ),
        (GROUP64, {}, {}, r"fp8 blocks of \[64, 128\]"),
        (BF16, {}, {"swiglu_alpha": 1.7}, "swiglu_alpha 1.7 with the activation silu, whose swiglu_alpha is 1.0"),
        (BF16._replace(act="swiglustep"), {}, {"swiglu_limit": 3.0}, "swiglu_limit 3.0 with the activation swiglustep"),
        (BF16._replace(act="gelu"), {}, {"swiglu_limit": 3.0}, "swiglu_limit 3.0 with the activation gelu, which has none"),
        (BF16, {}, {"params_dtype": torch.float64}, "weights of torch.float64"),
        (BF16, {}, {"intermediate_size": 100}, "moec has no kernels: .*100"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal(
    engine: Any, case: Any, engine_values: dict[str, Any], options: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, value in engine_values.items():
        *parts, name = path.split(".")
        where = engine
        for part in parts:
            where = getattr(where, part)
        monkeypatch.setattr(where, name, value)
    with pytest.raises(moec.NotSupported, match=f"MOEC_VLLM=force: moec cannot serve layer model.layers.*: {reason}"):
        layers.build(engine, case, "cpu", **options)


def test_eplb(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(engine.parallel_config, "enable_eplb", True)
    with pytest.raises(moec.NotSupported, match="load balancing"):
        layers.build(engine, BF16, "cpu", tp_size=2, enable_eplb=True, num_redundant_experts=2)


class Other:
    """Stands for a method that moec does not know."""


def test_a_method_that_is_unknown() -> None:
    from moec.integrations._vllm_schemes import Refused, scheme_of

    with pytest.raises(Refused, match="vLLM's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"):
        scheme_of(None, Other())


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"is_sym": False}, "GPTQ with zero points"),
        ({"is_sym": True, "desc_act": True, "group_size": 128}, "act-order"),
    ],
)
def test_a_gptq_refusal(config: dict[str, Any], reason: str) -> None:
    from moec.integrations._vllm_schemes import Refused, _gptq

    method = types.SimpleNamespace(quant_config=types.SimpleNamespace(**config))
    with pytest.raises(Refused, match=reason):
        _gptq(None, method)


def test_what_moec_leaves_stays_with_vllm(engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """MOEC_VLLM=1 on the processor takes nothing, and says so once."""
    choose(monkeypatch, "1")
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"), pytest.raises(Exception, match=".*"):
        layers.build(engine, BF16, "cpu")  # vLLM's own kernels need its extensions
    with caplog.at_level(logging.INFO, "vllm.moec"), pytest.raises(Exception, match=".*"):
        layers.build(engine, BF16, "cpu")
    said = [record.getMessage() for record in caplog.records if record.name == "vllm.moec"]
    assert len(said) == 1
    assert "to vLLM, and others for the same reason: the processor, on which moec runs for tests alone" in said[0]


def test_only_some_schemes(engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    choose(monkeypatch, "only=fp8_block,mxfp4_w4a16")
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"):
        built = layers.build(engine, CASES["fp8 block"], "cpu")
        with pytest.raises(Exception, match=".*"):
            layers.build(engine, CASES["compressed fp8 channel"], "cpu")
    assert built.runner.routed_experts.quant_method.moec_layer is not None
    said = [record.getMessage() for record in caplog.records if record.name == "vllm.moec"]
    assert said[0].startswith("moec serves 1 of 1 MoE layers: 1 x (fp8_block, native, routing by moec); ")
    assert said[1].endswith("scheme fp8_channel, which MOEC_VLLM does not name")


def test_realizations(monkeypatch: pytest.MonkeyPatch) -> None:
    """MOEC_VLLM=1 takes no layer that moec emulates; who names a scheme takes it."""
    from moec.integrations import _vllm_plan
    from moec.integrations._vllm_schemes import Scheme

    assert plugin.Choice(force=True).explicit
    assert plugin.Choice(schemes=frozenset(["nvfp4"])).explicit
    assert not plugin.Choice().explicit
    takes = _vllm_plan.takes
    weight_only, quantized = Scheme("", {}, {}, weight_only=True), Scheme("", {}, {})
    assert [takes(weight_only, each) for each in ("native", "dequantized", "emulated")] == [True, True, False]
    assert [takes(quantized, each) for each in ("native", "dequantized", "emulated")] == [True, False, False]


@pytest.mark.parametrize("text", ["0", "on", "Force", "only", " 1", "only=fp8_block,nonsense", "only="])
def test_wrong_values(text: str) -> None:
    with pytest.raises(moec.InvalidArgument, match="MOEC_VLLM: expected"):
        plugin.choice_of(text)


def test_values() -> None:
    assert plugin.choice_of(None) is plugin.choice_of("") is None
    assert plugin.choice_of("1") == plugin.Choice()
    assert plugin.choice_of("force") == plugin.Choice(force=True)
    assert plugin.choice_of("only=fp8_block, mxfp4_w4a16") == plugin.Choice(schemes=frozenset(["fp8_block", "mxfp4_w4a16"]))


@pytest.mark.parametrize("version", ["0.33.0", "0.33.0+cu130", "0.33.0.post1"])
def test_versions_that_are_served(version: str) -> None:
    assert plugin.version_reason(version) == ""


@pytest.mark.parametrize("version", ["0.32.0", "0.33.1", "0.34.0", "0.33.0rc1", "0.33.0.dev3", "1", ""])
def test_versions_that_are_not_served(version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    with pytest.raises(
        moec.NotSupported, match=rf"MOEC_VLLM=force: moec was tested with vLLM 0.33.0, and this is vLLM {version}"
    ):
        plugin.register()
    monkeypatch.setenv("MOEC_VLLM", "1")
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"):
        plugin.register()
    assert f"moec serves no layer: moec was tested with vLLM 0.33.0, and this is vLLM {version}" in caplog.text


def test_without_the_variable_nothing_happens() -> None:
    code = """
import sys
from moec.integrations import vllm
vllm.register()
assert not {"torch", "vllm", "numpy"} & set(sys.modules), "imported"
assert "libmoec" not in open("/proc/self/maps").read()
"""
    done = run_python(code, MOEC_VLLM="")
    assert (done.returncode, done.stderr) == (0, "")


def test_another_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.custom_op import op_registry_oot

    monkeypatch.setitem(op_registry_oot, "RoutedExperts", Other)
    with pytest.raises(moec.NotSupported, match="another plug-in has replaced vLLM's RoutedExperts: test_vllm.Other"):
        plugin.register()
