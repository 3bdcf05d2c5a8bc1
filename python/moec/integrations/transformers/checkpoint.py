# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""load_experts() loads the experts of a model from a quantized checkpoint, in the checkpoint's scheme."""

import os
import re
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from moec import _messages
from moec._messages import Progress
from moec.checkpoint import Checkpoint
from moec.compiler import explain
from moec.errors import InvalidArgument, NotSupported
from moec.integrations.transformers import check as checks
from moec.integrations.transformers.activations import Activation
from moec.integrations.transformers.attach import Report, give, row_of, take, top_k_of
from moec.integrations.transformers.experts import Found, activation_of, extents, find
from moec.integrations.transformers.prepared import MAX_TOKENS, Packed, Prepared
from moec.package import Package
from moec.torch.modules import HOST_ARCH, Experts, load_for
from moec.torch.ops import TYPES


class Plan(NamedTuple):
    """A module, and the layer that replaces it."""

    found: Found
    number: int
    top_k: int
    activation: Activation
    source: dict[str, Any]
    scheme: str
    package: Package


LAYER = re.compile(r"(?:^|\.)(?:layers|blocks|h)\.(\d+)(?=\.)")
# Parameters of an activation that change nothing.
NEUTRAL = {"alpha": 1.0, "beta": 0.0, "linear_beta": 0.0, "limit": 0.0}


def layer_of(label: str) -> int:
    """Returns the layer number that a module's name contains."""
    found = LAYER.findall(label)
    if len(found) != 1:
        raise InvalidArgument(f"{label}: expected one number of a layer in the module's name, as in model.layers.3.mlp.experts")
    return int(found[0])


def _descriptor(found: dict[str, Any]) -> dict[str, Any]:
    """Converts a descriptor in a report to a descriptor in a quant_config."""
    names = {"dtype": "element_type", "shape": "group", "scale": "scale_type", "dynamic": "dynamic"}
    names |= {"alpha_or_gscale": "second_scale_type", "zp": "zero_point_type"}
    others = ("second_per_row", "scale_rule")
    if unknown := set(found) - set(names.values()) - set(others):
        raise NotSupported(f"the checkpoint's scheme has {', '.join(sorted(unknown))}, which load_experts does not support")
    made = {name: found[own] for name, own in names.items() if found.get(own)}
    return made | {name: found[name] for name in others if found.get(name)}


def source_of(layer: dict[str, Any], activation: Activation, top_k: int) -> dict[str, Any]:
    """Returns the layer JSON of the experts of a layer, without its routing."""
    quant = layer["quant"]
    source = {
        "moec_layer": 1,
        "name": "experts",
        "num_experts": layer["num_experts"],
        "top_k": top_k,
        "hidden_size": layer["hidden_size"],
        "intermediate_size": layer["intermediate_size"],
        "in_dtype": layer["in_dtype"],
        "routing_method": "custom",
        "activation": activation.name,
        **activation.fields,
        "has_bias": layer["has_bias"],
        "stored_layout": layer.get("stored_layout", {"name": "rows"})["name"],
        "group_index": bool(layer.get("group_index", False)),
        "quant_config": quant["name"] or {name: _descriptor(quant[name]) for name in ("a1", "a2", "w1", "w2")},
    }
    if activation.order:
        source["gate_up_order"] = layer["gate_up_order"]
    return source


def _numbers(activation: dict[str, Any]) -> dict[str, Any]:
    """Returns the function and the parameters of an activation, whatever its name."""
    made = {name: activation[name] for name in ("function", "gated")}
    return made | {name: activation.get(name) or neutral for name, neutral in NEUTRAL.items()}


def compare(label: str, module: Any, layer: dict[str, Any], made: dict[str, Any], top_k: int) -> None:
    """Raises InvalidArgument if the module and the checkpoint's configuration describe different layers.

    layer: from the configuration.
    made: from the package with the module's activation.
    """
    first = "gate_up_proj" if module.has_gate else "up_proj"
    tensors = {name: module._parameters[name].data for name in (first, "down_proj")}
    experts, rows, columns = extents(label, module, tensors, first)
    inner = rows // 2 if module.has_gate else rows
    mine: dict[str, Any] = {"num_experts": experts, "hidden_size": columns, "intermediate_size": inner, "top_k": top_k}
    mine |= {"has_bias": bool(module.has_bias), "activation": _numbers(made["activation"])}
    files = {name: layer[name] for name in mine} | {"activation": _numbers(layer["activation"])}
    for name, value in mine.items():
        if files[name] != value:
            raise InvalidArgument(
                f"{label}: the module's {name} is {value}, and that of the checkpoint's config.json {files[name]}"
            )
    for name in ("latent_hidden_size", "apply_router_weight_on_input"):
        if layer.get(name):
            raise InvalidArgument(f"{label}: the checkpoint's layer has {name}, which no experts module of transformers has")


