#!/usr/bin/env python3
# ===- choice.py - the compiler's choice against all schedules -----------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Measures schedules with `moec tune --exhaustive` in the cells of "choice" in shapes.json, and says what the compiler's choice costs
over the fastest one. Runs on the machine with the GPU, beside moec and its libexec folder. A second call goes on where the first ended:
each layer has a log for each scheme.

  bench/run/choice.py --moec=PROGRAM --logs=FOLDER [--seconds=60] [--cells=WORD,...]
      measures as long as the seconds last, in the order of the model's prediction
  bench/run/choice.py --logs=FOLDER --table [--csv=FILE] [--plot=FILE.svg]
      prints the table of the logs; writes each schedule as a row, and a picture, which needs matplotlib"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import time

import benchlib
import plot

RANDOM = 16  # legal schedules drawn beside the candidates


def check(data, words):
    """Each word names a layer, a scheme or both."""
    names, schemes = [row["layer"] for row in data["choice"]["layers"]], data["choice"]["schemes"]
    accepted = {*names, *schemes, *(f"{name}/{scheme}" for name in names for scheme in schemes)}
    if unknown := [word for word in words if word not in accepted]:
        raise SystemExit(f"choice.py: --cells: got '{unknown[0]}'; accepted are layers ({', '.join(names)}), "
                         f"schemes ({', '.join(schemes)}) and layer/scheme")


def layers(data, words):
    """(shape, scheme, input, arguments, whether the fit left it out) of each layer."""
    check(data, words)
    for row in data["choice"]["layers"]:
        for scheme in data["choice"]["schemes"]:
            if not words or any(word in (row["layer"], scheme, f"{row['layer']}/{scheme}") for word in words):
                yield row["layer"], scheme, row["input"], row.get("arguments", []), row.get("left_out", False)


def log_of(folder, shape, scheme):
    return folder / f"{shape}-{scheme}.jsonl"


def measure(options, data):
    """Layers with the fewest measurements come first, so that a call that ends early is fair."""
    end = time.monotonic() + options.seconds
    wanted = sorted(layers(data, options.cells.split(",") if options.cells else []),
                    key=lambda layer: len(read_log(log_of(options.logs, *layer[:2]))))
    for index, (shape, scheme, source, arguments, _) in enumerate(wanted):
        share = (end - time.monotonic()) / (len(wanted) - index)
        if share < 5:
            break
        log = log_of(options.logs, shape, scheme)
        tokens = ",".join(str(count) for count in data["choice"]["tokens"])
        command = [options.moec, "tune", benchlib.ROOT / source, "--arch=sm_90a", "--max-tokens=16384", f"--scheme={scheme}", *arguments,
                   f"--tokens={tokens}", "--exhaustive", f"--random={RANDOM}", f"--budget={share:.0f}", f"--log={log}",
                   f"--out={log.with_suffix('.rows.json')}"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"choice.py: {shape}/{scheme}: {done.stderr.strip()}", file=sys.stderr)


def read_log(path):
    """The measurements of a log. Its last line may be cut off."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if row.get("ok") and row["what"] == "schedule":
            rows.append(row)
    return rows


def cost(rows):
    """The compiler's choice over the fastest schedule, and the schedule that the model ranks first over it; both at least 1."""
    fastest = min(min(row["us"] / row["baseline_us"] for row in rows), 1.0)
    first = min(rows, key=lambda row: row["predicted_us"])
    return 1 / fastest, first["us"] / first["baseline_us"] / fastest


def table(options, data):
    """Lines of the table, and a last one with the means."""
    costs = []
    yield f"{'cell':44}{'schedules':>10}{'choice':>9}{'model':>9}"
    left_out = {row["layer"] for row in data["choice"]["layers"] if row.get("left_out")}
    for shape, scheme, tokens, rows in cells_of(options, data):
        costs.append(cost(rows))
        name = f"{shape}/{scheme} {tokens}{', left out' if shape in left_out else ''}"
        yield f"{name:44}{len(rows):10}{costs[-1][0]:9.3f}{costs[-1][1]:9.3f}"
    for index, what in enumerate(("the compiler's choice", "the model's first") if costs else ()):
        mean = math.exp(sum(math.log(pair[index]) for pair in costs) / len(costs))
        yield f"{len(costs)} cells: {what} costs {mean:.3f} in the mean and {max(pair[index] for pair in costs):.3f} at worst"


