# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints of one layer in the package of another: what the package would leave out is named, with what would take it.

Each would load without this rule, and the run would agree with a reference that reads the same weights.
"""

import re

import checkpoint_layers as layers
import checkpoint_words as words_of
from checkpoint_cases import (BLOCKS, GPT_OSS, GPT_OSS_BLOCKS, GPT_OSS_NAMES, INTERLEAVED, NUMBERED, PROJECTIONS, SCALAR, SCHEMES, SHAPE,
                              SMALL, case, fresh, fused, hugging_face, input_scales, modules, routing_bias, shared_expert)
from checkpoint_refusals import check_said

MLP = "model.layers.0.mlp"
EXPERT = MLP + ".experts.0."
CODES = {"weight": ("weight", {})}
SCALED = {**CODES, "scale": ("weight_scale", {})}


def plain(scheme, write, shape=SMALL, **options):
    """A checkpoint of a scheme of SCHEMES."""
    def make(writer):
        write(writer, layers.Layer(shape, SCHEMES[scheme], **options))
    return make


def words(layout, zero=False, symmetric=False, change=None):
    """A checkpoint in words of 32 bits."""
    def make(writer):
        words_of.WordLayer(SHAPE, layout, 3, zero, False, symmetric).write(writer, MLP, PROJECTIONS)
        for name in [name for name in writer.tensors if change and name.endswith(".qzeros")]:
            kind, shape, data = writer.tensors[name]
            writer.put(name, shape, change(data), kind)
    return make


def gpt_oss(names, kinds, **options):
    return lambda writer, layer: fused(writer, layer, names, "interleaved", kinds=kinds, **options)


def both(writer, layer):
    """Gates and ups apart, and together."""
    modules(writer, layer, MLP, PROJECTIONS, CODES)
    fused(writer, layer, {"weight": (MLP + ".experts.gate_up_proj", MLP + ".experts.down_proj")})


def untaken(name, what, accepted, word=""):
    """`word`: of a tensor that may be left out."""
    left_out = f", or --ignore-tensor={word} if no number of the layer depends on it" if word else ""
    return lambda layer: (f"DIR: tensor '{name}' {what}, and no value of layer '{layer}' takes it; accepted: {accepted}{left_out} "
                          "[refused]")


def zero_points(got, expected, layout, other=""):
    """`other`: the layout whose middle all of them are."""
    accepted = (f"the layer of checkpoint_format {other} in quantization_config (stored_layout of a layer JSON), or "
                "--ignore-tensor=qzeros, where 8 is the middle of the codes" if other else
                "a layer with zero points (sym false in quantization_config, or quant_config int4_zp_w4a16 of a layer JSON)")
    return lambda layer: (f"DIR: tensor '{EXPERT}gate_proj.qzeros' holds zero point {got}, and layer '{layer}' is symmetric: expected "
                          f"{expected} everywhere in stored_layout {layout}; accepted: {accepted} [refused]")


OF_EXPERTS = "of the layer's experts"
FP8_BLOCK = untaken(EXPERT + "gate_proj.weight_scale_inv", f"holds scales {OF_EXPERTS}", "a layer with quant_config fp8_block")
STATIC = untaken(EXPERT + "gate_proj.input_scale", f"holds scales of activations {OF_EXPERTS}",
                 "a layer with static scales of activations (quant_config fp8_tensor, int8_tensor or nvfp4)", "input_scale")
BIASES = untaken(GPT_OSS + "gate_up_proj_bias", f"holds biases {OF_EXPERTS}", "a layer with has_bias")
WITHOUT_BIAS = {**INTERLEAVED, "has_bias": False}

# (name, the package's scheme, its layer's fields, its shape, what writes the checkpoint, options, what is said of a layer's name)
UNTAKEN = [
    ("fp8-block-in-bf16", "bf16", {}, SHAPE, plain("fp8_block", hugging_face(MLP, kinds=BLOCKS), SHAPE), [], FP8_BLOCK),
    ("fp8-block-in-floats", "fp8_block", {"weights_dtype": "bf16"}, SHAPE, plain("fp8_block", hugging_face(MLP, kinds=BLOCKS), SHAPE), [],
     untaken(EXPERT + "gate_proj.weight_scale_inv", f"holds scales {OF_EXPERTS}",
             "a layer without weights_dtype, since these weights are quantized")),
    ("fp8-channel-in-bf16", "bf16", {}, SMALL, plain("fp8_channel", hugging_face(MLP, kinds=SCALED)), [],
     untaken(EXPERT + "gate_proj.weight_scale", f"holds scales {OF_EXPERTS}",
             "a layer with quant_config fp8_tensor, fp8_channel or fp8_block")),
    # Codes without scales, and those whose scales the caller leaves out, are no floats.
    ("codes-in-bf16", "bf16", {}, SMALL, plain("fp8_channel", hugging_face(MLP, kinds=CODES)), [],
     lambda layer: f"DIR: tensor '{EXPERT}gate_proj.weight': expected bf16 [64, 96] for value 'w13' of layer '{layer}', got F8_E4M3 "
                   "[64, 96] [refused]"),
    ("codes-in-f32", "f32", {}, SMALL, plain("fp8_channel", hugging_face(MLP, kinds=SCALED)), ["--ignore-tensor=weight_scale"],
     lambda layer: f"DIR: tensor '{EXPERT}gate_proj.weight': expected f32 [64, 96] for value 'w13' of layer '{layer}', got F8_E4M3 "
                   "[64, 96] [refused]"),
    ("codes-quantized", "fp8_w8a16", {}, SMALL, plain("fp8_channel", hugging_face(MLP, kinds=SCALED)), ["--quantize"],
     untaken(EXPERT + "gate_proj.weight_scale", f"holds scales {OF_EXPERTS}", "no --quantize, since these weights are quantized")),
    ("gptq-in-symmetric", "int4_w4a16", {"stored_layout": "gptq"}, SHAPE, words("gptq", zero=True), [],
     lambda layer: re.compile(re.escape(zero_points("0", 7, "gptq")(layer)).replace("point\\ 0", r"point\ \d+"))),
    ("gptq-v2-in-gptq", "int4_w4a16", {"stored_layout": "gptq"}, SHAPE, words("gptq_v2", symmetric=True), [],
     zero_points(8, 7, "gptq", "gptq_v2")),
    ("gptq-in-gptq-v2", "int4_w4a16", {"stored_layout": "gptq_v2"}, SHAPE, words("gptq", symmetric=True), [],
     zero_points(7, 8, "gptq_v2", "gptq")),
    # One zero point of all, at the end of the tensor.
    ("gptq-one-other", "int4_w4a16", {"stored_layout": "gptq"}, SHAPE,
     words("gptq", symmetric=True, change=lambda data: data[:-1] + bytes([0x67])), [], zero_points(6, 7, "gptq")),
    ("static-in-dynamic", "fp8_tensor_dynamic", {}, SMALL,
     plain("fp8_tensor_dynamic", hugging_face(MLP, kinds={**CODES, "scale": ("weight_scale", SCALAR)}, more=input_scales)), [], STATIC),
    ("static-in-weight-only", "nvfp4_w4a16", {}, SHAPE,
     plain("nvfp4_w4a16", hugging_face(MLP, kinds={**SCALED, "second": ("weight_scale_2", SCALAR)}, more=input_scales), SHAPE), [], STATIC),
    ("nvfp4-in-int4", "int4_w4a16", {}, SHAPE,
     plain("nvfp4_w4a16", hugging_face(MLP, kinds={**SCALED, "second": ("weight_scale_2", SCALAR)}), SHAPE), [],
     untaken(EXPERT + "gate_proj.weight_scale_2", f"holds scales of scales {OF_EXPERTS}",
             "a layer with quant_config nvfp4 or nvfp4_w4a16")),
    ("gpt-oss-without-bias", "mxfp4_w4a16", WITHOUT_BIAS, SMALL,
     plain("mxfp4_w4a16", gpt_oss(GPT_OSS_BLOCKS, ("weight", "scale", "bias")), bias=True), [], BIASES),
    ("gpt-oss-bf16-without-bias", "bf16", WITHOUT_BIAS, SMALL,
     plain("bf16", gpt_oss(GPT_OSS_NAMES, ("weight", "bias"), turned=True), bias=True), [], BIASES),
    ("routing-bias", "bf16", {}, SMALL,
     plain("bf16", hugging_face(MLP, more=routing_bias(MLP + ".gate.e_score_correction_bias"))), [],
     untaken(MLP + ".gate.e_score_correction_bias", "holds the bias that chooses experts of the router",
             "a layer with e_score_correction_bias")),
    ("shared", "bf16", {}, SMALL, plain("bf16", hugging_face(MLP, more=shared_expert)), [],
     lambda layer: f"DIR: tensor '{MLP}.shared_expert.gate_proj.weight' is a shared expert's, and layer '{layer}' has none; accepted: "
                   "a layer with n_shared_experts, or --no-shared-experts where the caller computes them [refused]"),
    ("no-shared", "bf16", {}, SMALL, plain("bf16", hugging_face(MLP)), ["--no-shared-experts"],
     lambda layer: "DIR: layer 0 has no shared experts; leave --no-shared-experts out [refused]"),
    ("shared-gate", "bf16", {"n_shared_experts": 1}, SMALL, plain("bf16", hugging_face(MLP, more=shared_expert)), [],
     untaken(MLP + ".shared_expert_gate.weight", "weighs the layer's shared experts", "a layer with shared_expert_gate",
             "shared_expert_gate")),
    ("more-experts", "bf16", {}, {**SMALL, "num_experts": 2}, plain("bf16", hugging_face(MLP)), [],
     lambda layer: f"DIR: tensor '{MLP}.experts.2.gate_proj.weight': expected experts 0 to 1 of layer '{layer}', got expert 2 [refused]"),
    ("both", "bf16", {}, SMALL, plain("bf16", both), [],
     lambda layer: f"DIR: tensors '{EXPERT}gate_proj.weight' and '{MLP}.experts.gate_up_proj' both hold weights of expert 0, gate_proj "
                   "(or w1); expected one of them [refused]"),
    ("gates-of-ungated", "bf16", {"activation": "relu2_no_mul"}, SMALL, plain("bf16", hugging_face(MLP, NUMBERED)), [],
     lambda layer: f"DIR: tensors '{EXPERT}w3.weight' and '{EXPERT}w1.weight' both hold weights of expert 0, up_proj (or w3, v1); "
                   "expected one of them [refused]"),
]


def check_untaken(tools, work, row):
    name, scheme, fields, shape, write, options, said = row
    folder = fresh(work, f"untaken-{name}")
    writer = layers.Writer()
    write(writer)
    writer.write(folder / "model" / "model.safetensors")
    made = case(name, scheme, None, shape, fields)
    layer = made["name"].replace("-", "_")
    return check_said(tools, folder, made, options, said(layer))
