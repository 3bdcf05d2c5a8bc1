#!/usr/bin/env python3
# ===- format.py - every C++ file as clang-format-22 leaves it --------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares every C++ and CUDA file with what clang-format-22 makes of it (.clang-format at the root); --fix rewrites."""

import concurrent.futures
import os
import shutil
import subprocess
import sys

from lintlib import Finding, main

TOOL = "clang-format-22"
KINDS = (".h", ".cpp", ".c", ".cuh", ".cu")
# As the compiler prints them.
PRINTED = ("test/templates/configs/",)


def check(root, files, options):
    chosen = [f for f in files if f.endswith(KINDS) and not f.startswith(PRINTED)]
    if options.fix:
        if chosen:
            subprocess.run([TOOL, "-i", *chosen], cwd=root, check=True)
        return
    # A few calls with many files each: starting the tool takes longer than formatting a file.
    batches = [chosen[i :: os.cpu_count()] for i in range(os.cpu_count())]
    dry = lambda batch: subprocess.run([TOOL, "--dry-run", *batch], cwd=root, capture_output=True, text=True).stderr
    with concurrent.futures.ThreadPoolExecutor() as pool:
        output = "".join(pool.map(dry, filter(None, batches)))
    reported = set()
    for line in output.splitlines():
        if "[-Wclang-format-violations]" not in line:
            continue
        path, number = line.split(":")[:2]
        if path not in reported:
            reported.add(path)
            yield Finding(path, number, "is not as clang-format-22 leaves it; test/lint/format.py --fix")


def add_options(parser):
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    if not shutil.which(TOOL):
        print(f"SKIPPED: {TOOL} is not installed")
        sys.exit(77)
    sys.exit(main(check, add_options))
