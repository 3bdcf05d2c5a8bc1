"""Prints the predicted operations of a kernel by explain's reports, as parts of those of the first report."""

import fractions
import json
import pathlib
import sys


def flops(path):
    (target,) = json.loads(pathlib.Path(path).read_text())["targets"]
    found = {kernel["flops"] for variant in target["variants"] for row in variant.get("predictions", ())
             for kernel in row["kernels"] if kernel["kernel"].endswith(sys.argv[1])}
    (number,) = found
    return int(number)


numbers = [flops(path) for path in sys.argv[2:]]
parts = [fractions.Fraction(number, numbers[0]) for number in numbers]
print(*(f"{part.numerator}/{part.denominator}" for part in parts))
