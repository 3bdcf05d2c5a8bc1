# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The experts of transformers' models in their grouped_mm implementation, with the routing of moec.bench.glue."""

import types

import torch
import transformers
from transformers.integrations import moe

from moec.bench import glue
from moec.bench.case import Inputs, Tensor, Weights
from moec.bench.systems import Run, Unfit


def version() -> str:
    if not hasattr(moe, "grouped_mm_experts_forward"):
        raise ImportError(f"transformers {transformers.__version__} has no grouped_mm_experts_forward")
    return str(transformers.__version__)


def experts(weights: Weights) -> Run:
    case = weights.case
    if case.experts != case.num_experts:
        raise Unfit("only layers with all experts")

    def gated(rows: Tensor) -> Tensor:
        gate, up = rows.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    # The members of a module that the function reads.
    module = types.SimpleNamespace(
        num_experts=case.experts,
        has_gate=True,
        has_bias=False,
        has_post_expert_norm=False,
        is_transposed=False,
        _is_expert_parallel=False,
        gate_up_proj=weights.first.codes,
        down_proj=weights.second.codes,
        _apply_gate=gated,
    )

    def run(inputs: Inputs) -> Tensor:
        shares, ids = glue.route(inputs.logits, case.top_k) if case.routes else (inputs.weights, inputs.ids)
        return moe.grouped_mm_experts_forward(module, inputs.x, ids.long(), shares.to(inputs.x.dtype))

    return run


runs = {"transformers": experts}
