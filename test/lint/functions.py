#!/usr/bin/env python3
# ===- functions.py - functions that a person can read -----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""A function of the product has at most 100 lines, from its first line to its closing brace.

In C++ the lint relies on clang-format, which lint.format enforces: a definition ends with the first line that begins with a brace
at the indentation of its first line. Functions in namespaces and in classes count; a lambda is part of its function."""

import ast
import re
import sys

from lintlib import CPP, Finding, main

LIMIT = 100
PRODUCT = ("compiler/", "dialect/", "runtime/", "templates/", "tools/", "python/moec/")
# Definitions may be in these.
SCOPE = re.compile(r"(inline )?namespace\b|extern \"C\" $|(template\s*<.*>\s*)?(class|struct|union|enum)\b")
DATA = re.compile(r'=\s*$|=\s*\[|^[{\["]')
RAW_STRING = re.compile(r'R"(\w*)\(.*?\)\1"', re.DOTALL)
COMMENT = re.compile(r"\{\s*//.*$")
LABEL = re.compile(r"\w+:$")
ACCESS = re.compile(r"\s*(public|protected|private):")


def cpp_functions(text):
    """(first line, last line) of each definition, from 1."""
    lines = RAW_STRING.sub(lambda raw: re.sub(r"[^\n]", " ", raw[0]), text).splitlines()
    begin = None  # of the statement that is being read
    i = 0
    while i < len(lines):
        line = COMMENT.sub("{", lines[i])
        if not line.strip() or line.lstrip().startswith(("//", "#", "}")) or ACCESS.match(line):
            begin = None
        elif line.endswith("{"):
            first = i if begin is None else begin
            begin = None
            head = " ".join(each.strip() for each in lines[first:i + 1])[:-1]
            is_function = "(" in head and not SCOPE.match(head) and not DATA.search(head)
            if is_function and (end := closing(lines, i, indentation(lines[first]))):
                yield first + 1, end + 1
                i = end
        elif line.endswith((";", "}", "\\")):
            begin = None
        elif begin is None:
            begin = i
        i += 1


def indentation(line):
    return len(line) - len(line.lstrip())


def closing(lines, opening, indent):
    """The line of the closing brace; None if another line ends what the opening line began."""
    ends = (i for i in range(opening + 1, len(lines))
            if lines[i].strip() and not lines[i].startswith("#") and indentation(lines[i]) <= indent and not LABEL.match(lines[i]))
    end = next(ends, None)
    return end if end and lines[end].lstrip().startswith("}") else None


def python_functions(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno


def check(root, files):
    for path in files:
        if not path.startswith(PRODUCT):
            continue
        functions = cpp_functions if path.endswith(CPP) else python_functions if path.endswith(".py") else None
        if not functions:
            continue
        for first, last in functions((root / path).read_text(encoding="utf-8")):
            if (count := last - first + 1) > LIMIT:
                yield Finding(path, first, f"a function of {count} lines; at most {LIMIT}: split it by topic")


if __name__ == "__main__":
    sys.exit(main(check))
