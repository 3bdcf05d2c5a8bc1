#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Outputs of layers whose sums are exact, on the emulated GPU and on a real one: the bits must be the same.

Inputs and weights are small integers and powers of two, routing is given, the activation is a square. So no sum of a tensor core rounds,
whatever its order: all engines of a scheme put out the same bits. exact.txt has the SHA-256 of each output on a GPU. Packages of ranks run
on as many GPUs, each rank with tokens and weights of its own; the SHA-256 is of the outputs of all.

--make=FOLDER makes the packages. --folder=FOLDER --device=cuda --write runs them on this machine's GPU with FOLDER/bin/moec-run and prints
lines as of exact.txt; ranks need FOLDER/lib/libmoec-runtime.so and FOLDER/python, too. Without either, packages are made in --work, run
on the emulator and compared: those of GATE, or with --all or MOEC_TEST_ALL=1 every one. Tensor cores cut sums as the GPU does;
--sums=exact: they do not, and all but int4_w4afp8 is the same.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "conformance"), str(HERE.parent.parent / "python")]
from moec.card import numbers as of_numbers  # noqa: E402
from moec.card.numbers import inputs_of, read_npy  # noqa: E402

NUMBERS = of_numbers.__file__

SHAPE = {"num_experts": 6, "top_k": 3, "hidden_size": 256, "intermediate_size": 128}
# Few rows of many columns: the second matmul's k is split. As many rows as its slices need.
SPLIT = {"num_experts": 8, "top_k": 2, "hidden_size": 1536, "intermediate_size": 256}
SLICES = {"num_experts": 32, "top_k": 32, "hidden_size": 2048, "intermediate_size": 16}
TOKENS = (1, 2, 5, 33, 150)
MOST_TOKENS = 256
# Engines of a scheme beside what is taken where none is named; and layers of other shapes, with their words and tokens.
SCHEMES = {
    "bf16": ("wgmma", "mma_sync", "simt"),
    "f16": ("wgmma", "mma_sync", "simt"),
    "fp8_tensor": ("wgmma", "mma_sync", "simt"),
    "fp8_channel": ("wgmma", "mma_sync"),
    "fp8_block": ("wgmma", "mma_sync", "simt"),
    "int8_channel": ("mma_sync", "simt"),
    "int4_w4a16": ("wgmma_rs", "mma_sync", "simt"),
    "int4_zp_w4a16": ("wgmma_rs", "mma_sync"),
    "int4_w4afp8": ("wgmma_rs", "mma_sync"),
    "mxfp4_w4a16": ("wgmma_rs", "mma_sync", "simt"),
    "mxfp4_fp8": ("wgmma_rs", "mma_sync"),
    "nvfp4_w4a16": ("wgmma_rs", "mma_sync", "simt"),
}
OTHERS = {
    "split": ("fp8_block", SPLIT, ["--engine=wgmma", "--gpu=h100_sxm", "--max-tokens=512"], (3, 40)),
    "slices": ("fp8_block", SLICES, ["--gpu=h100_pcie", "--max-tokens=576"], (513,)),
}
# Schemes, words and modes of packages of ranks; tokens of each rank.
RANKS = 2
RANK_SHAPE = {**SHAPE, "intermediate_size": 256}
RANK_SCHEMES = ("bf16", "fp8_block", "int4_w4a16")
RANK_LAYOUTS = {"ep2": ["--dp=2", "--ep"], "tp2": ["--tp=2", "--sp=2"]}
MODES = ("one_sided", "gather_scatter")
RANK_TOKENS = (1, 5, 33, 150)
# Ends of the names of the packages that run by default, and a scheme that has all of its engines then.
GATE = ("-any", "-split", "fp8_block-tp2-one_sided", "bf16-ep2-gather_scatter"), "bf16"
# Seconds for a run.
LIMIT = 900


class Case(NamedTuple):
    """A package, and its token counts."""

    name: str
    scheme: str
    shape: dict
    words: list[str]  # of the compiler
    counts: tuple[int, ...]
    numbers: str  # the name by which its numbers are drawn
    ranks: int = 1


def cases(only, every):
    for case in all_cases():
        if only in case.name and (every or case.name.endswith(GATE[0]) or (case.scheme == GATE[1] and case.ranks == 1)):
            yield case


def all_cases():
    for scheme, engines in SCHEMES.items():
        for engine in ("", *engines):
            yield Case(f"{scheme}-{engine or 'any'}", scheme, SHAPE,
                       [*([f"--engine={engine}"] if engine else []), f"--max-tokens={MOST_TOKENS}"], TOKENS, scheme)
    for other, (scheme, shape, words, tokens) in OTHERS.items():
        name = f"{scheme}-{other}"
        yield Case(name, scheme, shape, words, tokens, name)
    for scheme in RANK_SCHEMES:
        for layout, words in RANK_LAYOUTS.items():
            for mode in MODES:
                yield Case(f"{scheme}-{layout}-{mode}", scheme, RANK_SHAPE,
                           [*words, "--all-ranks", f"--all-to-all={mode}", f"--max-tokens={RANKS * MOST_TOKENS}"], RANK_TOKENS,
                           f"{layout}-{scheme}", RANKS)


