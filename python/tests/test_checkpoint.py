# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights out of safetensors files that the tests write."""

import json
import pathlib
import struct
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL
from support import random_value

import moec

EXPERTS, WIDTH, INNER = 4, 64, 32
LAYER = {**SMALL, "num_experts": EXPERTS, "hidden_size": WIDTH, "intermediate_size": INNER}


def save(path: pathlib.Path, tensors: dict[str, Any]) -> None:
    """A safetensors file of bf16 bits, e4m3 bits and f32."""
    header, at = {}, 0
    for name, array in tensors.items():
        dtype = {"uint16": "BF16", "uint8": "F8_E4M3", "float32": "F32"}[array.dtype.name]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(array.tobytes() for array in tensors.values()))


@pytest.fixture
def weights() -> Any:
    package = moec.load(moec.compile(LAYER, arch=ARCH, max_tokens=8), device="host")
    return package, {name: random_value(package, name) for name in ("w13", "w2")}


@pytest.fixture
def folder(weights: Any, tmp_path: pathlib.Path) -> pathlib.Path:
    stored = weights[1]
    tensors: dict[str, Any] = {}
    for layer in (2, 5):
        for expert in range(EXPERTS):
            prefix = f"model.layers.{layer}.mlp.experts.{expert}."
            gate, up = np.split(stored["w13"][expert], 2)
            tensors |= {
                f"{prefix}gate_proj.weight": gate,
                f"{prefix}up_proj.weight": up,
                f"{prefix}down_proj.weight": stored["w2"][expert],
            }
        stored = {name: array[::-1] for name, array in stored.items()}
    save(tmp_path / "model.safetensors", tensors)
    return tmp_path


def test_layers(folder: pathlib.Path) -> None:
    checkpoint = moec.Checkpoint(folder)
    assert [(row["layer"], row["experts"], row["shared_experts"]) for row in checkpoint.layers] == [
        (2, EXPERTS, False),
        (5, EXPERTS, False),
    ]
    assert repr(checkpoint) == f"<moec.Checkpoint {folder}>"


def test_load(weights: Any, folder: pathlib.Path) -> None:
    package, stored = weights
    checkpoint = moec.Checkpoint(folder)
    heard: list[Any] = []
    loaded = checkpoint.load(package, progress=lambda *what: heard.append(what))
    assert set(loaded) == {"w13", "w2"}
    assert heard
    last = checkpoint.load(package, 5)
    for name, array in stored.items():
        assert (loaded[name] == array).all()
        assert (last[name] == array[::-1]).all()
    assert set(checkpoint.load(package, 2, names=["w2"])) == {"w2"}
    assert checkpoint.load(package, 2, names=[]) == {}
    # No number but None means the first layer with experts.
    for absent in (0, 1, 3, 6):
        with pytest.raises(moec.MoecError, match=f"layer {absent}"):
            checkpoint.load(package, absent)
    for wrong in ("", "2", 2.0):
        with pytest.raises(TypeError, match="layer"):
            checkpoint.load(package, wrong)  # type: ignore[arg-type]
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    assert (package.layer(loaded)(x, logits) == package.layer(stored)(x, logits)).all()


def test_quantize(folder: pathlib.Path) -> None:
    package = moec.load(moec.compile(LAYER, scheme="int8_w8a16", arch=ARCH, max_tokens=8), device="host")
    checkpoint = moec.Checkpoint(folder)
    with pytest.raises(moec.NotSupported, match="expected i8"):
        checkpoint.load(package)
    loaded = checkpoint.load(package, quantize=True)
    assert loaded["w13"].dtype == np.int8
    assert np.abs(loaded["w13"]).max() == 127


def test_values_of_the_whole_layer(tmp_path: pathlib.Path) -> None:
    package = moec.load(moec.compile({**LAYER, "quant_config": "fp8_tensor"}, arch=ARCH, max_tokens=8), device="host")
    tensors: dict[str, Any] = {}
    for expert in range(EXPERTS):
        for part, rows, columns in (("gate_proj", INNER, WIDTH), ("up_proj", INNER, WIDTH), ("down_proj", WIDTH, INNER)):
            prefix = f"model.layers.0.mlp.experts.{expert}.{part}."
            tensors[f"{prefix}weight"] = np.full((rows, columns), expert, dtype=np.uint8)
            tensors[f"{prefix}weight_scale"] = np.array([0.5], dtype=np.float32)
            tensors[f"{prefix}input_scale"] = np.array([expert + len(part)], dtype=np.float32)
    save(tmp_path / "model.safetensors", tensors)
    loaded = moec.Checkpoint(tmp_path).load(package)
    # Gate and up share a scale, the larger one.
    assert loaded["a1_scale"].tolist() == [9, 10, 11, 12]
    assert loaded["a2_scale"].tolist() == [9, 10, 11, 12]


def test_wrong_checkpoints(weights: Any, folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    package, _ = weights
    with pytest.raises(moec.MoecError, match="none"):
        moec.Checkpoint(tmp_path / "none")
    (tmp_path / "broken.safetensors").write_bytes(b"1234")
    with pytest.raises(moec.InvalidArgument):
        moec.Checkpoint(tmp_path / "broken.safetensors")
    checkpoint = moec.Checkpoint(folder / "model.safetensors")
    with pytest.raises(moec.MoecError, match="3"):
        checkpoint.load(package, 3)
    with pytest.raises(moec.MoecError, match="router"):
        checkpoint.load(package, ignored=["router"])


def test_weight_map(weights: Any) -> None:
    package, _ = weights
    assert [value["value"] for value in package.weight_map["values"]] == ["w13", "w2"]
    assert [part["part"] for part in package.weight_map["values"][0]["parts"]] == ["gate", "up"]
