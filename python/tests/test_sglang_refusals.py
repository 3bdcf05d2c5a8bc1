# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's plug-in refuses layers, or leaves them to SGLang, on the processor. It runs where torch and SGLang's files are."""

import logging
from typing import Any

import pytest
import sglang_files
from conftest import import_torch

torch = import_torch(files=sglang_files.prepare)

import engine_schemes as schemes  # noqa: E402
import sglang_layers as layers  # noqa: E402
from engine_cases import INT4, PACKED  # noqa: E402

import moec  # noqa: E402
from moec.integrations import sglang as plugin  # noqa: E402

CASES = {case.name: case for case in layers.CASES}
BF16 = CASES["bf16"]
GROUP64 = CASES["fp8 block"]._replace(config=layers._fp8(activation_scheme="dynamic", weight_block_size=[64, 128]))
ZERO_POINTS = CASES["compressed int4"]._replace(
    config=layers._compressed(PACKED, INT4 | {"symmetric": False}, None),
    store=schemes.store_integers("rows", 32, zero_points=True),
)
ACT_ORDER = CASES["GPTQ int4"]._replace(config=layers._gptq(4, 32, desc_act=True))
ONLINE = BF16._replace(config=lambda: layers._plain("fp8", "Fp8Config", is_checkpoint_fp8_serialized=False))

pytestmark = pytest.mark.usefixtures("moec_serves_sglang")


def choose(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MOEC_SGLANG", value)
    plugin.register()


@pytest.mark.parametrize(
    ("case", "arguments", "options", "reason"),
    [
        (BF16, {"enable_lora": True}, {}, "LoRA adapters"),
        (CASES["fp8 tensor, static"], {"enable_eplb": True}, {}, r"expert-parallel load balancing \(EPLB\) with stored scales"),
        (BF16, {"ep_num_redundant_experts": 2}, {}, "redundant experts without expert-parallel load balancing"),
        (BF16, {"init_expert_location": "x.pt"}, {}, "experts in another order than the model's, without expert-parallel load"),
        (BF16, {"cpu_offload_gb": 1}, {}, "weights that are offloaded"),
        (BF16, {"dwdp_size": 2}, {}, r"weights of other ranks that are fetched ahead \(DWDP\)"),
        (BF16, {"moe_a2a_backend": "megamoe"}, {}, "the transport megamoe; moec takes none"),
        (BF16, {"moe_runner_backend": "deep_gemm"}, {}, "the runner backend deep_gemm, which changes weights"),
        (BF16, {"enable_single_batch_overlap": True}, {}, "micro-batches that overlap"),
        (BF16, {}, {"num_fused_shared_experts": 1}, "shared experts among the routed ones"),
        (BF16, {}, {"no_combine": True}, "experts whose results are not summed"),
        (BF16, {}, {"gemm1_beta": 2.0}, "gemm1_beta 2.0, which SGLang's Triton runner does not use"),
        (BF16._replace(act="silu_rounded"), {}, {}, "the activation silu_rounded with is_gated True"),
        (BF16._replace(act="gelu"), {}, {"swiglu_limit": 3.0}, "the activation gelu with .* swiglu_limit 3.0"),
        (BF16, {}, {"params_dtype": torch.float64}, "weights of torch.float64"),
        (BF16, {}, {"intermediate_size": 100}, "moec has no kernels: .*100"),
        (CASES["AWQ"], {}, {"with_bias": True}, "biases, for which SGLang's method AWQMoEMethod makes no parameters"),
        (GROUP64, {}, {}, r"fp8 blocks of \[64, 128\]"),
        (ONLINE, {}, {}, "fp8 weights that SGLang makes of 16-bit ones while it loads them"),
        (ZERO_POINTS, {}, {}, "compressed-tensors"),
        (ACT_ORDER, {}, {}, "GPTQ with act-order"),
        (CASES["GPTQ int4"], {}, {"params_dtype": torch.bfloat16}, "GPTQ with scales of torch.float16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal(case: Any, arguments: dict[str, Any], options: dict[str, Any], reason: str) -> None:
    configuration = layers.start(**arguments)
    try:
        with pytest.raises(moec.NotSupported, match=f"MOEC_SGLANG=force: moec cannot run layer model.layers.*: {reason}"):
            layers.build(case, **options)
    finally:
        configuration.restore()


def test_another_class_of_experts() -> None:
    """A subclass may compute something else."""
    from sglang.srt.layers.moe.fused_moe_triton.layer import FusedMoE

    made = type("OtherMoE", (FusedMoE,), {})
    with pytest.raises(moec.NotSupported, match="the class OtherMoE of experts; moec takes FusedMoE"):
        made(num_experts=8, hidden_size=256, intermediate_size=128, layer_id=0, top_k=2, params_dtype=torch.bfloat16)


def test_another_class_of_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod as Method

    made = type("OtherMethod", (Method,), {"__module__": Method.__module__})
    with pytest.raises(moec.NotSupported, match="SGLang's method OtherMethod; moec takes UnquantizedFusedMoEMethod, Fp8"):
        layers.build(BF16, quant_method=made())


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Any:
    """The lines of the log, so far."""
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "sglang.moec"):
        yield lambda: [record.getMessage() for record in caplog.records if record.name == "sglang.moec"]


def test_what_moec_leaves_stays_with_sglang(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    """MOEC_SGLANG=1 on the processor takes nothing, and says so once. SGLang's method and parameters stay as they are."""
    from sglang.srt.layers.quantization.unquant import UnquantizedFusedMoEMethod

    choose(monkeypatch, "1")
    for _ in range(2):
        layer = layers.build(BF16, packs=False).runner
        assert type(layer.quant_method) is UnquantizedFusedMoEMethod
        assert layer.runner_backend is not None
        assert layer.runner_backend.is_triton()
        assert layer.w13_weight.numel()
    assert len(said()) == 1
    assert "to SGLang, and others for the same reason: the processor, on which moec runs only for tests" in said()[0]


def test_only_some_schemes(monkeypatch: pytest.MonkeyPatch, said: Any) -> None:
    choose(monkeypatch, "only=fp8_block,mxfp4_w4a16")
    built = layers.build(CASES["fp8 block"])
    assert built.runner.quant_method.moec_layer is not None
    assert not hasattr(layers.build(CASES["compressed fp8 channel"], packs=False).runner.quant_method, "moec_plan")
    assert said()[0].startswith("moec runs 1 of 1 MoE layers: 1 x (fp8_block, native, routing by SGLang); ")
    assert said()[1].endswith("scheme fp8_channel, which MOEC_SGLANG does not name")
