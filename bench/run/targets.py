#!/usr/bin/env python3
# ===- targets.py - what each cell of the bench is measured against -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Makes bench/data/targets.json from shapes.json, data/cells/ and baseline/*.csv, for moec-bench and the scripts; --check says whether the
file that is there is the one that would be made.

The target of a cell is the smaller of shapes.json's table (by scheme and tokens) and the best ratio to the floor that any of
today's systems reached on that GPU. A GPU of `rows` "without a peer" takes the table only where no system was measured. Where
the best is under 1.10, what is within 2 % of it counts as equal: `limit`. A cell without `baseline` has a floor target: no
other system was measured."""

import argparse
import json
import math
import sys

import benchlib


def target(table, best, equal):
    """(target, limit): ratios to the floor."""
    if best < table:
        limit = best * (1 + equal["within"]) if best < equal["below"] else best
        return best, round(limit, 4)
    return table, table


def cell_of(key, row, table, peer, always, equal):
    """The cell of `key`; `row` and its number `table` are left out of it if they do not count."""
    cell = dict(zip(("gpu", "shape", "scheme", "tokens"), key))
    counts = always or peer is None
    if peer is None:
        cell.update(target=table, limit=table)
    else:
        cell["target"], cell["limit"] = target(table if counts else math.inf, peer["ratio"], equal)
    if counts:
        cell.update(row=row, table=table)
    if peer is not None:
        cell["baseline"] = {name: peer[name] for name in ("peer", "version", "us", "ratio")}
    return cell


def make():
    data = benchlib.read(benchlib.DATA / "shapes.json")
    rows = benchlib.shapes()
    cells = []
    for gpu, rule in data["gpus"].items():
        best = benchlib.baseline(gpu)
        for row, given in zip(rows, data["shapes"]):
            for scheme, name in benchlib.schemes_of(given, data, rule["schemes"]).items():
                table = data["target_ratio"][name]
                cells += [cell_of((gpu, row["shape"], scheme, tokens), name, table[str(tokens)],
                                  best.get((row["shape"], scheme, tokens)), rule["rows"] == "always", data["equal"])
                          for tokens in row["tokens"] if str(tokens) in table]
    return {"moec_targets": 2, "gpus": list(data["gpus"]), "shapes": rows, "cells": cells}


def text_of(made):
    """One row a line, for diffs."""
    tables = ("shapes", "cells")
    head = {key: value for key, value in made.items() if key not in tables}
    lists = [f" {json.dumps(key)}: [\n" + ",\n".join(f"  {json.dumps(row)}" for row in made[key]) + "\n ]" for key in tables]
    return "{\n" + ",\n".join([f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()] + lists) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    path = benchlib.DATA / "targets.json"
    text = text_of(make())
    if not options.check:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")
    elif path.read_text(encoding="utf-8") != text:
        print(f"{path} is not what bench/run/targets.py makes; run it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
