#!/usr/bin/env python3
# ===- any-scheme.py - rows that name no scheme -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints the rows without their scheme, and two of the second matmul beside the last one: one of other tiles, and a slower one."""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    rows = json.load(file)["rows"]
for row in rows:
    del row["problem"]["scheme"]
other, slower = (json.loads(json.dumps(rows[-1])) for _ in range(2))
other["schedule"]["tile"][0] = 128
slower["schedule"]["stages"] = 4
slower["measured"]["microseconds"] = 90
rows += [other, slower]
text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
print(f'{{"tuned": 2, "rows": [\n{text}\n]}}')
