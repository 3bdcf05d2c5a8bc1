#!/usr/bin/env python3
# ===- two-pairs.py - rows of two schedules for the same tokens -------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints the rows and a second one of the first matmul for 12 to 22 tokens, with 4 pipeline stages, that is slower."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    rows = json.load(file)["rows"]
other = json.loads(json.dumps(next(row for row in rows if row["tokens"] == [12, 22] and row["problem"]["gated"])))
other["schedule"]["stages"] = 4
other["measured"]["microseconds"] = 90
text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in [*rows, other])
print(f'{{"tuned": 2, "rows": [\n{text}\n]}}')
