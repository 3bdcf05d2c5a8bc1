# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks and times the systems of one layer in a separate process, so that a failing kernel of another system loses only that
process's GPU context."""

import dataclasses
import functools
import math
import multiprocessing
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moec.bench import case as cases
from moec.bench.case import Case, Inputs, Weights
from moec.bench.clock import Graph, interleaved_us
from moec.bench.systems import SYSTEMS, Run, Unfit

MOEC = "moec"
COLD_BYTES, MOST_LAYERS = 400e6, 64  # the layers of a graph read more than an L2 cache holds
WRONG = "wrong"
LOST = "CUDA error"
"""An error with this text leaves the GPU context unusable."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A layer, and what to time."""

    source: Mapping[str, Any]
    """A layer JSON or a model's config."""
    options: Mapping[str, Any]
    """The options of moec.compile()."""
    tokens: tuple[int, ...]
    systems: tuple[str, ...]
    skew: float
    passes: int


@dataclasses.dataclass
class Row:
    """The result of one system at one token count."""

    layer: str
    scheme: str
    tokens: int
    system: str
    us: float | None = None
    """The median of the passes."""
    passes_us: list[float] = dataclasses.field(default_factory=list)
    error: float | None = None
    """The norm of the difference from a float32 reference over the norm of the reference."""
    refusal: str = ""
    """The reason why the system was not timed."""
    experts: float = 0
    """Mean number of this rank's experts that a layer of the graph uses. Bytes and FLOPs are also means."""
    layers: int = 0
    """Number of layers in the graph."""
    moved_bytes: float = 0
    flops: float = 0


@dataclasses.dataclass
class Found:
    """An installed system, or the reason why it is not installed."""

    system: str
    version: str = ""
    refusal: str = ""


@dataclasses.dataclass
class Begun:
    """Announces the next step, so that the parent knows at which step a process died."""

    system: str
    tokens: int


def said(error: BaseException) -> str:
    words = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
    return words if isinstance(error, Unfit) else f"{type(error).__name__}: {words}"


def moec_run(job: Job, package: Any, weights: Weights, tokens: int) -> Run:
    layer, routes = package.layer(weights.named()), weights.case.routes
    context = package.context(tokens)

    def run(inputs: Inputs) -> Any:
        if routes:
            return layer(inputs.x, inputs.logits, context=context)
        return layer(inputs.x, given_ids=inputs.ids, given_weights=inputs.weights, context=context)

    return run


def in_turns(runs: list[Run], given: list[Inputs]) -> list[Any]:
    return [runs[at % len(runs)](each) for at, each in enumerate(given)]


class Bench:
    """The systems of one layer, with two sets of weights that alternate."""

    def __init__(self, job: Job) -> None:
        import torch

        import moec

        self.job = job
        self.package = moec.load(moec.compile(job.source, max_tokens=max(job.tokens), **job.options))
        self.case = Case.of(self.package.manifest["layer"])
        torch.manual_seed(1)
        self.weights = [cases.random_weights(self.case) for _ in range(2)]
        self.runs: dict[str, list[Run]] = {}

    def run_of(self, name: str, tokens: int) -> list[Run]:
        """Creates a run for each set of weights. Runs of other systems than moec are reused for all token counts."""
        if name == MOEC:
            return [moec_run(self.job, self.package, each, tokens) for each in self.weights]
        if name not in self.runs:
            system = next(each for each in SYSTEMS if each.name == name)
            if refusal := system.refusal(self.case):
                raise Unfit(refusal)
            self.runs[name] = [system.run_of(each) for each in self.weights]
        return self.runs[name]

    def rows(self, tokens: int) -> Iterator[Begun | Row]:
        import torch

        torch.manual_seed(tokens)
        case, job = self.case, self.job
        first = cases.random_inputs(case, tokens, job.skew)
        count = min(MOST_LAYERS, max(1, math.ceil(COLD_BYTES / max(1, len(case.local(first)) * case.expert_bytes()))))
        given = [first, *(cases.random_inputs(case, tokens, job.skew) for _ in range(count - 1))]
        local = [case.local(each) for each in given]
        wanted = cases.reference(self.weights[0], first)
        made, graphs = {}, {}
        for name in job.systems:
            yield Begun(name, tokens)
            row = made[name] = Row(case.name, case.scheme, tokens, name, layers=count)
            row.experts = statistics.mean(len(each) for each in local)
            row.moved_bytes = case.moved_bytes(tokens, row.experts)
            row.flops = case.flops(statistics.mean(sum(each.values()) for each in local))
            try:
                runs = self.run_of(name, tokens)
                row.error = cases.error_of(runs[0](first), wanted)
                torch.cuda.synchronize()
                # A NaN must count as an error.
                if not row.error <= cases.TOLERANCE[case.scheme]:
                    raise Unfit(f"{WRONG}: off by {row.error:.2g} of the reference's norm")
                graphs[name] = Graph(functools.partial(in_turns, runs, given))
            except Exception as error:
                row.refusal = said(error)
                if LOST in str(error):
                    raise
        for name, graph in graphs.items():
            yield Begun(name, tokens)
            graph.replay_us()
        for name, times in interleaved_us(graphs, job.passes).items():
            made[name].passes_us = [us / count for us in times]
            made[name].us = statistics.median(made[name].passes_us)
        yield from made.values()


