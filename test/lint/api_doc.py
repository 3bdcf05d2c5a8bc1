#!/usr/bin/env python3
# ===- api_doc.py - the reference of the C API names what moec.h declares ----===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares the functions and statuses of moec.h with the tables of docs/reference/c-api.md."""

import re
import sys

from lintlib import Finding, main

HEADER = "runtime/include/moec/moec.h"
PAGE = "docs/reference/c-api.md"
FUNCTION = re.compile(r"^[\w *]*?\b(moec_\w+)\(", re.MULTILINE)
STATUS = re.compile(r"^  (MOEC_\w+) = (\d+),?$", re.MULTILINE)


def check(root, files):
    if HEADER not in files or PAGE not in files:
        return
    header, page = (root / HEADER).read_text(), (root / PAGE).read_text()
    functions = set(FUNCTION.findall(header))
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
