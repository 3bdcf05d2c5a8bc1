# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""HTML for notebooks. Pictures are the library's: the page of a report, in a frame of its own."""

import html

HEIGHT = 640


def frame(page: str) -> str:
    """A page inside of a notebook: neither's style reaches the other."""
    return (
        f"<iframe title='moec explain' sandbox srcdoc='{html.escape(page)}' width='100%' height='{HEIGHT}' "
        "style='border:0;resize:vertical'></iframe>"
    )


def title(text: str, more: str) -> str:
    return f"<b>{html.escape(text)}</b>" + (f"<div>{html.escape(more)}</div>" if more else "")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Nothing where there are no rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def block(parts: list[str]) -> str:
    return "<div>" + "".join(parts) + "</div>"
