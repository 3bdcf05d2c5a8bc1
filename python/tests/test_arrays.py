# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays that fit and arrays that do not: shapes, types, strides, alignment, DLPack."""

import ctypes
from typing import Any

import numpy as np
import pytest
from support import decode_e4m3, random_value, round_e4m3

import moec
from moec import _dlpack, arrays


@pytest.fixture(scope="module")
def layer(package: Any) -> Any:
    return package.layer({name: random_value(package, name) for name in ("w13", "w2")})


@pytest.fixture(scope="module")
def inputs(package: Any) -> tuple[Any, Any]:
    return random_value(package, "x", 7), random_value(package, "logits", 7)


def test_a_result_that_is_copied_leaves_gaps(layer: Any, inputs: tuple[Any, Any]) -> None:
    """Rows that are not aligned are computed elsewhere, and copied back row by row."""
    x, logits = inputs
    wanted = layer(x, logits)
    rows, columns = wanted.shape
    for gap in (0, 3):
        memory = np.full(1 + rows * (columns + gap), 0x1234, dtype=np.uint16)
        table = memory[1:].reshape(rows, columns + gap)
        out = table[:, :columns]
        assert out.ctypes.data % 4
        assert layer(x, logits, out=out) is out
        assert (out == wanted).all()
        assert (table[:, columns:] == 0x1234).all()
        assert memory[0] == 0x1234


def test_optional_outputs_that_are_copied(package: Any, layer: Any, inputs: tuple[Any, Any]) -> None:
    """As outputs, they may lie anywhere, and must be writable."""
    x, logits = inputs
    optional = {"ids": np.int32, "weights": np.float32}
    wanted = {name: np.zeros((7, 2), kind) for name, kind in optional.items()}
    layer(x, logits, **wanted)
    assert len(set(wanted["ids"].ravel())) > 2
    assert (wanted["weights"] > 0).all()
    for name, kind in optional.items():
        for begin in (0, 1, 4):
            memory = np.full(7 * 2 * 4 + 16, 0x5A, np.uint8)
            given = memory[begin : begin + 7 * 2 * 4].view(kind).reshape(7, 2)
            layer(x, logits, **{name: given})
            assert (given == wanted[name]).all(), (name, begin)
            assert (memory[:begin] == 0x5A).all()
            assert (memory[begin + 7 * 2 * 4 :] == 0x5A).all()
        fixed = wanted[name].copy()
        fixed.flags.writeable = False
        with pytest.raises(moec.InvalidArgument, match=f"value '{name}': expected an array that may be written"):
            layer(x, logits, **{name: fixed})
        # By another alignment it is copied, and as little written.
        memory = np.zeros(7 * 2 * 4 + 1, np.uint8)
        odd = memory[1:].view(kind).reshape(7, 2)
        odd.flags.writeable = False
        with pytest.raises(moec.InvalidArgument, match=f"value '{name}': expected an array that may be written"):
            layer(x, logits, **{name: odd})
        assert not memory.any()


def test_rows_may_have_gaps(layer: Any, inputs: tuple[Any, Any]) -> None:
    x, logits = inputs
    wide = np.zeros((7, 256), np.uint16)
    wide[:, :128] = x
    assert (layer(wide[:, :128], logits) == layer(x, logits)).all()


def test_no_alignment_is_needed_on_the_host(layer: Any, inputs: tuple[Any, Any]) -> None:
    x, logits = inputs
    wanted = layer(x, logits)
    for begin in (2, 6):
        memory = np.zeros(7 * 128 * 2 + 16, np.uint8)
        at = -memory.ctypes.data % 16 + begin
        odd = memory[at : at + 7 * 128 * 2].view(np.uint16).reshape(7, 128)
        odd[...] = x
        assert odd.ctypes.data % 16
        assert (layer(odd, logits) == wanted).all()
        assert layer(x, logits, out=odd) is odd
        assert (odd == wanted).all()


