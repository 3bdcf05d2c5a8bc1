# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles layers with each word of `exclude`, and checks that no kernel of the package is what the word names.

  exclusions.py FOLDER

Kernels are told by their text and by the manifest. The layers have each kind of kernel that multiplies.
"""

import json
import pathlib
import re
import subprocess
import sys

LAYER = {"moec_layer": 1, "name": "l", "num_experts": 8, "top_k": 2, "hidden_size": 256, "intermediate_size": 128,
         "in_dtype": "bf16", "routing_method": "renormalize"}
SLICES = json.loads((pathlib.Path(__file__).parent / "slices.json").read_text(encoding="utf-8"))
BATCHED = json.loads((pathlib.Path(__file__).parent / "batched.json").read_text(encoding="utf-8"))
# (arch, layer, options, what has kernels if nothing is excluded)
CASES = [
    ("sm_90a", {"quant_config": "bf16"}, [], "gemv wgmma"),
    ("sm_80", {"quant_config": "f32", "in_dtype": "f32"}, [], "gemv simt"),
    ("sm_90a", {"quant_config": "fp8_tensor"}, [], "gemv wgmma"),
    ("sm_80", {"quant_config": "fp8_tensor"}, [], "gemv mma_sync"),
    ("sm_89", {"quant_config": "fp8_block"}, [], "gemv mma_sync"),
    ("sm_90a", SLICES, [], "slices wgmma"),
    ("sm_90a", {"quant_config": "int8_channel"}, [], "mma_sync"),
    ("sm_90a", {"quant_config": "int4_w4a16"}, [], "gemv wgmma_rs"),
    ("sm_80", {"quant_config": "int4_w4a16"}, [], "gemv mma_sync"),
    ("sm_90a", {"quant_config": "int4_w4afp8"}, [], "wgmma_rs"),
    ("sm_90a", {"quant_config": "mxfp4_fp8"}, [], "wgmma_rs"),
    ("sm_90a", {"quant_config": "nvfp4"}, [], "wgmma_rs"),
    ("sm_90a", {"quant_config": "nvfp4"}, ["--allow=weight_only"], "gemv wgmma_rs"),
    ("sm_80", {"quant_config": "mxfp8"}, [], "mma_sync"),
    ("sm_90a", BATCHED, [], "wgmma"),
]
WORDS = ["grouped", "batched", "unfused", "wgmma", "wgmma_rs", "mma_sync", "simt", "gemv", "native", "dequantized", "weight_only",
         "emulated"]
POLICIES = {"Wgmma": "wgmma", "WgmmaRs": "wgmma_rs", "MmaSync": "mma_sync", "MmaSyncSlabs": "mma_sync", "Simt": "simt"}
FP8_MMA_SYNC = ("sm_89", "sm_120")
EXACT = ("native", "dequantized")


def engine_of(text):
    """By the text of a kernel that multiplies."""
    if re.search(r"moe::(routeGateUp|downCombine)<Config>", text):
        return "gemv"
    policies = set(re.findall(r"moe::mma::(\w+)", text))
    assert len(policies) == 1, policies
    return POLICIES[policies.pop()]


def realization_of(said, scheme, arch, engine):
    """Operands of 8-bit floats are exact in each engine, and one converts them on most archs."""
    if said not in EXACT or "fp8" not in str(scheme):
        return said
    return "dequantized" if engine == "mma_sync" and not arch.startswith(FP8_MMA_SYNC) else "native"


def compiled(layer, arch, words, folder):
    """The package's kinds of kernels and all that it is, in words of `exclude`; or the sentence of a refusal."""
    source, package = folder / "layer.json", folder / "package"
    source.write_text(json.dumps(layer), encoding="utf-8")
    command = ["moec", "compile", source, f"--arch={arch}", "--no-cubin", "-o", package, *words]
    if layer["name"] != "slices":
        command.append("--max-tokens=1024")
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        return None, done.stderr
    target = json.loads((package / "manifest.json").read_text(encoding="utf-8"))["targets"][0]
    report = target["report"]
    kinds, names = set(), {report["backend"], report["engine"], report["realization"]}
    for kernel in target["kernels"]:
        if all(stage["op"] != "grouped_matmul" for stage in kernel["stages"]):
            continue
        text = (package / kernel["source"]).read_text(encoding="utf-8")
        engine = engine_of(text)
        said = report["schedules"][kernel["name"]]["engine"]
        assert engine == said, f"kernel {kernel['name']} is of {engine}, the manifest says {said}"
        names |= {engine, realization_of(report["realization"], layer["quant_config"], arch, engine)}
        kinds |= {engine} | ({"slices"} if "downSlices<" in text else set())
    return kinds, names


def main(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    wrong = served = 0
    for arch, changed, options, expected in CASES:
        layer = {**LAYER, **changed}
        case = f"{layer['quant_config']} on {arch} {' '.join(options)}"
        kinds, names = compiled(layer, arch, options, folder)
        if kinds is None or not kinds >= set(expected.split()):
            print(f"{case}: expected kernels of {expected}, got {kinds}: {names}")
            wrong += 1
        for word in WORDS:
            if f"--allow={word}" in options:
                continue
            kinds, names = compiled(layer, arch, [*options, f"--exclude={word}"], folder)
            if kinds is None and f"'{word}' is excluded" not in names:
                print(f"{case}, exclude {word}: expected a package or a refusal that names the word, got: {names}")
                wrong += 1
            elif kinds is not None and word in names:
                print(f"{case}, exclude {word}: the package is {' '.join(sorted(names))}")
                wrong += 1
            served += kinds is not None
    print(f"{wrong} wrong, {served} packages, {len(CASES)} layers")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
