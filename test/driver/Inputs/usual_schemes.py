# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles a layer of each row of a table of docs/reference/quantization.md, runs it on the host device and checks it.

  usual_schemes.py DOCUMENT FOLDER
"""

import json
import pathlib
import re
import subprocess
import sys

LAYER = {"moec_layer": 1, "num_experts": 4, "top_k": 2, "hidden_size": 256, "intermediate_size": 128, "in_dtype": "bf16",
         "routing_method": "renormalize"}


def rows(document):
    """(name, the fields that it adds) of the section; a row without a name belongs to the one before."""
    section = document.split("## Schemes by their usual names")[1].split("\n## ")[0]
    name = ""
    for line in section.splitlines():
        if found := re.fullmatch(r"\| ([^|]*) \| `(\".*)` \|", line):
            name = found[1].strip() or name
            yield name, json.loads(f"{{{found[2]}}}")


def main(document, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = 0
    for count, (name, fields) in enumerate(rows(pathlib.Path(document).read_text(encoding="utf-8")), 1):
        layer, package = folder / f"{count}.json", folder / str(count)
        layer.write_text(json.dumps({**LAYER, "name": f"scheme_{count}", **fields}), encoding="utf-8")
        for command in (["moec", "compile", layer, "--arch=sm_90a", "--max-tokens=64", "--no-cubin", "-o", package],
                        ["moec-check", package, "--device=host", "--tokens=1,9", "--check", "--json"]):
            done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name}: {json.dumps(fields)}: {command[0]} exited with {done.returncode}: {done.stderr}{done.stdout}")
                return 1
        said = json.loads((package / "manifest.json").read_text(encoding="utf-8"))["layer"]
        print(f"{name}: right, {said['quant']['w1']['element_type']} weights")
    print(f"{count} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
