"""Prints what a package's manifest says of communication between ranks."""

import json
import sys

with open(f"{sys.argv[1]}/manifest.json", encoding="utf-8") as file:
    print(json.dumps(json.load(file)["layer"]["communication"], sort_keys=True))
