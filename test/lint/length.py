#!/usr/bin/env python3
# ===- length.py - files that a person can read -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A file that a person is to read holds at most 1,000 lines. Above 600 a warning asks whether it has two topics. Measurements and
models' configs are data, not text.

A header of the product with few lines of code mostly serves one topic of another file: below 40 a warning asks if it needs a file,
below 4 it is an error."""

import os
import re
import sys

from lintlib import Finding, main, read_lines

ASKED = 600
LIMIT = 1000
ASKED_HEADER = 40
LEAST_HEADER = 4
PRODUCT = ("dialect/", "compiler/", "runtime/", "tools/")
# A line without code: blank, an include, the guard.
NO_CODE = re.compile(r"\s*(?:#\s*(?:include\b.*|ifndef MOEC_\w+_H|define MOEC_\w+_H|endif\b.*))?\s*$")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
KINDS = (".h", ".cpp", ".cuh", ".cu", ".c", ".td", ".def", ".inc", ".py", ".cmake", ".txt", ".md", ".mlir", ".test", ".sh")
ALONE = ("LICENSE",)
# Printed by tablegen from the .td files, which are under the limit themselves.
GENERATED = ("docs/generated/",)
# Lists of what is, in one order, for a person to diff: not split.
DATA = ("test/golden/",)


def code_lines(text):
    return sum(not NO_CODE.match(line) for line in COMMENT.sub("", text).splitlines())


def check_headers(root, files):
    asked = {}  # folder: [(lines, name)]
    for path in files:
        if not path.startswith(PRODUCT) or not path.endswith(".h") or path.startswith("runtime/include/"):
            continue
        count = code_lines((root / path).read_text(encoding="utf-8"))
        if count < LEAST_HEADER:
            yield Finding(path, 1, f"{count} lines of code, at least {LEAST_HEADER}: declare it where its topic or its one user is")
        elif count < ASKED_HEADER:
            asked.setdefault(os.path.dirname(path), []).append((count, os.path.basename(path)))
    for folder, found in asked.items():
        few = ", ".join(f"{name} {count}" for count, name in sorted(found)[:3])
        print(f"warning: {folder}: {len(found)} headers with less than {ASKED_HEADER} lines of code ({few}); does each need a file?")


def check(root, files):
    yield from check_headers(root, files)
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
