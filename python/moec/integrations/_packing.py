# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs the parameters of an engine's layer in place, and reports it in the engine's log."""

import collections
import functools
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from moec.arrays import BITS
from moec.comm import Communicator
from moec.compiler import catalog
from moec.errors import NotSupported
from moec.integrations._engine import Engine
from moec.integrations._plan import WEIGHT_ONLY, Plan
from moec.integrations._schemes import Scheme, Tensors
from moec.layer import Layer
from moec.package import Package
from moec.torch.modules import load_for
from moec.torch.ops import TYPES

# Scales of activations, which all experts of a rank share.
ACTIVATION_SCALES = ("a1_scale", "a2_scale", "a1_second_scale", "a2_second_scale")
# Weights whose first dimension counts the experts of the rank.
_OF_EXPERTS = re.compile(r"(w13|w2)(_.+)?|b13|b2")


class Journal:
    """Counts the layers of a model, and logs one line when the last layer is packed."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.said: set[str] = set()
        self._begin()

    def _begin(self) -> None:
        self.taken: dict[str, str] = {}
        self.left = 0
        self.packed: set[str] = set()
        self.seconds = 0.0

    def take(self, name: str, plan: Plan) -> None:
        router = "moec" if plan.routes else self.engine.name
        kind = f"{plan.scheme.name}, {how(plan.scheme, plan.realization)}, routing by {router}"
        self.taken[name] = f"{kind}; {plan.never_run}" if plan.never_run else kind

    def leave(self, name: str, reason: str, method: Any) -> None:
        """Counts a layer that stays with the engine. `method`: the engine's method, which loads the layer's weights."""
        self.left += 1
        self._watch(method)
        if reason not in self.said:
            self.said.add(reason)
            self.engine.logger.warning(
                "moec leaves layer %s to %s, and others for the same reason: %s", name, self.engine.name, reason
            )

    def _watch(self, method: Any) -> None:
        """Logs that moec runs no layer, when the engine processes the weights of the model's first layer."""
        own = method.process_weights_after_loading

        @functools.wraps(own)
        def process(*arguments: Any, **options: Any) -> Any:
            if self.left and not self.taken:
                self.engine.logger.info("moec runs 0 of %d MoE layers", self.left)
                self._begin()
            return own(*arguments, **options)

        method.process_weights_after_loading = process

    def pack(self, name: str, seconds: float) -> None:
        self.packed.add(name)
        self.seconds += seconds
        if self.packed == set(self.taken):
            kinds = ", ".join(f"{count} x ({kind})" for kind, count in collections.Counter(self.taken.values()).items())
            layers = len(self.taken) + self.left
            self.engine.logger.info("moec runs %d of %d MoE layers: %s; %.1f s", len(self.taken), layers, kinds, self.seconds)
            self._begin()


def how(scheme: Scheme, realization: str) -> str:
    """Returns the realization of a layer for the log. For weight-only schemes, whose kernels read the quantized weights directly,
    returns the bits per weight instead."""
    if scheme.weight_only and realization == "dequantized":
        element = next(row["w1"]["element"] for row in catalog()["schemes"] if row["name"] == scheme.name)
        return f"{re.findall(r'[0-9]+', element)[0]}-bit weights read by the kernels"
    return realization


def parameters_of(layer: Any) -> set[str]:
    return {name for name, parameter in layer.named_parameters(recurse=False) if parameter is not None}


