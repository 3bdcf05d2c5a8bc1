#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the seeded faults of kernels on the emulated GPU: each must turn red.

A fault is red where a result is wrong, the emulator reports something or a run does not end; the package without it must be green in the
same timing. By default the faults of GATE run, with --all or MOEC_TEST_ALL=1 all of templates/ but those of a field `NotEmulated`, which
says why. --only=WORD,WORD: faults whose names have one of the words. --table=FILE writes what was seen.
"""

import argparse
import concurrent.futures
import json
import re
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("conformance", "gpu", "mutants", "random")]
import cases  # noqa: E402
import make_gpu_packages as maker  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import passed  # noqa: E402
import run as mutants  # noqa: E402

TIMINGS = ["random", "late"]
# Options of moec-check, if a fault has no field `Emulated`; those of its field `Arguments` stay, with as few tokens.
TOKENS, OPTIONS = "7,33", ["--routing=skewed", "--seed=5"]
# Packages take so many tokens, if the fault needs no more: fewer kernels are compiled.
MOST_TOKENS = 64
FEW_TOKENS = 8
# SMs of the layer whose tiles are split where they are fewer than these, and of the one whose slices are of as many CTAs.
MANY_SMS = {"split": 132, "slices": 114}
# Layers that are smaller here: their changes, and the most tokens. Packages for the card of slices have wide tiles for smaller weights.
SMALLER = {"slices": ({**cases.conformance.NO_METHOD, "routing_method": "renormalize", **cases.SANITIZED_SLICES, "has_bias": False}, 576)}
SMALLER |= {f"wide_large_{kind}": ({"num_experts": 4, "top_k": 2, "hidden_size": 656, "intermediate_size": 400, "has_bias": False}, 600)
            for kind in ("block", "channel")}
# Seconds that a run may take before it counts as hanging.
LIMIT = 1500
TIMED_OUT = 124
# Faults that run by default: of each skeleton and of the order of threads, those first that a GPU shows only sometimes.
GATE = (
    "template-store-barrier-missing", "template-loop-barrier-missing", "template-predecessor-not-awaited", "template-quantize-warps-not-joined",
    "template-barrier-of-half-a-warp", "template-wgmma-phase-not-flipped", "template-wgmma-stage-not-given-back",
    "template-slab-gemv-copies-not-awaited", "template-slow-lhs-read-early", "template-slow-rows-combined-early",
    "template-last-k-step-dropped", "template-slab-last-step-not-converted", "template-scaled-byte-of-first-step",
    "template-tcgen05-multiplies-not-awaited",
)


def arguments_of(mutant):
    """moec-check's, of a fault."""
    if "Emulated" in mutant.fields:
        return mutant.fields["Emulated"].split()
    words = mutant.fields.get("Arguments", "").split() or OPTIONS
    named = [word for word in words if word.startswith("--tokens=")]
    counts = [count for word in named for count in word.removeprefix("--tokens=").split(",") if int(count) <= MOST_TOKENS]
    # Runs of few tokens have all patterns, others the last one, which is the least even.
    few = counts and int(counts[-1]) <= FEW_TOKENS
    others = [word if few or not word.startswith("--routing=") else "--routing=" + word.removeprefix("--routing=").split(",")[-1]
              for word in words if word not in named]
    return [f"--tokens={','.join(counts[-2:]) or TOKENS}", *others]


def most_tokens(mutant):
    counts = re.findall(r"\d+", next(word for word in arguments_of(mutant) if word.startswith("--tokens=")))
    return MOST_TOKENS if max(map(int, counts)) <= MOST_TOKENS else 0


class Runs:
    """Runs of packages, each once."""

    def __init__(self, tools, work):
        self.tools, self.work, self.known = tools, work, {}

    def check(self, package, kind, timing, arguments, arch):
        """(green, a line about what was seen) of one package in one timing."""
        status, output, errors = testing.run(
            [self.tools.moec_check, package, "--device=emulated", f"--arch={arch}", "--check", "--alone", "--json", *arguments], LIMIT,
            MOEC_NVRTC_PATH=nvrtc.find(), MOEC_CACHE_DIR=self.work / "cache", MOEC_WORKER="off",
            MOEC_EMULATOR=f"arch={arch} timing={timing} checks=all sms={MANY_SMS.get(kind[2], 8)}",
            MOEC_JOBS="1", MOEC_TUNED_STORE="off")
        reports = [line for line in errors.splitlines() if line.startswith("emulator:")]
        if reports:
            return False, reports[0].removeprefix("emulator: ")
        if status == TIMED_OUT:
            return False, "no end"
        if status == 0:
            return True, ""
        try:
            wrong = [run for run in json.loads(output)["runs"] if not run["passed"]]
        except (ValueError, KeyError):
            wrong = []
        if wrong:
            return False, "values: " + str(wrong[0].get("text", wrong[0]))
        raise RuntimeError(f"moec-check exited with {status}: {errors.strip()[-300:]}")

    def sound(self, package, kind, timing, arguments, arch):
        key = package, timing, tuple(arguments)
        if key not in self.known:
            self.known[key] = self.check(package, kind, timing, arguments, arch)
            if not self.known[key][0]:
                print(f"RED WITHOUT A FAULT {package.name} {timing}: {self.known[key][1][:300]}", flush=True)
        return self.known[key][0]

    def judge(self, mutant, packages, listed):
        """(verdict, a line) of a fault: red, green, or why it could not be judged."""
        package, arguments = packages / f"mutant-{mutant.name}", arguments_of(mutant)
        kind = maker.Maker.kind_of(mutant)
        base = packages / maker.Maker.sound_name(*kind)
        digest = listed.digest(package, mutant.name, mutant.arch, *map(str, arguments), *TIMINGS)
        if listed.has(mutant.name, digest):
            return "red", "known"
        try:
            for timing in TIMINGS:
                green, seen = self.check(package, kind, timing, arguments, mutant.arch)
                if not green and not self.sound(base, kind, timing, arguments, mutant.arch):
                    return "unsound", "the package without the fault is red"
                if not green:
                    listed.add(mutant.name, digest)
                    return "red", f"{timing}: {seen}"
        except RuntimeError as error:
            return "failed", str(error)
        return "green", "nothing was seen"


