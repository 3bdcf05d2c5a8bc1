# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of each scheme under the names of families of models, and the layers that they are of."""

import json
import shutil
import struct

import checkpoint_layers as layers
import moec_testing as testing

SHAPE = {"num_experts": 5, "top_k": 2, "hidden_size": 256, "intermediate_size": 256}
WIDE = {"num_experts": 2, "top_k": 1, "hidden_size": 160, "intermediate_size": 64}
SMALL = {"num_experts": 3, "top_k": 2, "hidden_size": 96, "intermediate_size": 64}

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
    "int8_zp_w8a16": {"w": "i8", "scale": "bf16", "group": (1, 128), "zero": True},
    "mxfp8": {"w": "f8E4M3FN", "scale": "f8E8M0FNU", "group": (1, 32)},
    "mxfp4_w4a16": {"w": "f4E2M1FN", "scale": "f8E8M0FNU", "group": (1, 32)},
    "nvfp4_w4a16": {"w": "f4E2M1FN", "scale": "f8E4M3FN", "group": (1, 16), "second": True},
    "nvfp4": {"w": "f4E2M1FN", "scale": "f8E4M3FN", "group": (1, 16), "second": True, "input": "_second_scale"},
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


def fused(writer, layer, names, order="gate_first", turned=False, kinds=("weight",), experts=None):
    """All experts in one tensor, gates and ups too; names[kind] = (of gates and ups, of down)."""
    for kind in kinds:
        matrices = layer.of[kind]
        for index, name in enumerate(names[kind]):
            made = []
            for expert in experts or range(layer.experts):
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


def inkling(kinds):
    """Rows of gate and up alternate, whatever the order of the layer; the router keeps the bias that chooses experts."""
    def write(writer, layer):
        fused(writer, layer, INKLING_NAMES, "interleaved", kinds=kinds)
        writer.matrix("model.llm.layers.2.mlp.gate.bias", layer.routing_bias, shape=[layer.experts])
    return write


def sinks(prefix, kinds=("weight",)):
    """Shared experts have tensors of their own with a dimension of experts; the router has a factor of all experts."""
    def write(writer, layer):
        own = range(layer.experts, len(layer.of["weight"]["down"]))
        if prefix == INKLING_PREFIX:
            fused(writer, layer, INKLING_NAMES, "interleaved", kinds=kinds)
            fused(writer, layer, SHARED_NAMES, "interleaved", kinds=kinds, experts=own)
        else:
            fused(writer, layer, {"weight": [f"{prefix}.experts.{word}" for word in ("gate_up_proj", "down_proj")]})
            for part, word in PROJECTIONS.items():
                matrices = [layer.of["weight"][part][expert] for expert in own]
                writer.put(f"{prefix}.shared_experts.{word}", [len(matrices), len(matrices[0].rows), matrices[0].columns],
                           b"".join(matrix.data() for matrix in matrices), "bfloat16")
        writer.matrix(f"{prefix}.gate.{'bias' if prefix == INKLING_PREFIX else 'e_score_correction_bias'}", layer.routing_bias,
                      shape=[layer.experts])
        writer.put(f"{prefix}.gate.global_scale", [1], struct.pack("<f", GLOBAL_SCALE), "float32")
    return write


def sink_case(name, scheme, write, shape=SMALL, layer=None, sinks=2, **options):
    """Sinks are shared experts of the checkpoint. The layer counts them among its experts, and among those of a token."""
    fields = {"routing_method": "sigmoid_sinks", "e_score_correction_bias": True, "per_expert_scale": True, "num_sink_experts": sinks,
              "num_experts": shape["num_experts"] + sinks, "top_k": shape["top_k"] + sinks}
    return case(f"sinks-{name}", scheme, write, shape, {**fields, **(layer or {})}, 2, shared=sinks, routing_bias=True,
                global_scale=GLOBAL_SCALE, **options)


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


def divisors_of_both(writer, layer):
    """compressed-tensors: one over the second scales of weights and of activations."""
    divisors(writer, layer)
    for part, matrices in layer.of["input"].items():
        for expert, matrix in enumerate(matrices):
            stored = layers.struct.pack("<f", 1 / layers.struct.unpack("<f", matrix.data())[0])
            # One over a number of f32, which a loader rounds.
            matrix.rows = [layers.struct.pack("<f", 1 / layers.struct.unpack("<f", stored)[0])]
            writer.put(f"model.layers.0.mlp.experts.{expert}.{PROJECTIONS[part]}.input_global_scale", [1], stored, "float32")


