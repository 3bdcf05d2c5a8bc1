#!/usr/bin/env python3
# ===- skew.py - layers whose experts are chosen unevenly ---------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Times the cells of "skew" in shapes.json with each of its routings, and with the pairs of each dealt evenly over the same
experts. Runs in a folder that bench/run/compile_cells.py filled, on the machine with the GPU. Prints microseconds and, in
brackets, the ratio to the dealt cell, '!' where it is above the limit, and the ratio to the best other system on this GPU
where one was measured.

  ./skew.py [--out=FILE] [--cells=WORD,...] [--tokens=32,...] [-- options of moec-bench]"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

import benchlib

HERE = pathlib.Path(__file__).resolve().parent


def baseline(folder, gpu):
    """{(shape, scheme, tokens, routing): microseconds of the best other system}; empty without a file of this GPU."""
    path = folder / f"{gpu.partition('_')[0]}-skew.csv"
    if not gpu or not path.is_file():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {(row["shape"], row["scheme"], int(row["tokens"]), row["routing"]): float(row["us"]) for row in csv.DictReader(file)}


def run(packages, routing, dealt, options):
    """One report of moec-bench. A cell that fails is in its package's errors."""
    command = [str(HERE / "moec-bench"), *map(str, packages), f"--routing={routing}", f"--tokens={options.tokens}",
               f"--targets={HERE / 'targets.json'}", "--json", *options.more] + (["--dealt"] if dealt else [])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"skew.py: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def times(report):
    """{(shape, scheme, tokens): microseconds}."""
    return {(package["shape"], package["scheme"], cell["tokens"]): cell["us"]
            for package in report["packages"] for cell in package["cells"]}


def text_of(us, even, peer, limit):
    ratio = f"{us / even:.2f}{'!' if us > limit * even else ''}" if even else "-"
    return f"{us:.1f} ({ratio}, {us / peer:.2f})" if peer else f"{us:.1f} ({ratio})"


def lines(runs, limit, peers):
    """runs: {(routing, dealt): {(shape, scheme, tokens): microseconds}}."""
    routings = list(dict.fromkeys(routing for routing, _ in runs))
    yield f"{'us (over dealt evenly' + (', over the best other)' if peers else ')'):40}" + "".join(f"{name:>22}" for name in routings)
    above = cells = 0
    for key in dict.fromkeys(key for found in runs.values() for key in found):
        words = []
        for routing in routings:
            us, even = runs[routing, False].get(key), runs.get((routing, True), {}).get(key)
            words.append(text_of(us, even, peers.get((*key, routing)), limit) if us else "-")
            if us and even:
                cells, above = cells + 1, above + (us > limit * even)
        yield f"{'/'.join(key[:2]):32}{key[2]:>8}" + "".join(f"{word:>22}" for word in words)
    yield f"{cells} cells beside dealt ones, {above} above {limit}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, help="all reports of moec-bench, as JSON")
    parser.add_argument("--cells", default="", help="shape, scheme or shape/scheme, separated by commas; default: all of shapes.json")
    parser.add_argument("--tokens", default="", help="default: those of shapes.json")
    parser.add_argument("more", nargs="*", help="options of moec-bench, behind --")
    options = parser.parse_args()
    skew = benchlib.read(HERE / "shapes.json")["skew"]
    options.tokens = options.tokens or ",".join(map(str, skew["tokens"]))
    words = [word for word in options.cells.split(",") if word]
    pairs = [(shape, scheme) for shape in skew["shapes"] for scheme in skew["schemes"]
             if not words or any(word in (shape, scheme, f"{shape}/{scheme}") for word in words)]
    packages = [HERE / f"{shape}-{scheme}.moec" for shape, scheme in pairs]
    packages = [package for package in packages if package.is_dir()]
    if not packages:
        sys.exit(f"skew.py: {HERE} has no package of --cells={options.cells}; compile_cells.py makes them")
    reports = []
    for routing in skew["routings"]:
        for dealt in (False,) if routing == "uniform" else (False, True):
            reports.append(run(packages, routing, dealt, options))
            if options.out:
                options.out.write_text(json.dumps(reports), encoding="utf-8")
    print(reports[0]["device"])
    peers = baseline(HERE, benchlib.gpu_of(reports[0]["device"]))
    runs = {(report["routing"], report["dealt"]): times(report) for report in reports}
    for line in lines(runs, skew["limit"], peers):
        print(line)
    failed = [(package["name"], error) for report in reports for package in report["packages"] for error in package.get("errors", [])]
    for name, error in failed:
        print(f"{name}, {error['tokens']} tokens: {error['error']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
