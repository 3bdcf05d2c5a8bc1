# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maps vLLM's quantization methods to moec: fields of the layer JSON, and parameters as stored weights."""

from collections.abc import Callable
from typing import Any

from moec.integrations._engine import Refused
from moec.integrations._schemes import (
    Changes,
    Scheme,
    awq,
    column,
    compressed_fp8,
    flat,
    fp8_blocks,
    fp8_tensors,
    gptq,
    grouped,
    inverse_of_largest_for,
    largest_for,
    stored_scales,
    stored_weights,
    unquantized,
    word,
)


def _unquantized(layer: Any, method: Any) -> Scheme:
    return unquantized(layer.params_dtype, layer.moe_config.in_dtype)


def _fp8(layer: Any, method: Any) -> Scheme:
    if method.block_quant:
        if method.weight_scale_refine is not None:
            raise Refused(f"blocks of {method.weight_block_size} that tensor parallel splits")
        return fp8_blocks(method.weight_block_size, "weight_scale_inv")
    static = method.quant_config.activation_scheme == "static"
    return fp8_tensors(layer.global_num_experts, static=static, token=getattr(method, "per_act_token_quant", False))


def _modelopt_fp8(layer: Any, method: Any) -> Scheme:
    return fp8_tensors(layer.global_num_experts, static=True)


def _compressed_fp8(layer: Any, method: Any) -> Scheme:
    return compressed_fp8(method, layer.global_num_experts, static=method.static_input_scales)


def _compressed_int8(layer: Any, method: Any) -> Scheme:
    if method.static_input_scales:
        raise Refused("int8 with static scales of activations")
    return Scheme("int8_channel", {}, stored_weights() | stored_scales("weight_scale"), {"w13_scale": flat, "w2_scale": flat})


# vLLM's backends that multiply 16-bit activations by MXFP4 weights. The others quantize activations, which changes the results.
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
    return Scheme("mxfp4_w4a16", {}, stored_weights() | stored_scales("weight_scale"), weight_only=True, multiple=multiple)


def _gptq(layer: Any, method: Any) -> Scheme:
    config = method.quant_config
    return gptq(config.weight_bits, config.group_size, symmetric=config.is_sym, act_order=config.desc_act)


def _awq(layer: Any, method: Any) -> Scheme:
    return awq(method.quant_config.group_size, zero_points=method.quant_config.zero_point)


def _compressed_wna16(layer: Any, method: Any) -> Scheme:
    if method.input_quant is not None:
        raise Refused("compressed-tensors weights with quantized activations")
    if word(getattr(method.weight_quant, "actorder", None)) in ("group", "dynamic"):
        raise Refused("compressed-tensors with act-order by group")
    if method.num_bits not in (4, 8):
        raise Refused(f"compressed-tensors weights of {method.num_bits} bits")
    stored = stored_weights("weight_packed") | stored_scales("weight_scale")
    names = {4: ("int4_w4a16", "int4_zp_w4a16"), 8: ("int8_w8a16", "int8_zp_w8a16")}[method.num_bits]
    name = names[0 if method.symmetric else 1]
    if not method.symmetric:
        stored |= {"w13_zero_point": "w13_weight_zero_point", "w2_zero_point": "w2_weight_zero_point"}
    group = -1 if word(method.strategy) == "channel" else method.group_size
    unused = ("w13_weight_shape", "w2_weight_shape")
    return Scheme(name, grouped(name, group, "pack_quantized"), stored, unused=unused, weight_only=True)


def _nvfp4(layer: Any, method: Any, *, weight_only: bool, inverse: bool, weights: str, second: str, inputs: str) -> Scheme:
    stored = stored_weights(weights) | stored_scales("weight_scale")
    stored |= {"w13_second_scale": f"w13_{second}", "w2_second_scale": f"w2_{second}"}
    changed: Changes = {"w2_second_scale": column}
    if inverse:
        # compressed-tensors stores the reciprocals of second scales.
        changed = {"w13_second_scale": lambda scales: 1.0 / scales, "w2_second_scale": lambda scales: 1.0 / column(scales)}
    if weight_only:
        unused = (f"w13_{inputs}", f"w2_{inputs}")
        return Scheme("nvfp4_w4a16", {}, stored, changed, unused=unused, weight_only=True)
    largest = (inverse_of_largest_for if inverse else largest_for)(layer.global_num_experts)
    stored |= {"a1_second_scale": f"w13_{inputs}", "a2_second_scale": f"w2_{inputs}"}
    changed |= {"a1_second_scale": largest, "a2_second_scale": largest}
    # Only the Marlin backend of vLLM does not quantize activations.
    backend = getattr(getattr(method, "nvfp4_backend", None), "name", "")
    return Scheme("nvfp4", {}, stored, changed, leaves_activations=backend == "MARLIN")


def _modelopt_nvfp4(layer: Any, method: Any) -> Scheme:
    if getattr(method, "per_token_activation", False):
        raise Refused("NVFP4 with a scale of activations for each token")
    return _nvfp4(
        layer, method, weight_only=method.use_a16, inverse=False, weights="weight", second="weight_scale_2", inputs="input_scale"
    )


def _compressed_nvfp4(layer: Any, method: Any) -> Scheme:
    return _nvfp4(
        layer,
        method,
        weight_only=method.use_a16,
        inverse=True,
        weights="weight_packed",
        second="weight_global_scale",
        inputs="input_global_scale",
    )


# The scheme function of each vLLM class. A subclass may behave differently, so it is not supported.
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


# The methods that create bias parameters.
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
    """Returns the scheme of a layer with this method. Raises Refused if moec has no such scheme."""
    kind = type(method)
    if not kind.__module__.startswith("vllm.") or kind.__name__ not in METHODS:
        raise Refused(f"vLLM's method {kind.__name__}; moec takes {', '.join(METHODS)}")
    if layer.moe_config.has_bias and kind.__name__ not in WITH_BIASES:
        raise Refused(f"biases, for which vLLM's method {kind.__name__} makes no parameters")
    made = METHODS[kind.__name__](layer, method)
    made.fields = {"quant_config": made.name} | made.fields
    return made
