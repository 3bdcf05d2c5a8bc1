#!/usr/bin/env python3
# ===- ranks.py - layers whose tokens lie on several ranks --------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs the packages of bench/ranks/compile_ranks.py on several GPUs, a process each, by the Python package and torch.

  ./ranks.py [FOLDER] --ranks=2 [--check] [--replays=10000] [--time] [--cells=WORD,...] [--tokens=1,8,...] [--out=FILE]
  torchrun --nproc-per-node=2 ranks.py FOLDER --check
  ./ranks.py FOLDER --host --check --replays=10        # ranks are threads of the host device; needs numpy alone
  ./ranks.py FOLDER --one-gpu --modes=one_sided --check   # ranks are threads with one GPU

--check     each rank's output against the layer on one rank, for routings and numbers of real tokens
--replays   replays of a graph of the layer; outputs must keep their bits
--time      microseconds of a layer on the slowest rank, in graphs, medians

  whole       the package: from this rank's logits to this rank's output
  experts     what stands behind the gather and before the scatter, of a package whose caller moves tokens
  own         routing and quantization of a rank's tokens, alone
  gather      torch.distributed's all_gather_into_tensor of the same bytes: x or codes and scales, ids, weights
  scatter     torch.distributed's reduce_scatter_tensor of the same bytes
  torch       routing, quantization, gather, experts, scatter, one behind the other: as vLLM does
  pushes      copies into torch's symmetric memory and barriers in place of both collectives, alone
  pushed      routing, quantization, these copies, experts, copies back, sum; both with --pushes
  fi_dispatch, fi_combine  FlashInfer's one-sided kernels, alone
  flashinfer  routing, quantization, its dispatch, experts, its combine; all with --flashinfer=LIBRARY
  --kernels adds microseconds of each kernel of the package, waits for other ranks included, by torch's profiler

