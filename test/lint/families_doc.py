#!/usr/bin/env python3
# ===- families_doc.py - families.md is what the importers read -------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Each configuration class of transformers with experts is a row of Families.cpp, or has a reason why it is none.

The classes stand in test/oracle/classes.json, written by classes.py there; the reasons in unclaimed.json. Makes
docs/reference/families.md of both; --fix rewrites it.
"""

import json
import re
import sys

from lintlib import Finding, main

TABLE, CLASSES, REASONS, PAGE = (
    "compiler/import/Families.cpp",
    "test/oracle/classes.json",
    "test/oracle/unclaimed.json",
    "docs/reference/families.md",
)
COLUMN = re.compile(r'\.{}\s*=\s*((?:"[^"]*"\s*)+)')
# A class that stands inside another, and the model type whose row reads it.
INNER = {"DbrxFFNConfig": "dbrx"}


def words(text, column):
    """Each word of a column of the table."""
    return {
        word
        for match in re.finditer(COLUMN.pattern.replace("{}", column), text)
        for word in "".join(re.findall(r'"([^"]*)"', match.group(1))).split()
    }


def page(data, reasons, types):
    lines = [
        "# Families of models",
        "",
        f"The table lists the configuration classes of transformers {data['transformers']} that mention experts. The last column says",
        "whether moec imports the class. \"the block\" is the MoE block of that class in transformers, the source of the comparison.",
        "",
        "`test/lint/families_doc.py --fix` writes the table from `compiler/import/Families.cpp` and `test/oracle/classes.json`.",
        "",
        "| class | model type | imported |",
        "|---|---|---|",
    ]
    for row in data["classes"]:
        kind = INNER.get(row["class"], row["model_type"])
        lines.append(f"| `{row['class']}` | `{kind}` | {'yes' if kind in types else 'no: ' + reasons.get(kind, '?')} |")
    return "\n".join(lines) + "\n"


def check(root, files, options):
    text = (root / TABLE).read_text()
    types = words(text, "modelTypes")
    data = json.loads((root / CLASSES).read_text())
    reasons = json.loads((root / REASONS).read_text())
    kinds = [INNER.get(row["class"], row["model_type"]) for row in data["classes"]]
    for kind in kinds:
        if kind not in types and kind not in reasons:
            yield Finding(CLASSES, 1, f"'{kind}' is no row of {TABLE} and has no reason in {REASONS}")
    for kind in reasons:
        if kind in types or kind not in kinds:
            yield Finding(REASONS, 1, f"'{kind}' is {'imported' if kind in types else 'no class'}: it needs no reason")
    wanted = page(data, reasons, types)
    file = root / PAGE
    if options.fix:
        file.write_text(wanted)
    elif not file.exists() or file.read_text() != wanted:
        yield Finding(PAGE, 1, "is not what the table says; test/lint/families_doc.py --fix")


def add_options(parser):
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
