# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Humming's indexed matmuls with its own heuristics, and vLLM's top-k, alignment and weighted sum, as in vLLM."""

import json
import math
from typing import Any

import humming
import torch
from humming.layer import HummingLayer, HummingLayerMethod
from humming.tune import get_heuristics_config
from vllm.model_executor.layers.fused_moe.moe_align_block_size import moe_align_block_size
from vllm.model_executor.layers.fused_moe.moe_fused_mul_sum import moe_fused_mul_sum

from moec.bench.case import BLOCK, GROUPS, Case, Inputs, Matrix, Tensor, Weights
from moec.bench.systems import Run
from moec.bench.systems.of_vllm import expert_map, routed

SILU = {"activation_type": "binary_split", "activation_impl": "(a / (1.f + expf(-a))) * b"}
BY_GROUP = {"dtype": "float8e4m3", "quant_mode": "dynamic_group", "group_size": BLOCK, "scale_dtype": "float32"}
# How Humming quantizes rows, by scheme; others keep 16 bits.
ACTIVATIONS: dict[str, dict[str, Any]] = {
    "fp8_block": BY_GROUP,
    "mxfp4_fp8_block": BY_GROUP,
    "fp8_channel": {"quant_method": "fp8", "activation_scheme": "dynamic"},
}
GEMM = {"use_batch_invariant": False, "use_f16_accum": False, "gemm_type": "indexed"}


def version() -> str:
    return str(humming.__version__)


class Linear:
    """One matmul of all experts."""

    def __init__(self, case: Case, matrix: Matrix) -> None:
        rows, columns = matrix.codes.shape[1], matrix.codes.shape[2] * (2 if case.scheme in GROUPS else 1)
        if case.scheme == "fp8_block":
            config: dict[str, Any] = {"quant_method": "fp8", "weight_block_size": (BLOCK, BLOCK)}
            tensors = {"weight": matrix.codes, "weight_scale_inv": matrix.scale}
        elif case.scheme == "fp8_channel":
            config = {
                "quant_method": "compressed-tensors", "format": "float-quantized", "type": "float", "num_bits": 8,
                "strategy": "channel",
            }  # fmt: skip
            tensors = {"weight": matrix.codes, "weight_scale": matrix.scale[..., None]}
        elif case.scheme in ("mxfp4_w4a16", "mxfp4_fp8_block"):
            config = {"quant_method": "mxfp4"}
            tensors = {"weight": matrix.codes, "weight_scale": matrix.scale}
        elif case.scheme == "nvfp4_w4a16":
            config = {"quant_method": "modelopt", "quant_algo": "nvfp4"}
            tensors = {"weight": matrix.codes, "weight_scale": matrix.scale, "weight_scale_2": matrix.second}
        else:
            group, _ = GROUPS[case.scheme]
            config = {
                "quant_method": "compressed-tensors", "format": "pack-quantized", "type": "int", "num_bits": 4,
                "strategy": "group", "group_size": group,
            }  # fmt: skip
            tensors = {"weight_packed": matrix.codes.view(torch.int32), "weight_scale": matrix.scale}
        activations = dict(ACTIVATIONS.get(case.scheme, {})) or None
        self.layer = HummingLayer(rows, columns, config, activations, num_experts=case.experts, torch_dtype=torch.bfloat16).cuda()
        self.layer.load_from_tensors(tensors)
        self.layer.transform()
        self.tuning = get_heuristics_config(layer_config=self.layer.humming_metas[""], gemm_type="indexed")
        self.words = json.dumps(GEMM), json.dumps(self.tuning)

    def rows_of_tile(self, pairs: int) -> int:
        for least, most, config in self.tuning:
            if least < pairs <= most:
                return int(config["block_shape"][0])
        return 64

    def activated(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """silu(gate) * up of rows [gate, up], quantized as this matmul's rows are, and the scales."""
        codes, of_groups, of_tokens = HummingLayerMethod.may_process_input(self.layer, rows, **SILU)
        return codes, of_tokens if of_groups is None else of_groups

    def __call__(
        self, rows: Tensor, places: tuple[Tensor, Tensor, Tensor], top_k: int, pairs: int, scale: Tensor = None
    ) -> Tensor:
        ids, experts, padded = places
        return self.layer(
            rows, input_scale=scale, sorted_ids=ids, expert_ids=experts, num_tokens_padded=padded, top_k=top_k,
            valid_shape_m=pairs, compute_config=self.words[0], tuning_config=self.words[1],
        )  # fmt: skip


def indexed(weights: Weights) -> Run:
    case = weights.case
    first, second = Linear(case, weights.first), Linear(case, weights.second)

    def run(inputs: Inputs) -> Tensor:
        shares, ids = routed(case, inputs)
        pairs = math.ceil(ids.numel() * case.experts / case.num_experts)

        def places(tile: int) -> tuple[Tensor, Tensor, Tensor]:
            made = moe_align_block_size(ids, tile, case.num_experts, expert_map(case), ignore_invalid_experts=True)
            return made[0], made[1], made[2]

        tiles = first.rows_of_tile(pairs), second.rows_of_tile(pairs)
        order = places(tiles[0])
        middle = first(inputs.x, order, case.top_k, pairs)
        rows, scales = second.activated(middle.view(ids.numel(), -1))
        last = second(rows, order if tiles[0] == tiles[1] else places(tiles[1]), 1, pairs, scales)
        out = torch.empty_like(inputs.x)
        moe_fused_mul_sum(
            inputs=last.view(*ids.shape, -1), topk_weights=shares, topk_ids=ids, expert_map=expert_map(case), outputs=out
        )
        return out

    return run


runs = {"humming": indexed}