Prints a line for each cell. --out gets a JSON object for each line."""

import argparse
import gc
import json
import pathlib
import statistics
import sys
import time
import zlib

import rank_peers
import rank_worlds

import moec

HERE = pathlib.Path(__file__).resolve().parent
# Largest relative errors: a rank's sum is rounded once more than that of the layer on one rank.
LIMITS = {"bf16": 0.01, "fp8_block": 0.03, "fp8_channel": 0.03}
# Weights that each rank has whole: of the router, and of shared experts.
ROUTER, SHARED = "routing_bias", "shared_"
# Added to the logits of experts of other ranks than the first.
AWAY = -30.0
COMPARE_EVERY = 100
# Tokens of all layers of a timed graph, and the most layers.
GRAPH_TOKENS, GRAPH_LAYERS = 8192, 8
TIMED_S, MIN_REPLAYS, MAX_REPLAYS = 0.06, 11, 101


def routings(size, tokens):
    """{name: (the rank whose experts all tokens choose, real tokens of each rank)}."""
    return {
        "uniform": (None, [tokens] * size),
        "uneven": (None, [tokens * (size - rank) // size for rank in range(size)]),
        "empty": (None, [0 if rank == size - 1 else tokens for rank in range(size)]),
        "one_rank": (0, [tokens] * size),
        "nobody": (None, [0] * size),
    }


class Cell:
    """The packages of a layer and a scheme, loaded for one rank, and its weights."""

    def __init__(self, world, folder, row, words):
        self.world, self.scheme, self.num_experts = world, row["scheme"], row["num_experts"]
        self.name = f"{row['layer']}/{row['scheme']}"
        loaded = {name: moec.load(folder / row["packages"][name], device=world.device, progress=False,
                                  rank=None if name in ("whole", "route", "quantize") else world.rank) for name in words}
        weights = self._weights(loaded)
        self.layers = {name: package.layer(self._share(package, weights), progress=False) for name, package in loaded.items()}
        self.hidden = next(iter(loaded.values())).manifest["layer"]["hidden_size"]
        self.contexts = {}
        world.synchronize()

    def _weights(self, loaded):
        """The stored weights of all experts, the same on all ranks."""
        made = {}
        for package in loaded.values():
            for name, value in package.values.items():
                if value.role != "stored_weight" or name in made:
                    continue
                shape, seed = package.shape(name), zlib.crc32(name.encode())
                if not name.startswith(SHARED):
                    shape = (self.num_experts, *shape[1:])
                if name == ROUTER:
                    made[name] = self.world.normal((self.num_experts,), seed, 0.1, "f32")
                elif value.element_types[0] == "f8E4M3FN":
                    made[name] = self.world.codes(shape, seed)
                elif "scale" in name:
                    made[name] = abs(self.world.normal(shape, seed, 0.01, "f32")) + 0.01
                else:
                    made[name] = self.world.normal(shape, seed, 0.02, value.element_types[0])
        return made

    def _share(self, package, weights):
        held = package.manifest["layer"]["local_experts"]
        mine = slice(held["begin"], held["begin"] + held["count"])
        return {name: array if name == ROUTER or name.startswith(SHARED) else array[mine] for name, array in weights.items()
                if name in package.values and package.values[name].role == "stored_weight"}

    def inputs(self, tokens, seed=0, owner=None):
        """A rank's x and logits. owner: the rank whose experts are chosen; None: any."""
        world = self.world
        made = {"x": world.normal((tokens, self.hidden), 1000 * seed + world.rank),
                "logits": world.normal((tokens, self.num_experts), 1000 * seed + 100 + world.rank, 2.0, "f32"),
                "shared_gate": world.normal((tokens, 1), 1000 * seed + 200 + world.rank)}
        if owner is not None:
            count, more = divmod(self.num_experts, world.size)
            begin = owner * count + min(owner, more)
            made["logits"] += AWAY
            made["logits"][:, begin:begin + count + (owner < more)] -= AWAY
        return made

    def run(self, word, tokens, given, out=None):
        """Runs a package with the inputs that it has. tokens: of the run."""
        layer = self.layers[word]
        if word not in self.contexts:
            ranks = word not in ("whole", "route", "quantize", "experts")
            self.contexts[word] = layer.package.context(comm=self.world.comm if ranks else None)
        renamed = {"ids": "given_ids", "weights": "given_weights", "x_q": "x"}
        taken = {renamed.get(name, name): array for name, array in given.items()}
        taken = {name: array for name, array in taken.items() if name in layer.package.values}
        if "given_ids" in taken:
            taken.pop("logits", None)
            taken["topk_ids"], taken["topk_weights"] = taken.pop("given_ids"), taken.pop("given_weights")
        return layer(**taken, out=out, tokens=tokens, context=self.contexts[word])

    def moved(self, tokens, given):
        """The tensors that go to the ranks of the experts."""
        routed = self.run("route", tokens, {"logits": given["logits"]})
        made = {"ids": routed["ids"], "weights": routed["weights"]}
        if "quantize" not in self.layers:
            return {"x": given["x"], **made}
        quantized = self.run("quantize", tokens, {"x": given["x"]})
        return {"x_q": quantized["x_q"], "x_scale": quantized["x_scale"], **made}

    def by_collectives(self, tokens, given):
        """The layer by collectives of the caller."""
        moved = self.moved(tokens, given)
        everyone = dict(zip(moved, self.world.all_gather(list(moved.values()))))
        return self.world.reduce_scatter(self.run("experts", tokens * self.world.size, everyone))

    def empty(self, tokens):
        """bf16 of numbers that no run writes."""
        made = self.world.normal((tokens, self.hidden), 0)
        self.world.spoil(made)
        return made


def relative_error(found, wanted):
    """The root of the mean square error over that of the wanted numbers; of zeros it is absolute."""
    difference, size = float(((found - wanted) ** 2).mean()), float((wanted**2).mean())
    return (difference / size) ** 0.5 if size else difference**0.5


def check(cell, mode, tokens):
    """The worst relative error over routings, and what is wrong."""
    world, worst, wrong = cell.world, 0.0, []
    for index, (name, (owner, real)) in enumerate(routings(world.size, tokens).items()):
        given = cell.inputs(tokens, index + 1, owner)
        valid = {} if name == "uniform" else {"valid_tokens": world.integers([real[world.rank]])}
        outs = [cell.empty(tokens) for _ in range(2)]
        for out in outs:
            cell.run(mode, tokens, {**given, **valid}, out=out)
        wanted = cell.run("whole", tokens, given)
        rows = real[world.rank]
        others = {"torch": cell.by_collectives(tokens, given)} if "experts" in cell.layers and world.has_collectives and not valid else {}
        for way, out in {mode: outs[0], **others}.items():
            error = relative_error(world.floats(out[:rows]), world.floats(wanted[:rows])) if rows else 0.0
            worst = max(worst, error)
            if not error <= LIMITS[cell.scheme]:
                wrong.append(f"{way}, {name}: relative error {error:.4f}")
        if world.differs(*outs):
            wrong.append(f"{name}: a second run gives other bits")
        if rows < tokens and float(abs(world.floats(outs[0][rows:])).max()) != 0:
            wrong.append(f"{name}: rows behind {rows} tokens are not zero")
    return worst, wrong


