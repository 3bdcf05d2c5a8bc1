#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of the checks and runs them on the GPU that is there.

  run_checks.py PROGRAM [PLAN]     PROGRAM is templates-checks, or another with the name of its plan; status 77: no GPU
"""

import ctypes
import subprocess
import sys
import tempfile

import plan


def arch():
    """The NVRTC name of the first GPU, or None."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    own = "a" if major.value == 9 else ""
    return f"sm_{major.value}{minor.value}{own}"


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    name = arch()
    if name is None:
        print("no GPU on this machine", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        if plan.main([folder, *(arguments[1:] or ["checks"]), f"--arch={name}"]):
            return 1
        return subprocess.call([arguments[0], folder])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
