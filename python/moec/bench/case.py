# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One layer to time: its sizes, random weights in checkpoint layout, and the output in float32.

E: experts of this rank, H: hidden size, I: intermediate size. The first matmul has the rows [gate, up].
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from moec.errors import NotSupported

Tensor: TypeAlias = Any
"""A torch.Tensor."""

INT4_OFFSET = 8
# The standard deviation of the codes (quantized values) in random weights.
FP8_STEPS, INT8_STEPS = 64.0, 32.0
# Limit for the relative error, the norm of the difference over the norm of the reference. Rounding activations to e4m3 alone
# causes an error of 0.04.
TOLERANCE = {
    "bf16": 0.01,
    "fp8_block": 0.07,
    "fp8_channel": 0.07,
    "int8_channel": 0.07,
    "int4_w4a16": 0.01,
    "mxfp4_w4a16": 0.01,
    "nvfp4_w4a16": 0.01,
    "mxfp4_fp8_block": 0.07,
}
# For each scheme, the number of weight columns that share a scale, and the size of a scale in bytes.
GROUPS = {"int4_w4a16": (128, 2), "mxfp4_w4a16": (32, 1), "nvfp4_w4a16": (16, 1), "mxfp4_fp8_block": (32, 1)}
# Schemes whose matmuls have two e4m3 operands.
FP8_OPERANDS = ("fp8_block", "fp8_channel", "mxfp4_fp8_block")
# Schemes with one scale per weight row.
CHANNELS = ("fp8_channel", "int8_channel")
BLOCK = 128
NVFP4_SCALE = 64.0  # mean of the group scales
E2M1_SPREAD = 2.93  # standard deviation of random codes
SOFTMAX = (("softmax", "sum"), ("identity", "softmax"))


