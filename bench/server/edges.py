#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs what a server does besides serving, in vLLM's engine with moec: new weights, sleep, returned experts, ranks, EPLB.

    PYTHONPATH=python MOEC_LIBRARY=libmoec.so bench/server/edges.py OUT [--site=SITE] [--cases=reload,routed] [--gpus=0,1]

Models have a few layers and real checkpoints, which the program writes. Each case is an engine of its own. OUT gets checks.csv,
results.json and logs.tar.xz. The exit status is 1 if a check fails.

reload   reload_weights from a second checkpoint and from the first again, also after sleep of levels 1 and 2: the bits of the
         engine as it was started; other bits with the second checkpoint
routed   enable_return_routed_experts: ids of each token and layer, which those of vLLM's own backend are compared with
tp, ep   two GPUs, tensor parallel without and with expert parallel: tokens of both ranks, tokens/s
eplb     ep with EPLB: rebalances during a run move experts; each row has the bytes of its logical expert before. `eplb-sync`
         moves them between two steps by NCCL, `eplb` in the background by vLLM's default

Log probabilities of engines that sum in another order are compared by their mean absolute difference, with the difference of
vLLM's own backend between tensor and expert parallel as a yardstick.
"""

import argparse
import itertools
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import engines
import models
import perf

VOCABULARY = 8192
PROMPTS, LENGTH, NEW = 8, 64, 16
SEEDS = {"a": 1, "b": 2}
RANKS = 2
# One redundant expert for eight.
REDUNDANT_SHARE = 8
# vLLM begins three quarters into the first interval, which is after the 32 steps of a probe.
EPLB_STEPS = {"window_size": 64, "step_interval": 160}
# A round has 16 steps: three rebalances.
EPLB_ROUNDS = 24
FAILED = "NO"


class Case(NamedTuple):
    ranks: int
    sides: tuple[str, ...]
    kinds: tuple[str, ...]
    options: dict[str, Any]


def _eplb(**options: Any) -> dict[str, Any]:
    return {"enable_expert_parallel": True, "enable_eplb": True, "eplb_config": EPLB_STEPS | options}


MOEC = ("moec",)
CASES = {
    "reload": Case(1, MOEC, models.KINDS, {}),
    "routed": Case(1, engines.SIDES, ("bf16", "mxfp4"), {"enable_return_routed_experts": True, "enable_prefix_caching": True}),
    "tp": Case(RANKS, engines.SIDES, ("bf16", "fp8_block"), {}),
    "ep": Case(RANKS, engines.SIDES, ("bf16", "fp8_block", "mxfp4"), {"enable_expert_parallel": True}),
    "eplb": Case(RANKS, MOEC, ("bf16", "fp8_block"), _eplb()),
    "eplb-sync": Case(RANKS, MOEC, ("bf16",), _eplb(use_async=False, communicator="pynccl")),
}


class Engine:
    """An engine and its fixed requests."""

    def __init__(self, make: Callable[..., Any], model: pathlib.Path, on_gpu: bool, **options: Any) -> None:
        self.on_gpu = on_gpu
        made: dict[str, Any] = {
            "skip_tokenizer_init": True,
            "max_model_len": 1024,
            "enable_prefix_caching": False,
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 64,
            "enable_trace_replay": self.on_gpu,
        }
        if self.on_gpu:
            made |= {"kv_cache_memory_bytes": 2**29, "gpu_memory_utilization": 0.1}
            made |= {"compilation_config": {"cudagraph_capture_sizes": [1, 8, 16, 64, 128]}}
        else:
            # vLLM compiles MoE layers on the processor, and not the operator around them as on a GPU.
            made |= {"enforce_eager": True, "gpu_memory_utilization": 0.2}
        self.llm = make(str(model), **(made | options))
        source = random.Random(3)
        self.prompts, self.following = ([self._row(source, count) for _ in range(PROMPTS)] for count in (LENGTH, NEW))

    @staticmethod
    def _row(source: random.Random, count: int) -> list[int]:
        return [source.randrange(3, VOCABULARY) for _ in range(count)]

    def ask(self, options: Sequence[dict[str, Any]], source: random.Random | None = None) -> Any:
        """Answers the fixed prompts, or those that `source` makes."""
        from vllm import SamplingParams

        prompts = [self._row(source, LENGTH) for _ in range(PROMPTS)] if source else self.prompts
        parameters = [SamplingParams(temperature=0, ignore_eos=True, detokenize=False, **each) for each in options]
        return self.llm.generate([{"prompt_token_ids": row} for row in prompts], parameters, use_tqdm=False)

    def probe(self) -> dict[str, Any]:
        """Tokens, and log probabilities of tokens that are the same for all engines: of prompts, and on a GPU of given tokens
        that follow them, one step each."""
        answers = self.ask([{"max_tokens": NEW, "prompt_logprobs": 0, "logprobs": 0}] * PROMPTS)
        prefill: list[float] = []
        decode: list[float] = []
        for answer, prompt in zip(answers, self.prompts, strict=True):
            prefill += [answer.prompt_logprobs[i][prompt[i]].logprob for i in range(1, LENGTH)]
        made = {"tokens": [list(each.outputs[0].token_ids) for each in answers], "prefill": prefill}
        greedy = [place[token].logprob for each in answers for place, token in _places(each)]
        if self.on_gpu:
            forced = [{"max_tokens": NEW, "trace_decode_token_ids": row, "logprobs": 0} for row in self.following]
            replayed = self.ask(forced)
            if [list(each.outputs[0].token_ids) for each in replayed] != self.following:
                raise RuntimeError("vLLM did not replay the given tokens")
            decode = [place[token].logprob for each in replayed for place, token in _places(each)]
        return made | {"greedy": greedy, "decode": decode}

    def on_ranks(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        return list(self.llm.collective_rpc(call, args=arguments))


def _places(answer: Any) -> Any:
    return zip(answer.outputs[0].logprobs, answer.outputs[0].token_ids, strict=True)


def last_tokens(worker: Any) -> list[int] | None:
    """The tokens that a rank sampled last, of vLLM's newer model runner."""
    states = getattr(worker.model_runner, "req_states", None)
    return None if states is None else states.last_sampled_tokens.flatten().tolist()


