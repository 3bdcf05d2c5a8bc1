# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the text of a golden test with its file."""

import difflib

MOST_LINES, LONGEST_LINE = 80, 400


def judge(path, text, update, told, context=1):
    """Writes the text if `update` is set; otherwise prints how it differs from the file. `told`: what was compared. Returns an exit status."""
    if update:
        path.write_text(text)
        return 0
    difference = list(difflib.unified_diff(path.read_text().splitlines(), text.splitlines(), path.name, "today's", lineterm="", n=context))
    print("\n".join(line[:LONGEST_LINE] for line in difference[:MOST_LINES]))
    print(f"{told}: {f'not as in {path.name}; --update writes it anew' if difference else f'all as in {path.name}'}")
    return 1 if difference else 0
