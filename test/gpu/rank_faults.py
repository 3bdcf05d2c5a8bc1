#!/usr/bin/env python3
# ===- rank_faults.py - what ranks say when one of them fails -----------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Lets a rank die, be late, or run something else, and looks at what each rank gets: a named status in bounded time, outputs that
are NaN, and a process that still runs a layer of one rank.

  MOEC_LIBRARY=build/lib/libmoec.so PYTHONPATH=python test/gpu/rank_faults.py FOLDER --make [--mode=gather_scatter] [--no-cubin]
  test/gpu/rank_faults.py FOLDER [--mode=gather_scatter] [--faults=NAME,...] [--out=FILE]     # on a machine with two GPUs
  test/gpu/rank_faults.py FOLDER --one-gpu                    # both ranks have the first one; packages of one_sided
  test/gpu/rank_faults.py FOLDER --host                       # ranks are threads of the host device

Prints a line for each fault and rank. The exit status is 1 if one differs from what is expected."""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import moec

RANKS, TOKENS = 2, 16
LAYER = {"moec_layer": 1, "name": "faults", "num_experts": 16, "top_k": 4, "hidden_size": 256, "intermediate_size": 256,
         "in_dtype": "bf16", "routing_method": "renormalize", "activation": "silu"}
# How long ranks wait to start together: one of them may load much later.
MEETING_S = 40
# How much longer than its waits a rank may take to its answer.
SLACK_S = 12
LOST, MISMATCH, NONE = "PeerLost", "PeerMismatch", "NoCommunication"
GONE = "gone"  # of a rank that died
EXPECTED = {  # fault: what each rank may get
    "sound": (("ok",), ("ok",)),
    "never_comes": ((LOST, NONE), (GONE,)),
    "killed_before": ((LOST,), (GONE,)),
    "killed_in": ((LOST,), (GONE,)),
    "killed_behind": ((LOST,), (GONE,)),
    "late": (("ok",), ("ok",)),
    "too_late": ((LOST,), (LOST, NONE)),
    "other_package": ((MISMATCH,), (MISMATCH,)),
    "other_dtype": ((MISMATCH,), (MISMATCH,)),
    "other_tokens": ((LOST, MISMATCH), (LOST, MISMATCH)),
    "abort": ((LOST,), (LOST,)),
    "no_nccl": ((NONE,), (NONE,)),
}
OTHERS = ("other_package", "other_dtype")  # of packages that the second rank has
ON_GPUS_ALONE = ("never_comes", "no_nccl")
BY_NCCL_ALONE = ("no_nccl",)


def make(folder, mode, cubin):
    """The package of ranks, two others, and that of one rank."""
    spread = {"dp": RANKS, "ep": True, "all_ranks": True, "all_to_all": mode, "max_tokens": 4 * RANKS * TOKENS}
    for name, layer, options in (("ranks", LAYER, spread), ("other_package", {**LAYER, "intermediate_size": 512}, spread),
                                 ("other_dtype", {**LAYER, "in_dtype": "f16"}, spread), ("alone", LAYER, {"max_tokens": TOKENS})):
        moec.compile(layer, arch="sm_90a", cubin=cubin, progress=False, **options).write(folder / name)


class Rank:
    """One rank. Ranks meet by files."""

    def __init__(self, rank, options, meeting, device, group=None):
        self.rank, self.folder, self.meeting, self.device, self.group = rank, options.folder, meeting, device, group
        self.shares_gpu, self.gathers = options.one_gpu, 0
        self.timeout_ms = options.timeout_ms
        self.timeout_s = options.timeout_ms / 1000
        self.comm = self.use = None
        self.layers = {name: self._layer(name) for name in ("alone", "ranks", *OTHERS)}
        self.inputs = [self._place(array) for array in self._numbers(TOKENS)]
        self.wanted = self._floats(self.layers["alone"](*self.inputs))

    def _numbers(self, tokens):
        random = np.random.default_rng(self.rank)
        return (moec.to_bfloat16(random.standard_normal((tokens, LAYER["hidden_size"]), np.float32)),
                random.standard_normal((tokens, LAYER["num_experts"]), np.float32))

    def _place(self, array):
        if self.device == "host":
            return array
        import torch

        if array.dtype == np.uint16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16).to(self.device)
        return torch.from_numpy(array).to(self.device)

    def _floats(self, array):
        return moec.from_bfloat16(array) if isinstance(array, np.ndarray) else array.float().cpu().numpy()

    def _layer(self, name):
        """A layer of the folder, with weights that all ranks draw alike."""
        package = moec.load(self.folder / name, device=self.device, rank=None if name == "alone" else self.rank, progress=False)
        held = package.manifest["layer"]["local_experts"]
        weights = {}
        for word in ("w13", "w2"):
            shape = (LAYER["num_experts"], *package.shape(word)[1:])
            made = np.random.default_rng(len(word)).standard_normal(shape, np.float32) * 0.05
            stored = made.astype(np.float16) if name == "other_dtype" else moec.to_bfloat16(made)
            weights[word] = self._place(stored[held["begin"]:held["begin"] + held["count"]])
        return package.layer(weights, progress=False)

    def say(self, word):
        (self.meeting / f"{word}.{self.rank}").touch()

    def hear(self, word):
        """Waits for the other rank's word."""
        self._await(self.meeting / f"{word}.{1 - self.rank}")

    def gather(self, mine):
        """The bytes of both ranks, by files."""
        self.gathers += 1
        paths = [self.meeting / f"gather{self.gathers}.{rank}" for rank in range(RANKS)]
        paths[self.rank].with_suffix(f".new{self.rank}").write_bytes(mine)
        paths[self.rank].with_suffix(f".new{self.rank}").rename(paths[self.rank])
        for path in paths:
            self._await(path, self.timeout_s)
        return [path.read_bytes() for path in paths]

    @staticmethod
    def _await(path, patience=MEETING_S):
        ends = time.monotonic() + patience
        while not path.exists():
            if time.monotonic() > ends:
                raise TimeoutError(f"the other rank does not say {path.stem}")
            time.sleep(0.005)

    def die(self):
        if self.device == "host":
            raise SystemExit
        os.kill(os.getpid(), signal.SIGKILL)

    def connect(self, nccl_path=None):
        if self.group:
            self.comm = self.group[self.rank]
            return
        if self.shares_gpu:
            self.comm = moec.Communicator.from_callbacks(self.gather, self.rank, RANKS, device=self.device,
                                                         timeout_ms=self.timeout_ms)
            return
        if nccl_path:  # each rank fails by itself
            moec.Communicator.unique_id(nccl_path)
        path = self.meeting / "id"
        made = moec.Communicator.unique_id(nccl_path)
        if self.rank == 0:
            path.with_suffix(".new").write_bytes(made)
            path.with_suffix(".new").rename(path)
        self._await(path)
        self.comm = moec.Communicator(path.read_bytes(), self.rank, RANKS, device=self.device, timeout_ms=self.timeout_ms,
                                      nccl_path=nccl_path)

    def context(self, name):
        self.use = self.layers[name].package.context(comm=self.comm)

    def begin(self, tokens=TOKENS):
        """Queues a run, and returns what tells whether it has ended, and its output. On the host a thread runs it."""
        inputs = self.inputs if tokens == TOKENS else [self._place(array) for array in self._numbers(tokens)]
        out = self._place(moec.to_bfloat16(np.zeros((tokens, LAYER["hidden_size"]), np.float32)))
        layer, caught = self.layers["ranks"], []

        def run():
            try:
                layer(*inputs, out=out, context=self.use)
            except moec.MoecError as error:
                caught.append(error)

        if self.device == "host":
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            return (lambda: not thread.is_alive()), out, caught
        import torch

        run()
        ended = torch.cuda.Event()
        ended.record()
        return ended.query, out, caught

    def run(self, tokens=TOKENS, aborts_after=None):
        """A run to its end. Asks for failures meanwhile, and ends the waits after some seconds. Raises what it finds."""
        ended, out, caught = self.begin(tokens)
        aborts_after = aborts_after or self.timeout_s + 2
        begin, failure, aborted = time.monotonic(), None, False
        while not ended():
            if time.monotonic() > begin + aborts_after and not aborted and not failure:
                aborted = True
                threading.Thread(target=self.comm.abort, daemon=True).start()
            if time.monotonic() > begin + aborts_after + SLACK_S:
                raise TimeoutError("the run does not end")
            try:
                if not failure:
                    self.comm.check()
            except moec.MoecError as error:
                failure = error
            time.sleep(0.01)
        if not (caught or failure):
            self.comm.check()
        if caught or failure:
            raise (caught or [failure])[0]
        return self._floats(out)

    def sound_run(self):
        out = self.run()
        error = float(np.abs(out - self.wanted).max() / np.abs(self.wanted).max())
        if not error < 0.02:
            raise AssertionError(f"a sound run differs from the layer of one rank by {error:.3f}")

    def leaves_nan(self):
        """Whether a run behind a failure says so and leaves NaN."""
        ended, out, caught = self.begin()
        while not ended():
            time.sleep(0.005)
        return bool(caught) and bool(np.isnan(self._floats(out)).all())

    def runs_alone(self):
        """Whether a layer of one rank gives the bits that it gave before."""
        return bool((self._floats(self.layers["alone"](*self.inputs)) == self.wanted).all())


