# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Triton, Marlin, DeepGEMM and CUTLASS kernels, called like its layers, with vLLM's top-k and sum."""

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
import vllm
from vllm import _custom_ops as ops
from vllm.model_executor.layers.fused_moe import config as configs
from vllm.model_executor.layers.fused_moe import fused_moe
from vllm.model_executor.layers.fused_moe.activation import MoEActivation

from moec.bench.case import BLOCK, GROUPS, Case, Inputs, Matrix, Tensor, Weights
from moec.bench.systems import Run, Unfit

FP8 = torch.float8_e4m3fn


def version() -> str:
    return str(vllm.__version__)


def routed(case: Case, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Returns weights and ids computed by vLLM's kernel, or the weights and ids of the inputs."""
    if not case.routes:
        return inputs.weights, inputs.ids
    tokens = inputs.x.shape[0]
    shares = inputs.x.new_empty(tokens, case.top_k, dtype=torch.float32)
    ids, pairs = (inputs.x.new_empty(tokens, case.top_k, dtype=torch.int32) for _ in range(2))
    ops.topk_softmax(shares, ids, pairs, inputs.logits, True)
    return shares, ids


@functools.cache
def expert_map(case: Case) -> Tensor | None:
    """Returns int32 [num_experts]: the local index of each expert, or -1. Returns None if all experts are on this rank."""
    if case.experts == case.num_experts:
        return None
    places = torch.full((case.num_experts,), -1, dtype=torch.int32, device="cuda")
    places[case.first_expert : case.first_expert + case.experts] = torch.arange(case.experts, dtype=torch.int32, device="cuda")
    return places


def triton(weights: Weights) -> Run:
    case, first, second = weights.case, weights.first, weights.second
    codes = first.codes, second.codes
    if case.scheme == "bf16":
        quant = None
    elif case.scheme == "int4_w4a16":
        group, _ = GROUPS[case.scheme]
        quant = configs.int4_w4a16_moe_quant_config(first.scale, second.scale, block_shape=[0, group])
    elif case.scheme == "fp8_block":
        quant = configs.fp8_w8a8_moe_quant_config(first.scale, second.scale, block_shape=[BLOCK, BLOCK])
    elif case.scheme == "int8_channel":
        scales = first.scale[..., None], second.scale[..., None]
        quant = configs.int8_w8a8_moe_quant_config(*scales, None, None, per_act_token_quant=True)
    else:
        scales = first.scale[..., None], second.scale[..., None]
        quant = configs.fp8_w8a8_moe_quant_config(*scales, per_act_token_quant=True, per_out_ch_quant=True)

    def run(inputs: Inputs) -> Tensor:
        shares, ids = routed(case, inputs)
        return fused_moe.fused_experts(
            inputs.x, *codes, shares, ids, global_num_experts=case.num_experts, expert_map=expert_map(case), quant_config=quant
        )

    return run


def marlin(weights: Weights) -> Run:
    from vllm.model_executor.layers.fused_moe.experts.marlin_moe import fused_marlin_moe
    from vllm.model_executor.layers.quantization.utils import marlin_utils, marlin_utils_fp4
    from vllm.scalar_type import scalar_types

    case = weights.case
    group, _ = GROUPS[case.scheme]
    second_scales = {}
    if case.scheme == "nvfp4_w4a16":
        kind = scalar_types.float4_e2m1f
        layer = types.SimpleNamespace(
            params_dtype=torch.bfloat16,
            num_experts=case.experts,
            hidden_size=case.hidden,
            intermediate_size_per_partition=case.width,
        )
        matrices = [each for matrix in (weights.first, weights.second) for each in (matrix.codes, matrix.scale, matrix.second)]
        first, first_scale, of_first, second, second_scale, of_second = marlin_utils_fp4.prepare_nvfp4_moe_layer_for_marlin(
            layer, *matrices, is_act_and_mul=True
        )
        second_scales = {"global_scale1": of_first, "global_scale2": of_second}
    elif case.scheme == "mxfp4_w4a16":
        kind = scalar_types.float4_e2m1f
        layer = types.SimpleNamespace(params_dtype=torch.bfloat16)
        first, second, first_scale, second_scale, *_ = marlin_utils_fp4.prepare_moe_mxfp4_layer_for_marlin(
            layer, weights.first.codes, weights.second.codes, weights.first.scale, weights.second.scale, None, None
        )
    else:
        kind = scalar_types.uint4b8

        def packed(matrix: Matrix) -> tuple[Tensor, Tensor]:
            words = matrix.codes.view(torch.int32).transpose(1, 2).contiguous()
            rows, columns = words.shape[1] * 8, words.shape[2]
            codes = ops.gptq_marlin_moe_repack(words, rows, columns, 4)
            scale = matrix.scale.transpose(1, 2).contiguous()
            return codes, marlin_utils.marlin_moe_permute_scales(s=scale, size_k=rows, size_n=columns, group_size=group)

        (first, first_scale), (second, second_scale) = packed(weights.first), packed(weights.second)

    def run(inputs: Inputs) -> Tensor:
        shares, ids = routed(case, inputs)
        return fused_marlin_moe(
            inputs.x, first, second, None, None, first_scale, second_scale, shares, ids, quant_type_id=kind.id,
            global_num_experts=case.num_experts, expert_map=expert_map(case), **second_scales,
        )  # fmt: skip

    return run


def deepgemm(weights: Weights) -> Run:
    from vllm.model_executor.layers.fused_moe import deep_gemm_utils
    from vllm.model_executor.layers.quantization.utils import fp8_utils
    from vllm.utils import deep_gemm

    case, first, second = weights.case, weights.first, weights.second
    if not deep_gemm.is_deep_gemm_supported():
        raise Unfit("vLLM finds no DeepGEMM for this GPU")

    def matmul(rows: Tensor, scales: Tensor, matrix: Matrix, ends: Tensor) -> Tensor:
        out = rows.new_empty(rows.shape[0], matrix.codes.shape[1], dtype=torch.bfloat16)
        # Selects the layout that skips rows without an expert, like vLLM's layers on this GPU.
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous((rows, scales), (matrix.codes, matrix.scale), out, ends, use_psum_layout=True)
        return out

    def run(inputs: Inputs) -> Tensor:
        shares, ids = routed(case, inputs)
        rows, scales = fp8_utils.per_token_group_quant_fp8(inputs.x, BLOCK)
        rows, scales, ends, places, align = deep_gemm_utils.deepgemm_moe_permute(
            aq=rows, aq_scale=scales, topk_ids=ids, local_num_experts=case.experts, expert_map=expert_map(case),
            expert_tokens_meta=None, use_psum_layout=True,
        )  # fmt: skip
        with deep_gemm.mk_alignment_scope(align):
            middle = matmul(rows, scales, first, ends)
            rows, scales = fp8_utils.silu_mul_per_token_group_quant_fp8_colmajor(
                middle, use_ue8m0=False, group_size=BLOCK, expert_ends=ends, expert_alignment=align
            )
            last = matmul(rows, scales, second, ends)
        out = torch.empty_like(inputs.x)
        deep_gemm_utils.deepgemm_unpermute_and_reduce(
            a=last, topk_ids=ids, topk_weights=shares, inv_perm=places, expert_map=expert_map(case), output=out
        )
        return out

    return run


def cutlass(weights: Weights) -> Run:
    from vllm.model_executor.layers.fused_moe.experts.cutlass_moe import run_cutlass_moe_fp8

    case, first, second = weights.case, weights.first, weights.second
    strides: Callable[[int], Tensor] = lambda columns: torch.full((case.experts,), columns, device="cuda", dtype=torch.int64)  # noqa: E731
    of_first, of_second, of_middle, of_out = (strides(each) for each in (case.hidden, case.width, 2 * case.width, case.hidden))
    scales = first.scale[..., None], second.scale[..., None]

    def run(inputs: Inputs) -> Tensor:
        shares, ids = routed(case, inputs)
        codes, code_scales = ops.scaled_fp8_quant(inputs.x, use_per_token_if_dynamic=True)
        pairs = ids.numel()
        workspaces = [inputs.x.new_empty(pairs, max(2 * case.width, case.hidden)) for _ in range(2)]
        out = torch.empty_like(inputs.x)
        run_cutlass_moe_fp8(
            out, codes, first.codes, second.codes, ids, MoEActivation.SILU, case.num_experts, expert_map(case), *scales,
            code_scales, None, of_first, of_second, of_middle, of_out, *workspaces, None, torch.bfloat16, True, True, False,
            shares, None,
        )  # fmt: skip
        return out

    return run


runs: dict[str, Callable[[Weights], Any]] = {"vllm": triton, "marlin": marlin, "deepgemm": deepgemm, "cutlass": cutlass}
