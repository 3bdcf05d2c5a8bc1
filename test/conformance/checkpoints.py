#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec-run --weights: small checkpoints of each scheme, named as families of models name them, written by PyPI's safetensors.

For each: what was loaded is what the layer's matrices say (SHA-256 of every stored weight, computed here), and the layer is
right on the host device with those weights. Then what is refused, with its whole message.
"""

import hashlib
import json
import re
import shutil
import sys
import time

import checkpoint_layers as layers
import checkpoint_quantizer as quantizer
import checkpoint_words as words_of
import moec_testing as testing

SKIPPED = 77
SHAPE = {"num_experts": 5, "experts_per_token": 2, "hidden_dim": 256, "intermediate_size": 256}
WIDE = {"num_experts": 2, "experts_per_token": 1, "hidden_dim": 160, "intermediate_size": 64}
SMALL = {"num_experts": 3, "experts_per_token": 2, "hidden_dim": 96, "intermediate_size": 64}

PLAIN = {kind: {"name": kind, "w": kind, "in": kind} for kind in ("f32", "f16", "bf16")}
SCHEMES = {
    **PLAIN,
    "fp8_tensor": {"w": "f8E4M3FN", "scale": "f32", "group": (-1, -1), "input": "_scale"},
    "fp8_tensor_dynamic": {"w": "f8E4M3FN", "scale": "f32", "group": (-1, -1)},
    "fp8_channel": {"w": "f8E4M3FN", "scale": "f32", "group": (1, -1)},
    "fp8_block": {"w": "f8E4M3FN", "scale": "f32", "group": (128, 128)},
    "fp8_w8a16": {"w": "f8E4M3FN", "scale": "f32", "group": (1, -1)},
    "int8_w8a16": {"w": "i8", "scale": "bf16", "group": (1, -1)},
    "int4_w4a16": {"w": "i4", "scale": "bf16", "group": (1, 128)},
    "int4_zp_w4a16": {"w": "i4", "scale": "bf16", "group": (1, 128), "zero": True},
    "mxfp4_w4a16": {"w": "f4E2M1FN", "scale": "f8E8M0FNU", "group": (1, 32)},
    "nvfp4_w4a16": {"w": "f4E2M1FN", "scale": "f8E4M3FN", "group": (1, 16), "second": True},
}
for name, scheme in SCHEMES.items():
    scheme["name"] = name
    scheme.setdefault("in", "bf16")

PROJECTIONS = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
NUMBERED = {"gate": "w1", "up": "w3", "down": "w2"}


def modules(writer, layer, prefix, words, kinds, shared="shared_experts"):
    """A module for each expert's part: prefix.experts.3.gate_proj.weight. Shared experts stand behind each other in one."""
    for kind, (suffix, options) in kinds.items():
        for part, matrices in layer.of[kind].items():
            for expert, matrix in enumerate(matrices[:layer.experts]):
                writer.matrix(f"{prefix}.experts.{expert}.{words[part]}.{suffix}", matrix, **options)
            behind = matrices[layer.experts:]
            if behind:
                joined = behind[0]
                for other in behind[1:]:
                    if part == "down" and kind != "bias":
                        joined = layers.Matrix(joined.element, [a + b for a, b in zip(joined.rows, other.rows)])
                    else:
                        joined = joined + other
                writer.matrix(f"{prefix}.{shared}.{words[part]}.{suffix}", joined, **options)


