#!/usr/bin/env python3
# ===- filecheck.py - tests that test nothing -------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Finds CHECK lines that no FileCheck reads, directives that FileCheck does not know, expected-* lines that nothing
verifies or that are too short to mean anything, and '// -----' marks that are missing or dead."""

import re
import sys

from lintlib import Finding, main, read_lines

SUFFIXES = re.compile(r"^(-(NEXT|SAME|LABEL|NOT|DAG|EMPTY|COUNT-\d+))?(\{LITERAL\})?$")
# In a .test file lines need no comment mark.
RUN = re.compile(r"^\s*(?:(?://|#|;)\s*)?(?:RUN\s*:|(?:RE)?DEFINE\s*:\s*%\{[^}]*\}\s*=)(.*)")
# A comment that begins like a directive: a word in capitals, perhaps with suffixes, then a colon.
DIRECTIVE = re.compile(r"^\s*(?:(?://|#|;)\s*)?([A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)*)(\{LITERAL\})?\s*:")
LIT_WORDS = {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "DEFINE", "REDEFINE", "ALLOW_RETRIES", "END", "NOTE", "SKIPPED"}
EXPECTED = re.compile(r"expected-(error|warning|remark|note)(-re)?\s*(?:@\S+)?\s*\{\{(.*?)\}\}\s*$")
SHORTEST = 12


def prefixes_of(run):
    """The FileCheck prefixes of a RUN line (several calls may stand in it)."""
    found = set()
    for call in re.findall(r"\bFileCheck\b([^|&;]*)", run):
        named = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", call)
        for names in named:
            found.update(names.split(","))
        if not named:
            found.add("CHECK")
    return found


def join_runs(lines):
    """RUN lines as (number, text), with those that end in a backslash joined."""
    text, first = "", 0
    for number, line in enumerate(lines, 1):
        match = RUN.search(line)
        if not match:
            continue
        first = first or number
        text += match.group(1).rstrip()
        if text.endswith("\\"):
            text = text[:-1] + " "
        else:
            yield first, text
            text, first = "", 0


def check_directives(path, lines, runs):
    used = set().union(*(prefixes_of(run) for _, run in runs))
    seen = set()
    for number, line in enumerate(lines, 1):
        match = DIRECTIVE.match(line)
        if not match or match.group(1) in LIT_WORDS:
            continue
        word, literal = match.group(1), match.group(2) or ""
        prefix = next((p for p in sorted(used, key=len, reverse=True) if word == p or word.startswith((p + "-", p + "_"))), None)
        if prefix is None:
            if "CHECK" in word or re.search(r"-(NEXT|SAME|LABEL|NOT|DAG|EMPTY)$", word):
                yield Finding(path, number, f"'{word}:' is read by no FileCheck of this file's RUN lines")
        elif SUFFIXES.match(word[len(prefix):] + literal):
            seen.add(prefix)
        else:
            yield Finding(path, number, f"'{word}:' is no directive that FileCheck knows, so it is ignored")
    for prefix in sorted(used - seen):
        yield Finding(path, runs[0][0], f"FileCheck is given the prefix {prefix}, and no line begins with it")


def check_expected(path, lines, runs):
    verifies = any("-verify-diagnostics" in run for _, run in runs)
    splits = any("-split-input-file" in run for _, run in runs)
    errors = last = 0
    for number, line in enumerate(lines, 1):
        if re.match(r"^\s*// -----\s*$", line):
            errors = 0
            if not splits and not RUN.search(line):
                yield Finding(path, number, "'// -----' without -split-input-file in a RUN line separates nothing")
            continue
        if not re.search(r"//\s*expected-\w+", line):
            continue
        if not verifies:
            yield Finding(path, number, "expected-* without -verify-diagnostics in a RUN line is not read")
        match = EXPECTED.search(line)
        if not match:
            yield Finding(path, number, "expected-* without a {{whole message}} on its line")
            continue
        if len(match.group(3)) < SHORTEST:
            yield Finding(path, number, f"'{match.group(3)}' fits any message; give the whole one")
        if match.group(1) == "error":
            # Lines in a row speak of one op that has several faults.
            errors += number != last + 1
            last = number
            if errors > 1 and splits:
                yield Finding(path, number, "a second expected-error in one section: '// -----' is missing before it")


def check(root, files):
    for path in files:
        if not path.startswith("test/") or not path.endswith((".mlir", ".test")) or "/Inputs/" in path:
            continue
        lines = read_lines(root, path)
        runs = list(join_runs(lines))
        if not runs:
            yield Finding(path, 1, "no RUN line: lit does not run it (inputs belong into a folder Inputs/)")
            continue
        yield from check_directives(path, lines, runs)
        yield from check_expected(path, lines, runs)


if __name__ == "__main__":
    sys.exit(main(check))
