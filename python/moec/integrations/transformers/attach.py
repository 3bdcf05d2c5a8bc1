# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""attach() runs the experts of a whole model by moec; detach() restores them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from moec import _messages
from moec._messages import Progress
from moec.errors import InvalidArgument
from moec.integrations.transformers.activations import Activation
from moec.integrations.transformers.experts import Found, describe, find
from moec.integrations.transformers.prepared import (
    ATTRIBUTE,
    FROM_FILES,
    MAX_TOKENS,
    NAME,
    Packed,
    Prepared,
    Routing,
    hide,
    prepare,
    prepared,
    restore,
    show,
)
from moec.torch.modules import NAMES_OF_TYPES

# Endings of the names of tensors (scales) whose element type does not determine the type of the input.
ENDINGS = ("_scale_inv", "_activation_scale")
COLUMNS = ("layer", "class", "experts", "top k", "hidden", "inner", "scheme", "activation", "order", "error")


@dataclass(frozen=True)
class Row:
    """An experts module that moec runs."""

    layer: str
    """The module's name in the model."""
    kind: str
    experts: int
    top_k: int
    hidden: int
    intermediate: int
    scheme: str
    activation: str
    order: str
    """The order of gate and up rows; "" without a gate."""
    error: float | None
    """The largest relative error of a token compared with the module's own forward in f32; None without a check."""

    def cells(self) -> tuple[str, ...]:
        error = "" if self.error is None else f"{self.error:.1e}"
        numbers = (self.experts, self.top_k, self.hidden, self.intermediate)
        return (self.layer, self.kind, *map(str, numbers), self.scheme, self.activation, self.order, error)


