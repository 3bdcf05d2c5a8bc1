# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each option of a call reaches the library: in a struct, whose other fields are zeros, or in its JSON."""

import contextlib
import ctypes
import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL
from support import random_value

import moec
from moec import _abi, _memory, compiler, report

STRUCTS = ("LoadOptions", "LayerOptions", "UnpackOptions", "CommOptions", "ContextOptions", "RunOptions", "WeightsOptions")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Calls a function and returns the fields that are not zero of the struct that it made first."""
    made: list[ctypes.Structure] = []

    def recorded(base: Any) -> Any:
        class Recorded(base):  # type: ignore[misc]
            def __init__(self, **fields: Any) -> None:
                super().__init__(**fields)
                made.append(self)

        return Recorded

    for name in STRUCTS:
        monkeypatch.setattr(_abi, name, recorded(getattr(_abi, name)))

    def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
        made.clear()
        # The struct is made before the library refuses what is not here.
        with contextlib.suppress(moec.MoecError):
            function(*arguments, **options)
        first = made[0]
        fields = [field[0] for field in type(first).__mro__[1]._fields_]  # type: ignore[attr-defined]
        return {name: value for name in fields if (value := getattr(first, name)) and name != "struct_size"}

    return call


def test_load(given: Any, tmp_path: pathlib.Path) -> None:
    files = moec.compile(SMALL, arch=ARCH, max_tokens=4)
    assert int(_abi.DeviceKind.CUDA) == 0
    device = {"device": int(_abi.DeviceKind.HOST)}
    assert given(moec.load, files, device="host") == given(moec.load, files, device="cpu") == device
    for options, fields in (
        ({"strict": True}, {"strict": 1}),
        ({"jobs": 3}, {"jobs": 3}),
        ({"cache_dir": tmp_path}, {"cache_dir": bytes(tmp_path)}),
        ({"arch": ARCH}, {"arch": ARCH.encode()}),
        ({"rank": 0}, {"rank_plus_one": 1}),
        ({"rank": 6}, {"rank_plus_one": 7}),
        ({"nvrtc_path": tmp_path}, {"nvrtc_path": bytes(tmp_path)}),
    ):
        assert given(moec.load, files, device="host", **options) == device | fields
    strict = {"strict": True, "nvrtc_path": "/none"}
    common = {"strict": 1, "nvrtc_path": b"/none"}
    assert given(moec.load, files, prebuild=True, **strict) == common | {"prebuild": 1}
    for place, number in (("cuda", {}), ("cuda:0", {"ordinal_plus_one": 1}), ("cuda:3", {"ordinal_plus_one": 4})):
        assert given(moec.load, files, device=place, **strict) == common | number
    device = {"device": int(_abi.DeviceKind.EMULATED)}
    assert given(moec.load, files, device="emulated", **strict) == common | device


@pytest.mark.parametrize("device", ["cpu:0", "host:1", "cuda:", "cuda:x", "cuda:1:2", "cuda:-1", "gpu", "xpu:1", ""])
def test_wrong_devices(device: str) -> None:
    files = moec.compile(SMALL, arch=ARCH, max_tokens=4)
    with pytest.raises(moec.InvalidArgument, match="device: expected 'cuda', 'cuda:N', 'host' or"):
        moec.load(files, device=device)


def test_layers_and_runs(given: Any, package: Any, make_layer: Any) -> None:
    layer, weights = make_layer(package)
    packed = {name: value.copy() for name, value in weights.items()}
    made = given(package.layer, packed)
    assert made.pop("scratch")
    assert made == {"scratch_bytes": package.pack_scratch_bytes}
    made = given(package.layer, packed, already_packed=True)
    assert (made["already_packed"], "scratch_bytes" in made) == (1, False)
    # The host device writes to the host in any case.
    assert given(layer.unpack) == given(layer.unpack, host=True) == {"to_host": 1}
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    assert given(layer, x, logits) == {}
    assert given(layer, x, logits, overlap_previous=True) == {"overlap_previous": 1}
    name = package.variants[-1].name
    assert given(layer, x, logits, variant=name) == {"variant": name.encode()}


def test_contexts(given: Any, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    state = np.zeros(64, np.uint8)
    assert package.state_bytes == 0
    assert given(package.context, 4) == given(package.context, 4, state=state) == {}
    monkeypatch.setattr(type(package), "state_bytes", 48)
    assert given(package.context, 4) == {}
    assert given(package.context, 4, state=state) == {"state": state.ctypes.data, "state_bytes": 64}
    end = moec.Communicator.threads(2)[1]
    assert given(package.context, 4, comm=end) == {"comm": end.handle._as_parameter_.value}
    # So does a context that a run makes for itself, or a capture.
    assert given(package.take_context, 0, 4, end) == {"comm": end.handle._as_parameter_.value}
    monkeypatch.setattr(package, "reserved", None)
    assert given(package.reserve, 4, comm=end) == {"comm": end.handle._as_parameter_.value}


def test_memory_of_contexts(package: Any) -> None:
    needed = package.workspace_bytes(4)
    shape = (2, 1, needed // 8)
    assert needed % 8 == 0
    assert _memory.bytes_of(package, np.zeros(shape, np.float32), "workspace")[1] == needed
    with pytest.raises(moec.WorkspaceTooSmall, match=f"workspace: runs of 4 tokens need {needed} bytes, and {needed - 1} were"):
        package.context(4, workspace=np.zeros(needed - 1, np.uint8))
    fixed = np.zeros(needed, np.uint8)
    fixed.flags.writeable = False
    for wrong in (fixed, np.zeros(2 * needed, np.uint8)[::2]):
        with pytest.raises(moec.InvalidArgument, match="workspace: expected a contiguous array that may be written"):
            package.context(4, workspace=wrong)


def test_contexts_of_runs_are_kept() -> None:
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=50), device="host")
    # Powers of two, up to what the package takes.
    for tokens, most in ((0, 1), (1, 1), (2, 2), (5, 8), (32, 32), (33, 50), (50, 50)):
        assert package.take_context(7, tokens).max_tokens == most
    first = package.take_context(7, 8)
    package.give_context(7, first)
    assert package.take_context(8, 8) is not first
    assert package.take_context(7, 8) is first
    package.give_context(7, first)
    # A larger one takes its place.
    assert package.take_context(7, 9) is not first
    assert package.take_context(7, 8) is not first


def test_checkpoints(given: Any, package: Any) -> None:
    checkpoint: Any = object.__new__(moec.Checkpoint)
    checkpoint.handle = None
    assert given(checkpoint.load, package) == {}
    assert given(checkpoint.load, package, quantize=True) == {"quantize": 1}
    assert given(checkpoint.load, package, no_shared_experts=True) == {"no_shared_experts": 1}
    made = given(checkpoint.load, package, ignored=["input_scale", "g_idx"])
    assert (made["num_ignored"], made["ignored"][:2]) == (2, [b"input_scale", b"g_idx"])


def test_communicators(given: Any) -> None:
    def gather(mine: bytes) -> list[bytes]:
        return [mine, mine]

    def of(**options: Any) -> dict[str, Any]:
        made = given(moec.Communicator.from_callbacks, gather, 1, 2, **options)
        assert made.pop("all_gather")
        return dict(made)

    assert of() == {"ranks": 2, "rank": 1}
    assert of(device="cuda:2", timeout_ms=70) == {"ranks": 2, "rank": 1, "ordinal_plus_one": 3, "timeout_ms": 70}
    assert of(window=lambda count: [count, count]).pop("window")
    made = given(moec.Communicator, bytes(128), 2, 4, device="cuda:1", timeout_ms=5, nccl_path="/none/nccl", nccl_windows=True)
    assert made.pop("unique_id")
    assert made == {
        "ranks": 4,
        "rank": 2,
        "ordinal_plus_one": 2,
        "timeout_ms": 5,
        "nccl_path": b"/none/nccl",
        "nccl_windows": 1,
    }


class Configuration:
    """As transformers has them: one inside of another."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def to_dict(self) -> dict[str, Any]:
        return self.fields