def fused(writer, layer, names, order="gate_first", turned=False, kinds=("weight",)):
    """All experts in one tensor, gates and ups too; names[kind] = (of gates and ups, of down)."""
    for kind in kinds:
        matrices = layer.of[kind]
        for index, name in enumerate(names[kind]):
            made = []
            for expert in range(layer.experts):
                if index:
                    matrix = matrices["down"][expert]
                elif order == "interleaved":
                    matrix = matrices["gate"][expert].alternating(matrices["up"][expert])
                else:
                    matrix = matrices["gate"][expert] + matrices["up"][expert]
                made.append(matrix.turned() if turned and kind == "weight" else matrix)
            shape = [len(made), len(made[0].rows)]
            if kind != "bias":
                shape.append(len(made[0].rows[0]) * 8 // max(made[0].bits, 8))
            if name.endswith("_blocks"):
                shape[-1:] = [shape[-1] // 16, 16]
            writer.put(name, shape, b"".join(matrix.data() for matrix in made), layers.TYPES[made[0].element][1])


WEIGHT = {"weight": ("weight", {})}


def hugging_face(layer_name, words=PROJECTIONS, kinds=WEIGHT, more=None, **options):
    def write(writer, layer):
        modules(writer, layer, layer_name, words, kinds, **options)
        if more:
            more(writer, layer)
    return write


def routing_bias(name):
    return lambda writer, layer: writer.matrix(name, layer.routing_bias, shape=[layer.experts])


def case(name, scheme, write, shape=SMALL, layer=None, expected_layer=0, **options):
    """`layer`: fields of the layer's JSON."""
    return {"name": name, "scheme": SCHEMES[scheme], "write": write, "shape": shape, "layer": layer or {},
            "expected_layer": expected_layer, **options}


def step3(writer, layer):
    for part, word in PROJECTIONS.items():
        matrices = layer.of["weight"][part]
        rows, columns = layer.extents[part]
        writer.put(f"model.layers.4.moe.{word}.weight", [layer.experts, rows, columns],
                   b"".join(matrix.data() for matrix in matrices), "bfloat16")


def dbrx(writer, layer):
    for part, word in (("gate", "w1"), ("up", "v1"), ("down", "w2")):
        matrices = [matrix.turned() if part == "down" else matrix for matrix in layer.of["weight"][part]]
        writer.put(f"transformer.blocks.0.ffn.experts.mlp.{word}", [layer.experts * len(matrices[0].rows), matrices[0].columns],
                   b"".join(matrix.data() for matrix in matrices), "bfloat16")


def packed_words(writer, layer):
    """compressed-tensors: eight codes in an int32, and the shape beside them."""
    modules(writer, layer, "model.layers.0.mlp", PROJECTIONS,
            {"weight": ("weight_packed", {"kind": "i32"}), "scale": ("weight_scale", {})})
    for name in list(writer.tensors):
        if name.endswith("weight_packed"):
            writer.put(name.replace("packed", "shape"), [2], bytes(16), "int64")


def divisors(writer, layer):
    """compressed-tensors: one over the scale of scales."""
    modules(writer, layer, "model.layers.0.mlp", PROJECTIONS, {"weight": ("weight_packed", {}), "scale": ("weight_scale", {})})
    for part, matrices in layer.of["second"].items():
        for expert, matrix in enumerate(matrices):
            scale = layers.struct.unpack("<f", matrix.data())[0]
            writer.put(f"model.layers.0.mlp.experts.{expert}.{PROJECTIONS[part]}.weight_global_scale", [1],
                       layers.struct.pack("<f", 1 / scale), "float32")


SCALAR = {"shape": []}
GPT_OSS = "model.layers.0.mlp.experts."
GPT_OSS_NAMES = {
    "weight": (GPT_OSS + "gate_up_proj", GPT_OSS + "down_proj"),
    "bias": (GPT_OSS + "gate_up_proj_bias", GPT_OSS + "down_proj_bias"),
}
GPT_OSS_BLOCKS = {
    "weight": (GPT_OSS + "gate_up_proj_blocks", GPT_OSS + "down_proj_blocks"),
    "scale": (GPT_OSS + "gate_up_proj_scales", GPT_OSS + "down_proj_scales"),
    "bias": GPT_OSS_NAMES["bias"],
}
INTERLEAVED = {"activation": "swigluoai", "gate_up_order": "interleaved", "has_bias": True}
DEEPSEEK = {"routing_method": "deepseek_v3", "e_score_correction_bias": True}
BIAS_OF_DEEPSEEK = routing_bias("model.layers.3.mlp.gate.e_score_correction_bias")
BLOCKS = {"weight": ("weight", {}), "scale": ("weight_scale_inv", {})}

CASES = [
    case("mixtral", "bf16", hugging_face("model.layers.2.block_sparse_moe", NUMBERED), expected_layer=2),
    case("mixtral-f16", "f16", hugging_face("model.layers.2.block_sparse_moe", NUMBERED), expected_layer=2),
    case("mixtral-f32", "f32", hugging_face("model.layers.2.block_sparse_moe", NUMBERED), expected_layer=2),
    case("deepseek-v3", "fp8_block", hugging_face("model.layers.3.mlp", kinds=BLOCKS, more=BIAS_OF_DEEPSEEK), SHAPE,
         {**DEEPSEEK, "n_shared_experts": 2}, 3, shared=2, routing_bias=True),
    case("deepseek-v3-tp", "fp8_block", hugging_face("model.layers.3.mlp", kinds=BLOCKS, more=BIAS_OF_DEEPSEEK), SHAPE,
         {**DEEPSEEK, "n_shared_experts": 2, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, 3, shared=2,
         routing_bias=True, columns=(128, 128)),
    case("deepseek-v3-ep", "fp8_block", hugging_face("model.layers.3.mlp", kinds=BLOCKS, more=BIAS_OF_DEEPSEEK), SHAPE,
         {**DEEPSEEK, "moe_parallel_config": {"tp_size": 3, "tp_rank": 1, "use_ep": True}}, 3, routing_bias=True,
         experts=[2, 3]),
    case("round-robin", "bf16", hugging_face("model.layers.0.mlp"), {**SMALL, "num_experts": 7},
         {"moe_parallel_config": {"tp_size": 3, "tp_rank": 0, "use_ep": True, "expert_placement_strategy": "round_robin"}},
         experts=[0, 3, 6]),
    case("ptpc-bf16-scales", "fp8_channel",
         hugging_face("model.layers.0.mlp", kinds={"weight": ("weight", {}), "scale": ("weight_scale", {})}),
         checkpoint_scale="bf16"),
    case("static", "fp8_tensor", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", SCALAR), "input": ("input_scale", {"shape": [1]})})),
    case("dynamic", "fp8_tensor_dynamic", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", SCALAR)})),
    case("w8a16", "fp8_w8a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {})})),
    case("int8", "int8_w8a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {})}), layer={"gate_up_order": "up_first"}),
    case("pack-quantized", "int4_w4a16", packed_words, SHAPE,
         {"moe_parallel_config": {"tp_size": 2, "tp_rank": 0}}, columns=(0, 128)),
    case("zero-points", "int4_zp_w4a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {}), "zero": ("weight_zero_point", {})}), SHAPE),
    case("gpt-oss", "mxfp4_w4a16", lambda writer, layer: fused(writer, layer, GPT_OSS_BLOCKS, "interleaved",
                                                              kinds=("weight", "scale", "bias")), layer=INTERLEAVED),
    case("gpt-oss-tp", "mxfp4_w4a16", lambda writer, layer: fused(writer, layer, GPT_OSS_BLOCKS, "interleaved",
                                                                 kinds=("weight", "scale", "bias")),
         layer={**INTERLEAVED, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, columns=(32, 32)),
    case("gpt-oss-bf16", "bf16", lambda writer, layer: fused(writer, layer, GPT_OSS_NAMES, "interleaved", turned=True,
                                                            kinds=("weight", "bias")),
         {**SMALL, "intermediate_size": 96}, INTERLEAVED),  # down is square
    case("llama-4", "bf16", lambda writer, layer: fused(
        writer, layer, {"weight": [f"language_model.model.layers.1.feed_forward.experts.{word}"
                                   for word in ("gate_up_proj", "down_proj")]}, turned=True),
         {**SMALL, "experts_per_token": 1}, {"routing_method": "llama4"}, 1),
    case("qwen-3.5-tp", "bf16", lambda writer, layer: fused(
        writer, layer, {"weight": [f"model.language_model.layers.0.mlp.experts.{word}" for word in ("gate_up_proj", "down_proj")]}),
         layer={"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, columns=(32, 32)),
    case("granite", "bf16", lambda writer, layer: fused(
        writer, layer, {"weight": [f"model.layers.0.block_sparse_moe.{word}.weight" for word in ("input_linear", "output_linear")]})),
    case("step3", "bf16", step3, expected_layer=4),
    case("dbrx", "bf16", dbrx),
    case("nemotron", "bf16", hugging_face("backbone.layers.1.mixer"), layer={"activation": "relu2_no_mul"}, expected_layer=1,
         gated=False),
    case("modelopt-nvfp4", "nvfp4_w4a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {}), "second": ("weight_scale_2", SCALAR)})),
    case("compressed-nvfp4", "nvfp4_w4a16", divisors),
]
# Codes in words of 32 bits: (layout, scheme, this rank's columns).
for layout, scheme, columns in [("gptq", "int4_zp_w4a16", None), ("gptq", "int4_w4a16", (128, 128)), ("gptq_v2", "int4_zp_w4a16", (0, 128)),
                                ("awq", "int4_zp_w4a16", (128, 128)), ("pack_quantized", "int4_zp_w4a16", (128, 128))]:
    parallel = {"moe_parallel_config": {"tp_size": 2, "tp_rank": columns[0] // 128}} if columns else {}
    CASES.append(case(f"{layout}-{scheme}", scheme, None, SHAPE, {"stored_layout": layout, **parallel}, columns=columns,
                      words=layout))
# The same with columns in an order of their own.
for layout, scheme in [("gptq", "int4_w4a16"), ("gptq", "int4_zp_w4a16"), ("gptq_v2", "int4_zp_w4a16"), ("pack_quantized", "int4_w4a16")]:
    CASES.append(case(f"{layout}-{scheme}-ordered", scheme, None, SHAPE, {"stored_layout": layout, "group_index": True}, words=layout))


def weights_of(scheme):
    """What of a scheme decides how its weights are loaded."""
    return (*(scheme.get(key) or None for key in ("w", "scale", "group", "rule", "input")),
            bool(scheme.get("second")), bool(scheme.get("zero")))


def scheme_of_row(tools, work, scheme):
    """As SCHEMES has them, from what a manifest says of a row of the catalog."""
    made = {"name": scheme["name"], "in": scheme["a1"] if scheme["a1"] in testing.FLOATS else "bf16"}
    row = {"name": f"scheme-{scheme['name']}", "scheme": made, "shape": SHAPE, "layer": {}}
    package = compiled(tools, fresh(work, row["name"]), layer_json(row))
    quant = json.loads((package / "manifest.json").read_text())["layer"]["quant"]
    weight, input_scale = quant["w1"], quant["a1"]
    made.update({"w": weight["element_type"], "scale": weight["scale_type"], "group": tuple(weight["group"]),
                 "second": weight["second_scale_type"], "zero": weight["zero_point_type"], "rule": weight.get("scale_rule")})
    if input_scale["scale_type"] and not input_scale["dynamic"]:
        made["input"] = "_scale"
    elif input_scale["second_scale_type"] and not input_scale.get("second_per_token"):
        made["input"] = "_second_scale"
    return made


def case_of(made):
    """Of a scheme that no case names: its numbers under the words that most checkpoints have for them."""
    row = {"name": f"row-{made['name']}", "scheme": made, "shape": SHAPE, "layer": {}, "expected_layer": 0}
    words = {"weight": "weight", "scale": "weight_scale", "zero": "weight_zero_point", "second": "weight_scale_2",
             "input": "input_scale"}
    kinds = {kind: (word, {}) for kind, word in words.items() if kind == "weight" or made.get(kind)}
    return {**row, "write": hugging_face("model.layers.0.mlp", kinds=kinds)}


def layer_json(row):
    return {"moec_layer": 1, "name": row["name"].replace("-", "_").replace(".", "_"), **row["shape"], "in_dtype": row["scheme"]["in"],
            "activation": "silu", "routing_method": "renormalize", "quant_config": row["scheme"]["name"], **row["layer"]}


def compiled(tools, folder, layer):
    """The package of a layer."""
    file, package = folder / "layer.json", folder / "package"
    file.write_text(json.dumps(layer))
    status, _, errors = testing.run([tools.moec, "compile", file, "--arch=sm_90a", "--no-cubin", "--max-tokens=64", "-o", package])
    if status:
        raise ValueError(f"moec exited with {status}: {errors.strip()}")
    return package


def fresh(work, name):
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "model").mkdir(parents=True)
    return folder


def write_shards(writer, folder):
    """Two files and their index, as Hugging Face writes a larger model."""
    names = list(writer.tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, part in shards.items():
        writer.write(folder / shard, part)
    index = {"metadata": {"total_size": 0}, "weight_map": {name: shard for shard, part in shards.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def plain_layer(row):
    return layers.Layer(row["shape"], row["scheme"], row.get("gated", True), bool(row["layer"].get("has_bias")),
                        seed=len(row["name"]), shared=row.get("shared", 0), checkpoint_scale=row.get("checkpoint_scale"))


def check_case(tools, work, row, keep):
    """None, or what is wrong."""
    folder = fresh(work, row["name"])
    if row.get("words"):
        layer = words_of.WordLayer(row["shape"], row["words"], len(row["name"]), bool(row["scheme"].get("zero")),
                                   row["layer"].get("group_index", False))
        row = {**row, "write": lambda writer, layer: layer.write(writer, "model.layers.0.mlp", PROJECTIONS)}
    else:
        layer = plain_layer(row)
    writer = layers.Writer()
    row["write"](writer, layer)
    # What else a model has.
    writer.put("model.embed_tokens.weight", [2, 2], bytes(8), "bfloat16")
    writer.put("model.layers.0.mlp.gate_proj.weight", [2, 2], bytes(8), "bfloat16")
    writer.put("mtp.layers.0.mlp.experts.0.gate_proj.weight", [2, 2], bytes(8), "bfloat16")
    if len(row["name"]) % 2:
        write_shards(writer, folder / "model")
    else:
        writer.write(folder / "model" / "model.safetensors")
    if row.get("online"):
        quantizer.quantized(layer, row["online"])
        row = {**row, "scheme": row["online"]}
    try:
        package = compiled(tools, folder, layer_json(row))
    except ValueError as error:
        return f"{row['name']}: {error}"
    command = [tools.moec_run, package, "--device=host", "--tokens=1,19", "--check", "--json", f"--weights={folder / 'model'}",
               *(["--quantize"] if row.get("online") else [])]
    status, output, errors = testing.run(command)
    try:
        report = json.loads(output)
    except ValueError:
        return f"{row['name']}: no JSON, exit {status}: {errors.strip()[-500:]}"
    if report["weights"]["layer"] != row["expected_layer"]:
        return f"{row['name']}: took layer {report['weights']['layer']}, expected {row['expected_layer']}"
    if row.get("words"):
        expected = layer.expected(row.get("columns"))
    else:
        expected = layer.expected(row["layer"].get("gate_up_order", "gate_first"), row.get("columns"), row.get("experts"))
    if row.get("routing_bias"):
        expected["routing_bias"] = layer.routing_bias.data()
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in expected.items()}
    if digests != report["weights"]["sha256"]:
        wrong = [name for name in sorted({*digests, *report["weights"]["sha256"]})
                 if digests.get(name) != report["weights"]["sha256"].get(name)]
        return f"{row['name']}: not what the matrices say: {', '.join(wrong)}"
    if status or not report["runs"]:
        return f"{row['name']}: exit {status}: {errors.strip()[-500:]}"
    if row.get("online"):
        wrong = check_floats(tools, folder, row)
        if wrong:
            return f"{row['name']}: weights of floats: {wrong}"
    if not keep:
        shutil.rmtree(folder)
    return None


def check_floats(tools, folder, row):
    """None, or what is wrong where the package itself quantizes what the checkpoint has; --check compares every byte with the
    reference's."""
    described = {**layer_json(row), "weights_dtype": "bf16"}
    try:
        package = compiled(tools, folder, described)
    except ValueError as error:
        return str(error)
    status, output, errors = testing.run([tools.moec_run, package, "--device=host", "--tokens=19", "--check", "--json",
                                          f"--weights={folder / 'model'}"])
    if status:
        return f"exit {status}: {errors.strip()[-500:]}"
    weights = json.loads(output)["weights"]["sha256"]
    return f"got {', '.join(weights)}" if any(name.endswith(("_scale", "_zero_point")) for name in weights) else None


def online_cases(schemes):
    """Each way to quantize weights, of schemes whose activations have no scales from elsewhere, out of a checkpoint in bf16."""
    seen = set()
    for made in schemes:
        # Formats of weights, whatever the activations are.
        if made["w"] in testing.FLOATS or made.get("input") or weights_of(made) in seen:
            continue
        seen.add(weights_of(made))
        yield case(f"online-{made['name']}", "bf16", hugging_face("model.layers.0.mlp"), WIDE, online=made)
    # A part of a row has the scales of the whole one.
    yield case("online-tp", "bf16", hugging_face("model.layers.0.mlp"), {**WIDE, "intermediate_size": 96},
               {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, online=SCHEMES["int8_w8a16"], columns=(48, 48))
    yield case("online-fused", "bf16", lambda writer, layer: fused(writer, layer, GPT_OSS_NAMES, "interleaved", turned=True,
                                                                 kinds=("weight", "bias")),
               {**WIDE, "intermediate_size": 96}, INTERLEAVED, online=SCHEMES["mxfp4_w4a16"])


#===-- Refusals ------------------------------------------------------------===#

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
    r"DIR/model\.safetensors: tensor '.*': expected data_offsets \[begin, end\] in the \d+ bytes behind the header, got \[\d+,\d+\] "
    r"\[invalid_argument\]")
# (name, scheme, how the checkpoint is damaged, options, what is said; DIR is the folder)
REFUSALS = [
    ("type", "int8_w8a16", replace(GATE, kind="bfloat16", data=bytes(64 * 96 * 2)), [],
     f"DIR: tensor '{GATE}': expected i8 [64, 96] for value 'w13' of layer 'type', got BF16 [64, 96] [refused]"),
    ("shape", "int8_w8a16", replace(GATE, shape=[96, 64]), [],
     f"DIR: tensor '{GATE}': expected i8 [64, 96] for value 'w13' of layer 'shape', got I8 [96, 64] [refused]"),
    ("inexact", "int8_w8a16", replace(SCALE, kind="float32", data=layers.struct.pack("<64f", *[0.1] * 64)), [],
     f"DIR: tensor '{SCALE}' holds 0.1, which is no number of that type; value 'w13_scale' is bf16 [refused]"),
    ("missing", "int8_w8a16", without(SCALE), [],
     "DIR: layer 0, value 'w13_scale': expected a tensor of expert 0, gate_proj (or w1) or gate_up_proj (or input_linear), with "
     f"weight_scale, weight_scale_inv or scales; got {GATE}, model.layers.0.mlp.experts.0.up_proj.weight, "
     "model.layers.0.mlp.experts.0.up_proj.weight_scale, model.layers.0.mlp.experts.0.down_proj.weight and 1 more [refused]"),
    ("layer", "int8_w8a16", damaged(lambda folder, writer, layer: None), ["--layer=7"],
     "DIR: expected experts' weights in layer 7, names such as 'model.layers.3.mlp.experts.0.gate_proj.weight' "
     "(docs/checkpoints.md lists the words), got 18 tensors, 'model.layers.0.mlp.experts.0.down_proj.weight' among them [refused]"),
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
    ("codes", "int8_w8a16", damaged(lambda folder, writer, layer: None), ["--quantize"],
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
     "DIR/model.safetensors: expected a header of at most 2 bytes, as the file has behind the first eight, got a length of "
     "18446744073709551615 [invalid_argument]"),
    ("json", "int8_w8a16", header(b"[1]"), [],
     "DIR/model.safetensors: expected a header of one JSON object behind the first eight bytes, got something else "
     "[invalid_argument]"),
    ("twice", "int8_w8a16", header(b'{"a":{},"a":{}}'), [],
     "DIR/model.safetensors: the header names 'a' twice [invalid_argument]"),
    ("nothing", "int8_w8a16", text("readme.md", b""), [],
     "DIR: expected one *.safetensors.index.json or files *.safetensors, got neither [invalid_argument]"),
    ("escape", "int8_w8a16", text(INDEX, b'{"weight_map":{"a":"../a.safetensors"}}'), [],
     f"DIR/{INDEX}: weight_map of 'a': expected a file in the folder, got \"../a.safetensors\" [invalid_argument]"),
    ("index", "int8_w8a16", text(INDEX, b"{}"), [],
     f"DIR/{INDEX}: expected a JSON object with \"weight_map\", an object of tensors' names and their files [invalid_argument]"),
]


def check_refusal(tools, work, package_of, row):
    name, scheme, make, options, expected = row
    folder = fresh(work, f"refused-{name}")
    layer = layers.Layer(SMALL, SCHEMES[scheme])
    writer = layers.Writer()
    modules(writer, layer, "model.layers.0.mlp", PROJECTIONS, {"weight": ("weight", {}), "scale": ("weight_scale", {})})
    make(folder / "model", writer, layer)
    words = {"stored_layout": "gptq", "group_index": name != "no-order"} if scheme == "int4_w4a16" else {}
    package = compiled(tools, folder, layer_json(case(name, scheme, None, SHAPE if words else SMALL, words)))
    status, _, errors = testing.run([tools.moec_run, package, "--device=host", f"--weights={folder / 'model'}", *options])
    said = errors.strip().removeprefix("moec-run: ").replace(str(folder / "model"), "DIR")
    fits = expected.fullmatch(said) if isinstance(expected, re.Pattern) else said == expected
    if status != 1 or not fits:
        return f"refusal {name}: exit {status}, expected\n    {getattr(expected, 'pattern', expected)}\n  got\n    {said}"
    shutil.rmtree(folder)
    return None


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--keep", action="store_true", help="leave packages and checkpoints, for a run on a GPU")
    arguments = parser.parse_args()
    try:
        import safetensors  # noqa: F401
    except ImportError:
        print("SKIPPED: PyPI's safetensors is not here (./bootstrap test installs it; PYTHONPATH may say where)")
        sys.exit(SKIPPED)
    tools = testing.Tools(arguments.bin)
    work = testing.pathlib.Path(arguments.work).resolve()
    started = time.monotonic()
    schemes = testing.parallel(lambda scheme: scheme_of_row(tools, work, scheme), tools.rows()["schemes"], arguments.jobs)
    covered, others = {weights_of(row["scheme"]) for row in CASES}, []
    for scheme in schemes:
        if weights_of(scheme) not in covered and scheme["w"] not in testing.FLOATS:
            covered.add(weights_of(scheme))
            others.append(case_of(scheme))
    chosen = [row for row in CASES + others + list(online_cases(schemes)) if arguments.only in row["name"]]
    failures = [text for text in testing.parallel(lambda row: check_case(tools, work, row, arguments.keep), chosen, arguments.jobs) if text]
    refusals = [row for row in REFUSALS if arguments.only in row[0]]
    failures += [text for text in testing.parallel(lambda row: check_refusal(tools, work, compiled, row), refusals,
                                                   arguments.jobs) if text]
    testing.finish("checkpoints", len(chosen) + len(refusals), failures, started, time.monotonic())


if __name__ == "__main__":
    main()
