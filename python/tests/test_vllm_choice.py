# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The values of MOEC_VLLM, the versions of vLLM that are served, and refusals without asking vLLM."""

import logging
import types
from typing import Any

import pytest
from conftest import run_python

import moec
from moec.integrations import vllm as plugin


class Other:
    """Stands for a method that moec does not know."""


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
    monkeypatch.setenv("MOEC_VLLM", "force")
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


def test_realizations() -> None:
    """MOEC_VLLM=1 takes no layer that moec emulates; who names a scheme takes it."""
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations import _plan
    from moec.integrations._schemes import Scheme

    assert plugin.Choice(force=True).explicit
    assert plugin.Choice(schemes=frozenset(["nvfp4"])).explicit
    assert not plugin.Choice().explicit
    takes = _plan.takes
    weight_only, quantized = Scheme("", {}, {}, weight_only=True), Scheme("", {}, {})
    assert [takes(weight_only, each) for each in ("native", "dequantized", "emulated")] == [True, True, False]
    assert [takes(quantized, each) for each in ("native", "dequantized", "emulated")] == [True, False, False]


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


def test_a_method_that_is_unknown() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    from moec.integrations._engine import Refused
    from moec.integrations._vllm_schemes import scheme_of

    with pytest.raises(Refused, match="vLLM's method Other; moec takes UnquantizedFusedMoEMethod, Fp8MoEMethod"):
        scheme_of(None, Other())
