# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec's experts in vLLM's modular kernel, in one process on the processor. It runs where torch and vLLM's files are."""

from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402
import vllm_transports  # noqa: E402
from vllm.model_executor.layers.fused_moe import modular_kernel as mk  # noqa: E402
from vllm.model_executor.layers.fused_moe.activation import MoEActivation  # noqa: E402

import moec  # noqa: E402

CASES = {case.name: case for case in cases.CASES}
BF16 = CASES["bf16"]
SOME = ["bf16", "fp8 block", "fp8 tensor, dynamic", "gpt-oss", "MXFP4", "GPTQ int4", "AWQ"]

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


def inputs(tokens: int, experts: int = layers.EXPERTS) -> tuple[Any, Any, Any]:
    """x, weights and ids."""
    x, logits = layers.random_inputs(tokens, experts=experts)
    ids, weights = layers.softmax_top_k(logits, layers.TOP_K, True)
    return x, weights.float(), ids


@pytest.mark.parametrize("index_type", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", SOME)
def test_a_scheme(vllm_engine: Any, name: str, index_type: Any) -> None:
    built = layers.build(vllm_engine, CASES[name], "cpu", has_bias=name == "gpt-oss")
    kernel = layers.Kernel(built)
    for tokens in (1, 7, 33):
        x, weights, ids = inputs(tokens)
        kept = x.clone()
        got = kernel(x, weights, ids.to(index_type))
        assert torch.equal(x, kept)
        assert layers.error(got, layers.computed(built, CASES[name], x, ids, weights)) < CASES[name].bound


def test_no_tokens(vllm_engine: Any) -> None:
    x, weights, ids = inputs(0)
    assert layers.Kernel(layers.build(vllm_engine, BF16, "cpu"))(x, weights, ids).shape == (0, layers.HIDDEN)


def test_strided_rows(vllm_engine: Any) -> None:
    built = layers.build(vllm_engine, BF16, "cpu")
    x, weights, ids = inputs(7)
    wide = torch.zeros(7, 2 * layers.HIDDEN, dtype=torch.bfloat16)
    wide[:, : layers.HIDDEN] = x
    got = layers.Kernel(built)(wide[:, : layers.HIDDEN], weights, ids)
    assert layers.error(got, layers.computed(built, BF16, x, ids, weights)) < BF16.bound


@pytest.mark.parametrize("name", SOME)
def test_maps_and_ids_of_nobody(vllm_engine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two ranks: the experts elsewhere and ids of -1 add nothing. A token may have no expert at all."""
    case = CASES[name]
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_expert_parallel", True)
    x, weights, ids = inputs(33)
    ids[::3, 0] = -1
    ids[5] = -1
    total: Any = 0
    for rank in range(2):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        built = layers.build(vllm_engine, case, "cpu", tp_size=2, has_bias=name == "gpt-oss")
        kernel = layers.Kernel(built)
        local = [expert for expert, place in enumerate(kernel.layer.expert_map.tolist()) if place >= 0]
        got = kernel(x, weights, ids)
        assert not got[5].any()
        assert layers.error(got, layers.computed(built, case, x, ids, weights, local)) < case.bound
        total = total + got.double()
    # A rank's own scale of all activations rounds otherwise than one of all ranks.
    bound = 5e-2 if name == "fp8 tensor, dynamic" else 2 * case.bound
    assert layers.error(total, layers.computed(built, case, x, ids, weights, list(range(layers.EXPERTS)))) < bound


def test_weights_on_the_input(vllm_engine: Any) -> None:
    """vLLM's prepare multiplies the activations; the experts must not do so again."""
    built = layers.build(vllm_engine, BF16, "cpu", top_k=1)
    kernel = layers.Kernel(built)
    kernel.experts._plan.weights_on_input = True
    x, weights, ids = inputs(7)
    weights, ids = weights[:, :1].contiguous(), ids[:, :1].contiguous()
    got = kernel(x, weights, ids, apply_router_weight_on_input=True)
    scaled = x * weights.bfloat16()
    assert layers.error(got, layers.computed(built, BF16, scaled, ids, torch.ones_like(weights))) < BF16.bound


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"activation": MoEActivation.GELU}, "activation: expected silu, got gelu"),
        ({"global_num_experts": 16}, "global_num_experts: expected 8, got 16"),
        ({"w2": torch.ones(8, 4, 4)}, "elements of w1 and w2, which moec has packed: expected 0, got 128"),
    ],
)
def test_another_layer_than_the_packed_one(vllm_engine: Any, other: dict[str, Any], reason: str) -> None:
    kernel = layers.Kernel(layers.build(vllm_engine, BF16, "cpu"))
    with pytest.raises(moec.NotSupported, match=f"moec packed another layer than vLLM runs: {reason}"):
        kernel(*inputs(7), **other)


