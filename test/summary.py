#!/usr/bin/env python3
# ===- summary.py - one line for all test results ---------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
#
# Reads every JUnit file of a folder (ctest's and lit's), prints the skipped
# tests with their reasons and the failed ones with the end of what they said,
# and ends with the line 'N passed, N failed, N skipped'. Further arguments are
# tiers that could not run; the last line names them. Exit status 0 only if
# nothing failed and something passed: an empty result is a failure, not a
# success.
#
# ===------------------------------------------------------------------------===#

import collections
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree


def skip_reason(case):
    """The sentence that a skipped test gave, from its output or its result."""
    output = case.findtext("system-out") or ""
    said = re.search(r": Skipped\n(.+)", output)  # GoogleTest: GTEST_SKIP() << reason
    if said:
        return said.group(1).strip()
    said = re.search(r"^SKIPPED: (.+)", output, re.MULTILINE)  # our scripts
    if said:
        return said.group(1).strip()
    message = case.find("skipped").get("message") or ""
    return "" if "MATCHED" in message else message


SHOWN_LINES = 40  # of a failed test; its log has the rest
SHOWN_TESTS = 20


def said(case):
    """The end of a failed test's output: ctest keeps it in system-out, lit in the failure itself."""
    parts = [case.findtext("system-out"), case.findtext("failure"), case.findtext("error")]
    lines = "\n".join(part.strip() for part in parts if part).splitlines()
    left_out = [f"({len(lines) - SHOWN_LINES} lines before)"] if len(lines) > SHOWN_LINES else []
    return [line[:400] for line in left_out + lines[-SHOWN_LINES:]]


def read(path):
    """Yields (name, outcome, reason, what a failed one said) for each case of a JUnit file."""
    source = path.stem
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if source.startswith("lit"):
            name = f"{case.get('classname', '')}.{name}".replace("moec.", "", 1)
        status = case.get("status")
        if case.find("failure") is not None or case.find("error") is not None or status == "fail":
            yield f"{source}: {name}", "failed", "", said(case)
        elif case.find("skipped") is not None:
            yield f"{source}: {name}", "skipped", skip_reason(case), []
        elif status in (None, "run"):
            yield f"{source}: {name}", "passed", "", []
        else:  # "notrun" without a reason: a missing program, say
            yield f"{source}: {name}", "failed", f"did not run (status {status})", said(case)


def main(folder, *absent):
    count = collections.Counter()
    skipped = collections.defaultdict(list)
    failed = []
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        for name, outcome, reason, output in read(path):
            count[outcome] += 1
            if outcome == "skipped":
                skipped[reason or "no reason given"].append(name)
            elif outcome == "failed":
                failed.append((f"{name} {reason}".strip(), output))
    for reason, names in sorted(skipped.items()):
        print(f"skipped ({reason}):")
        for name in names:
            print(f"  {name}")
    for name, output in failed[:SHOWN_TESTS]:
        print(f"---- the end of {name}")
        for line in output:
            print(f"  {line}")
    for name, _ in failed:
        print(f"failed: {name}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped{'; not run: ' if absent else ''}{', '.join(absent)}")
    return 0 if count["passed"] and not count["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
