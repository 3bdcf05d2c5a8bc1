#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's Python layer with moec's plug-in on this machine's GPU, beside double precision.

Needs moec, torch, a GPU and SGLang's files (sglang_files.py). It prints a line for each scheme. The exit status is 1 where a
result differs. --device=cpu runs on the host device what needs no GPU, --only=WORD the schemes whose name holds the word.
"""

import os
import sys
from typing import Any

import sglang_files
from engine_gpu import COUNTS, Errors, arguments, device_name, replayed, report


def inputs(layers: Any, built: Any, tokens: int, device: str) -> list[Any]:
    """x, ids and weights."""
    x, ids, weights = layers.inputs(tokens)
    return [x.to(device, built.runner.params_dtype), ids.int().to(device), weights.float().to(device)]


def errors(layers: Any, case: Any, device: str) -> Errors:
    built = layers.build(case, device, has_bias=case.name in ("bf16", "gpt-oss"))
    method = built.runner.quant_method
    assert (type(method).__name__, method.moec_plan.scheme.name) == (case.method, case.scheme)

    def error(got: Any, given: Any) -> float:
        return float(layers.error(got, layers.computed(built, case, *given)) / case.bound)

    for tokens in COUNTS:
        given = inputs(layers, built, tokens, device)
        yield f"{tokens} tokens", error(layers.forward(built.runner, *given), given)
    if device == "cpu":
        return
    # A graph of 33 tokens, replayed over other ones.
    kept = inputs(layers, built, 33, device)
    values = [[each.clone() for each in kept], [each.flip(0).contiguous() for each in kept]]
    outs = replayed(lambda: layers.forward(built.runner, *kept), kept, values)
    for given, out in zip(values, outs, strict=True):
        yield "graph", error(out, given)


def ranks(layers: Any, case: Any, device: str) -> Errors:
    """Expert parallel over two ranks, one after the other, with SGLang's dispatcher. For some schemes: each compiles."""
    if case.name not in ("bf16", "fp8 block", "gpt-oss"):
        return
    for rank in range(2):
        with layers.rank(device, moe_ep_size=2, moe_ep_rank=rank):
            built = layers.build(case, device)
            given = inputs(layers, built, 33, device)
            got = layers.forward(built.runner, *given)
        local = list(range(layers.EXPERTS // 2 * rank, layers.EXPERTS // 2 * (rank + 1)))
        yield f"rank {rank}", layers.error(got, layers.computed(built, case, *given, local)) / case.bound


def main() -> int:
    options = arguments(__doc__)
    os.environ["MOEC_SGLANG"] = "force"
    if missing := sglang_files.prepare():
        sys.exit(missing)
    import sglang_layers as layers
    import torch
    from sglang.srt.plugins.hook_registry import HookRegistry

    from moec.integrations.sglang import register

    register()
    HookRegistry.apply_hooks()
    layers.start()

    def sources(case: Any) -> tuple[Errors, ...]:
        return errors(layers, case, options.device), ranks(layers, case, options.device)

    where = f"SGLang's Python layer, SGLang {sglang_files.VERSION}, torch {torch.__version__}, {device_name(options.device)}"
    return report(where, [case for case in layers.CASES if options.only in case.name], sources)


if __name__ == "__main__":
    sys.exit(main())