def work(job: Job, pipe: Any) -> None:
    """Main function of the measuring process. Sends Begun and Row messages, and at the end a text: "" or the error."""
    try:
        bench = Bench(job)
        for tokens in job.tokens:
            for message in bench.rows(tokens):
                pipe.send(message)
        pipe.send("")
    except Exception as error:
        pipe.send(said(error))


def look(names: tuple[str, ...], pipe: Any) -> None:
    """Main function of the process that imports systems. For each system it sends Begun and Found, and at the end ""."""
    known = {each.name: each for each in SYSTEMS}
    for name in names:
        pipe.send(Begun(name, 0))
        try:
            found = Found(name, known[name].version())
        except (Exception, SystemExit) as error:  # an extension built for another PyTorch may fail in many ways
            found = Found(name, refusal=said(error))
        pipe.send(found)
    pipe.send("")


class Talk:
    """A separate process, and the messages that it sends up to its final text."""

    def __init__(self, target: Callable[[Any, Any], None], argument: Any, limit_s: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.reader, writer = context.Pipe(False)
        self.process, self.limit_s = context.Process(target=target, args=(argument, writer)), limit_s
        self.end = ""
        self.process.start()
        writer.close()

    def messages(self) -> Iterator[Any]:
        try:
            while True:
                if not self.reader.poll(self.limit_s):
                    self.end = f"no result in {self.limit_s:g} s"
                    break
                message = self.reader.recv()
                if isinstance(message, str):
                    self.end = message
                    break
                yield message
        except EOFError:
            self.process.join()
            self.end = f"its process ended with status {self.process.exitcode}"
        self.process.kill()
        self.process.join()


def found_of(names: tuple[str, ...], limit_s: float, target: Callable[[tuple[str, ...], Any], None] = look) -> Iterator[Found]:
    """Yields one Found per system. A system whose import ends its process or takes too long counts as not installed, and the
    search continues in another process."""
    left = list(names)
    while left:
        talk = Talk(target, tuple(left), limit_s)
        for message in talk.messages():
            if isinstance(message, Found):
                left.remove(message.system)
                yield message
        if left:
            yield Found(left.pop(0), refusal=talk.end or "its process sent no version")


def rows_of(job: Job, limit_s: float, target: Callable[[Job, Any], None] = work) -> Iterator[Row]:
    """Yields all rows of a job. If a system ends its process or takes too long, the next process runs without this system. Raises
    RuntimeError if moec itself fails."""
    left, systems = list(job.tokens), list(job.systems)
    while left:
        talk = Talk(target, dataclasses.replace(job, tokens=tuple(left), systems=tuple(systems)), limit_s)
        now = Begun("", left[0])
        got: list[Row] = []
        for message in talk.messages():
            if isinstance(message, Begun):
                now = message
            else:
                got.append(message)
                if len(got) == len(systems):
                    yield from got
                    got = []
                    left.pop(0)
        if talk.end and now.system in ("", MOEC):
            raise RuntimeError(talk.end)
        if talk.end:
            systems.remove(now.system)
            yield Row("", "", now.tokens, now.system, refusal=talk.end)
