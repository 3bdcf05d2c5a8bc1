#!/usr/bin/env python3
# ===- fake-measure.py - answers in place of moec-measure -------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times follow from the schedules of a package, so that a test knows the best one.

FAKE_BAD names what the schedules of some pipeline stages of the first matmul do, "3:hang 4:wrong 5:crash 6:garbage" say. "memory" and
"killed" are a lack of memory, which "once" shows one time for each schedule. "unready" fails to load the compiler's choice, one time for
each schedule. "remove" takes the tuner's folder away.
FAKE_TOKENS: "300:baseline" cannot measure the compiler's choice for so many tokens, and "300:kill" kills the tuner.
FAKE_RATIO: of all candidates to the compiler's choice. FAKE_LUCKY: "6+5:0.95 9+8:0.94/1.01" is that of stages of both matmuls in groups
of one tile of 64 x 128 by 8 warps, and what a final of more rounds says: a ratio, or "wrong". FAKE_ENDS: "12:1.02/0.03" is the ratio and
its noise with so many tokens. FAKE_SECONDS: of each job. FAKE_GREETING: what it says first. FAKE_JOBS: a file that gets a line for each job.
"""

import ctypes
import json
import os
import pathlib
import signal
import sys
import time


def matmuls(folder):
    """The schedules of the variant's grouped matmuls, in order."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        target = json.load(file)["targets"][0]
    schedules = target["report"]["schedules"]
    its = [schedules[launch["kernel"]] for launch in target["variants"][0]["launches"]]
    return [row for row in its if "tile" in row and "stages" in row]


def microseconds(folder):
    """Tiles of 64 x 128, 6 stages and a CTA are best; a kernel without tiles counts as slow."""
    rows = matmuls(folder)
    if len(rows) != 2:
        return 200.0
    return 50.0 + sum(
        3 * abs(row["stages"] - 6)
        + abs(row["tile"][0] - 64) / 16
        + abs(row["tile"][1] - 128) / 16
        + row.get("ctas_per_sm", 1) + row.get("group", 1) - 2
        for row in rows
    )


def first_time(folder):
    """Whether a package comes for the first time, of all processes."""
    mark = pathlib.Path(folder + ".seen")
    if mark.exists():
        mark.unlink()
        return False
    mark.touch()
    return True


def answer(job, bad):
    rows = matmuls(job["package"])
    what = bad.get(rows[0]["stages"]) if rows and job["package"] != job["baseline"] else None
    if what == "hang":
        time.sleep(3600)
    if what == "crash":
        print("fake-measure: a line for the report", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if what in ("memory", "once") and (what == "memory" or first_time(job["package"])):
        return json.dumps({"ok": False, "kind": "transient", "text": "CUDA_ERROR_OUT_OF_MEMORY"})
    if what == "unready" and first_time(job["package"]):
        return json.dumps({"ok": False, "kind": "baseline", "text": "a fault"})
    if what == "remove":
        folder = pathlib.Path(job["package"]).parent
        folder.rename(f"{folder}.away")
        folder.touch()
        return json.dumps({"ok": True, "us": 100, "baseline_us": 100, "noise": 0, "rounds": 1, "check": "passed"})
    if what == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "garbage":
        return "no JSON at all"
    if what == "wrong":
        return json.dumps({"ok": False, "kind": "wrong", "text": "element 3 of row 0 is nan, expected 1.5"})
    us, its = microseconds(job["package"]), microseconds(job["baseline"])
    if "FAKE_RATIO" in os.environ:
        us = its * float(os.environ["FAKE_RATIO"])
    stages = "+".join(str(row["stages"]) for row in rows
                      if (row["tile"][:2], row.get("group"), row.get("consumer_warps")) == ([64, 128], 1, 8))
    for word in os.environ.get("FAKE_LUCKY", "").split():
        if word.startswith(f"{stages}:"):
            ratios = word.partition(":")[2].split("/")
            ratio = ratios[-1 if job["rounds"] > 5 else 0]
            if ratio == "wrong":
                return json.dumps({"ok": False, "kind": "wrong", "text": "element 3 of row 0 is nan, expected 1.5"})
            us = its * float(ratio)
    noise = 0.001
    for word in os.environ.get("FAKE_ENDS", "").split():
        if word.startswith(f"{job['tokens']}:"):
            us, noise = (float(number) for number in word.partition(":")[2].split("/"))
            us *= its
    return json.dumps({"ok": True, "us": us, "baseline_us": its, "noise": noise, "rounds": job["rounds"], "check": "passed"})


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    bad = {int(stages): what for stages, what in (word.split(":") for word in os.environ.get("FAKE_BAD", "").split())}
    print(os.environ.get("FAKE_GREETING") or json.dumps({"moec_measure": 1, "device": "a fake"}), flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "FAKE_JOBS" in os.environ:
            with open(os.environ["FAKE_JOBS"], "a", encoding="utf-8") as file:
                said = {name: job[name] for name in ("tokens", "seed", "sample", "rounds", "worse")}
                file.write(json.dumps({**said, "matmuls": matmuls(job["package"])}) + "\n")
        # The compiler's choice for the same token count.
        if not job["baseline"].endswith(f"default-{job['tokens']}"):
            print(json.dumps({"ok": False, "kind": "baseline", "text": f"{job['baseline']} for {job['tokens']} tokens"}), flush=True)
            continue
        at = os.environ.get("FAKE_TOKENS", "").removeprefix(f"{job['tokens']}:")
        if at == "kill":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(3600)
        if at == "baseline":
            print(json.dumps({"ok": False, "kind": "baseline", "text": "a fault"}), flush=True)
            continue
        time.sleep(float(os.environ.get("FAKE_SECONDS", "0")))
        print(answer(job, bad), flush=True)


main()