def _eplb_state(worker: Any) -> Any:
    (state,) = worker.model_runner.eplb_state.model_states.values()
    return state


def logical_experts(worker: Any) -> list[list[int]]:
    """The expert of each place, by layer."""
    made: list[list[int]] = _eplb_state(worker).physical_to_logical_map.cpu().tolist()
    return made


def digests(worker: Any) -> list[list[list[int]]]:
    """Numbers for the bytes of each of this rank's places, by layer: one for each weight."""
    import torch

    def digest(row: Any) -> int:
        values = row.contiguous().view(torch.uint8).flatten().long()
        factors = torch.arange(1, 2 * len(values), 2, device=values.device) * 2654435761
        return int((values * factors).sum())

    layers = _eplb_state(worker).model.expert_weights
    return [[list(map(digest, rows)) for rows in zip(*tensors, strict=True)] for tensors in layers]


def run_reload(engine: Engine, turns: engines.Turns, folders: dict[str, pathlib.Path]) -> dict[str, Any]:
    """A step that fails ends the case; the steps before it count."""

    def load(name: str) -> None:
        engine.llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folders[name])})

    def sleep(level: int) -> None:
        # vLLM compares the free memory of the whole GPU before and after.
        with turns.gpu():
            engine.llm.sleep(level=level)
            engine.llm.wake_up()
        if level == 2:
            load("a")

    made: dict[str, Any] = {"start": engine.probe()}
    steps: dict[str, Callable[[], None]] = {"second": lambda: load("b"), "first again": lambda: load("a")}
    if engine.on_gpu:
        steps |= {"sleep 1": lambda: sleep(1), "sleep 2": lambda: sleep(2)}
    for name, step in steps.items():
        try:
            step()
            made[name] = engine.probe()
        except Exception as error:
            traceback.print_exc()
            return made | {"failed": f"{name}: {type(error).__name__}: {error}"[:400]}
    return made


