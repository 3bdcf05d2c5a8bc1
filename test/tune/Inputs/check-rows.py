# ===- check-rows.py - what a tuner writes ----------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""usage: check-rows.py ROWS LOG REPORT"""

import json
import pathlib
import sys

rows_path, log_path, report_path = map(pathlib.Path, sys.argv[1:])
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
report = json.loads(report_path.read_text(encoding="utf-8"))
assert report["measured"] == len(log), (report["measured"], len(log))
assert [row["tokens"] for row in report["results"]] == [16, 300]
assert report["quarantined"] == []
