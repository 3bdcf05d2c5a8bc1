# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operations moec::run and moec::run_out.

They are created by Library.define and impl, because an operation of torch.library.custom_op takes five times as long per call.
"""

import itertools
import threading
from collections.abc import Callable
from typing import NamedTuple

import torch

from moec.comm import Communicator
from moec.errors import InvalidArgument
from moec.layer import Layer
from moec.torch.bound import BoundRuns

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
ARGUMENTS = "int layer, Tensor x, Tensor? logits, Tensor? topk_ids, Tensor? topk_weights, Tensor? expert_map"


class Registered(NamedTuple):
    """A registered layer, with the element type and the extents of one output row."""

    run: BoundRuns
    dtype: torch.dtype
    row: tuple[int, ...]
    before: Callable[[], None] | None = None
    """Called before each run."""


# A released number is never reused, because an operation that was traced with it must not run another layer.
_numbers = itertools.count()
_layers: dict[int, Registered] = {}
_lock = threading.Lock()


def register(layer: Layer, *, comm: Communicator | None = None) -> int:
    """Registers a layer, and returns its number for the operations. The registration keeps the layer alive until release().

    The layer must have the single output `out`. On a GPU, the package reserves a context for captured runs, of
    package.workspace_bytes(max_tokens) bytes, unless it already has one.

    comm: connects the ranks of a package that exchanges tokens itself. All ranks must register their layers in the same order.

    Raises InvalidArgument if the layer has other outputs.
    """
    package = layer.package
    if package.outputs != ("out",) or package.token_axes != {"x": 0}:
        raise InvalidArgument(
            f"layer: expected x with tokens first and the one output 'out'; got tokens at {package.token_axes} and "
            f"{', '.join(package.outputs)}"
        )
    if package.gpu is not None and package.reserved is None:
        package.reserve(comm=comm)
    made = Registered(BoundRuns(layer, comm), TYPES[package.values["out"].element_types[0]], package.shape("out")[1:])
    with _lock:
        number = next(_numbers)
        _layers[number] = made
    return number


def release(number: int) -> None:
    """Releases a layer. Operations with its number then raise InvalidArgument."""
    registered(number)
    with _lock:
        _layers.pop(number, None)


def call_before(number: int, function: Callable[[], None]) -> None:
    """Calls a function before each run of a layer, except in replays of a CUDA graph. If it raises, the run fails."""
    with _lock:
        _layers[number] = registered(number)._replace(before=function)


def registered(number: int) -> Registered:
    found = _layers.get(number)
    if found is None:
        raise InvalidArgument(f"layer: no layer has the number {number}; it was released, or never registered")
    return found


def _call(
    layer: int,
    x: torch.Tensor,
    logits: torch.Tensor | None,
    topk_ids: torch.Tensor | None,
    topk_weights: torch.Tensor | None,
    expert_map: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    found = registered(layer)
    if found.before is not None:
        found.before()
    found.run(x, logits, topk_ids, topk_weights, expert_map, out)


def _out_of(layer: int, x: torch.Tensor) -> torch.Tensor:
    """Allocates the result, with as many rows as x. The number of rows may be symbolic."""
    found = registered(layer)
    if x.dim() != 1 + len(found.row):
        raise InvalidArgument(
            f"value 'x': expected {1 + len(found.row)} dimensions, of which the first counts tokens; got {x.dim()}"
        )
    return x.new_empty((x.shape[0], *found.row), dtype=found.dtype)


def _run(
    layer: int,
    x: torch.Tensor,
    logits: torch.Tensor | None = None,
    topk_ids: torch.Tensor | None = None,
    topk_weights: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> torch.Tensor:
    out = _out_of(layer, x)
    _call(layer, x, logits, topk_ids, topk_weights, expert_map, out)
    return out


def _fake_run(
    layer: int,
    x: torch.Tensor,
    logits: torch.Tensor | None = None,
    topk_ids: torch.Tensor | None = None,
    topk_weights: torch.Tensor | None = None,
    expert_map: torch.Tensor | None = None,
) -> torch.Tensor:
    return _out_of(layer, x)


def _fake_run_out(
    layer: int,
    x: torch.Tensor,
    logits: torch.Tensor | None,
    topk_ids: torch.Tensor | None,
    topk_weights: torch.Tensor | None,
    expert_map: torch.Tensor | None,
    out: torch.Tensor,
) -> None:
    registered(layer)


LIBRARY = torch.library.Library("moec", "DEF")
LIBRARY.define(f"run({ARGUMENTS}) -> Tensor")
LIBRARY.define(f"run_out({ARGUMENTS}, Tensor(a!) out) -> ()")
for device in ("CPU", "CUDA"):
    LIBRARY.impl("run", _run, device)
    LIBRARY.impl("run_out", _call, device)
torch.library.register_fake("moec::run", _fake_run, lib=LIBRARY)
torch.library.register_fake("moec::run_out", _fake_run_out, lib=LIBRARY)
