#!/usr/bin/env python3
# ===- version.py - one version ---------------------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""The file VERSION has the version. The public header and the Python package repeat it, since they are read without a build; --fix
writes it there. CHANGELOG.md has a section of it."""

import re
import sys

from lintlib import Finding, main

HOME = "VERSION"
HEADER = "runtime/include/moec/moec.h"
PACKAGE = "python/moec/__init__.py"
CHANGES = "CHANGELOG.md"


def copies(version):
    """(file, pattern, what stands there) of each copy."""
    numbers = version.split(".")
    for part, number in zip(("MAJOR", "MINOR", "PATCH"), numbers):
        yield HEADER, rf"^#define MOEC_VERSION_{part} \d+$", f"#define MOEC_VERSION_{part} {number}"
    yield PACKAGE, r'^__version__ = ".*"$', f'__version__ = "{version}"'


def check(root, files, options):
    version = (root / HOME).read_text().strip()
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        yield Finding(HOME, 1, f"expected MAJOR.MINOR.PATCH, got '{version}'")
        return
    for path, pattern, wanted in copies(version):
        text = (root / path).read_text()
        changed, count = re.subn(pattern, wanted, text, count=1, flags=re.MULTILINE)
        if options.fix:
            (root / path).write_text(changed)
        elif not count or changed != text:
            yield Finding(path, 1, f"expected '{wanted}', as {HOME} says; test/lint/version.py --fix writes it")
    if f"\n## {version}" not in (root / CHANGES).read_text():
        yield Finding(CHANGES, 1, f"has no section '## {version}'")


def add_options(parser):
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