@dataclass
class Packing:
    """The parameters of an engine's layer as weights of moec. They are packed when the engine has loaded them, and again after
    each reload."""

    journal: Journal
    name: str
    """The layer's name in the log."""
    plan: Plan
    biases: dict[str, str]
    """The parameter that holds each bias, by moec's name of the bias."""
    has_bias: bool
    others: Tensors = field(default_factory=dict)
    """Weights that are not parameters of the layer."""
    kept: tuple[str, ...] = ()
    """Parameters that are not changed."""
    comm: Communicator | None = None
    """Connects the ranks of a package that exchanges tokens itself."""
    largest_of_ranks: Callable[[torch.Tensor], torch.Tensor] | None = None
    """Returns the largest values of all ranks. Needed if experts move between ranks, whose activation scales must then agree."""

    @property
    def needed(self) -> set[str]:
        """Names of the parameters that the weights are created from."""
        return {*self.plan.scheme.stored.values(), *(self.biases.values() if self.has_bias else ())}

    def pack(self, layer: Any) -> Layer:
        """Packs the parameters in place and takes over their memory. Returns the packed layer.

        The parameters become empty, so model code that still reads them fails instead of computing wrong results. Raises
        NotSupported for a parameter that nothing uses.
        """
        began = time.perf_counter()
        plan, source = self.plan, {**self.plan.source, "has_bias": self.has_bias}
        weights = self._weights(layer)
        allow = WEIGHT_ONLY if plan.realization == WEIGHT_ONLY else None
        package = load_for(plan.device, source, max_tokens=plan.max_tokens, allow=allow, comm=self.comm)
        weights = self._used(package, weights)
        if package.gpu is not None and plan.captured_tokens and package.reserved is None:
            package.reserve(plan.captured_tokens, comm=self.comm)
        made = package.layer(weights, in_place=True)
        refuse_state_dict = self._empty(layer)
        layer.register_state_dict_pre_hook(refuse_state_dict)
        self.journal.pack(self.name, time.perf_counter() - began)
        return made

    def reload(self, layer: Any, made: Layer) -> None:
        """Replaces the weights of the packed layer, in its own memory, by parameters that the engine has loaded again."""
        made.reload(self._used(made.package, self._weights(layer)))
        self._empty(layer)

    def _weights(self, layer: Any) -> Tensors:
        present = parameters_of(layer)
        stored, weights = dict(self.plan.scheme.stored), self.plan.scheme.weights(layer)
        if self.has_bias:
            stored |= self.biases
            dtype = TYPES[self.plan.source["in_dtype"]]
            weights |= {bias: getattr(layer, parameter).data.to(dtype) for bias, parameter in self.biases.items()}
        if self.largest_of_ranks is not None:
            scales = [name for name in ACTIVATION_SCALES if name in weights]
            weights |= {name: self.largest_of_ranks(weights[name]) for name in scales}
        known = {*stored.values(), *self.plan.scheme.unused, *self.biases.values(), *self.kept}
        if present - known:
            raise NotSupported(
                f"layer {self.name}: moec does not support the parameters {', '.join(sorted(present - known))} of "
                f"{type(layer.quant_method).__name__}; expected {', '.join(sorted(known))}"
            )
        return weights | self.others

    @staticmethod
    def _used(package: Package, weights: Tensors) -> Tensors:
        left_out = {row["value"] for row in package.manifest["layer"].get("left_out", [])}
        return {weight: each.contiguous() for weight, each in weights.items() if weight not in left_out}

    def _empty(self, layer: Any) -> Any:
        refuse_loading, refuse_state_dict = _refusals(self.journal.engine, self.name)
        for each in parameters_of(layer) - set(self.kept):
            parameter = getattr(layer, each)
            parameter.data = parameter.data.new_empty(0)
            set_loader(parameter, refuse_loading)
        return refuse_state_dict


def set_loader(parameter: Any, loader: Any) -> None:
    # In an engine's own parameter class, `weight_loader` may be a property that returns `_weight_loader`.
    setattr(parameter, "_weight_loader" if hasattr(parameter, "_weight_loader") else "weight_loader", loader)


