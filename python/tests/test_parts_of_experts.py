# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts gate_up and down of a layer, between which a caller reads the intermediate, as adapters (LoRA) do."""

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from conftest import ARCH, SMALL
from reference import error, nearest_bf16, silu
from support import random_value

import moec

TOKENS, RANK = 13, 4
LAYER = {**SMALL, "hidden_size": 256, "intermediate_size": 128}
LORA: dict[str, Any] = {"is_lora_enabled": True}
EXACT: dict[str, Any] = {"in_dtype": "f32", **LORA}
# The type of x is f32, which the intermediate then has in the layer, too: both give the same bits.
CASES: dict[str, dict[str, Any]] = {
    "f32": {**EXACT, "quant_config": "f32"},
    "bf16": {**EXACT, "quant_config": "bf16"},
    "fp8_block": {**EXACT, "quant_config": "fp8_block"},
    "fp8_channel": {**EXACT, "quant_config": "fp8_channel"},
    "fp8_tensor": {**EXACT, "quant_config": "fp8_tensor"},
    "fp8_tensor_dynamic": {**EXACT, "quant_config": "fp8_tensor_dynamic"},
    "mxfp4_w4a16": {**EXACT, "quant_config": "mxfp4_w4a16"},
    "int4_w4a16": {**EXACT, "quant_config": "int4_w4a16"},
    "nvfp4": {**EXACT, "quant_config": "nvfp4"},
    "rows of bf16": {"in_dtype": "bf16", "quant_config": "bf16", **LORA},
    "no adapters": {"in_dtype": "f32", "quant_config": "f32"},
    "biases": {**EXACT, "quant_config": "f32", "has_bias": True},
    "shared": {**EXACT, "quant_config": "f32", "n_shared_experts": 1, "shared_expert_gate": True, "residual": True},
    "ranks": {**EXACT, "quant_config": "f32", "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
    "columns": {**EXACT, "quant_config": "f32", "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
    "weights on x": {**EXACT, "quant_config": "f32", "routing_method": "llama4", "top_k": 1},
    "zero experts": {**EXACT, "quant_config": "f32", "routing_method": "longcat", "num_zero_experts": 3},
}


def load(layer: dict[str, Any], **options: Any) -> Any:
    return moec.load(moec.compile({**LAYER, **layer}, arch=ARCH, max_tokens=64, **options), device="host")


def part(layer: dict[str, Any], name: str, weights: dict[str, Any]) -> Any:
    """A part with the weights of the layer that it has."""
    package = load(layer, part=name)
    names = [value.name for value in package.values.values() if value.role == "stored_weight"]
    return package.layer({each: weights[each] for each in names})


def values_of(package: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {name: array for name, array in given.items() if name in package.values}


def ran(layer: dict[str, Any], make_layer: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    """The layer's output, both parts, and what they are given."""
    whole, weights = make_layer(load(layer))
    package = whole.package
    names = [value.name for value in package.values.values() if "input" in value.role]
    given = {
        name: random_value(package, name, TOKENS) for name in names if not name.startswith("given_") and name != "valid_tokens"
    }
    ids, shares = (package.empty(name, TOKENS) for name in ("ids", "weights"))
    out = whole(**given, ids=ids, weights=shares)
    top_k = layer.get("top_k", LAYER["top_k"])
    given |= {"given_ids": np.ascontiguousarray(ids[:, :top_k]), "given_weights": np.ascontiguousarray(shares[:, :top_k])}
    del given["logits"]
    return out, part(layer, "gate_up", weights), part(layer, "down", weights), given


@pytest.mark.parametrize("name", CASES)
def test_both_parts_are_the_layer(name: str, make_layer: Any) -> None:
    wanted, gate_up, down, given = ran(CASES[name], make_layer)
    intermediate = gate_up(**values_of(gate_up.package, given))
    out = down(intermediate=intermediate, **values_of(down.package, given))
    assert np.abs(moec.from_bfloat16(out) if out.dtype == np.uint16 else out).max() > 0
    assert (out == wanted).all()
    stored = [{value.name for value in each.package.values.values() if value.role == "stored_weight"} for each in (gate_up, down)]
    assert not stored[0] & stored[1]
    for addend, made, others in (("gate_up_addend", gate_up, {}), ("down_addend", down, {"intermediate": intermediate})):
        without = values_of(made.package, given | others)
        if without.pop(addend, None) is not None:
            assert (made(**without) != (intermediate if made is gate_up else out)).any()


def test_the_intermediate_is_in_the_order_of_pairs(make_layer: Any) -> None:
    """Rows of experts of other ranks, and of ids that are no expert, are 0; down reads none of them."""
    layer = {**CASES["ranks"], "is_lora_enabled": False}
    _, gate_up, down, given = ran(layer, make_layer)
    given["given_ids"][3] = -1
    rows = gate_up(**values_of(gate_up.package, given)).reshape(TOKENS, 2, -1)
    local = given["given_ids"] >= 4
    assert (rows[~local] == 0).all()
    assert (np.abs(rows[local]).max(axis=1) > 0).all()
    assert local.any()
    assert not local.all()
    # The pairs of a token in another order.
    swapped = {**given, **{name: np.ascontiguousarray(given[name][:, ::-1]) for name in ("given_ids", "given_weights")}}
    assert (gate_up(**values_of(gate_up.package, swapped)).reshape(rows.shape) == rows[:, ::-1]).all()
    out = down(intermediate=rows.reshape(-1, rows.shape[2]), **values_of(down.package, given))
    rows[~local] = np.nan
    assert (down(intermediate=rows.reshape(-1, rows.shape[2]), **values_of(down.package, given)) == out).all()
    assert (out[3] == 0).all()


@pytest.mark.parametrize(("scheme", "bound"), [("bf16", 1e-6), ("fp8_block", 0.012), ("mxfp4_w4a16", 1e-6)])
def test_rows_of_16_bits_are_quantized_next(scheme: str, bound: float, make_layer: Any) -> None:
    """The intermediate is rounded to the type of x. The second matmul quantizes what it then is."""
    layer = {**LORA, "quant_config": scheme}
    wanted, gate_up, down, given = ran(layer, make_layer)
    intermediate = gate_up(**values_of(gate_up.package, given))
    assert intermediate.dtype == np.uint16
    out = down(intermediate=intermediate, **values_of(down.package, given))
    assert error(moec.from_bfloat16(out), moec.from_bfloat16(wanted)) < bound
    # The same rows in f32 give the same codes.
    whole, weights = make_layer(load(layer))
    wide = part({**layer, "in_dtype": "f32", "out_dtype": "bf16"}, "down", weights)
    more = values_of(wide.package, given) | {"down_addend": moec.from_bfloat16(given["down_addend"]).astype(np.float32)}
    again = wide(intermediate=moec.from_bfloat16(intermediate).astype(np.float32), **more)
    assert (again == out).all()
    assert whole.package.name == wide.package.name


def test_adapters_that_differ_by_token(make_layer: Any) -> None:
    """As an engine runs them: its own matmuls before gate_up and between both parts; some tokens have no adapter."""
    layer = {**LORA, "in_dtype": "bf16", "quant_config": "bf16"}
    _, weights = make_layer(load(layer))
    gate_up, down = (part(layer, name, weights) for name in ("gate_up", "down"))
    random = np.random.default_rng(7)
    experts, width, hidden = LAYER["num_experts"], LAYER["intermediate_size"], LAYER["hidden_size"]
    adapters = 3
    # [adapter, expert, ...]: gate and up have matrices of their own.
    a13 = random.standard_normal((adapters, experts, 2, RANK, hidden)) * 0.05
    b13 = random.standard_normal((adapters, experts, 2, width, RANK)) * 0.3
    a2 = random.standard_normal((adapters, experts, RANK, width)) * 0.05
    b2 = random.standard_normal((adapters, experts, hidden, RANK)) * 0.3
    adapter = random.integers(-1, adapters, TOKENS)
    adapter[:2] = -1, 0
    x = nearest_bf16(random.standard_normal((TOKENS, hidden)))
    ids = np.stack([random.permutation(experts)[:2] for _ in range(TOKENS)]).astype(np.int32)
    shares = random.dirichlet([1, 1], TOKENS).astype(np.float32)
    given = {"given_ids": ids, "given_weights": shares}

    def of_pairs(rows: Any, product: Any, columns: int) -> Any:
        """The addend: 0 for tokens without an adapter."""
        made = np.zeros((TOKENS * 2, columns))
        for pair, expert in enumerate(ids.ravel()):
            if adapter[pair // 2] >= 0:
                made[pair] = product(adapter[pair // 2], expert, rows[pair])
        return moec.to_bfloat16(made)

    first = of_pairs(
        np.repeat(x, 2, axis=0),
        lambda a, e, row: np.concatenate([b13[a, e, half] @ (a13[a, e, half] @ row) for half in (0, 1)]),
        2 * width,
    )
    intermediate = gate_up(moec.to_bfloat16(x), gate_up_addend=first, **given)
    second = of_pairs(moec.from_bfloat16(intermediate), lambda a, e, row: b2[a, e] @ (a2[a, e] @ row), hidden)
    out = moec.from_bfloat16(down(intermediate=intermediate, down_addend=second, **given))

    def wanted(with_adapters: bool) -> Any:
        w13, w2 = (moec.from_bfloat16(weights[name]).astype(float) for name in ("w13", "w2"))
        made = np.zeros((TOKENS, hidden))
        for token, (chosen, part_of) in enumerate(zip(ids, shares, strict=True)):
            which = adapter[token] if with_adapters else -1
            for expert, share in zip(chosen, part_of, strict=True):
                halves = np.split(w13[expert] @ x[token], 2)
                if which >= 0:
                    halves = [halves[i] + b13[which, expert, i] @ (a13[which, expert, i] @ x[token]) for i in (0, 1)]
                row = nearest_bf16((silu(halves[0]) * halves[1])[None])[0]
                y = w2[expert] @ row
                if which >= 0:
                    y = y + b2[which, expert] @ (a2[which, expert] @ row)
                made[token] += share * y
        return made

    assert error(out, wanted(True)) < 4e-3
    assert error(out, wanted(False)) > 0.05
    assert error(out[adapter < 0], wanted(False)[adapter < 0]) < 4e-3


ON_GPU = """
import numpy as np
import moec
from reference import error
from support import random_value

layer = {layer!r}
made = []
for device in ("host", "emulated"):
    given, outputs = {{}}, []
    for name in ("gate_up", "down"):
        files = moec.compile(layer, arch={arch!r}, max_tokens=16, part=name, cubin=False, progress=False)
        package = moec.load(files, device=device, arch={arch!r}, progress=False)
        weights = {{n: random_value(package, n) for n, v in package.values.items() if v.role == "stored_weight"}}
        names = [n for n, v in package.values.items() if "input" in v.role and n != "valid_tokens"]
        inputs = {{n: random_value(package, n, 9) for n in names}}
        inputs["given_ids"] = (np.arange(18).reshape(9, 2) * 3 % 9 - 1).astype(np.int32)
        inputs["given_weights"] = np.linspace(0.1, 1, 18, dtype=np.float32).reshape(9, 2)
        outputs.append(package.layer(weights, progress=False)(**inputs | given))
        given = {{"intermediate": outputs[0]}}
    made.append([moec.from_bfloat16(each).astype(float) for each in outputs])
    print(package.device)
# No expert has the id -1, and pairs of no expert have rows of zeros.
none = (np.arange(18) * 3 % 9 - 1) < 0
for outputs in made:
    assert (outputs[0][none] == 0).all()
    assert (np.abs(outputs[0][~none]).max(axis=1) > 0).all()
for host, gpu in zip(*made):
    assert error(gpu, host) < 5e-3, error(gpu, host)
"""


@pytest.mark.parametrize("scheme", ["bf16", "fp8_block"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_on_an_emulated_gpu(scheme: str, arch: str, tmp_path: pathlib.Path) -> None:
    nvrtc = os.environ.get("MOEC_TEST_NVRTC")
    if not nvrtc:
        pytest.skip("MOEC_TEST_NVRTC names no NVRTC")
    layer = {**LAYER, **LORA, "quant_config": scheme}
    environment = {
        **os.environ,
        "MOEC_NVRTC_PATH": nvrtc,
        "MOEC_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    code = ON_GPU.format(layer=layer, arch=arch)
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=250)
    assert made.returncode == 0, made.stdout + made.stderr
    assert made.stdout.split() == ["host", "emulated"]


def test_what_parts_of_experts_refuse() -> None:
    refused: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({"activation_format": "batched"}, "gate_up", "parts are of tokens"),
        ({"defer_moe_finalize": True}, "down", "sums nothing over experts"),
        ({"n_shared_experts": 1, "shared_intermediate_size": 64}, "gate_up", "a part has nothing of their weights"),
    )
    for layer, name, why in refused:
        with pytest.raises(moec.MoecError, match=why):
            moec.compile({**LAYER, **layer}, arch=ARCH, part=name)
    report = moec.explain(LAYER, arch=ARCH, part="down")
    assert report.served
    target = report.data["targets"][0]
    assert (target["part"], target["backend"]) == ("down", "grouped")
    assert "w2" in [row["name"] for row in target["weights"]]
    assert "w13" not in [row["name"] for row in target["weights"]]
