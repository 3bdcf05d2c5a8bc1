# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers whose experts are moved: a layer JSON for each scheme, and random weights in any order of experts."""

from typing import Any

import torch
from support import random_value

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 6, 2, 256, 128
ORDER = [3, 0, 5, 5, 1, 3]
INTEGERS = {"int4_w4a16": "gptq", "int4_zp_w4a16": "awq", "int8_w8a16": "pack_quantized", "int8_zp_w8a16": "pack_quantized"}
SOURCE: dict[str, Any] = {
    "moec_layer": 1,
    "name": "rows",
    "num_experts": EXPERTS,
    "top_k": TOP_K,
    "hidden_size": HIDDEN,
    "intermediate_size": INTERMEDIATE,
    "in_dtype": "bf16",
    "routing_method": "custom",
    "activation": "silu",
    "has_bias": True,
}


def source_of(scheme: str) -> dict[str, Any]:
    own: dict[str, Any] = {"f32": {"in_dtype": "f32"}, "f16": {"in_dtype": "f16"}}.get(scheme, {})
    if scheme in INTEGERS:
        own = {"quant_config": {"scheme": scheme, "group_size": 32}, "stored_layout": INTEGERS[scheme]}
    return SOURCE | {"quant_config": scheme} | own


def stored_weights(package: Any, order: list[int], seed: int = 3, device: str = "cpu") -> dict[str, Any]:
    """Random weights of EXPERTS experts, in this order."""
    weights = {}
    for name, value in package.values.items():
        if value.role == "stored_weight":
            made = torch.from_numpy(random_value(package, name, seed=seed))
            if value.element_types[0] == "i32":  # words of codes
                generator = torch.Generator().manual_seed(seed)
                made = torch.randint(-(2**31), 2**31, made.shape, dtype=torch.int32, generator=generator)
            weights[name] = (made if name.startswith("a") else made[order].contiguous()).to(device)
    return weights
