# ===- lintlib.py - what the lints share ------------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
#
# A lint is a function check(root, files) that yields Finding(path, line, text).
# `main` runs it over the source tree and exits 1 if it found anything. Every
# lint takes --root=FOLDER, so that self_test.py can show it red on a bad sample.
#
# ===------------------------------------------------------------------------===#

import argparse
import collections
import os
import pathlib
import subprocess
import sys

Finding = collections.namedtuple("Finding", "path line text")

CPP = (".h", ".cpp", ".cuh", ".cu", ".def", ".inc")
HOST = (".h", ".cpp")
DEVICE = (".cuh", ".cu")


def source_files(root):
    """Paths below root, relative, of every file that is or could be committed."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "--deduplicate"],
        capture_output=True,
        text=True,
    )
    if listed.returncode == 0 and (root / ".git").exists():
        paths = listed.stdout.splitlines()
    else:  # an unpacked archive, or no git here
        paths = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if not f.startswith((".git", "build", "__pycache__"))]
            paths += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(path for path in paths if (root / path).is_file())


def read_lines(root, path):
    return (root / path).read_text(encoding="utf-8", errors="replace").splitlines()


def default_root():
    return pathlib.Path(__file__).resolve().parents[2]


def main(check, add_options=None):
    """Runs check(root, files[, options]); prints its findings as path:line: text."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=default_root())
    if add_options:
        add_options(parser)
    options = parser.parse_args()
    root = options.root.resolve()
    arguments = (root, source_files(root)) + ((options,) if add_options else ())
    findings = list(check(*arguments))
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.text}")
    print(f"{len(findings)} findings")
    return 1 if findings else 0