def test_other_weights_of_tokens(vllm_engine: Any) -> None:
    kernel = layers.Kernel(layers.build(vllm_engine, BF16, "cpu", top_k=1))
    x, weights, ids = inputs(7)
    with pytest.raises(moec.NotSupported, match="apply_router_weight_on_input: expected False, got True"):
        kernel(x, weights[:, :1], ids[:, :1], apply_router_weight_on_input=True)


def test_wrong_arguments(vllm_engine: Any) -> None:
    kernel = layers.Kernel(layers.build(vllm_engine, BF16, "cpu"))
    x, weights, ids = inputs(7)
    with pytest.raises(moec.NotSupported, match=r"type of hidden_states: expected torch.bfloat16, got torch.float16"):
        kernel(x.half(), weights, ids)
    with pytest.raises(moec.InvalidArgument, match="expert_map: expected None, since this rank has all experts; got a map"):
        kernel(x, weights, ids, expert_map=torch.arange(8, dtype=torch.int32))
    with pytest.raises(moec.InvalidArgument, match=r"value 'given_ids': expected \[7, 2\], got \[7, 1\]"):
        kernel(x, weights[:, :1], ids[:, :1])


def test_a_missing_map(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_engine.parallel_config, "enable_expert_parallel", True)
    kernel = layers.Kernel(layers.build(vllm_engine, BF16, "cpu", tp_size=2))
    with pytest.raises(moec.InvalidArgument, match="expert_map: expected vLLM's map of experts"):
        kernel(*inputs(7), expert_map=None)


def test_scales_of_activations(vllm_engine: Any) -> None:
    """A prepare that quantized in spite of expects_unquantized_inputs is refused."""
    kernel = layers.Kernel(layers.build(vllm_engine, CASES["fp8 block"], "cpu"))
    x, weights, ids = inputs(7)
    empty = torch.empty(8, 0, 0)
    arguments = (torch.empty_like(x), x, empty, empty, weights, ids, MoEActivation.SILU, 8, None, torch.ones(7, 2))
    with pytest.raises(moec.NotSupported, match="scales of quantized activations: expected None, got a tensor"):
        kernel.experts.apply(*arguments, None, None, None, None, False)


