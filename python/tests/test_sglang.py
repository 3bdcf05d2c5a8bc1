# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's Python layer with moec's plug-in, on the processor. It runs where torch and SGLang's files are (sglang_files.py)."""

import importlib.metadata
from typing import Any

import pytest
import sglang_files
from conftest import SOURCE, import_torch

torch = import_torch(files=sglang_files.prepare)

import sglang_layers as layers  # noqa: E402
from engine_layers import (  # noqa: E402
    EXPERTS,
    HIDDEN,
    INTERMEDIATE,
    MOST_CAPTURED,
    MOST_TOKENS,
    TOP_K,
    computed,
    error,
    softmax_top_k,
    with_unknown_parameter,
)
from sglang_layers import inputs  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in layers.CASES}
BF16 = CASES["bf16"]
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("moec_serves_sglang")


def check(case: Any, built: Any, *, tokens: int = 7, bound: float = 0.0, factor: float = 1.0) -> None:
    """One run of the layer, beside double precision."""
    dtype = built.runner.params_dtype
    x, ids, weights = inputs(tokens, built.runner.hidden_size)
    got = layers.forward(built.runner, x.to(dtype), ids, weights)
    assert got.dtype == dtype
    assert error(got, factor * computed(built, case, x, ids, weights)) < (bound or case.bound)


@pytest.mark.parametrize("case", layers.CASES, ids=CASES)
def test_a_scheme(case: Any) -> None:
    built = layers.build(case)
    method = built.runner.quant_method
    assert type(method).__name__ == case.method
    assert method.moec_plan.scheme.name == case.scheme
    for tokens in (1, 7, 33):
        check(case, built, tokens=tokens)


@pytest.mark.parametrize("runner", ["triton", "marlin"])
@pytest.mark.parametrize("name", ["bf16", "fp8 block", "compressed fp8 channel"])
def test_a_runner_that_the_user_names(name: str, runner: str) -> None:
    """Without moec it would compute the layer."""
    configuration = layers.start(moe_runner_backend=runner)
    try:
        check(CASES[name], layers.build(CASES[name]))
    finally:
        configuration.restore()


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "gpt-oss"])
def test_biases(name: str) -> None:
    check(CASES[name], layers.build(CASES[name], has_bias=True))


def swiglu(gate: Any, up: Any) -> Any:
    gate, up = gate.clamp(max=0.5), up.clamp(-0.5, 0.5)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1)


OPTIONS_OF_SWIGLU = {"gemm1_alpha": 1.702, "gemm1_clamp_limit": 0.5}


