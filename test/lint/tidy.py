#!/usr/bin/env python3
# ===- tidy.py - clang-tidy-22 over our own sources -------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs clang-tidy-22 with the root's .clang-tidy over the .cpp files below --only (default: runtime/), with the flags of
--build/compile_commands.json. That takes minutes, so ./bootstrap test-all runs it, whose build compiles each source by itself."""

import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from lintlib import Finding, main

TOOL = "clang-tidy-22"


def check(root, files, options):
    build = options.build.resolve()
    built = {entry["file"] for entry in json.loads((build / "compile_commands.json").read_text())}
    chosen = [f for f in files if f.endswith(".cpp") and f.startswith(tuple(options.only)) and str(root / f) in built]
    if not chosen:
        yield Finding(options.only[0], 1, f"{build} compiles no .cpp of it by itself: expected a build without CMAKE_UNITY_BUILD")

    def tidy(path):
        run = subprocess.run(
            [TOOL, "--quiet", "-p", str(build), f"--config-file={root / '.clang-tidy'}", str(root / path)],
            capture_output=True,
            text=True,
        )
        return path, run.stdout, run.returncode, run.stderr

    seen = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, output, status, errors in pool.map(tidy, chosen):
            found = re.findall(r"^(/\S+?):(\d+):\d+: (?:warning|error): (.*)$", output, re.MULTILINE)
            for file, number, text in found:
                finding = Finding(os.path.relpath(file, root), number, text)
                if finding not in seen:
                    seen.add(finding)
                    yield finding
            if status and not found:
                yield Finding(path, 1, f"clang-tidy failed: {errors.strip()[-300:]}")
    print(f"{len(chosen)} files checked")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", default=[])


if __name__ == "__main__":
    if not shutil.which(TOOL):
        print(f"SKIPPED: {TOOL} is not installed")
        sys.exit(77)
    if not any(a.startswith("--only") for a in sys.argv):
        sys.argv.append("--only=runtime/")
    sys.exit(main(check, add_options))
