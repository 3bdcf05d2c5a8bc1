# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The protocol of programmatic launches, read from a kernel's PTX: every way to an end of the kernel passes
griddepcontrol.wait, and no way to a write of global memory, or to griddepcontrol.launch_dependents, avoids it. What is read
before the wait is not looked at."""

import re

WAIT = "griddepcontrol.wait"
LAUNCH = "griddepcontrol.launch_dependents"
LABEL = re.compile(r"^([\w$]+):$")


def writes_global(name):
    """Whether the instruction of this name may write global memory; a generic address may be a global one."""
    if name.startswith("cp."):
        return ".global.shared" in name  # the destination stands first
    return name.split(".")[0] in ("st", "red", "atom", "multimem") and not re.search(r"\.(shared|local|param)\b", name)


def statements(ptx):
    """[(kind, blocks around it, text)] of the entry: labels and code. Inline assembly opens blocks with labels of their own."""
    body = ptx[re.search(r"\.entry\b", ptx).start():]
    body = re.sub(r"//[^\n]*|/\*.*?\*/", " ", body, flags=re.S)
    body = body[body.index("{"):]
    result, blocks, count = [], [], 0
    # A brace, a label, an instruction (with a list in braces).
    for piece in re.finditer(r"\s*[{}]|\s*[\w$]+:(?!:)|[^;{}]*\{[^{};]*\}[^;{}]*;|[^;{}]+;", body):
        text = " ".join(piece[0].split())
        if text == "{":
            count += 1
            blocks.append(count)
        elif text == "}":
            blocks.pop()
            if not blocks:
                break
        elif LABEL.match(text):
            result.append(("label", tuple(blocks), text[:-1]))
        elif not text.startswith("."):
            result.append(("code", tuple(blocks), text.rstrip(";").strip()))
    return result


def violations(ptx):
    """Sentences; an empty list where the kernel keeps the protocol."""
    code = statements(ptx)
    places = {}
    for i, (kind, blocks, text) in enumerate(code):
        if kind == "label":
            places[text, blocks] = i

    def place(name, blocks):
        for depth in range(len(blocks), -1, -1):
            if (name, blocks[:depth]) in places:
                return places[name, blocks[:depth]]
        raise ValueError(f"unknown label {name}")

    # Statements that are reached without a wait behind them.
    found, seen, pending = [], set(), [0]
    while pending:
        i = pending.pop()
        if i in seen:
            continue
        seen.add(i)
        if i >= len(code):
            found.append("the kernel's end is reached without griddepcontrol.wait")
            continue
        kind, blocks, text = code[i]
        if kind != "code":
            pending.append(i + 1)
            continue
        guarded = text.startswith("@")
        words = (text.split(None, 1)[1] if guarded else text).split(None, 1)
        name = words[0]
        if name == WAIT and not guarded:
            continue
        if name in ("ret", "exit"):
            found.append(f"'{text}' is reached without griddepcontrol.wait")
        elif name == LAUNCH:
            found.append("griddepcontrol.launch_dependents comes before griddepcontrol.wait")
        elif writes_global(name):
            found.append(f"'{text[:100]}' may write global memory before griddepcontrol.wait")
        elif name.startswith("brx") or name.startswith("call"):
            found.append(f"'{text[:100]}' cannot be followed")
        if name in ("ret", "exit", "trap") and not guarded:
            continue
        if name == "bra" or name.startswith("bra."):
            pending.append(place(words[1].strip(), blocks))
            if not guarded:
                continue
        pending.append(i + 1)
    return found
