#!/usr/bin/env python3
# ===- summary.py - one line for all test results ---------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
#
# Reads every JUnit file of a folder (ctest's and lit's), prints the skipped
# tests with their reasons and the failed ones, and ends with the line
# 'N passed, N failed, N skipped'. Exit status 0 only if nothing failed and
# something passed: an empty result is a failure, not a success.
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


def read(path):
    """Yields (name, outcome, reason) for each case of a JUnit file."""
    source = path.stem
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if source.startswith("lit"):
            name = f"{case.get('classname', '')}.{name}".replace("moec.", "", 1)
        status = case.get("status")
        if case.find("failure") is not None or case.find("error") is not None or status == "fail":
            yield f"{source}: {name}", "failed", ""
        elif case.find("skipped") is not None:
            yield f"{source}: {name}", "skipped", skip_reason(case)
        elif status in (None, "run"):
            yield f"{source}: {name}", "passed", ""
        else:  # "notrun" without a reason: a missing program, say
            yield f"{source}: {name}", "failed", f"did not run (status {status})"


def main(folder):
    count = collections.Counter()
    skipped = collections.defaultdict(list)
    failed = []
    for path in sorted(pathlib.Path(folder).glob("*.xml")):
        for name, outcome, reason in read(path):
            count[outcome] += 1
            if outcome == "skipped":
                skipped[reason or "no reason given"].append(name)
            elif outcome == "failed":
                failed.append(f"{name} {reason}".strip())
    for reason, names in sorted(skipped.items()):
        print(f"skipped ({reason}):")
        for name in names:
            print(f"  {name}")
    for name in failed:
        print(f"failed: {name}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 0 if count["passed"] and not count["failed"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
