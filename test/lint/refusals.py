#!/usr/bin/env python3
# ===- refusals.py - every refusal was seen ---------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Each sentence in compiler/passes, compiler/import and the resolver stands in a test, with all its words.

A sentence is a literal, or what is left of one between its {}, that has three words or more, among them one of those below; tables of
reasons are read like messages. Of the dialect see verifiers.py.
"""

import re
import sys

from lintlib import Finding, main

# Pipeline.cpp describes options of moec-opt, and refuses nothing.
SOURCES = re.compile(r"compiler/(?:passes/(?!Pipeline\b)|import/)\w+\.cpp|compiler/plan/Resolver\.cpp")
TESTS = re.compile(r"test/(?!golden/|lint/).*\.(?:mlir|test|cpp|h)")
# A list of names has none of these words.
WORDS = re.compile(r"\b(?:a|an|the|of|is|are|with|to|in|no|not|or|and|that|it|its|must|expected|got|accepted)\b")
LITERAL = re.compile(r'R"\w*\((.*?)\)\w*"|"((?:[^"\\\n]|\\.)*)"', re.DOTALL)
# Matches a string (kept), and a comment or an assertion (dropped).
SKIPPED = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|\bassert\([^;]*;')
# No input leads to these guards between parts of the compiler.
UNREACHABLE = {
    "no hardware is known for",  # targets are verified
    "which has no row in dialect/catalog/Schemes.h",  # each that is named has one
    "expected an element type, got '",  # of a type that the importer has read
}


def literals(text):
    """[line, text] of each, adjacent ones joined."""
    found, last = [], None
    for match in LITERAL.finditer(text):
        raw, plain = match.groups()
        said = raw if raw is not None else plain.replace('\\"', '"').replace("\\\\", "\\")
        if last is not None and not text[last : match.start()].strip():
            found[-1][1] += said
        else:
            found.append([text.count("\n", 0, match.start()) + 1, said])
        last = match.end()
    return found


def bare(text):
    """The text without comments and assertions; its lines stay where they are."""
    return SKIPPED.sub(lambda match: match.group(1) or "\n" * match.group().count("\n"), text)


def sentences(text):
    for line, said in literals(bare(text)):
        for piece in re.split(r"\{[^{}]*\}", said):
            piece = piece.strip()
            if piece.count(" ") >= 2 and WORDS.search(piece) and not any(guard in piece for guard in UNREACHABLE):
                yield line, piece


def check(root, files):
    seen = []
    for path in filter(TESTS.fullmatch, files):
        text = (root / path).read_text(encoding="utf-8", errors="replace")
        seen.append("\n".join(said for _, said in literals(bare(text))) if path.endswith((".cpp", ".h")) else text)
    seen = "\n".join(seen)
    for path in filter(SOURCES.fullmatch, files):
        for line, piece in sentences((root / path).read_text()):
            if piece not in seen:
                yield Finding(path, line, f"no test has '{piece}'")


if __name__ == "__main__":
    sys.exit(main(check))
