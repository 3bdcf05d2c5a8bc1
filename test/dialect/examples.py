#!/usr/bin/env python3
"""Runs the ```mlir examples of .td files through moec-opt --verify-roundtrip.

Usage: examples.py MOEC_OPT FILE.td...
"""

import re
import subprocess
import sys
import textwrap


def main():
    opt, failed = sys.argv[1], False
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        examples = re.findall(r"```mlir\n(.*?)```", text, re.DOTALL)
        name = path.rsplit("/", 1)[-1]
        for number, example in enumerate(examples, 1):
            run = subprocess.run(
                [opt, "--verify-roundtrip", "-"],
                input=textwrap.dedent(example),
                capture_output=True,
                text=True,
            )
            if run.returncode != 0:
                failed = True
                print(f"{path}: example {number} fails:\n{example}\n{run.stderr}")
        # A definition without an example names the one in which it is shown.
        for body in re.split(r"\ndef Moe_", text)[1:]:
            described = re.search(r"let description = \[\{(.*?)\}\];", body, re.DOTALL)
            if not described:
                continue
            if "```mlir" not in described.group(1) and "` shows " not in " ".join(
                described.group(1).split()
            ):
                failed = True
                print(f"{path}: {body.split(':')[0].strip()} has no example")
        if not failed:
            print(f"{name}: {len(examples)} examples pass")
    return failed


if __name__ == "__main__":
    sys.exit(main())
