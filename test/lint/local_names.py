#!/usr/bin/env python3
# ===- local_names.py - one local function of a name in a library -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""No two sources of a folder have a file-local function of the same name.

A unity build compiles them as one source, where such functions are overloads: a call may take the other one by a
conversion, without an error. Local functions are those that are `static` or in an unnamed namespace. Folders of tests
are left out, whose sources are mostly programs of their own.
"""

import re
import sys

from lintlib import Finding, main

SOURCE = re.compile(r"(compiler|dialect|runtime)/.*\.cpp")
UNNAMED = re.compile(r"^namespace \{$.*?^\} // namespace$", re.M | re.S)
# A declaration that begins in the first column: its type, and the name that is called. Members have a qualified name.
FUNCTION = re.compile(r"^(static )?(?!return|else|using|typedef|case)[A-Za-z_](?:[\w<>,*&]|::|[ \n](?![ \n]*\n))*[ *&\n](\w+)\(", re.M)


def local_functions(text):
    """(line, name) of each."""
    unnamed = [match.span() for match in UNNAMED.finditer(text)]
    for match in FUNCTION.finditer(text):
        if match.group(1) or any(begin < match.start() < end for begin, end in unnamed):
            yield text.count("\n", 0, match.start(2)) + 1, match.group(2)


def check(root, files):
    owners = {}
    for path in sorted(files):
        if not SOURCE.fullmatch(path):
            continue
        for line, name in local_functions((root / path).read_text()):
            owner = owners.setdefault((path.rpartition("/")[0], name), path)
            if owner != path:
                yield Finding(path, line, f"{owner} has a local function '{name}', too: name what this one is of")


if __name__ == "__main__":
    sys.exit(main(check))
