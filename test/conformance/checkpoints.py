#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec-run --weights: small checkpoints of each scheme, named as families of models name them, written by PyPI's safetensors.

For each: what was loaded is what the layer's matrices say (SHA-256 of every stored weight, computed here), and the layer is
right on the host device with those weights. Then what is refused, with its whole message.
"""

import hashlib
import json
import shutil
import struct
import sys
import time

import checkpoint_layers as layers
import checkpoint_quantizer as quantizer
import checkpoint_words as words_of
import moec_testing as testing
from checkpoint_cases import (CASES, GPT_OSS_NAMES, INTERLEAVED, PROJECTIONS, SCHEMES, SHAPE, SMALL, WIDE, case, compiled, fresh, fused,
                              hugging_face, layer_json, plain_layer, write_shards)
from checkpoint_numbers import NUMBERS, check_numbers
from checkpoint_refusals import REFUSALS, check_refusal
from checkpoint_untaken import UNTAKEN, check_untaken

SKIPPED = 77


def weights_of(scheme):
    """The parts of a scheme that decide how its weights are loaded."""
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
    elif input_scale["second_scale_type"] and not input_scale.get("second_per_row"):
        made["input"] = "_second_scale"
    return made


def case_of(made):
    """A case for a scheme that no case names: its numbers under the words that most checkpoints have for them."""
    row = {"name": f"row-{made['name']}", "scheme": made, "shape": SHAPE, "layer": {}, "expected_layer": 0}
    words = {"weight": "weight", "scale": "weight_scale", "zero": "weight_zero_point", "second": "weight_scale_2",
             "input": "input_scale"}
    kinds = {kind: (word, {}) for kind, word in words.items() if kind == "weight" or made.get(kind)}
    return {**row, "write": hugging_face("model.layers.0.mlp", kinds=kinds)}


def check_case(tools, work, row, keep):
    """None, or what is wrong."""
    folder = fresh(work, row["name"])
    if row.get("words"):
        layer = words_of.WordLayer(row["shape"], row["words"], len(row["name"]), bool(row["scheme"].get("zero")),
                                   row["layer"].get("group_index", False), row.get("symmetric", False))
        row = {**row, "write": lambda writer, layer: layer.write(writer, "model.layers.0.mlp", PROJECTIONS)}
    else:
        layer = plain_layer(row)
    writer = layers.Writer()
    row["write"](writer, layer)
    # Other tensors of a model.
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
        package = compiled(tools, folder, layer_json(row), row.get("compile", ()))
    except ValueError as error:
        return f"{row['name']}: {error}"
    command = [tools.moec_run, package, "--device=host", "--tokens=1,19", "--check", "--json", f"--weights={folder / 'model'}",
               *(["--quantize"] if row.get("online") else []), *row.get("options", [])]
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
    if row.get("apart"):
        order = row["layer"].get("gate_up_order", "gate_first")
        expected.update({f"shared_{name}": data for name, data in layer.expected(order, **row["apart"]).items()})
    if row.get("routing_bias"):
        expected["routing_bias"] = layer.routing_bias.data()
    if scale := row.get("global_scale"):
        expected["routing_bias"] += bytes(4 * layer.shared)
        expected["per_expert_scale"] = struct.pack("<f", scale) * layer.stored
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
        if made["w"] == "i8" and made.get("zero"):
            continue  # no rule makes zero points of 8 bits
        seen.add(weights_of(made))
        yield case(f"online-{made['name']}", "bf16", hugging_face("model.layers.0.mlp"), WIDE, online=made)
    # A part of a row has the scales of the whole one.
    yield case("online-tp", "bf16", hugging_face("model.layers.0.mlp"), {**WIDE, "intermediate_size": 96},
               {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, online=SCHEMES["int8_w8a16"], columns=(48, 48))
    # So have those of shared experts with weights of their own, of which this rank has the second half of the columns.
    yield case("online-ep-shared", "bf16", hugging_face("model.layers.0.mlp", shared="shared_expert"), SMALL,
               {"n_shared_experts": 1, "moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True}},
               online=SCHEMES["int8_w8a16"], shared=1, experts=[2], apart={"experts": [3], "columns": (32, 32)})
    yield case("online-fused", "bf16", lambda writer, layer: fused(writer, layer, GPT_OSS_NAMES, "interleaved", turned=True,
                                                                 kinds=("weight", "bias")),
               {**WIDE, "intermediate_size": 96}, INTERLEAVED, online=SCHEMES["mxfp4_w4a16"])


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
    scratch = testing.Scratch(arguments.work)
    work = scratch.work if arguments.keep else scratch.folder
    started = time.monotonic()
    schemes = testing.parallel(lambda scheme: scheme_of_row(tools, work, scheme), tools.rows()["schemes"], arguments.jobs)
    covered, others = {weights_of(row["scheme"]) for row in CASES}, []
    for scheme in schemes:
        if weights_of(scheme) not in covered and scheme["w"] not in testing.FLOATS:
            covered.add(weights_of(scheme))
            others.append(case_of(scheme))
    chosen = [row for row in CASES + others + list(online_cases(schemes)) if arguments.only in row["name"]]
    failures = [text for text in testing.parallel(
        lambda row: scratch.keep(row["name"], check_case(tools, work, row, arguments.keep)), chosen, arguments.jobs) if text]
    refusals = [row for row in REFUSALS if arguments.only in row[0]]
    failures += [text for text in testing.parallel(
        lambda row: scratch.keep(f"refused-{row[0]}", check_refusal(tools, work, row)), refusals, arguments.jobs) if text]
    untaken = [row for row in UNTAKEN if arguments.only in row[0]]
    failures += [text for text in testing.parallel(
        lambda row: scratch.keep(f"untaken-{row[0]}", check_untaken(tools, work, row)), untaken, arguments.jobs) if text]
    numbers = [row for row in NUMBERS if arguments.only in row[0]]
    failures += [text for text in testing.parallel(
        lambda row: scratch.keep(f"numbers-{row[0]}", check_numbers(tools, work, row)), numbers, arguments.jobs) if text]
    testing.finish("checkpoints", len(chosen) + len(refusals) + len(untaken) + len(numbers), failures, started, time.monotonic())


if __name__ == "__main__":
    main()
