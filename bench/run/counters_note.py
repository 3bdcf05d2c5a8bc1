#!/usr/bin/env python3
# ===- counters_note.py - the counters of every cell that misses --------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Which cells miss their target, and what bounds each of them.

  bench/run/counters_note.py --missed --bench bench-*.json             lists what to count: PACKAGE TOKENS,TOKENS
  bench/run/counters_note.py --bench RESULT --counters counters-*.json [--into=FILE]

The second form writes the tables in Markdown: every cell that misses, worst first, with the bound of each kernel that takes
2 % of the layer or more, then all counters. --into replaces what stands in FILE below the line MARK and keeps what is above. A
cell that no file has counters of stands in the table as such, and the exit status is 1."""

import argparse
import collections
import pathlib
import sys

import benchlib
import counters

MARK = "## Every cell that misses"
# Kernels that take less of the layer are left out.
LEAST = 0.02


def cells_of(paths):
    """[cell with shape and scheme] of outputs of moec-bench and of summarize.py."""
    for path in paths:
        report = benchlib.read(path)
        for package in report.get("bench", report)["packages"]:
            for cell in package["cells"]:
                yield {"shape": package["shape"], "scheme": package["scheme"], **cell}


def missed(cells):
    """The cells over their limit, worst first."""
    found = [cell for cell in cells if cell.get("against") and not cell["against"]["met"]]
    return sorted(found, key=lambda cell: -cell["ratio"] / cell["against"]["limit"])


def layers_of(paths, shapes):
    """{(shape, scheme, tokens): layer}; the shape is known by the file's package, else by the layer's name."""
    names = {row["shape"].replace("-", "_"): row["shape"] for row in shapes}
    found = {}
    for path in paths:
        for layer in benchlib.read(path)["layers"]:
            shape = names.get(layer["name"], layer["name"].replace("_", "-"))
            found[shape, layer["scheme"], layer["tokens"]] = layer
    return found


def large(layer):
    """Its kernels that take 2 % of the sum or more, judged anew: the rule may be younger than the file."""
    whole = sum(kernel.get("ns", 0) for kernel in layer["kernels"])
    for kernel in layer["kernels"]:
        if kernel.get("ns", 0) >= LEAST * whole:
            yield {**kernel, "bound_by": counters.bound_by(kernel), "share": kernel["ns"] / whole if whole else 0}


def key_of(cell):
    return cell["shape"], cell["scheme"], cell["tokens"]


def summary(cells, layers):
    yield "| cell | tokens | us | of the floor | target | kernels: share of the time, bound by |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for cell in cells:
        layer = layers.get(key_of(cell))
        kernels = "no counters" if not layer else "; ".join(
            f"{kernel['kernel']} {100 * kernel['share']:.0f} % {kernel['bound_by']}" for kernel in large(layer))
        yield (f"| {cell['shape']}, {cell['scheme']} | {cell['tokens']} | {cell['us']:.1f} | {cell['ratio']:.2f} | "
               f"{cell['against']['limit']:.2f} | {kernels} |")


def bounds(cells, layers):
    """The time that the missed cells take, by its bound."""
    spent = collections.Counter()
    for cell in cells:
        layer = layers.get(key_of(cell))
        for kernel in large(layer) if layer else ():
            # Each cell counts the same: shares, not microseconds.
            spent[kernel["bound_by"].split(" (")[0]] += kernel["share"]
    whole = sum(spent.values())
    return ", ".join(f"{name} {100 * share / whole:.0f} %" for name, share in spent.most_common()) if whole else "nothing"


HEAD = (("us", "ns", 1e3, 1), ("read MB", "memory_read", 1e6, 0), ("written MB", "memory_written", 1e6, 0),
        ("floor MB", "floor_bytes", 1e6, 0), ("GB/s", "memory_gbs", 1, 0), ("SM MB", "l2_to_sm_bytes", 1e6, 0),
        ("L2 %", "l2_percent", 1, 0), ("way to SMs %", "fabric_percent", 1, 0), ("shared %", "shared_percent", 1, 0),
        ("tensor %", "tensor_percent", 1, 0), ("issue %", "issue_percent", 1, 0))


def table(cells, layers):
    """One row for each large kernel of each cell."""
    rows = [(cell, kernel) for cell in cells if key_of(cell) in layers for kernel in large(layers[key_of(cell)])]
    # Columns that no kernel has are left out: what the GPU or an older run did not count.
    columns = [column for column in HEAD if any(column[1] in kernel for _, kernel in rows)]
    yield "| cell | tokens | kernel | " + " | ".join(title for title, *_ in columns) + " | bound by | warps wait for |"
    yield "| --- | --- | --- |" + " --- |" * (len(columns) + 2)
    for cell, kernel in rows:
        yield (f"| {cell['shape']}, {cell['scheme']} | {cell['tokens']} | {kernel['kernel']} | " +
               " | ".join(f"{kernel[key] / scale:.{digits}f}" if key in kernel else "-" for _, key, scale, digits in columns) +
               f" | {kernel['bound_by']} | {counters.waits_of(kernel) or '-'} |")


def text_of(cells, layers):
    told = counters.bound_by.__doc__.split("\n\n")[1]
    rule = [" ".join(line.split()) for line in told.strip().splitlines()]
    yield MARK
    yield ""
    yield (f"{len(cells)} cells, by how much they miss; {sum(key_of(cell) in layers for cell in cells)} of them with counters. "
           f"Of their time: {bounds(cells, layers)}. A kernel is bound by the first of these that holds, its counters taken while it "
           f"runs alone (`bench/run/counters.py`; a pure read reaches {counters.PURE_READ} GB/s):")
    yield ""
    for line in rule:
        name, _, what = line.partition(" CTAs " if line.startswith("few") else " ")
        yield f"* **{name}{' CTAs' if line.startswith('few') else ''}**: {what}"
    yield ""
    yield from summary(cells, layers)
    yield ""
    yield "## All counters"
    yield ""
    yield from table(cells, layers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", nargs="+", required=True, help="outputs of moec-bench --json, or a .json of summarize.py")
    parser.add_argument("--counters", nargs="*", default=[], help="outputs of counters.py --json")
    parser.add_argument("--missed", action="store_true", help="only say what to count: PACKAGE and its token counts")
    parser.add_argument("--into", type=pathlib.Path, help="a Markdown file with a line MARK; default: to the output")
    options = parser.parse_args()
    cells = missed(cells_of(options.bench))
    if options.missed:
        packages = {}
        for cell in cells:
            packages.setdefault(f"{cell['shape']}-{cell['scheme']}", []).append(cell["tokens"])
        for package, tokens in packages.items():
            print(package, ",".join(map(str, sorted(tokens))))
        return 0
    layers = layers_of(options.counters, benchlib.shapes())
    text = "\n".join(text_of(cells, layers)).rstrip("\n") + "\n"
    if not options.into:
        print(text, end="")
    else:
        above, mark, _ = options.into.read_text(encoding="utf-8").partition(f"{MARK}\n")
        if not mark:
            parser.error(f"expected a line '{MARK}' in {options.into}")
        options.into.write_text(above + text, encoding="utf-8")
    absent = [cell for cell in cells if key_of(cell) not in layers]
    for cell in absent:
        print(f"counters_note.py: no counters of {cell['shape']}, {cell['scheme']}, {cell['tokens']} tokens", file=sys.stderr)
    return 1 if absent else 0


if __name__ == "__main__":
    sys.exit(main())