def replay_on_gpu(cell, mode, tokens, count):
    """How many comparisons of outputs differ."""
    torch = cell.world.torch
    given = [cell.inputs(tokens, seed, 0 if seed == 2 else None) for seed in (1, 2)]
    outs = [cell.empty(tokens) for _ in given]

    def body():
        for each, out in zip(given, outs):
            cell.run(mode, tokens, each, out=out)

    body()
    graph = capture(cell.world, body)
    graph.replay()
    first = [out.clone() for out in outs]
    bad = torch.zeros((), dtype=torch.int64, device=cell.world.device)
    for index in range(count):
        compares = index % COMPARE_EVERY == COMPARE_EVERY - 1 or index == count - 1
        if compares:
            for out in outs:
                cell.world.spoil(out)
        elif index % COMPARE_EVERY == 50:
            # One rank after the other is late.
            torch.cuda._sleep(200_000 if index // COMPARE_EVERY % cell.world.size == cell.world.rank else 1)
        graph.replay()
        if compares:
            bad += sum((out.view(torch.int16) != one.view(torch.int16)).any() for out, one in zip(outs, first))
    torch.cuda.synchronize()
    return int(bad)


def replay_on_host(cell, mode, tokens, count):
    given, first, bad = cell.inputs(tokens, 1), None, 0
    for _ in range(count):
        out = cell.empty(tokens)
        cell.run(mode, tokens, given, out=out)
        first = out if first is None else first
        bad += cell.world.differs(out, first)
    return bad


def capture(world, body):
    """A graph of what body() queues, which has run before. Other threads may call CUDA meanwhile. Ranks capture one after the other, and
    return when all have: a capture waits for the whole GPU, where a run of a rank may wait for the others."""
    torch = world.torch
    world.synchronize()
    graph = torch.cuda.CUDAGraph()
    for turn in range(world.size):
        world.gather(None)
        if turn == world.rank:
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"):
                body()
    world.gather(None)
    return graph


def time_us(world, body):
    """The median of what the slowest rank takes. Each replay begins behind a collective, which aligns ranks."""
    torch = world.torch
    body()
    graph = capture(world, body)

    def replay(count):
        marks = []
        torch.cuda._sleep(1_000_000)  # the processor gets ahead
        for _ in range(count):
            world.align()
            marks.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
            marks[-1][0].record()
            graph.replay()
            marks[-1][1].record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * 1e3 for begin, end in marks]

    warm = max(max(each) for each in world.gather(replay(3)[1:]))
    count = min(max(int(TIMED_S * 1e6 / max(warm, 1)), MIN_REPLAYS), MAX_REPLAYS)
    return statistics.median(map(max, zip(*world.gather(replay(count)))))


def kernels_us(world, body, layers):
    """{kernel: microseconds on this rank}, in the order of their starts; the mean over the layers of some replays."""
    torch, replays = world.torch, 20
    graph = capture(world, body)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(replays):
            world.align()
            graph.replay()
        torch.cuda.synchronize()
    sums = {}
    for event in sorted(profile.events(), key=lambda event: event.time_range.start):
        if event.name.startswith("moec_"):
            sums[event.name] = sums.get(event.name, 0) + event.device_time_total
    return {name: round(us / replays / layers, 2) for name, us in sums.items()}


def pushed_works(cell, given, moved, partials, outs):
    """{column: work(index)} of copies into torch's symmetric memory."""
    world, tokens = cell.world, len(outs[0])
    pushes = rank_peers.Pushes(world, list(moved[0].values()), partials[0])
    received = dict(zip(moved[0], pushes.received))

    def pushed(index):
        pushes.all_gather(list(cell.moved(tokens, given[index]).values()))
        cell.run("experts", tokens * world.size, received, out=partials[index])
        pushes.reduce_scatter(partials[index], outs[index])

    def push(index):
        pushes.all_gather(list(moved[index].values()))
        pushes.reduce_scatter(partials[index], outs[index])

    return {"pushes": push, "pushed": pushed}


def flashinfer_works(cell, library, given, moved, outs):
    """{column: work(index)} of FlashInfer's kernels. A combine reads the slots of the dispatch in front."""
    world, tokens = cell.world, len(outs[0])
    peer = rank_peers.FlashInfer(world, library, cell.num_experts, moved[0])

    def whole(index):
        peer.dispatch(cell.moved(tokens, given[index]))
        cell.run("experts", tokens * world.size, peer.received, out=peer.partial)
        peer.combine(outs[index])

    return {"flashinfer": whole, "fi_dispatch": lambda index: peer.dispatch(moved[index]),
            "fi_combine": lambda index: peer.combine(outs[index])}


