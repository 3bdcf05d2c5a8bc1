# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's plug-in refuses layers, or leaves them to vLLM, on the processor. It runs where torch and vLLM's files are."""

import logging
import types
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import engine_schemes as schemes  # noqa: E402
import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402

import moec  # noqa: E402
from moec.integrations import vllm as plugin  # noqa: E402
from moec.integrations._engine import Refused  # noqa: E402

CASES = {case.name: case for case in cases.CASES}
BF16 = CASES["bf16"]

pytestmark = pytest.mark.usefixtures("moec_serves_vllm")


def choose(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MOEC_VLLM", value)
    plugin.register()


def later(name: str) -> bool:
    """Whether vLLM has an attribute of FusedMoEParallelConfig that its oldest tested versions lack."""
    from vllm.model_executor.layers.fused_moe.config import FusedMoEParallelConfig

    return hasattr(FusedMoEParallelConfig, name)


def _parallel(**values: Any) -> dict[str, Any]:
    return {f"parallel_config.{name}": value for name, value in values.items()}


GROUP64 = CASES["fp8 block"]._replace(
    config=cases._fp8(activation_scheme="dynamic", weight_block_size=[64, 128]),
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
        (CASES["AWQ"], {}, {"has_bias": True}, "biases, for which vLLM's method AutoAWQMoEMethod makes no parameters"),
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
    vllm_engine: Any,
    case: Any,
    engine_values: dict[str, Any],
    options: dict[str, Any],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "passthrough" in reason and not later("use_passthrough_all2all"):
        pytest.skip("this vLLM has no such transport")
    for path, value in engine_values.items():
        *parts, name = path.split(".")
        where = vllm_engine
        for part in parts:
            where = getattr(where, part)
        monkeypatch.setattr(where, name, value)
    with pytest.raises(moec.NotSupported, match=f"MOEC_VLLM=force: moec cannot run layer model.layers.*: {reason}"):
        layers.build(vllm_engine, case, "cpu", **options)


def test_substituted_experts(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Physical experts without the router that maps logical ones to them."""
    layer = layers.build(vllm_engine, BF16, "cpu", packs=False).runner.routed_experts
    monkeypatch.setattr(layer.moe_config, "num_logical_experts", 7)
    from moec.integrations import _vllm_plan

    with pytest.raises(Refused, match="redundant or substituted experts without expert-parallel load balancing"):
        _vllm_plan._refuse_features(layer, vllm_engine)


def test_what_moec_leaves_stays_with_vllm(
    vllm_engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """MOEC_VLLM=1 on the processor takes nothing, and says so once."""
    choose(monkeypatch, "1")
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"), pytest.raises(Exception, match=".*"):
        layers.build(vllm_engine, BF16, "cpu")  # vLLM's own kernels need its extensions
    with caplog.at_level(logging.INFO, "vllm.moec"), pytest.raises(Exception, match=".*"):
        layers.build(vllm_engine, BF16, "cpu")
    said = [record.getMessage() for record in caplog.records if record.name == "vllm.moec" and record.levelname == "WARNING"]
    assert len(said) == 1
    assert "to vLLM, and others for the same reason: the processor, on which moec runs only for tests" in said[0]


def test_a_model_without_a_layer_of_moec(
    vllm_engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has a line when vLLM processes the weights of the first of its layers."""
    from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod as Method

    choose(monkeypatch, "1")
    plugin.LOGGER.propagate = True
    processed = []
    monkeypatch.setattr(Method, "process_weights_after_loading", lambda self, layer: processed.append(layer))
    with caplog.at_level(logging.INFO, "vllm.moec"):
        made = [layers.build(vllm_engine, BF16, "cpu", packs=False).runner.routed_experts for _ in range(2)]
        for layer in made:
            layer.quant_method.process_weights_after_loading(layer)
    assert processed == made
    said = [record.getMessage() for record in caplog.records if record.name == "vllm.moec"]
    assert said[1:] == ["moec runs 0 of 2 MoE layers"]


def test_the_log_says_how_4_bit_weights_are_read(
    vllm_engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"):
        layers.build(vllm_engine, CASES["gpt-oss"], "cpu")
    (said,) = [record.getMessage() for record in caplog.records if record.name == "vllm.moec"]
    line = "moec runs 1 of 1 MoE layers: 1 x (mxfp4_w4a16, 4-bit weights read by the kernels, routing by moec); "
    assert said.startswith(line)


def test_only_some_schemes(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    choose(monkeypatch, "only=fp8_block,mxfp4_w4a16")
    plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, "vllm.moec"):
        built = layers.build(vllm_engine, CASES["fp8 block"], "cpu")
        with pytest.raises(Exception, match=".*"):
            layers.build(vllm_engine, CASES["compressed fp8 channel"], "cpu")
    assert built.runner.routed_experts.quant_method.moec_layer is not None
    said = [record.getMessage() for record in caplog.records if record.name == "vllm.moec"]
    assert said[0].startswith("moec runs 1 of 1 MoE layers: 1 x (fp8_block, native, routing by moec); ")
    assert said[1].endswith("scheme fp8_channel, which MOEC_VLLM does not name")


def test_another_class_of_experts(vllm_engine: Any) -> None:
    """A subclass may compute something else."""
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts

    made = type("OtherExperts", (RoutedExperts,), {})
    with pytest.raises(moec.NotSupported, match="the class OtherExperts of experts; moec takes RoutedExperts, GptOss"):
        layers.build(vllm_engine, BF16, "cpu", routed_experts_cls=made)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 0.0, -1.0], ids=str)
@pytest.mark.parametrize("name", ["weight_scale", "input_scale"])
def test_a_scale_that_is_no_scale(vllm_engine: Any, name: str, number: float) -> None:
    """A static scale is refused by moec's name of its tensor."""
    value = {"weight_scale": "w2_scale", "input_scale": "a2_scale"}[name]
    # vLLM takes the largest scale of x of all experts, which a 0 of one leaves as it is.
    is_largest = name == "input_scale" and number <= 0
    for expert in (0, layers.EXPERTS - 1):
        which = range(2, 3 * layers.EXPERTS, 3) if is_largest else [3 * expert + 2]
        case = schemes.spoilt(CASES["ModelOpt fp8"], name, number, which)
        with pytest.raises(moec.InvalidArgument, match=rf"value '{value}': expert \d+ holds .*finite and above 0"):
            layers.build(vllm_engine, case, "cpu")


def test_blocks_that_tensor_parallel_splits(vllm_engine: Any) -> None:
    """vLLM repeats the scales of a shard that is narrower than a block, and keeps the layer."""
    with pytest.raises(moec.NotSupported, match=r"cannot run layer .*: blocks of \[128, 128\] that tensor parallel splits"):
        layers.build(vllm_engine, CASES["fp8 block"], "cpu", tp_size=4, intermediate_size=256)
    assert layers.build(vllm_engine, CASES["fp8 block"], "cpu", tp_size=2, intermediate_size=512).runner
