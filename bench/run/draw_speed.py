#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws README.md's picture: moec's time over that of the fastest other system, a dot for each cell.

    bench/run/draw_speed.py --out=docs/speed.svg bench/results/2026-11-28-h200-peers.csv bench/results/2026-11-29-h200-peers.csv

A later run replaces the cells of an earlier one. Uniform routing alone.
"""

import argparse
import math
import pathlib
import sys

import same_run

COLORS = {"bf16": "#1f77b4", "fp8_block": "#2ca02c", "fp8_channel": "#98df8a", "int4_w4a16": "#d62728", "mxfp4_w4a16": "#9467bd"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 330, 56, 130, 14, 44
LEAST, MOST = 0.5, 1.4


def merged(paths):
    """The cells of all runs under uniform routing; those of a later run count."""
    cells = {}
    for path in paths:
        cells.update(same_run.read(path))
    return {key: cell for key, cell in cells.items() if key[3] == "uniform"}


def drawn(cells):
    """The picture's lines."""
    tokens = sorted({key[2] for key in cells})
    schemes = [scheme for scheme in COLORS if any(key[1] == scheme for key in cells)]
    step = (WIDTH - LEFT - RIGHT) / len(tokens)

    def height(ratio):
        part = (math.log(ratio) - math.log(LEAST)) / (math.log(MOST) - math.log(LEAST))
        return HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    for ratio in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4):
        y, color = height(ratio), "#333" if ratio == 1 else "#ddd"
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{color}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{ratio:.1f}</text>'
    for at, count in enumerate(tokens):
        yield f'<text x="{LEFT + step * (at + 0.5):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{count}</text>'
    yield f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">tokens</text>'
    yield (f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.1f}) rotate(-90)" text-anchor="middle">'
           "moec / fastest other system</text>")
    for key in sorted(cells):
        shape, scheme, count, _ = key
        ratio = min(max(cells[key].ratio(), LEAST), MOST)
        # Schemes stand side by side, and the cells of a scheme as well.
        group = sorted(each for each in cells if each[1:3] == (scheme, count))
        inside = (schemes.index(scheme) + (group.index(key) + 0.5) / len(group)) / len(schemes)
        x = LEFT + step * (tokens.index(count) + 0.1 + 0.8 * inside)
        yield (f'<circle cx="{x:.1f}" cy="{height(ratio):.1f}" r="3.2" fill="{COLORS[scheme]}">'
               f"<title>{shape}, {scheme}, {count} tokens: {cells[key].ratio():.2f} of {cells[key].best()}</title></circle>")
    for at, scheme in enumerate(schemes):
        x, y = WIDTH - RIGHT + 16, TOP + 18 * at + 10
        yield f'<circle cx="{x}" cy="{y}" r="4" fill="{COLORS[scheme]}"/><text x="{x + 10}" y="{y + 4}">{scheme}</text>'
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="RUN.csv")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.out.write_text("\n".join(drawn(merged(options.runs))) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
