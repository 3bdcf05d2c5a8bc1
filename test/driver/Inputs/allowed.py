"""Compares the times of a realization that explain would take if it were allowed with those of a report that allows it."""

import json
import pathlib
import sys

NOW, ALLOWED = (json.loads(pathlib.Path(path).read_text())["targets"][0] for path in sys.argv[1:])


def times(target):
    return {row["tokens"]: row["microseconds"] for variant in target["variants"] for row in variant.get("predictions", ())}


now, then, said = times(NOW), times(ALLOWED), NOW["allowed"]
assert said["realization"] == ALLOWED["realization"] != NOW["realization"], said
for row in said["predicted"]:
    factor = then[row["tokens"]] / now[row["tokens"]]
    assert abs(row["factor"] - factor) < 0.0051, (row, factor)
assert any(row["factor"] < 0.95 for row in said["predicted"]), said
print(len(said["predicted"]), "factors are those of the times")
