#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No field of a layer JSON is without effect: two values of a field give different programs, or a refusal.

The fields are those of docs/reference/layer.schema.json, so that a new one is tested by itself. Each is changed in every
layer of LAYERS. What is compared is the scheduled IR of sm_90a without the text of the layer, which repeats the fields.
"""

import itertools
import json
import pathlib
import shutil
import sys
import time

import moec_testing as testing

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "layer.schema.json"
SIZES = {"moec_layer": 1, "name": "l", "num_experts": 16, "top_k": 4, "hidden_size": 256, "intermediate_size": 256,
         "in_dtype": "bf16"}
TOKEN = {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True}
NIBBLES = {"dtype": "i4", "shape": [1, 128], "scale": "bf16"}
LAYERS = {
    "plain": {**SIZES, "routing_method": "renormalize", "has_bias": True, "residual": True},
    "inferred": {**SIZES, "scoring_func": "sigmoid", "renormalize": True, "activation": "relu2_no_mul", "quant_config": "fp8_channel"},
    "groups": {**SIZES, "routing_method": "deepseek_v3", "num_expert_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5,
               "e_score_correction_bias": True, "quant_config": "fp8_block", "n_shared_experts": 1, "accumulate": "f32",
               "moe_parallel_config": {"tp_size": 2, "tp_rank": 0}},
    "numbers": {**SIZES, "routing_method": "renormalize", "activation": "swigluoai", "swiglu_alpha": 1.5, "swiglu_limit": 7.0,
                "quant_config": "mxfp4_w4a16"},
    "situ": {**SIZES, "routing_method": "renormalize", "activation": "situ", "activation_situ_beta": 4.0,
             "activation_situ_linear_beta": 2.0, "quant_config": "nvfp4"},
    "ranks": {**SIZES, "routing_method": "renormalize", "moe_parallel_config": {"dp_size": 2, "dp_rank": 0, "use_ep": True}},
    "sinks": {**SIZES, "routing_method": "sigmoid_sinks", "num_sink_experts": 1},
    "codes": {**SIZES, "routing_method": "renormalize", "quant_config": {"a1": TOKEN, "a2": TOKEN, "w1": NIBBLES, "w2": NIBBLES},
              "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
}
# Layers that one process compiles.
CHUNK = 100
INTEGERS, NUMBERS = (0, 1, 2, 3, 8, 64), (0.5, 1.0, 1.75)
SHAPES = ([-1, -1], [1, -1], [1, 32], [1, 128], [128, 128])
# Fields of free text have values of a table, by the table's name.
TABLES = {"activation": "activations", "routing_method": "routing", "quant_config": "schemes", "quant_config.scheme": "schemes"}
TEXTS = {"name": ["l", "m"], "moe_parallel_config.all2all_backend": ["allgather_reducescatter", "deepep_low_latency"]}
# Fields that may leave kernels as they are, and then change the layer's text: the reason.
OF_LAYER = {
    "skip_final_all_reduce": "the caller reduces",
    "moe_parallel_config.tp_rank": "ranks share kernels",
    "moe_parallel_config.pcp_rank": "ranks share kernels",
    "moe_parallel_config.dp_rank": "ranks share kernels",
    "moe_parallel_config.sp_size": "the caller splits tokens",
}
# Fields that may have no effect at all, in which layers, and why.
NO_EFFECT = {
    "disable_inplace": (lambda layer: True, "the caller of a run says where its output lies"),
    "apply_routed_scale_to_output": (lambda layer: "routed_scaling_factor" not in layer, "there is no factor"),
    "e_score_correction_bias": (lambda layer: layer.get("routing_method") == "deepseek_v3", "the method needs a bias"),
    "moe_parallel_config.use_ep": (lambda layer: "moe_parallel_config" not in layer, "there is one rank"),
    "moe_parallel_config.all2all_backend": (lambda layer: "dp_size" not in layer.get("moe_parallel_config", {}),
                                            "ranks have no tokens of their own"),
}


def fields_of(schema, definitions, path=""):
    """(path, schema) of each field that is no object, those inside of objects too."""
    for name, field in schema["properties"].items():
        if field.get("deprecated"):
            continue
        where = f"{path}.{name}" if path else name
        field = definitions[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
        forms = field.get("oneOf", [field])
        for form in forms:
            if "properties" in form:
                yield from fields_of(form, definitions, where)
        if not all("properties" in form for form in forms):
            yield where, field


def values_of(path, field, rows):
    """Values of a field that the schema allows; None is left out, as what absence means."""
    if "const" in field:
        return [field["const"], field["const"] + 1]
    if "enum" in field:
        return [value for value in field["enum"] if value is not None]
    types = field.get("type", [form.get("type") for form in field.get("oneOf", ())])
    types = [types] if isinstance(types, str) else types
    least = field.get("minimum", field.get("exclusiveMinimum"))
    if "boolean" in types:
        return [False, True]
    if "integer" in types:
        return [value for value in INTEGERS if least is None or value >= least]
    if "number" in types:
        return [value for value in NUMBERS if least is None or value >= least]
    if "array" in types:
        return list(SHAPES)
    if path in TABLES:
        return [row["name"] for row in rows[TABLES[path]]]
    return TEXTS.get(path, [])


def with_value(layer, path, value):
    """A copy of the layer with the field at the path."""
    made = json.loads(json.dumps(layer))
    node, *rest = made, *path.split(".")
    for name in rest[:-1]:
        if not isinstance(node.get(name), dict):
            node[name] = {}
        node = node[name]
    node[rest[-1]] = value
    return made


def same_word(path, value):
    """Spellings of one element type are one value."""
    names = {"bfloat16": "bf16", "torch.bfloat16": "bf16", "float16": "f16", "half": "f16", "torch.float16": "f16",
             "torch.half": "f16", "float32": "f32", "float": "f32", "torch.float32": "f32", "torch.float": "f32",
             "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e8m0fnu": "f8E8M0FNU", "mxfp6_e3m2": "f6E3M2FN",
             "mxfp6_e2m3": "f6E2M3FN", "float4_e2m1fn_x2": "f4E2M1FN", "int8": "i8", "int4": "i4"}
    return names.get(value, value) if isinstance(value, str) else json.dumps(value)


def program_of(text):
    """The IR without its layers, which end with a brace in their column."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("moe.layer "):
            inside = True
        if not inside:
            kept.append(line)
        if inside and line.strip() == "}":
            inside = False
    return "\n".join(kept)