def test_wrong_arrays(layer: Any, inputs: tuple[Any, Any]) -> None:
    x, logits = inputs
    one = np.zeros((7, 2), np.int32)
    wrong: list[tuple[Any, str]] = [
        (lambda: layer(x[:, :64], logits), "value 'x': expected .7, 128., got .7, 64."),
        (lambda: layer(x[0], logits), "value 'x': expected 2 dimensions, of which the first counts tokens; got 1"),
        (lambda: layer(x, logits[:5]), "value 'logits': expected .7, 8., got .5, 8."),
        (lambda: layer(x, logits, tokens=5), "value 'x': expected .5, 128., got .7, 128."),
        (lambda: layer(np.asfortranarray(x), logits), "value 'x': expected strides .128, 1. or a larger outermost stride"),
        (lambda: layer(x[:, ::-1], logits), "value 'x': expected strides"),
        (lambda: layer(x.astype(np.float32), logits), "value 'x': expected bf16 .uint16 may hold the bits of bf16., got f32"),
        (lambda: layer(x, logits.astype(np.float64)), "value 'logits': expected bf16 or f32 or f16 .*, got float64"),
        (lambda: layer(x.astype(">u2"), logits), "byte order, got dtype >u2"),
        (lambda: layer(x, logits, topk_ids=one, topk_weights=one), "expected f32 or f16 or bf16, got i32|takes either"),
        (lambda: layer(x, topk_ids=one), "given_weights"),
        (lambda: layer(x), "takes either logits, or given_ids and given_weights"),
        (lambda: layer(x, logits, nothing=one), "has no input or output 'nothing'; it has x, logits, given_ids"),
        (lambda: layer(x, logits, w13=one), "has no input or output 'w13'"),
        (lambda: layer(x, logits, out=x[:5]), "value 'out': expected .7, 128., got .5, 128."),
        (lambda: layer(x, logits, out=memoryview(b"").tolist), "an array of numpy, torch or a library with DLPack"),
        (lambda: layer(x, logits, stream=1), "stream: the package runs on the host, which has no streams"),
        (lambda: layer(x, logits, out=x.view()[::2]), "value 'out': expected"),
    ]
    for call, message in wrong:
        with pytest.raises((moec.InvalidArgument, TypeError), match=message):
            call()


def test_read_only(package: Any, layer: Any, inputs: tuple[Any, Any]) -> None:
    x, logits = inputs
    frozen = x.copy()
    frozen.flags.writeable = False
    layer(frozen, logits)
    with pytest.raises(moec.InvalidArgument, match="value 'out': expected an array that may be written"):
        layer(x, logits, out=frozen)
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    weights["w13"].flags.writeable = False
    package.layer(weights)
    with pytest.raises(moec.InvalidArgument, match="value 'w13': packing writes to this array"):
        package.layer(weights, in_place=True)


def test_wrong_weights(package: Any) -> None:
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    for change, message in (
        ({"w13": weights["w13"][:, :, :64]}, "value 'w13': expected .8, 192, 128., got .8, 192, 64."),
        ({"w13": weights["w2"]}, "value 'w13': expected"),
        ({"w3": weights["w2"]}, "package small has no weight 'w3'; did you mean w13. its weights are w13, w2, w13_packed"),
        ({"x": weights["w2"]}, "package small has no weight 'x'"),
        ({"w13": weights["w13"].astype(np.float32)}, "value 'w13': expected bf16"),
        ({"w13": weights["w13"].transpose(0, 2, 1)}, "value 'w13': expected"),
    ):
        with pytest.raises(moec.InvalidArgument, match=message):
            package.layer(weights | change)
    with pytest.raises(moec.InvalidArgument, match="weight 'w2' is missing"):
        package.layer({"w13": weights["w13"]})


def test_values_and_shapes(package: Any) -> None:
    assert package.shape("x", 5) == (5, 128)
    assert package.shape("w13") == (8, 192, 128)
    assert package.values["x"].role == "input"
    assert package.values["x"].element_types == ("bf16",)
    assert package.values["w13_packed"].may_alias == "w13"
    assert package.empty("x", 5).shape == (5, 128)
    assert package.empty("x", 5).ctypes.data % 256 == 0
    with pytest.raises(moec.InvalidArgument, match="has no value 'y'; its values are x, "):
        package.shape("y")
    for device in ("cuda:x", "gpu", "host:1", 3):
        with pytest.raises(
            moec.InvalidArgument, match="device: expected 'cuda', 'cuda:N', 'host' or, to load a package, 'emulated', got"
        ):
            moec.load("/nowhere", device=device)


class Foreign:
    """An array of a library that has DLPack and nothing else."""

    def __init__(self, array: Any, *, kind: int = _dlpack.CPU, old: bool = False) -> None:
        self.array, self.kind, self.old = array, kind, old

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 0)

    def __dlpack__(self, **options: Any) -> Any:
        if self.old and "max_version" in options:
            raise TypeError("no such argument")
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("old", [False, True])
def test_dlpack(layer: Any, inputs: tuple[Any, Any], old: bool) -> None:
    x, logits = inputs
    wanted = layer(x, logits)
    wide = np.zeros((7, 256), np.uint16)
    wide[:, 128:] = x
    out = np.empty_like(wanted)
    returned = layer(Foreign(wide[:, 128:], old=old), Foreign(logits, old=old), out=Foreign(out, old=old))
    assert isinstance(returned, Foreign)
    assert (out == wanted).all()


