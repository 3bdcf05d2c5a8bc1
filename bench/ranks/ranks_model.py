#!/usr/bin/env python3
# ===- ranks_model.py - what 2 to 72 ranks would take -------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A model, no measurement: microseconds that tokens and sums take between ranks, out of launches, signals and bytes on the wire.
Its terms are measured on two GPUs. For more ranks it assumes a switch at which each rank has its full rate in and out.

  bench/ranks/ranks_model.py [--fit=ranks.jsonl ...] [--into=bench/notes/ranks.md]

--fit takes the lines of ranks.py --time in place of the terms below. --into replaces what stands in FILE below the line MARK."""

import argparse
import dataclasses
import json
import pathlib
import sys

import numpy as np

MARK = "## Tables of `bench/ranks/ranks_model.py`"
SAMPLED = 512  # tokens of a rank that are routed; more are like them
TOKENS = (1, 128, 1024, 4096)


@dataclasses.dataclass(frozen=True)
class Terms:
    """Times in microseconds, rates in GB/s. Measured on two H200 but where a comment says otherwise."""

    launch: float = 2.0  # a small kernel in a row; with a signal it is the 3.3 us of a store to the peer
    signal: float = 1.35  # half of a round trip of a release and an acquire
    peer: float = 0.02  # assumed: a further word that is stored, and polled
    wire: float = 368.0
    nccl: float = 11.0
    hop: float = 1.35  # assumed: a step of a ring is a signal
    nccl_rate: float = 225.0

    def faster(self, factor):
        """With a wire of more bandwidth and the same times. Assumed."""
        return dataclasses.replace(self, wire=self.wire * factor, nccl_rate=self.nccl_rate * factor)


# GB/s of NVLink 4, one way.
LINK = 450.0
# NVLink 5 over NVLink 4.
BLACKWELL = 2.0


@dataclasses.dataclass(frozen=True)
class Layer:
    name: str
    experts: int
    top_k: int
    hidden: int
    scheme: str = "bf16"
    groups: tuple[int, int] = (1, 1)  # of experts, and how many of them a token may choose from

    @property
    def row(self):
        """Bytes of a token on its way out."""
        return 2 * self.hidden if self.scheme == "bf16" else self.hidden + 4 * -(-self.hidden // 128)

    @property
    def choice(self):
        """Bytes of a token's ids and weights."""
        return 8 * self.top_k


CASES = (
    (Layer("qwen3-30b-a3b", 128, 8, 2048), (2, 8)),
    (Layer("mixtral-8x7b", 8, 2, 4096), (2, 8)),
    (Layer("llama-4-scout", 16, 1, 5120), (2, 8)),
    (Layer("deepseek-v3", 256, 8, 7168, "fp8_block", (8, 4)), (8, 16, 32, 64)),
    (Layer("deepseek-v3, 288 experts", 288, 8, 7168, "fp8_block"), (72,)),
)
# (system, GPU over an H200's wire, layer, ranks, tokens, microseconds out and back). Each token goes to all ranks of 8, or to
# as many as it has experts.
PUBLISHED = (
    ("TensorRT-LLM, GB200", BLACKWELL, Layer("", 256, 8, 7168), 8, 1, (18.9, 31.0)),
    ("TensorRT-LLM, GB200", BLACKWELL, Layer("", 256, 8, 7168), 8, 128, (31.7, 38.1)),
    ("TensorRT-LLM, GB200", BLACKWELL, Layer("", 256, 8, 7168), 8, 2048, (312.0, 323.0)),
    ("TensorRT-LLM, GB200", BLACKWELL, Layer("", 256, 8, 7168), 64, 128, (41.6, 44.5)),
    ("Kraken, H100", 1.0, Layer("", 128, 1, 4096), 2, 4096, (80.0, 83.0)),
)


def popularity(layer, routing, random):
    """Logits that are added to all tokens' ones."""
    if routing == "uniform":
        return np.zeros(layer.experts)
    exponent = float(routing.partition(":")[2])
    return random.permutation(-exponent * np.log(np.arange(1, layer.experts + 1)))


def choices(layer, routing, tokens, random):
    """Experts of each token, [tokens, top_k]: the best of Gumbel noise, which draws without replacement."""
    keys = random.gumbel(size=(tokens, layer.experts)) + popularity(layer, routing, np.random.default_rng(0))
    groups, kept = layer.groups
    if groups > 1:
        best = np.sort(keys.reshape(tokens, groups, -1), 2)[..., -2:].sum(2)
        worst = np.argsort(best, 1)[:, : groups - kept]
        keys.reshape(tokens, groups, -1)[np.arange(tokens)[:, None], worst] = -np.inf
    return np.argpartition(-keys, layer.top_k - 1, 1)[:, : layer.top_k]


