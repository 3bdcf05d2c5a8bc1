# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layers that `moec doctor --gpu` checks."""

from typing import Any

# Token counts that cover row tiles of all heights, and experts without rows.
TOKENS = (1, 7, 33, 300)
# The token counts of the outputs in outputs.txt.
EXACT_TOKENS = (1, 33, 150)
EXACT_SHAPE = {"num_experts": 6, "top_k": 3, "hidden_size": 256, "intermediate_size": 128}
TIMED_TOKENS = (1, 32, 512)


def in_dtype(scheme: str) -> str:
    return scheme if scheme in ("f32", "f16") else "bf16"


def small_layer(scheme: str) -> dict[str, Any]:
    """Returns a small gated layer. Its hidden size, 384, is not a multiple of a tile of 256 weight rows."""
    shape = {"num_experts": 8, "top_k": 2, "hidden_size": 384, "intermediate_size": 256}
    words = {"routing_method": "renormalize", "activation": "silu", "quant_config": scheme}
    return {"moec_layer": 1, "name": "small", **shape, "in_dtype": in_dtype(scheme), **words}


def exact_layer(scheme: str) -> dict[str, Any]:
    """Returns a layer with an exact activation and given routing, for the values of numbers.py."""
    words = {"routing_method": "custom", "activation": "relu2", "quant_config": scheme}
    return {"moec_layer": 1, "name": "exact", **EXACT_SHAPE, "in_dtype": in_dtype(scheme), **words}


def model(scheme: str, experts: int, topk: int, hidden: int, intermediate: int) -> dict[str, Any]:
    shape = {"num_experts": experts, "top_k": topk, "hidden_size": hidden, "intermediate_size": intermediate}
    words = {"in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu", "quant_config": scheme}
    return {"moec_layer": 1, "name": "model", **shape, **words}


# Layers of models, with schemes of 16, 8 and 4 bits.
TIMED = (
    ("qwen3-30b-a3b", model("bf16", 128, 8, 2048, 768)),
    ("qwen3-30b-a3b", model("fp8_block", 128, 8, 2048, 768)),
    ("qwen3-30b-a3b", model("nvfp4", 128, 8, 2048, 768)),
    ("gpt-oss-20b", model("mxfp4_mxfp8", 32, 4, 2880, 2880)),
    ("qwen3-235b-a22b", model("mxfp4", 128, 8, 4096, 1536)),
)
