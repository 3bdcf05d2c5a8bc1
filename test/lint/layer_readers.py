#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Behind moe-decompose-layer nothing reads moe.layer but the manifest's layer: programs say what passes and emitters need."""

import re
import sys

from lintlib import HOST, Finding, main, read_lines

READS = re.compile(r"\b(LayerOp|getLayerOp)\b")
ROOMS = ("compiler/passes/", "compiler/matmul/", "compiler/plan/", "compiler/kernels/", "compiler/emit/")
# Passes up to moe-decompose-layer with what they share, those that judge how a layer may be computed, the pass that compares a program
# with its layer, and the manifest's layer.
READERS = {
    "compiler/passes/ChooseBackend.cpp",
    "compiler/passes/ChooseRealization.cpp",
    "compiler/plan/LayerFacts.cpp",
    "compiler/plan/LayerFacts.h",
    "compiler/passes/CheckProgram.cpp",
    "compiler/passes/CheckCommunication.cpp",
    "compiler/passes/CheckStoredWeights.cpp",
    "compiler/passes/CheckTarget.cpp",
    "compiler/passes/CheckTypes.cpp",
    "compiler/plan/Communication.cpp",
    "compiler/plan/Communication.h",
    "compiler/plan/Shares.cpp",
    "compiler/plan/Shares.h",
    "compiler/passes/DecomposeLayer.cpp",
    "compiler/passes/Decomposer.h",
    "compiler/passes/InferRouting.cpp",
    "compiler/passes/ResolveParallel.cpp",
    "compiler/passes/Targets.cpp",
    "compiler/passes/Passes.h",
    "compiler/emit/CudaBackend.cpp",  # copies it into the package
    "compiler/emit/LayerJson.cpp",
    "compiler/plan/StoredWeights.cpp",
    "compiler/plan/StoredWeights.h",
}


def check(root, files):
    for path in files:
        if not path.startswith(ROOMS) or not path.endswith(HOST) or path in READERS:
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            if READS.search(line.split("//")[0]):
                yield Finding(path, number, "reads moe.layer: behind moe-decompose-layer the program says what a pass or an emitter needs")


if __name__ == "__main__":
    sys.exit(main(check))
