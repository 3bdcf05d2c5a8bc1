#!/usr/bin/env python3
# ===- tune_models.py - the measured rows that moec ships ----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Calls `moec tune` for the models of "tuned" in shapes.json and prints a row of a table for each. Runs on the machine with the GPU,
beside moec and its libexec folder. A second call goes on where the first ended: each model has a log.

  bench/run/tune_models.py --moec=PROGRAM --logs=FOLDER --out=FILE [--seconds=480] [--models=WORD,...]

The rows of FILE go to tuned/, from where they are built into the compiler."""

import argparse
import pathlib
import subprocess
import sys
import time

import benchlib


def name_of(row):
    return pathlib.Path(row["input"]).stem


def wanted(data, words):
    names = [name_of(row) for row in data["tuned"]["models"]]
    if unknown := [word for word in words if word not in names]:
        raise SystemExit(f"tune_models.py: --models: got '{unknown[0]}'; accepted are {', '.join(names)}")
    return [row for row in data["tuned"]["models"] if not words or name_of(row) in words]


def cell(result):
    """Time of the fastest schedule over that of the compiler's choice, and whether rows are kept."""
    if "us" not in result:
        return ""
    return f"{result['us'] / result['default_us']:.3f}{' *' if result['chosen'] == 'measured' else ''}"


def tune(options, data, row, seconds):
    """A row of the table; None where the tuner fails."""
    name, tokens = name_of(row), data["tuned"]["tokens"]
    report = options.logs / f"{name}.json"
    command = [options.moec, "tune", benchlib.ROOT / row["input"], "--arch=sm_90a", f"--max-tokens={max(tokens)}", *row.get("arguments", []),
               f"--tokens={','.join(map(str, tokens))}", f"--budget={seconds:.0f}", f"--log={options.logs / name}.jsonl",
               f"--out={options.out}", f"--report={report}"]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"tune_models.py: {name}: {done.stderr.strip()}", file=sys.stderr)
        return None
    results = {result["tokens"]: result for result in benchlib.read(report)["results"]}
    words = " ".join([name, *(word.removeprefix("--") for word in row.get("arguments", []))])
    return f"| {words} | " + " | ".join(cell(results.get(count, {})) for count in tokens) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", required=True, help="the program")
    parser.add_argument("--logs", type=pathlib.Path, required=True, help="a folder of logs and reports, one for each model")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the file of rows")
    parser.add_argument("--seconds", type=float, default=480, help="of all models")
    parser.add_argument("--models", default="", help="names of configurations, separated by commas")
    options = parser.parse_args()
    options.logs.mkdir(parents=True, exist_ok=True)
    data = benchlib.read(benchlib.DATA / "shapes.json")
    rows = wanted(data, options.models.split(",") if options.models else [])
    end = time.monotonic() + options.seconds
    tokens = data["tuned"]["tokens"]
    print(f"| model | {' | '.join(map(str, tokens))} |\n| --- |{' ---: |' * len(tokens)}")
    failed = 0
    for index, row in enumerate(rows):
        line = tune(options, data, row, max((end - time.monotonic()) / (len(rows) - index), 1))
        failed += line is None
        if line:
            print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
