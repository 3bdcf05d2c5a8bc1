#!/usr/bin/env python3
# ===- peers.py - other systems on this card, in this run -----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times whole layers of other systems beside moec's, since two cards of a kind differ. Runs in a folder that
bench/run/compile_cells.py filled, on the machine with the GPU. Prints microseconds of each and, in brackets, ours over theirs.

  MOEC_PEERS=FOLDER ./peers.py [--out=FILE] [--cells=WORD,...] [--tokens=512,...] [--peers=torch,vllm,vllm_h200cfg,deepgemm]

First every peer's layer is compared with a float32 reference, many at a time, which also fills the caches of compiled kernels.
Then, one package after another, moec-bench and the peers that agreed are timed. A peer that is missing or fails is reported.

Exit status 77 and one line where there is no PyTorch, no Triton or no GPU."""

import argparse
import ctypes
import importlib.util
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

import benchlib
import thermometer

HERE = pathlib.Path(__file__).resolve().parent
REST_S = 1.0  # peers of the package in front leave the card hot, and its clock low
PEERS = ("torch", "vllm", "vllm_h200cfg", "deepgemm")
SCHEMES = ("bf16", "fp8_block", "fp8_channel")
WITHOUT = {("torch", "fp8_block"): "no scales by block", ("deepgemm", "fp8_channel"): "no scales by channel"}
LEAST_TOKENS = 512
COLD_BYTES, MOST_LAYERS = 400e6, 64
SM_CLOCK = 1


class Unfit(Exception):
    """Said without the name of an exception's class."""


def packages(folder, words):
    """The cells whose layers peers have, by the packages of a folder."""
    for row in benchlib.read(folder / "shapes.json")["shapes"]:
        for scheme in SCHEMES:
            path = folder / f"{row['shape']}-{scheme}.moec"
            if (path / "manifest.json").is_file() and (not words or any(
                    word in ("*", row["shape"], scheme, f"{row['shape']}/{scheme}") for word in words)):
                layer = benchlib.read(path / "manifest.json")["layer"]
                yield {"shape": row["shape"], "scheme": scheme, "path": path, "local": layer.get("local_experts", {}).get("count"),
                       **{key: layer[key] for key in benchlib.KEYS[:4]}}


def refusal(peer, cell):
    """Why a peer has no such layer, or an empty string."""
    if cell["local"] not in (None, cell["num_experts"]):
        return "only layers with all experts"
    return WITHOUT.get((peer, cell["scheme"]), "")


def layers_of(cell, touched):
    """Layers in a row that touch 400 MB of weights, as in moec-bench."""
    return min(MOST_LAYERS, max(1, math.ceil(COLD_BYTES / (touched * benchlib.expert_bytes(cell, cell["scheme"])))))


def said(error):
    words = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    return words if isinstance(error, Unfit) or type(error).__name__ == "Refusal" else f"{type(error).__name__}: {words}"


class Clock:
    """The SM clock by NVML, which takes less than a millisecond; None without it."""

    def __init__(self, library="libnvidia-ml.so.1"):
        try:
            self.nvml, self.device = ctypes.CDLL(library), ctypes.c_void_p()
            if self.nvml.nvmlInit_v2() or self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
                self.nvml = None
        except (OSError, AttributeError):
            self.nvml = None

    def mhz(self):
        value = ctypes.c_uint()
        if self.nvml is None or self.nvml.nvmlDeviceGetClockInfo(self.device, SM_CLOCK, ctypes.byref(value)):
            return None
        return value.value


def body(work, pipe):
    try:
        for message in work():
            pipe.send(message)
    except Exception as error:  # noqa: BLE001 the other process says it
        pipe.send({"error": said(error)})


