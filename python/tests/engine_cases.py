# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Schemes that several inference engines configure alike."""

from collections.abc import Callable
from typing import Any

from engine_layers import OF_BF16, OF_CODES, OF_WEIGHTS, Case
from engine_schemes import (
    dynamic_tensor,
    of_groups,
    of_tensor,
    store_bf16,
    store_fp8_block,
    store_fp8_channel,
    store_fp8_tensor,
    store_integers,
    to_bf16,
)

# Numbers of compressed-tensors' configurations.
TOKEN = {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": True, "dynamic": True}
CHANNEL = {"num_bits": 8, "type": "float", "strategy": "channel"}
TENSOR = {"num_bits": 8, "type": "float", "strategy": "tensor", "symmetric": True}
BLOCK = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
FP8_GROUP = {"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "symmetric": True, "dynamic": True}
INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
FLOAT, PACKED = "float-quantized", "pack-quantized"

Make = Callable[[], Any]
"""Makes an engine's configuration of quantization."""
Compressed = Callable[[str, dict[str, Any], dict[str, Any] | None], Make]
"""By the format, the weights and the activations."""

BF16 = Case("bf16", "bf16", "UnquantizedFusedMoEMethod", lambda: None, store_bf16, to_bf16, OF_BF16)


def compressed_config(kind: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> dict[str, Any]:
    """A configuration of compressed-tensors, as a config.json has it."""
    group = {"targets": ["Linear"], "weights": {"dynamic": False, "symmetric": True, **weights}, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "format": kind, "config_groups": {"group_0": group}, "ignore": []}


def fp8_cases(fp8: Callable[..., Make]) -> tuple[Case, ...]:
    """fp8: makes an Fp8Config of these members."""
    method, blocks = "Fp8MoEMethod", fp8(activation_scheme="dynamic", weight_block_size=[128, 128])
    dynamic, static = fp8(activation_scheme="dynamic"), fp8(activation_scheme="static")
    return (
        Case("fp8 block", "fp8_block", method, blocks, store_fp8_block("weight_scale_inv"), of_groups(128), OF_CODES),
        Case("fp8 tensor, dynamic", "fp8_tensor_dynamic", method, dynamic, store_fp8_tensor(None), dynamic_tensor, OF_CODES),
        Case("fp8 tensor, static", "fp8_tensor", method, static, store_fp8_tensor(0.01), of_tensor(0.01), OF_CODES),
    )


def compressed_fp8_cases(compressed: Compressed, method: str) -> tuple[Case, ...]:
    channel, block = compressed(FLOAT, CHANNEL, TOKEN), compressed(FLOAT, BLOCK, FP8_GROUP)
    static = compressed(FLOAT, TENSOR, TENSOR | {"dynamic": False})
    return (
        Case("compressed fp8 channel", "fp8_channel", method, channel, store_fp8_channel, of_groups(0), OF_CODES),
        Case("compressed fp8 block", "fp8_block", method, block, store_fp8_block("weight_scale"), of_groups(128), OF_CODES),
        Case("compressed fp8 tensor, static", "fp8_tensor", method, static, store_fp8_tensor(0.01), of_tensor(0.01), OF_CODES),
    )


def compressed_integer_cases(compressed: Compressed, method: str) -> tuple[Case, ...]:
    int4, int8 = compressed(PACKED, INT4, None), compressed(PACKED, INT4 | {"num_bits": 8}, None)
    return (
        Case("compressed int4", "int4_w4a16", method, int4, store_integers("rows", 32), to_bf16, OF_WEIGHTS),
        Case("compressed int8", "int8_w8a16", method, int8, store_integers("rows", 32, bits=8), to_bf16, OF_WEIGHTS),
    )
