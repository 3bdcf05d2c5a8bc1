# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of NVIDIA's ModelOpt: Qwen3-MoE of transformers, quantized by its configs and exported by export_hf_checkpoint()."""

import copy
import functools
import importlib.metadata
import json
import pathlib
import warnings
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import Qwen3MoeForCausalLM

from written import EXPERTS, LAYER, LAYERS, PARTS, Case, Tensor, Written, make_config, make_model

TINY = torch.finfo(torch.float32).tiny


def transformers_model() -> Any:
    """The model of transformers, whose experts are one tensor, with the weights of the small model."""
    config = make_config()
    config.dtype = torch.bfloat16
    torch.manual_seed(3)
    model = Qwen3MoeForCausalLM(config).to(torch.bfloat16).eval()
    small = make_model()
    for layer in range(LAYERS):
        experts = model.model.layers[layer].mlp.experts
        for number in range(EXPERTS):
            gate, up, down = (
                small.get_submodule(f"model.layers.{layer}.mlp.experts.{number}.{part}").weight.data for part in PARTS
            )
            experts.gate_up_proj.data[number].copy_(torch.cat([gate, up]))
            experts.down_proj.data[number].copy_(down)
    return model


def scaled(rows: Tensor, scale: Tensor | float) -> Tensor:
    """Rows as e4m3 holds them with this scale."""
    codes = (rows.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return codes.double() * (scale.double() if isinstance(scale, torch.Tensor) else scale)


def e2m1(rows: Tensor) -> Tensor:
    """The nearest e2m1 numbers, ties to even."""
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    codes = NVFP4QTensor._cast_fp4(rows.float())
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
    made: Tensor = values[codes.long()]
    return made


class Reader:
    """The numbers of the exported file, by the rules of the library's formats."""

    def __init__(self, folder: pathlib.Path, algorithm: str) -> None:
        self.algorithm = algorithm
        self.tensors: dict[str, Tensor] = {}
        for path in sorted(folder.glob("*.safetensors")):
            self.tensors |= load_file(path)

    def get(self, part: str, expert: int, name: str) -> Tensor:
        return self.tensors[f"model.layers.{LAYER}.mlp.experts.{expert}.{part}.{name}"]

    def is_nested(self) -> bool:
        return "NVFP4" in self.algorithm

    def weight(self, part: str, expert: int) -> Tensor:
        stored, scale = self.get(part, expert, "weight"), self.get(part, expert, "weight_scale")
        if self.is_nested():
            return self.nvfp4(part, expert, stored, scale)
        if self.algorithm == "MXFP8":
            wide = torch.exp2(scale.double() - 127).repeat_interleave(32, 1)
            return (stored.double() * wide).to(torch.bfloat16).double()
        wide = scale.double()
        return stored.double() * (wide[:, None] if wide.dim() == 1 and wide.numel() > 1 else wide)

    def nvfp4(self, part: str, expert: int, stored: Tensor, scale: Tensor) -> Tensor:
        """The library's own dequantize(), in f64."""
        from modelopt.torch.quantization.qtensor import NVFP4QTensor

        shape = torch.Size([stored.shape[0], stored.shape[1] * 2])
        whole = self.get(part, expert, "weight_scale_2").double()
        made = NVFP4QTensor(shape, torch.float64, stored).dequantize(
            dtype=torch.float64, scale=scale.double(), double_scale=whole, block_sizes={-1: 16}
        )
        # moec multiplies numbers of 16 bits in their place.
        return made.to(torch.bfloat16).double()

    def input_scale(self, part: str) -> Tensor:
        """The largest of all experts, and of gate and up, as engines use it."""
        parts = ("gate_proj", "up_proj") if part != "down_proj" else ("down_proj",)
        return torch.stack([self.get(each, expert, "input_scale") for each in parts for expert in range(EXPERTS)]).max()

    def rounding(self, rows: Tensor, part: str, expert: int) -> Tensor:
        if self.algorithm == "FP8":
            return scaled(rows, self.input_scale(part))
        if self.algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
            return scaled(rows, rows.float().abs().amax(1, keepdim=True) / 448)
        if self.algorithm == "MXFP8":
            groups = rows.float().unflatten(-1, (-1, 32))
            scale = torch.exp2(torch.ceil(torch.log2(groups.abs().amax(-1, keepdim=True).clamp(min=TINY) / 448)))
            return scaled(groups, scale).flatten(-2)
        if self.algorithm == "NVFP4":
            return self.nested(rows, self.input_scale(part))
        raise ValueError(self.algorithm)

    @staticmethod
    def nested(rows: Tensor, whole: Tensor) -> Tensor:
        groups = rows.float().unflatten(-1, (-1, 16))
        scale = (groups.abs().amax(-1, keepdim=True) / 6 / whole).clamp(max=448).to(torch.float8_e4m3fn).float()
        codes = e2m1(torch.where(scale > 0, groups / (scale * whole).clamp(min=TINY), 0))
        return (codes * scale.double() * whole.double()).flatten(-2).to(torch.bfloat16).double()


def write(folder: pathlib.Path, config: str, algorithm: str) -> Written:
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    def calibrate(model: Any) -> None:
        with torch.no_grad():
            model(torch.randint(0, 32, (4, 32), generator=torch.Generator().manual_seed(2)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mtq.quantize(transformers_model(), copy.deepcopy(getattr(mtq, config)), calibrate)
        export_hf_checkpoint(model, export_dir=folder)
    said = json.loads((folder / "config.json").read_text()).get("quantization_config", {}).get("quant_algo")
    if algorithm and said != algorithm:
        raise ValueError(f"expected quant_algo {algorithm}, got {said}")
    reader = Reader(folder, algorithm)
    has_rounding = algorithm in ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "MXFP8", "NVFP4")
    return Written(folder, reader.weight, reader.rounding if has_rounding else None)


# The scale of a group of activations may lie between two e4m3 numbers, so that one row has another: 2e-2 of the whole.
NESTED = 4e-2
# Config, quant_algo, limit, refusal. W4A8_NVFP4_FP8 has groups of 32, and config.json does not say it.
CONFIGS = (
    ("FP8_DEFAULT_CFG", "FP8", 4e-3, ""),
    ("FP8_PER_CHANNEL_PER_TOKEN_CFG", "FP8_PER_CHANNEL_PER_TOKEN", 4e-3, ""),
    ("NVFP4_DEFAULT_CFG", "NVFP4", NESTED, ""),
    ("NVFP4_EXPERTS_ONLY_CFG", "NVFP4", NESTED, ""),
    ("W4A16_NVFP4_CFG", "W4A16_NVFP4", 4e-3, ""),
    ("W4A8_NVFP4_FP8_CFG", "W4A8_NVFP4_FP8", 4e-3, "expected f8E4M3FN [256, 24] for value 'w13_scale'"),
    ("MXFP8_DEFAULT_CFG", "MXFP8", 4e-3, ""),
    ("INT8_DEFAULT_CFG", "", 4e-3, "quant_algo"),
    ("FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", "", 4e-3, "quant_algo"),
)


def cases() -> list[tuple[str, Case]]:
    library = f"nvidia-modelopt {importlib.metadata.version('nvidia-modelopt')}"
    made = []
    for config, algorithm, limit, refused in CONFIGS:
        name = f"modelopt-{config.removesuffix('_CFG').lower().replace('_', '-')}"
        write_it = functools.partial(write, config=config, algorithm=algorithm)
        made.append((library, Case(name, write_it, limit, refused)))
    return made
