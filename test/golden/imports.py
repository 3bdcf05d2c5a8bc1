#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what each key of a model's config means with imports.txt.

Each key of examples/models and of usual quantization_configs is taken away and changed. A line has what becomes of the layer
JSON, or the error. So a key that is read no longer, under another name or with another default, is a difference. --update
writes imports.txt anew.
"""

import itertools
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing
import packages
import stored

STORED = pathlib.Path(__file__).resolve().parent / "imports.txt"
HEADER = """\
# What becomes of a layer JSON if a key of a config is taken away (-) or changed (=). Checked by imports.py, and written by it:
# `test/golden/imports.py --bin=build/bin --work=/tmp/imports --update`. Keys without a line change nothing.
"""
MOST_OF_ERROR = 160
FP8 = {"type": "float", "num_bits": 8, "strategy": "channel", "symmetric": True}
TOKEN = {"type": "float", "num_bits": 8, "strategy": "token", "dynamic": True, "symmetric": True}
INT4 = {"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32, "symmetric": True, "actorder": None}
NVFP4 = {"type": "float", "num_bits": 4, "strategy": "tensor_group", "group_size": 16, "scale_dtype": "torch.float8_e4m3fn"}
MXFP4 = {"dtype": "fp4", "is_dynamic": False, "qscheme": "per_group", "group_size": 32, "ch_axis": -1, "scale_format": "e8m0"}


def compressed(form, weights, activations=None):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {"group_0": group}}


# The quantization_configs that a model without one gets.
QUANTIZATIONS = {
    "fp8": {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"},
    "fp8 static": {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None},
    "gptq": {"quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": True, "sym": True, "checkpoint_format": "gptq"},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True, "version": "gemm"},
    "compressed fp8": compressed("float-quantized", FP8, TOKEN),
    "compressed int4": compressed("pack-quantized", INT4),
    "compressed nvfp4": compressed("nvfp4-pack-quantized", NVFP4, {**NVFP4, "dynamic": "local"}),
    "modelopt": {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16, "ignore": ["lm_head"]},
    "modelopt fp8": {"quant_method": "modelopt", "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}},
    "mxfp4": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    "quark": {"quant_method": "quark", "exclude": ["lm_head"],
              "global_quant_config": {"weight": MXFP4, "input_tensors": {**MXFP4, "is_dynamic": True}, "bias": None, "output_tensors": None},
              "layer_quant_config": {}, "layer_type_quant_config": {}, "export": {"pack_method": "reorder", "weight_format": "real_quantized"}},
}


def changed(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return "other"
    return [] if value else None


def keys_of(config, path=()):
    for key, value in config.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from keys_of(value, (*path, key))


def edited(config, path, change):
    made = json.loads(json.dumps(config))
    node = made
    for key in path[:-1]:
        node = node[key]
    if change is None:
        del node[path[-1]]
    else:
        node[path[-1]] = change(node[path[-1]])
    return made


def configs():
    """(name, config) of each model, and of one with each quantization."""
    for path in sorted(packages.MODELS.glob("*.json")):
        config = json.loads(path.read_text())
        if "moec_layer" not in config:
            yield path.stem, config
    plain = json.loads((packages.MODELS / "qwen3-30b-a3b.json").read_text())
    for name, quantization in QUANTIZATIONS.items():
        yield f"quantization {name}", {**plain, "quantization_config": quantization}


def cases():
    """(name of the config, what is done to it, config)."""
    for name, config in configs():
        yield name, "", config
        inside = name.startswith("quantization ")
        for path in keys_of(config):
            if inside and path[0] != "quantization_config":
                continue
            label = ".".join(path[inside:])
            yield name, f"-{label}", edited(config, path, None)
            yield name, f"={label}", edited(config, path, changed)


def outcomes(moec, folder, chosen, number):
    lines = []
    for index, (*_, config) in enumerate(chosen):
        lines.append([folder / f"{number}-{index}.json"])
        lines[-1][0].write_text(json.dumps(config))
    common = ["--emit=layer-json", "--no-shared-experts"] if chosen[0][0] == "kimi-k3" else ["--emit=layer-json"]
    return testing.compile_lines(moec, lines, folder / f"{number}.cases", common=common)


def described(status, text, base):
    """Returns the differences from the layer JSON `base`, or the error."""
    if status:
        text = re.sub(r"\S*\.json: |\$\.", "", text)
        return f"error: {text[:MOST_OF_ERROR]}".replace("\n", " | ")
    layer = json.loads(text)
    parts = [f"{key}: {json.dumps(base.get(key))} -> {json.dumps(layer.get(key))}"
             for key in (base | layer) if key != "name" and base.get(key) != layer.get(key)]
    return ", ".join(parts)


def text_of(chosen, said):
    lines, base = [HEADER], {}
    for (name, edit, _), (status, text) in zip(chosen, said, strict=True):
        if not edit:
            base = {} if status else json.loads(text)
            layer = ", ".join(f"{key}: {json.dumps(value)}" for key, value in base.items() if key not in ("name", "moec_layer"))
            lines.append(f"\n{name}: {layer or described(status, text, base)}\n")
        elif what := described(status, text, base):
            lines.append(f"  {edit}: {what}\n")
    return "".join(lines)


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write imports.txt")
    options = parser.parse_args()
    tools, scratch = testing.Tools(options.bin), testing.Scratch(options.work)
    chosen = list(cases())
    chunks = list(enumerate(list(group) for _, group in itertools.groupby(chosen, key=lambda case: case[0])))
    made = testing.parallel(lambda chunk: outcomes(tools.moec, scratch.folder, chunk[1], chunk[0]), chunks, options.jobs)
    text = text_of(chosen, list(itertools.chain(*made)))
    return stored.judge(STORED, text, options.update, f"{len(chosen)} configs")


if __name__ == "__main__":
    sys.exit(main())
