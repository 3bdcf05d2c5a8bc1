# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints that are refused, each with its whole message."""

import re
import shutil

import checkpoint_layers as layers
import checkpoint_words as words_of
import moec_testing as testing
from checkpoint_cases import (PROJECTIONS, SCHEMES, SHAPE, SMALL, WEIGHT, case, compiled, fresh, layer_json, modules)


def damaged(change):
    """A checkpoint with something else in it: change(folder, writer, layer)."""
    def make(folder, writer, layer):
        change(folder, writer, layer)
        if not any(folder.iterdir()):
            writer.write(folder / "model.safetensors")
    return make


def replace(name, **fields):
    def change(folder, writer, layer):
        kind, shape, data = writer.tensors[name]
        writer.put(name, fields.get("shape", shape), fields.get("data", data), fields.get("kind", kind))
    return damaged(change)


def without(name):
    return damaged(lambda folder, writer, layer: writer.tensors.pop(name))


def text(name, content):
    return damaged(lambda folder, writer, layer: (folder / name).write_bytes(content))


def header(content):
    return text("model.safetensors", len(content).to_bytes(8, "little") + content)


def truncated(folder, writer, layer):
    writer.write(folder / "model.safetensors")
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-10])


def doubled(folder, writer, layer):
    writer.tensors["model.layers.0.mlp.experts.0.w1.weight"] = writer.tensors[GATE]


def ordered(change):
    """A checkpoint in GPTQ's words whose columns have an order, and one of them another: change(index) of expert 1's up_proj."""
    def make(folder, writer, layer):
        writer.tensors.clear()
        made = words_of.WordLayer(SHAPE, "gptq", 3, False, True)
        made.write(writer, "model.layers.0.mlp", PROJECTIONS)
        index = list(made.index_of("up", 1))
        change(index)
        writer.put(UP_INDEX, [len(index)], layers.struct.pack(f"<{len(index)}i", *index), "int32")
        writer.write(folder / "model.safetensors")
    return make


def exchange(index):
    """Two columns of other groups."""
    other = next(i for i, group in enumerate(index) if group != index[0])
    index[0], index[other] = index[other], index[0]


def as_floats(folder, writer, layer):
    floats = layers.Layer(SMALL, SCHEMES["bf16"])
    writer.tensors.clear()
    modules(writer, floats, "model.layers.0.mlp", PROJECTIONS, WEIGHT)


GATE = "model.layers.0.mlp.experts.0.gate_proj.weight"
UP_INDEX = "model.layers.0.mlp.experts.1.up_proj.g_idx"
SCALE = "model.layers.0.mlp.experts.0.gate_proj.weight_scale"
INDEX = "model.safetensors.index.json"
CUT = re.compile(
    r"DIR/model\.safetensors: tensor '.*': expected data_offsets \[begin, end\] in the \d+ bytes after the header, got \[\d+,\d+\] "
    r"\[invalid_argument\]")
