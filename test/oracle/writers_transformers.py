# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""fp8 checkpoints of transformers: Fp8Quantize, the operation of its fine-grained quantizer, and FineGrainedFP8Config.

The quantizer as a whole asks for a GPU. Its operation does not.
"""

import functools
import json
import pathlib
import types
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import FineGrainedFP8Config
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize

from written import LAYER, Case, Tensor, Written, inputs, make_model


def write(folder: pathlib.Path, **arguments: Any) -> Written:
    model = make_model()
    config = FineGrainedFP8Config(modules_to_not_convert=["lm_head", "mlp.gate", "self_attn"], **arguments)
    quantizer = types.SimpleNamespace(quantization_config=config)
    tensors: dict[str, Tensor] = {}
    for name, tensor in model.state_dict().items():
        if ".experts." in name:
            tensors |= Fp8Quantize(quantizer).convert({name: tensor})
        else:
            tensors[name] = tensor
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    model.config.quantization_config = config
    model.config.save_pretrained(folder)
    said = json.loads((folder / "config.json").read_text())["quantization_config"]
    if said["quant_method"] != "fp8":
        raise ValueError(f"expected quant_method fp8, got {said['quant_method']}")
    stored = load_file(folder / "model.safetensors")

    def weight(part: str, expert: int) -> Tensor:
        """Its own Fp8Dequantize computes in f32: the same in f64, compared with it."""
        prefix = f"model.layers.{LAYER}.mlp.experts.{expert}.{part}.weight"
        codes, stored_scale = stored[prefix], stored[f"{prefix}_scale_inv"]
        scale = stored_scale.double().reshape(-1, stored_scale.shape[-1])
        rows, columns = codes.shape[0] // scale.shape[0], codes.shape[1] // scale.shape[1]
        made = codes.double() * scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
        near = Fp8Dequantize(quantizer)._dequantize_one(codes, stored_scale)
        if float((near.double() - made).norm() / made.norm()) > 3e-3:
            raise ValueError(f"{prefix}: Fp8Dequantize says another weight")
        return made

    def rounding(rows: Tensor, part: str, expert: int) -> Tensor:
        group = 128 if arguments.get("weight_block_size") else rows.shape[1]
        groups = rows.float().unflatten(-1, (-1, group))
        if not arguments.get("weight_block_size"):
            # One scale for all rows: of x here, of the intermediate below.
            whole = rows if part == "down_proj" else inputs(rows.shape[1])[0]
            scale = whole.float().abs().max().reshape(1, 1, 1) / 448
        else:
            scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
        if arguments.get("scale_fmt") == "ue8m0":
            scale = torch.exp2(torch.ceil(torch.log2(scale)))
        codes = (groups / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        return (codes.double() * scale.double()).flatten(-2)

    return Written(folder, weight, rounding)


def cases() -> list[tuple[str, Case]]:
    library = f"transformers {transformers.__version__}"
    block = (128, 128)
    return [
        (library, Case("transformers-fp8-block", functools.partial(write, weight_block_size=block))),
        (library, Case("transformers-fp8-block-ue8m0", functools.partial(write, weight_block_size=block, scale_fmt="ue8m0"))),
        # moec has one scale for the intermediates of all experts, and the reference one for each expert.
        (library, Case("transformers-fp8-tensor", functools.partial(write, weight_block_size=None), limit=2e-2)),
    ]
