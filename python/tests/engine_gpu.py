# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs an engine's layers with moec's plug-in on a GPU, beside double precision, and prints a line for each scheme."""

import argparse
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

COUNTS = (1, 7, 33, 200)
Errors: TypeAlias = "Iterator[tuple[str, float]]"
"""Each run's name, and its error as a part of the bound."""


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--only", default="")
    return parser.parse_args()


def device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else "the host device"


def replayed(forward: Callable[[], Any], kept: list[Any], values: list[list[Any]]) -> Iterator[Any]:
    """The outputs of a captured forward, for each of the values, which take the place of the kept inputs."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = forward()
    for given in values:
        for place, value in zip(kept, given, strict=True):
            place.copy_(value)
        graph.replay()
        torch.cuda.synchronize()
        yield out


def report(title: str, cases: Iterable[Any], sources: Callable[[Any], Iterable[Errors]]) -> int:
    """A table of the cases. The exit status is 1 where a result differs, or a source raises."""
    import torch

    print(title)
    print(f"{'scheme':30} {'worst error':>12} {'bound':>8} {'runs':>5} {'seconds':>8}")
    failed = 0
    for case in cases:
        began, worst, runs, note = time.perf_counter(), 0.0, 0, ""
        try:
            with torch.no_grad():
                for source in sources(case):
                    for what, part in source:
                        runs += 1
                        worst = max(worst, part)
                        if not part < 1:
                            note += f" {what}: {part * case.bound:.2g};"
        except Exception:
            traceback.print_exc()
            note = " raised, see above"
        failed += bool(note)
        seconds, wrong = time.perf_counter() - began, f"  WRONG:{note}" if note else ""
        print(f"{case.name:30} {worst * case.bound:12.5f} {case.bound:8.4f} {runs:5} {seconds:8.1f}{wrong}", flush=True)
    print("failed" if failed else "passed", flush=True)
    return 1 if failed else 0