def run_routed(engine: Engine) -> dict[str, Any]:
    answers = engine.ask([{"max_tokens": NEW}] * PROMPTS)
    return {"start": engine.probe(), "experts": [each.outputs[0].routed_experts.tolist() for each in answers]}


def run_ranks(engine: Engine, turns: engines.Turns) -> dict[str, Any]:
    made: dict[str, Any] = {"start": engine.probe(), "last tokens": engine.on_ranks(last_tokens)}
    if not engine.on_gpu:
        return made
    turns.reach("quiet")
    with turns.gpu():
        made["cells"] = perf.Timer(engine.llm, VOCABULARY, 3).cells((1, 8, 64), ((1, 512), (8, 512)))
    return made


def run_eplb(engine: Engine) -> dict[str, Any]:
    """Runs requests with other tokens in each round, while experts move."""

    def placed() -> dict[str, Any]:
        return {"experts": engine.on_ranks(logical_experts), "digests": engine.on_ranks(digests)}

    made: dict[str, Any] = {"first": placed(), "start": engine.probe()}
    maps = [made["first"]["experts"][0]]
    for seed in range(EPLB_ROUNDS):
        engine.ask([{"max_tokens": NEW}] * PROMPTS, random.Random(seed))
        maps.append(engine.on_ranks(logical_experts)[0])
    changes = sum(a != b for a, b in itertools.pairwise(maps))
    return made | {"changes": changes, "last": placed(), "moved": engine.probe()}