def input_scales(writer, layer):
    for part, word in PROJECTIONS.items():
        for expert in range(layer.experts):
            writer.put(f"model.layers.0.mlp.experts.{expert}.{word}.input_scale", [], layers.struct.pack("<f", 0.5), "float32")


def shared_expert(writer, layer):
    for part, word in PROJECTIONS.items():
        writer.matrix(f"model.layers.0.mlp.shared_expert.{word}.weight", layer.of["weight"][part][0])
    writer.put("model.layers.0.mlp.shared_expert_gate.weight", [1, SMALL["hidden_size"]], bytes(2 * SMALL["hidden_size"]), "bfloat16")


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
INKLING = "model.llm.layers.2.mlp.experts."
INKLING_NAMES = {
    "weight": (INKLING + "w13_weight", INKLING + "w2_weight"),
    "scale": (INKLING + "w13_weight_scale", INKLING + "w2_weight_scale"),
}
INKLING_PREFIX = "model.llm.layers.2.mlp"
SHARED_NAMES = {
    kind: [name.replace("experts.w", "shared_experts.shared_w") for name in names] for kind, names in INKLING_NAMES.items()
}
GLOBAL_SCALE = 1.25
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
    # A rank's half of the columns of two shared experts is the second one.
    case("deepseek-v3-ep-shared", "fp8_block", hugging_face("model.layers.3.mlp", kinds=BLOCKS, more=BIAS_OF_DEEPSEEK), SHAPE,
         {**DEEPSEEK, "n_shared_experts": 2, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}}, 3, shared=2,
         routing_bias=True, experts=[3, 4], apart={"experts": [6]}),
    case("ep-shared", "bf16", hugging_face("model.layers.0.mlp", shared="shared_expert"), SMALL,
         {"n_shared_experts": 1, "moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True}},
         shared=1, experts=[2], apart={"experts": [3], "columns": (32, 32)}),
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
    case("zero-points-of-bytes", "int8_zp_w8a16", hugging_face("model.layers.0.mlp", kinds={
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
         {**SMALL, "top_k": 1}, {"routing_method": "llama4"}, 1),
    case("qwen-3.5-tp", "bf16", lambda writer, layer: fused(
        writer, layer, {"weight": [f"model.language_model.layers.0.mlp.experts.{word}" for word in ("gate_up_proj", "down_proj")]}),
         layer={"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, columns=(32, 32)),
    case("granite", "bf16", lambda writer, layer: fused(
        writer, layer, {"weight": [f"model.layers.0.block_sparse_moe.{word}.weight" for word in ("input_linear", "output_linear")]})),
    case("step3", "bf16", step3, expected_layer=4),
    case("dbrx", "bf16", dbrx),
    case("nemotron", "bf16", hugging_face("backbone.layers.1.mixer"), layer={"activation": "relu2_no_mul"}, expected_layer=1,
         gated=False),
    case("inkling", "bf16", inkling(["weight"]), layer=DEEPSEEK, expected_layer=2, routing_bias=True),
    case("inkling-square", "bf16", inkling(["weight"]), {**SMALL, "intermediate_size": 48}, {**DEEPSEEK, "gate_up_order": "up_first"},
         2, routing_bias=True),
    case("inkling-tp", "mxfp8", inkling(["weight", "scale"]),
         layer={**DEEPSEEK, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, expected_layer=2, routing_bias=True, columns=(32, 32)),
    sink_case("inkling", "bf16", sinks(INKLING_PREFIX)),
    sink_case("inkling-up-first", "bf16", sinks(INKLING_PREFIX), layer={"gate_up_order": "up_first"}),
    sink_case("inkling-tp", "mxfp8", sinks(INKLING_PREFIX, ["weight", "scale"]), SHAPE,
              {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, columns=(128, 128)),
    sink_case("inkling-ep", "bf16", sinks(INKLING_PREFIX), layer={"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
              experts=[3, 4]),
    sink_case("of-transformers", "bf16", sinks("model.layers.2.mlp")),
    sink_case("of-transformers-tp", "bf16", sinks("model.layers.2.mlp"), layer={"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
              columns=(32, 32)),
    case("aria", "bf16", lambda writer, layer: fused(writer, layer, {
        "weight": [f"language_model.model.layers.1.mlp.experts.{word}.weight" for word in ("fc1", "fc2")]}, turned=True),
         expected_layer=1),
    case("aria-square", "bf16", lambda writer, layer: fused(writer, layer, {
        "weight": [f"model.layers.1.mlp.experts.{word}.weight" for word in ("fc1", "fc2")]}, turned=True),
         {**SMALL, "intermediate_size": 96}, expected_layer=1),
    # Transformers' names of fused experts.
    case("fused-fp8", "fp8_block", lambda writer, layer: fused(writer, layer, {
        "weight": (GPT_OSS + "gate_up_proj", GPT_OSS + "down_proj"),
        "scale": (GPT_OSS + "gate_up_proj_scale_inv", GPT_OSS + "down_proj_scale_inv")}, kinds=("weight", "scale")), SHAPE),
    case("fused-fp8-tp", "fp8_block", lambda writer, layer: fused(writer, layer, {
        "weight": (GPT_OSS + "gate_up_proj", GPT_OSS + "down_proj"),
        "scale": (GPT_OSS + "gate_up_proj_scale_inv", GPT_OSS + "down_proj_scale_inv")}, kinds=("weight", "scale")), SHAPE,
         {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, columns=(128, 128)),
    case("static-of-transformers", "fp8_tensor", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale_inv", SCALAR), "input": ("activation_scale", SCALAR)})),
    case("modelopt-nvfp4", "nvfp4_w4a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {}), "second": ("weight_scale_2", SCALAR)})),
    case("compressed-nvfp4", "nvfp4_w4a16", divisors),
    case("compressed-nvfp4-activations", "nvfp4", divisors_of_both),
]
# Codes in words of 32 bits: (layout, scheme, this rank's columns).
for layout, scheme, columns in [("gptq", "int4_zp_w4a16", None), ("gptq", "int4_w4a16", (128, 128)), ("gptq_v2", "int4_zp_w4a16", (0, 128)),
                                ("awq", "int4_zp_w4a16", (128, 128)), ("pack_quantized", "int4_zp_w4a16", (128, 128))]:
    parallel = {"moe_parallel_config": {"tp_size": 2, "tp_rank": columns[0] // 128}} if columns else {}
    CASES.append(case(f"{layout}-{scheme}", scheme, None, SHAPE, {"stored_layout": layout, **parallel}, columns=columns,
                      words=layout))
# A symmetric layer's checkpoint that says so of each group.
for layout in ("gptq", "gptq_v2", "pack_quantized"):
    CASES.append(case(f"{layout}-int4_w4a16-symmetric", "int4_w4a16", None, SHAPE, {"stored_layout": layout}, words=layout, symmetric=True))
# Tensors that the caller leaves out, or that a layer without quantized activations has no use for.
CASES += [
    case("modelopt-nvfp4-weight-only", "nvfp4_w4a16", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", {}), "second": ("weight_scale_2", SCALAR)},
        more=lambda writer, layer: input_scales(writer, layer)),
         layer={"quant_config": "nvfp4"}, compile=["--allow=weight_only"]),
    case("static-as-dynamic", "fp8_tensor_dynamic", hugging_face("model.layers.0.mlp", kinds={
        "weight": ("weight", {}), "scale": ("weight_scale", SCALAR)}, more=lambda writer, layer: input_scales(writer, layer)),
         options=["--ignore-tensor=input_scale"]),
    case("without-shared", "bf16", hugging_face("model.layers.0.mlp", more=lambda writer, layer: shared_expert(writer, layer)),
         options=["--no-shared-experts"]),
]
# The same with columns in an order of their own.
for layout, scheme in [("gptq", "int4_w4a16"), ("gptq", "int4_zp_w4a16"), ("gptq_v2", "int4_zp_w4a16"), ("pack_quantized", "int4_w4a16")]:
    CASES.append(case(f"{layout}-{scheme}-ordered", scheme, None, SHAPE, {"stored_layout": layout, "group_index": True}, words=layout))


def layer_json(row):
    return {"moec_layer": 1, "name": row["name"].replace("-", "_").replace(".", "_"), **row["shape"], "in_dtype": row["scheme"]["in"],
            "activation": "silu", "routing_method": "renormalize", "quant_config": row["scheme"]["name"], **row["layer"]}


def compiled(tools, folder, layer, options=()):
    """The package of a layer. options: of the compiler."""
    file, package = folder / "layer.json", folder / "package"
    file.write_text(json.dumps(layer))
    status, _, errors = testing.run([tools.moec, "compile", file, "--arch=sm_90a", "--no-cubin", "--max-tokens=64", "-o", package,
                                    *options])
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
