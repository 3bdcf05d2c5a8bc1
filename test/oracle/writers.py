#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints that the libraries of quantization write themselves, read and computed by moec on the host device.

    writers.py                            every library that is installed
    writers.py --only nvfp4               cases whose name contains this
    writers.py --table FILE.md --json FILE.json

For each case: a small Qwen3-MoE with random weights; the library quantizes it and writes safetensors and config.json. moec reads
both. The output must be that of the library's own dequantized weights in f64, or moec must refuse with the expected sentence.
README.md says how to install the libraries.
"""

import argparse
import dataclasses
import importlib
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import traceback

from written import Case, Outcome, run

# The module with the cases of a library, and what must be importable for it.
LIBRARIES = {
    "writers_compressed": ("compressed_tensors",),
    "writers_gptq_awq": ("auto_gptq", "awq"),
    "writers_modelopt": ("modelopt",),
    "writers_transformers": ("transformers",),
}


HEAD = """# Outcomes of writers.py

`writers.py --table` writes this file. The error is that of the whole output, relative.

| library | case | outcome | scheme | error | what moec said |
|---|---|---|---|---:|---|
"""


def cases() -> tuple[list[tuple[str, Case]], list[str]]:
    """(library, case), and the libraries that are not installed."""
    found: list[tuple[str, Case]] = []
    absent = []
    for module, needed in LIBRARIES.items():
        try:
            missing = [each for each in needed if importlib.util.find_spec(each) is None]
        except ImportError as error:
            missing = [str(error)]
        if missing:
            absent.append(", ".join(missing))
            continue
        made = importlib.import_module(module)
        found += made.cases()
    return found, absent


def line(library: str, outcome: Outcome) -> str:
    """A row of the table; of what moec said, the first line without the list of all schemes."""
    error = "" if outcome.error != outcome.error else f"{outcome.error:.1e}"
    said = (
        re.sub(r"\S*/(?=\S*: tensor)", "", outcome.said.partition("\n")[0]).partition("; another scheme")[0].replace("|", "\\|")
    )
    return f"| {library} | {outcome.name} | {outcome.status} | {outcome.scheme} | {error} | {said} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--table", type=pathlib.Path, help="writes the outcomes as a table")
    parser.add_argument("--json", type=pathlib.Path, help="writes the outcomes with tensors and configs")
    parser.add_argument("--keep", type=pathlib.Path, help="an empty folder for the checkpoints")
    arguments = parser.parse_args()
    found, absent = cases()
    rows: list[tuple[str, Outcome]] = []
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.keep or pathlib.Path(temporary)
        for library, case in found:
            if arguments.only not in case.name:
                continue
            try:
                outcome = run(case, work)
            except Exception:  # the library, or this program
                outcome = Outcome(case.name, "failed", said=traceback.format_exc())
            rows.append((library, outcome))
            print(f"{outcome.status:8} {library} {case.name}: {outcome.scheme} {outcome.error:.1e} {outcome.said}", flush=True)
    for name in absent:
        print(f"absent   {name}")
    if arguments.table:
        arguments.table.write_text(HEAD + "\n".join(line(*row) for row in rows) + "\n")
    if arguments.json:
        arguments.json.write_text(json.dumps([{"library": name, **dataclasses.asdict(row)} for name, row in rows], indent=1))
    return 1 if not rows or any(row.status in ("wrong", "failed") for _, row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
