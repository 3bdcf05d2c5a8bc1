# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers and shapes that a checkpoint must not have, in each format that has them; and those that it may have."""

import math
import struct

import checkpoint_layers as layers
import moec_testing as testing
from checkpoint_cases import (BLOCKS, GPT_OSS, GPT_OSS_BLOCKS, INTERLEAVED, PROJECTIONS, SCALAR, SCHEMES, SHAPE, SMALL, case, compiled,
                              divisors, fresh, fused, hugging_face, layer_json, routing_bias)
from checkpoint_untaken import CODES, EXPERT, MLP, SCALED, plain

STATIC = {**CODES, "scale": ("weight_scale", SCALAR), "input": ("input_scale", {"shape": [1]})}
SECOND = {**SCALED, "second": ("weight_scale_2", SCALAR)}
BIAS = MLP + ".gate.e_score_correction_bias"
POSITIVE = "expected a scale that is finite and above 0"
FINITE = "expected a scale that is a finite number"


def changed(make, name, change=None, shape=None):
    """The checkpoint with another tensor: change(bytes) gives its bytes."""
    def write(writer):
        make(writer)
        kind, extents, data = writer.tensors[name]
        writer.put(name, shape or extents, change(data) if change else data, kind)
    return write


def ends_with(data):
    return lambda old: old[:-len(data)] + data


def f32(number):
    return ends_with(struct.pack("<f", number))


def said(name, number, problem, value, element, expert=0):
    return lambda layer: f"DIR: tensor '{name}' of expert {expert} holds {number}, {problem}; value '{value}' is {element} [refused]"


def shaped(name, element, expected, value, got):
    return lambda layer: f"DIR: tensor '{name}': expected {element} {expected} for value '{value}' of layer '{layer}', got {got} [refused]"


def gpt_oss(writer):
    made = layers.Layer(SMALL, SCHEMES["mxfp4_w4a16"], bias=True)
    fused(writer, made, GPT_OSS_BLOCKS, "interleaved", kinds=("weight", "scale", "bias"))


def with_inputs(writer, layer):
    """compressed-tensors: static second scales of activations, inverted."""
    divisors(writer, layer)
    for expert in range(layer.experts):
        for word in PROJECTIONS.values():
            writer.put(f"{MLP}.experts.{expert}.{word}.input_global_scale", [1], struct.pack("<f", 64), "float32")


STATIC_FP8 = plain("fp8_tensor", hugging_face(MLP, kinds=STATIC))
MODELOPT = plain("nvfp4_w4a16", hugging_face(MLP, kinds=SECOND), SHAPE)
COMPRESSED = plain("nvfp4_w4a16", with_inputs, SHAPE)
FP8_BLOCK = plain("fp8_block", hugging_face(MLP, kinds=BLOCKS), SHAPE)
CHANNEL = plain("fp8_channel", hugging_face(MLP, kinds=SCALED))
ROUTED = plain("bf16", hugging_face(MLP, more=routing_bias(BIAS)))
NVFP4 = {"quant_config": "nvfp4"}
ROUTED_FIELDS = {"routing_method": "deepseek_v3", "e_score_correction_bias": True}
INPUT = MLP + ".experts.2.down_proj.input_scale"
GLOBAL = MLP + ".experts.1.up_proj.input_global_scale"