# (name, scheme, how the checkpoint is damaged, options, what is said; DIR is the folder)
REFUSALS = [
    ("type", "int8_w8a16", replace(GATE, kind="bfloat16", data=bytes(64 * 96 * 2)), [],
     f"DIR: tensor '{GATE}': expected i8 [64, 96] for value 'w13' of layer 'type', got BF16 [64, 96]; --quantize quantizes the weights of a float "
     "checkpoint [refused]"),
    ("shape", "int8_w8a16", replace(GATE, shape=[96, 64]), [],
     f"DIR: tensor '{GATE}': expected i8 [64, 96] for value 'w13' of layer 'shape', got I8 [96, 64] [refused]"),
    ("too-large", "int8_w8a16", replace(SCALE, kind="float32", data=layers.struct.pack("<64f", *[0.1] * 63, 3.4e38)), [],
     f"DIR: tensor '{SCALE}' of expert 0 holds 3.4e+38, which is beyond the numbers of that type; value 'w13_scale' is bf16 [refused]"),
    ("rank", "int8_w8a16", replace(SCALE, shape=[1, 64]), [],
     f"DIR: tensor '{SCALE}': expected bf16 [64, 1] for value 'w13_scale' of layer 'rank', got BF16 [1, 64] [refused]"),
    ("flat", "int8_w8a16", replace(GATE, shape=[64 * 96]), [],
     f"DIR: tensor '{GATE}': expected i8 [64, 96] for value 'w13' of layer 'flat', got I8 [6144] [refused]"),
    ("scale-nan", "int8_w8a16", replace(SCALE, kind="float32", data=layers.struct.pack("<64f", *[0.1] * 63, float("nan"))), [],
     f"DIR: tensor '{SCALE}' of expert 0 holds nan, expected a scale that is a finite number; value 'w13_scale' is bf16 [refused]"),
    ("missing", "int8_w8a16", without(SCALE), [],
     "DIR: layer 0, value 'w13_scale': expected a tensor of expert 0, gate_proj (or w1) or gate_up_proj (or input_linear), with "
     f"weight_scale, weight_scale_inv or scales; got {GATE}, model.layers.0.mlp.experts.0.up_proj.weight, "
     "model.layers.0.mlp.experts.0.up_proj.weight_scale, model.layers.0.mlp.experts.0.down_proj.weight and 1 more [refused]"),
    ("layer", "int8_w8a16", damaged(lambda folder, writer, layer: None), ["--layer=7"],
     "DIR: layer 7 has no experts' weights; expected layer 0 [refused]"),
    ("orders", "int4_w4a16", ordered(exchange), [],
     f"DIR: tensors 'model.layers.0.mlp.experts.1.gate_proj.g_idx' and '{UP_INDEX}' differ; expected one order of the columns of "
     "gate and up of expert 1 [refused]"),
    ("group", "int4_w4a16", ordered(lambda index: index.__setitem__(index.index(0), 1)), [],
     f"DIR: tensor '{UP_INDEX}': expected 128 columns of group 0, got 127, in groups of 128 of expert 1 [refused]"),
    ("no-group", "int4_w4a16", ordered(lambda index: index.__setitem__(7, 2)), [],
     f"DIR: tensor '{UP_INDEX}': expected groups 0 to 1, got 2 for column 7, in groups of 128 of expert 1 [refused]"),
    ("no-order", "int4_w4a16", ordered(lambda index: None), [], re.compile(
        r"DIR: tensor 'model\.layers\.0\.mlp\.experts\.0\.gate_proj\.g_idx': expected group 0 of column \d+, since layer 'no_order' "
        r"has no group_index, got 1 \[refused\]")),
    ("codes", "int8_w8a16", damaged(lambda folder, writer, layer: None), ["--quantize", "--ignore-tensor=weight_scale"],
     f"DIR: tensor '{GATE}': expected f32 [64, 96] for value 'w13' of layer 'codes', got I8 [64, 96] [refused]"),
    ("static", "fp8_tensor", damaged(as_floats), ["--quantize"],
     "DIR: layer 0, value 'a1_scale': expected a tensor of expert 0, gate_proj (or w1) or gate_up_proj (or input_linear), with "
     "input_scale or input_global_scale; got nothing else of that expert [refused]"),
    ("doubled", "int8_w8a16", damaged(doubled), [],
     f"DIR: tensors '{GATE}' and 'model.layers.0.mlp.experts.0.w1.weight' are the same weight of layer 0; expected one of them "
     "[refused]"),
    ("truncated", "int8_w8a16", truncated, [], CUT),
    ("empty", "int8_w8a16", text("model.safetensors", b""), [],
     "DIR/model.safetensors: expected eight bytes with the length of a header, got a file of 0 [invalid_argument]"),
    ("length", "int8_w8a16", text("model.safetensors", b"\xff" * 8 + b"{}"), [],
     "DIR/model.safetensors: expected a safetensors file, whose first eight bytes specify a header length of at most 2 bytes, "
     "got a length of 18446744073709551615 [invalid_argument]"),
    ("json", "int8_w8a16", header(b"[1]"), [],
     "DIR/model.safetensors: header: expected a JSON object, got an array [invalid_argument]"),
    ("twice", "int8_w8a16", header(b'{"a":{},"a":{}}'), [],
     "DIR/model.safetensors: header: line 1, column 9: expected each key once in an object, got \"a\" twice [invalid_argument]"),
    ("nothing", "int8_w8a16", text("readme.md", b""), [],
     "DIR: expected one *.safetensors.index.json or files *.safetensors, got neither [invalid_argument]"),
    ("escape", "int8_w8a16", text(INDEX, b'{"weight_map":{"a":"../a.safetensors"}}'), [],
     f"DIR/{INDEX}: weight_map of 'a': expected a file in the folder, got \"../a.safetensors\" [invalid_argument]"),
    ("index", "int8_w8a16", text(INDEX, b"{}"), [],
     f"DIR/{INDEX}: expected a JSON object with \"weight_map\", an object of tensors' names and their files [invalid_argument]"),
]


def check_refusal(tools, work, row):
    name, scheme, make, options, expected = row
    folder = fresh(work, f"refused-{name}")
    layer = layers.Layer(SMALL, SCHEMES[scheme])
    writer = layers.Writer()
    modules(writer, layer, "model.layers.0.mlp", PROJECTIONS, {"weight": ("weight", {}), "scale": ("weight_scale", {})})
    make(folder / "model", writer, layer)
    words = {"stored_layout": "gptq", "group_index": name != "no-order"} if scheme == "int4_w4a16" else {}
    return check_said(tools, folder, case(name, scheme, None, SHAPE if words else SMALL, words), options, expected)


def check_said(tools, folder, row, options, expected):
    """None, or what is wrong: whether loading folder / model into the row's package is refused in these words."""
    package = compiled(tools, folder, layer_json(row))
    status, _, errors = testing.run([tools.moec_run, package, "--device=host", f"--weights={folder / 'model'}", *options])
    said = errors.strip().removeprefix("moec-run: ").replace(str(folder / "model"), "DIR")
    fits = expected.fullmatch(said) if isinstance(expected, re.Pattern) else said == expected
    if status != 1 or not fits:
        return f"refusal {row['name']}: exit {status}, expected\n    {getattr(expected, 'pattern', expected)}\n  got\n    {said}"
    shutil.rmtree(folder)
    return None
