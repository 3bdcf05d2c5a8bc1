#!/usr/bin/env python3
# ===- linkage.py - what our binaries need and show -------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""The programs and libraries of --build need nothing but the C library where they run; the libraries and their programs also need
libgcc_s.so.1. These load with glibc 2.34. The libraries export nothing but the C ABI (moec_*), so that they live beside
another LLVM in one process. No program and no library holds a path of the machine that built it."""

import pathlib
import re
import subprocess
import sys

from lintlib import Finding, main

# The C library and its loader; libstdc++ and libgcc are linked in.
NEEDED = re.compile(r"^(libc\.so\.6|libm\.so\.6|libdl\.so\.2|librt\.so\.1|libpthread\.so\.0|ld-linux-.*\.so\.\d)$")
# Every system has it. Its archive needs glibc 2.35.
NEEDED_BY_LIBRARIES = "libgcc_s.so.1"
NEWEST_GLIBC = (2, 34)
PROGRAMS = ("bin/moec", "bin/moec-opt", "bin/moec-run", "bin/moec-check", "lib/libmoec.so", "lib/libmoec-runtime.so", "lib/libmoec-emulator.so",
            "libexec/moec/moec-measure", "libexec/moec/moec-nvrtc")
# The emulator is a CUDA driver and an NVRTC.
EXPORTS = {"libmoec-emulator.so": ("moec_", "cu", "nccl", "nvrtc")}
# They go into a wheel.
OLD_GLIBC = (".so", "moec-measure", "moec-nvrtc", "moec-opt", "moec-run")


def lines_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def check(root, files, options):
    found = [options.build / name for name in PROGRAMS if (options.build / name).exists()]
    if not found:
        yield Finding(options.build, 1, f"none of {', '.join(PROGRAMS)} is built")
    for path in found:
        for line in lines_of("readelf", "--dynamic", "--wide", str(path)):
            match = re.search(r"\(NEEDED\).*\[(.*)\]", line)
            allowed = path.name.endswith(OLD_GLIBC) and match and match.group(1) == NEEDED_BY_LIBRARIES
            if match and not NEEDED.match(match.group(1)) and not allowed:
                yield Finding(path, 1, f"needs {match.group(1)} where it runs; link it statically or open it with dlopen")
        if path.suffix == ".so":
            for line in lines_of("nm", "--dynamic", "--defined-only", str(path)):
                symbol = line.split()[-1].split("@")[0]
                if not symbol.startswith(EXPORTS.get(path.name, ("moec_",))) and " A " not in line:
                    yield Finding(path, 1, f"exports {symbol}; the version script must hide it")
        if path.name.endswith(OLD_GLIBC):
            for line in lines_of("objdump", "-T", str(path)):
                match = re.search(r"GLIBC_(\d+)\.(\d+)\S*\s+(\S+)$", line)
                if match and (int(match.group(1)), int(match.group(2))) > NEWEST_GLIBC:
                    yield Finding(path, 1, f"needs {match.group(3)} of glibc {match.group(1)}.{match.group(2)}; the newest allowed is 2.34")
        # Elsewhere such a path may be somebody else's to fill.
        data = path.read_bytes()
        for folder in sorted({str(root.resolve()), str(options.build.resolve()), str(pathlib.Path.home())}):
            if f"{folder}/".encode() in data:
                yield Finding(path, 1, f"holds a path below {folder}, which is a folder of this machine")
    print(f"{len(found)} binaries read")


def add_options(parser):
    parser.add_argument("--build", type=pathlib.Path, required=True)


if __name__ == "__main__":
    sys.exit(main(check, add_options))