def processes(tasks, jobs, limit):
    """{key: messages of its process} of {key: function that yields messages}. A process that dies or takes longer than limit
    seconds adds an error. Processes are forks: they have all that was imported, and each makes its own context on the GPU."""
    context, waiting, running, messages = multiprocessing.get_context("fork"), list(tasks.items()), {}, {key: [] for key in tasks}
    while waiting or running:
        while waiting and len(running) < jobs:
            key, work = waiting.pop(0)
            reader, writer = context.Pipe(False)
            process = context.Process(target=body, args=(work, writer), daemon=True)
            process.start()
            writer.close()
            running[reader] = key, process, time.monotonic() + limit
        ready = multiprocessing.connection.wait(list(running), 0.1)
        for reader, (key, process, deadline) in list(running.items()):
            if reader in ready:
                try:
                    messages[key].append(reader.recv())
                    continue
                except EOFError:
                    process.join()
                    if process.exitcode:
                        messages[key].append({"error": f"its process ended with status {process.exitcode}"})
            elif time.monotonic() > deadline:
                process.kill()
                process.join()
                messages[key].append({"error": f"no result in {limit:g} s"})
            else:
                continue
            reader.close()
            del running[reader]
    return messages


def last_messages(tasks, jobs, limit):
    return {key: messages[-1] if messages else {"error": "no result"} for key, messages in processes(tasks, jobs, limit).items()}


