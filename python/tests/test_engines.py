# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Values of the plug-ins' variables, versions of engines that are served, and refusals without asking the engine."""

import importlib
import logging
import types
from typing import Any

import pytest
from conftest import SMALL, run_python

import moec
from moec.integrations import sglang, vllm

# A plug-in, its engine, the engine's package, its version, and the error that ends a process of the engine.
ENGINES = [(vllm, "vLLM", "vllm", "0.33.0", moec.NotSupported), (sglang, "SGLang", "sglang", "0.5.23", SystemExit)]


@pytest.fixture(params=ENGINES, ids=[name for _, _, name, _, _ in ENGINES])
def engine(request: pytest.FixtureRequest) -> Any:
    names = ("plugin", "name", "package", "version", "error")
    made = types.SimpleNamespace(**dict(zip(names, request.param, strict=True)))
    made.variable = f"MOEC_{made.package.upper()}"
    return made


class Other:
    """Stands for a method that moec does not know."""


@pytest.mark.parametrize("text", ["0", "on", "Force", "only", " 1", "only=fp8_block,nonsense", "only="])
def test_wrong_values(engine: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(moec.InvalidArgument, match=f"{engine.variable}: expected"):
        engine.plugin.choice_of(text)
    monkeypatch.setenv(engine.variable, text)
    error = moec.InvalidArgument if engine.error is not SystemExit else SystemExit
    with pytest.raises(error, match=f"{engine.variable}: expected"):
        engine.plugin.register()


def test_values(engine: Any) -> None:
    plugin = engine.plugin
    assert plugin.choice_of(None) is plugin.choice_of("") is None
    assert plugin.choice_of("1") == plugin.Choice()
    assert plugin.choice_of("force") == plugin.Choice(force=True)
    assert plugin.choice_of("only=fp8_block, mxfp4_w4a16") == plugin.Choice(schemes=frozenset(["fp8_block", "mxfp4_w4a16"]))


@pytest.mark.parametrize("ending", ["", "+cu130", ".post1"])
def test_versions_that_are_served(engine: Any, ending: str) -> None:
    assert engine.plugin.version_reason(engine.version + ending) == ""


@pytest.mark.parametrize("version", ["0.32.0", "0.5.22", "0.5.24", "0.33.1", "0.34.0", "{}rc1", "{}.dev3", "1", ""])
def test_versions_that_are_not_served(
    engine: Any, version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    version = version.format(engine.version)
    monkeypatch.setattr("importlib.metadata.version", lambda name: version)
    reason = f"moec was tested with {engine.name} {engine.version}, and this is {engine.name} {version}"
    monkeypatch.setenv(engine.variable, "force")
    with pytest.raises(engine.error, match=f"{engine.variable}=force: {reason}"):
        engine.plugin.register()
    monkeypatch.setenv(engine.variable, "1")
    engine.plugin.LOGGER.propagate = True
    with caplog.at_level(logging.INFO, f"{engine.package}.moec"):
        engine.plugin.register()
    assert f"moec serves no layer: {reason}" in caplog.text


def test_without_the_variable_nothing_happens(engine: Any) -> None:
    code = f"""
import sys
from moec.integrations import {engine.package} as plugin
plugin.register()
assert not {{"torch", "vllm", "sglang", "numpy"}} & set(sys.modules), "imported"
assert "libmoec" not in open("/proc/self/maps").read()
"""
    done = run_python(code, **{engine.variable: ""})
    assert (done.returncode, done.stderr) == (0, "")


def test_realizations(engine: Any) -> None:
    """The value 1 takes no layer that moec emulates; who names a scheme takes it."""
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan
    from moec.integrations._schemes import Scheme

    plugin = engine.plugin
    assert plugin.Choice(force=True).explicit
    assert plugin.Choice(schemes=frozenset(["nvfp4"])).explicit
    assert not plugin.Choice().explicit
    takes = _plan.takes
    weight_only, quantized = Scheme("", {}, {}, weight_only=True), Scheme("", {}, {})
    assert [takes(weight_only, each) for each in ("native", "dequantized", "emulated")] == [True, True, False]
    assert [takes(quantized, each) for each in ("native", "dequantized", "emulated")] == [True, False, False]
    assert takes(quantized, "weight_only")


def test_devices_and_schemes_that_are_taken(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan
    from moec.integrations._engine import Refused
    from moec.integrations._schemes import Scheme

    choice = engine.plugin.Choice
    all_of_them, forced, named = choice(), choice(force=True), choice(schemes=frozenset(["nvfp4"]))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert _plan.device_of("cuda", all_of_them) == torch.device("cuda:3")
    assert _plan.device_of("cuda:1", all_of_them) == torch.device("cuda:1")
    for explicit in (forced, named):
        assert _plan.device_of("cpu", explicit) == torch.device("cpu")
    with pytest.raises(Refused, match="the processor, on which moec runs for tests alone"):
        _plan.device_of("cpu", all_of_them)
    with pytest.raises(Refused, match="the device meta; moec takes GPUs of NVIDIA"):
        _plan.device_of("meta", forced)
    with monkeypatch.context() as changed:
        changed.setattr(torch.version, "hip", "6.4")
        with pytest.raises(Refused, match="moec takes GPUs of NVIDIA"):
            _plan.device_of("cuda:0", forced)

    nvfp4, other = Scheme("nvfp4", {}, {}), Scheme("fp8_block", {}, {})
    for chosen in (all_of_them, forced):
        _plan.check_named(other, chosen, engine.plugin.ENGINE)
    _plan.check_named(nvfp4, named, engine.plugin.ENGINE)
    with pytest.raises(Refused, match=f"scheme fp8_block, which {engine.variable} does not name"):
        _plan.check_named(other, named, engine.plugin.ENGINE)

    # GPUs that multiply 4-bit floats do so; others leave activations as they are.
    for capability, realizations in (((9, 0), ["weight_only"]), ((10, 0), []), ((12, 1), [])):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, made=capability: made)
        assert _plan.allowed(torch.device("cuda:0")) == realizations
        assert _plan.allowed(torch.device("cpu")) == ["weight_only"]

    answer = types.SimpleNamespace(ok=True, realization=("emulated",), reasons=())
    assert _plan.realization_of(answer, nvfp4, forced) == _plan.realization_of(answer, nvfp4, named) == "emulated"
    with pytest.raises(Refused, match="scheme nvfp4, which moec computes emulated on this GPU"):
        _plan.realization_of(answer, nvfp4, all_of_them)
    none = types.SimpleNamespace(ok=False, realization=(), reasons=("too wide", "too long"))
    with pytest.raises(Refused, match="moec has no kernels: too wide$"):
        _plan.realization_of(none, nvfp4, forced)


def test_the_plug_ins_allow_weight_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVFP4 of W4A4 is computed without quantized activations, unless MOEC_EXCLUDE forbids it."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan

    source = SMALL | {"quant_config": "nvfp4"}
    monkeypatch.delenv("MOEC_EXCLUDE", raising=False)
    assert _plan.kernels_of(source, torch.device("cpu"), 64).realization == ("weight_only",)
    exact = _plan.kernels_of(source, torch.device("cpu"), 64, leaves_activations=False)
    assert exact.realization == ("emulated",)
    monkeypatch.setenv("MOEC_EXCLUDE", "gemv,weight_only")
    assert _plan.kernels_of(source, torch.device("cpu"), 64).realization == ("emulated",)


def test_one_scale_of_activations_covers_the_largest() -> None:
    """Whether experts store it or its inverse."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._schemes import inverse_of_largest_for, largest_for

    stored = torch.tensor([4.0, 16.0])
    assert largest_for(3)(stored).tolist() == [16.0] * 3
    assert inverse_of_largest_for(3)(stored).tolist() == [0.25] * 3


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"is_sym": False}, "GPTQ with zero points"),
        ({"is_sym": True, "desc_act": True, "group_size": 128}, "act-order"),
    ],
)
def test_a_gptq_refusal(config: dict[str, Any], reason: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._engine import Refused
    from moec.integrations._vllm_schemes import _gptq

    config = {"weight_bits": 4, "group_size": 128, "desc_act": False} | config
    method = types.SimpleNamespace(quant_config=types.SimpleNamespace(**config))
    with pytest.raises(Refused, match=reason):
        _gptq(None, method)


@pytest.mark.parametrize(
    ("module", "arguments", "reason"),
    [
        ("_vllm_schemes", (), "vLLM's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"),
        ("_sglang_schemes", ("auto",), "SGLang's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"),
    ],
)
def test_a_method_that_is_unknown(module: str, arguments: tuple[str, ...], reason: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._engine import Refused

    scheme_of = importlib.import_module(f"moec.integrations.{module}").scheme_of
    with pytest.raises(Refused, match=reason):
        scheme_of(None, Other(), *arguments)