def test_what_the_experts_say_of_themselves(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.quantization.utils.quant_utils import kFp8Dynamic128Sym, kFp8Static128BlockSym

    experts = layers.Kernel(layers.build(vllm_engine, CASES["fp8 block"], "cpu")).experts
    assert experts.expects_unquantized_inputs
    assert experts.workspace_shapes(7, 256, 256, 2, 8, 8, None, MoEActivation.SILU) == ((0,), (0,), (7, 256))
    kind, standard = type(experts), mk.FusedMoEActivationFormat.Standard
    assert kind.is_supported_config(kind, experts.moe_config, None, None, standard) == (True, None)
    batched = mk.FusedMoEActivationFormat.BatchedExperts
    assert kind.is_supported_config(kind, experts.moe_config, None, None, batched)[0] is False
    # vLLM's choice among its kernels must not take a class that belongs to one layer.
    keys = (kFp8Static128BlockSym, kFp8Dynamic128Sym)
    assert kind.is_supported_config(kind, experts.moe_config, *keys, standard)[0] is False
    monkeypatch.setattr(experts.moe_config.moe_parallel_config, "enable_eplb", True)
    assert kind.is_supported_config(kind, experts.moe_config, None, None, standard) == (True, None)


def test_rows_without_counts(vllm_engine: Any) -> None:
    from moec.integrations._vllm_experts import MoecBatchedExperts

    of = layers.Kernel(layers.build(vllm_engine, BF16, "cpu")).experts
    experts = MoecBatchedExperts(of.moe_config, of._plan, of._moec_layer, max_num_tokens=4, num_dispatchers=1)
    x, empty = torch.zeros(8, 4, layers.HIDDEN, dtype=torch.bfloat16), torch.empty(8, 0, 0)
    arguments = (torch.empty_like(x), x, empty, empty, None, None, MoEActivation.SILU, 8, None, None, None, None, None, None)
    with pytest.raises(moec.NotSupported, match="expert_num_tokens: expected the number of rows of each expert, got None"):
        experts.apply(*arguments, False)


def _transport(engine: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(engine.parallel_config, "enable_expert_parallel", True)
    monkeypatch.setattr(engine.parallel_config, "all2all_backend", name)


TAKEN = "moec takes allgather_reducescatter, deepep_high_throughput, deepep_low_latency"


@pytest.mark.parametrize(
    ("transport", "options", "reason"),
    [
        ("nixl_ep", {}, f"the transport nixl_ep; {TAKEN}"),
        ("deepep_v2", {}, f"the transport deepep_v2; {TAKEN}"),
        ("flashinfer_nvlink_one_sided", {}, f"the transport flashinfer_nvlink_one_sided; {TAKEN}"),
        (
            "deepep_high_throughput",
            {"hidden_size": 160},
            "the transport deepep_high_throughput, for which vLLM pads rows of 160 elements to 256",
        ),
        (
            "deepep_low_latency",
            {"hidden_size": 256},
            "the transport deepep_low_latency, for which vLLM pads rows of 256 elements to 2048",
        ),
        (
            "deepep_high_throughput",
            {"params_dtype": torch.float16},
            "the transport deepep_high_throughput with activations of torch.float16; expected torch.bfloat16",
        ),
        ("deepep_high_throughput", {"num_experts": 9}, "the transport deepep_high_throughput with 9 experts on 2 ranks"),
        (
            "deepep_high_throughput",
            {"pcp_size": 2, "dp_size": 1},
            "the transport deepep_high_throughput with prefill context parallel",
        ),
    ],
)
def test_a_transport_that_stays_with_vllm(
    vllm_engine: Any, transport: str, options: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vllm_transports.install()
    _transport(vllm_engine, monkeypatch, transport)
    with pytest.raises(moec.NotSupported, match=reason):
        layers.build(vllm_engine, BF16, "cpu", **{"dp_size": 2} | options)


@pytest.mark.parametrize(("tokens", "sent"), [(32, 16), (33, 17)])
def test_tokens_of_sequence_parallel_ranks(vllm_engine: Any, tokens: int, sent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank sends its share of the tokens, rounded up."""
    vllm_transports.install()
    _transport(vllm_engine, monkeypatch, "deepep_high_throughput")
    monkeypatch.setattr(vllm_engine.scheduler_config, "max_num_batched_tokens", tokens)
    # One process has no transport.
    monkeypatch.setattr("moec.integrations._vllm_layer._kernel", lambda *a: None)
    options: dict[str, Any] = {"tp_size": 2, "is_sequence_parallel": True, "hidden_size": 256}
    plan = layers.build(vllm_engine, BF16, "cpu", **options).runner.routed_experts.quant_method.moec_plan
    # vLLM captures no CUDA graphs with this transport.
    assert (plan.max_tokens, plan.captured_tokens) == (2 * sent, 0)


@pytest.mark.parametrize("name", SOME)
def test_rows_by_expert(vllm_engine: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two ranks, by vLLM's prepare and finalize that sorts rows by expert in one process."""
    from vllm.model_executor.layers.fused_moe.prepare_finalize import BatchedPrepareAndFinalize

    case = CASES[name]
    vllm_transports.install()
    _transport(vllm_engine, monkeypatch, "deepep_low_latency")
    total: Any = 0
    random = torch.Generator().manual_seed(33)
    x = torch.randn(33, 2048, generator=random).bfloat16()
    ids, weights = layers.softmax_top_k(torch.randn(33, layers.EXPERTS, generator=random), layers.TOP_K, True)
    for rank in range(2):
        monkeypatch.setattr("vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank", lambda rank=rank: rank)
        # One process has no transport.
        made = BatchedPrepareAndFinalize(layers.MOST_TOKENS, layers.EXPERTS // 2, 1, rank)
        monkeypatch.setattr("moec.integrations._vllm_layer.maybe_make_prepare_finalize", lambda *a, made=made, **o: made)
        options: dict[str, Any] = {"tp_size": 2, "is_sequence_parallel": True, "hidden_size": 2048, "has_bias": name == "gpt-oss"}
        layer = layers.build(vllm_engine, case, "cpu", **options)
        method = layer.runner.routed_experts.quant_method
        assert method.moec_plan.source["activation_format"] == "batched"
        # Each expert has slots for the tokens of both ranks, in CUDA graphs too.
        plan = method.moec_plan
        assert (plan.max_tokens, plan.captured_tokens) == (2 * layers.MOST_TOKENS, 2 * layers.MOST_TOKENS)
        got = method.apply(layer.runner.routed_experts, x, weights.float(), ids, None, None)
        local = list(range(rank * 4, rank * 4 + 4))
        # The transport multiplies and sums in bf16.
        assert layers.error(got, layers.computed(layer, case, x, ids, weights, local)) < 2 * case.bound
        total = total + got.double()
    bound = 5e-2 if name == "fp8 tensor, dynamic" else 2 * case.bound
    assert layers.error(total, layers.computed(layer, case, x, ids, weights)) < bound