def ours(cell, tokens, limit, *more):
    """moec-bench's cells of a package by tokens, and errors as one string."""
    command = [str(HERE / "moec-bench"), str(cell["path"]), f"--tokens={','.join(map(str, tokens))}", "--json", *more]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {}, f"no result in {limit:g} s"
    if not done.stdout:
        return {}, (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    package = json.loads(done.stdout)["packages"][0]
    return ({row["tokens"]: row for row in package["cells"]},
            "; ".join(f"{row['tokens']} tokens: {row['error']}" for row in package.get("errors", [])))


def inputs(torch, cell, tokens):
    return (torch.randn(tokens, cell["hidden_size"], device="cuda", dtype=torch.bfloat16),
            torch.randn(tokens, cell["num_experts"], device="cuda", dtype=torch.bfloat16))


def check(build, cell, tokens):
    """The error of a peer's layer, in a process of its own."""
    import torch

    import peer_layers

    torch.manual_seed(1)
    weights = peer_layers.random_weights(cell, cell["scheme"])
    torch.cuda.empty_cache()  # others check beside this process
    x, _ = inputs(torch, cell, tokens)
    logits = peer_layers.distinct_logits(tokens, cell["num_experts"])
    got = build(weights)(x, logits)
    torch.cuda.synchronize()
    error = peer_layers.error_of(got, peer_layers.reference(weights, x, logits))
    # A NaN is no small error.
    if not error <= peer_layers.TOLERANCE[cell["scheme"]]:
        raise Unfit(f"not timed: its result is off by {error:.3g} of the reference's norm")
    yield {"device": torch.cuda.get_device_name(0), "relative_error": error}


def warm(cell, tokens, limit):
    """Fills moec's cache of kernels."""
    _, error = ours(cell, tokens, limit, "--passes=1", "--repeats=1", "--idle=0")
    yield {"error": error} if error else {}


def timed(found, cell, pairs, passes):
    """Yields one row for each pair of peer and tokens, behind a row that says which is next. Ends at the first failure."""
    import torch

    import peer_layers

    torch.manual_seed(2)
    timer, clock = thermometer.Timer(torch), Clock()
    weights = [peer_layers.random_weights(cell, cell["scheme"])]
    for peer, tokens in pairs:
        yield {"next": [peer, tokens]}
        touched = inputs(torch, cell, tokens)[1].topk(cell["top_k"]).indices.unique().numel()
        count = layers_of(cell, touched)
        if count > 1 and len(weights) == 1:  # two sets take turns, so that no layer finds its weights in the L2 cache
            weights.append(peer_layers.random_weights(cell, cell["scheme"]))
        layers = [found[peer][0](each) for each in weights]
        given = [inputs(torch, cell, tokens) for _ in range(count)]

        def work(layers=layers, given=given):
            return [layers[index % len(layers)](*each) for index, each in enumerate(given)]

        before = clock.mhz()
        us = timer.us(work, passes=passes) / count
        yield {"peer": peer, "tokens": tokens, "us": us, "layers": count, "clock_before_mhz": before, "clock_after_mhz": clock.mhz()}


def time_peers(found, cell, pairs, options):
    """{(peer, tokens): row}. A failure costs one pair: another process times those behind it."""
    rows, left = {}, list(pairs)
    while left:
        messages = processes({0: lambda: timed(found, cell, left, options.passes)}, 1, options.limit)[0]
        now, error = left[0], "its process ended early"
        for message in messages:
            if "us" in message:
                rows[message["peer"], message["tokens"]] = message
            elif "next" in message:
                now = tuple(message["next"])
            else:
                error = message["error"]
        if now not in rows:
            rows[now] = {"peer": now[0], "tokens": now[1], "error": error}
        left = left[left.index(now) + 1:]
    return rows


def prepare(found, cells, options):
    """{(shape, scheme, peer, tokens): message}: a relative error, or why the pair is not timed."""
    tasks = {(cell["shape"], cell["scheme"], "moec", 0): lambda cell=cell: warm(cell, options.tokens, options.limit) for cell in cells}
    # DeepGEMM compiles for the longest time. Neighbors are of different cells, so that not all have the largest weights at once.
    for peer in sorted(found, key=lambda name: name != "deepgemm"):
        for tokens in options.tokens:
            for cell in cells:
                if not refusal(peer, cell):
                    tasks[cell["shape"], cell["scheme"], peer, tokens] = \
                        lambda cell=cell, tokens=tokens, peer=peer: check(found[peer][0], cell, tokens)
    last = last_messages(tasks, options.jobs, options.limit)
    again = {key: tasks[key] for key, message in last.items() if "out of memory" in message.get("error", "")}
    return {**last, **last_messages(again, 1, options.limit)}


def cell_rows(cell, found, prepared, options):
    """The result's rows of one package, by tokens."""
    key = cell["shape"], cell["scheme"]
    pairs = [(peer, tokens) for peer in found for tokens in options.tokens if "relative_error" in prepared.get((*key, peer, tokens), {})]
    clock = Clock()
    time.sleep(REST_S)
    before = clock.mhz()
    mine, error = ours(cell, options.tokens, options.limit, f"--passes={options.passes}")
    after = clock.mhz()
    theirs = time_peers(found, cell, pairs, options)
    for tokens in options.tokens:
        row = {"shape": key[0], "scheme": key[1], "tokens": tokens, "us": mine.get(tokens, {}).get("us"), "clock_before_mhz": before,
               "clock_after_mhz": after, "peers": []}
        if row["us"] is None:
            row["error"] = error or "no result"
        for peer in found:
            checked = prepared.get((*key, peer, tokens), {"error": refusal(peer, cell)})
            line = {"version": found[peer][1], **theirs.get((peer, tokens), {"peer": peer, "tokens": tokens}), **checked}
            if "us" in line and row["us"]:
                line["ours_over_theirs"] = row["us"] / line["us"]
            row["peers"].append(line)
        yield row


def best(row):
    """The fastest peer of a row, or None."""
    return min((peer for peer in row["peers"] if "us" in peer), key=lambda peer: peer["us"], default=None)


def clocks(rows, cell):
    """The least and the most SM clock right after the timings of a package."""
    its = [row for row in rows if (row["shape"], row["scheme"]) == (cell["shape"], cell["scheme"])]
    read = [line["clock_after_mhz"] for row in its for line in (row, *row["peers"]) if line.get("clock_after_mhz")]
    return f", SM at {min(read)} to {max(read)} MHz" if read else ""


def text_of(us, ratio=None):
    return "-" if us is None else f"{us:.1f}" if ratio is None else f"{us:.1f} ({ratio:.2f})"


def lines(result):
    tokens = sorted({row["tokens"] for row in result["cells"]})
    yield "us (ours/theirs below 1: moec is faster)"
    yield f"{'':44}" + "".join(f"{count:>18}" for count in tokens)
    why = {}
    for key in dict.fromkeys((row["shape"], row["scheme"]) for row in result["cells"]):
        rows = {row["tokens"]: row for row in result["cells"] if (row["shape"], row["scheme"]) == key}
        yield f"{'/'.join(key):32}{'moec':12}" + "".join(f"{text_of(rows[count]['us']) if count in rows else '-':>18}" for count in tokens)
        for peer in result["peers"]:
            words = []
            for count in tokens:
                line = next((line for line in rows.get(count, {"peers": []})["peers"] if line["peer"] == peer), {})
                words.append(text_of(line.get("us"), line.get("ours_over_theirs")))
                if "error" in line:
                    why.setdefault((peer, line["error"]), []).append(f"{'/'.join(key)} {count}")
            if any(word != "-" for word in words):
                yield f"{'':32}{peer:12}" + "".join(f"{word:>18}" for word in words)
    for row in result["cells"]:
        if "error" in row:
            yield f"moec, {row['shape']}/{row['scheme']} {row['tokens']}: {row['error']}"
    for (peer, error), where in why.items():
        yield f"{peer}, {where[0]}{f' and {len(where) - 1} more' if len(where) > 1 else ''}: {error}"
    for peer, error in result["missing"].items():
        yield f"{peer} is missing: {error}"
    ratios = [row["us"] / best(row)["us"] for row in result["cells"] if row["us"] and best(row)]
    yield (f"{len(ratios)} cells beside a peer: {sum(ratio < 1 for ratio in ratios)} faster than all of them"
           + (f", ours/best from {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}" if ratios else ""))


def skipped():
    """Why nothing can be timed here, or an empty string."""
    # Otherwise the question makes a context of the driver, which forks cannot use.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    try:
        import torch
    except ImportError:
        return "PyTorch is not installed for this python3"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    return "" if importlib.util.find_spec("triton") else "Triton is not installed for this python3"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="the result as JSON, written after each package")
    parser.add_argument("--cells", default="", help="shape, scheme or shape/scheme, separated by commas; default: all packages")
    parser.add_argument("--tokens", default="", help=f"default: those of shapes.json from {LEAST_TOKENS} on")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--passes", type=int, default=3, help="of moec-bench and of each peer")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, len(os.sched_getaffinity(0)) - 2)), help="processes that compile")
    parser.add_argument("--limit", type=float, default=60, help="seconds that one process may take")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no further package is timed")
    options = parser.parse_args()
    words = [word for word in options.peers.split(",") if word]
    unknown = [word for word in words if word not in PEERS]
    if unknown:
        parser.error(f"unknown peer '{unknown[0]}'; expected {', '.join(PEERS)}")
    # In this order: vllm_h200cfg changes vLLM for the rest of its process.
    options.peers = [peer for peer in PEERS if peer in words]
    try:
        options.tokens = [int(word) for word in options.tokens.split(",") if word]
    except ValueError:
        parser.error(f"--tokens={options.tokens}: expected numbers, separated by commas")
    options.tokens = options.tokens or [count for count in benchlib.read(HERE / "shapes.json")["tokens"] if count >= LEAST_TOKENS]
    return options


