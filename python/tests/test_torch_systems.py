# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conversions of weights for the other systems of `moec bench`, held against the reference on the processor. Plain
implementations take the place of the libraries' kernels (peer_fakes.py)."""

import dataclasses
import importlib
import inspect
import os
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

import peer_signatures
import pytest
from conftest import import_torch, run_python

from moec.bench.case import TOLERANCE, Case, Inputs, Matrix, Weights, error_of, random_inputs, random_weights, reference
from moec.bench.systems import SYSTEMS, Unfit

torch = import_torch()
import peer_fakes  # noqa: E402

SM90, SM100 = (9, 0), (10, 0)
# Each system of each release, with the schemes that run on a GPU of this capability.
RELEASES: list[tuple[str, str, tuple[int, int], tuple[str, ...]]] = [
    ("sglang", "0.5.17", SM90, ("bf16", "fp8_block", "fp8_channel", "int4_w4a16")),
    ("sglang", "0.5.23", SM90, ("bf16", "fp8_block", "fp8_channel", "int4_w4a16")),
    ("flashinfer", "0.7.4", SM90, ("bf16", "fp8_block", "mxfp4_w4a16")),
    ("flashinfer", "0.7.4", SM100, ("bf16",)),
    ("trtllm", "0.7.4", SM100, ("fp8_block",)),
    ("triton_kernels", "3.5", SM90, ("bf16", "mxfp4_w4a16")),
    ("triton_kernels", "3.6", SM90, ("bf16", "mxfp4_w4a16")),
    ("triton_kernels", "3.8", SM90, ("bf16", "mxfp4_w4a16")),
    ("triton_kernels", "3.8", SM100, ("mxfp4_w4a16",)),
]
CASES = [
    pytest.param(name, release, capability, scheme, id=f"{name}-{release}-sm{capability[0]}0-{scheme}")
    for name, release, capability, schemes in RELEASES
    for scheme in schemes
]


def routed(logits: Any, count: int) -> tuple[Any, Any]:
    return peer_fakes.top_k(logits, count)


def quantized(x: Any, group: int) -> tuple[Any, Any]:
    """As moec.bench.glue.quantize_groups."""
    groups = x.float().unflatten(-1, (-1, group))
    scales = groups.abs().amax(-1).clamp(min=1e-10) / 448
    return (groups / scales[..., None]).flatten(-2).to(torch.float8_e4m3fn), scales.t().contiguous()


def install(monkeypatch: Any, name: str, release: str) -> Any:
    """The fake of a library, without GPU kernels around it. Returns what the fake records."""
    module = next(each.module for each in SYSTEMS if each.name == name)
    monkeypatch.delitem(sys.modules, f"moec.bench.systems.{module}", raising=False)
    glue: Any = types.ModuleType("moec.bench.glue")
    glue.route, glue.quantize_groups = routed, quantized
    monkeypatch.setitem(sys.modules, "moec.bench.glue", glue)
    monkeypatch.setattr(sys.modules["moec.bench"], "glue", glue, raising=False)
    if name == "sglang":
        return peer_fakes.sglang(monkeypatch, release)
    if name == "triton_kernels":
        return peer_fakes.triton_kernels(monkeypatch, release)
    return peer_fakes.flashinfer(monkeypatch)


@pytest.fixture
def run_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def make(name: str, release: str, capability: tuple[int, int], weights: Weights) -> Any:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        install(monkeypatch, name, release)
        system = next(each for each in SYSTEMS if each.name == name)
        assert system.version() == release
        assert not system.refusal(weights.case)
        return system.run_of(weights)

    return make


def small(scheme: str, **changes: Any) -> Case:
    return dataclasses.replace(Case("small", scheme, 8, 0, 8, 2, 256, 128, True), **changes)


def given(case: Case, tokens: int = 5) -> tuple[Weights, Inputs]:
    torch.manual_seed(1)
    return random_weights(case, "cpu"), random_inputs(case, tokens, device="cpu")


def swapped(weights: Weights) -> Weights:
    """Gates and ups in each other's place."""

    def turned(rows: Any) -> Any:
        return None if rows is None else torch.cat(tuple(reversed(rows.chunk(2, 1))), 1)

    return dataclasses.replace(weights, first=Matrix(turned(weights.first.codes), turned(weights.first.scale)))