@pytest.mark.parametrize(
    ("name", "options", "function"),
    [
        ("silu", {}, lambda gate, up: F.silu(gate) * up),
        ("gelu", {}, lambda gate, up: F.gelu(gate) * up),
        ("gelu_tanh", {}, lambda gate, up: F.gelu(gate, approximate="tanh") * up),
        ("silu", OPTIONS_OF_SWIGLU | {"gate_up_interleaved": False}, swiglu),
        ("silu", {"gemm1_clamp_limit": 0.25}, lambda gate, up: F.silu(gate).clamp(max=0.25) * up.clamp(-0.25, 0.25)),
        ("silu", {"swiglu_limit": 0.5}, lambda gate, up: F.silu(gate.clamp(max=0.5)) * up.clamp(-0.5, 0.5)),
        (
            "situ",
            {"gemm1_alpha": 3.0, "gemm1_clamp_limit": 2.0},
            lambda gate, up: 3 * torch.tanh(gate / 3) * torch.sigmoid(gate) * 2 * torch.tanh(up / 2),
        ),
        ("situ", {}, lambda gate, up: 4 * torch.tanh(gate / 4) * torch.sigmoid(gate) * up),
        ("silu_no_mul", {}, lambda _, up: F.silu(up)),
        ("gelu_no_mul", {}, lambda _, up: F.gelu(up)),
        ("relu2_no_mul", {}, lambda _, up: F.relu(up) ** 2),
    ],
)
def test_an_activation(name: str, options: dict[str, Any], function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BF16._replace(act=name)
    built = layers.build(case, **options)
    monkeypatch.setattr("engine_layers.activation", lambda _, gate, up: function(gate, up))
    check(case, built)


def test_sglangs_functions_of_activations() -> None:
    """The formulas above are those of SGLang's Triton runner, where these are Python."""
    from sglang.srt.layers.moe.moe_runner.triton_utils import fused_moe

    gate, up = torch.randn(2, 5, 16, dtype=torch.float64)
    both = torch.cat([gate, up], -1)
    with torch.compiler.set_stance("force_eager"):
        made = fused_moe.swiglu_no_interleaved_with_alpha_and_limit(both, 1.702, 0.5)
        in_turn = fused_moe.swiglu_gpt_oss_sigmoid_alpha(torch.stack([gate, up], -1).flatten(-2), 1.702, 0.5)
        clamped = fused_moe._swiglu_silu_clamp_mul(both, 0.25)
    assert torch.equal(made, in_turn)
    assert torch.allclose(made, swiglu(gate, up))
    assert torch.allclose(clamped, F.silu(gate).clamp(max=0.25) * up.clamp(-0.25, 0.25))


@pytest.mark.parametrize("ranks", [1, 2])
def test_rows_of_all_attention_ranks(ranks: int) -> None:
    """With data parallel attention a layer gets the rows of all ranks, in CUDA graphs too."""
    with layers.rank(moe_tp_size=ranks, attn_tp_size=1, attn_tp_rank=0, attn_dp_size=ranks):
        plan = layers.build(BF16).runner.quant_method.moec_plan
    assert (plan.captured_tokens, plan.max_tokens) == (ranks * MOST_CAPTURED, ranks * MOST_TOKENS)


@pytest.mark.parametrize("chunk", [-1, 0, None])
def test_rows_without_chunked_prefill(chunk: int | None) -> None:
    """SGLang then limits a prefill by max_prefill_tokens."""
    configuration = layers.start(chunked_prefill_size=chunk, max_prefill_tokens=3 * MOST_CAPTURED)
    try:
        plan = layers.build(BF16).runner.quant_method.moec_plan
    finally:
        configuration.restore()
    assert (plan.captured_tokens, plan.max_tokens) == (MOST_CAPTURED, 3 * MOST_CAPTURED)


@pytest.mark.parametrize(
    ("decode", "prefill", "options", "most"),
    [
        ({"backend": "full", "max_bs": 8}, {"backend": "disabled"}, {"speculative_num_draft_tokens": 4}, 32),
        ({"backend": "full", "max_bs": 8}, {"backend": "breakable", "bs": [16, 48, 32]}, {}, 48),
        ({"backend": "full", "max_bs": 8}, {"backend": "breakable", "max_bs": 24}, {}, 24),
        ({"backend": "full", "max_bs": 64}, {"backend": "breakable", "bs": [16, 48]}, {}, 64),
        ({"backend": "disabled", "max_bs": 8}, {"backend": "disabled", "max_bs": 24}, {}, 0),
    ],
)
def test_rows_of_graphs(decode: dict[str, Any], prefill: dict[str, Any], options: dict[str, int], most: int) -> None:
    from sglang.srt.model_executor.cuda_graph_config import CudaGraphConfig

    graphs = CudaGraphConfig.from_dict({"decode": decode, "prefill": prefill})
    configuration = layers.start(cuda_graph_config=graphs, **options)
    try:
        plan = layers.build(BF16).runner.quant_method.moec_plan
    finally:
        configuration.restore()
    assert (plan.captured_tokens, plan.max_tokens) == (most, MOST_TOKENS)


def test_a_factor() -> None:
    """SGLang's runners multiply the sum over experts; moec in their place."""
    check(BF16, layers.build(BF16, routed_scaling_factor=2.5), factor=2.5)


def test_a_factor_in_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """The router has multiplied the weights by the factor."""
    name = "sglang.srt.layers.moe.fused_moe_triton.layer._fuses_routed_scaling_factor_in_topk"
    monkeypatch.setattr(name, lambda *_: True)
    check(BF16, layers.build(BF16, routed_scaling_factor=2.5))


def test_other_types_of_x() -> None:
    for dtype in (torch.float16, torch.float32):

        def rounded(rows: Any, dtype: Any = dtype) -> Any:
            return rows.to(dtype).double()

        check(BF16._replace(rounded=rounded), layers.build(BF16, dtype=dtype), bound=BF16.bound / 4)


@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_weights_on_the_input(factor: float) -> None:
    built = layers.build(BF16, apply_router_weight_on_input=True, top_k=1, routed_scaling_factor=factor)
    x, ids, weights = inputs(7)
    ids, weights = ids[:, :1], weights[:, :1]
    scaled = (x.double() * weights).bfloat16()
    wanted = factor * computed(built, BF16, scaled, ids, torch.ones_like(weights))
    assert error(layers.forward(built.runner, x, ids, weights), wanted) < BF16.bound


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "fp8 tensor, static", "gpt-oss", "AWQ"])
def test_expert_parallel(name: str) -> None:
    """SGLang's dispatcher gives each of two ranks ids of its own experts, and -1 for others."""
    case = CASES[name]
    x, ids, weights = inputs(33)
    for rank in range(2):
        with layers.rank(moe_ep_size=2, moe_ep_rank=rank):
            built = layers.build(case, has_bias=name == "gpt-oss")
            known = built.runner.quant_method.moec_plan.expert_map.tolist()
            assert known == [*range(EXPERTS // 2), *[-1] * (EXPERTS // 2)]
            got = layers.forward(built.runner, x, ids, weights)
        local = list(range(EXPERTS // 2 * rank, EXPERTS // 2 * (rank + 1)))
        assert error(got, computed(built, case, x, ids, weights, local)) < case.bound


@pytest.mark.parametrize("name", ["bf16", "fp8 block", "gpt-oss", "GPTQ int4", "AWQ", "compressed int4"])
def test_tensor_parallel(name: str) -> None:
    """SGLang's weight_loader gives each rank its columns; the ranks' outputs add up."""
    case = CASES[name]
    x, ids, weights = inputs(7)
    total: Any = 0
    for rank in range(2):
        with layers.rank(moe_tp_size=2, moe_tp_rank=rank):
            built = layers.build(case, intermediate_size=2 * INTERMEDIATE, has_bias=name == "gpt-oss")
            assert built.runner.quant_method.moec_plan.source["intermediate_size"] == INTERMEDIATE
            total = total + layers.forward(built.runner, x.to(built.runner.params_dtype), ids, weights).double()
    assert error(total, computed(built, case, x, ids, weights)) < 2 * case.bound


def test_sglangs_router() -> None:
    """The model binds its router to the layer, which then gives ids and weights."""
    from sglang.srt.layers.moe.topk import TopK, TopKOutputChecker

    built = layers.build(BF16)
    router = TopK(top_k=TOP_K, renormalize=True, layer_id=built.runner.layer_id)
    router.bind_runner_backend(built.runner.runner_backend, routing_method_type=built.runner.routing_method_type)
    x, _, _ = inputs(7)
    logits = torch.randn(7, EXPERTS, generator=torch.Generator().manual_seed(1))
    chosen = router.forward_native(x, logits)
    assert TopKOutputChecker.format_is_standard(chosen)
    wanted = computed(built, BF16, x, *softmax_top_k(logits, TOP_K, True))
    assert error(built.runner(x, chosen), wanted) < BF16.bound


def test_more_tokens_than_a_run_takes() -> None:
    check(BF16, layers.build(BF16), tokens=MOST_TOKENS + 44)


def test_no_tokens() -> None:
    assert layers.forward(layers.build(BF16).runner, *inputs(0)).shape == (0, HIDDEN)


def test_inference_mode() -> None:
    """SGLang runs models in it."""
    with torch.inference_mode():
        check(BF16, layers.build(BF16))


def test_weights_are_packed_in_place() -> None:
    layer = layers.build(CASES["AWQ"], packs=False).runner
    before = {name: getattr(layer, f"{name}_qweight").data_ptr() for name in ("w13", "w2")}
    layer.quant_method.process_weights_after_loading(layer)
    assert {name: layer.quant_method.moec_layer.weights[name].data_ptr() for name in before} == before
    # Nothing else may read packed weights.
    assert [name for name, parameter in layer.named_parameters() if parameter.numel()] == []


def test_packed_weights_are_not_loaded_or_saved() -> None:
    layer = layers.build(BF16).runner
    parameter = layer.w2_weight
    with pytest.raises(moec.NotSupported, match="they cannot be loaded again"):
        parameter.weight_loader(parameter, torch.zeros(HIDDEN, INTERMEDIATE), "experts.w2_weight", "w2", 0)
    with pytest.raises(moec.NotSupported, match="start without MOEC_SGLANG to save them"):
        torch.nn.ModuleList([layer]).state_dict()
    with pytest.raises(moec.NotSupported, match="moec packs weights once"):
        layer.quant_method.process_weights_after_loading(layer)


def test_calls_that_sglangs_kernels_would_serve() -> None:
    built = layers.build(BF16, packs=False)
    with pytest.raises(moec.InvalidArgument, match="its weights were not loaded yet"):
        layers.forward(built.runner, *inputs(7))
    with pytest.raises(moec.NotSupported, match="SGLang's kernels cannot read them"):
        built.runner.quant_method.get_triton_quant_info(built.runner)


def test_a_parameter_that_nothing_used(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod as Method

    with_unknown_parameter(monkeypatch, Method)
    with pytest.raises(moec.NotSupported, match="does not support the parameters w13_new_scale of UnquantizedFusedMoEMethod"):
        layers.build(BF16)


def test_sglang_loads_the_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the entry point that the package declares, in a process where nothing has registered it yet."""
    tomllib = pytest.importorskip("tomllib")
    from sglang.srt import plugins
    from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE

    declared = tomllib.loads((SOURCE / "python" / "pyproject.toml").read_text())["project"]["entry-points"]
    points = [importlib.metadata.EntryPoint(name, value, "") for name, value in declared["sglang.srt.plugins"].items()]
    assert len(points) == 1
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == "sglang.srt.plugins" else [])
    monkeypatch.setattr(plugins, "_plugins_loaded", False)
    monkeypatch.setattr(plugins.HookRegistry, "_hooks", type(plugins.HookRegistry._hooks)(list))
    monkeypatch.setattr(plugins.HookRegistry, "_patched", set())
    monkeypatch.setattr(FusedMoE, "__init__", FusedMoE.__init__.__wrapped__)
    assert not hasattr(layers.build(BF16, packs=False).runner.quant_method, "moec_plan")
    plugins.load_plugins()
    check(BF16, layers.build(BF16))
