#!/usr/bin/env python3
# ===- compile_cells.py - the packages of the bench ---------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compiles the bench's cells, one package for each shape x scheme, and puts beside them what run_all.sh needs on a
machine with the GPU, where nothing is built.

  bench/run/compile_cells.py --build=build --out=FOLDER [--cells=WORD,...] [--no-cubin] [--arch=sm_90a]

A word of --cells is a shape, a scheme or shape/scheme, as for moec-bench. A pair that the compiler refuses is said and left
out; the exit status is 1 if all are."""

import argparse
import pathlib
import shutil
import subprocess
import sys

import benchlib

# Files of bench/ that are copied to the folder of packages.
COPIED = ("run/benchlib.py", "run/counters.py", "run/counters_note.py", "run/run_all.sh", "run/short_table.py", "run/skew.py",
          "run/thermometer.py", "data/shapes.json", "data/targets.json", "baseline/h200-skew.csv")


def selected(words, shape, scheme):
    return not words or any(word in ("*", shape, scheme, f"{shape}/{scheme}") for word in words)


def pairs(words):
    data = benchlib.read(benchlib.DATA / "shapes.json")
    for row in data["shapes"]:
        for scheme in benchlib.schemes_of(row, data):
            if selected(words, row["shape"], scheme):
                yield row["shape"], scheme


def command(moec, shape, scheme, package, options):
    words = [str(moec), "compile", str(benchlib.DATA / "cells" / f"{shape}.json"), f"--arch={options.arch}", "-o", str(package)]
    # The cells say no scheme: unquantized, in their in_dtype.
    words += [] if scheme == "bf16" else [f"--scheme={scheme}"]
    return words + (["--no-cubin"] if options.no_cubin else [])


def copy_program(build, name, out):
    found = build / "bin" / name
    if not found.exists():
        sys.exit(f"compile_cells.py: expected {found}; build it first (ninja -C {build} {name})")
    shutil.copy2(found, out / name)
    subprocess.run(["strip", str(out / name)], check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="a build folder with moec and moec-bench")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cells", default="", help="shape, scheme or shape/scheme, separated by commas; default: all")
    parser.add_argument("--no-cubin", action="store_true", help="leave the kernels to NVRTC on the other machine")
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    words = [word for word in options.cells.split(",") if word]
    chosen = list(pairs(words))
    if not chosen:
        parser.error(f"--cells={options.cells} names no cell of bench/data/shapes.json")
    options.out.mkdir(parents=True, exist_ok=True)
    copy_program(options.build, "moec-bench", options.out)
    for name in COPIED:
        shutil.copy2(benchlib.BENCH / name, options.out / pathlib.Path(name).name)
    made = 0
    for shape, scheme in chosen:
        package = options.out / f"{shape}-{scheme}.moec"
        shutil.rmtree(package, ignore_errors=True)
        done = subprocess.run(command(options.build / "bin" / "moec", shape, scheme, package, options), capture_output=True,
                              text=True, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()
        print(f"{shape}/{scheme}: {said[-1] if said else f'exit status {done.returncode}'}", flush=True)
        made += done.returncode == 0
    commit = subprocess.run(["git", "-C", str(benchlib.ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    (options.out / "commit").write_text(commit.stdout, encoding="utf-8")
    return 0 if made else 1


if __name__ == "__main__":
    sys.exit(main())
