# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays that a caller gives as weights meet the conditions of a checkpoint's numbers."""

import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL
from support import random_value

import moec

FINITE = "expected a finite number"
SCALE = "expected a scale that is a finite number"
POSITIVE = "expected a scale that is finite and above 0"
INF, NAN = float("inf"), float("nan")


def load(**changes: Any) -> Any:
    return moec.load(moec.compile({**SMALL, **changes}, arch=ARCH, max_tokens=16), device="host")


def weights_of(package: Any) -> dict[str, Any]:
    return {name: random_value(package, name) for name, value in package.values.items() if value.role == "stored_weight"}


def spoilt(array: Any, expert: int, number: Any) -> Any:
    made = array.copy()
    last = (expert, *(extent - 1 for extent in made.shape[1:]))
    made[last] = moec.to_bfloat16(np.array([number], dtype=np.float32))[0] if made.dtype == np.uint16 else number
    return made


SIGMOID = {"routing_method": "deepseek_v3", "e_score_correction_bias": True}
# The layer, the value, numbers that are refused, numbers that are taken, the condition. Bytes are codes of floats of 8 bits.
CASES = [
    ({"quant_config": "fp8_tensor"}, "a1_scale", (0, -1, INF, NAN), (1,), POSITIVE),
    ({"quant_config": "fp8_tensor"}, "a2_scale", (0, INF), (1e-6,), POSITIVE),
    ({"quant_config": "fp8_tensor"}, "w13_scale", (0, -INF, NAN), (1,), POSITIVE),
    ({"quant_config": "fp8_tensor"}, "w2_scale", (0, NAN), (1,), POSITIVE),
    ({"quant_config": "fp8_channel"}, "w13_scale", (INF, NAN), (0, 1), SCALE),
    ({"quant_config": "fp8_block"}, "w2_scale", (INF, NAN), (0, -1), SCALE),
    ({"quant_config": "int4_w4a16"}, "w13_scale", (INF, NAN), (0, 1), SCALE),
    ({"quant_config": "nvfp4"}, "a1_scale", (0, NAN), (1,), POSITIVE),
    ({"quant_config": "nvfp4"}, "w13_second_scale", (0, -1, INF), (1,), POSITIVE),
    ({"quant_config": "nvfp4"}, "w2_scale", (0x7F, 0xFF), (0, 0x7E), SCALE),
    ({"quant_config": "mxfp4_w4a16"}, "w13_scale", (255,), (0, 157), SCALE),
    ({"quant_config": "mxfp8"}, "w2_scale", (255,), (0,), SCALE),
    ({"has_bias": True}, "b13", (INF, NAN), (0, -1), FINITE),
    ({"has_bias": True, "in_dtype": "f32", "quant_config": "f32"}, "b2", (INF,), (0,), FINITE),
    (SIGMOID, "routing_bias", (-INF, NAN), (0, -1), FINITE),
    ({"quant_config": "fp8_block", "weights_dtype": "bf16"}, "w13", (INF, NAN), (0,), FINITE),
    # Weights of a layer that computes with floats are the caller's.
    ({}, "w13", (), (INF, NAN), FINITE),
]


@pytest.mark.parametrize(("changes", "name", "refused", "taken", "condition"), CASES)
def test_numbers(changes: dict[str, Any], name: str, refused: tuple[Any, ...], taken: tuple[Any, ...], condition: str) -> None:
    if changes.get("quant_config") in ("fp8_block", "int4_w4a16"):
        changes = {**changes, "hidden_size": 256, "intermediate_size": 128}
    package = load(**changes)
    value = next(key for key in package.values if key == name or (name == "a1_scale" and key == "a1_second_scale"))
    weights = weights_of(package)
    experts = weights[value].shape[0]
    layer = package.layer(weights)
    for number in refused:
        given = {**weights, value: spoilt(weights[value], experts - 1, number)}
        message = rf"value '{value}': expert {experts - 1} holds [-\w.]+, {re.escape(condition)}"
        with pytest.raises(moec.InvalidArgument, match=message):
            package.layer(given)
        with pytest.raises(moec.InvalidArgument, match=message):
            layer.repack({value: given[value]}, 0, 8)
    for number in taken:
        package.layer({**weights, value: spoilt(weights[value], 0, number)}).close()


def test_other_experts_are_not_read() -> None:
    package = load(quant_config="fp8_channel")
    weights = weights_of(package)
    layer = package.layer(weights)
    given = {"w13_scale": spoilt(weights["w13_scale"], 5, NAN)}
    layer.repack(given, 0, 5)
    layer.repack(given, 6, 2)
    with pytest.raises(moec.InvalidArgument, match="value 'w13_scale': expert 5 holds nan"):
        layer.repack(given, 5, 1)