def test_dlpack_read_only(layer: Any, inputs: tuple[Any, Any]) -> None:
    x, logits = inputs
    frozen = x.copy()
    frozen.flags.writeable = False
    found = arrays.view(Foreign(frozen), "x")
    assert not found.writable
    with pytest.raises(moec.InvalidArgument, match="may be written"):
        layer(x, logits, out=Foreign(frozen))


def test_dlpack_byte_offset(layer: Any, inputs: tuple[Any, Any]) -> None:
    class Shifted(Foreign):
        """The same tensor by an address in front of it and an offset."""

        def __dlpack__(self, **options: Any) -> Any:
            capsule = super().__dlpack__(**options)
            tensor, _ = _dlpack.tensor_of(capsule)
            tensor.data, tensor.byte_offset = tensor.data - 64, 64
            return capsule

    x, logits = inputs
    assert arrays.view(Shifted(x), "x").data == x.ctypes.data
    out = np.empty_like(x)
    layer(Shifted(x), logits, out=out)
    assert (out == layer(x, logits)).all()


def test_dlpack_of_other_devices() -> None:
    class OnGpu(Foreign):
        """numpy's capsule with another device in it."""

        def __dlpack__(self, **options: Any) -> Any:
            options.pop("stream", None)
            capsule = super().__dlpack__(**options)
            tensor, _ = _dlpack.tensor_of(capsule)
            tensor.device.kind, tensor.device.index = self.kind, 1
            return capsule

    array = np.zeros((2, 3), np.float32)
    assert arrays.view(OnGpu(array, kind=_dlpack.CUDA), "x").gpu == 1
    with pytest.raises(moec.InvalidArgument, match="value 'x': expected host or CUDA memory, got DLPack's device type 8"):
        arrays.view(OnGpu(array, kind=8), "x")


def test_memory_of_a_gpu_is_refused_on_the_host(layer: Any, inputs: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real = arrays.view
    monkeypatch.setattr(arrays, "view", lambda *a, **k: real(*a, **k)._replace(gpu=0))
    with pytest.raises(moec.InvalidArgument, match="expected host memory, where package small runs; got memory of GPU 0"):
        layer(*inputs)


def test_rows_of_strides() -> None:
    def rows(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> tuple[int, int, int]:
        return arrays.contiguous_rows(arrays.View(0, shape, strides, "f32", None, True, None), 4)

    assert rows((3, 2, 5), None) == (1, 120, 0)
    assert rows((3, 2, 5), (10, 5, 1)) == (3, 40, 40)
    assert rows((3, 2, 5), (16, 5, 1)) == (3, 40, 64)
    assert rows((3, 2, 5), (16, 8, 1)) == (-1, 0, 0)
    assert rows((3, 2, 5), (20, 10, 2)) == (-1, 0, 0)
    # Strides of extents of 1 say nothing.
    assert rows((3, 1, 5), (16, 99, 1)) == (3, 20, 64)
    assert rows((3, 5, 1), (16, 1, 99)) == (3, 20, 64)


def test_dlpack_structs_are_numpys() -> None:
    assert ctypes.sizeof(_dlpack.DLTensor) == 48
    array = np.arange(6, dtype=np.int64).reshape(2, 3)[:, 1:]
    found = arrays.view(Foreign(array), "x")
    assert (found.data, found.shape, found.strides, found.element_type) == (array.ctypes.data, (2, 2), (3, 1), "i64")


def test_bfloat16() -> None:
    numbers = np.array([0, -0.0, 1, 1 + 2**-8, 1 + 3 * 2**-8, 1e38, np.inf, -np.inf, 2**-133], np.float32)
    bits = moec.to_bfloat16(numbers)
    assert bits.dtype == np.uint16
    assert [hex(each) for each in bits] == ["0x0", "0x8000", "0x3f80", "0x3f80", "0x3f82", "0x7e96", "0x7f80", "0xff80", "0x1"]
    assert np.isnan(moec.from_bfloat16(moec.to_bfloat16(np.array([np.nan, -np.nan], np.float32)))).all()
    every = np.arange(2**16, dtype=np.uint16)
    finite = np.isfinite(moec.from_bfloat16(every))
    assert (moec.to_bfloat16(moec.from_bfloat16(every))[finite] == every[finite]).all()


def test_e4m3_of_the_tests() -> None:
    every = np.arange(0x7F, dtype=np.uint8)
    assert (round_e4m3(decode_e4m3(every)) == decode_e4m3(every)).all()
    assert round_e4m3(np.array([1.0625, 1.1875, -1.07, 1e9, 2.0**-10])).tolist() == [1, 1.25, -1.125, 448, 0]
