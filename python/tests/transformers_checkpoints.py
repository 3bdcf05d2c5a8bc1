# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Quantized checkpoints of small models, and the same experts as floats in the model."""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from safetensors.torch import save_file

from moec.integrations.transformers import check

GROUP = 32
Made = tuple[dict[str, Any], Any]


def _integers(rows: int, columns: int, low: int, high: int, generator: Any) -> tuple[Any, Any]:
    """Codes and bf16 scales [rows, groups]."""
    codes = torch.randint(low, high, (rows, columns), generator=generator)
    scales = (torch.rand(rows, columns // GROUP, generator=generator) * 0.01 + 0.005).bfloat16()
    return codes, scales


def _words(codes: Any, axis: int, order: tuple[int, ...] = tuple(range(8))) -> Any:
    """int32 of eight codes along an axis."""
    codes = codes.movedim(axis, -1).unflatten(-1, (-1, 8))
    words = sum(codes[..., each].long() << (4 * place) for place, each in enumerate(order))
    return torch.where(words >= 2**31, words - 2**32, words).int().movedim(-1, axis).contiguous()


def _wide(scales: Any) -> Any:
    return scales.float().repeat_interleave(GROUP, 1)


def gptq(rows: int, columns: int, generator: Any) -> Made:
    codes, scales = _integers(rows, columns, 0, 16, generator)
    tensors = {
        "qweight": _words(codes.T, 0),
        "scales": scales.T.contiguous(),
        "qzeros": _words(torch.full((columns // GROUP, rows), 7), 1),
        "g_idx": (torch.arange(columns) // GROUP).int(),
    }
    return tensors, (codes - 8) * _wide(scales)


def awq(rows: int, columns: int, generator: Any) -> Made:
    codes, scales = _integers(rows, columns, 0, 16, generator)
    zeros = torch.randint(0, 16, (rows, columns // GROUP), generator=generator)
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    tensors = {
        "qweight": _words(codes.T, 1, order),
        "scales": scales.T.contiguous(),
        "qzeros": _words(zeros.T, 1, order),
    }
    return tensors, (codes - _wide(zeros)) * _wide(scales)


def compressed_tensors(rows: int, columns: int, generator: Any) -> Made:
    codes, scales = _integers(rows, columns, 0, 16, generator)
    tensors = {"weight_packed": _words(codes, 1), "weight_scale": scales, "weight_shape": torch.tensor([rows, columns])}
    return tensors, (codes - 8) * _wide(scales)


def fp8(rows: int, columns: int, generator: Any) -> Made:
    codes = (torch.randn(rows, columns, generator=generator) * 60).clamp(-448, 448).to(torch.float8_e4m3fn)
    blocks = (-(-rows // 128), -(-columns // 128))
    scales = torch.rand(blocks, generator=generator) * 0.002 + 0.0005
    return {"weight": codes, "weight_scale_inv": scales}, check.dequantized(codes[None], scales[None], (128, 128))[0]


CONFIGS: dict[str, tuple[Callable[..., Made], dict[str, Any]]] = {
    "gptq": (gptq, {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True}),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm"}),
    "fp8": (fp8, {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}),
    "compressed-tensors": (
        compressed_tensors,
        {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": GROUP},
                }
            },
        },
    ),
}


def _by_expert(kind: str, name: str, experts: Any, generator: Any) -> Iterator[tuple[str, Any]]:
    make = CONFIGS[kind][0]
    hidden, inner = experts.down_proj.shape[1:]
    for expert in range(experts.num_experts):
        floats = {}
        for part, rows, columns in (("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)):
            tensors, floats[part] = make(rows, columns, generator)
            for own, tensor in tensors.items():
                yield f"{name}.{expert}.{part}.{own}", tensor
        experts.gate_up_proj[expert] = torch.cat([floats["gate_proj"], floats["up_proj"]])
        experts.down_proj[expert] = floats["down_proj"]


def _mxfp4(name: str, experts: Any, generator: Any) -> Iterator[tuple[str, Any]]:
    """gpt-oss: codes [experts, rows, columns / 32, 16], and exponents of scales."""
    for part in ("gate_up_proj", "down_proj"):
        own = getattr(experts, part)
        count, columns, rows = own.shape
        codes = torch.randint(0, 256, (count, rows, columns // 2), generator=generator, dtype=torch.uint8)
        exponents = torch.randint(120, 124, (count, rows, columns // 32), generator=generator, dtype=torch.uint8)
        floats = check.unpacked_fp4(codes) * (exponents.float() - 127).exp2().repeat_interleave(32, 2)
        own.copy_(floats.transpose(1, 2))
        yield f"{name}.{part}_blocks", codes.reshape(count, rows, columns // 32, 16)
        yield f"{name}.{part}_scales", exponents
        yield f"{name}.{part}_bias", getattr(experts, f"{part}_bias").clone()


def write(kind: str, model: Any, folder: pathlib.Path) -> None:
    """Writes the experts' files and the config.json, and puts the same numbers into the model."""
    generator = torch.Generator().manual_seed(0)
    tensors: dict[str, Any] = {}
    for name, module in model.named_modules():
        if type(module).__name__.endswith("Experts"):
            made = _mxfp4(name, module, generator) if kind == "mxfp4" else _by_expert(kind, name, module, generator)
            tensors |= dict(made)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    config = model.config.to_dict() | {"architectures": [type(model).__name__], "dtype": "bfloat16"}
    config["quantization_config"] = {"quant_method": "mxfp4"} if kind == "mxfp4" else CONFIGS[kind][1]
    (folder / "config.json").write_text(json.dumps(config))
