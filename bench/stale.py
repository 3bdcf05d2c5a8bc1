#!/usr/bin/env python3
# ===- stale.py - are the newest results of this tree? -----------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Prints a line when the newest result of bench/results was measured with other templates, runtime or compiler than
HEAD's. A note, not a failure: the exit status is 0."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREES = ("templates", "runtime", "compiler")


def tree(name):
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "rev-parse", f"HEAD:{name}"], capture_output=True, text=True, check=False)
    except OSError:  # no git on this machine
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def main():
    newest = None
    for path in sorted((ROOT / "bench" / "results").glob("*.json")):
        provenance = json.loads(path.read_text(encoding="utf-8")).get("provenance")
        if provenance and (newest is None or provenance["date"] >= newest[1]["date"]):
            newest = (path, provenance)
    if newest is None:
        print("bench: no results yet")
        return
    path, provenance = newest
    hashes = {name: tree(name) for name in TREES}
    changed = [f"{name}/" for name in TREES if hashes[name] != provenance.get(name)]
    if not all(hashes.values()):
        print(f"bench: no git here, so nobody knows whether {path.name} is of this tree")
    elif changed:
        print(f"bench: {path.name} was measured with other {', '.join(changed)} than HEAD's")
    else:
        print(f"bench: {path.name} is of this tree")


if __name__ == "__main__":
    main()
