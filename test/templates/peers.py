#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks the PTX of kernels that write into the memory of other ranks.

  peers.py FILE...

Words that ranks tell each other by are released and acquired with scope sys,
CTAs are counted once with scope gpu, nothing is multicast, a kernel that waits
for ranks awaits its predecessor first and never lets its successor start
earlier. A kernel that only reads what came reads no word of others but
`broken`. Ends with status 1 if a kernel does otherwise, and 77 where there is no NVRTC.
"""

import re
import sys

import compile as compiler

ARCHS = ["sm_75", "sm_80", "sm_90a"]
# Instructions of scope sys, or of any kind that orders memory, by what they do.
ORDERED = re.compile(
    r"^\s*(?:@%?!?\w+\s+)?((?:st|ld|atom|red|fence|membar|multimem)"
    r"[\w.:]*(?:\.(?:sys|gpu|cta|volatile|mmio|acquire|release|relaxed)|multimem)[\w.:]*)",
    re.M)
ALLOWED = {
    # Tells a word, and the record's code to the host.
    "st.release.sys.global.u64", "st.release.sys.global.u32",
    # Polls a word.
    "ld.acquire.sys.global.u64",
    # `broken`, and the host's `abort` and `code`: nothing follows from them.
    "ld.relaxed.sys.global.u64", "ld.relaxed.sys.global.u32",
    # The last CTA.
    "atom.acq_rel.gpu.global.inc.u32",
}
# `broken`: a rank whose wait fails may store it while another kernel runs.
READ_ALONE = {"ld.relaxed.sys.global.u64"}
NEEDED = ["st.release.sys.global.u64", "ld.acquire.sys.global.u64",
          "atom.acq_rel.gpu.global.inc.u32"]


def problemsOf(ptx, arch):
    found = ORDERED.findall(ptx)
    problems = [f"has {word}" for word in sorted(set(found) - ALLOWED)]
    if "multimem" in ptx:
        problems.append("has a multicast")
    if not any(word in found for word in NEEDED):
        return problems + [f"has {word}, and sends nothing" for word in sorted(set(found) - READ_ALONE)]
    problems += [f"lacks {word}" for word in NEEDED if word not in found]
    if found.count("atom.acq_rel.gpu.global.inc.u32") > 1:
        problems.append("counts a CTA twice")
    if arch != "sm_90a":
        return problems
    if "griddepcontrol.launch_dependents" in ptx:
        problems.append("lets its successor start before it ends")
    waits = ptx.find("griddepcontrol.wait")
    stores = [ptx.find(word) for word in NEEDED]
    if waits < 0 or any(0 <= at < waits for at in stores):
        problems.append("meets other ranks before it awaits its predecessor")
    return problems


def main(files):
    nvrtc = compiler.openNvrtc()
    if nvrtc is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    failed = 0
    for path in files:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for arch in ARCHS:
            compiled = compiler.compileText(nvrtc, text, arch)
            problems = problemsOf(compiled.ptx, arch) if compiled.ok else [compiled.log]
            failed += bool(problems)
            for problem in problems:
                print(f"{path} for {arch}: {problem}")
    print(f"{len(files)} kernels, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
