# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's Python layer with moec's plug-in, on the processor. It runs where torch and SGLang's files are (sglang_files.py)."""

from collections.abc import Iterator
from typing import Any

import pytest
import sglang_files

torch = pytest.importorskip("torch", reason="torch is not installed")
if missing := sglang_files.prepare():
    pytest.skip(missing, allow_module_level=True)

import sglang_layers as layers  # noqa: E402
from engine_layers import EXPERTS, HIDDEN, TOP_K, computed, error, softmax_top_k  # noqa: E402

from moec.integrations import sglang as plugin  # noqa: E402

CASES = {case.name: case for case in layers.CASES}
BF16 = CASES["bf16"]


@pytest.fixture(autouse=True)
def moec_serves_sglang(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """moec takes every MoE layer of SGLang, or the test fails."""
    from sglang.srt.plugins.hook_registry import HookRegistry

    from moec.integrations import _packing, _sglang_layer

    monkeypatch.setenv("MOEC_SGLANG", "force")
    plugin.register()
    HookRegistry.apply_hooks()
    monkeypatch.setattr(_sglang_layer, "_journal", _packing.Journal(plugin.ENGINE))
    configuration = layers.start()
    with torch.no_grad():
        yield
    configuration.restore()


def inputs(tokens: int, hidden: int = HIDDEN) -> tuple[Any, Any, Any]:
    """x, ids and weights."""
    random = torch.Generator().manual_seed(tokens)
    x = torch.randn(tokens, hidden, generator=random).bfloat16()
    return x, *softmax_top_k(torch.randn(tokens, EXPERTS, generator=random), TOP_K, True)


@pytest.mark.parametrize("case", layers.CASES, ids=CASES)
def test_a_scheme(case: Any) -> None:
    dtype = torch.float16 if case.name == "GPTQ int4" else torch.bfloat16
    built = layers.build(case, dtype=dtype)
    method = built.runner.quant_method
    assert type(method).__name__ == case.method
    assert method.moec_plan.scheme.name == case.scheme
    for tokens in (1, 7, 33):
        x, ids, weights = inputs(tokens)
        got = layers.forward(built.runner, x.to(dtype), ids, weights)
        assert got.dtype == dtype
        assert error(got, computed(built, case, x, ids, weights)) < case.bound
