#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the first command of each how-to page in a copy of the tree where nothing was built.

A build that makes every target hides a command that names too few of them. Commands of `./bootstrap` run in the copy,
`pip install` of the wheel in an environment of its own, and `moec` as that wheel has it. A command that downloads other
packages or needs a GPU is named and left out.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = "docs/how-to/*.md"
COMMAND = re.compile(r"^(?:    |\$ )((?:\./bootstrap|pip install|moec|moec-run|python3?) .*)$", re.MULTILINE)
WHEEL = re.compile(r"pip install dist/moec-\*\.whl\b(.*)")
SAVED = re.compile(r"^```json .*save=(\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# A checkpoint's config, which no page shows.
CONFIG = "examples/models/deepseek-v3.json"


def first_commands() -> dict[str, list[str]]:
    """{command: the pages that begin with it}, those of ./bootstrap before the wheel, and that before all else."""
    found: dict[str, list[str]] = {}
    for page in sorted(ROOT.glob(PAGES)):
        if match := COMMAND.search(page.read_text()):
            found.setdefault(match[1].strip(), []).append(page.name)
    order = ("./bootstrap", "pip install")
    return dict(sorted(found.items(), key=lambda item: next((i for i, word in enumerate(order) if item[0].startswith(word)), 2)))


def write_inputs(folder: pathlib.Path, page: str) -> None:
    """Writes the files that the README and a page show, and a config."""
    for shown in (ROOT / "README.md", ROOT / "docs" / "how-to" / page):
        for name, text in SAVED.findall(shown.read_text()):
            (folder / name).write_text(text)
    shutil.copy(ROOT / CONFIG, folder / "config.json")


def copy_tree(folder: pathlib.Path) -> None:
    """Copies the files that git tracks, as they are now."""
    shutil.rmtree(folder, ignore_errors=True)
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def run(command: str, folder: pathlib.Path, environment: dict[str, str]) -> str | None:
    """Returns what a failed command printed last."""
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return None if done.returncode == 0 else f"exit status {done.returncode}: {done.stdout[-2000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, required=True, help="folder of the copy and the environment")
    options = parser.parse_args()
    tree, environment_folder = options.work.resolve() / "tree", options.work.resolve() / "environment"
    copy_tree(tree)
    venv.create(environment_folder, with_pip=True, clear=True, symlinks=True)
    environment = {**os.environ, "PATH": f"{environment_folder / 'bin'}:{os.environ['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    commands, failures, ran = first_commands(), [], 0
    if not any(command.startswith("./bootstrap wheel") for command in commands):
        failures.append("no page begins with ./bootstrap wheel, which makes what the others install")
    for command, pages in commands.items():
        where = f"{command}  ({', '.join(pages)})"
        wheel = WHEEL.fullmatch(command)
        if (wheel and wheel[1]) or not command.startswith(("./bootstrap", "pip", "moec ")):
            print(f"left out: {where}")
            continue
        started = time.time()
        ran += 1
        write_inputs(tree, pages[0])
        failure = run(command, tree, environment)
        print(f"{'FAILED' if failure else 'ran'} in {time.time() - started:.0f} s: {where}", flush=True)
        if failure:
            failures.append(f"{where}: {failure}")
    print("\n".join(failures))
    if not failures:
        shutil.rmtree(options.work)
    return 1 if failures or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
