# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packed weights as rows of experts, which inference engines exchange between ranks. The host packs as GPUs of each arch do."""

from typing import Any

import pytest
from conftest import import_torch

torch = import_torch()

from moved_experts import EXPERTS, ORDER, TOP_K, source_of, stored_weights  # noqa: E402
from support import random_value  # noqa: E402

import moec  # noqa: E402
from moec.integrations._packing import expert_rows  # noqa: E402

TOKENS = 9


def layer_of(package: Any, order: list[int]) -> Any:
    return package.layer(stored_weights(package, order), in_place=True)


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
