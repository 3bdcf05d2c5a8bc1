#!/usr/bin/env python3
# ===- length.py - files that a person can read -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A file that a person is to read holds at most 1,000 lines. Above 600 a warning asks whether it has two topics. Measurements and
models' configs are data, not text.

A header of the product with few lines of code mostly serves one topic of another file. Below 40 it needs a reason: it declares what
the source of its name defines, or two files share it. Below 4 it has none."""

import re
import sys

from lintlib import Finding, main, read_lines

ASKED = 600
LIMIT = 1000
FEW_LINES = 40
LEAST_LINES = 4
PRODUCT = ("dialect/", "compiler/", "runtime/", "tools/")
# A line without code: blank, an include, the guard.
NO_CODE = re.compile(r"\s*(?:#\s*(?:include\b.*|ifndef MOEC_\w+_H|define MOEC_\w+_H|endif\b.*))?\s*$")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
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
    includes = {}  # header: how many files include it
    for path in files:
        if path.endswith((".h", ".cpp")):
            for header in set(INCLUDE.findall((root / path).read_text(encoding="utf-8"))):
                includes[header] = includes.get(header, 0) + 1
    for path in files:
        if not path.startswith(PRODUCT) or not path.endswith(".h") or path.startswith("runtime/include/"):
            continue
        count = code_lines((root / path).read_text(encoding="utf-8"))
        if count < LEAST_LINES:
            yield Finding(path, 1, f"{count} lines of code, at least {LEAST_LINES}: declare it where its topic or its one user is")
        elif count < FEW_LINES and path[:-1] + "cpp" not in files and includes.get(path, 0) < 2:
            yield Finding(path, 1, f"{count} lines of code for one user; below {FEW_LINES} a header has a source of its name or two users")


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
