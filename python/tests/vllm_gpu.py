#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Python layer with moec's plug-in on this machine's GPU, beside double precision.

Needs moec, torch, a GPU and vLLM's files (vllm_files.py). It prints a line for each scheme. The exit status is 1 where a result
differs. --device=cpu runs on the host device what needs no GPU, --only=WORD the schemes whose name holds the word.
"""

import os
import sys
from typing import Any

import vllm_files
from engine_gpu import COUNTS, Errors, arguments, device_name, replayed, report


def inputs(layers: Any, tokens: int, device: str) -> tuple[Any, Any]:
    x, logits = layers.random_inputs(tokens)
    return x.to(device), logits.to(device)


def errors(layers: Any, engine: Any, case: Any, device: str, *, routes: bool) -> Errors:
    from engine_layers import realized
    from vllm.forward_context import set_forward_context

    biases = case.name in ("bf16", "gpt-oss")
    built = layers.build(engine, case, device, has_bias=biases, custom_routing_function=None if routes else layers.given)
    method = built.runner.routed_experts.quant_method
    assert (type(method).__name__, method.moec_plan.scheme.name, method.is_monolithic) == (case.method, case.scheme, routes)
    case = realized(case, method.moec_plan.realization)

    def wanted(x: Any, logits: Any) -> Any:
        return layers.computed(built, case, x, *layers.softmax_top_k(logits.cpu(), layers.TOP_K, True))

    with set_forward_context(None, engine):
        for tokens in COUNTS:
            x, logits = inputs(layers, tokens, device)
            yield f"{tokens} tokens", layers.error(built.runner(x.clone(), logits), wanted(x, logits)) / case.bound
        if device == "cpu":
            return
        # A graph of 33 tokens, replayed over other ones.
        x, logits = inputs(layers, 33, device)
        values = [[x.clone(), logits.clone()], [x.flip(0).contiguous(), logits.flip(1).contiguous()]]
        for given_now, out in zip(values, replayed(lambda: built.runner(x, logits), [x, logits], values), strict=True):
            yield "graph", layers.error(out, wanted(*given_now)) / case.bound


def ranks(layers: Any, engine: Any, case: Any, device: str) -> Errors:
    """Expert parallel over three ranks, one after the other, with vLLM's map of experts. For some schemes: each compiles."""
    from unittest import mock

    if case.name not in ("bf16", "fp8 block", "gpt-oss"):
        return
    x, logits = inputs(layers, 33, device)
    ids, weights = layers.softmax_top_k(logits.cpu(), layers.TOP_K, True)
    where = "vllm.model_executor.layers.fused_moe.config.get_tensor_model_parallel_rank"
    for rank in range(3):
        with mock.patch(where, return_value=rank), mock.patch.object(engine.parallel_config, "enable_expert_parallel", True):
            built = layers.build(engine, case, device, tp_size=3)
        layer = built.runner.routed_experts
        local = [expert for expert, place in enumerate(layer._expert_map.tolist()) if place >= 0]
        wanted = layers.computed(built, case, x, ids, weights, local)
        got = layer.quant_method.apply(layer, x, weights.float().to(device), ids.int().to(device), None, None)
        yield f"rank {rank}", layers.error(got, wanted) / case.bound
        yield f"rank {rank}, logits", layers.error(layer.quant_method.apply_monolithic(layer, x, logits), wanted) / case.bound


def modular(layers: Any, engine: Any, case: Any, device: str) -> Errors:
    """moec's experts in vLLM's modular kernel, without a transport. Some ids are those of no expert."""
    if case.name not in ("bf16", "fp8 block", "gpt-oss", "GPTQ int4"):
        return
    built = layers.build(engine, case, device, has_bias=case.name == "gpt-oss")
    kernel = layers.Kernel(built)
    for tokens in COUNTS:
        x, logits = inputs(layers, tokens, device)
        ids, weights = layers.softmax_top_k(logits.cpu(), layers.TOP_K, True)
        ids[1::3, 0] = -1
        wanted = layers.computed(built, case, x, ids, weights, list(range(layers.EXPERTS)))
        got = kernel(x, weights.float().to(device), ids.to(device))
        yield f"modular kernel, {tokens} tokens", layers.error(got, wanted) / case.bound


def main() -> int:
    options = arguments(__doc__)
    os.environ["MOEC_VLLM"] = "force"
    if missing := vllm_files.prepare(options.device):
        sys.exit(missing)
    import torch
    import vllm_cases as cases
    import vllm_layers as layers

    from moec.integrations.vllm import register

    register()
    engine = layers.start(options.device)
    without_gate = cases.CASES[0]._replace(name="bf16, relu2, no gate", act="relu2_no_mul")
    every = (*cases.CASES, without_gate) if options.device == "cuda" else cases.CASES

    def sources(case: Any) -> tuple[Errors, ...]:
        return (
            errors(layers, engine, case, options.device, routes=True),
            errors(layers, engine, case, options.device, routes=False),
            ranks(layers, engine, case, options.device),
            modular(layers, engine, case, options.device),
        )

    where = f"vLLM's Python layer, vLLM {vllm_files.VERSION}, torch {torch.__version__}, {device_name(options.device)}"
    return report(where, [case for case in every if options.only in case.name], sources)


if __name__ == "__main__":
    sys.exit(main())
