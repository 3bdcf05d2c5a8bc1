# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts an experts module of transformers to a layer of moec: its description and its weights."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from transformers.integrations import moe

from moec.errors import InvalidArgument
from moec.integrations.transformers.activations import Activation, gated, plain
from moec.torch.modules import NAMES_OF_TYPES

# Attributes that transformers' decorator adds to the modules that it dispatches.
MARKS = ("has_gate", "has_bias", "is_transposed", "config", "num_experts")
FP8 = torch.float8_e4m3fn
# Codes (quantized values) of FP4 checkpoints: two in an int8, with one scale per 32 codes.
FP4 = torch.int8
FP4_GROUP = 32
SCALES = {torch.float32: "f32", torch.float8_e8m0fnu: "f8E8M0FNU"}


class Found(NamedTuple):
    """An experts module of a model."""

    name: str
    module: Any
    top_k: int | None
    """The number of experts of each token, if a neighboring module specifies it."""


class Description(NamedTuple):
    """An experts module, described as a layer of moec."""

    source: dict[str, Any]
    """The layer JSON."""
    weights: dict[str, str]
    """The names of the module's parameters, by moec's names of stored weights."""
    shapes: dict[str, tuple[int, ...]]
    """The shapes of parameters in moec, if they differ."""
    activation: Activation
    scheme: str


def eager_forward(module: Any) -> Callable[..., torch.Tensor] | None:
    """Returns the module's own forward, which transformers' decorator keeps; None without the decorator.

    transformers decorates FP8Experts again for each module.
    """
    forward, found = type(module).forward, None
    while hasattr(forward, "__wrapped__") and forward.__code__.co_filename == moe.__file__:
        forward = found = forward.__wrapped__
    return found


def is_dispatched(module: Any) -> bool:
    """Returns True if the module's forward comes from transformers' interface of experts."""
    return eager_forward(module) is not None and all(hasattr(module, mark) for mark in MARKS) and hasattr(module, "_apply_gate")


def find(model: Any) -> Iterator[Found]:
    """Yields the experts modules of a model. Raises InvalidArgument if the model has no such module."""
    others, count = set(), 0
    for name, module in model.named_modules():
        if is_dispatched(module):
            count += 1
            yield Found(name or type(module).__name__, module, _top_k(model, name, module))
        elif type(module).__name__.endswith("Experts"):
            others.add(type(module).__name__)
    if not count:
        also = f" The model has {', '.join(sorted(others))}, which transformers does not dispatch." if others else ""
        raise InvalidArgument(
            f"model: expected a module whose class has the decorator use_experts_implementation, and "
            f"{type(model).__name__} has none.{also}"
        )


def _top_k(model: Any, name: str, module: Any) -> int | None:
    """Returns top_k of the block around the experts or of its router, else of the configuration."""
    parent = model.get_submodule(name.rpartition(".")[0]) if name else module
    near = [parent, *(child for child in parent.children() if child is not module)] if parent is not module else []
    found = {value for each in near if type(value := getattr(each, "top_k", None)) is int}
    if len(found) != 1:
        keys = ("num_experts_per_tok", "top_k_experts")
        found = {value for key in keys if type(value := getattr(module.config, key, None)) is int}
    return found.pop() if len(found) == 1 else None


def plain_tensor(label: str, name: str, parameter: Any) -> torch.Tensor:
    """Returns the tensor of a parameter. Raises InvalidArgument if it has no memory of its own on this device."""
    tensor: torch.Tensor = parameter.data
    kind = type(tensor).__name__
    if kind == "DTensor" or hasattr(parameter, "device_mesh"):
        raise InvalidArgument(f"{label}.{name} is a DTensor; expected a plain tensor of this process")
    if tensor.is_meta:
        raise InvalidArgument(f"{label}.{name} is on the meta device: it was offloaded or not loaded; expected it in memory")
    if type(tensor) is not torch.Tensor:
        raise InvalidArgument(f"{label}.{name} is a {kind}; expected a plain tensor")
    return tensor


def activation_of(label: str, module: Any) -> Activation:
    """Returns the module's activation. Raises InvalidArgument for one that moec does not have, and for a norm after it."""
    if getattr(module, "has_post_expert_norm", False):
        raise InvalidArgument(
            f"{label} has a norm after each expert (has_post_expert_norm), which attach() does not give to moec; "
            f"expected experts without one, or moec.compile() of the model's config.json, which computes the norm"
        )
    return gated(module._apply_gate, label) if module.has_gate else plain(module.act_fn, label)


def describe(label: str, module: Any, top_k: int, dtype: torch.dtype) -> Description:
    """Describes an experts module with inputs of type `dtype` as a layer of moec. Raises InvalidArgument for a module that moec
    does not recognize."""
    if dtype not in NAMES_OF_TYPES:
        raise InvalidArgument(f"{label}: expected an input of bfloat16, float16 or float32, got {dtype}")
    activation = activation_of(label, module)
    first = "gate_up_proj" if module.has_gate else "up_proj"
    weights = {"w13": first, "w2": "down_proj"}
    if module.has_bias:
        weights |= {"b13": f"{first}_bias", "b2": "down_proj_bias"}
    if f"{first}_scale_inv" in module._parameters:
        weights |= {"w13_scale": f"{first}_scale_inv", "w2_scale": "down_proj_scale_inv"}
    static = getattr(module, "activation_scheme", "dynamic") == "static"
    if static:
        weights |= {"a1_scale": "gate_up_proj_activation_scale", "a2_scale": "down_proj_activation_scale"}
    tensors = _tensors(label, module, list(weights.values()))
    codes = tensors[first].dtype in (FP8, FP4)
    experts, rows, columns = extents(label, module, tensors, first)
    if not codes and tensors[first].dtype != dtype:
        raise InvalidArgument(f"{label}.{first}: expected the input's type {dtype}, got {tensors[first].dtype}")
    scheme, shapes = _scheme(label, module, tensors, weights, static) if codes else (None, {})
    source = {
        "moec_layer": 1,
        "name": "experts",
        "num_experts": experts,
        "top_k": top_k,
        "hidden_size": columns,
        "intermediate_size": rows // 2 if module.has_gate else rows,
        "in_dtype": NAMES_OF_TYPES[dtype],
        "routing_method": "custom",
        "activation": activation.name,
        **activation.fields,
        "has_bias": bool(module.has_bias),
        "stored_layout": "columns" if module.is_transposed else "rows",
        "quant_config": scheme,
    }
    if activation.order:
        source["gate_up_order"] = activation.order
    words = scheme if isinstance(scheme, str) else NAMES_OF_TYPES[dtype] if scheme is None else "of descriptors"
    return Description(source, weights, shapes, activation, words)


