#!/usr/bin/env python3
# ===- short_table.py - the end of a run, in few lines ------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints one line for each shape x scheme of what moec-bench --json wrote: the ratio to the floor by tokens, '!' where the
cell's target is missed, and ours/theirs below 1 where the best of today's systems is beaten. A cell that no other system was
measured in has `(-)`.

  bench/run/short_table.py bench-*.json"""

import pathlib
import sys

import benchlib


def cell_text(cell):
    against = cell.get("against")
    if not against:
        return f"{cell['ratio']:.2f}"
    theirs = f"{against['ours_over_theirs']:.2f}" if "peer" in against else "-"
    return f"{cell['ratio']:.2f}{' ' if against['met'] else '!'}({theirs})"


def lines(reports):
    packages = [package for report in reports for package in report["packages"]]
    tokens = sorted({cell["tokens"] for package in packages for cell in package["cells"]})
    yield "ratio to the floor (ours/theirs), '!' where the target is missed"
    yield f"{'':34}" + "".join(f"{count:>13}" for count in tokens)
    met = cells = beaten = alone = 0
    for report in reports:
        for package in report["packages"]:
            by_tokens = {cell["tokens"]: cell for cell in package["cells"]}
            name = f"{package['shape']}/{package['scheme']}{' HOT' if report['suspect'] else ''}"
            yield f"{name:34}" + "".join(f"{cell_text(by_tokens[count]) if count in by_tokens else '-':>13}" for count in tokens)
            for error in package.get("errors", []):
                yield f"  {error['tokens']} tokens: {error['error']}"
            against = [cell["against"] for cell in package["cells"] if "against" in cell]
            cells += len(against)
            met += sum(row["met"] for row in against)
            beaten += sum(row.get("ours_over_theirs", 1) < 1 for row in against)
            alone += sum("peer" not in row for row in against)
    reads = [report[key] for report in reports for key in ("before_gbs", "after_gbs") if report[key]]
    if reads:
        yield f"reads: {min(reads):.0f} to {max(reads):.0f} GB/s; the floor's: {reports[0]['bandwidth_gbs']:.0f}"
    yield (f"{cells} cells with a target: {met} met, {beaten} faster than the best of today's systems"
           + (f"; {alone} without another system" if alone else ""))


def main():
    reports = []
    for name in sys.argv[1:]:
        try:
            reports.append(benchlib.read(pathlib.Path(name)))
        except (OSError, ValueError) as error:
            print(f"{name}: {error}")
    if not reports:
        print("short_table.py: expected files that moec-bench --json wrote", file=sys.stderr)
        return 1
    print("\n".join(lines(reports)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
