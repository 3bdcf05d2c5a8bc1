"""A result of moec-bench for the layer of a report, with made-up times on an H100."""

import json
import sys

report = json.load(open(sys.argv[1]))
target = report["targets"][0]
cells = [
    {
        "tokens": variant["tokens"][1],
        "us": 10.0 + index,
        "floor_us": 5.0,
        "bytes": 1e6,
        "flops": 1e8,
        "variant": variant["name"],
        "kernels": [{"name": kernel["name"], "entry": kernel["entry"]} for kernel in variant["kernels"]],
    }
    for index, variant in enumerate(target["variants"])
]
package = {"package": "small.moec", "name": report["name"], "arch": target["arch"], "layer": report["layer"], "cells": cells}
bench = {"moec_bench": 3, "device": "NVIDIA H100 80GB HBM3", "suspect": False, "routing": "uniform", "packages": [package]}
print(json.dumps(bench))
