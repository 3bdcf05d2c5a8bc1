#!/usr/bin/env python3
# ===- json_reader.py - JSON is read in one file ----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""nlohmann's parsers stand in runtime/support/Json.cpp alone: elsewhere they take repeated keys and any depth."""

import re
import sys

from lintlib import CPP, Finding, main, read_lines

HOME = "runtime/support/Json.cpp"
PARSES = re.compile(r"(\b|_)json::(parse|sax_parse|accept|from_(cbor|msgpack|ubjson|bson|bjdata))\b")
# Files that read what a program of moec has just written, with the order of its fields.
OWN_TEXT = ("tools/moec-run/Report.cpp", "bench/program/load-time.cpp")


def check(root, files):
    for path in files:
        # Tests compare with another reader; examples have nothing but the C ABI.
        if not path.endswith(CPP) or path == HOME or path in OWN_TEXT or path.startswith(("test/", "examples/")):
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            if PARSES.search(line.split("//")[0]):
                yield Finding(path, number, "parses JSON; call parseJsonObject of runtime/support/Json.h")


if __name__ == "__main__":
    sys.exit(main(check))
