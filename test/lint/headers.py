#!/usr/bin/env python3
# ===- headers.py - every header compiles alone -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Every .h is compiled by itself with g++ and the flags that its room's sources get in --build, every .cuh by itself
with NVRTC for --arch and the other templates in memory. Headers of rooms that --build does not build are left out, and
those that a source which --build builds includes before anything else: building it compiled them alone."""

import concurrent.futures
import ctypes
import glob
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from lintlib import Finding, main


def room_flags(build):
    """Room -> flags of one of its sources, without the file names, from compile_commands.json."""
    flags = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
        kept, skip = [], False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-MF", "-MT"):
                skip = True
            elif not word.startswith(("-M", "-O", "-fsanitize")):
                kept.append(word)
        flags.setdefault(entry["file"], (entry["directory"], words[0], kept))
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


def included_first(root, flags):
    """The headers that stand first in a source that is built; they have been compiled with nothing before them."""
    first = set()
    for source in map(pathlib.Path, flags):
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


class Nvrtc:
    """The three calls that a compile needs."""

    def __init__(self, path):
        for builtins in sorted(glob.glob(str(pathlib.Path(path).parent / "libnvrtc-builtins.so.*"))):
            ctypes.CDLL(os.path.realpath(builtins), mode=ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(path)

    def compile(self, text, headers, options):
        """The log of a failed compilation, None of one that succeeded."""
        names = list(headers)
        array = lambda items: (ctypes.c_char_p * len(items))(*(i.encode() for i in items))
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(
            ctypes.byref(program), text.encode(), b"header.cu", len(names), array([headers[n] for n in names]), array(names)
        )
        status = self.library.nvrtcCompileProgram(program, len(options), array(options))
        size = ctypes.c_size_t()
        self.library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value or 1)
        self.library.nvrtcGetProgramLog(program, log)
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return (log.value.decode(errors="replace") or f"status {status}") if status else None


def find_nvrtc():
    given = os.environ.get("MOEC_NVRTC_PATH", "")
    places = [given] + sorted(glob.glob("/usr/local/cuda*/lib64/libnvrtc.so.1[0-9]"))
    return next((p for p in places if p and os.path.isfile(p)), None)


def check(root, files, options):
    headers = [f for f in files if f.endswith(".h")]
    if options.build:
        flags = room_flags(options.build.resolve())
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs, proved = [], included_first(root, flags)
            for path in headers:
                if path in proved:
                    continue
                found = flags_for(path, root, flags)
                if found:
                    jobs.append(pool.submit(compile_host, root, path, found))
            print(f"{len(headers)} headers: {len(proved.intersection(headers))} stand first in a source, {len(jobs)} compiled alone")
            yield from (job.result() for job in jobs if job.result())
    device = {f[len("templates/"):]: (root / f).read_text() for f in files if f.startswith("templates/") and f.endswith(".cuh")}
    library = find_nvrtc()
    if not device:
        return
    if not library:
        print("no NVRTC here: the templates were left out")
        return
    nvrtc = Nvrtc(library)
    for name in device:
        log = nvrtc.compile(
            f'#include "{name}"\n', device, ["-std=c++20", f"-arch={options.arch}", "-default-device", "-w"]
        )
        if log:
            error = next((l for l in log.splitlines() if "error" in l), log[:200])
            yield Finding(f"templates/{name}", 1, f"does not compile alone: {error}")
    print(f"{len(device)} templates compiled alone with {library}")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, help="a build folder with compile_commands.json")
    parser.add_argument("--arch", default="sm_90a")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
