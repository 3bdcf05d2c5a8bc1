#!/usr/bin/env python3
# ===- headers.py - every header compiles alone -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Every .h is compiled by itself with g++ and the flags that its room's sources get in --build, every .cuh by itself
with NVRTC for --arch and the other templates in memory, but for those of
test/golden/kernels.txt. Headers of rooms that --build does not build are left out, and
those that a source which --build builds includes before anything else: building it compiled them alone."""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from lintlib import Finding, main

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "conformance"), str(TESTS / "golden")]
import builds  # noqa: E402
import kernel_list  # noqa: E402
import nvrtc  # noqa: E402

OPTIONS = ["-std=c++20", "-default-device", "-w"]
# The version of what is asked of a template, that it compiles; one that passed an older version is compiled again.
RULES = "1"
ARCH = "sm_90a"


def room_flags(build):
    """Source -> its flags, without the file names, from compile_commands.json."""
    flags = {}
    for source, entry in builds.compile_commands(build).items():
        words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
        kept, skip = [], False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MT"):
                skip = True
            elif not word.startswith(("-M", "-O", "-fsanitize")):
                kept.append(word)
        flags[source] = (entry["directory"], words[0], kept)
    return flags


def flags_for(path, root, flags):
    """The flags of the source nearest to a header, of its own folder or one above; test/ itself is no such folder."""
    folder = (root / path).parent
    while folder != root and folder != root / "test" and root in folder.parents:
        inside = sorted(f for f in flags if str(f).startswith(f"{folder}/"))
        if inside:
            return flags[inside[0]]
        folder = folder.parent
    return None


def included_first(root, build):
    """The headers that stand first in a source that is built; they have been compiled with nothing before them."""
    first = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(builds.members(pathlib.Path(entry["file"]))[0])
        if root in source.parents and source.is_file():
            found = re.search(r'^\s*#\s*include\s*[<"](.*?)[>"]', source.read_text(errors="replace"), re.MULTILINE)
            if found:
                first.add(found.group(1))
    return first


def compile_host(root, path, found):
    directory, compiler, flags = found
    run = subprocess.run(
        [compiler, *flags, "-fsyntax-only", "-Werror", "-x", "c++", "-"],
        input=f'#include "{root / path}"\n',
        cwd=directory,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        first = next((l for l in run.stderr.splitlines() if "error" in l), run.stderr.strip()[-200:])
        return Finding(path, 1, f"does not compile alone: {first}")
    return None


def check(root, files, options):
    headers = [f for f in files if f.endswith(".h")]
    if options.build:
        flags = room_flags(options.build.resolve())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs, proved = [], included_first(root, options.build.resolve())
            for path in headers:
                if path in proved:
                    continue
                found = flags_for(path, root, flags)
                if found:
                    jobs.append(pool.submit(compile_host, root, path, found))
            print(f"{len(headers)} headers: {len(proved.intersection(headers))} stand first in a source, {len(jobs)} compiled alone")
            yield from (job.result() for job in jobs if job.result())
    device = {f[len("templates/"):]: (root / f).read_text() for f in files if f.startswith("templates/") and f.endswith(".cuh")}
    path = nvrtc.find()
    if not device:
        return
    if not path:
        print("no NVRTC here: the templates were left out")
        return
    library = nvrtc.Nvrtc(path)
    listed = kernel_list.KernelList("headers", RULES, library.release(), root / "test" / "golden" / "kernels.txt")
    wrong, count = [], 0
    for name in device:
        text = f'#include "{name}"\n'
        is_listed = listed.see(listed.digest(text, device, OPTIONS), f"templates/{name}", options.arch)
        if is_listed and os.environ.get("MOEC_TEST_ALL") != "1":
            continue
        count += 1
        error, log, _, _ = library.compile(text, "header.cu", device, [*OPTIONS, f"-arch={options.arch}"])
        if error:
            said = next((line for line in log.splitlines() if "error" in line), log[:200] or error)
            wrong.append(Finding(f"templates/{name}", 1, f"does not compile alone: {said}"))
    yield from wrong
    if options.update and not wrong:
        listed.write()
    elif options.arch == ARCH and not options.update:
        yield from (Finding("test/golden/kernels.txt", 1, sentence) for sentence in listed.stale())
    print(f"{len(device)} templates, {count} compiled alone with {path}; {listed.about()}")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, help="a build folder with compile_commands.json")
    parser.add_argument("--arch", default=ARCH)
    kernel_list.options_of(parser)


if __name__ == "__main__":
    sys.exit(main(check, add_options))
