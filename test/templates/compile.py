#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernel texts with NVRTC alone and reports what came out.

  compile.py [--arch=sm_80,sm_90a] [--out=FOLDER] [--defines=A=1,B] [--listed] [--update] FILE...

One line a file and arch: processor milliseconds, registers, shared bytes, spill bytes and
whether the PTX has .local memory. Ends with status 1 if a compile failed, a
kernel spills, has local memory or a remark of ptxas (C7...), 2 on usage, 77
where there is no NVRTC.

--listed leaves out what test/golden/kernels.txt has, but not where MOEC_TEST_ALL=1 says so. --update writes that list, if
all pass.
"""

import concurrent.futures
import os
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(ROOT, "templates")
sys.path[:0] = [os.path.join(ROOT, "test", "conformance"), os.path.join(ROOT, "test", "golden")]
import kernel_list  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc as binding  # noqa: E402

# The version of what Compiled.clean asks for; a text that passed an older version is compiled again.
RULES = "1"
# For which the list has the Configs.
LISTED_ARCHS = ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120a"]
OPTIONS = ["-std=c++20", "-default-device", "-Xptxas=-v"]


def openNvrtc():
    """The library named by MOEC_NVRTC_PATH, the toolkit's, or None."""
    path = binding.find()
    return binding.Nvrtc(path) if path else None


def templates():
    """Include name -> text of each template."""
    found = {}
    for folder, _, names in os.walk(TEMPLATES):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, encoding="utf-8") as file:
                found[os.path.relpath(path, TEMPLATES)] = file.read()
    return found


class Compiled:
    """The result of one compile: ok, log, ptx, cubin, milliseconds."""

    def __init__(self, ok, log, ptx, cubin, milliseconds):
        self.ok, self.log, self.ptx = ok, log, ptx
        self.cubin, self.milliseconds = cubin, milliseconds

    def number(self, pattern):
        found = [int(n) for n in re.findall(pattern, self.log)]
        return max(found, default=0)

    @property
    def registers(self):
        return self.number(r"Used (\d+) registers")

    @property
    def spills(self):
        return self.number(r"(\d+) bytes spill stores") + self.number(
            r"(\d+) bytes spill loads")

    @property
    def shared(self):
        return self.number(r"(\d+) bytes smem")

    @property
    def local(self):
        return ".local" in self.ptx

    @property
    def remarks(self):
        """ptxas's messages about wgmma and setmaxnreg that it could not use well."""
        return [line for line in self.log.splitlines() if re.search(r"\(C7\d\d\d\)", line)]

    @property
    def clean(self):
        return self.ok and not self.spills and not self.local and not self.remarks


def compileText(nvrtc, text, arch, name="kernel.cu", extra=()):
    options = [*OPTIONS, f"-arch={arch}", f"-I{TEMPLATES}", *extra]
    begin = time.thread_time()
    error, log, ptx, cubin = nvrtc.compile(text, name, {}, options)
    elapsed = (time.thread_time() - begin) * 1000
    return Compiled(not error, log, ptx, cubin, elapsed)


def main(arguments):
    archs, out, extra, files, reads, updates = ["sm_90a"], None, [], [], False, False
    for argument in arguments:
        if argument.startswith("--arch="):
            archs = argument[7:].split(",")
        elif argument.startswith("--out="):
            out = argument[6:]
        elif argument.startswith("--defines="):
            extra = ["-D" + d for d in argument[10:].split(",")]
        elif argument == "--listed":
            archs, reads = LISTED_ARCHS, True
        elif argument == "--update":
            updates = True
        elif argument.startswith("-"):
            print(__doc__, file=sys.stderr)
            return 2
        else:
            files.append(argument)
    nvrtc = openNvrtc()
    if nvrtc is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    work = []
    for path in files:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # A first line of this form says for which archs the text is meant.
        wanted = re.search(r"^// archs: (.*)$", text, re.M)
        work += [(path, text, arch) for arch in archs
                 if not wanted or re.fullmatch(wanted.group(1), arch)]
    stale = []
    if reads:
        listed, headers, known = kernel_list.KernelList("configs", RULES, nvrtc.release()), templates(), 0
        for path, text, arch in list(work):
            if listed.see(listed.digest(text, headers, OPTIONS), os.path.basename(path), arch) and not testing.runs_all():
                work.remove((path, text, arch))
                known += 1
        stale = [] if updates else list(listed.stale())
        print(f"{known} are listed; {listed.about()}")

    def one(item):
        path, text, arch = item
        return compileText(nvrtc, text, arch, os.path.basename(path), extra)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, _, arch), result in zip(work, pool.map(one, work)):
            base = os.path.basename(path)
            failed += not result.clean
            state = "ok" if result.clean else "FAILED"
            print(f"{state:6} {base:44} {arch:8} {result.milliseconds:6.0f} ms "
                  f"{result.registers:4} registers {result.shared:6} shared "
                  f"{result.spills:5} spilled{' .local' if result.local else ''}",
                  flush=True)
            if not result.ok or result.remarks:
                print(result.log)
            elif out:
                os.makedirs(out, exist_ok=True)
                stem = os.path.join(out, f"{os.path.splitext(base)[0]}.{arch}")
                with open(stem + ".cubin", "wb") as file:
                    file.write(result.cubin)
    for sentence in stale:
        print(f"FAILED {sentence}")
    print(f"{len(work)} compiled, {failed} failed")
    if reads and updates and not failed:
        listed.write()
    return 1 if failed or stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
