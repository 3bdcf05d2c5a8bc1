# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maps the parameters of an engine's layer to moec's stored weights, for schemes that engines store identically."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from moec.integrations._engine import Refused

Tensors: TypeAlias = dict[str, torch.Tensor]
Changes: TypeAlias = dict[str, Callable[[torch.Tensor], torch.Tensor]]


@dataclass
class Scheme:
    """Describes how an engine stores a layer's parameters, in terms of moec's schemes and stored weights."""

    name: str
    """moec's name of the scheme."""
    fields: dict[str, Any]
    """Fields of the layer JSON."""
    stored: dict[str, str]
    """The parameter that holds each stored weight."""
    changed: Changes = field(default_factory=dict)
    """The conversions of stored weights whose parameters have another shape or meaning."""
    unused: tuple[str, ...] = ()
    """Parameters that the engine creates for every layer and that do not affect this one."""
    weight_only: bool = False
    """Activations are not quantized; every kernel then multiplies 16-bit values."""
    leaves_activations: bool = True
    """True if the engine leaves activations unquantized on GPUs without tensor cores for 4-bit floats."""
    multiple: int = 1
    """The intermediate size per rank is padded with zeros to a multiple of this number."""

    def weights(self, layer: Any) -> Tensors:
        """Returns the stored weights by name, as views of the parameters if they can be packed in place."""
        made = {}
        for name, parameter in self.stored.items():
            tensor = getattr(layer, parameter).data
            made[name] = self.changed[name](tensor) if name in self.changed else tensor
        return made


def column(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(tensor.shape[0], 1)


def flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.squeeze(-1)


def largest_for(experts: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function that expands a rank's activation scales to one scale for all experts of the layer: their maximum. A rank
    has only the scales of its own experts."""
    return lambda scales: scales.max().float().expand(experts).contiguous()


def inverse_of_largest_for(experts: int) -> Callable[[torch.Tensor], torch.Tensor]:
    largest = largest_for(experts)
    return lambda scales: largest(1.0 / scales)


def stored_weights(suffix: str = "weight") -> dict[str, str]:
    return {"w13": f"w13_{suffix}", "w2": f"w2_{suffix}"}


def stored_scales(suffix: str) -> dict[str, str]:
    return {"w13_scale": f"w13_{suffix}", "w2_scale": f"w2_{suffix}"}


def fp8_blocks(shape: Any, scale: str) -> Scheme:
    if list(shape) != [128, 128]:
        raise Refused(f"fp8 blocks of {list(shape)}; moec takes blocks of [128, 128]")
    return Scheme("fp8_block", {}, stored_weights() | stored_scales(scale))


def fp8_tensors(experts: int, *, static: bool, token: bool = False) -> Scheme:
    """Returns the fp8 scheme with one scale each for gate, up and down. `experts`: the number of experts of the whole layer."""
    stored = stored_weights() | stored_scales("weight_scale")
    changed: Changes = {"w2_scale": column}
    if not static:
        return Scheme("fp8_tensor_token" if token else "fp8_tensor_dynamic", {}, stored, changed)
    largest = largest_for(experts)
    stored |= {"a1_scale": "w13_input_scale", "a2_scale": "w2_input_scale"}
    return Scheme("fp8_tensor", {}, stored, changed | {"a1_scale": largest, "a2_scale": largest})


def word(value: Any) -> str:
    """Returns the lower-case name of a compressed-tensors enumeration or string."""
    return str(getattr(value, "value", value)).lower()


def grouped(name: str, group: int, layout: str) -> dict[str, Any]:
    return {"quant_config": {"scheme": name, "group_size": group}, "stored_layout": layout}


def unquantized(weights: torch.dtype, activations: torch.dtype) -> Scheme:
    name = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}.get(activations, "")
    if weights != activations or not name:
        raise Refused(f"weights of {weights} and activations of {activations}")
    return Scheme(name, {}, stored_weights())


def compressed_fp8(method: Any, experts: int, *, static: bool) -> Scheme:
    """Returns the fp8 scheme of compressed-tensors. `method` has weight_quant, input_quant and, for blocks, weight_block_size."""
    weights, inputs = word(method.weight_quant.strategy), word(method.input_quant.strategy)
    if weights == "block":
        return fp8_blocks(method.weight_block_size, "weight_scale")
    if (weights, inputs) == ("channel", "token"):
        stored = stored_weights() | stored_scales("weight_scale")
        return Scheme("fp8_channel", {}, stored, {"w13_scale": flat, "w2_scale": flat})
    if (weights, inputs) == ("tensor", "tensor"):
        return fp8_tensors(experts, static=static)
    raise Refused(f"fp8 weights by {weights} and activations by {inputs}")


def gptq(bits: int, group: int, *, symmetric: bool, act_order: bool) -> Scheme:
    if not symmetric:
        raise Refused("GPTQ with zero points")
    if act_order and group != -1:
        raise Refused("GPTQ with act-order (desc_act)")
    name = {4: "int4_w4a16", 8: "int8_w8a16"}[bits]
    # In a symmetric checkpoint, all zero points are equal and implied by the scheme.
    unused = ("w13_qzeros", "w2_qzeros")
    stored = stored_weights("qweight") | stored_scales("scales")
    return Scheme(name, grouped(name, group, "gptq"), stored, unused=unused, weight_only=True)


def awq(group: int, *, zero_points: bool) -> Scheme:
    if not zero_points:
        raise Refused("AWQ without zero points")
    stored = stored_weights("qweight") | stored_scales("scales") | {"w13_zero_point": "w13_qzeros", "w2_zero_point": "w2_qzeros"}
    name = "int4_zp_w4a16"
    return Scheme(name, grouped(name, group, "awq"), stored, weight_only=True)