@dataclasses.dataclass(frozen=True)
class Case:
    """The sizes and the scheme of a layer."""

    name: str
    scheme: str
    num_experts: int
    """Number of experts that a token may select, over all ranks."""
    first_expert: int
    experts: int
    """Number of local experts. The first one is first_expert."""
    top_k: int
    hidden: int
    width: int
    """The intermediate size per rank."""
    routes: bool
    """True if systems route logits by softmax, top-k and renormalization. Otherwise all systems receive the same ids and
    weights."""

    @classmethod
    def of(cls, layer: Mapping[str, Any]) -> "Case":
        """Creates the case for a manifest's layer. Raises NotSupported for a layer that moec bench cannot time."""
        name, scheme, routing = layer["name"], layer["quant"]["name"], layer["routing"]
        if scheme not in TOLERANCE:
            raise NotSupported(f"{name}: moec bench has random weights of {', '.join(TOLERANCE)}; the layer's scheme is {scheme}")
        others = {
            f"the activation {layer['activation']['name']}": layer["activation"]["name"] != "silu",
            "biases": layer["has_bias"],
            "shared experts": layer["n_shared_experts"],
            "weights on the input": layer["apply_router_weight_on_input"],
            f"{layer['in_dtype']} inputs": layer["in_dtype"] != "bf16",
            "experts that are not side by side": layer["local_experts"]["stride"] != 1,
        }
        if wrong := [what for what, found in others.items() if found]:
            raise NotSupported(
                f"{name}: moec bench times routed experts in bf16 with silu and without biases; the layer has {wrong[0]}"
            )
        plain = {"select": "top_k", "scale": 1.0, "bias": False}
        # Softmax before or after the selection: both result in the same weights.
        shares = (routing["score"], routing["normalize"])
        return cls(
            name,
            scheme,
            layer["num_experts"],
            layer["local_experts"]["begin"],
            layer["local_experts"]["count"],
            layer["top_k"],
            layer["hidden_size"],
            layer["intermediate_size_per_partition"],
            shares in SOFTMAX and all(routing[key] == value for key, value in plain.items()),
        )

    def expert_bytes(self) -> int:
        """Returns the size of one expert's weights and scales in bytes."""
        total = 0
        for rows, columns in ((2 * self.width, self.hidden), (self.hidden, self.width)):
            if self.scheme == "bf16":
                total += 2 * rows * columns
            elif self.scheme == "fp8_block":
                total += rows * columns + 4 * -(-rows // BLOCK) * -(-columns // BLOCK)
            elif self.scheme in CHANNELS:
                total += rows * columns + 4 * rows
            else:
                group, scale = GROUPS[self.scheme]
                total += rows * columns // 2 + scale * rows * -(-columns // group)
        # Gate, up and down each have an f32 second scale.
        return total + (12 if self.scheme == "nvfp4_w4a16" else 0)

    def local(self, inputs: "Inputs") -> dict[int, int]:
        """Returns {expert: rows} for the experts of this rank that have rows."""
        ids, counts = inputs.ids.unique(return_counts=True)
        here = range(self.first_expert, self.first_expert + self.experts)
        return {expert: count for expert, count in zip(ids.tolist(), counts.tolist(), strict=True) if expert in here}

    def moved_bytes(self, tokens: int, touched: float) -> float:
        """Returns the bytes moved: each touched expert once, plus x, the output and the logits in bf16."""
        return touched * self.expert_bytes() + 2 * tokens * (2 * self.hidden + self.num_experts)

    def flops(self, pairs: float) -> float:
        """Returns the FLOPs of both matmuls. `pairs`: number of (token, expert) pairs of this rank's experts."""
        return 6 * pairs * self.hidden * self.width


@dataclasses.dataclass
class Inputs:
    """The inputs of one run. Ids and weights are the results of softmax, top-k and renormalization."""

    x: Tensor
    """bf16 [tokens, H]."""
    logits: Tensor
    """bf16 [tokens, num_experts]. All logits of a token differ, so that every system selects the same experts."""
    ids: Tensor
    """int32 [tokens, top_k]."""
    weights: Tensor
    """float32 [tokens, top_k]."""


@dataclasses.dataclass
class Matrix:
    """The stored weights of one matmul for each expert."""

    codes: Tensor
    """[E, rows, columns] of bf16, e4m3 or int8; or uint8 [E, rows, columns / 2] of two 4-bit codes, the first one in the low
    bits."""
    scale: Tensor
    """None; float32 [E, rows / 128, columns / 128] or [E, rows]; or bf16, e4m3 or e8m0 (uint8) [E, rows, columns / group]."""
    second: Tensor = None
    """None, or float32 [E], the second scale, which multiplies all scales of an expert."""


@dataclasses.dataclass
class Weights:
    case: Case
    first: Matrix
    """[E, 2 * I, H]."""
    second: Matrix
    """[E, H, I]."""

    def named(self) -> dict[str, Tensor]:
        """Returns the weights by the names of moec's packages."""
        made = {"w13": self.first.codes, "w2": self.second.codes}
        if self.first.scale is not None:
            made |= {"w13_scale": self.first.scale, "w2_scale": self.second.scale}
        if self.first.second is not None:
            # moec has one second scale for gate and one for up; here they are equal.
            of_both = self.first.second[:, None].repeat(1, 2)
            made |= {"w13_second_scale": of_both, "w2_second_scale": self.second.second[:, None]}
        return made


def random_matrix(case: Case, rows: int, columns: int, device: str) -> Matrix:
    """Returns random values with standard deviation columns^-0.5."""
    import torch

    spread, count = columns**-0.5, case.experts

    def scales(*shape: int) -> Tensor:
        return torch.rand(shape, device=device) * 0.5 + 0.75

    if case.scheme in GROUPS:
        groups = -(-columns // GROUPS[case.scheme][0])
        codes = torch.randint(0, 256, (count, rows, columns // 2), device=device, dtype=torch.uint8)
        if case.scheme == "int4_w4a16":
            return Matrix(codes, (scales(count, rows, groups) * (spread / 4.6)).bfloat16())
        if case.scheme == "nvfp4_w4a16":
            scale = (scales(count, rows, groups) * NVFP4_SCALE).to(torch.float8_e4m3fn)
            return Matrix(codes, scale, scales(count) * (spread / (E2M1_SPREAD * NVFP4_SCALE)))
        exponents = torch.randint(-1, 1, (count, rows, groups), device=device)
        return Matrix(codes, (exponents + 127 + round(float(torch.tensor(spread / 2).log2()))).to(torch.uint8))
    # One expert at a time: the floats of all experts would not fit on a GPU beside the codes.
    kinds = {"bf16": (torch.bfloat16, spread), "int8_channel": (torch.int8, INT8_STEPS)}
    kind, steps = kinds.get(case.scheme, (torch.float8_e4m3fn, FP8_STEPS))
    codes = torch.empty((count, rows, columns), device=device, dtype=kind)
    for expert in codes:
        numbers = torch.randn(rows, columns, device=device, dtype=torch.bfloat16) * steps
        expert.copy_(numbers.clamp(-127, 127) if kind == torch.int8 else numbers)
    if case.scheme == "bf16":
        return Matrix(codes, None)
    shape = (count, rows) if case.scheme in CHANNELS else (count, -(-rows // BLOCK), -(-columns // BLOCK))
    return Matrix(codes, scales(*shape) * (spread / steps))


def random_weights(case: Case, device: str = "cuda") -> Weights:
    return Weights(
        case,
        random_matrix(case, 2 * case.width, case.hidden, device),
        random_matrix(case, case.hidden, case.width, device),
    )


def random_inputs(case: Case, tokens: int, skew: float = 0.0, device: str = "cuda") -> Inputs:
    """Creates random inputs. `skew`: 0: uniform; s: the expert of rank r is selected with odds (r + 1)^-s."""
    import torch

    values = torch.linspace(-2, 2, case.num_experts, device=device).bfloat16()
    order = torch.rand(tokens, case.num_experts, device=device)
    if skew:
        odds = torch.arange(1, case.num_experts + 1, device=device).float() ** -skew
        # The Gumbel trick samples without replacement with these odds.
        order = odds.log() - (-order.log()).log()
    logits = values[order.argsort(1).argsort(1)]
    weights, ids = logits.float().softmax(-1).topk(case.top_k, -1)
    x = torch.randn(tokens, case.hidden, device=device, dtype=torch.bfloat16)
    return Inputs(x, logits, ids.int(), weights / weights.sum(-1, keepdim=True))


def dequantized(case: Case, matrix: Matrix, expert: int) -> Tensor:
    """Returns the weights of one expert as float32 [rows, columns]."""
    import torch

    codes = matrix.codes[expert]
    scale: Tensor = None if matrix.scale is None else matrix.scale[expert]
    if case.scheme in GROUPS:
        group, _ = GROUPS[case.scheme]
        digits = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).long()
        if case.scheme == "int4_w4a16":
            return (digits - INT4_OFFSET) * scale.float().repeat_interleave(group, 1)
        steps = torch.tensor((0, 0.5, 1, 1.5, 2, 3, 4, 6), device=codes.device)
        of_groups = torch.exp2(scale.float() - 127) if matrix.second is None else scale.float() * matrix.second[expert]
        return torch.cat((steps, -steps))[digits] * of_groups.repeat_interleave(group, 1)
    if scale is None:
        return codes.float()
    if scale.dim() == 1:
        return codes.float() * scale[:, None]
    wide = scale.repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return codes.float() * wide[: codes.shape[0], : codes.shape[1]]


def reference(weights: Weights, inputs: Inputs) -> Tensor:
    """Returns the reference output, float32 [tokens, H], computed one expert at a time."""
    import torch

    case, x = weights.case, inputs.x.float()
    out = torch.zeros_like(x)
    for expert in range(case.experts):
        token, place = (inputs.ids == expert + case.first_expert).nonzero(as_tuple=True)
        if not token.numel():
            continue
        gate, up = (x[token] @ dequantized(case, weights.first, expert).t()).chunk(2, -1)
        rows = torch.nn.functional.silu(gate) * up
        out.index_add_(0, token, rows @ dequantized(case, weights.second, expert).t() * inputs.weights[token, place, None])
    return out


def error_of(got: Tensor, wanted: Tensor) -> float:
    """Returns the norm of the difference over the norm of the reference, or the norm of the difference if the reference is
    zero."""
    size = float(wanted.norm().item())
    return float((got.float() - wanted).norm().item()) / (size or 1.0)
