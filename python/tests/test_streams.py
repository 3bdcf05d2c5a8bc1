# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Streams and GPUs that callers and torch name, without either: a module in torch's place says which is current."""

import contextlib
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import ARCH, SMALL
from support import random_value

import moec
from moec import _gpu, _library, _memory, arrays
from moec.package import _parse_device


class Torch(types.ModuleType):
    """torch with five GPUs, of which 3 is current. The current stream of GPU n is 100 + n."""

    class Tensor:
        pass

    def __init__(self) -> None:
        super().__init__("torch")
        self.entered: list[tuple[int, int | None]] = []
        self.within: list[int] = []
        self.is_capturing = False
        self._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 100 + ordinal)
        self.cuda = types.SimpleNamespace(
            is_initialized=lambda: True,
            is_available=lambda: True,
            current_device=lambda: 3,
            current_stream=lambda ordinal: types.SimpleNamespace(cuda_stream=200 + ordinal),
            is_current_stream_capturing=lambda: self.is_capturing,
            get_device_capability=lambda: (8, 9),
            stream=self.stream,
            ExternalStream=lambda stream, device=None: (stream, device),
        )

    @contextlib.contextmanager
    def stream(self, given: tuple[int, int | None]) -> Iterator[None]:
        self.entered.append(given)
        self.within.append(given[0])
        try:
            yield
        finally:
            self.within.pop()


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    made = Torch()
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