def outcomes_of(tools, folder, layers):
    """("refused", message) or ("served", the program) of each layer."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, layer in enumerate(layers):
        lines.append([folder / f"{number}.json"])
        lines[-1][0].write_text(json.dumps(layer))
    outcomes = testing.compile_lines(tools.moec, lines, folder / "cases", common=["--arch=sm_90a", "--emit=scheduled"])
    shutil.rmtree(folder)
    return [("served", (program_of(said), said)) if status == 0 else ("refused" if status == 1 else "crashed", said)
            for status, said in outcomes]


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--only", help="the path of one field")
    options = arguments.parse_args()
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    started = time.time()
    rows = tools.rows()
    schema = json.loads(SCHEMA.read_text())
    wrong, jobs = [], []
    for path, field in fields_of(schema, schema["$defs"]):
        if options.only and path != options.only:
            continue
        values = values_of(path, field, rows)
        if len(values) < 2:
            wrong.append(f"{path}: expected at least two values; say in fields.py what it may be")
        for (name, layer), value in itertools.product(LAYERS.items(), values):
            jobs.append((name, path, value, with_value(layer, path, value)))
    chunks = testing.in_chunks([layer for *_, layer in jobs], CHUNK)
    made = testing.parallel(lambda chunk: outcomes_of(tools, work / str(chunk[0]), chunk[1]), list(enumerate(chunks)), options.jobs)
    outcomes = [outcome for chunk in made for outcome in chunk]
    groups, served = {}, set()
    for (name, path, value, layer), (state, text) in zip(jobs, outcomes):
        if state == "crashed" or (state == "refused" and not text.strip()):
            wrong.append(f"{name}: {path} = {value}: {text[:200]}")
        if state == "served":
            served.add(path)
            groups.setdefault((name, path, text[path in OF_LAYER]), {}).setdefault(same_word(path, value), value)
    for (name, path, _), values in groups.items():
        if len(values) > 1 and not (path in NO_EFFECT and NO_EFFECT[path][0](LAYERS[name])):
            wrong.append(f"{name}: {path} has no effect: {', '.join(map(str, values.values()))} give the same program")
    for path in () if options.only else {*OF_LAYER, *NO_EFFECT} - served:
        wrong.append(f"{path}: no layer here has it, and it is listed")
    testing.finish("changed fields", len(jobs), wrong, started, time.time())


if __name__ == "__main__":
    sys.exit(main())
