# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""MoE layers of inference engines with random weights, and what they compute in double precision."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from engine_schemes import Rounding, Store, Tensor, to_bf16

EXPERTS, TOP_K, HIDDEN, INTERMEDIATE = 8, 2, 256, 128
MOST_TOKENS, MOST_CAPTURED = 256, 64
SMALL_INPUTS = (4, 5, 7)
# Relative Frobenius errors that the package's other tests allow, by what is multiplied.
OF_BF16, OF_WEIGHTS, OF_CODES, OF_F16 = 2.5e-3, 5e-3, 6e-3, 6e-4


class Case(NamedTuple):
    """A scheme of an engine, and moec's name for it."""

    name: str
    scheme: str
    method: str
    """The engine's class."""
    config: Callable[[], Any]
    """The engine's configuration of quantization; None for none."""
    store: Store
    rounded: Rounding
    """The numbers that the matmuls read of rows of activations."""
    bound: float
    """The error of the whole output stays below it."""
    act: str = "silu"


class Built(NamedTuple):
    """An engine's layer with random weights, and the numbers that these mean."""

    runner: Any
    w13: Tensor
    """[experts, gates then ups, hidden], double."""
    w2: Tensor
    b13: Tensor | None
    b2: Tensor | None


class Random(NamedTuple):
    """Random weights of a layer."""

    tensors: list[dict[str, dict[str, Tensor]]]
    """For each expert: by w1 (gate), w3 (up) or w2 (down), and by the end of the parameter's name."""
    w13: Tensor
    w2: Tensor
    b13: Tensor | None
    b2: Tensor | None


def random_weights(case: Case, *, experts: int, hidden: int, width: int, has_bias: bool, seed: int = 7) -> Random:
    """As a checkpoint stores them, and the numbers that these mean, as in Built."""
    random = torch.Generator().manual_seed(seed)
    shapes = {"w1": (width, hidden), "w3": (width, hidden), "w2": (hidden, width)}
    if without_gate(case.act):
        del shapes["w3"]
    numbers: dict[str, list[Tensor]] = {shard: [] for shard in shapes}
    biases: dict[str, list[Tensor]] = {shard: [] for shard in shapes}
    made = []
    for expert in range(experts):
        tensors: dict[str, dict[str, Tensor]] = {}
        for shard, shape in shapes.items():
            stored = case.store(torch.randn(shape, generator=random, dtype=torch.float64) * 0.05, random)
            numbers[shard].append(stored.numbers)
            tensors[shard] = dict(stored.tensors)
            for ending in stored.tensors.keys() & {"input_scale", "input_global_scale"}:
                # Some experts of each rank have the largest. compressed-tensors' NVFP4 stores its inverse.
                half = 0.5 if ending == "input_scale" else 2.0
                tensors[shard][ending] = stored.tensors[ending] * (half if expert in SMALL_INPUTS else 1.0)
            if has_bias:
                tensors[shard]["bias"] = (torch.randn(shape[0], generator=random) * 0.1).to(torch.bfloat16)
                biases[shard].append(tensors[shard]["bias"].double())
        made.append(tensors)

    def joined(parts: dict[str, list[Tensor]]) -> tuple[Tensor, Tensor]:
        return torch.cat([torch.stack(parts[shard]) for shard in ("w1", "w3") if parts.get(shard)], 1), torch.stack(parts["w2"])

    b13, b2 = joined(biases) if has_bias else (None, None)
    return Random(made, *joined(numbers), b13, b2)


def random_inputs(tokens: int, *, hidden: int = HIDDEN, experts: int = EXPERTS, seed: int | None = None) -> tuple[Tensor, Tensor]:
    """x in bf16, and logits in f32. seed: None is the count of tokens."""
    random = torch.Generator().manual_seed(tokens if seed is None else seed)
    return torch.randn(tokens, hidden, generator=random).bfloat16(), torch.randn(tokens, experts, generator=random)


def rows_in_turn(tensors: dict[str, dict[str, Tensor]]) -> dict[str, dict[str, Tensor]]:
    """An expert as gpt-oss stores it: rows of gates and ups in turn, in one tensor."""
    gates, ups = tensors["w1"], tensors["w3"]
    return {"w13": {name: torch.stack([gates[name], ups[name]], 1).flatten(0, 1) for name in gates}, "w2": tensors["w2"]}


def without_gate(name: str) -> bool:
    return name.endswith("_no_mul")


def activation(name: str, gate: Tensor, up: Tensor) -> Tensor:
    """gate and up are the same where there is no gate."""
    if name == "relu2_no_mul":
        return F.relu(up) ** 2
    if name == "silu_no_mul":
        return F.silu(up)
    if name == "swigluoai":
        gate, up = gate.clamp(max=7), up.clamp(-7, 7)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)
    if name == "gelu":
        return F.gelu(gate) * up
    assert name == "silu"
    return F.silu(gate) * up


def realized(case: Case, realization: str) -> Case:
    """The layer that a realization computes: weight_only leaves activations as they are."""
    return case._replace(rounded=to_bf16, bound=OF_WEIGHTS) if realization == "weight_only" else case


def computed(built: Built, case: Case, x: Tensor, ids: Tensor, weights: Tensor, experts: list[int] | None = None) -> Tensor:
    """[tokens, hidden], double. experts: those of this rank; None: all."""
    x, ids, weights = x.cpu().double(), ids.cpu().long(), weights.cpu().double()
    pairs = [(t, k) for t in range(len(ids)) for k in range(ids.shape[1]) if experts is None or int(ids[t, k]) in experts]
    out = torch.zeros_like(x)
    if not pairs:
        return out
    rows = case.rounded(x)
    made = []
    for token, k in pairs:
        expert = int(ids[token, k])
        both = built.w13[expert] @ rows[token]
        both = both if built.b13 is None else both + built.b13[expert]
        made.append(activation(case.act, *((both, both) if without_gate(case.act) else both.chunk(2))))
    # All rows at once: a scheme may have one scale for all of them.
    middle = case.rounded(torch.stack(made))
    for (token, k), row in zip(pairs, middle, strict=True):
        expert = int(ids[token, k])
        down = built.w2[expert] @ row
        out[token] += weights[token, k] * (down if built.b2 is None else down + built.b2[expert])
    return out


def with_unknown_parameter(monkeypatch: Any, method: Any) -> None:
    """The engine's method makes one parameter more, w13_new_scale. monkeypatch: pytest's fixture."""
    made = method.create_weights

    def create(self: Any, layer: Any, **options: Any) -> None:
        made(self, layer, **options)
        layer.register_parameter("w13_new_scale", torch.nn.Parameter(torch.ones(2)))

    monkeypatch.setattr(method, "create_weights", create)


def softmax_top_k(logits: Tensor, top_k: int, renormalize: bool) -> tuple[Tensor, Tensor]:
    """Ids, and weights in double."""
    shares, ids = logits.double().softmax(-1).topk(top_k)
    return ids, shares / shares.sum(-1, keepdim=True) if renormalize else shares


def error(got: Tensor, wanted: Tensor) -> float:
    return float((got.cpu().double() - wanted).norm() / wanted.norm())


def addresses(layer: Any) -> dict[str, int]:
    """The addresses of the packed weights of a layer, which CUDA graphs hold. The parameters of the engine must be empty."""
    assert [each for each, parameter in layer.named_parameters() if parameter.numel()] == []
    return {each: array.data_ptr() for each, array in layer.quant_method.moec_layer.weights.items()}
