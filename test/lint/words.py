#!/usr/bin/env python3
# ===- words.py - no promises in the code -----------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A missing feature is refused by name or listed in docs/status.md, not noted in a comment."""

import re
import sys

from lintlib import CPP, Finding, main, read_lines

KINDS = CPP + (".td", ".py", ".cmake", ".txt", ".mlir", ".test", ".md", ".json", ".in")
WORDS = re.compile(
    r"\b(TO" r"DO|FIX" r"ME|HA" r"CK|XX" r"X)\b|\bfor" r" now\b|\bnot (yet )?imple" r"mented\b|\btempo" r"rary hack\b",
    re.IGNORECASE,
)
# The first ones only as shouted: "hack" and "xxx" may be part of a sentence or a hash.
SHOUTED = {"to" "do", "fix" "me", "ha" "ck", "xx" "x"}
CONFLICT = re.compile(r"^(<{7}|>{7}) ")


def check(root, files):
    for path in files:
        if not (path.endswith(KINDS) or path == "bootstrap"):
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            for match in WORDS.finditer(line):
                word = match.group(0)
                if word.lower() in SHOUTED and not word.isupper():
                    continue
                yield Finding(path, number, f"'{word}': do it, refuse it by name, or list it in docs/status.md")
            if CONFLICT.match(line):
                yield Finding(path, number, "a merge conflict's mark")


if __name__ == "__main__":
    sys.exit(main(check))