def place_of(model: Any, found: Found, device: torch.device | str | None) -> torch.device:
    """Returns `device` if given, else the device of the module's weights, else the device of the model's weights."""
    if device is not None:
        return torch.device(device)
    for tensor in [*found.module.parameters(), *model.parameters()]:
        if not tensor.is_meta:
            place: torch.device = tensor.device
            return place
    raise InvalidArgument("device: the model has no weight in memory, so that moec does not know where to run; give device=")


def load_experts(
    model: Any,
    folder: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    max_tokens: int = MAX_TOKENS,
    check: bool = False,
    top_k: int | None = None,
    quantize: bool = False,
    ignored: Iterable[str] = (),
    progress: bool | Progress | None = None,
    **options: Any,
) -> Report:
    """Loads the experts of all layers from the safetensors files of a folder, in the scheme of its config.json.

    The caller loads the rest of the model. The modules lose their own weights, layer by layer.

    device: the device of the experts. None: the device of the model's weights.
    check: compares with the module's own forward, for a model whose experts hold the same weights as floats.
    max_tokens, top_k, progress: as attach() accepts them.
    quantize, ignored: as moec.Checkpoint.load() accepts them.
    options: the options of moec.compile(), for example a scheme that overrides the scheme of config.json.

    Raises InvalidArgument if the model and the files describe different layers, and NotSupported if moec cannot read the files.
    """
    begin = time.monotonic()
    if any(isinstance(module, Packed) for module in model.modules()):
        raise InvalidArgument("model: moec has its weights already; expected a model without, or detach(model) first")
    all_found, checkpoint = list(find(model)), Checkpoint(folder)
    words = tuple(ignored)
    # All differences are reported before the first module loses its weights.
    plans = []
    for found in all_found:
        number, k = layer_of(found.name), top_k_of(found, top_k)
        activation = activation_of(found.name, found.module)
        report = explain(folder, layer=number, no_shared_experts=True, arch=HOST_ARCH, max_tokens=1, **options)
        if "layer" not in report.data:
            raise NotSupported(f"{found.name}: {report.message}")
        layer = report.data["layer"]
        source = source_of(layer, activation, k)
        package = load_for(place_of(model, found, device), source, max_tokens=max_tokens, progress=progress)
        compare(found.name, found.module, layer, package.manifest["layer"], k)
        plans.append(Plan(found, number, k, activation, source, layer["quant"]["name"] or "of descriptors", package))
    rows = []
    for plan in _messages.each(plans, "loading experts", progress):
        found, package = plan.found, plan.package
        expected = None
        if check:
            dtype, hidden = TYPES[plan.source["in_dtype"]], plan.source["hidden_size"]
            place = place_of(model, found, device)
            expected = checks.sample(found.name, found.module, hidden=hidden, top_k=plan.top_k, dtype=dtype, device=place)
        loaded = checkpoint.load(
            package, plan.number, no_shared_experts=True, quantize=quantize, ignored=words, progress=progress
        )
        experts = Experts(package)
        # torch tensors, so that the layer's results are torch tensors.
        experts._take(package.layer({name: torch.as_tensor(array) for name, array in loaded.items()}, in_place=True))
        made = Prepared(found, None, plan.top_k, experts)
        made.hidden = tuple(name for name, parameter in found.module._parameters.items() if parameter is not None)
        made.former = found.module.config._experts_implementation
        if expected is not None:
            made.error = checks.compare(found.name, expected, made.run, limit=checks.LIMIT_OF_CODES)
        rows.append(row_of(found.module, made, plan.source, plan.scheme, plan.activation))
        take(found.module)
        give(found.module, made)
    return Report(tuple(rows), len({id(plan.package) for plan in plans}), time.monotonic() - begin)
