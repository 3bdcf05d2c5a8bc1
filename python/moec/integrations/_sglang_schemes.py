# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Maps SGLang's quantization methods to moec: fields of the layer JSON, and parameters as stored weights."""

from collections.abc import Callable
from typing import Any

import torch

from moec.integrations._engine import Refused
from moec.integrations._schemes import (
    Scheme,
    awq,
    compressed_fp8,
    fp8_blocks,
    fp8_tensors,
    gptq,
    grouped,
    stored_scales,
    stored_weights,
    unquantized,
    word,
)


def _unquantized(layer: Any, method: Any) -> Scheme:
    return unquantized(layer.w13_weight.dtype, layer.params_dtype)


def _fp8(layer: Any, method: Any) -> Scheme:
    config = method.quant_config
    if not config.is_checkpoint_fp8_serialized:
        raise Refused("fp8 weights that SGLang makes of 16-bit ones while it loads them")
    if method.use_mxfp8 or method.is_fp4_expert:
        raise Refused("MXFP8 weights or FP4 experts of the method Fp8MoEMethod")
    if method.block_quant:
        return fp8_blocks(method.weight_block_size, "weight_scale_inv")
    return fp8_tensors(layer.num_experts, static=config.activation_scheme == "static")


def _compressed(layer: Any, method: Any) -> Scheme:
    scheme = layer.scheme
    kind = type(scheme).__name__
    if kind == "CompressedTensorsW8A8Fp8MoE":
        return compressed_fp8(scheme, layer.num_experts, static=scheme.static_input_scales)
    if kind in ("CompressedTensorsWNA16MoE", "CompressedTensorsWNA16TritonMoE"):
        return _compressed_integers(scheme)
    raise Refused(f"compressed-tensors by SGLang's {kind}")


def _compressed_integers(scheme: Any) -> Scheme:
    if not scheme.sym:
        raise Refused("compressed-tensors with zero points")
    if word(scheme.actorder) in ("group", "dynamic"):
        raise Refused("compressed-tensors with act-order by group")
    if scheme.num_bits not in (4, 8):
        raise Refused(f"compressed-tensors weights of {scheme.num_bits} bits")
    name = {4: "int4_w4a16", 8: "int8_w8a16"}[scheme.num_bits]
    # SGLang's loader transposes the tensors, which results in GPTQ's layout.
    parameters = ("weight_shape", "weight_g_idx", "g_idx_sort_indices")
    unused = tuple(f"{matrix}_{parameter}" for matrix in ("w13", "w2") for parameter in parameters)
    stored = stored_weights("weight_packed") | stored_scales("weight_scale")
    return Scheme(name, grouped(name, scheme.group_size, "gptq"), stored, unused=unused, weight_only=True)


def _mxfp4(layer: Any, method: Any) -> Scheme:
    if method.hidden_size != layer.hidden_size_unpadded:
        raise Refused(f"MXFP4 with a hidden dimension of {layer.hidden_size_unpadded} that SGLang pads to {method.hidden_size}")
    width = layer.intermediate_size_per_partition
    if width % 32:
        raise Refused(f"MXFP4 with {width} columns of the intermediate on a rank; expected a multiple of 32")
    # SGLang creates bias parameters for every layer.
    unused = () if layer.with_bias else ("w13_weight_bias", "w2_weight_bias")
    return Scheme("mxfp4_w4a16", {}, stored_weights() | stored_scales("weight_scale"), unused=unused, weight_only=True)


def _gptq(layer: Any, method: Any) -> Scheme:
    config = method.quant_config
    made = gptq(config.weight_bits, config.group_size, symmetric=config.is_sym, act_order=config.desc_act)
    if layer.w13_scales.dtype != layer.params_dtype:
        raise Refused(f"GPTQ with scales of {layer.w13_scales.dtype} and activations of {layer.params_dtype}")
    made.unused += ("w13_g_idx", "w2_g_idx", "w13_g_idx_sort_indices", "w2_g_idx_sort_indices")
    if config.group_size != -1 and layer.moe_tp_size > 1:
        width = layer.intermediate_size_per_partition
        if width % config.group_size:
            raise Refused(f"GPTQ with {width} columns of the intermediate on a rank and groups of {config.group_size}")
        # SGLang allocates the groups of all ranks. Its loader fills the rank's own groups first.
        made.changed["w2_scale"] = lambda scales: scales[:, : width // config.group_size]
    return made


def _awq(layer: Any, method: Any) -> Scheme:
    return awq(method.quant_config.group_size, zero_points=method.quant_config.zero_point)


# The scheme function of each SGLang class. A subclass may behave differently, so it is not supported.
METHODS: dict[str, Callable[[Any, Any], Scheme]] = {
    "UnquantizedFusedMoEMethod": _unquantized,
    "Fp8MoEMethod": _fp8,
    "CompressedTensorsFusedMoEMethod": _compressed,
    "Mxfp4MoEMethod": _mxfp4,
    "GPTQMarlinMoEMethod": _gptq,
    "AWQMoEMethod": _awq,
}

# The runner backends for which SGLang loads weights in the checkpoint's order.
RUNNERS = ("auto", "triton", "marlin")
# For Mxfp4MoEMethod, SGLang also loads weights in the checkpoint's order with the runner backend triton_kernel.
RUNNERS_OF_MXFP4 = (*RUNNERS, "triton_kernel")

# The methods that create bias parameters.
WITH_BIASES = ("UnquantizedFusedMoEMethod", "Fp8MoEMethod", "Mxfp4MoEMethod")


def scheme_of(layer: Any, method: Any, runner: str) -> Scheme:
    """Returns the scheme of a layer with this method and runner backend. Raises Refused if moec has no such scheme."""
    kind = type(method)
    if not kind.__module__.startswith("sglang.") or kind.__name__ not in METHODS:
        raise Refused(f"SGLang's method {kind.__name__}; moec takes {', '.join(METHODS)}")
    runners = RUNNERS_OF_MXFP4 if kind.__name__ == "Mxfp4MoEMethod" else RUNNERS
    if runner not in runners:
        raise Refused(f"the runner backend {runner}, which changes weights; start with --moe-runner-backend={runners[1]}")
    if getattr(method, "load_up_proj_weight_first", False):
        raise Refused("weights whose up half comes first")
    if layer.with_bias and kind.__name__ not in WITH_BIASES:
        raise Refused(f"biases, for which SGLang's method {kind.__name__} makes no parameters")
    made = METHODS[kind.__name__](layer, method)
    made.fields = {"quant_config": made.name} | made.fields
    return made


def intermediate_of(layer: Any, scheme: Scheme) -> int:
    """Returns this rank's intermediate size, including columns that SGLang adds as zero padding."""
    if scheme.name == "mxfp4_w4a16":
        packed: torch.Tensor = layer.w2_weight
        return int(packed.shape[2]) * 2
    return int(layer.intermediate_size_per_partition)
