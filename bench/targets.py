#!/usr/bin/env python3
# ===- targets.py - what each cell of the bench is measured against -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Makes targets.json from shapes.json, cells/ and baseline/h100.csv, for moec-bench and the scripts; --check says whether
the file that is there is the one that would be made.

The target of a cell is the smaller of shapes.json's table (by scheme and tokens) and the best ratio to the floor that any of
today's systems reached. Where that best is under 1.10, what is within 2 % of it counts as equal: `limit`."""

import argparse
import json
import sys

import benchlib


def target(table, best, equal):
    """(target, limit): ratios to the floor."""
    if best < table:
        limit = best * (1 + equal["within"]) if best < equal["below"] else best
        return best, round(limit, 4)
    return table, table


def make():
    data = benchlib.read(benchlib.BENCH / "shapes.json")
    rows = benchlib.shapes()
    best = benchlib.baseline()
    cells = []
    for row in rows:
        for scheme in data["schemes"]:
            table = data["target_ratio"]["16_bit" if scheme == "bf16" else "8_bit"]
            for tokens in row["tokens"]:
                peer = best[row["shape"], scheme, tokens]
                aim, limit = target(table[str(tokens)], peer["ratio"], data["equal"])
                cells.append({"shape": row["shape"], "scheme": scheme, "tokens": tokens, "target": aim, "limit": limit,
                              "table": table[str(tokens)],
                              "baseline": {key: peer[key] for key in ("peer", "us", "ratio")}})
    return {"moec_targets": 1, "gpu": data["gpu"], "shapes": rows, "cells": cells}


def text_of(made):
    """One row a line, for diffs."""
    head = {key: value for key, value in made.items() if not isinstance(value, list)}
    lists = [f" {json.dumps(key)}: [\n" + ",\n".join(f"  {json.dumps(row)}" for row in made[key]) + "\n ]"
             for key in ("shapes", "cells")]
    return "{\n" + ",\n".join([f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()] + lists) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = benchlib.BENCH / "targets.json"
    text = text_of(make())
    if not options.check:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    elif path.read_text(encoding="utf-8") != text:
        print(f"{path} is not what bench/targets.py makes; run it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
