#!/usr/bin/env python3
# ===- plot.py - time against tokens, from a result ---------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Draws one picture for each shape x scheme of a result: time of a layer against tokens, and below it the ratio to the
floor, beside the best of today's systems and the targets.

  bench/run/plot.py 2026-11-22-h100_order.json [--out=FOLDER] [--format=svg|png]

The pictures go to <result>-plots/ beside the result, or to --out. Needs matplotlib (Debian: python3-matplotlib)."""

import argparse
import pathlib
import sys

import benchlib

try:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker
except ImportError:
    matplotlib = None

# Okabe and Ito's colours, which people with any colour vision tell apart; markers and dashes say it once more.
OURS, THEIRS, FLOOR, TARGET = "#0072B2", "#D55E00", "#555555", "#009E73"
NAMES = {"bf16": "bf16", "fp8_block": "fp8, 128x128 blocks", "fp8_channel": "fp8, a scale a channel",
         "int4_w4a16": "int4 weights, groups of 128", "int4_w4afp8": "int4 weights, fp8 activations", "mxfp4_w4a16": "mxfp4 weights",
         "nvfp4_w4a16": "nvfp4 weights"}
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "moec", "font.size": 10, "axes.spines.top": False,
         "axes.spines.right": False, "font.family": "DejaVu Sans"}


def short(value):
    """Microseconds as people write them."""
    if value >= 1000:
        return f"{value / 1000:g} ms"
    return f"{value:g} µs"


def series(package, rows, best, targets):
    """The data to draw of one package: lists over its token counts, None where there is nothing."""
    shape = package.get("shape") or benchlib.shape_of(package["layer"], rows)
    scheme = package["layer"]["quant"]["name"]
    cells = sorted(package["cells"], key=lambda cell: cell["tokens"])
    drawn = {"shape": shape, "scheme": scheme, "tokens": [cell["tokens"] for cell in cells]}
    for key in ("us", "floor_us", "ratio"):
        drawn[key] = [cell[key] for cell in cells]
    peers = [best.get((shape, scheme, tokens)) for tokens in drawn["tokens"]]
    # Their experts were drawn with other logits: their ratio, on our floor, is the fair line.
    drawn["their_ratio"] = [peer and peer["ratio"] for peer in peers]
    drawn["their_us"] = [peer and peer["ratio"] * floor for peer, floor in zip(peers, drawn["floor_us"])]
    drawn["limit"] = [targets.get((shape, scheme, tokens)) for tokens in drawn["tokens"]]
    return drawn


def some(tokens, values):
    """Without the cells that have no value."""
    pairs = [(token, value) for token, value in zip(tokens, values) if value is not None]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def time_axes(axes, drawn):
    tokens = drawn["tokens"]
    axes.plot(tokens, drawn["floor_us"], color=FLOOR, linestyle=":", linewidth=1.8, label="floor", zorder=2)
    if any(drawn["their_us"]):
        axes.plot(*some(tokens, drawn["their_us"]), color=THEIRS, linestyle="--", marker="s", markersize=5,
                  linewidth=1.5, label="best of today's systems", zorder=3)
    axes.plot(tokens, drawn["us"], color=OURS, marker="o", markersize=6, linewidth=2, label="moec", zorder=4)
    axes.set_yscale("log")
    axes.set_ylabel("time of one layer")
    axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], labels[::-1], frameon=False, loc="upper left")


def ratio_axes(axes, drawn):
    tokens = drawn["tokens"]
    axes.axhline(1, color=FLOOR, linestyle=":", linewidth=1.8)
    if any(drawn["limit"]):
        axes.plot(*some(tokens, drawn["limit"]), color=TARGET, linestyle="none", marker="_", markersize=15,
                  markeredgewidth=2.4, label="target", zorder=2)
    if any(drawn["their_ratio"]):
        axes.plot(*some(tokens, drawn["their_ratio"]), color=THEIRS, linestyle="--", marker="s", markersize=5,
                  linewidth=1.5, zorder=3)
    axes.plot(tokens, drawn["ratio"], color=OURS, marker="o", markersize=6, linewidth=2, zorder=4)
    # Each number on the side where the others' line is not.
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    for token, ratio, theirs in zip(tokens, drawn["ratio"], drawn["their_ratio"]):
        below = theirs is not None and theirs > ratio
        axes.annotate(f"{ratio:.2f}", (token, ratio), textcoords="offset points", xytext=(0, -16 if below else 8),
                      ha="center", fontsize=8.5, color=OURS, bbox=behind, zorder=5)
    axes.set_yscale("log")
    highest = max(value for key in ("ratio", "their_ratio", "limit") for value in drawn[key] if value is not None)
    axes.set_ylim(0.9, highest * 1.22)
    axes.yaxis.set_major_locator(ticker.FixedLocator([1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 15, 20]))
    axes.yaxis.set_minor_locator(ticker.NullLocator())
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylabel("time / floor")
    axes.set_xlabel("tokens")
    if any(drawn["limit"]):
        axes.legend(frameon=False, loc="best")


def draw(drawn, device, when, path):
    with matplotlib.rc_context(STYLE):
        figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(7.4, 7.2),
                                                 gridspec_kw={"height_ratios": (3, 2), "hspace": 0.09})
        time_axes(above, drawn)
        ratio_axes(below, drawn)
        below.set_xscale("log", base=2)
        below.set_xticks(drawn["tokens"], [str(token) for token in drawn["tokens"]])
        below.xaxis.set_minor_locator(ticker.NullLocator())
        for axes in (above, below):
            axes.grid(True, which="major", color="#DDDDDD", linewidth=0.8)
            axes.set_axisbelow(True)
        scheme = NAMES.get(drawn["scheme"], drawn["scheme"])
        above.set_title(f"{drawn['shape']}, {scheme}", loc="left", fontsize=13, fontweight="bold", pad=20)
        above.text(0, 1.02, f"{device}, {when}; router logits to reduced output, in a CUDA graph, cold weights",
                   transform=above.transAxes, fontsize=8.5, color="#555555")
        figure.align_ylabels((above, below))
        # Neither the date nor the version of the library: the same result gives the same bytes.
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, bbox_inches="tight", dpi=130, metadata=metadata)
        pyplot.close(figure)


def limits(gpu):
    cells = benchlib.read(benchlib.DATA / "targets.json")["cells"]
    return {(cell["shape"], cell["scheme"], cell["tokens"]): cell["limit"] for cell in cells if cell["gpu"] == gpu}


def plot(result, folder, kind="svg"):
    """Returns the files."""
    if matplotlib is None:
        raise RuntimeError("matplotlib is not installed (Debian: python3-matplotlib; PyPI: matplotlib)")
    folder.mkdir(parents=True, exist_ok=True)
    rows, paths = benchlib.shapes(), []
    gpu = benchlib.gpu_of(result["bench"]["device"])
    best, targets = (benchlib.baseline(gpu), limits(gpu)) if gpu else ({}, {})
    for package in result["bench"]["packages"]:
        if not package["cells"] or not all(cell["floor_us"] > 0 for cell in package["cells"]):
            continue
        drawn = series(package, rows, best, targets)
        path = folder / f"{drawn['shape']}-{drawn['scheme']}.{kind}"
        draw(drawn, result["bench"]["device"], result["provenance"]["date"], path)
        paths.append(path)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", help="a .json that bench/run/summarize.py wrote")
    parser.add_argument("--out", help="default: <result>-plots beside it")
    parser.add_argument("--format", choices=("svg", "png"), default="svg")
    options = parser.parse_args()
    if matplotlib is None:
        print("plot.py: matplotlib is not installed (Debian: python3-matplotlib; PyPI: matplotlib)", file=sys.stderr)
        return 1
    path = pathlib.Path(options.result)
    result = benchlib.read(path)
    if "bench" not in result:
        print(f"plot.py: expected a result with a bench, as bench/run/summarize.py makes it, got {path}", file=sys.stderr)
        return 1
    folder = pathlib.Path(options.out) if options.out else path.with_name(path.stem + "-plots")
    for made in plot(result, folder, options.format):
        print(f"wrote {made}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
