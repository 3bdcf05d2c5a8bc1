# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Things that the tests share. python/ci.py sets the environment variables."""

import importlib
import importlib.util
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BUILD = pathlib.Path(os.environ["MOEC_TEST_BUILD"])
SOURCE = pathlib.Path(os.environ["MOEC_TEST_SOURCE"])
WHEEL = pathlib.Path(os.environ["MOEC_TEST_WHEEL"])
ARCH = "sm_90a"
# The sentence of reports about archs of which no GPU, but the emulator, ran kernels.
EMULATED = "emulated, never run on this GPU: small layers ran on the emulator"
# How to get another engine, where no GPU has run the engine.
OTHER_ENGINE = "No GPU has run engine '{0}'; --exclude={0} or MOEC_EXCLUDE={0} chooses another one"

SMALL: dict[str, Any] = {
    "moec_layer": 1,
    "name": "small",
    "num_experts": 8,
    "top_k": 2,
    "hidden_size": 128,
    "intermediate_size": 96,
    "in_dtype": "bf16",
    "routing_method": "renormalize",
    "activation": "silu",
    "quant_config": "bf16",
}


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=60, check=False
    )


def run_on_gpu(code: str, arch: str, cache: pathlib.Path) -> str:
    """Returns the output of code in an interpreter of its own, whose driver has an emulated GPU of this arch."""
    import moec

    driver = pathlib.Path(moec.__file__).with_name("libmoec-emulator.so")
    path = os.pathsep.join(filter(None, sys.path))
    settings = {
        "PYTHONPATH": path,
        "MOEC_CACHE_DIR": str(cache),
        "MOEC_CUDA_DRIVER_PATH": str(driver),
        "MOEC_EMULATOR": f"arch={arch}",
    }
    ran = run_python(code, **settings)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def import_torch(*others: str, files: Callable[[], str] | None = None) -> Any:
    """torch. The tests of a module that calls this are skipped where torch, one of the others or an engine's files are absent.

    files: gives "" or why the files are not there. It may need torch. With MOEC_TEST_REQUIRED the tests fail in place of
    being skipped.
    """
    required = os.environ.get("MOEC_TEST_REQUIRED")
    for name in ("torch", *others):
        if required and importlib.util.find_spec(name) is None:
            pytest.fail(f"{name} is not installed", pytrace=False)
        pytest.importorskip(name, reason=f"{name} is not installed")
    if files and (missing := files()):
        if required:
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing, allow_module_level=True)
    return importlib.import_module("torch")


@pytest.fixture
def no_gradients() -> Iterator[None]:
    import torch

    with torch.no_grad():
        yield


@pytest.fixture
def model() -> Any:
    """A small model of transformers in f32, so that rounding does not choose other experts."""
    import torch
    import transformers_models

    return transformers_models.model("qwen3_moe", torch.float32)


@pytest.fixture(scope="session")
def package() -> Any:
    """The bf16 layer on the host."""
    import moec

    return moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=64), device="host")


@pytest.fixture
def make_layer() -> Callable[..., Any]:
    """A layer of random weights, and the weights."""
    from support import random_value

    def make(package: Any, seed: int = 0, **options: Any) -> Any:
        weights = {name: random_value(package, name, seed=seed) for name in package.values if stored(package, name)}
        return package.layer(weights, **options), weights

    return make


def stored(package: Any, name: str) -> bool:
    return bool(package.values[name].role == "stored_weight")


@pytest.fixture(scope="session")
def vllm_engine() -> Any:
    """vLLM's configuration for the processor. Modules that use it are skipped where vLLM's files are not."""
    import vllm_layers

    return vllm_layers.start("cpu")


@pytest.fixture
def moec_serves_vllm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """moec takes every MoE layer of vLLM, or the test fails."""
    import torch

    from moec.integrations import _packing, _vllm_layer, vllm

    monkeypatch.setenv("MOEC_VLLM", "force")
    vllm.register()
    monkeypatch.setattr(_vllm_layer, "_journal", _packing.Journal(vllm.ENGINE))
    with torch.no_grad():
        yield


@pytest.fixture
def moec_serves_sglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """moec takes every MoE layer of SGLang, or the test fails."""
    import sglang_layers
    import torch
    from sglang.srt.plugins.hook_registry import HookRegistry

    from moec.integrations import _packing, _sglang_layer, sglang

    monkeypatch.setenv("MOEC_SGLANG", "force")
    sglang.register()
    HookRegistry.apply_hooks()
    monkeypatch.setattr(_sglang_layer, "_journal", _packing.Journal(sglang.ENGINE))
    configuration = sglang_layers.start()
    with torch.no_grad():
        yield
    configuration.restore()