def not_loaded(loaded: Mapping[str, set[tuple[Any, Any]]], needed: set[str], local: Sequence[int], *, gated: bool) -> str:
    """Returns the parameters that an engine did not load completely in a reload; "" if all were loaded.

    loaded: the shard and the expert of each call of a parameter's loader, by the parameter's name.
    needed: the parameters that must be loaded.
    local: the experts of this rank.
    gated: gates and ups are loaded separately.
    """
    lacking = []
    for name in sorted(needed):
        # The parameters of a matrix are loaded the same way: as parts of each expert, or as one tensor.
        parts: set[tuple[Any, Any]] = set().union(*(loaded.get(each, set()) for each in needed if each[:3] == name[:3]))
        shards = {shard for shard, _ in parts}
        if shards & {"w1", "w3"} and gated:
            shards |= {"w1", "w3"}
        by_expert = any(expert is not None for _, expert in parts)
        wanted = {(shard, expert) for shard in shards for expert in (local if by_expert else [None])}
        absent = wanted - loaded.get(name, set())
        if absent or not parts:
            experts = sorted({expert for _, expert in absent if expert is not None})
            lacking.append(f"{name} of experts {', '.join(map(str, experts))}" if experts else name)
    return f"the weights came again in part, without {'; '.join(lacking)}" if lacking else ""


def _refusals(engine: Engine, name: str) -> tuple[Any, Any]:
    """Returns the functions that replace a parameter's loader and that run before the layer's state is read. Both raise."""

    def refuse_loading(*args: Any, **options: Any) -> None:
        raise NotSupported(
            f"layer {name}: the weights are packed for moec; they cannot be loaded again. "
            f"Start without {engine.variable} to change weights"
        )

    def refuse_state_dict(layer: Any, prefix: str, keep_vars: bool) -> None:
        raise NotSupported(f"layer {name}: its weights are packed for moec; start without {engine.variable} to save them")

    # vLLM's loaders read this attribute of the function.
    refuse_loading.supports_moe_loading = True  # type: ignore[attr-defined]
    return refuse_loading, refuse_state_dict


def expert_rows(made: Layer, experts: int, name: str) -> list[torch.Tensor]:
    """Returns views of all weights that runs read and that differ by expert: uint8 [experts, bytes of an expert]. A layer whose
    rows were exchanged computes with the exchanged experts, because each expert is packed independently.

    experts: the number of experts of this rank.
    name: the layer's name in messages.

    Raises NotSupported for a weight whose memory is not divided by expert.
    """
    manifest, rows = made.package.manifest, []
    target = next(each for each in manifest["targets"] if each["arch"] == made.package.arch)
    packed = {value["name"]: value for value in target["values"] if value["role"] == "packed_weight"}
    in_memory_of = {value["may_alias"]: value for each, value in packed.items() if each not in made.weights}
    for weight, array in made.weights.items():
        if weight in ACTIVATION_SCALES:
            continue
        value, count = in_memory_of.get(weight) or packed.get(weight), array.numel() * array.element_size()
        extents = list(array.shape) if value is None else value["shape"]
        needed = count if value is None else math.prod(extents) * BITS[value["element_types"][0]] // 8
        if not _OF_EXPERTS.fullmatch(weight) or extents[0] != experts or needed % experts or needed > count:
            raise NotSupported(
                f"layer {name}: moec cannot move experts between ranks: expected weights that are divided into {experts} "
                f"experts, got {weight} of {extents}"
            )
        if array.data_ptr() % made.package.values[weight].alignment:
            raise NotSupported(f"layer {name}: moec cannot move experts: {weight} is not aligned, so that runs read a copy")
        rows.append(array.view(-1).view(torch.uint8)[:needed].view(experts, -1))
    return rows


def taken_class(part: Any, kind: Any, made: dict[Any, Any]) -> Any:
    """Returns a class that derives from moec's part and the engine's method class, in this order. The class keeps the engine's
    class name, by which engines identify it. `made`: the classes created so far."""
    if kind not in made:
        made[kind] = type(kind.__name__, (part, kind), {"__module__": kind.__module__})
    return made[kind]


def contiguous(x: torch.Tensor) -> torch.Tensor:
    """Makes the elements of each row contiguous; rows may still be padded."""
    return x if x.stride(-1) == 1 else x.contiguous()