def test_streams_of_callers(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    class OfTorch:
        cuda_stream = 9

    class OfCuda:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 11

    for gpu in (-1, 0, 2):
        assert [_memory.stream_handle(given, gpu) for given in (0, 7, OfTorch(), OfCuda())] == [0, 7, 9, 11]
        with pytest.raises(
            TypeError, match="stream: expected an integer, a torch.cuda.Stream or what has __cuda_stream__; got str"
        ):
            _memory.stream_handle("7", gpu)
    assert [_memory.stream_handle(None, gpu) for gpu in (0, 2, -1)] == [100, 102, 103]
    torch._C = types.SimpleNamespace()  # an older torch
    assert [_memory.stream_handle(None, gpu) for gpu in (0, 2, -1)] == [200, 202, 203]
    torch.cuda.is_initialized = lambda: False
    assert [_memory.stream_handle(None, gpu) for gpu in (0, 2, -1)] == [0, 0, 0]
    monkeypatch.delitem(sys.modules, "torch")
    assert [_memory.stream_handle(None, gpu) for gpu in (0, 2, -1)] == [0, 0, 0]
    assert _memory.stream_handle(None, None) == 0
    for given in (0, 7):
        with pytest.raises(moec.InvalidArgument, match="stream: the package runs on the host, which has no streams; give None"):
            _memory.stream_handle(given, None)


def test_memory_is_allocated_on_the_stream(torch: Torch) -> None:
    for gpu, stream, entered in ((2, 102, []), (2, 5, [(5, 2)]), (0, 102, [(102, 0)]), (-1, 103, []), (-1, 0, [(0, None)])):
        torch.entered.clear()
        within: list[int] = []
        with contextlib.suppress(KeyError), _memory.allocating_on(stream, gpu):
            within = list(torch.within)
            raise KeyError
        assert within == [each[0] for each in entered]
        assert torch.entered == entered
        assert torch.within == []
    with _memory.allocating_on(5, None):
        pass
    torch.cuda.is_initialized = lambda: False
    with _memory.allocating_on(5, 2):
        pass
    assert torch.entered == [(0, None)]


def test_captures(torch: Torch) -> None:
    assert not _memory.is_capturing(2)
    torch.is_capturing = True
    assert _memory.is_capturing(2)
    assert _memory.is_capturing(-1)
    assert not _memory.is_capturing(None)
    torch.cuda.is_initialized = lambda: False
    assert not _memory.is_capturing(2)


def test_memory_that_is_kept(torch: Torch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread allocates it, on the stream of the one that asks."""
    asked: list[Any] = []

    def empty(shape: tuple[int, ...], element_type: str, *, gpu: int | None, library: str, label: str) -> Any:
        asked.append((shape, element_type, gpu, library, label, list(torch.within), threading.current_thread()))
        return types.SimpleNamespace(data_ptr=lambda: 4096)

    monkeypatch.setattr(arrays, "empty", empty)
    # The current stream of another thread is another one.
    mine = threading.current_thread()
    torch._C._cuda_getCurrentRawStream = lambda ordinal: 100 + ordinal if threading.current_thread() is mine else 0
    for gpu, place, stream in ((2, 2, 102), (-1, 0, 103)):
        asked.clear()
        address, owner = _memory.kept_memory(types.SimpleNamespace(gpu=gpu), 1000, "workspace")  # type: ignore[arg-type]
        ((*given, thread),) = asked
        assert given == [(1000,), "u8", place, "torch", "workspace", [stream]]
        assert thread is not mine
        assert (address, owner.data_ptr()) == (4096, 4096)


def test_places() -> None:
    def problem(package: int | None, array: int | None) -> str:
        given: Any = types.SimpleNamespace(gpu=package, name="p", device="host" if package is None else f"cuda:{package}")
        found = arrays.View(4096, (1,), None, "u8", array, True, None)
        try:
            _memory.check_place(given, found, "x")
        except moec.InvalidArgument as error:
            return str(error)
        return ""

    for package, array in ((None, None), (0, 0), (2, 2), (-1, 0), (-1, 4)):
        assert problem(package, array) == ""
    assert problem(2, 0) == "value 'x': expected memory of cuda:2, where package p runs; got memory of GPU 0"
    assert problem(0, None) == "value 'x': expected memory of cuda:0, where package p runs; got host memory"
    assert problem(-1, None) == "value 'x': expected memory of cuda:-1, where package p runs; got host memory"
    assert problem(None, 0) == "value 'x': expected host memory, where package p runs; got memory of GPU 0"


def test_the_gpu_of_torch(torch: Torch) -> None:
    assert _parse_device("cuda") == 3
    assert _parse_device("cuda:1") == 1
    assert _gpu.current_arch() == "sm_89"
    torch.cuda.get_device_capability = lambda: (10, 0)
    assert _gpu.current_arch() == "sm_100a"
    torch.cuda.get_device_capability = lambda: (5, 2)
    with pytest.raises(moec.InvalidArgument, match="the GPU has compute capability 5.2, for which moec has no arch"):
        _gpu.current_arch()
    torch.cuda.is_available = lambda: False
    assert _gpu.current_ordinal() is None


def test_the_version_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    status = 0

    def get(number: Any) -> int:
        number._obj.value = 13020
        return status

    monkeypatch.setattr(_gpu, "driver", lambda: types.SimpleNamespace(cuDriverGetVersion=get))
    assert _gpu.driver_version() == (13, 2)
    status = 1
    assert _gpu.driver_version() is None
    monkeypatch.setattr(_gpu, "driver", lambda: None)
    assert _gpu.driver_version() is None


def test_calls_get_the_stream(make_layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the host takes arrays and streams as if it ran on GPU 0."""
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=8), device="host")
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    out = package.empty("out", 3)
    weights = {name: package.empty(name) for name in ("w13", "w2", "w13_packed")}
    for name in ("w13", "w2"):
        weights[name][...] = random_value(package, name)
    unpacked = {name: package.empty(name) for name in ("w13", "w2")}
    wanted = make_layer(package)[0](x, logits)
    library = _library.library()
    streams: list[tuple[str, Any]] = []

    def noted(name: str, at: int) -> Callable[..., Any]:
        function = getattr(library, name)

        def call(*given: Any) -> Any:
            streams.append((name, given[at]))
            return function(*given)

        return call

    for name, at in (("layer_create", 4), ("layer_repack", 7), ("layer_unpack", 4), ("run", 2)):
        monkeypatch.setattr(library, name, noted(name, at))
    view, taken = arrays.view, []

    def on_gpu(array: Any, label: str, *, stream: int | None = None, differentiated: bool = False) -> arrays.View:
        taken.append(stream)
        return view(array, label, differentiated=differentiated)._replace(gpu=0)

    monkeypatch.setattr(arrays, "view", on_gpu)
    monkeypatch.setattr(_memory, "device_memory", lambda package, count, label: arrays.host_memory(count))
    monkeypatch.setattr(package, "gpu", 0)

    layer = package.layer(weights, stream=71)
    layer.repack({"w13": weights["w13"]}, 0, 8, stream=72)
    with pytest.raises(moec.InvalidArgument, match="value 'w2': expected tensors of torch for a layer on a GPU"):
        layer.reload({name: weights[name] for name in ("w13", "w2")}, stream=73)
    # The failed reload has packed some weights, so the layer must not run.
    with pytest.raises(
        moec.InvalidArgument, match=r"the layer does not run: its weights were reloaded in part; reload\(\) packs"
    ):
        layer(x, logits, out=out, stream=74)
    layer._incomplete = ""
    layer(x, logits, out=out, stream=74)
    assert (out == wanted).all()
    layer.unpack(unpacked, stream=75)
    assert streams == [("layer_create", 71), ("layer_repack", 72), ("layer_repack", 73), ("run", 74), ("layer_unpack", 75)]
    # Other libraries order what they queued before the stream.
    assert set(taken) - {None} == {71, 72, 73, 74, 75}
    # Each stream has contexts of its own.
    layer(x, logits, out=out, stream=74)
    layer(x, logits, out=out, stream=76)
    (one,), (other,) = package._contexts[74], package._contexts[76]
    assert one is not other
    # The default stream is null.
    streams.clear()
    layer(x, logits, out=out)
    layer.repack({"w13": weights["w13"]}, 0, 8)
    assert streams == [("run", None), ("layer_repack", None)]
