# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The protocol of programmatic launches, read from a kernel's PTX: every way to an end of the kernel passes
griddepcontrol.wait, and no way to a write of global memory, or to griddepcontrol.launch_dependents, avoids it. What is read
before the wait is not looked at.

A kernel that awaits counters (kAwaited) runs beside its predecessor, which has waited itself: all kernels before that have
ended, and no memory that it reads is written. Producers look at the counter of what the predecessor has done, and tell the
others by barriers of shared memory. So stores may follow such a barrier in place of the wait, the cursor with which tiles are
taken is free at once, and there must be an acquire of a counter. No counter is read by a weak load, which would race with
those who count. Ends and launch_dependents keep to the rule.

A group of wgmma that reads weights from registers begins with a fence, which orders what was written to them before.

What a CTA with a copy engine stores to its shared memory and tells its cluster is fenced before the barrier behind: the engine may
write there then. A relaxed load of a counter has a fence behind it.

A warp that drops lines of the cache has met between what it read and the discard, and meets again before it arrives at a barrier."""

import re

WAIT = "griddepcontrol.wait"
TOLD = "mbarrier.try_wait"
ACQUIRE = "ld.acquire.gpu.global"
CURSOR = "atom.global.add"
# An entry of the tile list, whose last word is a counter.
WEAK_ENTRY = re.compile(r"ld\.global\.(cg\.)?v4\.[bsu]32\b")
LAUNCH = "griddepcontrol.launch_dependents"
FENCE, COMMIT = "wgmma.fence", "wgmma.commit_group"
# Sums and weights are lists of registers.
MULTIPLY = re.compile(r"wgmma\.mma_async\S* \{[^{}]*\}, \{")
# An entry that may say that rows are there; the fence without which it does not say so.
COUNTED, COUNT_FENCE = re.compile(r"ld\.relaxed\.gpu\.global\.v4\b"), "fence.acq_rel.gpu"
ENGINE, ENGINE_FENCE = "cp.async.bulk", "fence.proxy.async"
CLUSTER_ARRIVE = "barrier.cluster.arrive"
# Behind these, what was stored before is not what a cluster is told.
MET = re.compile(r"(bar|barrier)\.sync|mbarrier\.|wgmma\.")
# A line that goes unwritten, what a warp may have read from it, and where the lanes of a warp meet.
DISCARD, READ, WARP_MET, ARRIVE = "discard.", "ld.global.cg", "bar.warp.sync", "mbarrier.arrive"
LABEL = re.compile(r"^([\w$]+):$")


def writes_global(name):
    """Whether the instruction of this name may write global memory; a generic address may be a global one."""
    if name.startswith("cp."):
        return ".global.shared" in name  # the destination stands first
    return name.split(".")[0] in ("st", "red", "atom", "multimem", "discard") and not re.search(r"\.(shared|local|param)\b", name)


def statements(ptx):
    """[(kind, blocks around it, text)] of the entry: labels and code. Inline assembly opens blocks with labels of their own."""
    body = ptx[re.search(r"\.entry\b", ptx).start():]
    body = re.sub(r"//[^\n]*|/\*.*?\*/", " ", body, flags=re.S)
    body = body[body.index("{"):]
    result, blocks, count = [], [], 0
    # A brace, a label, an instruction (with lists in braces).
    for piece in re.finditer(r"\s*[{}]|\s*[\w$]+:(?!:)|[^;{}]*(?:\{[^{};]*\}[^;{}]*)+;|[^;{}]+;", body):
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


def declares_counters(source):
    """Whether this text of a kernel is of one that awaits counters."""
    return bool(re.search(r"\bkAwaited = [1-9]", source))


class Flow:
    """The statements of a kernel, and which may follow which."""

    def __init__(self, ptx):
        self.code = statements(ptx)
        self.places = {(text, blocks): i for i, (kind, blocks, text) in enumerate(self.code) if kind == "label"}

    def texts(self):
        return [text for _, _, text in self.code]

    def place(self, name, blocks):
        for depth in range(len(blocks), -1, -1):
            if (name, blocks[:depth]) in self.places:
                return self.places[name, blocks[:depth]]
        raise ValueError(f"unknown label {name}")

    def parts(self, i):
        """(whether it has a guard, its name, its operands) of a statement."""
        text = self.code[i][2]
        guarded = text.startswith("@")
        name, *operands = (text.split(None, 1)[1] if guarded else text).split(None, 1)
        return guarded, name, operands[0] if operands else ""

    def followers(self, i):
        """The statements that may come next."""
        kind, blocks, _ = self.code[i]
        if kind != "code":
            return [i + 1]
        guarded, name, operands = self.parts(i)
        jumps = name == "bra" or name.startswith("bra.")
        ends = not guarded and (jumps or name in ("ret", "exit", "trap"))
        return ([self.place(operands.strip(), blocks)] if jumps else []) + ([] if ends else [i + 1])

    def walk(self, starts, step):
        """Follows all ways from (statement, state). step(i, state) is the state after a statement, or None if the way is of no
        more interest. `i` is the number of statements where the kernel's end is reached."""
        seen, pending = set(), list(starts)
        while pending:
            i, state = pending.pop()
            if (i, state) in seen:
                continue
            seen.add((i, state))
            if i >= len(self.code):
                step(i, state)
                continue
            if self.code[i][0] == "code":
                state = step(i, state)
            if state is not None:
                pending += [(next_one, state) for next_one in self.followers(i)]