def main():
    started = time.monotonic()
    options = arguments()
    cells = list(packages(HERE, [word for word in options.cells.split(",") if word]))
    if not cells:
        sys.exit(f"peers.py: {HERE} has no package of --cells={options.cells} in {', '.join(SCHEMES)}; compile_cells.py makes them")
    reason = skipped()
    if reason:
        print(f"peers.py: skipped, {reason}", file=sys.stderr)
        return 77
    import peer_layers

    found, missing = peer_layers.load()
    if sys.modules["torch"].cuda.is_initialized():
        sys.exit("peers.py: an import made a context on the GPU, which processes cannot share; try --peers=torch without MOEC_PEERS")
    found, missing = ({peer: each[peer] for peer in options.peers if peer in each} for each in (found, missing))
    result = {"moec_peers": 1, "peers": {peer: version for peer, (_, version) in found.items()}, "missing": missing, "cells": []}
    prepared = prepare(found, cells, options)
    result["device"] = next((message["device"] for message in prepared.values() if "device" in message), "")
    print(f"{result['device']}, prepared in {time.monotonic() - started:.0f} s, {result['peers']}", flush=True)
    # A time limit of the caller ends in the table of what was timed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("peers.py: ended by SIGTERM"))
    try:
        for cell in cells:
            if time.monotonic() - started > options.budget:
                print(f"{cell['shape']}/{cell['scheme']}: left out, {options.budget:g} s are over")
                continue
            result["cells"] += cell_rows(cell, found, prepared, options)
            if options.out:
                options.out.write_text(json.dumps(result, indent=1), encoding="utf-8")
            print(f"{cell['shape']}/{cell['scheme']}: timed, {time.monotonic() - started:.0f} s{clocks(result['cells'], cell)}", flush=True)
    finally:
        print("\n".join(lines(result)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
