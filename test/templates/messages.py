#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes each member away from each kind of Config, one at a time: the compile
must fail with a message that names the missing member. And gives members values
that no kernel can have: the message must say why."""

import os
import re
import sys

import compile as nvrtc

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")
KINDS = ["route_cluster_bf16", "permute", "gate_up_bf16_16x64x128",
         "wgmma_tail_f16_64x64x64", "activate_bf16",
         "combine_bf16", "combine_normed_bf16", "combine_constants_bf16", "pack_copy_bf16"]
# Config, what is replaced in it by what, and what the message says.
IMPOSSIBLE = [
    # 65536 registers in all are what an SM has, 64512 what 384 threads are given.
    ("wgmma_fp8_block_groups_64x128x128", "kProducerRegisters = 56; static constexpr int kConsumerRegisters = 224",
     "kProducerRegisters = 48; static constexpr int kConsumerRegisters = 232", "more registers than the launch allots"),
    ("wgmma_fp8_block_groups_64x128x128", "kCtasPerSm = 1", "kCtasPerSm = 2", "more registers than the launch allots"),
    ("down_slices_fp8_block_64x128x128", "kConsumerRegisters = 128", "kConsumerRegisters = 136",
     "more registers than the launch allots"),
    ("wgmma_tail_f16_64x64x64", "kExperts = ", "kExperts = 1024 + ", "an expert's index must fit its slot"),
    ("wgmma_fp8_block_down_128x128x128", "const float * lhs_scale", "const unsigned short * lhs_scale",
     "a token's scale must be 4 bytes"),
    ("route_cluster_bf16", "kMostBlocks = 0", "kMostBlocks = 4", "kMostBlocks must be 0 with kPermute"),
    ("route_cluster_bf16", "kBlockTokens = ", "kBlockTokens = 8192 + ", "tokens must be at most 32767"),
    ("route_cluster_bf16", "kExperts = ", "kExperts = 1024 + ", "kExperts must be 1 to 1024"),
    ("permute", "kBlockTokens = ", "kBlockTokens = 65536 + ", "must fit the 16-bit ranks"),
    ("route_gate_up_bf16", "kN = ", "kN = (1 << 22) + ", "weights of all experts must be below 64 GiB"),
    ("down_combine_bf16", "kN = ", "kN = (1 << 22) + ", "weights of all experts must be below 64 GiB"),
]
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
    for kind, member, value, message in IMPOSSIBLE:
        with open(os.path.join(FOLDER, kind + ".cu"), encoding="utf-8") as file:
            text = file.read()
        if text.count(member) != 1:
            raise ValueError(f"{kind} has no one '{member}'")
        tried += 1
        result = nvrtc.compileText(library, text.replace(member, value), "sm_90a", kind + ".cu")
        if result.ok or message not in result.log:
            missing += 1
            print(f"{kind} with {value}: no message says '{message}'\n{result.log[:600]}")
    print(f"{tried} members, {missing} without a message")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
