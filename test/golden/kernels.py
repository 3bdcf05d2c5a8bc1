#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes kernels.txt: each test that has a part of it compiles the texts that the list lacks, and writes its part if all pass.

  test/golden/kernels.py --bin=build/bin --work=build/kernels

What passed stays known in --work, so that a second call goes on where the first ended.
"""

import pathlib
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "conformance"))
import moec_testing as testing  # noqa: E402


def main():
    options = testing.parser(__doc__.splitlines()[0]).parse_args()
    configs = sorted(map(str, (TESTS / "templates" / "configs").glob("*.cu")))
    status = 0
    for command in ([TESTS / "lint" / "headers.py"], [TESTS / "templates" / "compile.py", "--listed", *configs],
                    [TESTS / "conformance" / "compile_all.py", f"--bin={options.bin}", f"--work={options.work}", f"--jobs={options.jobs}"]):
        status = max(status, subprocess.run([sys.executable, *command, "--update"], check=False).returncode)
    return status


if __name__ == "__main__":
    sys.exit(main())
