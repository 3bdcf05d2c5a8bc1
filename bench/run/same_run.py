#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of a run that timed moec and other systems in one process: geometric means, and cells that README.md shows.

    bench/run/same_run.py bench/results/2026-11-28-h200-peers.csv [SHAPE,SCHEME,TOKENS ...]

A line has shape, scheme, tokens, routing, system, us, floor_us and error. The error is relative to a reference in float32;
`wrong` leaves a system out.
"""

import collections
import csv
import math
import pathlib
import sys


class Cell:
    """One layer, scheme, token count and routing: times of all systems that were right."""

    def __init__(self):
        self.us, self.floor = {}, {}

    def best(self):
        """The fastest other system."""
        return min((system for system in self.us if system != "moec"), key=self.us.get)

    def ratio(self):
        """moec's time over that of the fastest other system; below 1 moec is faster."""
        return self.us["moec"] / self.us[self.best()]

    def over_floor(self, system):
        return self.us[system] / self.floor[system]


def read(path):
    """{(shape, scheme, tokens, routing): Cell}, of cells that moec and another system were timed in."""
    cells = collections.defaultdict(Cell)
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["error"] != "wrong":
                cell = cells[row["shape"], row["scheme"], int(row["tokens"]), row["routing"]]
                cell.us[row["system"]], cell.floor[row["system"]] = float(row["us"]), float(row["floor_us"])
    return {key: cell for key, cell in cells.items() if "moec" in cell.us and len(cell.us) > 1}


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def means(cells):
    """(scheme, routing, cells, cells in which moec is faster, geometric mean, worst) of each scheme."""
    groups = collections.defaultdict(list)
    for (_, scheme, _, routing), cell in cells.items():
        groups[scheme, routing].append(cell.ratio())
    return [(*key, len(ratios), sum(ratio < 1 for ratio in ratios), mean(ratios), max(ratios)) for key, ratios in groups.items()]


def row_of(cell):
    """us, x floor, fastest other system, its x floor, ratio: as texts."""
    best = cell.best()
    return [f"{cell.us['moec']:.1f}", f"{cell.over_floor('moec'):.2f}", best, f"{cell.over_floor(best):.2f}", f"{cell.ratio():.2f}"]


def main():
    cells = read(pathlib.Path(sys.argv[1]))
    print("| scheme | routing | cells | moec is faster | geometric mean | worst |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for scheme, routing, count, faster, average, worst in sorted(means(cells)):
        print(f"| {scheme} | {routing} | {count} | {faster} | {average:.2f} | {worst:.2f} |")
    print("\n| cell | us | x floor | fastest other system | its x floor | ratio |\n| --- | ---: | ---: | --- | ---: | ---: |")
    for word in sys.argv[2:]:
        shape, scheme, tokens = word.split(",")
        print(f"| {shape}, {scheme}, {tokens} | {' | '.join(row_of(cells[shape, scheme, int(tokens), 'uniform']))} |")


if __name__ == "__main__":
    main()