def make(moec, folder, chosen):
    """Makes the packages; what failed."""
    failures = []
    for case in chosen:
        layer = {"moec_layer": 1, "name": "exact", **case.shape, "in_dtype": "f16" if case.scheme == "f16" else "bf16",
                 "routing_method": "custom", "activation": "relu2", "quant_config": case.scheme}
        (folder / "layers").mkdir(parents=True, exist_ok=True)
        path = folder / "layers" / f"{case.name}.json"
        path.write_text(json.dumps(layer))
        shutil.rmtree(folder / "packages" / case.name, ignore_errors=True)
        done = subprocess.run([moec, "compile", path, "--arch=sm_90a", "--no-cubin", "--no-tuned-store", *case.words, "-o",
                               folder / "packages" / case.name], capture_output=True, text=True)
        if done.returncode:
            failures.append(f"{case.name}: {done.stderr.strip()}")
    return failures


def run(command, environment):
    """None, or what went wrong with a command."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} s"
    return f"exit {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode else None


def run_one_rank(tools, folder, case, environment):
    """(tokens, bytes of the output, None or what went wrong) of each run of a package."""
    package, files = folder / "packages" / case.name, folder / "numbers"
    manifest = json.loads((package / "manifest.json").read_text())
    for tokens in case.counts:
        out = files / f"{case.name}-out-{tokens}.npy"
        words = [f"--input={name}={path}" for given in inputs_of(manifest, case.numbers, tokens, files) for name, path in given.items()]
        fault = run([tools.moec_run, package, f"--device={tools.device}", f"--tokens={tokens}", *words, f"--output=out={out}"], environment)
        data = b"" if fault else read_npy(out)
        yield tokens, data, fault


def run_ranks(tools, folder, case, environment):
    """The same of a package of ranks: outputs in the order of ranks."""
    package, files = folder / "packages" / case.name, folder / "numbers"
    manifest = json.loads((package / "manifest.json").read_text())
    weights, runs = [], []
    for tokens in case.counts:
        given = [inputs_of(manifest, f"rank{rank}-{case.numbers}", tokens, files) for rank in range(case.ranks)]
        weights = [{name: str(path) for name, path in each[0].items()} for each in given]
        runs.append({"tokens": tokens, "inputs": [{name: str(path) for name, path in each[1].items()} for each in given],
                     "out": [str(files / f"{case.name}-out-{tokens}-{rank}") for rank in range(case.ranks)]})
    for path in [path for each in runs for path in each["out"]]:
        Path(path).unlink(missing_ok=True)
    table = files / f"{case.name}.json"
    table.write_text(json.dumps({"weights": weights, "runs": runs}))
    fault = run([sys.executable, HERE / "rank_runs.py", package, table, *tools.nccl], {**environment, **tools.rank_environment})
    for each in runs:
        paths = [Path(path) for path in each["out"]]
        has_run = all(path.exists() for path in paths)
        yield each["tokens"], b"".join(path.read_bytes() for path in paths) if has_run else b"", None if has_run else fault or "no output"


def run_package(tools, folder, case, environment_of, known=None):
    """(tokens, SHA-256, or what went wrong) of each run of a package. known: a function of a case and its environment that returns the
    results of the runs that have passed before, or None."""
    (folder / "numbers").mkdir(exist_ok=True)
    results = known(case, environment_of(case)) if known else None
    if results is not None:
        return results
    results = []
    for tokens, rows, fault in (run_one_rank if case.ranks == 1 else run_ranks)(tools, folder, case, environment_of(case)):
        # Nothing is shown by rows of zeros.
        if not fault and len(set(rows)) < 16:
            fault = "hardly any number is not 0"
        results.append((tokens, fault or hashlib.sha256(rows).hexdigest()))
    return results


def run_all(tools, folder, jobs, chosen, environment_of, known):
    """(package, tokens, SHA-256 or fault), in order."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for case, results in zip(chosen, pool.map(lambda one: run_package(tools, folder, one, environment_of, known), chosen)):
            for tokens, result in results:
                yield case.name, tokens, result