@pytest.mark.parametrize(("name", "release", "capability", "scheme"), CASES)
def test_conversion(run_of: Any, name: str, release: str, capability: tuple[int, int], scheme: str) -> None:
    weights, inputs = given(small(scheme))
    wanted = reference(weights, inputs)
    assert error_of(run_of(name, release, capability, weights)(inputs), wanted) < TOLERANCE[scheme]
    # The bound sees gates and ups in each other's place.
    assert error_of(run_of(name, release, capability, swapped(weights))(inputs), wanted) > 5 * TOLERANCE[scheme]


@pytest.mark.parametrize("name", ["sglang", "flashinfer", "trtllm"])
def test_a_rank_of_expert_parallel(run_of: Any, name: str) -> None:
    scheme = "fp8_block" if name == "trtllm" else "bf16"
    weights, inputs = given(small(scheme, first_expert=4, experts=4))
    release, capability = next(each[1:3] for each in RELEASES if each[0] == name and scheme in each[3])
    assert len(weights.case.local(inputs)) in range(1, 8)
    assert error_of(run_of(name, release, capability, weights)(inputs), reference(weights, inputs)) < TOLERANCE[scheme]


@pytest.mark.parametrize("name", ["sglang", "flashinfer"])
def test_given_ids(run_of: Any, name: str) -> None:
    """Ids and weights that no top-k gives: of each token's last experts, with unequal weights."""
    weights, inputs = given(small("bf16", routes=False))
    inputs = dataclasses.replace(inputs, ids=inputs.ids.flip(0).contiguous(), weights=inputs.weights.flip(1) * 1.5)
    run = run_of(name, {"sglang": "0.5.23", "flashinfer": "0.7.4"}[name], SM90, weights)
    assert error_of(run(inputs), reference(weights, inputs)) < TOLERANCE["bf16"]


@pytest.mark.parametrize(
    ("name", "release", "capability", "case", "told"),
    [
        ("flashinfer", "0.7.4", SM100, small("fp8_block"), "fp8_block on sm_90 only"),
        ("flashinfer", "0.7.4", SM90, small("bf16", first_expert=2, experts=4), "only ranks of equally many experts"),
        ("flashinfer", "0.7.4", SM90, small("mxfp4_w4a16", width=96), "intermediate size that 128 divides"),
        ("trtllm", "0.7.4", SM90, small("fp8_block"), "on sm_100 only"),
        ("trtllm", "0.7.4", SM100, small("fp8_block", routes=False), "only layers that route by softmax"),
        ("triton_kernels", "3.6", SM90, small("bf16", first_expert=4, experts=4), "only layers with all experts"),
        ("triton_kernels", "3.6", SM90, small("bf16", routes=False), "only layers that route by softmax"),
        ("triton_kernels", "3.6", SM90, small("bf16", top_k=6), "top-k of a power of two only"),
        ("triton_kernels", "3.6", (8, 0), small("bf16"), "on sm_90 and newer only"),
    ],
)  # fmt: skip
def test_layers_that_a_system_does_not_compute(
    run_of: Any, name: str, release: str, capability: tuple[int, int], case: Case, told: str
) -> None:
    with pytest.raises(Unfit, match=told):
        run_of(name, release, capability, given(case)[0])


def test_flashinfer_tunes_at_the_first_run_of_a_token_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: SM90)
    tuning = install(monkeypatch, "flashinfer", "0.7.4")
    weights, inputs = given(small("bf16"))
    run = next(each for each in SYSTEMS if each.name == "flashinfer").run_of(weights)
    for each in (inputs, inputs, random_inputs(weights.case, 3, device="cpu")):
        run(each)
    assert tuning == [(True, (5,)), (False, (5,)), (True, (3,))]


@pytest.mark.parametrize(
    ("capability", "wanted"), [(SM90, {"split_k": 1}), (SM100, {"is_persistent": True, "epilogue_subtile": 1})]
)
def test_constraints_of_mxfp4(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], wanted: dict[str, int]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    constraints = install(monkeypatch, "triton_kernels", "3.8")
    next(each for each in SYSTEMS if each.name == "triton_kernels").run_of(given(small("mxfp4_w4a16"))[0])
    assert constraints == [wanted, wanted]