class TorchType:
    def __str__(self) -> str:
        return "torch.bfloat16"


def test_sources_that_json_cannot_say() -> None:
    text = compiler.text_of(
        Configuration(dtype=TorchType(), text=Configuration(layers=np.int64(3), scale=np.float32(2.5)), flag=np.bool_(True))
    )
    assert json.loads(text) == {"dtype": "bfloat16", "text": {"layers": 3, "scale": 2.5}, "flag": True}
    for wrong in ({"a": object()}, {"a": [b"b"]}):
        with pytest.raises(TypeError, match="source: expected what JSON can say, got (object|bytes)"):
            compiler.text_of(wrong)
    for value, where in (
        ({"a": {"b": [1.0, float("nan")]}}, r"source\.a\.b\[1\]: expected a finite number, got nan"),
        ({"a": [{"c": float("-inf")}]}, r"source\.a\[0\]\.c: expected a finite number, got -inf"),
    ):
        with pytest.raises(moec.InvalidArgument, match=where):
            compiler.text_of(value)


def test_paths_in_messages_are_short() -> None:
    for length, shown in ((200, "n" * 199 + r"\x00"), (201, "n" * 200 + "...")):
        with pytest.raises(moec.InvalidArgument) as caught:
            compiler.text_of("n" * (length - 1) + "\0")
        assert str(caught.value) == f"source: expected a path without NUL, got '{shown}'"


def test_options_of_a_compilation(tmp_path: pathlib.Path) -> None:
    given = {"arch": (ARCH, "sm_80"), "cache_dir": tmp_path / "cache", "tuned": tmp_path / "rows.json", "tp": None, "ep": True}
    _, made = compiler.request_of(SMALL, given)
    assert {name: made[name] for name in ("arch", "cache_dir", "tuned", "ep")} == {
        "arch": [ARCH, "sm_80"],
        "cache_dir": str(tmp_path / "cache"),
        "tuned": str(tmp_path / "rows.json"),
        "ep": True,
    }
    assert "tp" not in made


def test_lines_of_reports() -> None:
    for count, text in (
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (1 << 41, "2048.0 GiB"),
    ):
        assert report.size(count) == text
    kernel: dict[str, Any] = {"stages": ["route", "permute"]}
    assert report.kernel_line(kernel) == "route+permute"
    kernel |= {"engine": "simt"}
    assert report.kernel_line(kernel) == "route+permute simt"
    kernel |= {"tile": [16, 64, 32]}
    assert report.kernel_line(kernel) == "route+permute, simt tile 16x64x32"
    kernel |= {"schedule_source": "tuned"}
    assert report.kernel_line(kernel) == "route+permute, simt, tile 16x64x32 (tuned)"
    made = moec.explain(SMALL, arch=[ARCH, "sm_80"], max_tokens=4)
    assert repr(made) == f"<moec.Report of small for {ARCH}, sm_80>"
    lines = str(made).splitlines()
    assert lines[0] == "layer small: 8 experts, 2 a token, hidden 128, intermediate 96, scheme bf16"
    assert [line for line in lines if line.startswith("target")] == [f"target {ARCH}", "target sm_80"]
    refused = moec.explain(SMALL | {"hidden_size": 100}, arch=ARCH, max_tokens=4)
    assert repr(refused) == "<moec.Report: not served>"
    assert str(refused).startswith("not served: ")
