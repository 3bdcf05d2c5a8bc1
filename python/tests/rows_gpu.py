#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights that change between replays of a CUDA graph on this machine's GPU: experts whose rows are moved, as engines do to
balance load, and weights that are loaded again.

Needs moec, torch and a GPU alone. Each replay must have the bits of a layer that was packed from the new weights. It prints a
line for each scheme that differs, and a count. The exit status is 1 where one differs. --only=WORD takes the schemes whose name
holds the word.
"""

import argparse
import sys
from typing import Any

import torch
from moved_experts import EXPERTS, ORDER, TOP_K, source_of, stored_weights
from support import random_value

import moec
from moec.integrations._packing import expert_rows

MOST_TOKENS = 64
COUNTS = (9, 40)
IN_ORDER = list(range(EXPERTS))


def on_gpu(value: Any) -> torch.Tensor:
    return torch.from_numpy(value).cuda()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


def wrong(package: Any, tokens: int) -> list[str]:
    """Returns what differs in a graph of `tokens` tokens."""
    given = [stored_weights(package, order, seed, "cuda") for order, seed in ((IN_ORDER, 3), (ORDER, 3), (IN_ORDER, 5))]
    layer, moved, other = (package.layer(dict(each), in_place=True) for each in given)
    x, weights = (on_gpu(random_value(package, name, tokens=tokens, seed=4)) for name in ("x", "given_weights"))
    ids = (torch.arange(tokens * TOP_K, dtype=torch.int32).view(tokens, TOP_K) % EXPERTS).cuda()

    def run(of: Any) -> Any:
        return of(x, given_ids=ids, given_weights=weights)

    def replayed() -> torch.Tensor:
        graph.replay()
        torch.cuda.synchronize()
        return bits(out).clone()

    with torch.cuda.stream(torch.cuda.Stream()):
        run(layer)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(layer)
    before = replayed()
    for each in expert_rows(layer, EXPERTS, "rows"):
        each.copy_(each[ORDER].clone())
    after = replayed()
    layer.reload(stored_weights(package, IN_ORDER, 5, "cuda"))
    again = replayed()
    found = {
        "moved rows": bool((after == bits(run(moved))).all()),
        "loaded again": bool((again == bits(run(other))).all()),
        "moved rows change nothing": bool((after != before).any()),
        "other weights change nothing": bool((again != after).any()),
    }
    return [name for name, right in found.items() if not right]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    runs = failed = 0
    for row in moec.catalog()["schemes"]:
        source = source_of(row["name"])
        if options.only not in row["name"] or not moec.supports(source, max_tokens=MOST_TOKENS):
            continue
        package = moec.load(moec.compile(source, max_tokens=MOST_TOKENS), device="cuda")
        package.reserve(MOST_TOKENS)
        for tokens in COUNTS:
            runs += 1
            if found := wrong(package, tokens):
                failed += 1
                print(f"{row['name']}, {tokens} tokens: {', '.join(found)}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: {runs} graphs, {failed} wrong")
    return 1 if failed or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