def play(fault, rank):
    """Plays this rank's part. Raises what the rank gets."""
    second = rank.rank == 1
    # Loading takes one rank longer than the other.
    rank.say("ready")
    rank.hear("ready")
    if fault == "never_comes" and second:
        rank.die()
    rank.connect("/nowhere/libnccl.so.2" if fault == "no_nccl" else None)
    if fault == "killed_before" and second:
        rank.die()
    if fault == "too_late" and second:
        time.sleep(2 * rank.timeout_s)
    rank.context(fault if fault in OTHERS and second else "ranks")
    rank.sound_run()
    if fault == "late" and second:
        time.sleep(rank.timeout_s / 3)
    if fault == "killed_behind" and second:
        rank.say("dead")
        rank.die()
    if fault == "killed_behind":
        rank.hear("dead")
        time.sleep(0.5)
    if fault == "killed_in" and second:
        rank.hear("again")
        time.sleep(0.5)
        rank.die()
    rank.say("again")
    if fault == "abort" and second:
        # Never runs; within a host all ranks abort.
        rank.hear("again")
        time.sleep(1)
        rank.comm.abort()
        rank.comm.check()
    elif fault == "abort":
        rank.run(aborts_after=1)
    elif fault == "other_tokens":
        rank.run(2 * TOKENS if second else TOKENS)
    else:
        rank.sound_run()


