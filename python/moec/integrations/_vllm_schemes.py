# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's methods of quantization in moec's words: fields of the layer JSON, and parameters as stored weights."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

Tensors: TypeAlias = dict[str, torch.Tensor]
Changes: TypeAlias = dict[str, Callable[[torch.Tensor], torch.Tensor]]


class Refused(Exception):
    """Why vLLM keeps a layer."""


@dataclass
class Scheme:
    """How a layer's parameters are stored."""

    name: str
    """A row of moec's schemes."""
    fields: dict[str, Any]
    """Fields of the layer JSON."""
    stored: dict[str, str]
    """The parameter that holds each stored weight."""
    changed: Changes = field(default_factory=dict)
    """Stored weights whose parameter has another shape or meaning."""
    unused: tuple[str, ...] = ()
    """Parameters that vLLM makes for every layer and that say nothing about this one."""
    weight_only: bool = False
    """Activations are not quantized. moec then multiplies 16-bit numbers, as every kernel does."""
    multiple: int = 1
    """vLLM's model cuts the intermediate into ranks of a multiple of this, and leaves zeros behind the last."""

    def weights(self, layer: Any) -> Tensors:
        """The stored weights by name: views of the parameters where these can be packed in place."""
        made = {}
        for name, parameter in self.stored.items():
            tensor = getattr(layer, parameter).data
            made[name] = self.changed[name](tensor) if name in self.changed else tensor
        return made