def _tensors(label: str, module: Any, used: list[str]) -> dict[str, torch.Tensor]:
    """Returns the tensors that moec uses. Raises InvalidArgument if the module has others."""
    made = {}
    for name in used:
        parameter = module._parameters.get(name)
        if parameter is None:
            raise InvalidArgument(f"{label}: expected a parameter '{name}', which {type(module).__name__} has not")
        made[name] = plain_tensor(label, name, parameter)
    for name, _ in [*module.named_parameters(), *module.named_buffers()]:
        if name not in made:
            raise InvalidArgument(f"{label} has a tensor '{name}', which moec does not use; expected only {', '.join(used)}")
    if len(devices := {str(tensor.device) for tensor in made.values()}) != 1:
        raise InvalidArgument(f"{label}: expected all weights on one device, got {', '.join(sorted(devices))}")
    return made


def extents(label: str, module: Any, tensors: dict[str, torch.Tensor], first: str) -> tuple[int, int, int]:
    """Returns the number of experts, and the numbers of rows and columns of an expert's first weight."""
    shapes = []
    for name in (first, "down_proj"):
        shape = list(tensors[name].shape)
        if len(shape) != 3:
            raise InvalidArgument(f"{label}.{name}: expected [experts, rows, columns], got {shape}")
        if module.is_transposed:
            shape[1:] = reversed(shape[1:])
        if tensors[name].dtype == FP4:
            shape[2] *= 2
        shapes.append(shape)
    (experts, rows, columns), (others, hidden, inner) = shapes
    if experts != module.num_experts or others != experts:
        raise InvalidArgument(f"{label}: expected weights of {module.num_experts} experts, got {experts} and {others}")
    if hidden != columns or rows != inner * (2 if module.has_gate else 1):
        raise InvalidArgument(f"{label}: {first} and down_proj do not fit each other: {shapes[0][1:]} and {shapes[1][1:]}")
    return experts, rows, columns


def _scheme(
    label: str, module: Any, tensors: dict[str, torch.Tensor], weights: dict[str, str], static: bool
) -> tuple[Any, dict[str, tuple[int, ...]]]:
    """Returns the quant_config of FP8Experts, and the shapes of its scales in moec."""
    codes, scale = tensors[weights["w13"]], tensors.get(weights.get("w13_scale", ""))
    if scale is None or scale.dtype not in SCALES:
        got = "none" if scale is None else scale.dtype
        raise InvalidArgument(f"{label}: expected scales of float32 or float8_e8m0fnu with {codes.dtype}, got {got}")
    type_of_scale, block = SCALES[scale.dtype], module.block_size
    if static:
        for name in (weights["a1_scale"], weights["a2_scale"]):
            if not bool((tensors[name] == tensors[name][0]).all()):
                raise InvalidArgument(f"{label}.{name}: expected one number for all experts, since moec uses one; got several")
    if codes.dtype == FP4 and not static:
        activations = {"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True}
        codes_of_4 = {"dtype": "f4E2M1FN", "shape": [1, FP4_GROUP], "scale": type_of_scale}
        return {"a1": activations, "a2": activations, "w1": codes_of_4, "w2": codes_of_4}, {}
    if codes.dtype == FP8 and block is None and type_of_scale == "f32":
        # A gated expert has two scales in w13, one for gate and one for up.
        shapes = {name: tuple(tensors[weights[name]].shape[:2]) for name in ("w13_scale", "w2_scale")}
        return "fp8_tensor" if static else "fp8_tensor_token", shapes
    if codes.dtype == FP8 and block is not None and not static:
        rows, columns = block
        if module.has_gate and codes.shape[1] // 2 % rows:
            raise InvalidArgument(
                f"{label}: a block of {rows} rows holds gates and ups, which moec keeps apart; "
                f"expected an intermediate size that is a multiple of {rows}, got {codes.shape[1] // 2}"
            )
        if (rows, columns) == (128, 128):
            return "fp8_block" if type_of_scale == "f32" else "fp8_block_ue8m0", {}
        activations = {"dtype": "f8E4M3FN", "shape": [1, columns], "scale": "f32", "dynamic": True}
        blocks = {"dtype": "f8E4M3FN", "shape": [rows, columns], "scale": type_of_scale}
        return {"a1": activations, "a2": activations, "w1": blocks, "w2": blocks}, {}
    how = "static" if static else "dynamic"
    raise InvalidArgument(
        f"{label}: moec has no scheme for {codes.dtype} with scales of {scale.dtype}, block_size {block} and {how} activations"
    )
