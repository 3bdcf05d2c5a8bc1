#!/usr/bin/env python3
# ===- verifiers.py - every message of the dialect was seen -----------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Each emitError or emitOpError of dialect/*.cpp is expected, with its words, by a negative test of test/dialect."""

import re
import sys

from lintlib import Finding, main

EMIT = re.compile(r"\bemit(?:Op)?Error\s*\(")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
# The parts of a statement, so that a ';' in a string does not end it.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;|//[^\n]*')
EXPECTED = re.compile(r"expected-error[^{\n]*\{\{(.*)\}\}")


def statements(text):
    """(line, source) of each statement that emits an error and says something."""
    for match in EMIT.finditer(text):
        end = len(text)
        for token in TOKEN.finditer(text, match.end()):
            if token.group() == ";":
                end = token.start()
                break
        yield text.count("\n", 0, match.start()) + 1, text[match.end() : end]


def pieces(statement):
    """The runs of literal text, adjacent literals joined."""
    found, last = [], None
    for match in LITERAL.finditer(statement):
        text = match.group(1).replace('\\"', '"').replace("\\\\", "\\")
        if last is not None and not statement[last : match.start()].strip():
            found[-1] += text
        else:
            found.append(text)
        last = match.end()
    return [text for text in found if re.search(r"[A-Za-z]{2}", text)]


def check(root, files):
    expected = []
    for path in files:
        if path.startswith("test/dialect/") and path.endswith("-invalid.mlir"):
            expected += EXPECTED.findall((root / path).read_text())
    for path in files:
        if not re.fullmatch(r"dialect/\w+\.(cpp|h)", path):
            continue
        for line, statement in statements((root / path).read_text()):
            words = pieces(statement)
            # Alternatives (a ? "x" : "y") are looked for one by one, other pieces in one message and in this order.
            wanted = [[word] for word in words] if "?" in statement else [words] if words else []
            for group in wanted:
                pattern = re.compile(".*".join(re.escape(piece) for piece in group))
                if not any(pattern.search(message) for message in expected):
                    yield Finding(path, line, f"no negative test expects '{'...'.join(group)}'")


if __name__ == "__main__":
    sys.exit(main(check))
