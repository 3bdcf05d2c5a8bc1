# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang has what the plug-in uses of it; a changed SGLang is refused. It runs where torch and SGLang's files are."""

import importlib.metadata
import re
from typing import Any

import pytest
import sglang_files
from conftest import import_torch

torch = import_torch("transformers", files=sglang_files.prepare)

import engine_surface  # noqa: E402

from moec.integrations import sglang as plugin  # noqa: E402
from moec.integrations._sglang_surface import SURFACE  # noqa: E402

VERSION = importlib.metadata.version("sglang")


def test_sglang_has_it() -> None:
    assert SURFACE.reason(plugin.ENGINE.series_of(VERSION)) == ""


def test_the_surface_is_complete() -> None:
    from sglang.srt.layers.quantization.base_config import FusedMoEMethodBase

    from moec.integrations._sglang_layer import MoecMethod

    assert engine_surface.unlisted_imports("sglang", SURFACE) == []
    assert engine_surface.unlisted_methods(SURFACE, FusedMoEMethodBase, MoecMethod) == []


def changed_apply(self: Any, layer: Any, dispatch_output: Any, stream: Any) -> None: ...


def test_a_changed_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "sglang.srt.layers.quantization.base_config.FusedMoEMethodBase.apply"
    monkeypatch.setattr(place, changed_apply)
    sentence = f"{place}: expected a function of (layer, dispatch_output), found (layer, dispatch_output, stream)"
    assert SURFACE.reason(plugin.ENGINE.series_of(VERSION)) == sentence
    monkeypatch.setenv("MOEC_SGLANG", "force")
    with pytest.raises(SystemExit, match=re.escape(f"MOEC_SGLANG=force: SGLang {VERSION}: {sentence}")):
        plugin.register()
