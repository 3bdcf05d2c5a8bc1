# ===- check-rows.py - what a tuner writes ----------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""usage: check-rows.py ROWS LOG REPORT JOBS"""

import collections
import hashlib
import json
import pathlib
import sys

rows_path, log_path, report_path, jobs_path = map(pathlib.Path, sys.argv[1:])
rows = json.loads(rows_path.read_text(encoding="utf-8"))
assert rows["tuned"] == 2
for row in rows["rows"]:
    assert row["gpu"] == "h100_sxm", row
    assert row["tokens"][0] <= row["measured"]["tokens"] <= row["tokens"][1], row
    assert (row["tokens"], row["measured"]["tokens"]) in (([12, 22], 16), ([213, 424], 300)), row
    assert (row["measured"]["microseconds"], row["measured"]["noise"]) == (53.0, 0.001), row
    assert row["measured"]["commit"].startswith("moec "), row
    assert row["schedule"]["stages"] == (6 if row["problem"]["gated"] else 5), row
log = [json.loads(line) for line in log_path.read_text(encoding="utf-8").splitlines()]
assert {row["what"] for row in log} == {"schedule", "final", "end"}
sizes = {row["first"]["schedule"]["tile"][0] for row in log}
assert len(sizes) >= 3, sizes
for row in log:
    assert row["ok"] and row["predicted_us"] > 0 and row["us"] > 0, row
    assert row["first"]["problem"]["gated"] and not row["second"]["problem"]["gated"], row
# The key is the digest of what identifies a measurement: a line of a log serves no other device, GPU, range, layer or release.
KEYED = ("what", "layer", "digest", "gpu", "arch", "device", "tokens", "range", "first", "second", "commit")
ANSWER = ("ok", "us", "baseline_us", "noise", "rounds", "check")
for row in log:
    assert set(row) == {"key", *KEYED, "predicted_us", "date", *ANSWER}, sorted(row)
    text = json.dumps({name: row[name] for name in KEYED}, separators=(",", ":"))
    assert row["key"] == hashlib.sha256(text.encode()).hexdigest()[:20], row
# A job that warms the process up, few rounds of each schedule, more of the winners, and all rounds at the ends of ranges.
jobs = [json.loads(line) for line in jobs_path.read_text(encoding="utf-8").splitlines()]
made = collections.Counter((row["what"], row["rounds"]) for row in log)
assert set(made) == {("schedule", 5), ("final", 9), ("end", 5)}, made
assert jobs[0]["rounds"] == 1 and jobs[0]["worse"] == 0, jobs[0]
assert collections.Counter((job["rounds"], job["worse"]) for job in jobs[1:]) == {
    (5, 1.25): made["schedule", 5], (9, 1.25): made["final", 9], (5, 0): made["end", 5]}, made
assert {(job["seed"], job["sample"]) for job in jobs} == {(jobs[0]["seed"], jobs[0]["sample"])}
report = json.loads(report_path.read_text(encoding="utf-8"))
assert report["measured"] == len(log), (report["measured"], len(log))
assert [row["tokens"] for row in report["results"]] == [16, 300]
assert report["quarantined"] == []
