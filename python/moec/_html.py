# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds HTML for notebooks. The page of a report comes from the library and is shown in its own frame."""

import html

HEIGHT = 640


def frame(page: str) -> str:
    """Embeds a page in a notebook, isolated so that the page and the notebook do not affect each other's style."""
    return (
        f"<iframe title='moec explain' sandbox srcdoc='{html.escape(page)}' width='100%' height='{HEIGHT}' "
        "style='border:0;resize:vertical'></iframe>"
    )


def title(text: str, more: str) -> str:
    return f"<b>{html.escape(text)}</b>" + (f"<div>{html.escape(more)}</div>" if more else "")


def table(heads: list[str], rows: list[list[str]]) -> str:
    """Builds a table, or "" if there are no rows."""
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def block(parts: list[str]) -> str:
    return "<div>" + "".join(parts) + "</div>"
