#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""With MOEC_SPIN_DEADLINE every loop that waits in a kernel asks a clock, and an
assertion names the wait and the line that waits; without, there is no trace of
it. Compiles kernels with NVRTC alone."""

import os
import re
import sys

import compile as nvrtc

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
BARRIER, COUNTER, SIGNALS = ("a barrier's phase ends in time", "a row tile's counter is reached in time",
                             "all CTAs signal in time")
# The waits of each kernel.
KERNELS = {"wgmma_fp8_block_down_128x128x128": {BARRIER, COUNTER},
           "wgmma_split_gate_up_bf16_16x128x64": {BARRIER},
           "down_slices_fp8_block_64x128x128": {BARRIER, SIGNALS}}


def strings(ptx):
    """The texts that PTX holds as bytes."""
    lists = re.findall(r"\.b8 \S+\[\d+\] = \{([^}]*)\}", ptx)
    return [bytes(int(byte) & 255 for byte in one.split(",")).rstrip(b"\0").decode() for one in lists]


def problems(library, kind, waits):
    with open(os.path.join(FOLDER, kind + ".cu"), encoding="utf-8") as file:
        text = file.read()
    usual = nvrtc.compileText(library, text, "sm_90a", kind + ".cu")
    slow = nvrtc.compileText(library, text, "sm_90a", kind + ".cu", ["-DMOEC_SPIN_DEADLINE=2000"])
    for result in (usual, slow):
        if not result.ok:
            return [result.log[:600]]
    found = []
    if "globaltimer" in usual.ptx or "__assertfail" in usual.ptx:
        found.append("there is a deadline without the macro")
    said = strings(slow.ptx)
    if {words for words in said if words.endswith(" in time")} != waits:
        found.append(f"it should wait for {waits}, and says {said}")
    if not any(words.endswith((".cuh", ".cu")) for words in said):
        found.append(f"no file is named: {said}")
    # A loop of counters may have its first load in front of it, too.
    loops = slow.ptx.count("mbarrier.try_wait") + len(waits - {BARRIER})
    ends = len(re.findall(r"call(\.uni)?\s+__assertfail", slow.ptx))
    if ends < loops:
        found.append(f"{loops} loops wait, {ends} end with an assertion")
    if slow.spills:
        found.append(f"{slow.spills} bytes are spilled")
    return found


def main():
    library = nvrtc.openNvrtc()
    if library is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    failed = 0
    for kind, waits in KERNELS.items():
        for problem in problems(library, kind, waits):
            failed += 1
            print(f"{kind}: {problem}")
    print(f"{len(KERNELS)} kernels, {failed} problems")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
