# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""FlashInfer's fused MoE: CUTLASS kernels with the top-k of moec.bench.glue, and TensorRT-LLM kernels with their own top-k. In
the first run with a token count, FlashInfer measures its tactics (kernel configurations). The rows of its first matmul are [up,
gate]."""

import functools
from collections.abc import Callable
from typing import Any

import flashinfer
import torch

from moec.bench import glue
from moec.bench.case import BLOCK, Case, Inputs, Tensor, Weights
from moec.bench.systems import Run, Unfit, function_of

autotune = function_of(flashinfer, "flashinfer", "autotune", "tune_mode", "tuning_buckets")
cutlass_fused_moe = function_of(
    flashinfer, "flashinfer.fused_moe", "cutlass_fused_moe", "quant_scales", "ep_size", "ep_rank", "use_deepseek_fp8_block_scale",
    "use_w4_group_scaling", "output",
)  # fmt: skip
SM90, SM100 = (9, 0), (10, 0)
RENORMALIZE = 1  # RoutingMethodType: top-k, then softmax


def version() -> str:
    return str(flashinfer.__version__)


def ups_first(rows: Tensor) -> Tensor:
    """Reorders rows [gate, up] to [up, gate]."""
    gates, ups = rows.chunk(2, 1)
    return torch.cat((ups, gates), 1)


def tuned(call: Callable[[Inputs], Tensor]) -> Run:
    """Measures tactics in the first run with a token count, and uses the fastest tactic in later runs with this token count."""
    seen: set[int] = set()

    def run(inputs: Inputs) -> Tensor:
        tokens = inputs.x.shape[0]
        first = tokens not in seen
        seen.add(tokens)
        with autotune(first, tuning_buckets=(tokens,)):
            return call(inputs)

    return run


def check_multiples(case: Case, multiple: int) -> None:
    if case.hidden % multiple or case.width % multiple:
        raise Unfit(f"{case.scheme} only with a hidden and an intermediate size that {multiple} divides")


def cutlass(weights: Weights) -> Run:
    case, first, second = weights.case, weights.first, weights.second
    if case.num_experts % case.experts or case.first_expert % case.experts:
        raise Unfit("only ranks of equally many experts")
    if case.scheme != "bf16" and torch.cuda.get_device_capability() != SM90:
        raise Unfit(f"{case.scheme} on sm_90 only")
    codes, scales, options = (ups_first(first.codes), second.codes), [], {}
    if case.scheme == "fp8_block":
        check_multiples(case, BLOCK)
        scales, options = [ups_first(first.scale), second.scale], {"use_deepseek_fp8_block_scale": True}
    elif case.scheme == "mxfp4_w4a16":
        check_multiples(case, BLOCK)
        interleave: Callable[..., Any] = functools.partial(function_of, flashinfer, "flashinfer.fused_moe")
        of_weights = interleave("interleave_moe_weights_for_sm90_mixed_gemm", "quant_type")
        of_scales = interleave("interleave_moe_scales_for_sm90_mixed_gemm", "group_size")
        codes = (of_weights(codes[0], "fp4"), of_weights(codes[1], "fp4"))
        scales = [of_scales(each).view(torch.int32) for each in (ups_first(first.scale), second.scale)]
        options = {"use_w4_group_scaling": True}

    def call(inputs: Inputs) -> Tensor:
        shares, ids = glue.route(inputs.logits, case.top_k) if case.routes else (inputs.weights, inputs.ids)
        out = torch.empty_like(inputs.x)
        cutlass_fused_moe(
            inputs.x, ids, shares, *codes, inputs.x.dtype, quant_scales=scales, ep_size=case.num_experts // case.experts,
            ep_rank=case.first_expert // case.experts, output=out, **options,
        )  # fmt: skip
        return out

    return tuned(call)


def trtllm(weights: Weights) -> Run:
    case, first, second = weights.case, weights.first, weights.second
    if torch.cuda.get_device_capability() != SM100:
        raise Unfit("on sm_100 only")
    if not case.routes:
        raise Unfit("only layers that route by softmax, top-k and renormalization")
    check_multiples(case, BLOCK)
    moe = function_of(
        flashinfer, "flashinfer.fused_moe", "trtllm_fp8_block_scale_moe", "local_expert_offset", "local_num_experts",
        "routing_method_type", "use_shuffled_weight",
    )  # fmt: skip
    codes, scale = ups_first(first.codes), ups_first(first.scale)

    def call(inputs: Inputs) -> Tensor:
        rows, row_scales = glue.quantize_groups(inputs.x, BLOCK)
        made: Tensor = moe(
            routing_logits=inputs.logits, routing_bias=None, hidden_states=rows, hidden_states_scale=row_scales,
            gemm1_weights=codes, gemm1_weights_scale=scale, gemm2_weights=second.codes, gemm2_weights_scale=second.scale,
            num_experts=case.num_experts, top_k=case.top_k, n_group=None, topk_group=None, intermediate_size=case.width,
            local_expert_offset=case.first_expert, local_num_experts=case.experts, routed_scaling_factor=None,
            routing_method_type=RENORMALIZE, use_shuffled_weight=False,
        )  # fmt: skip
        return made

    return tuned(call)


runs = {"flashinfer": cutlass, "trtllm": trtllm}
