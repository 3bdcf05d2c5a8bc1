# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights as rows of experts, which inference engines exchange between ranks. The host packs as GPUs of each arch do."""

from typing import Any

import pytest
from conftest import import_torch

torch = import_torch()

from support import random_value  # noqa: E402

import moec  # noqa: E402
from moec.integrations._packing import expert_rows  # noqa: E402

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE, TOKENS = 6, 2, 256, 128, 9
ORDER = [3, 0, 5, 5, 1, 3]
INTEGERS = {"int4_w4a16": "gptq", "int4_zp_w4a16": "awq", "int8_w8a16": "pack_quantized", "int8_zp_w8a16": "pack_quantized"}
SOURCE: dict[str, Any] = {
    "moec_layer": 1,
    "name": "rows",
    "num_experts": EXPERTS,
    "top_k": TOP_K,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "in_dtype": "bf16",
    "routing_method": "custom",
    "activation": "silu",
    "has_bias": True,
}


def source_of(scheme: str) -> dict[str, Any]:
    own: dict[str, Any] = {"f32": {"in_dtype": "f32"}, "f16": {"in_dtype": "f16"}}.get(scheme, {})
    if scheme in INTEGERS:
        own = {"quant_config": {"scheme": scheme, "group_size": 32}, "stored_layout": INTEGERS[scheme]}
    return SOURCE | {"quant_config": scheme} | own


def layer_of(package: Any, order: list[int], **more: Any) -> Any:
    weights = {}
    for name, value in package.values.items():
        if value.role == "stored_weight" and name not in more:
            made = torch.from_numpy(random_value(package, name, seed=3))
            if value.element_types[0] == "i32":  # words of codes
                made = torch.randint(-(2**31), 2**31, made.shape, dtype=torch.int32, generator=torch.Generator().manual_seed(3))
            weights[name] = made if name.startswith("a") else made[order].contiguous()
    return package.layer(weights | more, in_place=True)


def output(package: Any, layer: Any) -> Any:
    inputs = {name: torch.from_numpy(random_value(package, name, tokens=TOKENS, seed=4)) for name in ("x", "given_weights")}
    ids = torch.arange(TOKENS * TOP_K, dtype=torch.int32).view(TOKENS, TOP_K) % EXPERTS
    return layer(inputs["x"], given_ids=ids, given_weights=inputs["given_weights"])


PAIRS = [
    (row["name"], arch)
    for row in moec.catalog()["schemes"]
    for arch in ("sm_80", "sm_90a", "sm_100a", "sm_120a")
    if moec.supports(source_of(row["name"]), arch=arch, max_tokens=64)
]


@pytest.mark.parametrize(("scheme", "arch"), PAIRS)
def test_rows_move(scheme: str, arch: str) -> None:
    """A layer whose rows were moved has the bits of a layer that was packed from moved experts."""
    package = moec.load(moec.compile(source_of(scheme), arch=arch, max_tokens=64), device="host")
    layer = layer_of(package, list(range(EXPERTS)))
    before = output(package, layer)
    rows = expert_rows(layer, EXPERTS, "rows")
    assert {each.shape[0] for each in rows} == {EXPERTS}
    assert {each.dtype for each in rows} == {torch.uint8}
    for each in rows:
        each.copy_(each[ORDER].clone())
    fresh = layer_of(package, ORDER)
    for mine, its in zip(rows, expert_rows(fresh, EXPERTS, "rows"), strict=True):
        assert (mine == its).all()
    got = output(package, layer)
    assert (got == output(package, fresh)).all()
    assert (got != before).any()
