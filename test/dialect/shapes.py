#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gives each operand and result of each op a wrong type, and prints which types the verifiers accept.

Usage: shapes.py MOEC_OPT FILE...

The ops are those of the files, which moec-opt reads in its generic form, one function for each. A type is wrong in one extent
or in its elements. The output has the first refusal of each operand, and the changes that are accepted.
"""

import bisect
import re
import subprocess
import sys

OP = re.compile(r'^\s*(?:%[\w:]+ = )?"(moe\.\w+)"\(([^)]*)\) (<\{.*\}>)?.* : \((.*)\) -> (.*)$')
ELEMENTS = {"f32": "f16", "f16": "f32", "bf16": "f32", "i32": "i64", "i64": "i32"}


def split(types):
    """The types of a list, whose own commas are inside of brackets."""
    parts, depth = [""], 0
    for letter in types:
        depth += letter in "<([" or -(letter in ">)]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def changes(kind):
    """Yields each change of a type: its name and the other type."""
    found = re.fullmatch(r"tensor<((?:[0-9?]+x)*)(.+)>", kind)
    if not found:
        return
    extents, element = found.group(1).split("x")[:-1], found.group(2)
    for axis, extent in enumerate(extents):
        other = list(extents)
        other[axis] = "3" if extent == "?" else str(int(extent) + 1)
        yield f"extent {axis}", f"tensor<{''.join(each + 'x' for each in [*other])}{element}>"
    yield "elements", f"tensor<{found.group(1)}{ELEMENTS.get(element, 'f64')}>"


def function(name, properties, operands, results):
    arguments = ", ".join(f"%a{index}: {kind}" for index, kind in enumerate(operands))
    given = ", ".join(f"%a{index}" for index in range(len(operands)))
    made = f"%r:{len(results)} = " if results else ""
    return (
        f'func.func @f({arguments}) {{\n  {made}"{name}"({given}) {properties} : ({", ".join(operands)}) -> '
        f"({', '.join(results)})\n  return\n}}\n"
    )


def refusals(opt, functions):
    """The error of each function, or None."""
    text, starts = "", []
    for each in functions:
        starts.append(text.count("\n") + 1)
        text += each + "// -----\n"
    ran = subprocess.run([opt, "-split-input-file", "-"], input=text, capture_output=True, text=True, check=False)
    found = {
        int(line): message
        for line, message in re.findall(r"^(?:<stdin>|-|.*?):(\d+):\d+: error: (.*)$", ran.stderr, re.MULTILINE)
    }
    by_function = [None] * len(functions)
    for line, message in sorted(found.items()):
        at = bisect.bisect(starts, line) - 1
        by_function[at] = by_function[at] or message
    return by_function


def main():
    opt, samples = sys.argv[1], {}
    for path in sys.argv[2:]:
        ran = subprocess.run(
            [opt, "-mlir-print-op-generic", "-split-input-file", path], capture_output=True, text=True, check=True
        )
        for found in filter(None, map(OP.match, ran.stdout.splitlines())):
            name, _, properties, operands, results = found.groups()
            operands, results = split(operands), split(results.strip("()") if results.startswith("(") else results)
            words = re.findall(r"SegmentSizes = array<[^>]*>|realization = [^,>]*", properties or "")
            samples.setdefault((name, len(operands), *words), (name, properties or "", operands, results))
    cases, labels = [], []
    for sample in sorted(samples.values(), key=str):
        name, properties, operands, results = sample
        kinds = [*operands, *results]
        for index, kind in enumerate([None, *kinds]):
            place = f"operand {index - 1}" if index <= len(operands) else f"result {index - 1 - len(operands)}"
            for what, other in changes(kind) if index else [("", None)]:
                changed = [other if at == index - 1 else each for at, each in enumerate(kinds)]
                cases.append(function(name, properties, changed[: len(operands)], changed[len(operands) :]))
                labels.append((sample, place, what, kind))
    before = place_before = None
    usable = False
    for (sample, place, what, kind), refusal in zip(labels, refusals(opt, cases), strict=True):
        if sample is not before:
            before, usable = sample, refusal is None
            if usable:
                print(f"{sample[0]}({', '.join(sample[2])}) -> ({', '.join(sample[3])})")
            continue
        if not usable:
            continue
        if refusal is None:
            print(f"  {place} {kind}: {what} is accepted")
        elif (sample, place) != place_before:
            print(f"  {place} {kind}: {refusal}")
            place_before = (sample, place)


if __name__ == "__main__":
    main()
