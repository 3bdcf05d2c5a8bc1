# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's Triton fused MoE, called like SGLang's layers, with SGLang's top-k."""

import functools
import importlib
from typing import Any

import sglang
import torch

from moec.bench.case import BLOCK, GROUPS, Case, Inputs, Tensor, Weights
from moec.bench.systems import Run, function_of

MOE = "sglang.srt.layers.moe"
FUSED = f"{MOE}.moe_runner.triton_utils.fused_moe"
fused_moe = function_of(
    sglang, FUSED, "fused_moe", "moe_runner_config", "use_fp8_w8a8", "use_int4_w4a16",
    "per_channel_quant", "w1_scale", "w2_scale", "block_shape",
)  # fmt: skip
fused_topk = function_of(sglang, f"{MOE}.topk", "fused_topk", "hidden_states", "gating_output", "topk", "renormalize")
top_k_output = function_of(sglang, f"{MOE}.topk", "StandardTopKOutput", "topk_weights", "topk_ids", "router_logits")
runner_config = function_of(sglang, f"{MOE}.moe_runner", "MoeRunnerConfig", "num_experts", "num_local_experts", "inplace")
get_context = function_of(sglang, "sglang.srt.runtime_context", "get_context")
get_parallel = function_of(sglang, "sglang.srt.runtime_context", "get_parallel")


def version() -> str:
    return str(sglang.__version__)


@functools.cache
def start() -> None:
    """Publishes the server arguments of a single rank, which SGLang's fused_moe reads."""
    get_context().override_server_args().install()
    # A single rank needs the name of its group, but does not use the group.
    home: Any = importlib.import_module(FUSED)
    if hasattr(home, "get_tp_group"):
        home.get_tp_group = lambda: None
    else:
        get_parallel().override_permanently(tp_group=object())


def local_ids(case: Case, device: Any) -> Tensor | None:
    """Returns int32 [num_experts]: the index of each expert on this rank, or -1, as in SGLang's dispatcher. Returns None if all
    experts are on this rank."""
    if case.experts == case.num_experts:
        return None
    made = torch.full((case.num_experts,), -1, dtype=torch.int32, device=device)
    made[case.first_expert : case.first_expert + case.experts] = torch.arange(case.experts, dtype=torch.int32, device=device)
    return made


def options_of(weights: Weights) -> dict[str, Any]:
    """Returns the arguments that describe how the weights are quantized."""
    case, first, second = weights.case, weights.first, weights.second
    if case.scheme == "bf16":
        return {}
    if case.scheme == "fp8_channel":
        scales = {"w1_scale": first.scale[..., None], "w2_scale": second.scale[..., None]}
        return scales | {"use_fp8_w8a8": True, "per_channel_quant": True}
    scales = {"w1_scale": first.scale, "w2_scale": second.scale}
    if case.scheme == "fp8_block":
        return scales | {"use_fp8_w8a8": True, "block_shape": [BLOCK, BLOCK]}
    return scales | {"use_int4_w4a16": True, "block_shape": [0, GROUPS[case.scheme][0]]}


def triton(weights: Weights) -> Run:
    start()
    case, options, places = weights.case, options_of(weights), local_ids(weights.case, weights.first.codes.device)
    config = runner_config(num_experts=case.num_experts, num_local_experts=case.experts, inplace=False)

    def run(inputs: Inputs) -> Tensor:
        shares, ids = inputs.weights, inputs.ids
        if case.routes:
            shares, ids = fused_topk(inputs.x, inputs.logits, case.top_k, True)
        if places is not None:
            ids = places[ids]
        routed = top_k_output(shares, ids, inputs.logits)
        return fused_moe(inputs.x, weights.first.codes, weights.second.codes, routed, moe_runner_config=config, **options)

    return run


runs = {"sglang": triton}
