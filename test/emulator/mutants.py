#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the seeded faults of kernels on the emulated GPU: each must turn red.

--packages is a folder that `test/gpu/make_gpu_packages.py --only mutants --no-cubins` has filled for sm_90a. A fault is red where a
result is wrong, the emulator reports something or a run hangs; the sound package of its layer must be green in the same timings.
--only=WORD: faults whose names have the word.
"""

import concurrent.futures
import json
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("conformance", "gpu", "mutants")]
import make_gpu_packages as maker  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import run as mutants  # noqa: E402

TIMINGS = ["random", "late"]
ARGUMENTS = ["--tokens=7,33", "--routing=skewed", "--seed=5"]
# Seconds that a run may take before it counts as hanging.
LIMIT = 300


def check(tools, work, library, package, timing, arguments):
    """(green, a line about what was seen) of one package in one timing."""
    status, output, errors = testing.run(
        [tools.moec_check, package, "--device=cuda", "--check", "--json", *arguments], LIMIT, MOEC_CUDA_DRIVER_PATH=library,
        MOEC_NVRTC_PATH=library, MOEC_EMULATOR_NVRTC=nvrtc.find(), MOEC_EMULATOR=f"arch=sm_90a timing={timing}",
        MOEC_CACHE_DIR=work / "cache", MOEC_WORKER="off", MOEC_JOBS="1", MOEC_TUNED_STORE="off")
    if status == testing_timeout():
        return False, "no end"
    reports = [line for line in errors.splitlines() if line.startswith("emulator:")]
    if reports:
        return False, reports[0][:300]
    if status == 0:
        return True, ""
    try:
        wrong = [run for run in json.loads(output)["runs"] if not run["passed"]]
    except ValueError:
        wrong = []
    if wrong:
        return False, "values: " + str(wrong[0].get("text", wrong[0]))[:200]
    raise RuntimeError(f"moec-check exited with {status}: {errors.strip()[-300:]}")


def testing_timeout():
    return 124


def judge(tools, work, library, packages, mutant, sound):
    """(verdict, a line) of a fault: red, green, or why it could not be judged."""
    package = packages / f"mutant-{mutant.name}"
    if not package.exists():
        return "absent", "no package has it"
    arguments = ARGUMENTS
    if "Arguments" in mutant.fields:
        tokens = re.search(r"--tokens=(\d+)", mutant.fields["Arguments"])
        if tokens and int(tokens.group(1)) > 600:
            return "large", "needs more tokens than the emulator runs in its time"
        arguments = mutant.fields["Arguments"].split()
    try:
        for timing in TIMINGS:
            if not sound(mutant, timing, arguments):
                return "unsound", "the package without the fault is red"
            green, seen = check(tools, work, library, package, timing, arguments)
            if not green:
                return "red", f"{timing}: {seen}"
    except RuntimeError as error:
        return "failed", str(error)
    return "green", "nothing was seen"


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    tools, work = testing.Tools(arguments.bin), Path(arguments.work)
    work.mkdir(parents=True, exist_ok=True)
    library = Path(arguments.bin).parent / "lib" / "libmoec-emulator.so"
    packages = Path(arguments.packages) / "packages"
    known = {}

    def sound(mutant, timing, words):
        base = maker.Maker.sound_name(*maker.Maker.kind_of(mutant))
        key = (base, timing, tuple(words))
        if key not in known:
            known[key] = check(tools, work, library, packages / base, timing, words)
            if not known[key][0]:
                print(f"RED WITHOUT A FAULT {base} {timing}: {known[key][1]}", flush=True)
        return known[key][0]

    chosen = [one for one in mutants.load_mutants() if one.kind == "template" and arguments.only in one.name]
    started, verdicts = time.monotonic(), {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, (verdict, seen) in zip(chosen, pool.map(
                lambda one: judge(tools, work, library, packages, one, sound), chosen)):
            verdicts[verdict] = verdicts.get(verdict, 0) + 1
            print(f"{verdict:7} {mutant.name}: {seen}", flush=True)
    print(f"{verdicts}, {time.monotonic() - started:.0f} s")
    return 1 if set(verdicts) - {"red", "large", "absent"} else 0


if __name__ == "__main__":
    sys.exit(main())
