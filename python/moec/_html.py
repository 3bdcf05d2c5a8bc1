# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HTML of reports and packages for notebooks. The drawing has token counts from left to right and kernels from top to bottom."""

import html
import math
from typing import NamedTuple

WIDTH, ROW, LEFT, HEAD = 640, 22, 8, 18
COLORS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#b279a2")


class Range(NamedTuple):
    """The kernels of a range of token counts, both ends inclusive, each with its name and a line about it."""

    first: int
    last: int
    kernels: list[tuple[str, str]]


def title(text: str, more: str) -> str:
    return f"<b>{html.escape(text)}</b>" + (f"<div>{html.escape(more)}</div>" if more else "")


def section(text: str) -> str:
    return f"<div style='margin-top:6px'>{html.escape(text)}</div>"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def ranges(found: list[Range]) -> str:
    """An SVG: a column for each range on a logarithmic axis, a box for each of its kernels in order."""
    if not found:
        return ""
    most = max(each.last for each in found)
    deepest = max(len(each.kernels) for each in found)
    scale = (WIDTH - 2 * LEFT) / math.log2(most + 1)
    height = HEAD + ROW * max(deepest, 1) + 4
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' "
        f"viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='10'>"
    ]
    colors: dict[str, str] = {}
    for each in found:
        begin, end = LEFT + scale * math.log2(each.first), LEFT + scale * math.log2(each.last + 1)
        parts.append(f"<text x='{begin:.1f}' y='{HEAD - 6}' fill='currentColor'>{each.first}</text>")
        for index, (name, line) in enumerate(each.kernels):
            what = line.split(",", 1)[0]
            color = colors.setdefault(what, COLORS[len(colors) % len(COLORS)])
            top, width = HEAD + ROW * index, end - begin - 2
            letters = max(int(width / 6), 0)
            parts.append(
                f"<g><title>{html.escape(f'{each.first} to {each.last} tokens: {name}: {line}')}</title>"
                f"<rect x='{begin:.1f}' y='{top}' width='{width:.1f}' height='{ROW - 3}' rx='2' fill='{color}'/>"
                f"<text x='{begin + 3:.1f}' y='{top + 13}' fill='white'>{html.escape(what[:letters])}</text></g>"
            )
    parts.append(f"<text x='{WIDTH - LEFT}' y='{HEAD - 6}' text-anchor='end' fill='currentColor'>{most} tokens</text></svg>")
    return "".join(parts)


def page(parts: list[str]) -> str:
    return "<div>" + "".join(parts) + "</div>"
