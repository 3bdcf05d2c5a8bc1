#!/usr/bin/env python3
# ===- catalog_doc.py - docs/generated is what the programs print --------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Compares docs/generated/catalog.md with `moec list`, and docs/generated/cli.md with the programs' --help; --fix rewrites them.

dialect/generate_docs.py writes the pages of the dialect and of the passes.
"""

import pathlib
import subprocess
import sys

from lintlib import Finding, main

TABLES = ("schemes", "routing", "activations", "engines", "backends", "archs", "gpus", "realizations")
COMMANDS = ("moec", "moec compile", "moec explain", "moec list", "moec tune", "moec run", "moec cache", "moec doctor")


def output(command, root):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def catalog(root, build):
    parts = ["# The catalog\n\nWhat `moec list` prints: every word that a user can name.\n"]
    for table in TABLES:
        parts.append(f"## {table}\n\n```text\n{output([str(build / 'bin' / 'moec'), 'list', table], root).rstrip()}\n```\n")
    return "\n".join(parts)


def cli(root, build):
    parts = ["# Command line\n\nWhat `--help` prints.\n"]
    for command in COMMANDS:
        program, *words = command.split()
        text = output([str(build / "bin" / program), *words, "--help"], root)
        # The reference lists the environment.
        text = text.split("\nEnvironment:")[0]
        lines = [line.rstrip() for line in text.strip().splitlines()]
        parts.append(f"## {command}\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def check(root, files, options):
    build = options.build.resolve()
    wanted = {"docs/generated/catalog.md": catalog(root, build), "docs/generated/cli.md": cli(root, build)}
    for path, text in wanted.items():
        file = root / path
        if options.fix:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            yield Finding(path, 1, "is not what the sources say; test/lint/catalog_doc.py --build=build --fix")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
