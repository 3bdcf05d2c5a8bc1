#!/usr/bin/env python3
# ===- env.py - the environment is read in one file -------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""getenv, secure_getenv and environ stand in runtime/support/Env.cpp alone.

docs/reference/environment.md shows the table of Env.h.
"""

import re
import sys

from lintlib import CPP, Finding, main, read_lines

HOME = "runtime/support/Env.cpp"
READS = re.compile(r"\b(secure_)?getenv\s*\(|\benviron\b")


TABLE = "runtime/support/Env.h"
DOCUMENT = "docs/reference/environment.md"


def check(root, files):
    yield from check_reads(root, files)
    if TABLE in files and DOCUMENT in files:
        table = set(re.findall(r'^\s*\{"(\w+)", "\w+", ', "\n".join(read_lines(root, TABLE)), re.MULTILINE))
        rows = re.findall(r"^\| `(\w+)` \|", "\n".join(read_lines(root, DOCUMENT)), re.MULTILINE)
        for name in sorted(table - set(rows)):
            yield Finding(DOCUMENT, 1, f"{name} is in the table of {TABLE} and not here")
        for name in sorted(set(rows) - table):
            yield Finding(DOCUMENT, 1, f"{name} is not in the table of {TABLE}")


def check_reads(root, files):
    for path in files:
        if not path.endswith(CPP) or path == HOME:
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            code = line.split("//")[0]
            # Tests may ask for anything: what they set themselves and what test/TestMain.cpp set for them.
            if path.startswith("test/"):
                continue
            if READS.search(code):
                yield Finding(path, number, f"reads the environment; declare the variable in runtime/support/Env.h and call {HOME}")


if __name__ == "__main__":
    sys.exit(main(check))
