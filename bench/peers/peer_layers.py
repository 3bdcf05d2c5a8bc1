# ===- peer_layers.py - whole layers of other systems --------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Layers of peers.py: random weights, each peer's kernels from bf16 logits to the reduced bf16 output, and a reference in
float32. A peer is a function of weights that gives a layer: a function of x and logits. Needs PyTorch; nothing here touches a
GPU before it is called."""

import dataclasses
import typing

import torch

import peer_files

BLOCK = 128
# The norm of the difference over that of the reference. fp8 activations alone make 0.04.
TOLERANCE = {"bf16": 0.01, "fp8_block": 0.07, "fp8_channel": 0.07}
FP8 = torch.float8_e4m3fn


class Refusal(Exception):
    """Why a peer has no such layer."""


@dataclasses.dataclass
class Weights:
    """first: [experts, 2 width, hidden], gate before up; second: [experts, hidden, width]. Scales in float32, none of bf16."""

    scheme: str
    top_k: int
    first: typing.Any
    second: typing.Any
    first_scale: typing.Any = None
    second_scale: typing.Any = None

    @property
    def experts(self):
        return self.first.shape[0]


def by_block(matrix):
    rows, columns = matrix.shape
    blocks = matrix.float().view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
    scale = blocks.abs().amax((1, 3)) / 448
    return (blocks / scale[:, None, :, None]).view(rows, columns).to(FP8), scale


def by_channel(matrix):
    scale = matrix.float().abs().amax(1) / 448
    return (matrix.float() / scale[:, None]).to(FP8), scale


def dequantized(matrix, scale):
    if scale is None:
        return matrix.float()
    if scale.dim() == 1:
        return matrix.float() * scale[:, None]
    return matrix.float() * scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)


def random_matrices(scheme, experts, rows, columns, device):
    """One expert after another, so that several processes fit on the GPU."""
    quantized = {"bf16": lambda matrix: (matrix, None), "fp8_block": by_block, "fp8_channel": by_channel}[scheme]
    made = scales = None
    for expert in range(experts):
        matrix, scale = quantized(torch.randn(rows, columns, device=device, dtype=torch.bfloat16) * columns**-0.5)
        if made is None:
            made = matrix.new_empty(experts, *matrix.shape)
            scales = None if scale is None else scale.new_empty(experts, *scale.shape)
        made[expert] = matrix
        if scales is not None:
            scales[expert] = scale
    return made, scales


def random_weights(shape, scheme, device="cuda"):
    """shape: a row of benchlib.shapes()."""
    experts, hidden, width = shape["num_experts"], shape["hidden_size"], shape["intermediate_size_per_partition"]
    first, first_scale = random_matrices(scheme, experts, 2 * width, hidden, device)
    second, second_scale = random_matrices(scheme, experts, hidden, width, device)
    return Weights(scheme, shape["top_k"], first, second, first_scale, second_scale)


def distinct_logits(tokens, experts, device="cuda"):
    """bf16 logits of which no two of a token are equal, so that every peer chooses the same experts."""
    values = torch.linspace(-2, 2, experts, device=device).to(torch.bfloat16)
    return values[torch.rand(tokens, experts, device=device).argsort(1)]


def reference(weights, x, logits):
    odds, ids = logits.float().softmax(-1).topk(weights.top_k, -1)
    odds /= odds.sum(-1, keepdim=True)
    out = torch.zeros(x.shape, device=x.device)
    for expert in ids.unique().tolist():
        token, place = (ids == expert).nonzero(as_tuple=True)
        first, second = (dequantized(matrix[expert], None if scale is None else scale[expert]) for matrix, scale in
                         ((weights.first, weights.first_scale), (weights.second, weights.second_scale)))
        gate, up = (x[token].float() @ first.t()).chunk(2, -1)
        out.index_add_(0, token, (torch.nn.functional.silu(gate) * up) @ second.t() * odds[token, place, None])
    return out


def error_of(got, wanted):
    return ((got.float() - wanted).norm() / wanted.norm()).item()


def torch_layer(weights):
    """torch._grouped_mm and torch._scaled_grouped_mm between small Triton kernels."""
    import peer_kernels as kernels

    scaled = weights.scheme == "fp8_channel"
    first, second = weights.first.transpose(-2, -1), weights.second.transpose(-2, -1)

    def matmul(rows, scales, matrix, matrix_scales, ends):
        if scaled:
            return torch._scaled_grouped_mm(rows, matrix, scales, matrix_scales, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True)
        return torch._grouped_mm(rows, matrix, offs=ends)

    def layer(x, logits):
        odds, ids = kernels.route(logits, weights.top_k)
        places = kernels.Permutation(ids, weights.experts)
        rows, scales = places.scatter(*(kernels.quantize(x) if scaled else (x,)))
        middle = matmul(rows, scales, first, weights.first_scale, places.ends)
        rows, scales = kernels.activate(middle, scaled)
        return places.combine(matmul(rows, scales, second, weights.second_scale, places.ends), odds, torch.empty_like(x))

    return layer


def vllm_route(ops, x, logits, top_k):
    odds = x.new_empty(x.shape[0], top_k, dtype=torch.float32)
    ids, pairs = (x.new_empty(x.shape[0], top_k, dtype=torch.int32) for _ in range(2))
    ops.topk_softmax(odds, ids, pairs, logits, True)
    return odds, ids


def vllm_layer(weights, device_of_files=None):
    """The calls of vLLM's TritonExperts without adapters and transports. device_of_files: the GPU whose tuned file it takes, if
    this GPU has none."""
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.fused_moe import fused_moe
    from vllm.model_executor.layers.fused_moe.utils import moe_kernel_quantize_input

    top_k, block = weights.top_k, [BLOCK, BLOCK] if weights.scheme == "fp8_block" else None
    scaled, channel = weights.scheme != "bf16", weights.scheme == "fp8_channel"
    experts, both, hidden = weights.first.shape
    dtype = "fp8_w8a8" if scaled else None
    if device_of_files:
        take_files_of(fused_moe, weights, dtype, block, device_of_files)
    first_scale, second_scale = (scale[..., None] if channel else scale for scale in (weights.first_scale, weights.second_scale))

    def quantized(rows):
        return moe_kernel_quantize_input(rows, None, FP8 if scaled else None, channel, block)

    def layer(x, logits):
        tokens = x.shape[0]
        odds, ids = vllm_route(ops, x, logits, top_k)
        config = fused_moe.try_get_optimal_moe_config(weights.first.size(), weights.second.size(), top_k, dtype, tokens, block_shape=block)
        places = fused_moe._prepare_expert_assignment(ids, config, tokens, top_k, experts, None, block_shape=block)

        def matmul(rows, scales, matrix, matrix_scale, out, each, weighted):
            fused_moe.invoke_fused_moe_triton_kernel(
                rows, matrix, out, scales, matrix_scale, odds if weighted else None, *places, weighted, each, config,
                compute_type=fused_moe.tl.bfloat16, use_fp8_w8a8=scaled, use_int8_w8a8=False, use_int8_w8a16=False,
                use_int4_w4a16=False, per_channel_quant=channel, block_shape=block)
            return out

        middle = matmul(*quantized(x), weights.first, first_scale, x.new_empty(tokens, top_k, both), top_k, False).view(-1, both)
        if block:
            rows, scales = ops.silu_and_mul_per_block_quant(middle, group_size=BLOCK, quant_dtype=FP8)
        else:
            rows = x.new_empty(tokens * top_k, both // 2)
            torch.ops._C.silu_and_mul(rows, middle)
            rows, scales = quantized(rows)
        last = matmul(rows, scales, weights.second, second_scale, x.new_empty(tokens, top_k, hidden), 1, True)
        out = torch.empty_like(x)
        ops.moe_sum(last, out)
        return out

    return layer


def take_files_of(fused_moe, weights, dtype, block, device):
    """Makes vLLM take the tuned file of another GPU, for the rest of the process."""
    if getattr(fused_moe, "files_of", None) == device:
        return
    sizes = (weights.experts, weights.second.shape[2], dtype, *(block or (0, 0)))
    if fused_moe.get_moe_configs(*sizes) is not None:
        raise Refusal("this GPU has a tuned file of its own")
    fused_moe.get_moe_configs.cache_clear()
    fused_moe.get_device_name_as_file_name = lambda: device
    if fused_moe.get_moe_configs(*sizes) is None:
        raise Refusal(f"{device} has no tuned file, either")
    fused_moe.files_of = device


def deepgemm_layer(weights):
    """DeepGEMM's grouped contiguous matmuls: in fp8_block between the kernels that vLLM's DeepGemmExperts has, in bf16 between
    those of peer_kernels."""
    from vllm.utils import deep_gemm as gemm

    return deepgemm_bf16(weights, gemm) if weights.scheme == "bf16" else deepgemm_block(weights, gemm)


def deepgemm_bf16(weights, gemm):
    import peer_kernels as kernels

    align = gemm.get_mk_alignment_for_contiguous_layout()[0]
    grouped = gemm._import_deep_gemm().m_grouped_bf16_gemm_nt_contiguous

    def matmul(rows, matrix, owners):
        out = rows.new_empty(rows.shape[0], matrix.shape[1])
        grouped(rows, matrix, out, owners)
        return out

    def layer(x, logits):
        odds, ids = kernels.route(logits, weights.top_k)
        places = kernels.Permutation(ids, weights.experts, align)
        middle = matmul(places.scatter(x)[0], weights.first, places.owners)
        return places.combine(matmul(kernels.activate(middle, False)[0], weights.second, places.owners), odds, torch.empty_like(x))

    return layer


def deepgemm_block(weights, gemm):
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.fused_moe import deep_gemm_utils as rows_of
    from vllm.model_executor.layers.quantization.utils import fp8_utils

    def matmul(rows, scales, matrix, matrix_scale, owners):
        out = rows.new_empty(rows.shape[0], matrix.shape[1], dtype=torch.bfloat16)
        gemm.m_grouped_fp8_gemm_nt_contiguous((rows, scales), (matrix, matrix_scale), out, owners)
        return out

    def layer(x, logits):
        odds, ids = vllm_route(ops, x, logits, weights.top_k)
        rows, scales = fp8_utils.per_token_group_quant_fp8(x, BLOCK)
        rows, scales, owners, places, align = rows_of.deepgemm_moe_permute(
            aq=rows, aq_scale=scales, topk_ids=ids, local_num_experts=weights.experts, expert_map=None, expert_tokens_meta=None)
        with gemm.mk_alignment_scope(align):
            middle = matmul(rows, scales, weights.first, weights.first_scale, owners)
            rows, scales = fp8_utils.silu_mul_per_token_group_quant_fp8_colmajor(middle, use_ue8m0=False, group_size=BLOCK)
            last = matmul(rows, scales, weights.second, weights.second_scale, owners)
        out = torch.empty_like(x)
        rows_of.deepgemm_unpermute_and_reduce(a=last, topk_ids=ids, topk_weights=odds, inv_perm=places, expert_map=None, output=out)
        return out

    return layer


def load():
    """Imports what peers need, without a context on the GPU. {peer: (layer of weights, version)} and {peer: why it is missing}."""
    found, missing = {}, {}
    if hasattr(torch, "_grouped_mm"):
        found["torch"] = (torch_layer, torch.__version__)
    else:
        missing["torch"] = f"PyTorch {torch.__version__} has no torch._grouped_mm"
    try:
        version = peer_files.prepare()
        from vllm.model_executor.layers.fused_moe import deep_gemm_utils  # noqa: F401

        found["vllm"] = (vllm_layer, version)
        found["vllm_h200cfg"] = (lambda weights: vllm_layer(weights, "NVIDIA_H200"), version)
    except Exception as error:  # noqa: BLE001 an extension of another PyTorch fails in many ways
        missing.update(dict.fromkeys(("vllm", "vllm_h200cfg", "deepgemm"), f"{type(error).__name__}: {error}"))
        return found, missing
    try:
        from vllm.utils import deep_gemm

        module = deep_gemm._import_deep_gemm()
        if module is None:
            raise ImportError("vLLM finds no deep_gemm")
        found["deepgemm"] = (deepgemm_layer, getattr(module, "__version__", "unknown"))
    except Exception as error:  # noqa: BLE001
        missing["deepgemm"] = f"{type(error).__name__}: {error}"
    return found, missing
