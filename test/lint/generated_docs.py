#!/usr/bin/env python3
# ===- generated_docs.py - docs/generated is what the sources say -----------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares docs/generated/{dialect,passes,catalog}.md with what mlir-tblgen and `moec list` print; --fix rewrites them."""

import pathlib
import subprocess
import sys

from lintlib import Finding, main

TABLEGEN = "/usr/lib/llvm-22/bin/mlir-tblgen"
INCLUDE = "/usr/lib/llvm-22/include"
TABLES = ("schemes", "routing", "activations", "engines", "backends", "archs", "gpus")


def output(command, root):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def tablegen(root, source, *options):
    text = output([TABLEGEN, *options, f"-I{root}", f"-I{INCLUDE}", source], root)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(lines).strip() + "\n"


def catalog(root, build):
    parts = ["# The catalog\n\nWhat `moec list` prints: every word that a user can name.\n"]
    for table in TABLES:
        parts.append(f"## {table}\n\n```text\n{output([str(build / 'bin' / 'moec'), 'list', table], root).rstrip()}\n```\n")
    return "\n".join(parts)


def check(root, files, options):
    wanted = {
        "docs/generated/dialect.md": tablegen(root, "dialect/MoeOps.td", "-gen-dialect-doc", "-dialect=moe"),
        "docs/generated/passes.md": tablegen(root, "compiler/passes/Passes.td", "-gen-pass-doc"),
    }
    if options.build:
        wanted["docs/generated/catalog.md"] = catalog(root, options.build.resolve())
    for path, text in wanted.items():
        file = root / path
        if options.fix:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            yield Finding(path, 1, "is not what the sources say; test/lint/generated_docs.py --build=build --fix")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, help="a build folder, for bin/moec")
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