def without(monkeypatch: pytest.MonkeyPatch, module: str, *names: str) -> None:
    for name in names:
        monkeypatch.delattr(sys.modules[module], name)


@pytest.mark.parametrize(
    ("name", "release", "module", "absent", "told"),
    [
        ("sglang", "0.5.17", "sglang.srt.layers.moe.topk", "fused_topk",
         "sglang 0.5.17 has no sglang.srt.layers.moe.topk.fused_topk (/fake/sglang)"),
        ("flashinfer", "0.7.4", "flashinfer.fused_moe", "cutlass_fused_moe",
         "flashinfer 0.7.4 has no flashinfer.fused_moe.cutlass_fused_moe (/fake/flashinfer)"),
        ("triton_kernels", "3.6", "triton_kernels.swiglu", "swiglu_fn",
         "triton_kernels of an unknown version has no triton_kernels.swiglu.swiglu_fn (/fake/triton_kernels)"),
    ],
)  # fmt: skip
def test_a_release_without_a_function(
    monkeypatch: pytest.MonkeyPatch, name: str, release: str, module: str, absent: str, told: str
) -> None:
    install(monkeypatch, name, release)
    without(monkeypatch, module, absent)
    with pytest.raises(ImportError) as raised:
        next(each for each in SYSTEMS if each.name == name).version()
    assert str(raised.value) == told


def test_a_release_without_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "flashinfer", "0.7.4")
    old = peer_signatures.fake(["tune_mode=", "cache="])
    monkeypatch.setattr(sys.modules["flashinfer"], "autotune", old)
    with pytest.raises(ImportError, match=r"has no tuning_buckets= in flashinfer\.autotune\(\)"):
        next(each for each in SYSTEMS if each.name == "flashinfer").version()


def test_the_other_project_named_triton_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "moec.bench.systems.of_triton_kernels", raising=False)
    peer_fakes.install(monkeypatch, {"triton_kernels": {}})
    with pytest.raises(ImportError, match="has neither matmul nor matmul_ogs; PyPI's package of this name is another project"):
        importlib.import_module("moec.bench.systems.of_triton_kernels")


def test_fakes_have_the_recorded_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "flashinfer", "0.7.4")
    words = peer_signatures.records()["flashinfer 0.7.4"]["cutlass_fused_moe"]
    moe = sys.modules["flashinfer.fused_moe"]
    assert list(inspect.signature(moe.cutlass_fused_moe).parameters) == [
        word.rstrip("=") for word in words if not word.startswith("*")
    ]
    with pytest.raises(TypeError, match="missing a required argument: 'token_selected_experts'"):
        moe.cutlass_fused_moe(0)


@pytest.mark.skipif("MOEC_TEST_PEERS" not in os.environ, reason="MOEC_TEST_PEERS does not say where other systems' files are")
def test_records_are_those_of_the_files() -> None:
    for word in os.environ["MOEC_TEST_PEERS"].split(","):
        name, _, folder = word.partition("=")
        assert peer_signatures.read(name, pathlib.Path(folder)) == peer_signatures.records()[name], name


def test_quantize_groups() -> None:
    """The Triton kernel, by Triton's interpreter."""
    pytest.importorskip("triton")
    code = """
import torch
from moec.bench import glue
torch.manual_seed(1)
x = torch.randn(3, 384).bfloat16()
codes, scales = glue.quantize_groups(x, 128)
assert scales.shape == (3, 3) and scales.is_contiguous()
wanted = (x.float().unflatten(1, (3, 128)) / scales.t()[..., None]).flatten(1).to(torch.float8_e4m3fn).float()
got = codes.float()
# The interpreter halves numbers that round up to a power of two, and rounds ties up.
halved, near = wanted == 2 * got, (wanted - got).abs() <= wanted.abs() / 8
assert (halved | near).all() and (halved & (got != 0)).float().mean() < 0.05
assert torch.allclose(scales.t(), x.float().unflatten(1, (3, 128)).abs().amax(-1) / 448)
"""
    done = run_python(code, TRITON_INTERPRET="1")
    assert not done.returncode, done.stderr
