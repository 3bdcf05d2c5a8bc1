# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch's grouped matmuls with the Triton kernels of moec.bench.glue."""

import torch

from moec.bench import glue
from moec.bench.case import Inputs, Matrix, Tensor, Weights
from moec.bench.systems import Run


def version() -> str:
    if not hasattr(torch, "_grouped_mm"):
        raise ImportError(f"PyTorch {torch.__version__} has no torch._grouped_mm")
    return str(torch.__version__)


def grouped(weights: Weights) -> Run:
    case, scaled = weights.case, weights.case.scheme == "fp8_channel"

    def matmul(rows: Tensor, scales: Tensor, matrix: Matrix, ends: Tensor) -> Tensor:
        codes = matrix.codes.transpose(-2, -1)
        if scaled:
            return torch._scaled_grouped_mm(  # type: ignore[attr-defined]
                rows, codes, scales, matrix.scale, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
            )
        return torch._grouped_mm(rows, codes, offs=ends)  # type: ignore[attr-defined]

    def run(inputs: Inputs) -> Tensor:
        shares, ids = glue.route(inputs.logits, case.top_k) if case.routes else (inputs.weights, inputs.ids)
        places = glue.Permutation(ids, case.first_expert, case.experts)
        rows, scales = places.scatter(*(glue.quantize(inputs.x) if scaled else (inputs.x,)))
        middle = matmul(rows, scales, weights.first, places.ends)
        rows, scales = glue.activate(middle, scaled)
        return places.combine(matmul(rows, scales, weights.second, places.ends), shares, torch.empty_like(inputs.x))

    return run


runs = {"torch": grouped}