class Tools:
    """The programs that run packages, their device, and variables of the process that runs ranks."""

    def __init__(self, programs, device):
        self.device, self.moec_run, self.nccl = device, programs / "moec-run", []
        library = programs.parent / "lib"
        python = programs.parent / "python"  # as --make's folder has it, else of the sources
        self.rank_environment = {"MOEC_LIBRARY": str(library / "libmoec-runtime.so"), "PYTHONDONTWRITEBYTECODE": "1",
                                 "PYTHONPATH": str(python if (python / "moec").exists() else HERE.parent.parent / "python")}
        if device == "emulated":
            emulator = str(library / "libmoec-emulator.so")
            self.rank_environment |= {"MOEC_CUDA_DRIVER_PATH": emulator, "MOEC_NVRTC_PATH": emulator}
            self.nccl = [f"--nccl={emulator}"]


def recorded():
    """{(package, tokens): SHA-256} of exact.txt."""
    known = {}
    for line in (HERE / "exact.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            package, tokens, digest = line.split()[:3]
            known[package, int(tokens)] = digest
    return known


def card():
    """The name of this machine's GPU."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip().splitlines()[0].replace(" ", "_") if done.stdout.strip() else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=Path, help="the folder with moec and moec-run, beside lib")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--make", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--device", choices=("emulated", "cuda"), default="emulated")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sums", choices=("exact", "card"), default="card")
    parser.add_argument("--timing", default="late")
    parser.add_argument("--update", action="store_true", help="write test/golden/emulated-exact.txt, if all pass")
    arguments = parser.parse_args()
    started = time.monotonic()
    folder = arguments.make or arguments.folder or arguments.work
    every = arguments.all or arguments.only or arguments.write or arguments.make or os.environ.get("MOEC_TEST_ALL") == "1"
    chosen = list(cases(arguments.only, every))
    if not arguments.folder:
        failures = make(arguments.bin / "moec", folder, chosen)
        for failure in failures:
            print(f"FAILED {failure}")
        if failures or arguments.make:
            return 1 if failures else 0
    environment = {"MOEC_CACHE_DIR": str(folder / "cache"), "MOEC_TUNED_STORE": "off"}
    tools = Tools(arguments.bin or folder / "bin", arguments.device)

    def environment_of(_):
        return environment

    if arguments.device == "emulated":
        import moec_testing
        import nvrtc
        import passed

        real = nvrtc.find()
        if real is None:
            print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
            return 77
        environment |= {"MOEC_NVRTC_PATH": real, "MOEC_EMULATOR_NVRTC": real, "MOEC_WORKER": "off", "MOEC_JOBS": "1"}

        def environment_of(case):
            words = moec_testing.emulator_settings("sm_90a", case.scheme, arguments.timing)
            # A tile is split where there are more SMs than tiles; slices need the SMs of the card that they are for.
            sms = 132 if case.shape in (SPLIT, SLICES) else 8
            # The vector clocks of the CTAs of slices take 5 GB. In the gate emulated.py is the test that runs the checkers.
            checks = " checks=none" if case.shape is SLICES or not every else ""
            return {**environment, "MOEC_EMULATOR": f"{words} sums={arguments.sums} sms={sms} devices={case.ranks}{checks}"}

    name = card() if arguments.device == "cuda" else f"emulator, sums={arguments.sums}"
    known = {} if arguments.write else recorded()
    # Runs of one token whose outputs are 0, nearly all of them, have no line.
    if not arguments.write:
        chosen = [case._replace(counts=tuple(count for count in case.counts if (case.name, count) in known)) for case in chosen]
    listed = None
    digests, wrong = {}, set()
    if arguments.device == "emulated":
        listed = passed.Cases(nvrtc.Nvrtc(real).release(), __file__, arguments.update,
                              not every and (arguments.sums, arguments.timing) == ("card", "late"), (HERE / "rank_runs.py", NUMBERS))

    def passed_before(case, environment):
        wanted = [(count, known[case.name, count]) for count in case.counts]
        digests[case.name] = listed.digest(folder / "packages" / case.name, repr(case), repr(wanted), environment["MOEC_EMULATOR"])
        return wanted if listed.has(case.name, digests[case.name]) else None

    count, failures = 0, 0
    for package, tokens, result in run_all(tools, folder, arguments.jobs, chosen, environment_of, passed_before if listed else None):
        count += 1
        if arguments.write:
            print(f"{package:24} {tokens:5} {result} {name}", flush=True)
            failures += " " in result
        elif result != known.get((package, tokens)):
            failures += 1
            wrong.add(package)
            print(f"FAILED {package}, {tokens} tokens: {result}, expected {known.get((package, tokens), 'no run')}", flush=True)
    for case in chosen:
        if not case.counts:
            failures += 1
            print(f"FAILED {case.name}: exact.txt has no run of it")
    about = ""
    if listed:
        for name, digest in digests.items():
            if name not in wrong:
                listed.add(name, digest)
        about = f" packages: {listed.end(failures)};"
    print(f"#{about} {count} runs, {failures} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
