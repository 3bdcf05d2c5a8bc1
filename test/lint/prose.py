#!/usr/bin/env python3
# ===- prose.py - short sentences, and comments that begin with a subject ------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Finds long sentences in documents, and comments that begin with Of, Those, What or Where.

A sentence of a document has at most 35 words. Code blocks are skipped. A table's cell and a list's item are texts of their
own. A code span is one word, and so is a list of code spans.
"""

import io
import re
import sys
import tokenize

from lintlib import CPP, Finding, main, read_lines

MOST_WORDS = 35
# Tablegen, `moec list`, bench/run/summarize.py and counters_note.py print these.
GENERATED = ("docs/generated/", "bench/results/2", "bench/notes/counters-")

FENCE = re.compile(r"^\s*(```+)")
ITEM = re.compile(r"^\s*(?:[-*●○]|\d+\.)\s+")
SPAN = re.compile(r"`[^`]*`")
SPANS = re.compile(r"(?:CODE(?: \w+)?[,;] (?:and |or )?)+CODE")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"[.!?](?=[\s)]|$)")
WORD = re.compile(r"\w")

OPENING = re.compile(r"(?:Of|Those|What|Where)\b")
SLASHES = re.compile(r"//[/!]?<?\s*(.*)")


def texts(lines):
    """(line number, text) of each paragraph, list item and table cell outside of code."""
    fence, start, held, blank = None, 0, [], True
    for number, line in enumerate([*lines, ""], 1):
        mark = FENCE.match(line)
        if fence or mark:
            opens = fence is None
            fence = mark.group(1) if opens else None if mark and mark.group(1).startswith(fence) else fence
            if not opens:
                continue
        row = line.lstrip().startswith("|")
        code = blank and line.startswith("    ") and not held and not ITEM.match(line)
        ends = not line.strip() or row or mark or line.startswith("#") or ITEM.match(line)
        if ends and held:
            yield start, " ".join(held)
            held = []
        if row:
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                yield number, cell
        elif line.strip() and not mark and not code:
            start = start if held else number
            held.append(ITEM.sub("", line).strip())
        blank = not line.strip() or (code and blank)


def sentences(text):
    """The sentences of a text, with a code span as one word."""
    text = SPAN.sub("CODE", LINK.sub(r"\1", text))
    text = SPANS.sub("CODE", text)
    return [sentence for sentence in END.split(text) if sentence.strip()]


def check_document(root, path):
    for number, text in texts(read_lines(root, path)):
        for sentence in sentences(text):
            count = sum(bool(WORD.search(word)) for word in sentence.split())
            if count > MOST_WORDS:
                yield Finding(path, number, f"a sentence of {count} words, at most {MOST_WORDS}: '{sentence.strip()[:60]}...'")


def comments_with_slashes(lines):
    """(line number, text) of each comment; lines of comments that follow each other are one."""
    before = False
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare.startswith("//"):
            text = SLASHES.match(bare).group(1)
            if not before:
                yield number, text
            before = bool(text)
            continue
        before = False
        # A string may hold slashes; a comment behind code has a blank in front.
        behind = re.search(r'\s(//.*)$', re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))
        if behind:
            yield number, SLASHES.match(behind.group(1)).group(1)


def comments_with_hashes(lines):
    before = False
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare.startswith("#"):
            text = bare.lstrip("#").strip()
            if not before:
                yield number, text
            before = bool(text)
            continue
        before = False
        behind = re.search(r"\s#\s(.*)$", re.sub(r'"(?:[^"\\]|\\.)*"', '""', line))
        if behind:
            yield number, behind.group(1)


def comments_of_python(lines):
    """Comments and docstrings."""
    last, docstring = 0, True
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
            number = token.start[0]
            if token.type == tokenize.COMMENT:
                text = token.string.lstrip("#").strip()
                own_line = lines[number - 1].strip().startswith("#")
                if not own_line or last != number - 1:
                    yield number, text
                last = number if own_line and text else 0
            elif token.type == tokenize.STRING and docstring:
                yield number, token.string.lstrip("rRbBuU").strip("\"'").strip()
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                docstring = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    except (tokenize.TokenError, SyntaxError):
        pass


def check_source(root, path):
    lines = read_lines(root, path)
    if path.endswith(".py"):
        found = comments_of_python(lines)
    elif path.endswith((".cmake", "CMakeLists.txt")):
        found = comments_with_hashes(lines)
    elif path.endswith((*CPP, ".c", ".td")):
        found = comments_with_slashes(lines)
    else:
        return
    for number, text in found:
        if OPENING.match(text):
            yield Finding(path, number, f"a comment begins with '{text.split()[0]}': begin with its subject")


def look(root, path):
    if not path.endswith(".md"):
        return check_source(root, path)
    return () if path.startswith(GENERATED) else check_document(root, path)


def check(root, files):
    for path in files:
        yield from look(root, path)


if __name__ == "__main__":
    sys.exit(main(check))