def counts_of(layer, ranks, tokens, routing):
    """[ranks, ranks]: tokens of the first rank that have an expert on the second. And the fullest rank's pairs over the mean."""
    random = np.random.default_rng(1)
    begins = [rank * (layer.experts // ranks) + min(rank, layer.experts % ranks) for rank in range(ranks)]
    counts, pairs = np.zeros((ranks, ranks)), np.zeros(ranks)
    sampled = min(tokens, SAMPLED)
    for source in range(ranks):
        owners = np.searchsorted(begins, choices(layer, routing, sampled, random), "right") - 1
        chosen = (owners[..., None] == np.arange(ranks)).sum(1)
        counts[source] = (chosen > 0).sum(0) * (tokens / sampled)
        pairs += chosen.sum(0)
    return counts, pairs.max() / pairs.mean()


def busiest(sent):
    """Bytes of the rank that sends or receives most. sent: [from, to]; a rank's own do not count."""
    between = sent - np.diag(np.diag(sent))
    return max(between.sum(0).max(), between.sum(1).max())


def one_sided(terms, layer, ranks, tokens, counts):
    """Microseconds out, and back with the last sum."""
    choice = np.full((ranks, ranks), float(tokens * layer.choice))
    flags = terms.signal + (ranks - 1) * terms.peer
    out = terms.launch + flags + busiest(counts * layer.row + choice) / (terms.wire * 1e3)
    back = terms.launch + flags + busiest(counts.T * 2 * layer.hidden) / (terms.wire * 1e3)
    return out, back + terms.launch


def gather_scatter(terms, layer, ranks, tokens):
    """Microseconds of an all-gather, and of a reduce-scatter."""
    steps = terms.nccl + (ranks - 2) * terms.hop
    received = (ranks - 1) * tokens
    return tuple(steps + received * row / (terms.nccl_rate * 1e3) for row in (layer.row + layer.choice, 2 * layer.hidden))


def fit_line(points, least):
    """(constant, slope) of points (bytes, microseconds, their error); the slope is at least that much."""
    size, us, error = np.array(points, float).T
    slope, constant = np.polyfit(size, us, 1, w=1 / error) if len(set(size)) > 1 else (0.0, 0.0)
    if slope < least:
        slope, constant = least, np.average(us - least * size, weights=error**-2.0)
    return max(float(constant), 0.0), float(slope)


def fitted(rows, terms):
    """Terms out of lines of ranks.py. Both collectives are taken together, and so are both ways of one_sided."""
    collectives, moves = [], []
    for row in rows:
        times, others = row.get("times"), row["ranks"] - 1
        # Layers with shared experts are timed whole.
        if "experts" not in (times or {}):
            continue
        both = (times["gather_bytes"] + times["scatter_bytes"]) * others
        mean = (times["gather"] + times["scatter"]) / 2
        collectives.append((both / 2, mean, mean))
        if row["mode"] == "one_sided":
            # A difference of two times, each a few percent off.
            moves.append((both, times["whole"] - times["experts"] - times["own"], 1 + 0.05 * times["experts"]))
    if collectives:
        constant, slope = fit_line(collectives, 1e-3 / LINK)
        terms = dataclasses.replace(terms, nccl=constant, nccl_rate=1e-3 / slope)
    if moves:
        # A rate above that of stores alone comes of work beside them.
        constant, slope = fit_line(moves, 1e-3 / terms.wire)
        # Three launches and two signals.
        terms = dataclasses.replace(terms, launch=max(constant - 2 * terms.signal, 0.0) / 3, wire=1e-3 / slope)
    return terms


def table(terms, routings):
    """Lines of Markdown."""
    yield "| layer | ranks | tokens | gather_scatter | " + " | ".join(f"one_sided, {name} | fullest rank" for name in routings) + " |"
    yield "| --- | ---: | ---: | ---: |" + " ---: |" * (2 * len(routings))
    for layer, sizes in CASES:
        for ranks in sizes:
            used = terms if ranks <= 8 else terms.faster(BLACKWELL)
            for tokens in TOKENS:
                both = gather_scatter(used, layer, ranks, tokens)
                words = [layer.name, str(ranks), str(tokens), f"{both[0]:.0f} + {both[1]:.0f}"]
                for routing in routings:
                    counts, fullest = counts_of(layer, ranks, tokens, routing)
                    there, back = one_sided(used, layer, ranks, tokens, counts)
                    words += [f"{there:.0f} + {back:.0f}", f"{fullest:.1f}"]
                yield f"| {' | '.join(words)} |"


def beside_published(terms):
    yield "| system | ranks | tokens | published out + back | the model | published over model |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for system, factor, layer, ranks, tokens, published in PUBLISHED:
        counts = np.full((ranks, ranks), tokens * min(layer.top_k / ranks, 1.0))
        found = one_sided(terms.faster(factor), layer, ranks, tokens, counts)
        yield (f"| {system} | {ranks} | {tokens} | {published[0]:.1f} + {published[1]:.1f} | {found[0]:.1f} + {found[1]:.1f} | "
               f"{published[0] / found[0]:.1f}, {published[1] / found[1]:.1f} |")


def text_of(terms, source):
    """The tables of the note."""
    words = ", ".join(f"{field.name} {getattr(terms, field.name):.4g}" for field in dataclasses.fields(terms))
    return "\n".join([f"Terms of {source}: {words}. Over 8 ranks the wire and NCCL's rate are those times {BLACKWELL:g}.", "",
                      *table(terms, ("uniform", "zipf:1")), "", "### Beside published figures", "", *beside_published(terms)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", type=pathlib.Path, nargs="*", default=[], help="files that ranks.py --time --out wrote")
    parser.add_argument("--into", type=pathlib.Path, help="a Markdown file with a line MARK; default: to the output")
    options = parser.parse_args()
    rows = [json.loads(line) for path in options.fit for line in path.read_text(encoding="utf-8").splitlines()]
    devices = sorted({row["device"] for row in rows})
    terms = fitted(rows, Terms()) if rows else Terms()
    above, mark, _ = options.into.read_text(encoding="utf-8").partition(f"{MARK}\n") if options.into else ("", "", "")
    if options.into and not mark:
        parser.error(f"expected a line '{MARK}' in {options.into}")
    text = text_of(terms, f"{len(rows)} cells on {', '.join(devices)}" if rows else "single measurements on two H200")
    if not options.into:
        print(text, end="")
        return 0
    options.into.write_text(f"{above}{mark}\n{text}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
