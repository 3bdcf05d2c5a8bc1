# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers on the host device: numbers of numpy, and the bits of moec-run."""

import pathlib
import re
import subprocess
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, BUILD, SMALL, stored
from reference import error, moe, route
from schemes import SCHEMES
from support import random_value

import moec
from moec import arrays
from moec.arrays import empty

TOKENS = (1, 7, 33)
# Two groups of 128 along each K.
LAYER = {**SMALL, "hidden_size": 256, "intermediate_size": 160}


def load(scheme: str, **more: Any) -> Any:
    return moec.load(moec.compile({**LAYER, "quant_config": scheme, **more}, arch=ARCH, max_tokens=64), device="host")


def schemes() -> list[str]:
    listed = subprocess.run([BUILD / "bin" / "moec", "list", "schemes"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in listed.splitlines()[1:] if line[:1].strip()]
    assert {"bf16", "fp8_block", "nvfp4"} <= set(names)
    return names


@pytest.mark.parametrize("scheme", SCHEMES)
def test_numbers(scheme: str, make_layer: Any) -> None:
    package = load(scheme)
    layer, weights = make_layer(package)
    numbers, bound = SCHEMES[scheme]
    w13, w2, rounded = numbers(weights)
    for tokens in TOKENS:
        x, logits = (random_value(package, name, tokens) for name in ("x", "logits"))
        ids, shares = route(logits, LAYER["top_k"])
        wide = moec.from_bfloat16(x).astype(np.float64)
        out = moec.from_bfloat16(layer(x, logits))
        assert error(out, moe(wide, ids=ids, weights=shares, w13=w13, w2=w2, rounded=rounded)) < bound
        again = layer(x, given_ids=ids, given_weights=shares.astype(np.float32))
        assert error(moec.from_bfloat16(again), out) < bound


def test_the_reference_sees_a_wrong_expert(make_layer: Any) -> None:
    package = load("bf16")
    layer, weights = make_layer(package)
    x, logits = (random_value(package, name, 7) for name in ("x", "logits"))
    ids, shares = route(logits, LAYER["top_k"])
    ids[3, 1] = (ids[3, 1] + 1) % 8
    w13, w2, rounded = SCHEMES["bf16"][0](weights)
    wanted = moe(moec.from_bfloat16(x).astype(np.float64), ids=ids, weights=shares, w13=w13, w2=w2, rounded=rounded)
    assert error(moec.from_bfloat16(layer(x, logits)), wanted) > 0.01


@pytest.mark.parametrize("scheme", schemes())
def test_bits_of_moec_run(scheme: str, tmp_path: pathlib.Path, make_layer: Any) -> None:
    files = moec.compile(
        {**LAYER, "in_dtype": "f32" if scheme == "f32" else "bf16", "quant_config": scheme}, arch=ARCH, max_tokens=8
    )
    folder = files.write(tmp_path / "package")
    package = moec.load(folder, device="host")
    layer, weights = make_layer(package)
    tokens = 7
    inputs = {name: random_value(package, name, tokens) for name in ("x", "logits")}
    out = layer(**inputs)
    command: list[str | pathlib.Path] = [
        BUILD / "bin" / "moec-run",
        folder,
        "--device=host",
        f"--output=out={tmp_path / 'out.npy'}",
    ]
    for name, array in (inputs | weights).items():
        np.save(tmp_path / f"{name}.npy", array)
        command.append(f"--input={name}={tmp_path / name}.npy")
    subprocess.run(command, check=True, capture_output=True)
    wanted = np.load(tmp_path / "out.npy")
    assert wanted.dtype == out.dtype
    assert np.abs(moec.from_bfloat16(out) if out.dtype == np.uint16 else out).max() > 0
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("scheme", schemes())
def test_a_value_that_is_not_finite(scheme: str, value: float, make_layer: Any) -> None:
    """The token's output is not finite, or saturated with a static scale. Other tokens keep theirs, but for a scale of all."""
    wide = {"in_dtype": "f32"} if scheme == "f32" else {"in_dtype": "f16"} if scheme == "f16" else {}
    package = load(scheme, **wide)
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 7) for name in ("x", "logits"))

    def numbers(of: Any) -> Any:
        return moec.from_bfloat16(of) if of.dtype == np.uint16 else of.astype(np.float64)

    bad = x.copy()
    bad[2, 5] = moec.to_bfloat16(np.array([value]))[0] if x.dtype == np.uint16 else value
    good, got = numbers(layer(x, logits)), numbers(layer(bad, logits))
    assert np.isfinite(good).all()
    finite = np.isfinite(got).all(axis=1)
    is_static = any(name.startswith("a1_") for name in package.values)
    # An integer has no NaN, and a static scale cannot be one.
    holds_nan = not (is_static and scheme.startswith("int8"))
    assert finite[2] == (is_static and (not np.isnan(value) or not holds_nan))
    if scheme.endswith("tensor_dynamic") and not finite.all():
        assert (scheme.startswith("fp8") and np.isnan(value)) or not finite.any()
    others = np.delete(np.arange(7), 2)
    assert scheme.endswith("tensor_dynamic") or finite[others].all()
    if not scheme.endswith("tensor_dynamic"):
        np.testing.assert_array_equal(got[others], good[others])


