#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the records of oracle.py (--json FILE) as a table: a line for each family.

python3 test/oracle/summary.py FILE ...
"""

import collections
import json
import math
import pathlib
import sys

COLUMNS = ("agrees", "asked", "allowed", "wrong", "absent")


def kind(record: dict) -> str:
    if record["status"] in ("agrees", "asked", "absent"):
        return record["status"]
    return "allowed" if record["allowed"] else "wrong"


def table(records: list[dict]) -> str:
    families: dict[str, list[dict]] = collections.defaultdict(list)
    for record in records:
        families[record["family"]].append(record)
    lines = [f"| | cases | {' | '.join(COLUMNS)} | worst error |", "|---|" + "---:|" * (len(COLUMNS) + 2)]
    for name, rows in [*families.items(), ("all", records)]:
        counts = collections.Counter(kind(row) for row in rows)
        errors = [row["error"] for row in rows if row["status"] in ("agrees", "asked") and not math.isnan(row["error"])]
        cells = [str(counts[column]) for column in COLUMNS]
        lines.append(f"| {name} | {len(rows)} | {' | '.join(cells)} | {f'{max(errors):.1e}' if errors else ''} |")
    return "\n".join(lines)


def main() -> int:
    for path in sys.argv[1:]:
        print(f"## {pathlib.Path(path).stem}\n\n{table(json.loads(pathlib.Path(path).read_text()))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
