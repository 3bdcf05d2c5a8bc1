# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's configurations of quantization, the scheme that moec takes each as, and how a checkpoint stores it."""

import importlib
from collections.abc import Callable
from typing import Any

from engine_cases import (
    BF16,
    CHANNEL,
    INT4,
    PACKED,
    TOKEN,
    compressed_config,
    compressed_fp8_cases,
    compressed_integer_cases,
    fp8_cases,
)
from engine_layers import OF_CODES, OF_WEIGHTS, Case
from engine_schemes import (
    int8_rows,
    nvfp4_groups,
    of_tensor,
    store_fp8_tensor,
    store_int8_channel,
    store_integers,
    store_mxfp4,
    store_nvfp4,
    to_bf16,
)


def _of(module: str, name: str, **config: Any) -> Callable[[], Any]:
    def make() -> Any:
        where = importlib.import_module(f"vllm.model_executor.layers.quantization.{module}")
        return getattr(where, name).from_config(config)

    return make


def _compressed(kind: str, weights: dict[str, Any], inputs: dict[str, Any] | None) -> Callable[[], Any]:
    return _of("compressed_tensors.compressed_tensors", "CompressedTensorsConfig", **compressed_config(kind, weights, inputs))


def _fp8(**config: Any) -> Callable[[], Any]:
    return _of("fp8", "Fp8Config", quant_method="fp8", **config)


def _gptq(bits: int, group: int) -> Callable[[], Any]:
    return _of("auto_gptq", "AutoGPTQConfig", quant_method="gptq", bits=bits, group_size=group, desc_act=False, sym=True)


def _modelopt(kind: str, algorithm: str, **more: Any) -> Callable[[], Any]:
    config = {"quant_algo": algorithm, "kv_cache_quant_algo": None, "exclude_modules": [], **more}
    return _of("modelopt", kind, quant_method="modelopt", quantization=config)


_AWQ = _of("auto_awq", "AutoAWQConfig", quant_method="awq", bits=4, group_size=32, zero_point=True, version="gemm")
_NVFP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
_MODELOPT_NVFP4 = ("weight", "weight_scale_2", "input_scale")
_CT_NVFP4 = ("weight_packed", "weight_global_scale", "input_global_scale")
_CT_FP8, _CT_WNA16 = "CompressedTensorsW8A8Fp8MoEMethod", "CompressedTensorsWNA16MoEMethod"

CASES = (
    BF16,
    *fp8_cases(_fp8),
    Case(
        "ModelOpt fp8",
        "fp8_tensor",
        "ModelOptFp8MoEMethod",
        _modelopt("ModelOptFp8Config", "FP8"),
        store_fp8_tensor(0.01),
        of_tensor(0.01),
        OF_CODES,
    ),
    *compressed_fp8_cases(_compressed, _CT_FP8),
    Case(
        "compressed int8 channel",
        "int8_channel",
        "CompressedTensorsW8A8Int8MoEMethod",
        _compressed("int-quantized", CHANNEL | {"type": "int"}, TOKEN | {"type": "int"}),
        store_int8_channel,
        int8_rows,
        OF_CODES,
    ),
    Case("GPTQ int4", "int4_w4a16", "AutoGPTQMoEMethod", _gptq(4, 32), store_integers("gptq", 32), to_bf16, OF_WEIGHTS),
    Case("GPTQ int8", "int8_w8a16", "AutoGPTQMoEMethod", _gptq(8, 32), store_integers("gptq", 32, bits=8), to_bf16, OF_WEIGHTS),
    Case("GPTQ by channel", "int4_w4a16", "AutoGPTQMoEMethod", _gptq(4, -1), store_integers("gptq", -1), to_bf16, OF_WEIGHTS),
    Case("AWQ", "int4_zp_w4a16", "AutoAWQMoEMethod", _AWQ, store_integers("awq", 32, zero_points=True), to_bf16, OF_WEIGHTS),
    *compressed_integer_cases(_compressed, _CT_WNA16),
    Case(
        "compressed int4, zero points",
        "int4_zp_w4a16",
        _CT_WNA16,
        _compressed(PACKED, INT4 | {"symmetric": False}, None),
        store_integers("rows", 32, zero_points=True),
        to_bf16,
        OF_WEIGHTS,
    ),
    Case(
        "gpt-oss",
        "mxfp4_w4a16",
        "GptOssMxfp4MoEMethod",
        _of("mxfp4", "GptOssMxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        OF_WEIGHTS,
        "swigluoai",
    ),
    Case(
        "MXFP4",
        "mxfp4_w4a16",
        "Mxfp4MoEMethod",
        _of("mxfp4", "Mxfp4Config", quant_method="mxfp4"),
        store_mxfp4,
        to_bf16,
        OF_WEIGHTS,
    ),
    Case(
        "ModelOpt NVFP4 weights",
        "nvfp4_w4a16",
        "ModelOptNvFp4FusedMoE",
        _modelopt("ModelOptNvFp4Config", "W4A16_NVFP4", group_size=16),
        store_nvfp4(_MODELOPT_NVFP4, inverse=False, inputs=1),
        to_bf16,
        OF_WEIGHTS,
    ),
    Case(
        "ModelOpt NVFP4",
        "nvfp4",
        "ModelOptNvFp4FusedMoE",
        _modelopt("ModelOptNvFp4Config", "NVFP4", group_size=16),
        store_nvfp4(_MODELOPT_NVFP4, inverse=False, inputs=2.0**-9),
        nvfp4_groups(2.0**-9),
        OF_CODES,
    ),
    Case(
        "compressed NVFP4 weights",
        "nvfp4_w4a16",
        "CompressedTensorsW4A4Nvfp4MoEMethod",
        _compressed("nvfp4-pack-quantized", _NVFP4, None),
        store_nvfp4(_CT_NVFP4, inverse=True, inputs=1),
        to_bf16,
        OF_WEIGHTS,
    ),
    Case(
        "compressed NVFP4",
        "nvfp4",
        "CompressedTensorsW4A4Nvfp4MoEMethod",
        _compressed("nvfp4-pack-quantized", _NVFP4, _NVFP4 | {"symmetric": True, "dynamic": "local"}),
        store_nvfp4(_CT_NVFP4, inverse=True, inputs=2.0**-9),
        nvfp4_groups(2.0**-9),
        OF_CODES,
    ),
)