def _column(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(tensor.shape[0], 1)


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.squeeze(-1)


def _largest_for(experts: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """One scale of activations for all experts of the layer. A rank knows those of its own experts."""
    return lambda scales: scales.max().float().expand(experts).contiguous()


def _inverse_of_largest_for(experts: int) -> Callable[[torch.Tensor], torch.Tensor]:
    largest = _largest_for(experts)
    return lambda scales: largest(1.0 / scales)


def _weights(suffix: str = "weight") -> dict[str, str]:
    return {"w13": f"w13_{suffix}", "w2": f"w2_{suffix}"}


def _scales(suffix: str) -> dict[str, str]:
    return {"w13_scale": f"w13_{suffix}", "w2_scale": f"w2_{suffix}"}


def _unquantized(layer: Any, method: Any) -> Scheme:
    name = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}.get(layer.moe_config.in_dtype, "")
    if layer.params_dtype != layer.moe_config.in_dtype or not name:
        raise Refused(f"weights of {layer.params_dtype} and activations of {layer.moe_config.in_dtype}")
    return Scheme(name, {}, _weights())


def _blocks(shape: Any, scale: str) -> Scheme:
    if list(shape) != [128, 128]:
        raise Refused(f"fp8 blocks of {list(shape)}; moec takes blocks of [128, 128]")
    return Scheme("fp8_block", {}, _weights() | _scales(scale))


def _of_tensors(layer: Any, *, static: bool, token: bool = False) -> Scheme:
    """fp8 with a scale for each of gate, up and down."""
    stored = _weights() | _scales("weight_scale")
    changed: Changes = {"w2_scale": _column}
    if not static:
        return Scheme("fp8_tensor_token" if token else "fp8_tensor_dynamic", {}, stored, changed)
    largest = _largest_for(layer.global_num_experts)
    stored |= {"a1_scale": "w13_input_scale", "a2_scale": "w2_input_scale"}
    return Scheme("fp8_tensor", {}, stored, changed | {"a1_scale": largest, "a2_scale": largest})


def _fp8(layer: Any, method: Any) -> Scheme:
    if method.block_quant:
        if method.weight_scale_refine is not None:
            raise Refused(f"blocks of {method.weight_block_size} that tensor parallel splits")
        return _blocks(method.weight_block_size, "weight_scale_inv")
    static = method.quant_config.activation_scheme == "static"
    return _of_tensors(layer, static=static, token=method.per_act_token_quant)


def _modelopt_fp8(layer: Any, method: Any) -> Scheme:
    return _of_tensors(layer, static=True)


def _word(value: Any) -> str:
    """compressed-tensors' enumerations and words alike."""
    return str(getattr(value, "value", value)).lower()


def _compressed_fp8(layer: Any, method: Any) -> Scheme:
    weights, inputs = _word(method.weight_quant.strategy), _word(method.input_quant.strategy)
    if weights == "block":
        return _blocks(method.weight_block_size, "weight_scale")
    if (weights, inputs) == ("channel", "token"):
        return Scheme("fp8_channel", {}, _weights() | _scales("weight_scale"), {"w13_scale": _flat, "w2_scale": _flat})
    if (weights, inputs) == ("tensor", "tensor"):
        return _of_tensors(layer, static=method.static_input_scales)
    raise Refused(f"fp8 weights by {weights} and activations by {inputs}")


def _compressed_int8(layer: Any, method: Any) -> Scheme:
    if method.static_input_scales:
        raise Refused("int8 with static scales of activations")
    return Scheme("int8_channel", {}, _weights() | _scales("weight_scale"), {"w13_scale": _flat, "w2_scale": _flat})


# vLLM's backends that multiply 16-bit activations by MXFP4. The others quantize activations, which is another layer.
_MXFP4_16_BIT = ("MARLIN", "BATCHED_MARLIN", "TRITON", "TRITON_UNFUSED", "EMULATION", "CPU")


def _mxfp4(layer: Any, method: Any) -> Scheme:
    if getattr(method, "activation_key", None) is not None:
        raise Refused(f"MXFP4 weights with activations of {method.activation_key}")
    backend = method.mxfp4_backend.name
    if backend not in _MXFP4_16_BIT and not backend.endswith("_BF16"):
        raise Refused(f"MXFP4 by vLLM's backend {backend}, which quantizes activations")
    multiple = 32 if type(method).__name__ == "GptOssMxfp4MoEMethod" else 1
    width = layer.moe_config.intermediate_size_per_partition
    if multiple == 1 and width % 32:
        raise Refused(f"MXFP4 with {width} columns of the intermediate on a rank; expected a multiple of 32")
    return Scheme("mxfp4_w4a16", {}, _weights() | _scales("weight_scale"), weight_only=True, multiple=multiple)


def _grouped(name: str, group: int, layout: str) -> dict[str, Any]:
    return {"quant_config": {"scheme": name, "group_size": group}, "stored_layout": layout}


def _gptq(layer: Any, method: Any) -> Scheme:
    config = method.quant_config
    if not config.is_sym:
        raise Refused("GPTQ with zero points")
    if config.desc_act and config.group_size != -1:
        raise Refused("GPTQ with act-order (desc_act)")
    name = {4: "int4_w4a16", 8: "int8_w8a16"}[config.weight_bits]
    # A symmetric checkpoint has the zero points that all of its codes share; the scheme says which.
    unused = ("w13_qzeros", "w2_qzeros")
    stored = _weights("qweight") | _scales("scales")
    return Scheme(name, _grouped(name, config.group_size, "gptq"), stored, unused=unused, weight_only=True)


def _awq(layer: Any, method: Any) -> Scheme:
    config = method.quant_config
    if not config.zero_point:
        raise Refused("AWQ without zero points")
    stored = _weights("qweight") | _scales("scales") | {"w13_zero_point": "w13_qzeros", "w2_zero_point": "w2_qzeros"}
    name = "int4_zp_w4a16"
    return Scheme(name, _grouped(name, config.group_size, "awq"), stored, weight_only=True)


def _compressed_wna16(layer: Any, method: Any) -> Scheme:
    if method.input_quant is not None:
        raise Refused("compressed-tensors weights with quantized activations")
    if _word(getattr(method.weight_quant, "actorder", None)) in ("group", "dynamic"):
        raise Refused("compressed-tensors with act-order by group")
    if method.num_bits not in (4, 8):
        raise Refused(f"compressed-tensors weights of {method.num_bits} bits")
    stored = _weights("weight_packed") | _scales("weight_scale")
    names = {4: ("int4_w4a16", "int4_zp_w4a16"), 8: ("int8_w8a16", "int8_zp_w8a16")}[method.num_bits]
    name = names[0 if method.symmetric else 1]
    if not method.symmetric:
        stored |= {"w13_zero_point": "w13_weight_zero_point", "w2_zero_point": "w2_weight_zero_point"}
    group = -1 if _word(method.strategy) == "channel" else method.group_size
    unused = ("w13_weight_shape", "w2_weight_shape")
    return Scheme(name, _grouped(name, group, "pack_quantized"), stored, unused=unused, weight_only=True)


def _nvfp4(layer: Any, *, weight_only: bool, inverse: bool, weights: str, second: str, inputs: str) -> Scheme:
    stored = _weights(weights) | _scales("weight_scale")
    stored |= {"w13_second_scale": f"w13_{second}", "w2_second_scale": f"w2_{second}"}
    changed: Changes = {"w2_second_scale": _column}
    if inverse:
        # compressed-tensors stores what scales are divided by.
        changed = {"w13_second_scale": lambda scales: 1.0 / scales, "w2_second_scale": lambda scales: 1.0 / _column(scales)}
    if weight_only:
        unused = (f"w13_{inputs}", f"w2_{inputs}")
        return Scheme("nvfp4_w4a16", {}, stored, changed, unused=unused, weight_only=True)
    largest = (_inverse_of_largest_for if inverse else _largest_for)(layer.global_num_experts)
    stored |= {"a1_second_scale": f"w13_{inputs}", "a2_second_scale": f"w2_{inputs}"}
    return Scheme("nvfp4", {}, stored, changed | {"a1_second_scale": largest, "a2_second_scale": largest})


def _modelopt_nvfp4(layer: Any, method: Any) -> Scheme:
    if method.per_token_activation:
        raise Refused("NVFP4 with a scale of activations for each token")
    return _nvfp4(
        layer, weight_only=method.use_a16, inverse=False, weights="weight", second="weight_scale_2", inputs="input_scale"
    )


def _compressed_nvfp4(layer: Any, method: Any) -> Scheme:
    return _nvfp4(
        layer,
        weight_only=method.use_a16,
        inverse=True,
        weights="weight_packed",
        second="weight_global_scale",
        inputs="input_global_scale",
    )


# The names of vLLM's classes. A subclass may do something else and is not taken.
METHODS: dict[str, Callable[[Any, Any], Scheme]] = {
    "UnquantizedFusedMoEMethod": _unquantized,
    "Fp8MoEMethod": _fp8,
    "ModelOptFp8MoEMethod": _modelopt_fp8,
    "CompressedTensorsW8A8Fp8MoEMethod": _compressed_fp8,
    "CompressedTensorsW8A8Int8MoEMethod": _compressed_int8,
    "GptOssMxfp4MoEMethod": _mxfp4,
    "Mxfp4MoEMethod": _mxfp4,
    "AutoGPTQMoEMethod": _gptq,
    "AutoAWQMoEMethod": _awq,
    "CompressedTensorsWNA16MoEMethod": _compressed_wna16,
    "ModelOptNvFp4FusedMoE": _modelopt_nvfp4,
    "CompressedTensorsW4A4Nvfp4MoEMethod": _compressed_nvfp4,
}


# The methods that make parameters for biases.
WITH_BIASES = (
    "UnquantizedFusedMoEMethod",
    "Fp8MoEMethod",
    "CompressedTensorsW8A8Int8MoEMethod",
    "GptOssMxfp4MoEMethod",
    "Mxfp4MoEMethod",
    "AutoGPTQMoEMethod",
    "CompressedTensorsWNA16MoEMethod",
)


def scheme_of(layer: Any, method: Any) -> Scheme:
    """The scheme of a layer that vLLM computes by this method. Raises Refused."""
    kind = type(method)
    if not kind.__module__.startswith("vllm.") or kind.__name__ not in METHODS:
        raise Refused(f"vLLM's method {kind.__name__}; moec takes {', '.join(METHODS)}")
    if layer.moe_config.has_bias and kind.__name__ not in WITH_BIASES:
        raise Refused(f"biases, for which vLLM's method {kind.__name__} makes no parameters")
    made = METHODS[kind.__name__](layer, method)
    made.fields = {"quant_config": made.name} | made.fields
    return made
