# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Handles: closed ones, threads, garbage in callbacks, the end of the process."""

import gc
import pathlib
import threading
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL, run_python
from support import random_value

import moec
from moec import _library


def test_closed_handles(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    context = package.context(8)
    layer(x, logits, context=context)
    context.close()
    assert repr(context) == "<moec.Context of small, closed>"
    with pytest.raises(moec.InvalidArgument, match="the context was closed"):
        layer(x, logits, context=context)
    layer.close()
    layer.close()
    assert repr(layer) == "<moec.Layer small closed>"
    assert layer.weights == {}
    with pytest.raises(moec.InvalidArgument, match="the layer was closed"):
        layer(x, logits)
    with pytest.raises(moec.InvalidArgument, match="the layer was closed"):
        layer.repack({}, 0, 1)


def test_a_layer_keeps_its_package_and_weights() -> None:
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=8), device="host")
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    layer = package.layer({name: random_value(package, name) for name in ("w13", "w2")})
    wanted = layer(x, logits)
    del package
    gc.collect()
    for _ in range(3):
        assert (layer(x, logits) == wanted).all()


def test_copies_of_weights_stay(package: Any) -> None:
    """Weights that are not aligned are copied; the copies live as long as the layer."""
    weights = {}
    for name in ("w13", "w2"):
        array = random_value(package, name)
        memory = np.zeros(array.nbytes + 256, np.uint8)
        begin = -memory.ctypes.data % 256 + 2
        weights[name] = memory[begin : begin + array.nbytes].view(np.uint16).reshape(array.shape)
        weights[name][...] = array
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    wanted = package.layer({name: random_value(package, name) for name in weights})(x, logits)
    layer = package.layer(weights)
    for array in weights.values():
        array.fill(0)
    gc.collect()
    others = [np.full(package.shape("w2"), 0x3F80, np.uint16) for _ in range(8)]
    assert (layer(x, logits) == wanted).all()
    del others


def test_contexts_are_used_again() -> None:
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=64), device="host")
    layer = package.layer({name: random_value(package, name) for name in ("w13", "w2")})
    for tokens in (3, 2, 4, 3):
        layer(*(random_value(package, name, tokens) for name in ("x", "logits")))
    (first,) = package._contexts[0]
    layer(*(random_value(package, name, 1) for name in ("x", "logits")))
    assert package._contexts[0] == [first]
    layer(*(random_value(package, name, 33) for name in ("x", "logits")))
    (larger,) = package._contexts[0]
    assert larger.max_tokens >= 33


def test_contexts_of_another_package(package: Any, make_layer: Any) -> None:
    other = moec.load(moec.compile({**SMALL, "name": "other"}, arch=ARCH, max_tokens=8), device="host")
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    with pytest.raises(moec.InvalidArgument):
        layer(x, logits, context=other.context())


def test_threads(package: Any, make_layer: Any) -> None:
    """Threads share a layer and its package; each run has a context of its own."""
    layer, _ = make_layer(package)
    inputs = {tokens: tuple(random_value(package, name, tokens) for name in ("x", "logits")) for tokens in (1, 5, 33)}
    wanted = {tokens: layer(*given) for tokens, given in inputs.items()}
    wrong: list[Any] = []

    def work(tokens: int) -> None:
        try:
            wrong.extend(tokens for _ in range(15) if (layer(*inputs[tokens]) != wanted[tokens]).any())
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(tokens,)) for tokens in (1, 5, 33, 1, 5, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_closing_while_others_run(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    wanted = layer(x, logits)
    started, ends = threading.Event(), []

    def work() -> None:
        while True:
            try:
                out = layer(x, logits)
            except moec.InvalidArgument as error:
                ends.append(str(error))
                return
            started.set()
            if (out != wanted).any():
                ends.append("wrong numbers")
                return

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    layer.close()
    for thread in threads:
        thread.join()
    assert ends == ["the layer was closed; Package.layer() makes another"] * 3


def test_a_context_serves_one_run_at_a_time(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    context = package.context()
    x, logits = (random_value(package, name, 64) for name in ("x", "logits"))
    wanted = layer(x, logits)
    outcomes: list[str] = []

    def work() -> None:
        for _ in range(20):
            try:
                outcomes.append("right" if (layer(x, logits, context=context) == wanted).all() else "wrong")
            except moec.ContextInUse:
                outcomes.append("in use")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "right" in outcomes
    assert "wrong" not in outcomes


def test_runs_take_contexts_again(make_layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context also serves a run of as many tokens as it holds."""
    package = moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=64), device="host")
    layer, _ = make_layer(package)
    make, made = package.context, list[int]()

    def context(most: int, **options: Any) -> Any:
        made.append(most)
        return make(most, **options)

    monkeypatch.setattr(package, "context", context)
    for tokens in (8, 8, 5, 64, 64, 8, 33):
        layer(*(random_value(package, name, tokens) for name in ("x", "logits")))
    assert made == [8, 64]


def test_captured_runs(package: Any, make_layer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is here: the capture is pretended."""
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    wanted = layer(x, logits)
    monkeypatch.setattr("moec._memory.is_capturing", lambda gpu: True)
    monkeypatch.setattr(package, "reserved", None)
    with pytest.raises(moec.Capturing, match=r"call package.reserve\(max_tokens\) before the capture, or give context="):
        layer(x, logits)
    assert (layer(x, logits, context=package.context(8)) == wanted).all()
    first = package.reserve(8)
    monkeypatch.setattr(package, "take_context", None)
    assert (layer(x, logits) == wanted).all()
    package.reserve(2)
    assert first in layer._captured
    with pytest.raises(moec.WorkspaceTooSmall):
        layer(x, logits)


def test_handles_dropped_in_a_callback_are_destroyed_later(tmp_path: pathlib.Path) -> None:
    """Destroying one inside of a callback would lock the library's own lock again."""
    gc.collect()
    dropped = [moec.load(moec.compile(SMALL, arch=ARCH, max_tokens=8), device="host")]
    waiting: list[int] = []

    def progress(step: str, done: int, total: int) -> None:
        dropped.clear()
        gc.collect()
        waiting.append(len(_library._deferred))

    files = moec.compile({**SMALL, "hidden_size": 64}, arch="sm_80", max_tokens=4)
    moec.load(files, prebuild=True, arch="sm_80", cache_dir=tmp_path, progress=progress)
    assert waiting[0] == 1
    moec.compile(SMALL, arch=ARCH)
    assert len(_library._deferred) == 0


def test_the_end_of_a_process() -> None:
    done = run_python(f"""
import numpy, moec
package = moec.load(moec.compile({SMALL!r}, arch="sm_90a", max_tokens=8), device="host")
layer = package.layer({{name: package.empty(name) for name in ("w13", "w2")}})
layer(package.empty("x", 3), package.empty("logits", 3))
context = package.context()
print("ran")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
