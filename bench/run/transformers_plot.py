#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws the results of transformers_generate.py: milliseconds of a decode step for each batch and implementation.

The lower part of a bar is the time of the MoE blocks, where it was measured.

    bench/run/transformers_plot.py RESULT.json... --out=PICTURE.svg

Needs matplotlib (Debian: python3-matplotlib).
"""

import argparse
import json
import pathlib
import sys
from typing import Any

import plot
from matplotlib import pyplot

COLOURS = {"moec": plot.OURS, "moec, blocks": "#56B4E9", "grouped_mm": plot.THEIRS, "batched_mm": "#E69F00", "eager": "#999999"}
WIDTH = 0.8


def title_of(result: dict[str, Any]) -> str:
    facts = result["facts"]
    compiled = ", torch.compile" if any(row["compiled"] for row in result["rows"]) else ""
    return f"{facts['model']}, {facts['scheme']}{compiled}"


def draw(axes: Any, result: dict[str, Any]) -> None:
    rows = [row for row in result["rows"] if "error" not in row]
    batches = sorted({row["batch"] for row in rows})
    names = [name for name in COLOURS if any(row["implementation"] == name for row in rows)]
    width = WIDTH / len(names)
    for row in rows:
        place = batches.index(row["batch"]) + (names.index(row["implementation"]) - (len(names) - 1) / 2) * width
        colour, step = COLOURS[row["implementation"]], row["ms_per_step"]
        first = row["implementation"] not in axes.get_legend_handles_labels()[1]
        whole = row.get("moe_share") is None
        axes.bar(place, step, width, color=colour, alpha=1 if whole else 0.4, label=row["implementation"] if first else None)
        if not whole:
            axes.bar(place, step * row["moe_share"], width, color=colour)
        axes.annotate(f"{step:.3g}", (place, step), ha="center", va="bottom", fontsize=8)
    axes.set_xticks(range(len(batches)), [f"batch {batch}" for batch in batches])
    axes.set_ylabel("ms of a decode step")
    axes.set_title(title_of(result), fontsize=9)
    axes.legend(frameon=False, fontsize=8)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with plot.matplotlib.rc_context(plot.STYLE):
        figure, all_axes = pyplot.subplots(len(options.results), 1, figsize=(8, 3.2 * len(options.results)), squeeze=False)
        for axes, path in zip(all_axes[:, 0], options.results, strict=True):
            draw(axes, json.loads(path.read_text()))
        figure.tight_layout()
        figure.savefig(options.out, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
