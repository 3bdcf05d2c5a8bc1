#!/usr/bin/env python3
# ===- api_doc.py - documents agree with the header, the schema and the matrix ===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares the functions and statuses of moec.h and compiler.h with docs/reference/c-api.md, and the schema of layer JSON with its pages.

README.md shows rows of docs/reference/support-matrix.md; their cells must be the matrix's.
"""

import json
import re
import sys

from lintlib import Finding, main

HEADER = "runtime/include/moec/moec.h"
COMPILER = "runtime/include/moec/compiler.h"
PAGE = "docs/reference/c-api.md"
MATRIX = "docs/reference/support-matrix.md"
SCHEMA = "docs/reference/layer.schema.json"
SCHEMA_PAGES = ("docs/reference/layer-json.md", "docs/reference/quantization.md")
FUNCTION = re.compile(r"^[\w *]*?\b(moec_\w+)\(", re.MULTILINE)
STATUS = re.compile(r"^  (MOEC_\w+) = (\d+),?$", re.MULTILINE)


def fields_of(node):
    """The names of all properties of a JSON schema."""
    if isinstance(node, dict):
        yield from node.get("properties", {})
        for child in node.values():
            yield from fields_of(child)
    elif isinstance(node, list):
        for child in node:
            yield from fields_of(child)


def check(root, files):
    if SCHEMA in files:
        text = "".join((root / path).read_text() for path in SCHEMA_PAGES if path in files)
        for field in sorted(set(fields_of(json.loads((root / SCHEMA).read_text())))):
            if not re.search(rf'[`"]{field}[`"]', text):
                yield Finding(SCHEMA_PAGES[0], 1, f"field '{field}' is in {SCHEMA} and not here")
    if HEADER in files and PAGE in files:
        yield from check_header(root, COMPILER in files)
    if MATRIX in files and "README.md" in files:
        yield from check_support(root)


def support(text):
    """{(scheme, arch): cell} of a table whose header is `| scheme | sm_80, 86 | ...`, and the line of its header."""
    cells, archs, start = {}, None, 0
    for number, line in enumerate(text.splitlines(), 1):
        words = [word.strip() for word in line.strip().strip("|").split("|")]
        if words[0] == "scheme" and len(words) > 1 and words[1].startswith("sm_"):
            start, archs = number, [["sm_" + name.strip().removeprefix("sm_") for name in word.split(",")] for word in words[1:]]
        elif archs and line.startswith("| `"):
            cells.update({(words[0], arch): cell for names, cell in zip(archs, words[1:], strict=True) for arch in names})
        elif archs and not line.startswith("|"):
            break
    return cells, start


def check_support(root):
    matrix, _ = support((root / MATRIX).read_text())
    shown, start = support((root / "README.md").read_text())
    if not shown:
        yield Finding("README.md", 1, f"shows no row of {MATRIX}")
    for (scheme, arch), cell in shown.items():
        if matrix.get((scheme, arch)) != cell:
            yield Finding("README.md", start, f"{scheme} on {arch} is '{matrix.get((scheme, arch))}' in {MATRIX}, not '{cell}'")


def check_header(root, has_compiler):
    header, page = (root / HEADER).read_text(), (root / PAGE).read_text()
    functions = set(FUNCTION.findall(header))
    if has_compiler:
        functions |= set(FUNCTION.findall((root / COMPILER).read_text()))
    statuses = set(STATUS.findall(header.split("typedef enum moec_status {")[1].split("}")[0]))
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(moec_\w+)`", row.split(" | ")[0])}
    numbered = {match.groups() for row in rows if (match := re.fullmatch(r"\| `(MOEC_\w+)` \| (\d+) \|", row))}
    for what in sorted(functions - named) + sorted(" = ".join(pair) for pair in statuses - numbered):
        yield Finding(PAGE, 1, f"{what} is in {HEADER} and not here")
    for what in sorted(named - functions) + sorted(" = ".join(pair) for pair in numbered - statuses):
        yield Finding(PAGE, 1, f"{what} is not in {HEADER}")


if __name__ == "__main__":
    sys.exit(main(check))
