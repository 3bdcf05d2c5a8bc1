# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Python layer with moec's plug-in, on the processor. It runs where torch and vLLM's files are (vllm_files.py)."""

from types import SimpleNamespace
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402
from engine_layers import realized, with_unknown_parameter  # noqa: E402
from vllm_layers import given  # noqa: E402
from vllm_layers import random_inputs as inputs  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in cases.CASES}
BF16 = CASES["bf16"]
# Schemes whose activations moec leaves as they are on this device, unless MOEC_EXCLUDE forbids it.
WITHOUT_ACTIVATIONS = ("nvfp4",)

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


def forward(engine: Any, runner: Any, x: Any, logits: Any) -> Any:
    from vllm.forward_context import set_forward_context

    with set_forward_context(None, engine):
        return runner(x.clone(), logits)


@pytest.mark.parametrize("routes", [True, False], ids=["moec routes", "vLLM routes"])
@pytest.mark.parametrize(
    ("name", "excluded"),
    [(name, "") for name in CASES]
    + [(name, "weight_only") for name, case in CASES.items() if case.scheme in WITHOUT_ACTIVATIONS],
)
def test_a_scheme(vllm_engine: Any, name: str, routes: bool, excluded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setenv("MOEC_EXCLUDE", excluded)
    built = layers.build(vllm_engine, case, "cpu", custom_routing_function=None if routes else given)
    method = built.runner.routed_experts.quant_method
    assert type(method).__name__ == case.method
    assert method.moec_plan.scheme.name == case.scheme
    assert method.moec_plan.routes == method.is_monolithic == routes
    realization = method.moec_plan.realization
    assert (realization == "weight_only") == (case.scheme in WITHOUT_ACTIVATIONS and not excluded)
    case = realized(case, realization)
    for tokens in (1, 7, 33):
        x, logits = inputs(tokens)
        wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
        assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < case.bound


@pytest.mark.parametrize(
    "name", ["bf16", "fp8 block", "gpt-oss", "MXFP4", "GPTQ int4", "compressed int8 channel", "compressed int4"]
)
def test_biases(vllm_engine: Any, name: str) -> None:
    built = layers.build(vllm_engine, CASES[name], "cpu", has_bias=True)
    x, logits = inputs(7)
    wanted = layers.computed(built, CASES[name], x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < CASES[name].bound


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
        ("swiglustep", {}, lambda gate, up: torch.nn.functional.silu(gate).clamp(max=7) * up.clamp(-7, 7)),
        ("swiglustep", {"swiglu_limit": 7.0}, lambda gate, up: torch.nn.functional.silu(gate).clamp(max=7) * up.clamp(-7, 7)),
    ],
)
def test_an_activation(
    vllm_engine: Any, name: str, options: dict[str, Any], function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = BF16._replace(act=name)
    built = layers.build(vllm_engine, case, "cpu", **options)
    monkeypatch.setattr("engine_layers.activation", lambda _, gate, up: function(gate, up))
    x, logits = inputs(7)
    wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < case.bound


def test_whose_numbers_an_activation_has() -> None:
    from moec.integrations._vllm_plan import _number

    def number(layer: float | None, config: float | None) -> float | None:
        return _number("swiglu_limit", SimpleNamespace(swiglu_limit=layer), SimpleNamespace(swiglu_limit=config))

    assert [number(0.5, 7.0), number(None, 7.0), number(0.5, None), number(0.0, 7.0)] == [0.5, 7.0, 0.5, 0.0]
    assert number(None, None) is None


@pytest.mark.parametrize("act", ["relu2_no_mul", "silu_no_mul"])
@pytest.mark.parametrize("name", ["bf16", "fp8 tensor, static", "ModelOpt NVFP4 weights"])
def test_no_gate(vllm_engine: Any, name: str, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM has such layers on GPUs alone."""
    monkeypatch.setattr("vllm.platforms.current_platform.is_cuda_alike", lambda: True)
    case = CASES[name]._replace(act=act)
    built = layers.build(vllm_engine, case, "cpu")
    monkeypatch.undo()
    x, logits = inputs(7)
    wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < case.bound


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


def sigmoid_top_k(logits: Any) -> tuple[Any, Any]:
    shares, ids = torch.sigmoid(logits.double()).topk(layers.TOP_K)
    return ids, shares / shares.sum(-1, keepdim=True)


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
        ({"scoring_func": "sigmoid"}, "sigmoid_renorm", sigmoid_top_k),
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
    ids=[
        "softmax",
        "softmax renormalized",
        "sigmoid",
        "sigmoid renormalized",
        "sigmoid with a bias",
        "sigmoid with a bias and groups",
    ],
)
def test_a_routing(vllm_engine: Any, options: dict[str, Any], name: str, wanted: Any) -> None:
    if "e_score_correction_bias" in options:
        options = options | {"e_score_correction_bias": torch.nn.Parameter(BIAS.clone(), requires_grad=False)}
    built = layers.build(vllm_engine, BF16, "cpu", **options)
    method = built.runner.routed_experts.quant_method
    assert method.moec_plan.source["routing_method"] == name
    x, logits = inputs(33)
    assert (
        layers.error(forward(vllm_engine, built.runner, x, logits), layers.computed(built, BF16, x, *wanted(logits))) < BF16.bound
    )


@pytest.mark.parametrize(
    "options",
    [
        {"e_score_correction_bias": BIAS.bfloat16(), "scoring_func": "sigmoid"},
        {"use_grouped_topk": True, "num_expert_group": 8, "topk_group": 4},
        {"use_grouped_topk": True, "num_expert_group": 4, "topk_group": 2},
        {"routed_scaling_factor": 2.5},
        {"custom_routing_function": given},
    ],
    ids=["a bias in bf16", "groups of one expert", "groups without a bias", "a factor", "a function"],
)
def test_a_routing_that_stays_with_vllm(vllm_engine: Any, options: dict[str, Any]) -> None:
    method = layers.build(vllm_engine, BF16, "cpu", **options).runner.routed_experts.quant_method
    assert not method.is_monolithic
    assert method.moec_plan.source["routing_method"] == "custom"


def test_a_routing_that_moec_lacks(vllm_engine: Any) -> None:
    """moec takes at most 32 groups. It takes the experts, and vLLM routes."""
    bias = torch.nn.Parameter(torch.zeros(128), requires_grad=False)
    options: dict[str, Any] = {"use_grouped_topk": True, "num_expert_group": 64, "topk_group": 2, "scoring_func": "sigmoid"}
    built = layers.build(vllm_engine, BF16, "cpu", num_experts=128, e_score_correction_bias=bias, **options)
    assert not built.runner.routed_experts.quant_method.is_monolithic


def test_other_types_of_x(vllm_engine: Any) -> None:
    for dtype in (torch.float16, torch.float32):
        built = layers.build(vllm_engine, BF16, "cpu", params_dtype=dtype)
        x, logits = inputs(7)

        def rounded(rows: Any, dtype: Any = dtype) -> Any:
            return rows.to(dtype).double()

        case = BF16._replace(rounded=rounded)
        wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
        got = forward(vllm_engine, built.runner, x.to(dtype), logits)
        assert got.dtype == dtype
        assert layers.error(got, wanted) < BF16.bound / 4


def test_weights_on_the_input(vllm_engine: Any) -> None:
    def route(hidden_states: Any, gating_output: Any, topk: int, renormalize: bool) -> tuple[Any, Any]:
        best, ids = gating_output.topk(topk)
        return torch.sigmoid(best), ids.int()

    options: dict[str, Any] = {"custom_routing_function": route, "apply_router_weight_on_input": True, "top_k": 1}
    built = layers.build(vllm_engine, BF16, "cpu", **options)
    x, logits = inputs(7)
    best, ids = logits.topk(1)
    scaled = (x.double() * torch.sigmoid(best).double()).bfloat16()
    wanted = layers.computed(built, BF16, scaled, ids, torch.ones_like(best))
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < BF16.bound


@pytest.mark.parametrize("placement", ["linear", "round_robin"])
@pytest.mark.parametrize("name", ["bf16", "fp8 block", "fp8 tensor, static", "gpt-oss", "AWQ"])
def test_expert_parallel(vllm_engine: Any, name: str, placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three ranks of 8 experts adds its experts' share; vLLM sums them."""
    case = CASES[name]
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(vllm_engine.parallel_config, "expert_placement_strategy", placement)
    x, logits = inputs(33)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    seen: set[int] = set()
    for rank in range(3):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        groups: dict[str, Any] = {"use_grouped_topk": True, "num_expert_group": 4, "topk_group": 4}
        groups = groups if placement == "round_robin" else {}
        built = layers.build(vllm_engine, case, "cpu", tp_size=3, **groups)
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
def test_tensor_parallel(vllm_engine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's weight_loader gives each rank its columns; the ranks' outputs add up."""
    case = CASES[name]
    x, logits = inputs(7)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    total: Any = 0
    for rank in range(2):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        built = layers.build(vllm_engine, case, "cpu", tp_size=2, intermediate_size=256)
        layer = built.runner.routed_experts
        assert layer.quant_method.moec_plan.source["intermediate_size"] == 128
        total = total + layer.quant_method.apply(layer, x, weights.float(), ids.int(), None, None).double()
    # A rank's own scale of all activations rounds otherwise than one of all ranks.
    bound = 5e-2 if name == "fp8 tensor, dynamic" else 2 * case.bound
    assert layers.error(total, layers.computed(built, case, x, ids, weights)) < bound


def test_tensor_parallel_of_gpt_oss(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """192 columns over four ranks are three times 64 and none."""
    case = CASES["gpt-oss"]
    x, logits = inputs(7)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    total: Any = 0
    for rank in range(4):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        built = layers.build(vllm_engine, case, "cpu", tp_size=4, intermediate_size=192, has_bias=True)
        layer = built.runner.routed_experts
        assert layer.intermediate_size_per_partition == 64
        total = total + layer.quant_method.apply(layer, x, weights.float(), ids.int(), None, None).double()
    assert layers.error(total, layers.computed(built, case, x, ids, weights)) < 2 * case.bound


def test_shared_experts(vllm_engine: Any) -> None:
    shared = torch.nn.Linear(layers.HIDDEN, layers.HIDDEN, bias=False, dtype=torch.bfloat16)
    built = layers.build(vllm_engine, BF16, "cpu", shared_experts=shared)
    x, logits = inputs(7)
    wanted = layers.computed(built, BF16, x, *layers.softmax_top_k(logits, layers.TOP_K, True)) + shared(x).double()
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < 2 * BF16.bound


def test_inference_mode(vllm_engine: Any) -> None:
    """vLLM runs models in it."""
    x, logits = inputs(7)
    with torch.inference_mode():
        built = layers.build(vllm_engine, BF16, "cpu")
        got = forward(vllm_engine, built.runner, x, logits)
    wanted = layers.computed(built, BF16, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(got, wanted) < BF16.bound


def test_no_tokens(vllm_engine: Any) -> None:
    built = layers.build(vllm_engine, BF16, "cpu")
    assert forward(vllm_engine, built.runner, *inputs(0)).shape == (0, layers.HIDDEN)


def test_sizes_are_not_padded(vllm_engine: Any) -> None:
    """vLLM's kernels would pad 96 and 160."""
    case = CASES["gpt-oss"]
    built = layers.build(vllm_engine, case, "cpu", intermediate_size=96, hidden_size=160)
    layer = built.runner.routed_experts
    assert (layer.hidden_size, layer.intermediate_size_per_partition) == (160, 96)
    x, logits = inputs(7, hidden=160)
    wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
    assert layers.error(forward(vllm_engine, built.runner, x, logits), wanted) < case.bound


def test_weights_are_packed_in_place(vllm_engine: Any) -> None:
    layer = layers.build(vllm_engine, CASES["AWQ"], "cpu", packs=False).runner.routed_experts
    before = {name: getattr(layer, f"{name}_qweight").data_ptr() for name in ("w13", "w2")}
    layer.quant_method.process_weights_after_loading(layer)
    assert {name: layer.quant_method.moec_layer.weights[name].data_ptr() for name in before} == before
    # Nothing else may read packed weights.
    assert [name for name, parameter in layer.named_parameters() if parameter.numel()] == []


def test_the_routers_bias_stays_with_the_layer(vllm_engine: Any) -> None:
    """It is no weight of experts: others read it, and a checkpoint that comes again may write it."""
    bias = torch.nn.Parameter(BIAS.clone(), requires_grad=False)
    options = {"scoring_func": "sigmoid", "e_score_correction_bias": bias, "routed_scaling_factor": 2.5}
    layer = layers.build(vllm_engine, BF16, "cpu", **options).runner.routed_experts
    assert layer.quant_method.moec_plan.routes
    assert torch.equal(layer.e_score_correction_bias.data, BIAS)
    assert torch.equal(bias.data, BIAS)


def test_packed_weights_are_not_loaded_or_saved(vllm_engine: Any) -> None:
    layer = layers.build(vllm_engine, BF16, "cpu").runner.routed_experts
    parameter = layer.w2_weight
    with pytest.raises(moec.NotSupported, match="they cannot be loaded again"):
        parameter.weight_loader(parameter, torch.zeros(layers.HIDDEN, layers.INTERMEDIATE), "experts.w2_weight", "w2", 0)
    with pytest.raises(moec.NotSupported, match="start without MOEC_VLLM to save them"):
        torch.nn.ModuleList([layer]).state_dict()
    with pytest.raises(moec.NotSupported, match="moec accepts new weights only from vLLM's reload_weights"):
        layer.quant_method.process_weights_after_loading(layer)


def test_a_parameter_that_nothing_used(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod as Method

    with_unknown_parameter(monkeypatch, Method)
    with pytest.raises(moec.NotSupported, match="does not support the parameters w13_new_scale of UnquantizedFusedMoEMethod"):
        layers.build(vllm_engine, BF16, "cpu")
