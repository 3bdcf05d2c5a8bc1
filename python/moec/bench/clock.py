# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times CUDA graphs that run in alternation on one GPU."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

WARM_REPLAYS, LEAST_REPLAYS, MOST_REPLAYS = 2, 7, 300
IDLE_ABOVE_US, IDLE_S = 400, 0.1  # after a long replay the GPU is hot and its clock is low


class Graph:
    """A captured function without arguments. It keeps the function alive, whose weights the graph reads, and the function's
    result."""

    def __init__(self, work: Callable[[], Any]) -> None:
        import torch

        self.work = work
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            work()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.kept = work()

    def replay_us(self) -> float:
        import torch

        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1000

    def median_us(self, budget_ms: float) -> float:
        """Returns the median time of 7 to 300 replays within the budget, after warm-up replays."""
        if self.replay_us() > IDLE_ABOVE_US:
            time.sleep(IDLE_S)
        for _ in range(WARM_REPLAYS):
            self.replay_us()
        times: list[float] = []
        while len(times) < LEAST_REPLAYS or (sum(times) < budget_ms * 1000 and len(times) < MOST_REPLAYS):
            times.append(self.replay_us())
        return statistics.median(times)


def interleaved_us(graphs: Mapping[str, Graph], passes: int, budget_ms: float = 40) -> dict[str, list[float]]:
    """Returns the median time of each graph in each pass. Every other pass uses the reverse order."""
    names = list(graphs)
    made: dict[str, list[float]] = {name: [] for name in names}
    for each in range(passes):
        for name in reversed(names) if each % 2 else names:
            made[name].append(graphs[name].median_us(budget_ms))
    return made