def serve_fewer(package):
    """Lets a variant of slices serve all token counts above the variants before it: on a GPU it is slower there, here it ends in time."""
    path = package / "manifest.json"
    manifest = json.loads(path.read_text())
    for target in manifest["targets"]:
        for number, variant in enumerate(target["variants"]):
            if variant["name"].startswith("slices"):
                variant["min_tokens"] = 1 + max(earlier["max_tokens"] for earlier in target["variants"][:number])
    path.write_text(json.dumps(manifest))


def make(folder, options, wanted, most, arch):
    """Fills a folder with the packages of faults; the names of those, and what failed."""
    shutil.rmtree(folder, ignore_errors=True)
    shop = maker.Maker(argparse.Namespace(
        bin=options.bin, out=folder, arch=arch, jobs=options.jobs, seed="1", layers=0, cubins=False, most_work=0, sliced=0, no_cubins=True,
        most_tokens=most, only="mutants", filter=""))
    shop.make_mutants_at_once(wanted)
    made = {one.name for one in wanted if shop.mutant_packages.get(f"mutant-{one.name}")}
    sliced = [one for one in wanted if one.name in made and one.fields.get("Layer") == "slices"]
    for name in {f"mutant-{one.name}" for one in sliced} | {maker.Maker.sound_name(*maker.Maker.kind_of(one)) for one in sliced}:
        serve_fewer(folder / "packages" / name)
    return made, shop.failures


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--update", action="store_true", help="write test/golden/emulated-mutants.txt, if all are red")
    options = parser.parse_args()
    real = nvrtc.find()
    if real is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started = time.monotonic()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    # The emulated GPU has few SMs: as few experts give each of them tiles in turn.
    cases.MUTANT_EXPERTS, cases.MUTANT_GPU["sm_90a"] = {}, [f"--gpu={maker.SLICED_GPU}"]
    for name, (changes, most) in SMALLER.items():
        scheme, engine, _, _ = cases.MUTANT_LAYERS[name]
        cases.MUTANT_LAYERS[name] = scheme, engine, changes, most
    words = options.only.split(",")
    every = options.all or options.only or testing.runs_all()
    chosen = [one for one in mutants.load_mutants() if one.kind == "template" and "NotEmulated" not in one.fields and
              any(word in one.name for word in words) and (every or one.name in GATE)]
    listed = passed.Cases(nvrtc.Nvrtc(real).release(), __file__, options.update, not every)
    runs, jobs, failures = Runs(testing.Tools(options.bin), work), [], []
    for arch, most in sorted({(one.arch, most_tokens(one)) for one in chosen}):
        some, folder = [one for one in chosen if (one.arch, most_tokens(one)) == (arch, most)], work / f"packages-{arch}-{most}"
        made, faults = make(folder, options, some, most, arch)
        failures += faults
        jobs += [(one, folder / "packages") for one in some if one.name in made]
    for failure in failures:
        print(f"FAILED {failure}")
    rows, verdicts = [], {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        waiting = {pool.submit(runs.judge, *job, listed): job[0] for job in jobs}
        for done in concurrent.futures.as_completed(waiting):
            verdict, seen = done.result()
            mutant = waiting[done]
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            rows.append((mutant.name, verdict, seen))
            if verdict != "red" or every:
                print(f"{verdict:7} {mutant.name}: {seen[:300]}", flush=True)
    if options.table:
        options.table.write_text("".join(f"{name}\t{verdict}\t{seen}\n" for name, verdict, seen in sorted(rows)))
    known = listed.end(failures or set(verdicts) != {"red"})
    print(f"{verdicts}, {known}, {time.monotonic() - started:.0f} s")
    return 1 if failures or set(verdicts) != {"red"} or (not every and len(rows) != len(GATE)) else 0


if __name__ == "__main__":
    sys.exit(main())