def counter_violations(flow):
    """Reads of counters that other CTAs count up."""
    if not any(text.startswith(ACQUIRE) for text in flow.texts()):
        yield f"it awaits counters, but no {ACQUIRE} reads one"
    for text in flow.texts():
        if WEAK_ENTRY.match(text):
            yield f"'{text}' reads an entry that others count up, by a weak load"
    counted = [(i, "") for i, (kind, _, text) in enumerate(flow.code) if kind == "code" and COUNTED.match(text)]
    fences = []

    def step(i, state):
        if i < len(flow.code) and flow.parts(i)[1].startswith(COUNT_FENCE):
            fences.append(i)
            return None
        return state

    flow.walk(counted, step)
    if counted and not fences:
        yield f"an entry's counter is read, and no {COUNT_FENCE} follows"


def exchange_violations(flow):
    """A store is "stored", and "told" when the cluster has met."""
    found = []

    def step(i, state):
        if i >= len(flow.code):
            return None
        name = flow.parts(i)[1]
        if name.startswith("st.shared") and "::cluster" not in name:
            return state or "stored"
        if state == "stored" and MET.match(name) or name.startswith(ENGINE_FENCE):
            return ""
        if name.startswith(CLUSTER_ARRIVE):
            if state == "told":
                found.append(f"stores are told to a cluster without {ENGINE_FENCE} behind them")
            return "told" if state else ""
        return state

    if any(ENGINE in text for text in flow.texts()):
        flow.walk([(0, "")], step)
    return found


def discard_violations(flow):
    """A lane has "read" or "dropped" what others of its warp share, until they meet."""
    found = []

    def step(i, state):
        if i >= len(flow.code):
            return None
        text, name = flow.code[i][2], flow.parts(i)[1]
        if name.startswith(WARP_MET):
            return ""
        if name.startswith(DISCARD):
            if state == "read":
                found.append(f"'{text}' drops what its warp may not have read")
            return "dropped"
        if name.startswith(ARRIVE) and state == "dropped":
            found.append(f"{ARRIVE} follows a discard before its warp has met")
        return "read" if name.startswith(READ) else state

    if any(DISCARD in text for text in flow.texts()):
        flow.walk([(0, "")], step)
    return found


def wait_violations(flow, awaits_counters):
    """Statements that are reached without griddepcontrol.wait. The state: whether a barrier told that a counter was seen."""
    found = []

    def step(i, told):
        if i >= len(flow.code):
            found.append("the kernel's end is reached without griddepcontrol.wait")
            return None
        text = flow.code[i][2]
        guarded, name, _ = flow.parts(i)
        if name == WAIT and not guarded:
            return None
        told = told or (awaits_counters and name.startswith(TOLD) and not guarded)
        if name in ("ret", "exit"):
            found.append(f"'{text}' is reached without griddepcontrol.wait")
        elif name == LAUNCH:
            found.append("griddepcontrol.launch_dependents comes before griddepcontrol.wait")
        elif writes_global(name) and not (awaits_counters and (told or name.startswith(CURSOR))):
            found.append(f"'{text[:100]}' may write global memory before griddepcontrol.wait")
        elif name.startswith("brx") or name.startswith("call"):
            found.append(f"'{text[:100]}' cannot be followed")
        return told

    flow.walk([(0, False)], step)
    return found


def group_violations(flow):
    """Groups of wgmma without a fence before them. The state: whether a fence came after the last group."""
    found = []

    def step(i, fenced):
        if i >= len(flow.code):
            return None
        name = flow.parts(i)[1]
        if MULTIPLY.match(flow.code[i][2]) and not fenced:
            found.append(f"'{name}' begins a group without {FENCE}")
        return name.startswith(FENCE) or (fenced and not name.startswith(COMMIT))

    if any(MULTIPLY.match(text) for text in flow.texts()):
        flow.walk([(0, False)], step)
    return found


def violations(ptx, awaits_counters=False):
    """Sentences; an empty list where the kernel keeps the protocol."""
    flow = Flow(ptx)
    found = [*(counter_violations(flow) if awaits_counters else ()), *exchange_violations(flow), *discard_violations(flow),
             *wait_violations(flow, awaits_counters), *group_violations(flow)]
    return list(dict.fromkeys(found))
