#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens per second of whole models in vLLM's engine, with vLLM's own backend and with moec in the same call.

    PYTHONPATH=python MOEC_LIBRARY=libmoec.so bench/server/perf.py OUT [--site=SITE] [--kinds=bf16,int4] [--gpus=0,1]

Models have the shapes of Qwen3-30B-A3B (mxfp4: gpt-oss-20b) with fewer layers and random weights. All engines of a wave are
started at once. When they stand, each is timed alone on its GPU. OUT gets cells.csv, results.json and logs.tar.xz.

decode N    128 tokens in, 129 out, N requests at once: the difference to 1 token out, over 128 steps
prefill     one token out: 1 x 512, 1 x 2048, and 8 x 2048 tokens, of which a step takes at most 8192

A cell is the fastest of --repeats runs, because kernels that vLLM compiles during a run spoil medians of few runs. The ratio is
moec's tokens/s over those of vLLM's own backend.
"""

import argparse
import json
import math
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import engines
import models
import random_weights

DECODE_BATCHES = (1, 8, 64)
PREFILLS = ((1, 512), (1, 2048), (8, 2048))
STEPS = 128
# Two engines of each kind of a wave fit into the 140 GB of an H200.
WAVES = "bf16+int4,fp8_block+mxfp4"
# Batches that the cells do not have need no graphs.
GRAPH_SIZES = (1, 8, 16, 64, 128, 256)


def cell_names(batches: Sequence[int] = DECODE_BATCHES, prefills: Sequence[tuple[int, int]] = PREFILLS) -> list[str]:
    return [f"decode {batch}" for batch in batches] + [f"prefill {batch} x {length}" for batch, length in prefills]


class Timer:
    """Times requests with random tokens."""

    def __init__(self, llm: Any, vocabulary: int, repeats: int) -> None:
        self.llm, self.vocabulary, self.repeats, self.random = llm, vocabulary, repeats, random.Random(1)

    def seconds(self, batch: int, length: int, new: int) -> float:
        from vllm import SamplingParams

        rows = [[self.random.randrange(3, self.vocabulary) for _ in range(length)] for _ in range(batch)]
        parameters = SamplingParams(temperature=0, ignore_eos=True, detokenize=False, max_tokens=new)
        began = time.perf_counter()
        answers = self.llm.generate([{"prompt_token_ids": row} for row in rows], parameters, use_tqdm=False)
        took = time.perf_counter() - began
        if [len(each.outputs[0].token_ids) for each in answers] != [new] * batch:
            raise RuntimeError(f"expected {new} tokens for each of {batch} requests")
        return took

    def decode(self, batch: int) -> dict[str, Any]:
        self.seconds(batch, STEPS, 4)
        short = [self.seconds(batch, STEPS, 1) for _ in range(self.repeats)]
        long = [self.seconds(batch, STEPS, STEPS + 1) for _ in range(self.repeats)]
        took = min(long) - min(short)
        return {"tokens_per_s": batch * STEPS / took, "spread": max(long) / min(long) - 1, "runs_s": [short, long]}

    def prefill(self, batch: int, length: int) -> dict[str, Any]:
        self.seconds(batch, length, 1)
        runs = [self.seconds(batch, length, 1) for _ in range(self.repeats + 2)]
        return {"tokens_per_s": batch * length / min(runs), "spread": max(runs) / min(runs) - 1, "runs_s": runs}

    def cells(
        self, batches: Sequence[int] = DECODE_BATCHES, prefills: Sequence[tuple[int, int]] = PREFILLS
    ) -> dict[str, dict[str, Any]]:
        made = [self.decode(batch) for batch in batches] + [self.prefill(batch, length) for batch, length in prefills]
        return dict(zip(cell_names(batches, prefills), made, strict=True))


def run_job(options: argparse.Namespace) -> None:
    turns = engines.Turns(options.work, options.job)
    began = time.monotonic()
    from vllm import LLM

    imported = time.monotonic()
    turns.begin()
    config = models.config_of(options.kind, options.layers, small=options.small)
    folder = options.work / "models" / options.job
    models.write_config(folder, config)
    started = time.monotonic()
    compiled = {"compilation_config": {"cudagraph_capture_sizes": list(GRAPH_SIZES)}}
    llm = LLM(
        str(folder),
        load_format=random_weights.FORMAT,
        skip_tokenizer_init=True,
        max_model_len=4096,
        kv_cache_memory_bytes=int(options.kv_gib * 2**30),
        gpu_memory_utilization=0.1,
        enable_prefix_caching=False,
        max_num_batched_tokens=8192,
        max_num_seqs=128,
        **({"enforce_eager": True} if options.eager else compiled),
    )
    stands = time.monotonic()
    turns.reach("ready", 300)
    with turns.gpu():
        cells = Timer(llm, config["vocab_size"], options.repeats).cells()
    made = {
        "versions": engines.versions(options.commit),
        "cells": cells,
        "import_s": imported - began,
        "start_s": stands - started,
        "total_s": time.monotonic() - began,
    }
    (options.work / f"{options.job}.json").write_text(json.dumps(made))


def rows_of(results: dict[str, dict[str, Any]], kinds: Sequence[str], layers: int) -> list[dict[str, Any]]:
    """One row per cell that both sides have."""
    rows = []
    for kind in kinds:
        own, moec = (results.get(f"{kind}-{side}", {}).get("cells", {}) for side in engines.SIDES)
        rows += [
            {
                "kind": kind,
                "layers": layers,
                "cell": name,
                "own_tokens_per_s": round(own[name]["tokens_per_s"], 1),
                "moec_tokens_per_s": round(moec[name]["tokens_per_s"], 1),
                "ratio": round(moec[name]["tokens_per_s"] / own[name]["tokens_per_s"], 4),
                "own_spread": round(own[name]["spread"], 3),
                "moec_spread": round(moec[name]["spread"], 3),
            }
            for name in own
            if name in moec
        ]
    return rows


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(math.log(each) for each in ratios) / len(ratios))


def report(rows: Sequence[dict[str, Any]]) -> str:
    """Ratios by kind and cell, with the geometric mean and the worst cell."""
    if not rows:
        return "no kind has cells of both sides"
    names = list(dict.fromkeys(row["cell"] for row in rows))
    lines: list[list[str]] = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        cells = {row["cell"]: row["ratio"] for row in rows if row["kind"] == kind}
        worst = min(cells, key=lambda name: cells[name])
        shown = [f"{cells[name]:.2f}" if name in cells else "" for name in names]
        lines.append([kind, *shown, f"{mean(list(cells.values())):.3f}", f"{cells[worst]:.2f} ({worst})"])
    ratios = [row["ratio"] for row in rows]
    last = min(rows, key=lambda row: row["ratio"])
    summary = (
        f"{len(ratios)} cells, geometric mean {mean(ratios):.3f}, moec is faster in {sum(each > 1 for each in ratios)}; "
        f"worst cell {last['ratio']:.3f}: {last['kind']}, {last['cell']}"
    )
    return engines.table(["moec over own", *names, "mean", "worst"], lines) + "\n\n" + summary


def jobs_of(options: argparse.Namespace) -> list[engines.Job]:
    jobs, last = [], dict[int, int]()
    for kinds in options.waves:
        gpu = options.gpus[sum(last.values()) % len(options.gpus)]
        wave = last.get(gpu, 0)
        last[gpu] = wave + 1
        for kind in (each for each in kinds if each in options.kinds):
            words = [f"--kind={kind}", f"--layers={options.layers}", f"--repeats={options.repeats}"]
            words += [f"--kv-gib={options.kv_gib}", f"--commit={options.commit}"]
            words += [f"--{each}" for each in ("small", "eager") if getattr(options, each)]
            jobs += [engines.Job(f"{kind}-{side}", tuple(words), side, (gpu,), wave) for side in engines.SIDES]
    return jobs


def main() -> int:
    parser = engines.parser_of(__doc__, layers=24)
    parser.add_argument(
        "--waves",
        type=engines.words,
        default=WAVES.split(","),
        help=f"kinds that stand together, dealt over the GPUs; default: {WAVES}",
    )
    parser.add_argument("--eager", action="store_true", help="without torch.compile and CUDA graphs, as on the processor")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kv-gib", type=float, default=1, help="cache of keys and values of each engine [GiB]")
    options = parser.parse_args()
    if options.job:
        run_job(options)
        return 0
    engines.check(parser, options)
    options.waves = [wave.split("+") for wave in options.waves]
    known = {kind for wave in options.waves for kind in wave}
    if wrong := [each for each in (*options.kinds, *known) if each not in models.KINDS]:
        parser.error(f"expected kinds among {', '.join(models.KINDS)}; got {wrong[0]!r}")
    if missing := [each for each in options.kinds if each not in known]:
        parser.error(f"--waves does not name {missing[0]}")
    work = pathlib.Path(tempfile.mkdtemp()) / "perf"
    results = engines.run_jobs(__file__, jobs_of(options), work, options.site, options.limit)
    rows = rows_of(results, options.kinds, options.layers)
    engines.save(options.out, work, results)
    engines.write_csv(options.out / "cells.csv", rows)
    for name, result in results.items():
        logged = "; ".join(engines.lines_of_moec(work / f"{name}.log"))
        print(f"{name}: " + (f"start {result['start_s']:.1f} s; " if result else "no result; ") + logged)
    for text in {json.dumps(result["versions"]) for result in results.values() if result}:
        print(text)
    print(report(rows))
    return 0 if len(rows) == len(options.kinds) * len(cell_names()) else 1


if __name__ == "__main__":
    sys.exit(main())