# (name, the package's scheme, its layer's fields, its shape, what writes the checkpoint, options, what is said of a layer's name)
NUMBERS = [
    *((f"static-{number}", "fp8_tensor", {}, SMALL, changed(STATIC_FP8, INPUT, f32(number)), [],
       said(INPUT, f"{number:g}", POSITIVE, "a2_scale", "f32", 2)) for number in (0.0, -0.5, math.inf, math.nan)),
    ("static-not-of-this-rank", "fp8_tensor", {"moe_parallel_config": {"tp_size": 3, "tp_rank": 0, "use_ep": True}}, SMALL,
     changed(STATIC_FP8, INPUT, f32(0.0)), [], said(INPUT, "0", POSITIVE, "a2_scale", "f32", 2)),
    ("scale-of-a-weight", "fp8_tensor", {}, SMALL, changed(STATIC_FP8, EXPERT + "up_proj.weight_scale", f32(0.0)), [],
     said(EXPERT + "up_proj.weight_scale", "0", POSITIVE, "w13_scale", "f32")),
    ("scale-of-a-row", "fp8_channel", {}, SMALL, changed(CHANNEL, EXPERT + "down_proj.weight_scale", f32(-math.inf)), [],
     said(EXPERT + "down_proj.weight_scale", "-inf", FINITE, "w2_scale", "f32")),
    ("scale-of-a-block", "fp8_block", {}, SHAPE, changed(FP8_BLOCK, EXPERT + "up_proj.weight_scale_inv", f32(math.nan)), [],
     said(EXPERT + "up_proj.weight_scale_inv", "nan", FINITE, "w13_scale", "f32")),
    *((f"second-{number}", "nvfp4_w4a16", {}, SHAPE, changed(MODELOPT, EXPERT + "up_proj.weight_scale_2", f32(number)), [],
       said(EXPERT + "up_proj.weight_scale_2", f"{number:g}", POSITIVE, "w13_second_scale", "f32")) for number in (0.0, -1.0, math.nan)),
    ("scale-of-e4m3", "nvfp4_w4a16", {}, SHAPE, changed(MODELOPT, EXPERT + "gate_proj.weight_scale", ends_with(b"\x7f")), [],
     said(EXPERT + "gate_proj.weight_scale", "nan", FINITE, "w13_scale", "f8E4M3FN")),
    *((f"divisor-{number}", "nvfp4_w4a16", NVFP4, SHAPE, changed(COMPRESSED, EXPERT + "down_proj.weight_global_scale", f32(number)), [],
       said(EXPERT + "down_proj.weight_global_scale", f"{number:g}", POSITIVE, "w2_second_scale", "f32"))
      for number in (0.0, math.inf, math.nan)),
    ("divisor-too-small", "nvfp4_w4a16", NVFP4, SHAPE, changed(COMPRESSED, EXPERT + "down_proj.weight_global_scale", f32(1e-39)), [],
     said(EXPERT + "down_proj.weight_global_scale", "1e-39", "whose inverse is beyond the numbers of f32", "w2_second_scale", "f32")),
    *((f"input-divisor-{number}", "nvfp4_w4a16", NVFP4, SHAPE, changed(COMPRESSED, GLOBAL, f32(number)), [],
       said(GLOBAL, f"{number:g}", POSITIVE, "a1_second_scale", "f32", 1)) for number in (0.0, -2.0, math.inf)),
    ("exponent-255", "mxfp4_w4a16", INTERLEAVED, SMALL, changed(gpt_oss, GPT_OSS + "down_proj_scales", ends_with(b"\xff")), [],
     said(GPT_OSS + "down_proj_scales", "nan", FINITE, "w2_scale", "f8E8M0FNU", 2)),
    ("bias", "mxfp4_w4a16", INTERLEAVED, SMALL, changed(gpt_oss, GPT_OSS + "gate_up_proj_bias", ends_with(b"\x80\x7f")), [],
     said(GPT_OSS + "gate_up_proj_bias", "inf", "expected a finite number", "b13", "bf16", 2)),
    ("routing-bias", "bf16", ROUTED_FIELDS, SMALL, changed(ROUTED, BIAS, f32(math.nan)), [],
     lambda layer: f"DIR: tensor '{BIAS}' holds nan, expected a finite number; value 'routing_bias' is f32 [refused]"),
    ("weights-to-quantize", "int8_w8a16", {}, SMALL,
     changed(plain("bf16", hugging_face(MLP)), EXPERT + "up_proj.weight", ends_with(b"\xc0\x7f")), ["--quantize"],
     lambda layer: f"DIR: tensor '{EXPERT}up_proj.weight' of expert 0 holds nan, expected a finite number [refused]"),
    ("weights-dtype", "int8_w8a16", {"weights_dtype": "bf16"}, SMALL,
     changed(plain("bf16", hugging_face(MLP)), EXPERT + "up_proj.weight", ends_with(b"\xc0\x7f")), [],
     said(EXPERT + "up_proj.weight", "nan", "expected a finite number", "w13", "bf16")),
    # The same bytes in another shape.
    ("blocks-swapped", "mxfp4_w4a16", INTERLEAVED, SMALL, changed(gpt_oss, GPT_OSS + "gate_up_proj_blocks", shape=[3, 128, 16, 3]), [],
     shaped(GPT_OSS + "gate_up_proj_blocks", "f4E2M1FN", "[3, 128, 3, 32]", "w13", "U8 [3, 128, 16, 3]")),
    ("blocks-flat", "mxfp4_w4a16", INTERLEAVED, SMALL, changed(gpt_oss, GPT_OSS + "gate_up_proj_blocks", shape=[3, 128, 48]), [],
     shaped(GPT_OSS + "gate_up_proj_blocks", "f4E2M1FN", "[3, 128, 3, 32]", "w13", "U8 [3, 128, 48]")),
    ("block-scales", "fp8_block", {}, SHAPE, changed(FP8_BLOCK, EXPERT + "up_proj.weight_scale_inv", shape=[4]), [],
     shaped(EXPERT + "up_proj.weight_scale_inv", "f32", "[2, 2]", "w13_scale", "F32 [4]")),
    ("bias-in-columns", "mxfp4_w4a16", INTERLEAVED, SMALL, changed(gpt_oss, GPT_OSS + "down_proj_bias", shape=[3, 96, 1]), [],
     shaped(GPT_OSS + "down_proj_bias", "bf16", "[3, 96]", "b2", "BF16 [3, 96, 1]")),
    ("routing-bias-in-columns", "bf16", ROUTED_FIELDS, SMALL, changed(ROUTED, BIAS, shape=[3, 1]), [],
     shaped(BIAS, "f32", "[3]", "routing_bias", "F32 [3, 1]")),
    # These may be: a block of zeros, a row that is negative, one group of routers, ModelOpt's shape of blocks.
    ("block-of-zeros", "fp8_block", {}, SHAPE, changed(FP8_BLOCK, EXPERT + "up_proj.weight_scale_inv", f32(0.0)), [], None),
    ("negative-row", "fp8_channel", {}, SMALL, changed(CHANNEL, EXPERT + "down_proj.weight_scale", f32(-0.5)), [], None),
    ("routing-bias-of-a-group", "bf16", ROUTED_FIELDS, SMALL, changed(ROUTED, BIAS, shape=[1, 3]), [], None),
    ("blocks-of-modelopt", "fp8_block", {}, SHAPE, changed(FP8_BLOCK, EXPERT + "up_proj.weight_scale_inv", shape=[2, 1, 2, 1]), [], None),
    # Floats of another type are rounded.
    *((f"{stored}-as-{scheme}", scheme, {}, SMALL, plain(stored, hugging_face(MLP)), [], None)
      for stored, scheme in (("f32", "bf16"), ("f16", "bf16"), ("bf16", "f16"), ("f32", "f16"))),
    # Scales that the realization leaves out are looked at, too.
    ("left-out", "nvfp4_w4a16", NVFP4, SHAPE, changed(COMPRESSED, GLOBAL, f32(0.0)), ["--allow=weight_only"],
     lambda layer: f"DIR: tensor '{GLOBAL}' of expert 1 holds 0, {POSITIVE}; or --ignore-tensor=input_global_scale to leave it out "
                   "[refused]"),
]


def check_numbers(tools, work, row):
    """None, or what is wrong: whether a checkpoint is refused in these words, or right if there are none."""
    name, scheme, fields, shape, write, options, expected = row
    folder = fresh(work, f"numbers-{name}")
    writer = layers.Writer()
    write(writer)
    writer.write(folder / "model" / "model.safetensors")
    made = case(name, scheme, None, shape, fields)
    of_compiler = [word for word in options if word.startswith("--allow")]
    package = compiled(tools, folder, layer_json(made), of_compiler)
    status, _, errors = testing.run([tools.moec_run, package, "--device=host", "--tokens=9", "--check", f"--weights={folder / 'model'}",
                                    *[word for word in options if word not in of_compiler]])
    got = errors.strip().removeprefix("moec-run: ").replace(str(folder / "model"), "DIR")
    wanted = expected(layer_json(made)["name"]) if expected else ""
    if status != bool(expected) or got != wanted:
        return f"numbers {name}: exit {status}, expected\n    {wanted}\n  got\n    {got}"
    return None