@dataclass(frozen=True)
class Report:
    """The result of attach(). print() shows it as a table."""

    rows: tuple[Row, ...]
    packages: int
    """The packages that were loaded. Equal layers share one."""
    seconds: float

    def __str__(self) -> str:
        table = [COLUMNS, *(row.cells() for row in self.rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(COLUMNS))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
        return "\n".join([*lines, f"{len(self.rows)} layers, {self.packages} packages, {self.seconds:.1f} s"])


def row_of(module: Any, made: Prepared, source: dict[str, Any], scheme: str, activation: Activation) -> Row:
    return Row(
        made.label,
        type(module).__name__,
        source["num_experts"],
        made.top_k,
        source["hidden_size"],
        source["intermediate_size"],
        scheme,
        str(activation),
        activation.order,
        made.error,
    )


def type_of_input(model: Any, found: Found) -> torch.dtype:
    """Returns the type of the experts' input: the type of float weights, else the configuration's type, else the type of the
    model's other weights."""
    name = "gate_up_proj" if found.module.has_gate else "up_proj"
    own = found.module._parameters.get(name)
    candidates = [own.dtype if own is not None else None, getattr(found.module.config, "dtype", None)]
    candidates += [parameter.dtype for key, parameter in model.named_parameters() if not key.endswith(ENDINGS)]
    for dtype in candidates:
        if dtype in NAMES_OF_TYPES:
            return dtype
    raise InvalidArgument(f"{found.name}: expected a weight of bfloat16, float16 or float32, which defines the input's type")


def top_k_of(found: Found, top_k: int | None) -> int:
    number = found.top_k if top_k is None else top_k
    if number is None:
        raise InvalidArgument(f"{found.name}: no neighboring module has top_k (experts per token); pass attach(model, top_k=N)")
    return number


def check_memory(model: Any, all_found: Iterable[Found]) -> None:
    """Raises InvalidArgument if another module shares memory with weights that packing would overwrite."""
    owners: dict[int, list[tuple[int, int, str, Any]]] = {}
    for name, module in model.named_modules():
        for own, tensor in [*module._parameters.items(), *module._buffers.items()]:
            if tensor is None or tensor.is_meta or type(tensor.data) is not torch.Tensor or tensor.layout != torch.strided:
                continue
            begin = tensor.data_ptr()
            span = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
            end = begin + (span * tensor.element_size() if tensor.numel() else 0)
            storage = tensor.untyped_storage().data_ptr()
            owners.setdefault(storage, []).append((begin, end, f"{name}.{own}", module))
    ours = {id(found.module) for found in all_found}
    for row in owners.values():
        for begin, end, name, module in row:
            for other_begin, other_end, other, _ in row:
                if id(module) in ours and other != name and begin < other_end and other_begin < end:
                    raise InvalidArgument(
                        f"{name} and {other} share memory, which packing in place would overwrite; "
                        f"expected memory of its own, or attach(model, in_place=False)"
                    )


def attach(
    model: Any,
    *,
    in_place: bool = True,
    max_tokens: int = MAX_TOKENS,
    check: bool = True,
    top_k: int | None = None,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Report:
    """Runs the experts of all layers by moec, and sets their experts_implementation to "moec".

    in_place: packs into the memory of the weights, which are missing from the model until detach(). False: packs copies.
    max_tokens: the maximum number of tokens of one run; longer inputs are split. On a GPU, memory for one run is reserved.
    check: compares each layer with the module's own forward in f32 on random tokens before its weights are overwritten.
    top_k: the number of experts of each token. None: top_k of the router next to the experts.
    progress: as moec.compile() accepts it.
    options: the other options of moec.compile().

    Raises InvalidArgument or NotSupported for a layer that moec does not recognize or support. The model is then unchanged.
    """
    return attach_with(
        lambda found: None,
        model,
        in_place=in_place,
        max_tokens=max_tokens,
        check=check,
        top_k=top_k,
        progress=progress,
        **options,
    )


def attach_with(
    routing_of: Callable[[Found], Routing | None],
    model: Any,
    *,
    in_place: bool,
    max_tokens: int,
    check: bool,
    top_k: int | None,
    progress: bool | Progress | None,
    **options: Any,
) -> Report:
    """Implements attach(). `routing_of`: returns the routing of the router next to the experts, for packages that read logits."""
    begin = time.monotonic()
    if any(isinstance(module, Packed) for module in model.modules()):
        raise InvalidArgument("model: moec has its weights already; expected a model without, or detach(model) first")
    all_found = list(find(model))
    # Removes the copies and routers of an earlier call.
    detach(model)
    if in_place:
        check_memory(model, all_found)
    # All layers are validated before the first weight is packed.
    routings = [routing_of(found) for found in all_found]
    for found in all_found:
        describe(found.name, found.module, top_k_of(found, top_k), type_of_input(model, found))
    # Layers may share a configuration.
    former = {id(found.module.config): found.module.config._experts_implementation for found in all_found}
    done: list[tuple[Any, Prepared]] = []
    rows = []
    try:
        for found, routing in _messages.each(list(zip(all_found, routings, strict=True)), "packing experts", progress):
            made = prepare(
                found,
                dtype=type_of_input(model, found),
                top_k=top_k_of(found, top_k),
                in_place=in_place,
                checked=check,
                max_tokens=max_tokens,
                routing=routing,
                progress=progress,
                **options,
            )
            made.former = former[id(found.module.config)]
            described = made.description
            assert described is not None
            rows.append(row_of(found.module, made, described.source, described.scheme, described.activation))
            give(found.module, made)
            done.append((found.module, made))
    except BaseException:
        for module, _ in done:
            take(module)
        raise
    packages = len({id(made.experts.package) for _, made in done})
    return Report(tuple(rows), packages, time.monotonic() - begin)


def give(module: Any, made: Prepared) -> None:
    """Lets moec run the module."""
    if made.hidden:
        hide(module, made)
    else:
        module.__dict__[ATTRIBUTE] = made
    module.config._experts_implementation = NAME


def take(module: Any) -> bool:
    """Undoes give(). Returns True if there was something to undo."""
    made = prepared(module)
    if made is None:
        return False
    if made.description is None:
        raise InvalidArgument(f"{made.label}: {FROM_FILES}, so that there are none to go back to; load the model again")
    if isinstance(module, Packed):
        restore(made)
        show(module, made)
    else:
        module.__dict__[ATTRIBUTE] = None
    if made.router is not None:
        made.router.__class__ = type(made.router).__mro__[2]
    if made.former is not None:
        module.config._experts_implementation = made.former
    return True


def detach(model: Any) -> int:
    """Restores the experts: the weights bit for bit, and the model's former experts_implementation.

    Returns the number of layers that were restored.
    """
    return sum([take(module) for module in list(model.modules())])
