#!/usr/bin/env python3
# ===- status_doc.py - the tables of runs are those of runs.csv --------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""bench/results/runs.csv has a row for each run on a device. The newest run of each device stands in docs/status.md.

bench/results/README.md has all of them. The tables stand between `<!-- runs -->` and `<!-- end -->`; --fix writes them anew.
"""

import csv
import io
import sys

from lintlib import Finding, main

TABLE, NEWEST, HISTORY = "bench/results/runs.csv", "docs/status.md", "bench/results/README.md"
BEGIN, END = "<!-- runs -->\n", "<!-- end -->"


def history(rows):
    yield "| date | device | commit | run | cells | targets met | faster than the best other | passed | failed | not run | note |"
    yield "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"
    for row in rows:
        yield "| " + " | ".join(row.values()) + " |"


def newest(rows):
    latest = {}
    for row in sorted(rows, key=lambda row: row["date"]):
        latest[row["device"]] = row
    yield "| device | date | commit | checks passed | failed | not run | report |"
    yield "| --- | --- | --- | ---: | ---: | ---: | --- |"
    for device, row in latest.items():
        report = f"[{row['run']}](../bench/results/{row['date']}-{row['run']}.md)"
        yield f"| {device} | {row['date']} | {row['commit']} | {row['passed']} | {row['failed']} | {row['not_run']} | {report} |"


def check(root, files, options):
    if TABLE not in files:
        return
    rows = list(csv.DictReader(io.StringIO((root / TABLE).read_text())))
    for path, lines in ((NEWEST, newest(rows)), (HISTORY, history(rows))):
        text = (root / path).read_text() if (root / path).is_file() else ""
        if text.count(BEGIN) != 1 or END not in text.split(BEGIN)[1]:
            yield Finding(path, 1, f"has no '{BEGIN.strip()}' and '{END}' for the table of {TABLE}")
            continue
        before, rest = text.split(BEGIN)
        wanted = before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1]
        if options.fix:
            (root / path).write_text(wanted)
        elif text != wanted:
            yield Finding(path, text.count("\n", 0, text.index(BEGIN)) + 1, f"is not what {TABLE} says; test/lint/status_doc.py --fix")


def add_options(parser):
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
