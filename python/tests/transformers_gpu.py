# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every experts class of the installed transformers by moec on a GPU, beside the class's own forward there.

    python python/tests/transformers_gpu.py [--device=cpu] [--only=WORD]

FP8Experts is compared with activations rounded in f32. Both need torch, transformers and moec, and no compiled kernels.
"""

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import engine_gpu
import torch
import transformers
import transformers_models as models
from transformers_models import HIDDEN, LIMIT, TOP_K

import moec.integrations.transformers as integration

# Why a class is not served is in docs/how-to/transformers.md.
REFUSED = ("MuseSparkExperts",)
# Sums of 8-bit operands keep fewer bits than f32 on a GPU, so that some activations round to another code.
LIMIT_FP8 = 1.2e-2
FP8 = {"fp8_block": {"block_size": (128, 128)}, "fp8_tensor_token": {"block_size": None}}


class Case(NamedTuple):
    name: str
    module: str
    bound: float


def cases(word: str) -> list[Case]:
    served = [Case(name, module, LIMIT) for module, name in models.experts_classes() if name not in REFUSED]
    fp8 = [Case(f"FP8Experts, {scheme}", scheme, LIMIT_FP8) for scheme in FP8]
    return [case for case in served + fp8 if word in case.name]


def errors(case: Case, device: str) -> engine_gpu.Errors:
    inputs = {tokens: [tensor.to(device) for tensor in models.routed(tokens)] for tokens in engine_gpu.COUNTS}
    if case.module in FP8:
        options: Any = FP8[case.module]
        experts = models.fp8_module(models.fp8_config(moe_intermediate_size=128), **options).to(device)
        group = 128 if options["block_size"] else HIDDEN
        expected = {tokens: models.of_fp8(experts, *given, group=group) for tokens, given in inputs.items()}
    else:
        experts = models.experts_module(case.module, case.name).to(device)
        expected = {tokens: models.eager(experts, *given) for tokens, given in inputs.items()}
    integration.attach(experts, top_k=TOP_K, max_tokens=256)
    for tokens, given in inputs.items():
        yield f"{tokens} tokens", models.error(experts(*given), expected[tokens]) / case.bound


def main() -> int:
    asked = engine_gpu.arguments(__doc__)

    def sources(case: Case) -> Iterable[engine_gpu.Errors]:
        return [errors(case, asked.device)]

    title = f"torch {torch.__version__}, transformers {transformers.__version__}, {engine_gpu.device_name(asked.device)}"
    return engine_gpu.report(title, cases(asked.only), sources)


if __name__ == "__main__":
    sys.exit(main())
