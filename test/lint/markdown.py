#!/usr/bin/env python3
# ===- markdown.py - what the documents show is run -------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Runs every .md file: each ```console block is executed ('$ ' begins a command, what follows is its
output), every ```mlir block goes through moec-opt (also those of the .td files), every ```json block is parsed, and a
```cpp file=PATH block must stand in that file word for word. A block with save=NAME is written to that file first.
Links to files must lead somewhere.

A document's commands run one after another in one empty folder that holds links to examples/ and test/ of the tree and
to the build folder as build/, with the build's programs in PATH. Counts are compared: how many kernels, variants or bytes
there are. Decimals, such as errors and sizes, and percentages are compared to 5 %. Times, which depend on the machine, must have the
same unit and number of decimals, and may differ by a factor of 100. Digests and places of a worst element count as equal to any other,
blanks do not count, and a line '...' stands for any lines. A command whose block shows no output
only has to succeed; '# exit status N' after a command's output demands another status."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from lintlib import Finding, main, read_lines

FENCE = re.compile(r"^(```+)\s*(\S*)\s*(.*)$")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def blocks(lines):
    """(line number, language, rest of the fence, content lines) of each fenced block."""
    fence, start, language, rest, content = None, 0, "", "", []
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if fence is None and match:
            fence, start, language, rest, content = match.group(1), number, match.group(2), match.group(3), []
        elif fence is not None and line.strip() == fence:
            yield start, language, rest, content
            fence = None
        elif fence is not None:
            content.append(line)


TIME = re.compile(r"\b\d+(?:\.(\d+))?(?=\s?(?:ns|us|ms|s)(?!\w))")
FACTOR_OF_TIMES = 100
PERCENTAGE = re.compile(r"\b\d+(?:\.\d+)?(?=\s?%)")
DECIMAL = re.compile(r"[-+]?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)")


def normal(line):
    """A line without what may differ from run to run; its decimals and percentages; its times and the smallest that is not 0."""
    line = re.sub(r"\b(?=\d*[a-f])[0-9a-f]{8,}\b", "N", line)
    times = [max(float(each[0]), 0.1 ** len(each[1] or "")) for each in TIME.finditer(line)]
    line = TIME.sub(lambda each: "T" + "0" * len(each[1] or ""), line)
    numbers = [float(each) for each in PERCENTAGE.findall(line)]
    line = PERCENTAGE.sub("N", line)
    line = re.sub(r"\b(token|column) \d+", r"\1 N", line)
    return " ".join(DECIMAL.sub("N", line).split()), numbers + [float(each) for each in DECIMAL.findall(line)], times


def same(shown, printed):
    """Returns true if two lines are equal except for what may differ."""
    (text, numbers, times), (other, others, other_times) = normal(shown), normal(printed)
    return (
        text == other
        and all(abs(a - b) <= 0.05 * abs(b) for a, b in zip(numbers, others))
        and all(1 / FACTOR_OF_TIMES <= a / b <= FACTOR_OF_TIMES for a, b in zip(times, other_times))
    )


def matches(shown, printed):
    """Whether the shown lines, in which '...' stands for any lines, describe the printed ones."""
    if not shown:
        return not printed
    if shown[0].strip() == "...":
        return any(matches(shown[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and same(shown[0], printed[0]) and matches(shown[1:], printed[1:])


def commands(content, start):
    """(line number, command, shown lines, exit status) of each '$ ' in a console block."""
    found = []
    for number, line in enumerate(content, start + 1):
        if line.startswith("$ "):
            found.append([number, line[2:], [], 0])
        elif found and not found[-1][2] and found[-1][1].endswith("\\"):
            found[-1][1] = found[-1][1][:-1] + line.strip().removeprefix("> ")
        elif found and line.startswith("# exit status "):
            found[-1][3] = int(line.split()[-1])
        elif found:
            found[-1][2].append(line.rstrip())
    return found


def run_console(path, content, start, folder, environment):
    for number, command, shown, status in commands(content, start):
        run = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        printed = [l.rstrip() for l in (run.stdout + run.stderr).splitlines()]
        if run.returncode != status:
            last = printed[-1] if printed else "nothing"
            yield Finding(path, number, f"'{command}' ended with status {run.returncode}, not {status}; it printed: {last}")
            continue
        shown = [l for l in shown if l.strip()]
        printed = [l for l in printed if l.strip()]
        if shown and not matches(shown, printed):
            text = "\n    ".join(["what it prints is not what is shown; it printed:"] + printed[:60])
            yield Finding(path, number, text)


def run_mlir(path, start, text, options):
    tool = str(options.build.resolve() / "bin" / "moec-opt")
    run = subprocess.run([tool], input=text, capture_output=True, text=True)
    if run.returncode:
        first = (run.stderr.strip().splitlines() or [f"status {run.returncode}"])[0]
        yield Finding(path, start, f"moec-opt refuses it: {first}")


def check_document(root, path, options):
    lines = read_lines(root, path)
    outside, inside = [], False
    for number, line in enumerate(lines, 1):
        if FENCE.match(line):
            inside = not inside
        if not inside:
            outside += [(number, link) for link in LINK.findall(line)]
    for number, link in outside:
        if "://" not in link and not (root / path).parent.joinpath(link).exists():
            yield Finding(path, number, f"the link {link} leads nowhere")
    with tempfile.TemporaryDirectory(prefix="moec-docs-") as folder:
        environment = dict(os.environ, LC_ALL="C.UTF-8", MOEC_CACHE_DIR=os.path.join(folder, "cache"))
        for name in ("examples", "test"):
            os.symlink(root / name, os.path.join(folder, name))
        if options.build:
            build = options.build.resolve()
            os.symlink(build, os.path.join(folder, "build"))
            environment["PATH"] = f"{build / 'bin'}:{os.environ['PATH']}"
        for start, language, rest, content in blocks(lines):
            text = "\n".join(content) + "\n"
            if rest.startswith("save="):
                pathlib.Path(folder, rest[len("save="):]).write_text(text)
            if language == "json":
                try:
                    json.loads(text)
                except ValueError as error:
                    yield Finding(path, start, f"no JSON: {error}")
            elif language == "cpp" and rest.startswith("file="):
                source = root / rest[len("file="):]
                if not source.is_file() or text.strip() not in source.read_text():
                    yield Finding(path, start, f"does not stand in {rest[len('file='):]} word for word")
            elif language == "console" and options.build:
                yield from run_console(path, content, start, folder, environment)
            elif language == "mlir" and options.build:
                yield from run_mlir(path, start, text, options)


def check_ods(root, path, options):
    """The ```mlir blocks of ODS descriptions."""
    lines = [line.strip() for line in read_lines(root, path)]
    for start, language, rest, content in blocks(lines):
        if language == "mlir" and options.build:
            yield from run_mlir(path, start, "\n".join(content) + "\n", options)


def check(root, files, options):
    for path in files:
        if path.endswith(".td"):
            yield from check_ods(root, path, options)
        if path.endswith(".md") and not path.startswith("docs/generated/"):
            yield from check_document(root, path, options)


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, help="run the commands with this build's programs")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