def run_job(options: argparse.Namespace) -> None:
    turns = engines.Turns(options.work, options.job)
    began = time.monotonic()
    from vllm import LLM
    from vllm.platforms import current_platform

    imported = time.monotonic()
    # torch.cuda would start CUDA, and vLLM could then not fork its workers.
    on_gpu = bool(current_platform.is_cuda())
    folders = {name: options.work / "models" / f"{options.kind}-{name}" for name in SEEDS}
    case = CASES[options.case]
    while not all((folder / "complete").exists() for folder in folders.values()):
        time.sleep(0.1)
    started = time.monotonic()
    extra = dict(case.options)
    if options.case == "reload":
        extra["enable_sleep_mode"] = on_gpu
    if "enable_eplb" in extra:
        config = json.loads((folders["a"] / "config.json").read_text())
        experts = config.get("num_experts") or config["num_local_experts"]
        extra["eplb_config"] = extra["eplb_config"] | {"num_redundant_experts": experts // REDUNDANT_SHARE}
    if case.ranks > 1:
        extra["tensor_parallel_size"] = case.ranks
    engine = Engine(LLM, folders["a"], on_gpu, **extra)
    made: dict[str, Any] = {"versions": engines.versions(options.commit), "import_s": imported - began}
    made["start_s"] = time.monotonic() - started
    match options.case:
        case "reload":
            made |= run_reload(engine, turns, folders)
        case "routed":
            made |= run_routed(engine)
        case "tp" | "ep":
            made |= run_ranks(engine, turns)
        case _:
            made |= run_eplb(engine)
    turns.announce("quiet")
    made["total_s"] = time.monotonic() - began
    (options.work / f"{options.job}.json").write_text(json.dumps(made))


def difference(a: dict[str, Any], b: dict[str, Any]) -> float:
    """The mean absolute difference of log probabilities of the same tokens."""
    pairs = [*zip(a["prefill"], b["prefill"], strict=True), *zip(a["decode"], b["decode"], strict=True)]
    return float(sum(abs(x - y) for x, y in pairs)) / len(pairs)


class Checks:
    """Rows of checks.csv."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, job: str, check: str, holds: bool, found: str) -> None:
        verdict = "yes" if holds else FAILED if job.endswith(".moec") else "no, vLLM's own"
        self.rows.append({"engine": job, "check": check, "holds": verdict, "found": found})

    def reload(self, job: str, made: dict[str, Any]) -> None:
        start = made["start"]
        if "second" in made:
            far = difference(start, made["second"])
            self.add(job, "second checkpoint: other log probabilities", far > 0.5, f"mean difference {far:.3f}")
        for name in ("first again", "sleep 1", "sleep 2"):
            if name in made:
                found = "the same bits" if made[name] == start else f"mean difference {difference(start, made[name]):.2e}"
                self.add(job, f"{name}: the bits of the start", made[name] == start, found)
        if "failed" in made:
            self.add(job, "all steps", False, made["failed"])

    def routed(self, job: str, made: dict[str, Any], other: dict[str, Any], experts: int, top_k: int) -> None:
        shapes = {(len(row), len(row[0]), len(row[0][0])) for row in made["experts"]}
        ids = [sorted(token) for row in made["experts"] for place in row for token in place]
        valid = all(len(set(each)) == top_k and each[0] >= 0 and each[-1] < experts for each in ids)
        self.add(job, "ids of each token and layer", valid and len(shapes) == 1, f"shapes {sorted(shapes)}")
        if other:
            # Only the first layer of a prompt has inputs of the same bits with both backends.
            pairs = [
                (set(x[0]), set(y[0]))
                for mine, theirs in zip(made["experts"], other["experts"], strict=True)
                for x, y in zip(mine[:LENGTH], theirs[:LENGTH], strict=True)
            ]
            same = sum(x == y for x, y in pairs) / len(pairs)
            self.add(job, "first layer of the prompts: the ids of vLLM's own backend", same > 0.99, f"{same:.2%} of tokens")

    def ranks(self, job: str, made: dict[str, Any]) -> None:
        found = made["last tokens"]
        same = all(each is not None and each == found[0] for each in found)
        self.add(job, "both ranks sampled the same tokens", same, f"{len(found)} ranks, {len(found[0] or [])} slots")

    def eplb(self, job: str, made: dict[str, Any]) -> None:
        first, last = made["first"], made["last"]
        before, after = first["experts"][0], last["experts"][0]
        moved = sum(x != y for a, b in zip(before, after, strict=True) for x, y in zip(a, b, strict=True))
        self.add(job, "experts moved while requests ran", moved > 0, f"{made['changes']} changes, {moved} places differ")
        self.add(job, "ranks have the same placement", all(each == after for each in last["experts"]), "")
        same: list[bool] = []
        for layer, experts in enumerate(after):
            rows = [[digest for rank in placed["digests"] for digest in rank[layer]] for placed in (first, last)]
            initial = dict(zip(before[layer], rows[0], strict=True))
            same += [initial[expert] == digest for expert, digest in zip(experts, rows[1], strict=True)]
        self.add(job, "each place has the bytes of its expert", all(same), f"{sum(same)} of {len(same)} places")


def check(results: dict[str, dict[str, Any]], folder: pathlib.Path) -> Checks:
    checks = Checks()
    for job, made in results.items():
        case, kind, side = job.split(".")
        if not made:
            checks.add(job, "ran", False, "see its log")
            continue
        config = json.loads((folder / f"{kind}-a" / "config.json").read_text())
        experts = config.get("num_experts") or config["num_local_experts"]
        own = results.get(f"{case}.{kind}.own", {})
        match case:
            case "reload":
                checks.reload(job, made)
            case "routed":
                checks.routed(job, made, own if side == "moec" else {}, experts, config["num_experts_per_tok"])
            case "tp" | "ep":
                checks.ranks(job, made)
            case _:
                checks.eplb(job, made)
    return checks


def distances(results: dict[str, dict[str, Any]]) -> str:
    """Mean absolute differences of log probabilities between engines with the same weights."""
    lines = []
    for kind in models.KINDS:
        starts = {job: made["start"] for job, made in results.items() if made and f".{kind}." in job}
        base = next((job for job in (f"tp.{kind}.own", f"reload.{kind}.own", *starts) if job in starts), None)
        if base is None:
            continue
        lines += [[job, base, f"{difference(start, starts[base]):.4f}"] for job, start in starts.items() if job != base]
        for job, made in results.items():
            if f".{kind}." in job and "moved" in made and (ep := starts.get(f"ep.{kind}.moec")):
                lines.append([f"{job}, after its rebalances", f"ep.{kind}.moec", f"{difference(made['moved'], ep):.4f}"])
    return engines.table(["engine", "beside", "mean difference"], lines)


def speeds(results: dict[str, dict[str, Any]]) -> str:
    lines: list[list[str]] = []
    names: list[str] = []
    for job, made in results.items():
        if job.endswith(".moec") and "cells" in made and "cells" in (own := results.get(job.removesuffix("moec") + "own", {})):
            names = list(made["cells"])
            rates = [(made["cells"][name]["tokens_per_s"], own["cells"][name]["tokens_per_s"]) for name in names]
            lines.append(
                [job.removesuffix(".moec"), *(f"{mine:.0f} / {theirs:.0f} = {mine / theirs:.2f}" for mine, theirs in rates)]
            )
    return engines.table(["tokens/s, moec / own", *names], lines) if lines else "no tokens/s of both sides"


def jobs_of(options: argparse.Namespace) -> list[engines.Job]:
    jobs: list[engines.Job] = []
    alone = 0
    for case in options.cases:
        for kind in (each for each in CASES[case].kinds if each in options.kinds):
            sides = [each for each in options.sides or CASES[case].sides]
            ranks = CASES[case].ranks
            gpus = tuple(options.gpus[:RANKS]) if ranks > 1 else (options.gpus[alone % len(options.gpus)],)
            alone += ranks == 1
            words = (f"--case={case}", f"--kind={kind}", f"--commit={options.commit}")
            # In one process all requests are there before the first step, so that runs have the same batches.
            environment = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
            jobs += [engines.Job(f"{case}.{kind}.{side}", words, side, gpus, environment=environment) for side in sides]
    return jobs


def main() -> int:
    single = [name for name, case in CASES.items() if case.ranks == 1]
    parser = engines.parser_of(__doc__, layers=4)
    parser.add_argument(
        "--cases", type=engines.words, help=f"among {', '.join(CASES)}; default: with one GPU {', '.join(single)}, else all"
    )
    parser.add_argument("--sides", type=engines.words, default=[], help="own, moec or both; default: own where it is compared")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        run_job(options)
        return 0
    engines.check(parser, options)
    options.cases = options.cases or (single if len(options.gpus) == 1 else list(CASES))
    for given, known in ((options.cases, CASES), (options.kinds, models.KINDS), (options.sides, engines.SIDES)):
        if wrong := [each for each in given if each not in known]:
            parser.error(f"expected names among {', '.join(known)}; got {wrong[0]!r}")
    if len(options.gpus) < max(CASES[each].ranks for each in options.cases):
        parser.error(f"these cases need --gpus with {RANKS} GPUs")
    work = pathlib.Path(tempfile.mkdtemp()) / "edges"
    jobs = jobs_of(options)
    makers = [start_maker(work, kind, name, options) for kind in options.kinds for name in SEEDS]
    results = engines.run_jobs(__file__, jobs, work, options.site, options.limit)
    for maker in makers:
        maker.wait()
    checks = check(results, work / "models")
    engines.save(options.out, work, results)
    engines.write_csv(options.out / "checks.csv", checks.rows)
    for job in jobs:
        print(f"{job.name}: " + "; ".join(engines.lines_of_moec(work / f"{job.name}.log")))
    for text in {json.dumps(made["versions"]) for made in results.values() if made}:
        print(text)
    print(engines.table(list(checks.rows[0]), [list(row.values()) for row in checks.rows]), "\n")
    print(distances(results), "\n")
    print(speeds(results))
    return 1 if any(row["holds"] == FAILED for row in checks.rows) else 0


def start_maker(work: pathlib.Path, kind: str, name: str, options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    """Writes a checkpoint while the engines' processes import vLLM."""
    folder = work / "models" / f"{kind}-{name}"
    command = [sys.executable, str(engines.HERE / "models.py"), kind, str(folder), f"--layers={options.layers}"]
    command += [f"--vocabulary={VOCABULARY}", f"--seed={SEEDS[name]}", *(["--small"] if options.small else [])]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