def outcome(fault, rank):
    """The status that a rank got, and how it goes on."""
    begin = time.monotonic()
    try:
        play(fault, rank)
        status, said = "ok", ""
    except moec.MoecError as error:
        status, said = type(error).__name__, str(error)
    except (AssertionError, TimeoutError) as error:
        status, said = "wrong", str(error)
    made = {"fault": fault, "rank": rank.rank, "status": status, "said": said, "seconds": round(time.monotonic() - begin, 2)}
    if status == "PeerLost" and rank.use:
        made["nan"] = rank.leaves_nan()
    if status != "wrong":
        made["alone"] = rank.runs_alone()
    return made


def on_host(fault, options):
    group = moec.Communicator.threads(RANKS, timeout_ms=options.timeout_ms)
    found = [{"fault": fault, "rank": rank, "status": GONE} for rank in range(RANKS)]
    with tempfile.TemporaryDirectory() as meeting:
        def work(rank):
            found[rank] = outcome(fault, Rank(rank, options, pathlib.Path(meeting), "host", group))

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(RANKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return found


def on_gpus(fault, options):
    with tempfile.TemporaryDirectory() as meeting:
        command = [sys.executable, __file__, str(options.folder), f"--fault={fault}", f"--meeting={meeting}",
                   f"--timeout-ms={options.timeout_ms}", *(["--one-gpu"] if options.one_gpu else [])]
        started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "RANK": str(rank)})
                   for rank in range(RANKS)]
        found, ends = [], time.monotonic() + bound(options) + 60
        for rank, process in enumerate(started):
            try:
                text, _ = process.communicate(timeout=max(ends - time.monotonic(), 1))
                lines = [line for line in text.splitlines() if line.startswith("{")]
                died = GONE if process.returncode == -signal.SIGKILL else "wrong"
                found.append(json.loads(lines[-1]) if lines else {"fault": fault, "rank": rank, "status": died,
                                                                  "said": f"exit status {process.returncode}"})
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                found.append({"fault": fault, "rank": rank, "status": "wrong", "said": "the process does not end"})
    return found


