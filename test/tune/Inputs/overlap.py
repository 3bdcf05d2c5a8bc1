#!/usr/bin/env python3
# ===- overlap.py - rows whose ranges overlap -------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints pairs for 17 to 32, 1 to 32 and 1 to 40 tokens. That of 1 to 32 was measured with 20, which the first one has."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    pair = json.load(file)["rows"][:2]
rows = []
for first, last, tokens, stages in ((17, 32, 24, 6), (1, 32, 20, 5), (1, 40, 8, 4)):
    for row in json.loads(json.dumps(pair)):
        row["tokens"] = [first, last]
        row["measured"]["tokens"] = tokens
        row["schedule"]["stages"] = stages
        rows.append(row)
print(json.dumps({"tuned": 2, "rows": rows}))