ONES = {"float32": 1.0, "uint16": 0x3F80, "uint8": 0x38}
NANS = {"float32": NAN, "uint16": 0x7FC0, "uint8": 0xFF}
PADDED = {"stored_hidden_size": 384, "stored_intermediate_size_per_partition": 192}
ATOMS = {"stored_layout": "scales_128x4", "intermediate_size": 96}


@pytest.mark.parametrize(
    "changes",
    [
        {"quant_config": "fp8_channel", **PADDED},
        {"quant_config": "fp8_block", **PADDED},
        {"quant_config": "fp8_block", "stored_layout": "columns_with_scales", **PADDED},
        {"quant_config": "mxfp4_w4a16", "has_bias": True, "gate_up_order": "interleaved", **PADDED},
        {"quant_config": "bf16", "has_bias": True, "gate_up_order": "interleaved_8", **PADDED},
        {"quant_config": "nvfp4", **ATOMS},
        {"quant_config": "mxfp8", **ATOMS},
        {"quant_config": "nvfp4", **ATOMS, **PADDED},
    ],
)
def test_padding_may_hold_anything(changes: dict[str, Any]) -> None:
    """A layer that is unpacked has zeros as padding, which says where padding is."""
    package = load(**{"hidden_size": 256, "intermediate_size": 128, **changes})
    weights = weights_of(package)
    names = [name for name in weights if name.startswith(("b", "w13_scale", "w2_scale"))]
    for name in names:
        weights[name][:] = ONES[str(weights[name].dtype)]
    layer = package.layer(weights)
    unpacked = layer.unpack()
    some = 0
    for name in names:
        nan = NANS[str(weights[name].dtype)]
        padding = unpacked[name] == 0
        some += int(padding.sum())
        given = weights[name].copy()
        given[padding] = nan
        layer.repack({name: given}, 0, given.shape[0])
        used = np.argwhere(~padding[3])
        for place in (used[0], used[len(used) // 3], used[-1]):
            wrong, at = given.copy(), (3, *place)
            wrong[at] = nan
            with pytest.raises(moec.InvalidArgument, match=f"value '{name}': expert 3 holds nan"):
                layer.repack({name: wrong}, 0, given.shape[0])
    assert some > 0


def test_shapes_are_those_of_the_layer() -> None:
    package = load(quant_config="fp8_tensor")
    weights = weights_of(package)
    for name in ("w13", "w13_scale", "a1_scale"):
        with pytest.raises(moec.InvalidArgument, match=rf"value '{name}': expected \[.*\], got \["):
            package.layer({**weights, name: weights[name][None]})
        with pytest.raises(moec.InvalidArgument, match=rf"value '{name}': expected \[.*\], got \["):
            package.layer({**weights, name: weights[name][:-1]})
    with pytest.raises(moec.InvalidArgument, match=r"value 'w2': expected \[.*\], got \["):
        package.layer({**weights, "w2": np.ascontiguousarray(weights["w2"].swapaxes(1, 2))})


@pytest.mark.parametrize("scheme", ["bf16", "fp8_channel", "int4_w4a16", "mxfp4_w4a16"])
def test_padded_weights_are_unpacked_in_place(scheme: str, tmp_path: pathlib.Path) -> None:
    """An expert is larger as stored than as packed, in the same memory. Large experts are packed a few at a time."""
    source = {**SMALL, "quant_config": scheme, "hidden_size": 256, "intermediate_size": 128, **PADDED}
    folder = moec.compile(source, arch=ARCH, max_tokens=8).write(tmp_path / "package")
    manifest = json.loads((folder / "manifest.json").read_text())
    for pack in manifest["targets"][0]["pack"]:
        pack["experts_per_step"] = 3
    (folder / "manifest.json").write_text(json.dumps(manifest))
    package = moec.load(folder, device="host")
    weights = weights_of(package)
    wanted = package.layer(weights).unpack()
    shared = {value.may_alias for value in package.values.values() if value.role == "packed_weight" and value.may_alias}
    assert shared & {"w13", "w2"}
    placed = {name: package.empty(name) for name in weights}
    for name, array in weights.items():
        placed[name][...] = array
    layer = package.layer(placed, in_place=True)
    layer.unpack({name: placed[name] for name in shared})
    for name in shared:
        assert any((wanted[name][0] != other).any() for other in wanted[name][1:])
        for expert, right in enumerate(wanted[name]):
            assert (placed[name][expert] == right).all(), (name, expert)
