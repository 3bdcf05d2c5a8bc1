#!/usr/bin/env python3
# ===- compile_ranks.py - the packages of ranks.py ----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compiles the layers of "ranks" in shapes.json, and puts beside them what ranks.py needs on a machine with GPUs, where
nothing is built: the programs, the Python package and the library that loads packages.

  MOEC_LIBRARY=build/lib/libmoec.so PYTHONPATH=python bench/ranks/compile_ranks.py --out=FOLDER [--cells=WORD,...] [--no-cubin]
      [--modes=gather_scatter] [--ranks=2] [--arch=sm_90a] [--runtime=build/lib/libmoec-runtime.so]

A word of --cells is a layer, a scheme or layer/scheme."""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import time

import moec

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "bench" / "data"

SCRIPTS = ("bench/ranks/rank_peers.py", "bench/ranks/rank_worlds.py", "bench/ranks/ranks.py", "test/gpu/rank_faults.py")
# The caller of these moves tokens and sums.
CALLER = "allgather_reducescatter"


def cells(words, listed, folder=DATA):
    for row in listed["layers"]:
        layer = json.loads((folder / row["file"]).read_text(encoding="utf-8"))
        for scheme in row["schemes"]:
            if not words or any(word in (layer["name"], scheme, f"{layer['name']}/{scheme}") for word in words):
                yield {**layer, "quant_config": scheme}


def packages(layer, options):
    """{name: (layer JSON, options of moec.compile)} of a cell. Times of moec are of packages of one mode."""
    spread = {"dp": options.ranks, "ep": True, "all_ranks": True, "max_tokens": options.ranks * options.max_tokens}
    codes = layer["quant_config"].startswith(("fp8", "int8"))
    made = {mode: (layer, {**spread, "all_to_all": mode}) for mode in options.modes.split(",")}
    made["whole"] = (layer, {"max_tokens": options.max_tokens})
    if layer.get("n_shared_experts"):
        return made  # which the caller computes where it moves tokens
    made["experts"] = ({**layer, "input_quantized": codes}, {**spread, "all_to_all": CALLER})
    for part in ("route", *(["quantize"] if codes else [])):
        made[part] = (layer, {"max_tokens": options.max_tokens, "part": part})
    return made


def compile_cell(layer, options):
    """The row of ranks.json; None if the compiler refuses a package."""
    name = f"{layer['name']}-{layer['quant_config']}"
    row = {"layer": layer["name"], "scheme": layer["quant_config"], "num_experts": layer["num_experts"], "packages": {}}
    for word, (source, words) in packages(layer, options).items():
        begin = time.monotonic()
        cubin = not options.no_cubin and word not in options.no_cubin_of.split(",")
        try:
            moec.compile(source, arch=options.arch, cubin=cubin, progress=False, **words).write(options.out / name / word)
        except moec.MoecError as error:
            print(f"{name}/{word}: {error}", flush=True)
            return None
        row["packages"][word] = f"{name}/{word}"
        print(f"{name}/{word}: {time.monotonic() - begin:.0f} s", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cells", default="", help="layer, scheme or layer/scheme, separated by commas; default: all")
    parser.add_argument("--layers", type=pathlib.Path, default=DATA / "shapes.json", help="a file with \"ranks\"")
    parser.add_argument("--modes", default="gather_scatter", help="how packages move tokens, separated by commas")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--max-tokens", type=int, default=0, help="of a rank; default: the most of the file")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--no-cubin", action="store_true", help="leave the kernels to NVRTC on the other machine")
    parser.add_argument("--no-cubin-of", default="", help="the same for packages of these names, \"whole\" say")
    parser.add_argument("--runtime", type=pathlib.Path, help="a libmoec-runtime.so to put beside them, with the Python package")
    options = parser.parse_args()
    listed = json.loads(options.layers.read_text(encoding="utf-8"))["ranks"]
    options.max_tokens = options.max_tokens or max(listed["tokens"])
    words = [word for word in options.cells.split(",") if word]
    options.out.mkdir(parents=True, exist_ok=True)
    for name in SCRIPTS:
        shutil.copy2(ROOT / name, options.out / pathlib.Path(name).name)
    if options.runtime:
        shutil.copytree(ROOT / "python" / "moec", options.out / "moec", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(options.runtime, options.out / "moec" / "libmoec.so")
        subprocess.run(["strip", str(options.out / "moec" / "libmoec.so")], check=False)
    rows = [compile_cell(layer, options) for layer in cells(words, listed, options.layers.parent)]
    made = {"ranks": options.ranks, "arch": options.arch, "tokens": [each for each in listed["tokens"] if each <= options.max_tokens],
            "cells": [row for row in rows if row]}
    (options.out / "ranks.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return 0 if rows and all(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