@pytest.mark.parametrize("tokens", TOKENS)
def test_bits_do_not_depend_on_memory(package: Any, make_layer: Any, tokens: int) -> None:
    """Packed in place or not, into given memory or own, with own context or given: the same bits."""
    x, logits = (random_value(package, name, tokens) for name in ("x", "logits"))
    wanted = make_layer(package)[0](x, logits)
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    before = weights["w13"].copy()
    assert (package.layer(weights)(x, logits) == wanted).all()
    assert (weights["w13"] == before).all()
    given = {**weights, "w13_packed": package.empty("w13_packed")}
    layer = package.layer(given)
    assert layer.weights["w13_packed"] is given["w13_packed"]
    out = np.full_like(wanted, 0xFFFF)
    workspace = empty((package.workspace_bytes(tokens),), "u8", gpu=None, library="", label="workspace")
    workspace.fill(255)
    state = empty((package.state_bytes,), "u8", gpu=None, library="", label="state")
    returned = layer(x, logits, out=out, context=package.context(tokens, workspace=workspace, state=state))
    assert returned is out
    assert (out == wanted).all()
    ready = package.layer({"w2": weights["w2"], "w13_packed": given["w13_packed"]}, already_packed=True)
    assert (ready(x, logits) == wanted).all()
    in_place = package.layer({"w13": aligned(package, "w13", weights["w13"]), "w2": weights["w2"]}, in_place=True)
    assert "w13_packed" not in in_place.weights
    assert (in_place(x, logits) == wanted).all()


def aligned(package: Any, name: str, array: Any) -> Any:
    made = package.empty(name)
    made[...] = array
    return made


def test_in_place_overwrites(package: Any) -> None:
    weights = {name: aligned(package, name, random_value(package, name)) for name in ("w13", "w2")}
    before = weights["w13"].copy()
    package.layer(weights, in_place=True)
    assert (weights["w13"] != before).any()


def test_out_may_be_x(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 7) for name in ("x", "logits"))
    wanted = layer(x, logits)
    aligned_x = np.copy(x)
    assert layer(aligned_x, logits, out=aligned_x) is aligned_x
    assert (aligned_x == wanted).all()


def test_element_types_and_outputs(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    x, logits = random_value(package, "x", 7), moec.to_bfloat16(random_value(package, "logits", 7))
    ids, weights = np.empty((7, 2), np.int32), np.empty((7, 2), np.float32)
    wanted = layer(x, logits, ids=ids, weights=weights)
    wide = moec.from_bfloat16(logits)
    assert (layer(x, wide) == wanted).all()
    expected_ids, expected_weights = route(wide, 2)
    assert (ids == expected_ids).all()
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)
    assert (layer(x, given_ids=ids, given_weights=weights) == wanted).all()
    assert (layer(x, given_ids=ids.astype(np.int64), given_weights=weights) == wanted).all()


