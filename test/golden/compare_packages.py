#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the packages of many layers, and compares them with the packages that another build wrote.

A change of the compiler's structure must not change a package. Write the packages of the build before the change to one
folder, then compare:

    test/golden/compare_packages.py --bin=before/bin --work=/tmp/before
    test/golden/compare_packages.py --bin=build/bin --work=/tmp/after --against=/tmp/before

The layers are examples/models, bench/data/cells and the cases of test/conformance. A package's manifest has the SHA-256 of each
header, so only manifests and kernels are kept. --resume compiles each layer through every --emit stop as well, and expects
the same package.
"""

import difflib
import json
import pathlib
import re
import shutil
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "conformance"))
import conformance  # noqa: E402
import moec_testing as testing  # noqa: E402

ARCHS = "sm_80,sm_90a,sm_120a"
CHOICES = ("--backend", "--engine", "--exclude", "--allow")
STOPS = ("layer", "stages", "kernels", "scheduled")
SHOWN_LINES = 40
# Packages that one process writes.
CHUNK = 30
Job = tuple[str, pathlib.Path, list[str]]


def jobs_of(tools: testing.Tools, layers: pathlib.Path, pattern: str) -> list[Job]:
    """(name, input, options of moec compile) of each package."""
    jobs = []
    for folder in ("examples/models", "bench/data/cells"):
        for path in sorted((ROOT / folder).glob("*.json")):
            jobs.append((f"{path.parent.name}-{path.stem}", path, [f"--arch={ARCHS}"]))
    for case in conformance.cases(tools.rows(), product=False):
        name = conformance.name_of(case)
        path = layers / f"{name}.json"
        path.write_text(json.dumps(conformance.layer_of(name, case)))
        jobs.append((name, path, ["--arch=sm_90a", *conformance.words_of(case), "--max-tokens=160"]))
    return [job for job in jobs if re.search(pattern, job[0])]


def finish(job: Job, folder: pathlib.Path, status: int, said: str) -> None:
    """Leaves the package without headers, or refused.txt with the compiler's error."""
    name, layer, _ = job
    package = folder / name
    if status:
        package.mkdir(parents=True, exist_ok=True)
        (package / "refused.txt").write_text(f"exit {status}\n{said}\n".replace(str(layer), layer.name))
    shutil.rmtree(package / "include", ignore_errors=True)


def write(tools: testing.Tools, job: Job, folder: pathlib.Path) -> None:
    """The package, or refused.txt."""
    name, layer, options = job
    shutil.rmtree(folder / name, ignore_errors=True)
    status, _, errors = testing.run([tools.moec, "compile", layer, *options, "--no-cubin", "-o", folder / name])
    finish(job, folder, status, errors.strip().removeprefix("moec: "))


def write_all(tools: testing.Tools, jobs: list[Job], folder: pathlib.Path) -> None:
    """As write(), by one process."""
    for name, _, _ in jobs:
        shutil.rmtree(folder / name, ignore_errors=True)
    lines = [[layer, *options, "-o", folder / name] for name, layer, options in jobs]
    said = testing.compile_lines(tools.moec, lines, folder / f"{jobs[0][0]}.cases", common=["--no-cubin"])
    for job, (status, text) in zip(jobs, said, strict=True):
        finish(job, folder, status, text)


def write_resumed(tools: testing.Tools, job: Job, folder: pathlib.Path) -> None:
    """The package that comes of the layer through every stop."""
    name, layer, options = job
    for stop in STOPS:
        # A layer keeps no choice, and takes none.
        given = [option for option in options if stop != "layer" or not option.startswith(CHOICES)]
        status, text, errors = testing.run([tools.moec, "compile", layer, *given, f"--emit={stop}"])
        if status:
            break
        layer = folder / f"{name}.{stop}.mlir"
        layer.write_text(text)
        # A program in the input says the most tokens and, in its report, backend and engine.
        options = [option for option in options if option.startswith("--arch") or stop == "layer"]
    if not status:
        write(tools, (name, layer, options), folder)
        return
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "refused.txt").write_text(f"exit {status}\n{errors}".replace(str(layer), layer.name))


def texts(package: pathlib.Path) -> dict[str, list[str]]:
    """Each file's lines; a manifest that stands in one line is spread over many."""
    return {str(path.relative_to(package)): path.read_text().splitlines()
            for path in sorted(package.rglob("*")) if path.is_file()}


def difference(name: str, before: pathlib.Path, after: pathlib.Path) -> str | None:
    """A unified difference of the first file that is not the same, or None."""
    old, new = texts(before / name), texts(after / name)
    for file in sorted(old.keys() | new.keys()):
        if old.get(file) == new.get(file):
            continue
        lines = difflib.unified_diff(old.get(file, []), new.get(file, []), f"{name}/{file}", "now", lineterm="", n=1)
        return "\n".join(line[:200] for line in list(lines)[:SHOWN_LINES])
    return None


def main() -> None:
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--against", type=pathlib.Path, help="a folder that another build wrote")
    arguments.add_argument("--resume", action="store_true", help="compile through every --emit stop")
    arguments.add_argument("--filter", default="", help="only packages whose name this regular expression is found in")
    options = arguments.parse_args()
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    started = time.time()
    layers = work / "layers"
    layers.mkdir(parents=True, exist_ok=True)
    jobs = jobs_of(tools, layers, options.filter)
    # A build before may have no --cases.
    one_by_one = "--cases" not in testing.run([tools.moec, "compile", "--help"])[1]
    if options.resume or one_by_one:
        writer = write_resumed if options.resume else write
        testing.parallel(lambda job: writer(tools, job, work), jobs, options.jobs)
    else:
        testing.parallel(lambda chunk: write_all(tools, chunk, work), testing.in_chunks(jobs, CHUNK), options.jobs)
    wrong = []
    if options.against:
        wrong = [text for text in (difference(job[0], options.against, work) for job in jobs) if text]
        for text in wrong:
            print(text)
    testing.finish("packages", len(jobs), [text.splitlines()[0] for text in wrong], started, time.time())


if __name__ == "__main__":
    main()
