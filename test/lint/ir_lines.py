#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No line of the IR that --emit prints has more than 400 characters, at any stop and for several layers of examples/models."""

import shlex
import subprocess
import sys

from lintlib import Finding, main

LONGEST = 400
STOPS = ("layer", "stages", "kernels", "scheduled")
# Few and many tokens, scales, biases, shared experts, tables, groups with an index, maps of experts.
MODELS = ("qwen3-30b-a3b", "qwen3-30b-a3b-fp8", "deepseek-v3", "deepseek-v4-flash", "gpt-oss-20b", "longcat-flash", "llama-4-maverick")


def check(root, files, options):
    moec = shlex.split(options.moec)
    for model in MODELS:
        path = f"examples/models/{model}.json"
        for stop in STOPS:
            command = moec + ["compile", path, "--arch=sm_80,sm_90a,sm_120a", f"--emit={stop}"]
            run = subprocess.run(command, cwd=root, capture_output=True, text=True)
            if run.returncode:
                yield Finding(path, 1, f"--emit={stop} fails: {run.stderr.strip()[:200]}")
            for number, line in enumerate(run.stdout.splitlines(), 1):
                if len(line) > LONGEST:
                    yield Finding(path, 1, f"--emit={stop} prints a line of {len(line)} characters, number {number}: {line.strip()[:80]}")


def add_options(parser):
    parser.add_argument("--moec", required=True, help="the program, with what stands before its arguments")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
