# ===- kill.py - a tuner that is killed goes on -----------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Kills moec tune by SIGKILL at moments drawn with a seed until a call ends by itself.

usage: kill.py FOLDER MEASURE moec tune ...
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time


def alive(measure):
    """Processes that measure with this program."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:2] == [measure.encode()]:
            found.append(path.parent.name)
    return found


def gone(measure):
    """Whether all have ended with their tuner, which the system tells them."""
    for _ in range(500):
        if not alive(measure):
            return True
        time.sleep(0.02)
    return False


def main():
    folder, measure, command = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    log, jobs = folder / "log.jsonl", folder / "jobs.txt"
    environment = dict(os.environ, MOEC_MEASURE=measure, FAKE_JOBS=str(jobs), FAKE_SECONDS="0.1")
    command += [f"--log={log}", f"--out={folder / 'rows.json'}"]
    draw = random.Random(7)
    kills, before = 0, 0
    for _ in range(100):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            # Late kills leave more behind than early ones.
            out, _ = process.communicate(timeout=draw.uniform(0.2, 1.0) + 0.15 * kills)
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            assert gone(measure), f"still measuring: {alive(measure)}"
            lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
            assert len(lines) >= before, "the log has lost lines"
            before = len(lines)
            # The rows appear at once, and they are the last that a tuner does.
            if (folder / "rows.json").exists():
                json.loads((folder / "rows.json").read_text(encoding="utf-8"))
    else:
        sys.exit("no call ended by itself")
    assert process.returncode == 0, process.returncode
    assert kills >= 2, f"{kills} kills show little"
    rows = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    doubled = [key for key, times in collections.Counter(row["key"] for row in rows).items() if times > 1]
    assert not doubled, f"measured twice: {doubled}"
    # A call starts with a job that warms the process up, and a kill may cost one.
    made = len(jobs.read_text(encoding="utf-8").splitlines())
    assert made <= len(rows) + 4 * (kills + 1), f"{made} jobs for {len(rows)} measurements"
    left = [path.name for path in folder.iterdir() if ".work" in path.name]
    assert not left, f"left behind: {left}"
    print(out)
    print("killed, and went on")


main()
