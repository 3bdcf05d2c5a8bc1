#!/usr/bin/env python3
# ===- length.py - files that a person can read -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A file that a person is to read holds at most 1,000 lines. Above 600 a warning asks whether it has two topics. Measurements and
models' configs are data, not text."""

import sys

from lintlib import Finding, main, read_lines

ASKED = 600
LIMIT = 1000
KINDS = (".h", ".cpp", ".cuh", ".cu", ".c", ".td", ".def", ".inc", ".py", ".cmake", ".txt", ".md", ".mlir", ".test", ".sh")
ALONE = ("LICENSE",)
# Printed by tablegen from the .td files, which are under the limit themselves.
GENERATED = ("docs/generated/",)
# Lists of what is, in one order, for a person to diff: not split.
DATA = ("test/golden/",)


def check(root, files):
    for path in files:
        named = path.endswith(KINDS) or path == "bootstrap"
        if not named or path in ALONE or path.startswith(GENERATED + DATA):
            continue
        count = len(read_lines(root, path))
        if count > LIMIT:
            yield Finding(path, count, f"{count} lines; at most {LIMIT}: split it by topic")
        elif count > ASKED:
            print(f"warning: {path}: {count} lines; does it have two topics?")


if __name__ == "__main__":
    sys.exit(main(check))
