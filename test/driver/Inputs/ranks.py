"""Prints the first and last rank of a package of all, and compares it with a package of one."""

import json
import pathlib
import sys

ALL, ONE = (json.loads((pathlib.Path(folder) / "manifest.json").read_text()) for folder in sys.argv[1:])
print(len(ALL["ranks"]), "ranks")
# The IR of the layer names its ranks, too.
for manifest in (ALL, ONE):
    del manifest["files"]["layer.mlir"]
for rank in (ALL["ranks"][0], ALL["ranks"][-1]):
    print(json.dumps(rank, sort_keys=True))
if ONE["ranks"] == ALL["ranks"][-1:] and {**ONE, "ranks": []} == {**ALL, "ranks": []}:
    print("equal but for the ranks")
