#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes each member away from each kind of Config, one at a time: the compile
must fail with a message that names the missing member."""

import os
import re
import sys

import compile as nvrtc

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
KINDS = ["route_fused_bf16", "permute", "gate_up_bf16_16x64x128",
         "wgmma_tail_f16_64x64x64", "activate_bf16",
         "combine_bf16", "pack_copy_bf16"]
MEMBER = re.compile(r"(?:static constexpr \w+|using) (\w+) = [^;]*;")


def main():
    library = nvrtc.openNvrtc()
    if library is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    missing = tried = 0
    for kind in KINDS:
        with open(os.path.join(FOLDER, kind + ".cu"), encoding="utf-8") as file:
            text = file.read()
        for member in MEMBER.finditer(text):
            name = member.group(1)
            if name == "Args":
                continue
            tried += 1
            without = text[:member.start()] + text[member.end():]
            result = nvrtc.compileText(library, without, "sm_90a", kind + ".cu")
            if result.ok or not re.search(rf"lacks (the type )?{name}\b", result.log):
                missing += 1
                print(f"{kind} without {name}: no message names it\n{result.log[:600]}")
    print(f"{tried} members, {missing} without a message")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