def bound(options):
    """Seconds in which each rank has its answer."""
    return 4 * options.timeout_ms / 1000 + SLACK_S


def wrong_of(row, options):
    """Differences of a rank's answer from the expected one."""
    expected = EXPECTED[row["fault"]][row["rank"]]
    wrong = [] if row["status"] in expected else [f"expected {' or '.join(expected)}"]
    wrong += ["outputs are not NaN"] if row.get("nan") is False else []
    wrong += ["the layer of one rank gives other bits"] if row.get("alone") is False else []
    wrong += [f"expected an answer in {bound(options)} s"] if row.get("seconds", 0) > bound(options) else []
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--make", action="store_true", help="compile the packages into the folder")
    parser.add_argument("--mode", default="gather_scatter", help="how packages move tokens")
    parser.add_argument("--no-cubin", action="store_true", help="leave the kernels to NVRTC on the other machine")
    parser.add_argument("--faults", default="", help="separated by commas; default: all")
    parser.add_argument("--host", action="store_true", help="threads of the host device in place of GPUs")
    parser.add_argument("--one-gpu", action="store_true", help="both ranks have the first GPU, and meet without NCCL")
    parser.add_argument("--timeout-ms", type=int, default=4000, help="how long a rank waits for another")
    parser.add_argument("--jobs", type=int, default=4, help="faults at a time")
    parser.add_argument("--out", type=pathlib.Path, help="JSON lines, appended")
    parser.add_argument("--fault", help=argparse.SUPPRESS)
    parser.add_argument("--meeting", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.make:
        make(options.folder, options.mode, not options.no_cubin)
        return 0
    if options.fault:
        import torch

        rank = int(os.environ["RANK"])
        gpu = 0 if options.one_gpu else rank
        torch.cuda.set_device(gpu)
        print(json.dumps(outcome(options.fault, Rank(rank, options, options.meeting, f"cuda:{gpu}"))), flush=True)
        # Threads of a broken NCCL must not keep the process.
        os._exit(0)
    names = options.faults.split(",") if options.faults else list(EXPECTED)
    names = [name for name in names if not (options.host and name in ON_GPUS_ALONE or options.one_gpu and name in BY_NCCL_ALONE)]
    play_one, failed = on_host if options.host else on_gpus, 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in (row for rows in pool.map(lambda name: play_one(name, options), names) for row in rows):
            wrong = wrong_of(row, options)
            failed += bool(wrong)
            words = [f"{row['fault']:14} rank {row['rank']}: {row['status']}", f"{row['seconds']} s" if "seconds" in row else "",
                     row.get("said", ""), *(f"WRONG: {text}" for text in wrong)]
            print("  ".join(word for word in words if word), flush=True)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**row, "wrong": wrong}) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
