#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles kernel texts with NVRTC alone and reports what came out.

  compile.py [--arch=sm_80,sm_90a] [--out=FOLDER] [--defines=A=1,B] FILE...

One line a file and arch: processor milliseconds, registers, shared bytes, spill bytes and
whether the PTX has .local memory. Ends with status 1 if a compile failed, a
kernel spills, has local memory or a remark of ptxas (C7...), 2 on usage, 77
where there is no NVRTC.
"""

import concurrent.futures
import ctypes
import os
import re
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEMPLATES = os.path.join(ROOT, "templates")
OPTIONS = ["-std=c++20", "-default-device", "-Xptxas=-v"]


def openNvrtc():
    """The library named by MOEC_NVRTC_PATH, the toolkit's, or None."""
    candidates = [os.environ.get("MOEC_NVRTC_PATH"),
                  "/usr/local/cuda/lib64/libnvrtc.so.13",
                  "/usr/local/cuda/lib64/libnvrtc.so", "libnvrtc.so.13"]
    for path in candidates:
        if not path:
            continue
        folder = os.path.dirname(path)
        try:
            for name in sorted(os.listdir(folder)) if folder else []:
                if name.startswith("libnvrtc-builtins.so"):
                    ctypes.CDLL(os.path.join(folder, name))
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None


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
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text.encode(),
                             name.encode(), 0, None, None)
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    begin = time.thread_time()
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    elapsed = (time.thread_time() - begin) * 1000

    def read(what):
        size = ctypes.c_size_t()
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        getattr(nvrtc, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw[:size.value]

    log = read("ProgramLog").rstrip(b"\0").decode()
    ptx = cubin = b""
    if status == 0:
        ptx, cubin = read("PTX"), read("CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return Compiled(status == 0, log, ptx.decode(errors="replace"), cubin,
                    elapsed)


def main(arguments):
    archs, out, extra, files = ["sm_90a"], None, [], []
    for argument in arguments:
        if argument.startswith("--arch="):
            archs = argument[7:].split(",")
        elif argument.startswith("--out="):
            out = argument[6:]
        elif argument.startswith("--defines="):
            extra = ["-D" + d for d in argument[10:].split(",")]
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
    print(f"{len(work)} compiled, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