def timed(cell, mode, tokens, options, known):
    """{column: microseconds of a layer}, and what is wrong. known: columns that another mode has measured."""
    world, torch = cell.world, cell.world.torch
    layers = max(2, min(GRAPH_LAYERS, GRAPH_TOKENS // tokens))
    owner = {"uniform": None, "first": 0, "own": world.rank}[options.routing]
    given = [cell.inputs(tokens, seed, owner) for seed in range(layers)]
    outs = [cell.empty(tokens) for _ in given]

    def each_layer(work):
        def body():
            for index in range(layers):
                work(index)

        return body

    whole = {"whole": lambda index: cell.run(mode, tokens, given[index], out=outs[index])}
    if not world.has_collectives or "experts" not in cell.layers:
        found = {"whole": round(time_us(world, each_layer(whole["whole"])) / layers, 2)}
        if options.kernels:
            found["kernels"] = kernels_us(world, each_layer(whole["whole"]), layers)
        return found, []
    moved = [cell.moved(tokens, each) for each in given]
    gathered = [dict(zip(each, world.all_gather(list(each.values())))) for each in moved]
    partials = [cell.empty(tokens * world.size) for _ in given]
    for partial in partials:
        partial.zero_()

    def collective(index):
        moved_now = cell.moved(tokens, given[index])
        world.all_gather(list(moved_now.values()), into=list(gathered[index].values()))
        cell.run("experts", tokens * world.size, gathered[index], out=partials[index])
        world.reduce_scatter(partials[index], into=outs[index])

    works = whole | {
        "experts": lambda index: cell.run("experts", tokens * world.size, gathered[index], out=partials[index]),
        "own": lambda index: cell.moved(tokens, given[index]),
        "gather": lambda index: world.all_gather(list(moved[index].values()), into=list(gathered[index].values())),
        "scatter": lambda index: world.reduce_scatter(partials[index], into=outs[index]),
        "torch": collective,
    }
    if options.pushes:
        works |= pushed_works(cell, given, moved, partials, outs)
    if options.flashinfer:
        works |= flashinfer_works(cell, options.flashinfer, given, moved, outs)
    each_layer(works["whole"])()
    wanted, wrong = [world.floats(out) for out in outs], []
    for name in sorted(set(works) & {"torch", "pushed", "flashinfer"}):
        each_layer(works[name])()
        error = max(relative_error(world.floats(out), one) for out, one in zip(outs, wanted))
        wrong += [] if error <= LIMITS[cell.scheme] else [f"{name} differs from {mode} by {error:.4f}"]
    del wanted
    found = {name: known[name] if name in known else round(time_us(world, each_layer(work)) / layers, 2)
             for name, work in works.items()}
    found["gather_bytes"] = sum(array.numel() * array.element_size() for array in moved[0].values())
    found["scatter_bytes"] = tokens * outs[0].shape[1] * 2
    if options.kernels:
        found["kernels"] = kernels_us(world, each_layer(works["whole"]), layers)
    torch.cuda.empty_cache()
    return found, wrong


def text_of(row):
    """A line of the table."""
    words = [f"{row['cell']:26}{row['mode']:15}{row['tokens']:>6}"]
    if "error" in row:
        words.append(f"error {row['error']:.4f}")
    if "replays" in row:
        words.append(f"{row['replays']} replays, {row['different']} different")
    if "times" in row:
        times = row["times"]
        words.append(f"{row['routing']}, us " + " ".join(f"{name} {us:.1f}" for name, us in times.items()
                                                          if not name.endswith("bytes") and name != "kernels")
                     + (f"  {times['whole'] / times['torch']:.2f}" if "torch" in times else ""))
    return "  ".join(words + [f"WRONG: {text}" for text in row.get("wrong", [])])


def run_cell(world, folder, row, modes, counts, options, report):
    """Runs a layer and a scheme on this rank. Returns how many lines are wrong."""
    begin = time.monotonic()
    words = [name for name in row["packages"] if name in ("experts", "route", "quantize", *modes) or (name == "whole" and options.check)]
    cell = Cell(world, folder, row, words)
    loaded, failed = round(time.monotonic() - begin, 1), 0
    known = {tokens: {} for tokens in counts}
    for mode, tokens in [(mode, tokens) for tokens in counts for mode in modes if mode in words]:
        line = {"cell": cell.name, "mode": mode, "tokens": tokens, "ranks": world.size, "device": world.device_name,
                "routing": options.routing, "load_s": loaded, "grouped": getattr(world, "grouped", None)}
        wrong = []
        if options.check:
            error, found = check(cell, mode, tokens)
            line["error"] = max(world.gather(error))
            wrong += found
        if options.replays:
            replay = replay_on_host if world.device == "host" else replay_on_gpu
            line["replays"], line["different"] = options.replays, sum(world.gather(replay(cell, mode, tokens, options.replays)))
            wrong += ["replays differ"] if line["different"] else []
        if options.time:
            line["times"], found = timed(cell, mode, tokens, options, known[tokens])
            known[tokens] = {name: us for name, us in line["times"].items() if name not in ("whole", "kernels")}
            wrong += found
        wrong = [f"rank {rank}: {text}" for rank, texts in enumerate(world.gather(wrong)) for text in texts]
        if wrong:
            line["wrong"], failed = wrong, failed + 1
        if world.rank == 0:
            report(line)
    return failed


def run_rank(world, options, report):
    """Returns how many lines are wrong."""
    listed = rank_worlds.packages_of(options.folder)
    if listed["ranks"] != world.size:
        raise SystemExit(f"ranks.py: the packages of {options.folder} are for {listed['ranks']} ranks, got --ranks={world.size}")
    words = [word for word in options.cells.split(",") if word]
    rows = [row for row in listed["cells"] if not words
            or any(word in (row["layer"], row["scheme"], f"{row['layer']}/{row['scheme']}") for word in words)]
    if not rows:
        raise SystemExit(f"ranks.py: --cells={options.cells} names no cell of {options.folder}/ranks.json")
    counts = [int(word) for word in options.tokens.split(",")] if options.tokens else listed["tokens"]
    modes = options.modes.split(",")
    return sum(run_cell(world, options.folder, row, modes, counts, options, report) for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=HERE, help="of compile_ranks.py; default: this script's")
    parser.add_argument("--ranks", type=int, default=2, help="GPUs, or threads of the host device")
    parser.add_argument("--cells", default="", help="layer, scheme or layer/scheme, separated by commas; default: all")
    parser.add_argument("--tokens", default="", help="token counts of a rank; default: those of ranks.json")
    parser.add_argument("--modes", default="gather_scatter", help="how packages move tokens, separated by commas")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--replays", type=int, default=0)
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--routing", choices=("uniform", "first", "own"), default="uniform",
                        help="with --time: the ranks whose experts tokens choose: any, the first, or their own")
    parser.add_argument("--pushes", action="store_true", help="with --time: also copies into torch's symmetric memory")
    parser.add_argument("--flashinfer", type=pathlib.Path, help="with --time: also FlashInfer's exchange, of this library")
    parser.add_argument("--kernels", action="store_true", help="with --time: also each kernel's time")
    parser.add_argument("--connect", choices=("group", "id", "nccl_windows", "callbacks", "symmetric_memory"), default="group",
                        help="a communicator of torch's group or of an id, or of an id with windows of NCCL; the others are for one_sided, "
                        "without NCCL")
    parser.add_argument("--nccl", type=pathlib.Path, help="with an id: the libnccl.so.2; default: that of torch")
    parser.add_argument("--host", action="store_true", help="threads of the host device in place of GPUs")
    parser.add_argument("--one-gpu", action="store_true", help="all ranks have the first GPU, without collectives; for one_sided")
    parser.add_argument("--out", type=pathlib.Path, help="JSON lines, appended")
    options = parser.parse_args()

    def report(line):
        print(text_of(line), flush=True)
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    if options.host or options.one_gpu:
        if options.host and options.time:
            parser.error("--time: the host device is for tests, and its times mean nothing")
        failed = [0] * options.ranks

        def work(world):
            failed[world.rank] = run_rank(world, options, report)

        error = rank_worlds.on_threads(options.ranks, work, device="cuda:0" if options.one_gpu else None)
        if error:
            raise error
        return 1 if any(failed) else 0
    if rank_worlds.is_a_rank():
        world = rank_worlds.GpuRank(options.connect, options.nccl)
        failed = run_rank(world, options, report)
        # NCCL ends behind the graphs that hold its kernels.
        gc.collect()
        world.close()
        return 1 if failed else 0
    return rank_worlds.on_processes(options.ranks, [__file__, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
