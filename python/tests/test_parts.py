# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parts of a layer, one behind the other, give the bits of the layer."""

from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL
from support import random_value

import moec

TOKENS = 13
LAYER = {**SMALL, "hidden_size": 256, "intermediate_size": 128}
# Schemes that quantize x on the device, with scales of blocks, tokens and all values, given and computed.
QUANTIZED = (
    "fp8_block",
    "fp8_channel",
    "fp8_tensor",
    "fp8_tensor_dynamic",
    "int8_channel",
    "int8_tensor",
    "int4_w4afp8",
    "mxfp4_fp8",
)


def load(layer: dict[str, Any], **options: Any) -> Any:
    return moec.load(moec.compile({**LAYER, **layer}, arch=ARCH, max_tokens=64, **options), device="host")


def part(layer: dict[str, Any], name: str, weights: dict[str, Any] | None = None) -> Any:
    """A part with the weights of the layer that it has."""
    package = load(layer, part=name)
    names = [value.name for value in package.values.values() if value.role == "stored_weight"]
    return package.layer({each: (weights or {})[each] for each in names})


@pytest.mark.parametrize("scheme", QUANTIZED)
def test_codes_are_those_of_the_layer(scheme: str, make_layer: Any) -> None:
    layer = {"quant_config": scheme}
    whole, weights = make_layer(load(layer))
    x, logits = (random_value(whole.package, name, TOKENS) for name in ("x", "logits"))
    made = part(layer, "quantize", weights)(x)
    assert set(made) == {"x_q", "x_scale"}
    # Other codes, or another scale, would give other numbers.
    taken = load({**layer, "input_quantized": True})
    names = [value.name for value in taken.values.values() if value.role == "stored_weight"]
    out = taken.layer({name: weights[name] for name in names})(made["x_q"], logits, x_scale=made["x_scale"])
    wanted = whole(x, logits)
    assert np.abs(moec.from_bfloat16(wanted)).max() > 0
    assert (out == wanted).all()
    changed = made["x_q"].copy()
    changed.view(np.uint8)[3] ^= 1
    assert (taken.layer({name: weights[name] for name in names})(changed, logits, x_scale=made["x_scale"]) != wanted).any()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"routing_method": "deepseek_v3", "num_expert_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5},
        {"routing_method": "sigmoid_renorm", "routed_scaling_factor": 2.5, "apply_routed_scale_to_output": True},
        {"n_shared_experts": 1, "shared_expert_gate": True, "residual": True},
        {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
        {"routing_method": "llama4", "top_k": 1},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_the_chain_is_the_layer(options: dict[str, Any], make_layer: Any) -> None:
    # Sums of the second matmul are f32, as outputs are then.
    options = {"in_dtype": "f32", "quant_config": "f32", **options}
    whole, weights = make_layer(load(options))
    names = [
        value.name for value in whole.package.values.values() if value.role == "input" or value.name in ("logits", "residual")
    ]
    given = {name: random_value(whole.package, name, TOKENS) for name in names}
    ids, shares = (whole.package.empty(name, TOKENS) for name in ("ids", "weights"))
    wanted = whole(**given, ids=ids, weights=shares)
    assert np.abs(wanted).max() > 0

    routing = {name: array for name, array in given.items() if name not in ("x", "residual")}
    routed = part(options, "route", weights)(**routing)
    assert (routed["ids"] == ids).all()
    assert (routed["weights"] == shares).all()

    top_k = options.get("top_k", LAYER["top_k"])
    chosen = {"given_ids": np.ascontiguousarray(ids[:, :top_k]), "given_weights": np.ascontiguousarray(shares[:, :top_k])}
    partials = outputs_of_experts(options, weights, given, chosen)
    finalize = part(options, "finalize")
    others = {name: array for name, array in given.items() if name in finalize.package.values}
    assert (finalize(partials=partials, **chosen, **others) == wanted).all()
    partials *= 2
    assert (finalize(partials=partials, **chosen, **others) != wanted).any()


def outputs_of_experts(options: dict[str, Any], weights: dict[str, Any], given: dict[str, Any], chosen: dict[str, Any]) -> Any:
    """[tokens, pairs, hidden]; rows of experts that the rank lacks are NaN."""
    if options.get("routing_method") == "llama4":  # whose weights multiply x, and are not to be deferred
        options = {name: value for name, value in options.items() if name != "routing_method"}
        given = {**given, "x": given["x"] * chosen["given_weights"]}
    experts = load({**options, "residual": False, "defer_moe_finalize": True})
    stored = [value.name for value in experts.values.values() if value.role == "stored_weight"]
    others = {name: array for name, array in given.items() if name in experts.values and name != "logits"}
    rows = experts.layer({name: weights[name] for name in stored})(**others, **chosen)
    partials = rows["partials"][rows["positions"]]
    partials[rows["positions"] < 0] = np.nan
    return partials


def test_zero_experts_hand_on_x(make_layer: Any) -> None:
    options = {"in_dtype": "f32", "quant_config": "f32", "routing_method": "longcat", "num_zero_experts": 3}
    whole, weights = make_layer(load(options))
    x, logits = (random_value(whole.package, name, TOKENS) for name in ("x", "logits"))
    routed = part(options, "route", weights)(logits=logits)
    zero = routed["ids"] >= 8
    assert zero.any()
    assert not zero.all()
    assert (routed["places"] == np.where(zero, -2, routed["ids"])).all()
    experts = load({"in_dtype": "f32", "quant_config": "f32", "defer_moe_finalize": True})
    chosen = {"given_ids": routed["ids"], "given_weights": routed["weights"]}
    real = {**chosen, "given_ids": np.where(zero, -1, routed["ids"]).astype(np.int32)}
    rows = experts.layer({name: weights[name] for name in ("w13", "w2")})(x, **real)
    out = part(options, "finalize")(x, partials=rows["partials"][rows["positions"]], **chosen)
    assert (out == whole(x, logits)).all()


def test_a_part_without_a_required_input_counts_tokens(make_layer: Any) -> None:
    route = part({}, "route")
    package = route.package
    assert package.token_axes == {"logits": 0, "given_ids": 0, "given_weights": 0}
    logits = random_value(package, "logits", TOKENS)
    routed = route(logits=logits)
    again = route(given_ids=routed["ids"].astype(np.int64), given_weights=routed["weights"])
    assert all((again[name] == routed[name]).all() for name in routed)
    ids = np.full((TOKENS, 2), -7, np.int32)
    assert route(logits=logits, ids=ids)["ids"] is ids
    assert (ids == routed["ids"]).all()
    with pytest.raises(
        moec.InvalidArgument, match="needs inputs, got none; it has logits, given_ids, given_weights, valid_tokens"
    ):
        route()
    with pytest.raises(moec.InvalidArgument, match="tokens: expected value 'logits' or 'given_ids' or 'given_weights'"):
        route(valid_tokens=np.zeros(1, np.int32))
    with pytest.raises(moec.InvalidArgument, match="no input or output 'x'; it has logits"):
        route(random_value(load({}), "x", TOKENS), logits)


def test_places_of_replicas() -> None:
    options = {"moe_parallel_config": {"enable_eplb": True}, "num_redundant_experts": 2}
    route = part(options, "route")
    maps = np.stack([np.arange(8), np.arange(8)], axis=1)
    maps = np.concatenate([maps, np.full((8, 1), 9)], axis=1).astype(np.int32)
    counts = np.ones(8, np.int32)
    maps[3], counts[3] = (3, 8, 9), 3
    logits = np.tile(np.arange(8, dtype=np.float32), (TOKENS, 1))
    logits[:, 3] = 99
    made = route(logits=logits, logical_to_physical=maps, replica_count=counts)
    assert (made["ids"] == [[3, 7]]).all()
    assert (made["places"][:, 1] == 7).all()
    assert made["places"][:, 0].tolist() == [(3, 8, 9)[2 * token % 3] for token in range(TOKENS)]


def test_what_a_part_refuses() -> None:
    refused: tuple[tuple[dict[str, Any], dict[str, Any], str], ...] = (
        ({}, {"part": "sort"}, "part=sort: expected route, quantize, gate_up, down, finalize"),
        ({}, {"part": "quantize"}, "part quantize: the scheme does not quantize x"),
        ({"quant_config": "mxfp8"}, {"part": "quantize"}, "this layer emulates activations"),
        ({"activation_format": "batched"}, {"part": "route"}, "parts are of tokens"),
        ({"defer_moe_finalize": True}, {"part": "finalize"}, "sums nothing over experts"),
        ({}, {"part": "route", "engine": "wgmma"}, "expected neither, got engine 'wgmma'"),
        ({}, {"part": "route", "weights_dtype": "bf16"}, "weights_dtype: expected none with part=route"),
    )
    for layer, options, why in refused:
        with pytest.raises(moec.MoecError, match=why):
            moec.compile({**LAYER, **layer}, arch=ARCH, **options)
    report = moec.explain(LAYER, arch=ARCH, part="route")
    assert report.served
    assert report.data["targets"][0]["part"] == "route"