def test_no_tokens(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    assert layer(package.empty("x", 0), package.empty("logits", 0)).shape == (0, 128)


def test_repack(package: Any, make_layer: Any) -> None:
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    layer, _ = make_layer(package, seed=1)
    other, weights = make_layer(package, seed=2)
    before, wanted = layer(x, logits), other(x, logits)
    assert (before != wanted).any()
    layer.weights["w2"][...] = weights["w2"]
    layer.repack({"w13": weights["w13"]}, 0, 4)
    half = layer(x, logits)
    assert (half != wanted).any()
    layer.repack({"w13": weights["w13"]}, 4, 4)
    assert (layer(x, logits) == wanted).all()


RELOADED = (
    "bf16",
    "fp8_block",
    "fp8_tensor",
    "fp8_channel",
    "int8_channel",
    "int4_w4a16",
    "int4_zp_w4a16",
    "mxfp4_w4a16",
    "nvfp4",
)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scheme", RELOADED)
def test_reload(scheme: str, in_place: bool) -> None:
    """Packed weights and those that runs read as they are get new numbers in the same memory: the bits of a new layer."""
    package = load(scheme, has_bias=True)
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    names = [name for name in package.values if stored(package, name)]
    first, second = ({name: random_value(package, name, seed=seed) for name in names} for seed in (1, 2))
    wanted = package.layer({name: array.copy() for name, array in second.items()})(x, logits)
    layer = package.layer({name: aligned(package, name, array) for name, array in first.items()}, in_place=in_place)
    assert (layer(x, logits) != wanted).any()
    memory = {name: array.ctypes.data for name, array in layer.weights.items()}
    given = {name: array.copy() for name, array in second.items()}
    layer.reload(given)
    for array in given.values():
        array.view("uint8")[...] = 0
    assert (layer(x, logits) == wanted).all()
    assert {name: array.ctypes.data for name, array in layer.weights.items()} == memory


@pytest.mark.parametrize("scheme", [*RELOADED, "shared"])
def test_each_weight_is_needed(scheme: str) -> None:
    """Whichever pack step or kernel reads it."""
    shared = {"n_shared_experts": 1, "shared_intermediate_size": 192}
    package = load("bf16", **shared) if scheme == "shared" else load(scheme, has_bias=True)
    weights = {name: random_value(package, name) for name in package.values if stored(package, name)}
    for lacking in weights:
        with pytest.raises(moec.InvalidArgument, match=f"weight '{lacking}' is missing; the weights of package small are"):
            package.layer({name: array for name, array in weights.items() if name != lacking})


def test_a_reload_replaces_the_weights_of_shared_experts() -> None:
    """A pack step of the shared experts' MLP has one expert, those of the others have eight."""
    package = load("bf16", n_shared_experts=1, shared_intermediate_size=192)
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    names = [name for name in package.values if stored(package, name)]
    first, second = ({name: random_value(package, name, seed=seed) for name in names} for seed in (1, 2))
    layer, wanted = package.layer(first), package.layer(second)(x, logits)
    for name in names:
        before = layer(x, logits)
        first = {**first, name: second[name]}
        layer.reload(first)
        assert (layer(x, logits) != before).any(), name
    assert (layer(x, logits) == wanted).all()


@pytest.mark.parametrize("scheme", ["bf16", "fp8_block"])
def test_a_reload_does_not_write_to_a_read_only_array(scheme: str) -> None:
    package = load(scheme, has_bias=True)
    x, logits = (random_value(package, name, 5) for name in ("x", "logits"))
    names = [name for name in package.values if stored(package, name)]
    second = {name: random_value(package, name, seed=2) for name in names}
    arrays_of = {name: aligned(package, name, random_value(package, name, seed=1)) for name in names}
    layer = package.layer(arrays_of)
    (target,) = package.manifest["targets"]
    read = arrays_of.keys() - {name for pack in target["pack"] for name in pack["from"]}
    assert read
    before = layer(x, logits)
    for name in read:
        copy = arrays_of[name].copy()
        arrays_of[name].flags.writeable = False
        with pytest.raises(moec.InvalidArgument, match=f"value '{name}': the layer was made from a read-only array"):
            layer.reload(second)
        assert (arrays_of[name] == copy).all()
        assert (layer(x, logits) == before).all()
        arrays_of[name].flags.writeable = True


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("scheme", RELOADED)
def test_a_gpu_keeps_the_weights_that_runs_read(scheme: str, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers on a GPU let go of torch's tensors that packing read and runs do not. Zeros in these change no bit of a run."""
    package = load(scheme, has_bias=True)
    x, logits = (random_value(package, name, 33) for name in ("x", "logits"))
    names = [name for name in package.values if stored(package, name)]
    given = {name: aligned(package, name, random_value(package, name)) for name in names}
    layer = package.layer(given, in_place=in_place)
    wanted, weights = layer(x, logits), dict(layer.weights)
    with monkeypatch.context() as patch:
        patch.setattr(package, "gpu", 0)
        patch.setattr(arrays, "is_torch", lambda array: True)
        kept = layer._read_by_runs(weights)
    assert (set(weights) == kept) == (in_place or scheme in ("fp8_tensor_dynamic",)) or set(weights) > kept
    for name in set(weights) - kept:
        weights[name].view(np.uint8)[...] = 0
    assert (layer(x, logits) == wanted).all()
    for name in kept:
        saved = weights[name].copy()
        weights[name].view(np.uint8)[...] = 0
        assert (layer(x, logits) != wanted).any(), name
        weights[name][...] = saved


@pytest.mark.parametrize("name", ["w13", "w2", "w13_scale", "w2_scale", "b13", "b2"])
def test_a_reload_is_complete_or_refused_by_name(name: str) -> None:
    package = load("fp8_block", has_bias=True)
    x, logits = (random_value(package, each, 5) for each in ("x", "logits"))
    names = [each for each in package.values if stored(package, each)]
    first, second = ({each: random_value(package, each, seed=seed) for each in names} for seed in (1, 2))
    layer = package.layer({each: array.copy() for each, array in first.items()})
    before = layer(x, logits)
    with pytest.raises(moec.InvalidArgument, match=f"weights: expected all that the layer was made of, .*; {name} are missing"):
        layer.reload({each: array for each, array in second.items() if each != name})
    with pytest.raises(moec.InvalidArgument, match=f"'{name}'"):
        layer.reload(second | {name: second[name][:-1]})
    spoilt = second[name].copy()
    if name.endswith("_scale"):
        spoilt.reshape(-1)[-1] = np.nan
        with pytest.raises(moec.InvalidArgument, match=f"'{name}'"):
            layer.reload(second | {name: spoilt})
    assert (layer(x, logits) == before).all()
    layer.reload(second)
    assert (layer(x, logits) != before).any()


def test_a_reload_of_a_layer_that_has_fewer_weights() -> None:
    package = load("bf16", routing_method="deepseek_v3", routed_scaling_factor=1.0)
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    layer = package.layer(weights)
    with pytest.raises(
        moec.InvalidArgument, match="expected all that the layer was made of, w13, w2; routing_bias are none of them"
    ):
        layer.reload(weights | {"routing_bias": random_value(package, "routing_bias")})


def test_some_experts_cannot_be_packed_in_place_of_larger_ones() -> None:
    package = load("bf16", stored_hidden_size=384, stored_intermediate_size_per_partition=192)
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    arrays = {name: aligned(package, name, array) for name, array in weights.items()}
    layer = package.layer(arrays, in_place=True)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    wanted = layer(x, logits)
    with pytest.raises(moec.InvalidArgument, match="some experts in place would overwrite others"):
        layer.repack(arrays, 1, 1)
    layer.repack(weights, 1, 1)
    assert (layer(x, logits) == wanted).all()


def test_a_part_of_the_experts_has_no_shared_weights() -> None:
    package = load("bf16", n_shared_experts=1, shared_intermediate_size=192)
    weights = {name: random_value(package, name) for name in ("w13", "w2", "shared_w13", "shared_w2")}
    layer = package.layer(weights)
    told = "'shared_w13' is not of the layer's 8 experts, so that no part of them has it: leave it out, or pack all experts"
    with pytest.raises(moec.InvalidArgument, match=re.escape(told)):
        layer.repack(weights, 1, 1)
    layer.repack({name: weights[name] for name in ("w13", "w2")}, 1, 1)
    layer.repack(weights, 0, 8)


def test_shared_weights_are_packed_once() -> None:
    """A part of the experts that begins with the first one."""
    package = load("bf16", n_shared_experts=1, shared_intermediate_size=192)
    weights = {name: random_value(package, name) for name in ("w13", "w2", "shared_w13", "shared_w2")}
    arrays = {name: aligned(package, name, array) for name, array in weights.items()}
    layer = package.layer(arrays, in_place=True)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    wanted = layer(x, logits)
    layer.repack({name: weights[name] for name in ("w13", "w2")}, 0, 1)
    assert (layer(x, logits) == wanted).all()


def test_unpack(package: Any, make_layer: Any) -> None:
    layer, weights = make_layer(package)
    unpacked = layer.unpack()
    assert set(unpacked) == {"w13", "w2"}
    assert all((unpacked[name] == weights[name]).all() for name in weights)
    given = {"w13": np.empty_like(weights["w13"])}
    assert layer.unpack(given)["w13"] is given["w13"]
    assert (given["w13"] == weights["w13"]).all()
    with pytest.raises(moec.InvalidArgument, match="has no weight 'x'"):
        layer.unpack({"x": given["w13"]})
    given["w13"].flags.writeable = False
    with pytest.raises(moec.InvalidArgument, match="got a read-only one"):
        layer.unpack(given)


def test_unpack_in_place(package: Any) -> None:
    weights = {name: random_value(package, name) for name in ("w13", "w2")}
    arrays = {name: aligned(package, name, array) for name, array in weights.items()}
    layer = package.layer(arrays, in_place=True)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    wanted = layer(x, logits)
    layer.unpack({"w13": arrays["w13"]})
    assert (arrays["w13"] == weights["w13"]).all()
    with pytest.raises(moec.InvalidArgument, match="repack"):
        layer(x, logits)
    layer.repack({"w13": arrays["w13"]}, 0, 8)
    assert (layer(x, logits) == wanted).all()


def test_quantized_when_packed_is_not_unpacked(make_layer: Any) -> None:
    package = load("int8_w8a16", weights_dtype="bf16")
    layer, _ = make_layer(package)
    with pytest.raises(moec.NotSupported, match="w13"):
        layer.unpack()


def test_variants(package: Any, make_layer: Any) -> None:
    layer, _ = make_layer(package)
    x, logits = (random_value(package, name, 3) for name in ("x", "logits"))
    served = package.variant_for(3)
    assert served.min_tokens <= 3 <= served.max_tokens
    assert (layer(x, logits, variant=served.name) == layer(x, logits)).all()
    with pytest.raises(moec.InvalidArgument, match="up_to_64"):
        layer(x, logits, variant="up_to_64000")
