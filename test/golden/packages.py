#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the whole report and manifest of a few layers with packages/.

The layers differ in scheme, arch, engine and parallel layout, so that a change of any sentence, argument, grid, region
or rule of weights is a difference to review. --update writes packages/ anew. Left out of a manifest: digests of files,
headers of kernels, and the hash in the name of an entry.
"""

import difflib
import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing

FOLDER = pathlib.Path(__file__).resolve().parent / "packages"
MODELS = FOLDER.parents[2] / "examples" / "models"
WIDTH = 150

# Name: the model, and the options of `moec explain` and `moec compile`.
LAYERS = {
    "ranks": ["deepseek-v3", "--arch=sm_90a", "--dp=8", "--ep", "--rank=1"],
    "one-sided": ["mixtral-8x7b", "--arch=sm_90a", "--dp=2", "--ep", "--all-to-all=one_sided", "--all-ranks"],
    "gather-scatter": ["qwen3-30b-a3b", "--scheme=fp8_channel", "--arch=sm_90a", "--dp=2", "--ep",
                       "--all-to-all=gather_scatter", "--rank=0"],
    "biases": ["gpt-oss-20b", "--arch=sm_90a"],
    "shared-experts": ["qwen1.5-moe-a2.7b", "--arch=sm_75"],
    "tensor-parallel": ["qwen3-30b-a3b", "--scheme=int4_w4a16", "--arch=sm_80", "--tp=4", "--rank=1"],
    "zero-experts": ["longcat-flash", "--arch=sm_90a", "--scheme=mxfp4_w4a16"],
    "table-of-experts": ["deepseek-v4-flash", "--arch=sm_90a"],
    "scaled": ["qwen3-30b-a3b", "--scheme=nvfp4", "--arch=sm_120f"],
    "tensor-memory": ["qwen3-30b-a3b", "--scheme=mxfp8", "--arch=sm_100f", "--engine=tcgen05"],
    "emulated": ["llama-4-scout", "--scheme=nvfp4", "--arch=sm_89"],
    "weights-of-floats": ["olmoe-1b-7b", "--scheme=fp8_channel", "--weights-dtype=bf16", "--arch=sm_90a"],
}


def compact(value, indent=0):
    """JSON whose arrays and objects take one line where they fit, without members that are null, false or empty."""
    if isinstance(value, dict):
        value = {key: part for key, part in value.items() if part not in (None, "", [], {}) and part is not False}
    line = json.dumps(value)
    if not isinstance(value, (dict, list)) or len(line) + indent <= WIDTH:
        return line
    if isinstance(value, list):
        parts, ends = [compact(part, indent + 1) for part in value], "[]"
    else:
        parts, ends = [f"{json.dumps(key)}: {compact(part, indent + 1)}" for key, part in value.items()], "{}"
    inner = ",\n".join(" " * (indent + 1) + part for part in parts)
    return f"{ends[0]}\n{inner}\n{' ' * indent}{ends[1]}"


def manifest_text(path):
    manifest = json.loads(path.read_text())
    manifest["files"] = sorted(name for name in manifest["files"] if not name.startswith("include/"))
    for target in manifest["targets"]:
        for kernel in target["kernels"]:
            del kernel["headers"]
            kernel["entry"] = re.sub(r"_[0-9a-f]{8}$", "", kernel["entry"])
            kernel["arguments"]["fields"] = [
                " ".join(map(str, field.values())) for field in kernel["arguments"]["fields"]]
        target["report"] = "as packages/*.explain.txt"
    return compact(manifest) + "\n"


def texts_of(moec, work, name, arguments):
    model, *options = arguments
    command = [str(MODELS / f"{model}.json"), *options, "--max-tokens=100", "--no-tuned-store"]
    report = subprocess.run([moec, "explain", *command], stdout=subprocess.PIPE, text=True, check=True).stdout
    package = work / name
    shutil.rmtree(package, ignore_errors=True)
    subprocess.run([moec, "compile", *command, "--no-cubin", "-o", str(package)], stdout=subprocess.DEVNULL, check=True)
    return {f"{name}.explain.txt": report, f"{name}.manifest.txt": manifest_text(package / "manifest.json")}


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    texts = {}
    for name, arguments in LAYERS.items():
        texts |= texts_of(str(pathlib.Path(options.bin) / "moec"), work, name, arguments)
    if options.update:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        for name, text in texts.items():
            (FOLDER / name).write_text(text)
        return 0
    stored = {path.name: path.read_text() for path in FOLDER.iterdir()}
    different = 0
    for name in sorted(stored.keys() | texts.keys()):
        lines = difflib.unified_diff(stored.get(name, "").splitlines(), texts.get(name, "").splitlines(),
                                     f"packages/{name}", "today's", lineterm="", n=1)
        shown = list(lines)
        different += bool(shown)
        print("\n".join(shown[:60]), end="\n" if shown else "")
    print(f"{len(texts)} texts of {len(LAYERS)} layers, {different} differ from packages/; --update writes them anew")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
