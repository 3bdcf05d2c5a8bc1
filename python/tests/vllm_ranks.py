# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One of the ranks that test_vllm_ranks.py starts: data parallel over processes, each with its own tokens and experts.

    python vllm_ranks.py RANK RANKS PORT TRANSPORT [DEVICE]

TRANSPORT is vLLM's name of a transport, or "naive": vLLM's prepare and finalize for allgather_reducescatter with MoecExperts.
DEVICE is cpu, where collectives are gloo's and DeepEP is a stand-in, or cuda, where rank r has GPU r. There the transport is
allgather_reducescatter: moec moves tokens by NCCL, or vLLM does where scales are static. vLLM does not take torch's NCCL
2.28.9, and ran with 2.31.2 (VLLM_NCCL_SO_PATH).
It prints a line of JSON for each run: what ran, and the error as a part of the bound.
"""

import functools
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import vllm_files

COUNTS = ((5, 3), (4, 0), (1, 33))
GRAPH_TOKENS = 33
NAMES = ("bf16", "fp8 block", "gpt-oss", "GPTQ int4", "fp8 tensor, static")


def use_naive_kernel(layer: Any) -> None:
    """As a method with vLLM's modular kernel has it, for the transport whose tokens the runner would gather."""
    from vllm.model_executor.layers.fused_moe.prepare_finalize import make_moe_prepare_and_finalize_naive_dp_ep

    from moec.integrations._vllm_experts import kernel_of

    method, transport = layer.quant_method, make_moe_prepare_and_finalize_naive_dp_ep(False)
    method.moe_kernel = kernel_of(layer.moe_config, transport, method.moec_plan, method.moec_layer)


def part_of_bound(case: Any, got: Any, wanted: Any, bound: float, device: str) -> float:
    """The error over its bound.

    Tensor cores sum products of e4m3 with fewer bits than the reference. A number beside a rounding tie may get the next code
    there, which moves a token by some percent. With fp8 on a GPU the median of tokens counts, and a tenth bounds each token.
    """
    import vllm_layers as layers

    if device == "cpu" or not case.name.startswith("fp8"):
        return layers.error(got, wanted) / bound
    of_tokens = sorted(layers.error(mine, its) for mine, its in zip(got, wanted, strict=True))
    return max(of_tokens[len(of_tokens) // 2] / bound, of_tokens[-1] / 0.1)


def runs(engine: Any, rank: int, transport: str, device: str) -> Iterator[tuple[str, float]]:
    import torch
    import vllm_cases as cases
    import vllm_layers as layers
    from engine_gpu import replayed
    from vllm.forward_context import set_forward_context

    # DeepEP's low-latency kernels take some sizes alone.
    hidden = 2048 if transport == "deepep_low_latency" else layers.HIDDEN
    for case in cases.CASES:
        if case.name not in NAMES:
            continue
        with_shared = case.name == "bf16"
        shared = torch.nn.Linear(hidden, hidden, bias=False, dtype=torch.bfloat16, device=device)
        torch.nn.init.constant_(shared.weight, 1 / hidden)
        more: dict[str, Any] = {"shared_experts": shared} if with_shared else {}
        more |= {"custom_routing_function": layers.given, "hidden_size": hidden}
        built = layers.build(engine, case, device, has_bias=case.name == "gpt-oss", **more)
        layer = built.runner.routed_experts
        assert layer.local_num_experts == layers.EXPERTS // 2
        if transport == "naive":
            use_naive_kernel(layer)
        kernel = layer.quant_method.moe_kernel
        assert (kernel is not None) == (transport != "allgather_reducescatter")
        if kernel is not None:
            batched = transport == "deepep_low_latency"
            assert type(kernel.fused_experts).__name__ == ("MoecBatchedExperts" if batched else "MoecExperts")
        for counts in COUNTS:
            for only_first in (False, True):
                x, logits = layers.random_inputs(counts[rank], hidden=hidden, seed=sum(counts) + rank)
                if only_first:  # the experts of the second rank get nothing
                    logits[:, layers.EXPERTS // 2 :] = -1e9
                with set_forward_context(None, engine, num_tokens=len(x), num_tokens_across_dp=torch.tensor(counts)):
                    got = built.runner(x.to(device, copy=True), logits.to(device))
                assert got.shape == x.shape
                if not len(x):
                    continue
                wanted = layers.computed(built, case, x, *layers.softmax_top_k(logits, layers.TOP_K, True))
                bound = case.bound
                if with_shared:  # two sums in bf16: over ranks, and with the shared experts
                    wanted, bound = wanted + shared(x.to(device)).cpu().double(), 2 * bound
                yield f"{case.name}, {len(x)} tokens, {only_first=}", part_of_bound(case, got, wanted, bound, device)
        if device == "cuda" and layer.quant_method.moec_plan.moves and not with_shared:
            x, logits = layers.random_inputs(GRAPH_TOKENS, hidden=hidden, seed=rank)
            values = [[x.to(device), logits.to(device)], [x.flip(0).to(device), logits.flip(1).to(device)]]
            kept = [value.clone() for value in values[0]]
            counts = torch.tensor([GRAPH_TOKENS] * 2)
            with set_forward_context(None, engine, num_tokens=GRAPH_TOKENS, num_tokens_across_dp=counts):
                forward = functools.partial(built.runner, *kept)
                forward()
                for given, out in zip(values, replayed(forward, kept, values), strict=True):
                    wanted = layers.computed(built, case, given[0], *layers.softmax_top_k(given[1].cpu(), layers.TOP_K, True))
                    yield f"{case.name}, graph", part_of_bound(case, out, wanted, case.bound, device)


def main() -> None:
    rank, ranks, port, transport = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    device = sys.argv[5] if len(sys.argv) > 5 else "cpu"
    os.environ |= {"MOEC_VLLM": "force", "MOEC_PROGRESS": "0"}
    if device == "cuda":
        if transport != "allgather_reducescatter":
            sys.exit(f"vllm_ranks.py: on GPUs the transport is allgather_reducescatter, got {transport}")
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    if missing := vllm_files.prepare(device):
        sys.exit(missing)
    import torch
    import vllm_layers as layers

    from moec.integrations.vllm import register

    register()
    if device == "cpu":
        import vllm_transports

        vllm_transports.install()
    backend = "allgather_reducescatter" if transport == "naive" else transport
    with torch.no_grad():
        engine = layers.start(device, rank=rank, ranks=ranks, port=port, transport=backend)
        for what, part in runs(engine, rank, transport, device):
            print(json.dumps({"run": what, "part": part}), flush=True)


if __name__ == "__main__":
    main()
