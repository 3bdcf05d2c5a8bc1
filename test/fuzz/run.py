#!/usr/bin/env python3
# ===- run.py - runs the fuzzers ---------------------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs fuzzers by name, counts their inputs and keeps what ended them.

    test/fuzz/run.py --build=build/sanitize --smoke json           a few seconds with a fixed seed; the tests call this
    test/fuzz/run.py --build=build/sanitize --runs=10000000 json   a long run; each adds a line to WORK/results.jsonl
    test/fuzz/run.py --table                                   the sums of all lines, as a Markdown table
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import corpus

PLAIN = ("json", "import", "options", "tuned", "page", "expression", "manifest", "package", "safetensors", "weights",
         "cache", "build-id", "environment")
WHOLE = ("compile-config", "compile-ir")
# Bytes of an input: what a small document of the format needs.
MOST_BYTES = {"json": 256, "import": 2200, "options": 512, "tuned": 2048, "page": 8192, "expression": 256,
              "manifest": 8192, "package": 16384,
              "safetensors": 2048, "weights": 16384, "cache": 1024, "build-id": 512, "environment": 64}
SMOKE_SECONDS = 5
SMOKE_RUNS = 20000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", help=f"of {', '.join(PLAIN + WHOLE)}, or plain for all that need no compiler")
    parser.add_argument("--build", type=pathlib.Path, default=corpus.ROOT / "build/sanitize", help="folder of the build")
    parser.add_argument("--moec", type=pathlib.Path, help="the compiler that makes seeds (default: of this build, or of the one above)")
    parser.add_argument("--work", type=pathlib.Path, help="folder of corpora, findings and results (default: BUILD/fuzz-work)")
    parser.add_argument("--runs", type=int, default=100000, help="inputs of each fuzzer; 0 for no limit")
    parser.add_argument("--seconds", type=int, default=0, help="time of each fuzzer; 0 for no limit")
    parser.add_argument("--max-len", type=int, help="bytes of an input")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a few seconds, nothing is kept")
    parser.add_argument("--table", action="store_true", help="print the sums of the results")
    options = parser.parse_args()
    options.targets = [name for target in options.targets for name in (PLAIN if target == "plain" else [target])]
    options.build = options.build.resolve()
    options.work = (options.work or options.build / "fuzz-work").resolve()
    unknown = set(options.targets) - set(PLAIN + WHOLE)
    if unknown or not (options.targets or options.table):
        parser.error(f"expected names of fuzzers: {', '.join(PLAIN + WHOLE)}")
    if options.moec is None:
        options.moec = next((path for path in (options.build / "bin/moec", options.build.parent / "bin/moec") if path.exists()), None)
    return options


def command_of(target, options, folder, seeds, crashes):
    if target in WHOLE:
        return [options.build / "bin/moec-fuzz-compile", seeds, f"--runs={options.runs or sys.maxsize}", f"--seconds={options.seconds}",
                f"--seed={options.seed}", f"--crashes={crashes}", f"--max-len={options.max_len or 65536}"]
    command = [options.build / f"bin/fuzz-{target}"]
    if not options.smoke:
        (folder / "corpus").mkdir(exist_ok=True)
        command += [folder / "corpus", "-entropic=0", "-reduce_inputs=0"]  # their bookkeeping takes half of a long run's time
    return command + [seeds, f"-runs={options.runs or -1}", f"-max_total_time={options.seconds}", f"-seed={options.seed}",
                      f"-max_len={options.max_len or MOST_BYTES[target]}", f"-artifact_prefix={crashes}/", "-timeout=20",
                      "-rss_limit_mb=2048", "-print_final_stats=1", "-reload=0",
                      *([f"-dict={folder}/words"] if (folder / "words").stat().st_size else [])]


def inputs_of(target, text):
    found = re.findall(r"^(\d+) inputs, " if target in WHOLE else r"^stat::number_of_executed_units:\s*(\d+)", text, re.MULTILINE)
    return int(found[-1]) if found else 0


def commit():
    made = subprocess.run(["git", "-C", corpus.ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return made.stdout.strip()


def run(target, options):
    folder = options.work / ("smoke" if options.smoke else "runs") / target
    seeds, crashes = folder / "seeds", folder / "crashes"
    for made in (seeds, crashes):
        made.mkdir(parents=True, exist_ok=True)
    before = set(crashes.iterdir())
    most = options.max_len or MOST_BYTES.get(target, 65536)
    # libFuzzer would cut a longer one, and half a document is none.
    texts = [text for text in corpus.seeds(target, corpus.Compiled(options.moec)) if len(text) <= most]
    for old in seeds.iterdir():
        old.unlink()
    for number, text in enumerate(texts):
        (seeds / f"{number:04}").write_bytes(text)
    escaped = ["".join(f"\\x{byte:02x}" for byte in word) for word in corpus.words(texts)]
    (folder / "words").write_text("".join(f'"{word}"\n' for word in escaped), encoding="ascii")
    start = time.monotonic()
    log = folder / "log"
    # Half of the time would go into the stacks of allocations; a finding that is seen again has them.
    quick = {"ASAN_OPTIONS": "malloc_context_size=1:quarantine_size_mb=16", **os.environ}
    with open(log, "wb") as output:
        status = subprocess.run(command_of(target, options, folder, seeds, crashes), stdout=output,
                                stderr=subprocess.STDOUT, env=quick).returncode
    text = log.read_text(encoding="utf-8", errors="replace")
    new = sorted(path.name for path in set(crashes.iterdir()) - before)
    # An error that moec calls its own fault is to be read, and is no death.
    found = [name for name in new if not name.startswith("internal-")]
    line = {"target": target, "commit": commit(), "inputs": inputs_of(target, text), "seconds": round(time.monotonic() - start),
            "seed": options.seed, "status": status, "findings": found, "internal": len(new) - len(found)}
    print(json.dumps(line), flush=True)
    if not options.smoke:
        with open(options.work / "results.jsonl", "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
    if status != 0 or found:
        print(text[-6000:], file=sys.stderr)
        print(f"findings are in {crashes}; run the fuzzer with one of them to see it again", file=sys.stderr)
    elif line["inputs"] == 0:
        print(f"{target}: no input was tried; see {log}", file=sys.stderr)
        return False
    return status == 0 and not found


def table(options):
    sums = {}
    for text in (options.work / "results.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        row = sums.setdefault(line["target"], {"inputs": 0, "seconds": 0, "findings": 0, "commits": []})
        row["inputs"] += line["inputs"]
        row["seconds"] += line["seconds"]
        row["findings"] += len(line["findings"])
        if line["commit"] not in row["commits"]:
            row["commits"].append(line["commit"])
    print("| fuzzer | inputs | seconds | findings | commits |\n| --- | ---: | ---: | ---: | --- |")
    for target in PLAIN + WHOLE:
        if target in sums:
            row = sums[target]
            print(f"| {target} | {row['inputs']:,} | {row['seconds']:,} | {row['findings']} | {', '.join(row['commits'])} |")


def main():
    options = arguments()
    if options.table:
        table(options)
        return 0
    if options.smoke:
        options.runs, options.seconds = SMOKE_RUNS, SMOKE_SECONDS
    return 0 if all([run(target, options) for target in options.targets]) else 1


if __name__ == "__main__":
    sys.exit(main())
