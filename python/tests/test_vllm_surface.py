# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM has what the plug-in uses of it; a changed vLLM is refused. It runs where torch and vLLM's files are (vllm_files.py)."""

import importlib.metadata
import re
from typing import Any

import pytest
import vllm_files
from conftest import import_torch

torch = import_torch(files=vllm_files.prepare)

import engine_surface  # noqa: E402
import vllm_cases as cases  # noqa: E402
import vllm_layers as layers  # noqa: E402

import moec  # noqa: E402
from moec.integrations import vllm as plugin  # noqa: E402
from moec.integrations._vllm_surface import SURFACE  # noqa: E402

BF16 = {case.name: case for case in cases.CASES}["bf16"]
VERSION = importlib.metadata.version("vllm")


def test_vllm_has_it(vllm_engine: Any) -> None:
    assert SURFACE.reason(plugin.ENGINE.series_of(VERSION)) == ""


def test_the_surface_is_complete(vllm_engine: Any) -> None:
    import vllm.model_executor.layers.fused_moe.modular_kernel as mk
    from vllm.model_executor.layers.fused_moe.fused_moe_method_base import FusedMoEMethodBase

    from moec.integrations._vllm_experts import MoecBatchedExperts, MoecExperts
    from moec.integrations._vllm_layer import MoecMethod

    assert engine_surface.unlisted_imports("vllm", SURFACE) == []
    assert engine_surface.unlisted_methods(SURFACE, FusedMoEMethodBase, MoecMethod) == []
    for made in (MoecExperts, MoecBatchedExperts):
        assert engine_surface.unlisted_methods(SURFACE, mk.FusedMoEExpertsModular, made) == []


def changed_get_quant_method(self: Any, name: str, quant_config: Any, moe_config: Any) -> None: ...


def changed_apply(
    self: Any, layer: Any, x: Any, topk_weights: Any, topk_ids: Any, shared_experts: Any, shared_experts_input: Any, stream: Any
) -> None: ...


def changed_is_weights_pre_processed(layer: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("module", "name", "changed", "expected", "found"),
    [
        (
            "routed_experts",
            "RoutedExperts._get_quant_method",
            changed_get_quant_method,
            "prefix, quant_config, moe_config",
            "name, quant_config, moe_config",
        ),
        (
            "fused_moe_method_base",
            "FusedMoEMethodBase.apply",
            changed_apply,
            "layer, x, topk_weights, topk_ids, shared_experts, shared_experts_input",
            "layer, x, topk_weights, topk_ids, shared_experts, shared_experts_input, stream",
        ),
        ("", "is_weights_pre_processed", changed_is_weights_pre_processed, "", "layer"),
    ],
)
def test_a_changed_signature(
    vllm_engine: Any, module: str, name: str, changed: Any, expected: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"vllm.model_executor.layers.fused_moe.{module}" if module else "vllm.model_executor.utils"
    monkeypatch.setattr(f"{place}.{name}", changed)
    sentence = f"{place}.{name}: expected a function of ({expected}), found ({found})"
    assert SURFACE.reason(plugin.ENGINE.series_of(VERSION)) == sentence
    monkeypatch.setenv("MOEC_VLLM", "force")
    with pytest.raises(moec.NotSupported, match=re.escape(f"MOEC_VLLM=force: vLLM {VERSION}: {sentence}")):
        plugin.register()


def test_a_field_that_is_gone(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version that came before a field may lack it, no other."""
    from vllm.model_executor.layers.fused_moe.config import FusedMoEConfig

    fields = dict(FusedMoEConfig.__dataclass_fields__)
    notes = {name: note for name, note in FusedMoEConfig.__annotations__.items() if name != "has_hash_routing"}
    del fields["has_hash_routing"]
    monkeypatch.setattr(FusedMoEConfig, "__dataclass_fields__", fields)
    monkeypatch.setattr(FusedMoEConfig, "__annotations__", notes)
    monkeypatch.delattr(FusedMoEConfig, "has_hash_routing", raising=False)
    for series in (*plugin.TESTED, ""):
        assert SURFACE.reason(series).endswith("FusedMoEConfig.has_hash_routing: expected this attribute, found none")


@pytest.mark.usefixtures("moec_serves_vllm")
def test_an_attribute_of_a_layer_that_is_gone(vllm_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.model_executor.layers.fused_moe.routed_experts import RoutedExperts

    own = RoutedExperts._get_quant_method

    def without(self: Any, *arguments: Any, **options: Any) -> Any:
        del self.scoring_func
        return own(self, *arguments, **options)

    monkeypatch.setattr(RoutedExperts, "_get_quant_method", without)
    with pytest.raises(moec.NotSupported, match="RoutedExperts.scoring_func: expected this attribute of a layer, found none"):
        layers.build(vllm_engine, BF16, "cpu")