def cells_of(options, data):
    """(layer, scheme, tokens, measurements) of the cells that have any."""
    for shape, scheme, *_ in layers(data, []):
        log = read_log(log_of(options.logs, shape, scheme))
        for tokens in data["choice"]["tokens"]:
            rows = [row for row in log if row["tokens"] == tokens]
            if rows:
                yield shape, scheme, tokens, rows


def words(schedule):
    """A schedule in a field of CSV."""
    names = ("engine", "tile", "stages", "warps", "consumer_warps", "ctas_per_sm", "swap", "group")
    fields = {name: schedule[name] for name in names if name in schedule}
    return " ".join(f"{name}={'x'.join(map(str, value)) if isinstance(value, list) else value}" for name, value in fields.items())


def write_csv(options, data):
    with open(options.csv, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["layer", "scheme", "tokens", "first", "second", "predicted_us", "us", "choice_us", "noise"])
        for shape, scheme, tokens, rows in cells_of(options, data):
            for row in rows:
                out.writerow([shape, scheme, tokens, words(row["first"]["schedule"]), words(row["second"]["schedule"]),
                              *(f"{row[name]:.1f}" for name in ("predicted_us", "us", "baseline_us")), f"{row['noise']:.4f}"])


def draw(options, data):
    """Left: what the model says of a schedule and what was measured. Right: what the choice costs in each cell."""
    with plot.matplotlib.rc_context(plot.STYLE):
        figure, (left, right) = plot.pyplot.subplots(1, 2, figsize=(11, 4.6))
        for scheme, color in zip(data["choice"]["schemes"], (plot.OURS, plot.THEIRS, plot.TARGET)):
            cells = [rows for _, its, _, rows in cells_of(options, data) if its == scheme]
            # Both over the best of the cell, since the model leaves out the kernels that all schedules share.
            predicted = [row["predicted_us"] / min(other["predicted_us"] for other in rows) for rows in cells for row in rows]
            measured = [row["us"] / row["baseline_us"] / min(other["us"] / other["baseline_us"] for other in rows)
                        for rows in cells for row in rows]
            left.scatter(predicted, measured, s=9, color=color, alpha=0.55, linewidths=0, label=plot.NAMES.get(scheme, scheme))
            costs = sorted(cost(rows)[0] for rows in cells)
            right.plot([index / max(len(costs) - 1, 1) for index in range(len(costs))], costs, color=color, marker="o", markersize=3)
        for axes in (left, right):
            axes.grid(True, color="#DDDDDD", linewidth=0.8)
            axes.set_axisbelow(True)
        left.set(xscale="log", yscale="log", xlabel="predicted, over the best of the cell", ylabel="measured, over the best of the cell")
        for axis in (left.xaxis, left.yaxis):
            axis.set_major_locator(plot.ticker.FixedLocator([1, 1.2, 1.5, 2, 3, 4, 6]))
            axis.set_minor_locator(plot.ticker.NullLocator())
            axis.set_major_formatter(plot.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        right.axhline(1.15, color=plot.FLOOR, linestyle=":", label="limit")
        right.set(xlabel="share of the cells", ylabel="the compiler's choice over the fastest schedule")
        left.legend(frameon=False)
        right.legend(frameon=False)
        figure.savefig(options.plot, bbox_inches="tight", metadata={"Date": None, "Creator": None})
        plot.pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=pathlib.Path, required=True, help="a folder of logs, one for each layer and scheme")
    parser.add_argument("--moec", help="the program")
    parser.add_argument("--seconds", type=float, default=60, help="of all layers")
    parser.add_argument("--cells", default="", help="layer, scheme or layer/scheme, separated by commas")
    parser.add_argument("--table", action="store_true", help="measures nothing")
    parser.add_argument("--csv", type=pathlib.Path, help="a file for a row of each schedule")
    parser.add_argument("--plot", type=pathlib.Path, help="a file for a picture")
    options = parser.parse_args()
    if not options.table and not options.moec:
        parser.error("expected --moec=PROGRAM, or --table")
    if options.plot and plot.matplotlib is None:
        parser.error("--plot needs matplotlib (Debian: python3-matplotlib; PyPI: matplotlib)")
    data = benchlib.read(benchlib.DATA / "shapes.json")
    options.logs.mkdir(parents=True, exist_ok=True)
    if not options.table:
        measure(options, data)
    for line in table(options, data):
        print(line)
    if options.csv:
        write_csv(options, data)
    if options.plot:
        draw(options, data)


if __name__ == "__main__":
    main()
