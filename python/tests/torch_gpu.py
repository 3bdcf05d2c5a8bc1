#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The operations and modules of moec.torch on this machine's GPU, beside f32 of torch.

Needs moec, torch and a GPU alone. It prints a line for each check and a table of times last. The exit status is 1 where a check
failed. --device=cpu runs the checks that need no GPU over a small layer, --only=WORD those whose name holds the word.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import moec
from moec.torch import Experts, functional, fused_experts

# Relative Frobenius error of bf16 against f32 with the same bf16 weights.
LIMIT = 0.006
CHECKS: "list[tuple[str, bool, Callable[[Any], Iterator[str]]]]" = []


class Times(NamedTuple):
    tokens: int
    host: float
    """Microseconds of the processor's time of a call."""
    graph: float
    """Microseconds of a replay of a captured call."""


class Layer:
    """Weights of experts, and what they compute."""

    def __init__(self, device: str) -> None:
        small = device == "cpu"
        self.device = device
        self.experts, self.top_k, self.hidden, self.inner = (8, 2, 128, 96) if small else (64, 6, 2048, 1024)
        self.most = 64 if small else 1024
        self.counts = (1, 2, 7, 33, 64) if small else (1, 2, 7, 33, 64, 200, 1000)
        self.w13, self.w2 = self.weights(1)
        self.made = Experts.from_weights(self.w13, self.w2, top_k=self.top_k, max_tokens=self.most)
        self.times: list[Times] = []

    def random(self, *shape: int, seed: int) -> torch.Tensor:
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(*shape, generator=generator, device=self.device)

    def weights(self, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        w13 = self.random(self.experts, 2 * self.inner, self.hidden, seed=seed) / self.hidden**0.5
        w2 = self.random(self.experts, self.hidden, self.inner, seed=seed + 1000) / self.inner**0.5
        return w13.bfloat16(), w2.bfloat16()

    def inputs(self, tokens: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        x = self.random(tokens, self.hidden, seed=seed).bfloat16()
        shares, ids = self.random(tokens, self.experts, seed=seed + 1).softmax(-1).topk(self.top_k, -1)
        return x, ids, shares / shares.sum(-1, keepdim=True)

    def wanted(self, x: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor, weights: Any = None) -> torch.Tensor:
        w13, w2 = weights or (self.w13, self.w2)
        out = torch.zeros(x.shape, device=self.device)
        for expert in ids.unique().tolist():
            token, which = torch.where(ids == expert)
            gate, up = (x[token].float() @ w13[expert].float().T).chunk(2, -1)
            inner = (torch.nn.functional.silu(gate) * up) @ w2[expert].float().T
            out.index_add_(0, token, inner * shares[token, which, None].float())
        return out

    def near(self, got: torch.Tensor, wanted: torch.Tensor, what: str) -> str:
        error = float((got.float() - wanted).norm() / wanted.norm())
        assert error < LIMIT, f"{what}: relative error {error:.4f}, at most {LIMIT} is right"
        return f"{what}: error {error:.4f}"


def check(name: str, *, gpu: bool = True) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        CHECKS.append((name, gpu, function))
        return function

    return add


@check("runs", gpu=False)
def runs(layer: Layer) -> Iterator[str]:
    for tokens in layer.counts:
        given = layer.inputs(tokens, seed=tokens)
        out = layer.made(*given)
        yield layer.near(out, layer.wanted(*given), f"{tokens} tokens")
        other = torch.empty_like(out)
        torch.ops.moec.run_out(layer.made.number, given[0], None, *given[1:], None, other)
        assert torch.equal(out, other), "run_out differs from run"


@check("graphs without a reserve by the caller")
def graphs(layer: Layer) -> Iterator[str]:
    captured = []
    for tokens in (1, 8, 64, 512):
        given = layer.inputs(tokens)
        graph = torch.cuda.CUDAGraph()
        # No run of these counts came before: the capture itself must need nothing new.
        with torch.cuda.graph(graph):
            out = layer.made(*given)
        captured.append((tokens, graph, given, out))
    for seed in (1, 2, 3):
        for tokens, graph, given, out in captured:
            for old, new in zip(given, layer.inputs(tokens, seed=seed * 100 + tokens), strict=True):
                old.copy_(new)
            layer.made(*layer.inputs(33, seed=seed))
            graph.replay()
            said = layer.near(out, layer.wanted(*given), f"{tokens} tokens, replay {seed}")
            if seed == 3:
                yield said


@check("a graph replays beside eager runs on another stream")
def graph_beside_eager(layer: Layer) -> Iterator[str]:
    given, other = layer.inputs(64, seed=5), layer.inputs(300, seed=6)
    wanted = layer.wanted(*given), layer.wanted(*other)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.graph(graph):
        out = layer.made(*given)
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        graph.replay()
        with torch.cuda.stream(stream):
            results.append(layer.made(*other))
    torch.cuda.synchronize()
    yield layer.near(out, wanted[0], "the graph")
    for result in results:
        said = layer.near(result, wanted[1], "eager")
    yield said


@check("two graphs with a context each replay at once")
def graphs_at_once(layer: Layer) -> Iterator[str]:
    handle, package = layer.made.layer, layer.made.package
    assert handle is not None
    held = []
    for tokens, seed in ((64, 7), (500, 8)):
        x, ids, shares = layer.inputs(tokens, seed=seed)
        out, context, graph = torch.empty_like(x), package.context(tokens), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            handle(x, given_ids=ids, given_weights=shares, out=out, context=context)
        # A graph holds no tensor: its inputs must live as long.
        held.append((graph, out, context, (x, ids, shares), layer.wanted(x, ids, shares), torch.cuda.Stream()))
    torch.cuda.synchronize()
    for _ in range(20):
        for graph, *_, stream in held:
            with torch.cuda.stream(stream):
                graph.replay()
    torch.cuda.synchronize()
    for _, out, _, _, wanted, _ in held:
        yield layer.near(out, wanted, f"{len(out)} tokens")


@check("torch.compile", gpu=False)
def compiled(layer: Layer) -> Iterator[str]:
    second = Experts.from_weights(*layer.weights(9), top_k=layer.top_k, max_tokens=layer.most)
    assert second.package is layer.made.package, "equal layers have packages of their own"
    backend = "inductor" if layer.device == "cuda" else "aot_eager"

    def forward(x: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return second(layer.made(x * 2, ids, shares) + 1, ids, shares) * 3

    for fullgraph in (False, True):
        torch._dynamo.reset()
        function = torch.compile(forward, fullgraph=fullgraph, backend=backend)
        for tokens in (1, 64, 64, 33):
            given = layer.inputs(tokens, seed=tokens)
            middle = (layer.made(given[0] * 2, *given[1:]) + 1, *given[1:])
            said = layer.near(function(*given), layer.wanted(*middle, weights=layer.weights(9)) * 3, f"fullgraph={fullgraph}")
        yield said


@check("torch.compile, reduce-overhead")
def reduce_overhead(layer: Layer) -> Iterator[str]:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()

    def forward(x: torch.Tensor, ids: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        return layer.made(x * 2, ids, shares) + 1

    function = torch.compile(forward, fullgraph=True, mode="reduce-overhead", dynamic=False)
    for tokens in (1, 8, 64):
        for turn in range(5):
            x, ids, shares = layer.inputs(tokens, seed=tokens * 10 + turn)
            torch.compiler.cudagraph_mark_step_begin()
            out = function(x, ids, shares).clone()
            said = layer.near(out, layer.wanted(x * 2, ids, shares) + 1, f"{tokens} tokens")
        yield said
    skipped = counters["inductor"]["cudagraph_skips"]
    assert skipped == 0, f"torch skipped {skipped} CUDA graphs"
    from torch._inductor.cudagraph_trees import get_container

    manager = get_container(torch.cuda.current_device()).get_tree_manager()
    assert manager.new_graph_id().id > 0, "torch captured no graph"


@check("two streams at once")
def streams(layer: Layer) -> Iterator[str]:
    given = [layer.inputs(100, seed=11), layer.inputs(300, seed=12)]
    wanted = [layer.wanted(*each) for each in given]
    queues = [torch.cuda.Stream(), torch.cuda.Stream()]
    torch.cuda.synchronize()
    results: list[tuple[int, torch.Tensor]] = []
    for _ in range(20):
        for which, queue in enumerate(queues):
            with torch.cuda.stream(queue):
                results.append((which, layer.made(*given[which])))
    torch.cuda.synchronize()
    for which, result in results:
        said = layer.near(result, wanted[which], "40 runs")
    yield said


@check("a run right after empty_cache()")
def after_empty_cache(layer: Layer) -> Iterator[str]:
    given = layer.inputs(5, seed=13)
    wanted = layer.wanted(*given)
    torch.cuda.empty_cache()
    out = layer.made(*given)
    yield layer.near(out, wanted, "5 tokens")


@check("1000 runs take no more memory")
def memory(layer: Layer) -> Iterator[str]:
    given = layer.inputs(33, seed=14)
    layer.made(*given)
    before, free_before = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
    for _ in range(1000):
        out = layer.made(*given)
    torch.cuda.synchronize()
    grown = torch.cuda.memory_allocated() - before - out.nbytes
    taken = free_before - torch.cuda.mem_get_info()[0]
    assert grown <= 1 << 20, f"torch holds {grown} bytes more"
    assert taken <= 32 << 20, f"the GPU has {taken} bytes less"
    reserve = layer.made.package.workspace_bytes(layer.most)
    yield f"the reserve of {layer.most} tokens is {reserve / 2**20:.0f} MiB"


@check("fused_experts", gpu=False)
def fused(layer: Layer) -> Iterator[str]:
    functional.clear()
    w1, w2 = layer.weights(21)
    x, ids, shares = layer.inputs(33, seed=15)
    options: Any = {"max_tokens": layer.most}
    out = fused_experts(x, w1, w2, shares, ids, **options)
    yield layer.near(out, layer.wanted(x, ids, shares, weights=(w1, w2)), "miss")
    assert torch.equal(fused_experts(x, w1, w2, shares, ids, **options), out), "a hit differs"
    assert len(functional._kept) == 1, "a hit packed again"
    yield "hit: equal"
    w2 *= 2
    again = fused_experts(x, w1, w2, shares, ids, **options)
    yield layer.near(again, layer.wanted(x, ids, shares, weights=(w1, w2)), "changed weights")
    assert len(functional._kept) == 1, "the old copy is kept"
    if layer.device == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = fused_experts(x, w1, w2, shares, ids, **options)
        x.copy_(layer.inputs(33, seed=16)[0])
        graph.replay()
        yield layer.near(captured, layer.wanted(x, ids, shares, weights=(w1, w2)), "captured hit")
        other = w1.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                fused_experts(x, other, w2, shares, ids, **options)
            raise AssertionError("a miss was captured")
        except moec.Capturing:
            yield "captured miss: refused"
    functional.clear()


@check("opcheck", gpu=False)
def operations(layer: Layer) -> Iterator[str]:
    x, ids, shares = layer.inputs(7, seed=17)
    arguments = (layer.made.number, x, None, ids, shares, None)
    torch.library.opcheck(torch.ops.moec.run.default, arguments)
    torch.library.opcheck(torch.ops.moec.run_out.default, (*arguments, torch.empty_like(x)))
    yield "run, run_out"


@check("unpack gives the stored bits", gpu=False)
def unpack(layer: Layer) -> Iterator[str]:
    stored = dict(zip(("w13", "w2"), layer.weights(23), strict=True))
    for in_place in (False, True):
        given = {name: each.clone() for name, each in stored.items()}
        made = layer.made.package.layer(given, in_place=in_place)
        for name, each in made.unpack().items():
            assert torch.equal(each, stored[name]), f"{name} differs, in_place={in_place}"
        if in_place:
            back = made.unpack(into={name: made.weights.get(name, given[name]) for name in given})
            assert all(torch.equal(each, stored[name]) for name, each in back.items()), "unpacked in place, weights differ"
    yield "bf16"
    codes = {name: (each * 300).clamp(-127, 127).to(torch.int8) for name, each in stored.items()}
    scales = {f"{name}_scale": each.float().abs().amax(-1) for name, each in stored.items()}
    experts = Experts.from_weights(
        codes["w13"].clone(),
        codes["w2"].clone(),
        top_k=layer.top_k,
        quant_config="int8_channel",
        dtype=torch.bfloat16,
        tensors=scales,
        max_tokens=layer.most,
        in_place=True,
    )
    assert experts.layer is not None
    for name, each in experts.layer.unpack().items():
        assert torch.equal(each, {**codes, **scales}[name]), f"{name} differs"
    yield "int8_channel"


@check("times")
def times(layer: Layer) -> Iterator[str]:
    for tokens in (1, 8, 64, 512):
        given, turns = layer.inputs(tokens), 500
        for _ in range(20):
            layer.made(*given)
        torch.cuda.synchronize()
        hosts = []
        # Few enough that the queue of launches never fills.
        for _ in range(turns // 50):
            start = time.perf_counter()
            for _ in range(50):
                layer.made(*given)
            hosts.append((time.perf_counter() - start) / 50)
            torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(10):
                layer.made(*given)
        graph.replay()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(20):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        layer.times.append(Times(tokens, min(hosts) * 1e6, begin.elapsed_time(end) / 200 * 1e3))
    yield f"{len(layer.times)} rows"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--only", default="", help="runs the checks whose name holds this word")
    options = parser.parse_args()
    where = torch.cuda.get_device_name() if options.device == "cuda" else "the host device"
    print(f"moec {moec.__version__}, torch {torch.__version__}, {where}")
    start, rows = time.perf_counter(), []
    with torch.no_grad():
        layer = Layer(options.device)
        print(f"{layer.made} made in {time.perf_counter() - start:.1f} s", flush=True)
        for name, gpu, function in CHECKS:
            if options.only not in name or (gpu and options.device == "cpu"):
                continue
            begin, said = time.perf_counter(), []
            try:
                for word in function(layer):
                    said.append(word)
                if options.device == "cuda":
                    torch.cuda.synchronize()
                passed = True
            except Exception:
                print(f"---- {name}\n{traceback.format_exc()}", flush=True)
                passed = False
            rows.append((name, passed, time.perf_counter() - begin, "; ".join(said)))
    for name, passed, seconds, note in rows:
        print(f"{'ok' if passed else 'FAILED':6} {seconds:6.1f} s  {name}: {note}")
    if layer.times:
        print(f"{'tokens':>6} {'host us':>8} {'graph us':>8}")
    for row in layer.times:
        print(f"{row.tokens:6} {row.host:8.1f} {row.graph:8.1f}")
    failed = sum(not passed for _, passed, _, _ in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
