#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small Qwen3-MoE model with random weights: moec against transformers' own experts, on the processor and on a GPU.

    pip install dist/moec-*.whl torch transformers
    python3 examples/python/transformers_moe.py

On the processor moec runs its host device, which is for tests: its times mean nothing.
"""

import time
from typing import Any

import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

import moec.integrations.transformers

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "moe_intermediate_size": 128,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
}
NEW_TOKENS = 16


def run(model: Any, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Logits, generated tokens, and milliseconds for each of them."""
    with torch.no_grad():
        logits = model(ids).logits.float()
        options = {"do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
        model.generate(ids, max_new_tokens=2, **options)
        begin = time.monotonic()
        tokens = model.generate(ids, max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, **options)[:, ids.shape[1] :].cpu()
        return logits, tokens, (time.monotonic() - begin) / NEW_TOKENS * 1e3


def compare(device: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES)).to(device, dtype).eval()
    ids = torch.randint(0, SIZES["vocab_size"], (2, 32), device=device)

    model.set_experts_implementation("eager")
    logits, tokens, eager_ms = run(model, ids)
    report = moec.integrations.transformers.attach(model, max_tokens=256)
    moec_logits, moec_tokens, moec_ms = run(model, ids)

    error = float((moec_logits - logits).norm() / logits.norm())
    same = float((tokens == moec_tokens).float().mean())
    name = str(dtype).removeprefix("torch.")
    print(f"{device:9} {name:9} {len(report.rows):6} {error:14.1e} {100 * same:13.0f} % {eager_ms:9.1f} {moec_ms:9.1f}")
    assert error < 0.05, "moec's logits differ from transformers'"


def main() -> None:
    print("device    type      layers logits' error  equal tokens  eager ms   moec ms")
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        for dtype in (torch.float32, torch.bfloat16):
            compare(device, dtype)


if __name__ == "__main__":
    main()
