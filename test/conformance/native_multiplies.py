#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the rows of archs with the feature fp8_mma_sync are those whose machine multiplies e4m3.

PTX has the instruction from sm_89 on, also where ptxas makes conversions and a multiply of halves of it: the feature is
about the cubin. One multiply is compiled for each arch of the catalog, and its instructions are counted. Needs no GPU.
"""

import pathlib
import sys
import time

import compile_all
import moec_testing as testing
import nvrtc

TEMPLATES = pathlib.Path(__file__).resolve().parents[2] / "templates"
# mma.sync of 8-bit and of 16-bit floats.
QMMA, HMMA = 0x27a, 0x23c
SOURCE = """#include "moe/core/ptx.cuh"
extern "C" __global__ void multiply(float *sums, const unsigned *words) {
  float own[4] = {sums[0], sums[1], sums[2], sums[3]};
  unsigned a[4] = {words[0], words[1], words[2], words[3]};
  moe::ptx::multiplyE4m3<true>(own, a, words[4], words[5]);
  for (int i = 0; i < 4; ++i)
    sums[i] = own[i];
}
"""


def main():
    options = testing.parser(__doc__.splitlines()[0]).parse_args()
    path = nvrtc.find()
    if not path:
        print("SKIPPED: no NVRTC found (MOEC_NVRTC_PATH, /usr/local/cuda)")
        sys.exit(77)
    library, started, failures = nvrtc.Nvrtc(path), time.time(), []
    archs = library.compiled(testing.Tools(options.bin).rows()["archs"])
    for arch in archs:
        flags = ["-std=c++20", "-default-device", f"-arch={arch['name']}", f"-I{TEMPLATES}"]
        error, log, _, cubin = library.compile(SOURCE, "multiply.cu", {}, flags)
        said = "fp8_mma_sync" in arch["features"]
        # Before sm_89 there is nothing to compile.
        if error and "fp8" not in arch["features"] and not said:
            continue
        codes = [] if error else list(compile_all.opcodes(cubin))
        if error or (QMMA in codes) == (HMMA in codes):
            failures.append(f"{arch['name']}: no multiply is found: {error} {log[:300]}")
        elif (QMMA in codes) != said:
            failures.append(f"{arch['name']} {'has' if QMMA in codes else 'lacks'} the multiply, its row says otherwise")
    testing.finish("native multiplies of e4m3", len(archs), failures, started, time.time())


if __name__ == "__main__":
    main()
