# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small model for the writers of quantized checkpoints, and one case: what a library wrote, read and computed by moec."""

import dataclasses
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn
from transformers import Qwen3MoeConfig

import moec

EXPERTS, TOP_K, HIDDEN, INNER, LAYERS = 4, 2, 384, 256, 2
TOKENS = 9
PARTS = ("gate_proj", "up_proj", "down_proj")
# The layer of the model that is compared: not the first one.
LAYER = 1

Tensor = torch.Tensor
Weight = Callable[[str, int], Tensor]
"""(part, expert) -> the numbers of its weight [rows, columns] in f64, as the library's own code reads what it wrote."""
Rounding = Callable[[Tensor, str, int], Tensor]
"""(rows [tokens, K] in f64, part, expert) -> the rows as the library's own code rounds them before the matmul."""


class Expert(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return made


class Experts(nn.Module):
    """The block of Qwen3-MoE with a linear module for each matrix, as writers of checkpoints see it."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(hidden, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert(hidden, inner) for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = sum(expert(x) for expert in self.experts) + self.gate(x).sum() * 0
        return made


class Attention(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.q_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.q_proj(x)
        return made


class Block(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.self_attn = Attention(hidden)
        self.mlp = Experts(hidden, inner)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = x + self.mlp(self.self_attn(x))
        return made


class Body(nn.Module):
    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(hidden, inner) for _ in range(LAYERS))


class Model(nn.Module):
    """Takes rows of the hidden state: embeddings and norms are no part of what is tested."""

    def __init__(self, hidden: int = HIDDEN, inner: int = INNER) -> None:
        super().__init__()
        self.config = make_config(hidden, inner)
        self.model = Body(hidden, inner)
        self.lm_head = nn.Linear(hidden, 32, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.model.layers:
            x = block(x)
        made: Tensor = self.lm_head(x)
        return made


def make_config(hidden: int = HIDDEN, inner: int = INNER) -> Qwen3MoeConfig:
    """The sizes of the model; the dtype is set with that of the weights."""
    return Qwen3MoeConfig(
        architectures=["Qwen3MoeForCausalLM"],
        vocab_size=32,
        hidden_size=hidden,
        intermediate_size=inner,
        moe_intermediate_size=inner,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=hidden // 4,
        num_experts=EXPERTS,
        num_experts_per_tok=TOP_K,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
    )


def magnitude(layer: int, expert: int, part: str) -> float:
    """Each matrix has another size, so that scales of the wrong one show."""
    return 0.03 * (1 + 0.7 * PARTS.index(part)) * (1 + expert / 2) * (1 + layer)


def make_model(dtype: torch.dtype = torch.bfloat16, hidden: int = HIDDEN, inner: int = INNER) -> Model:
    """Random weights that are not centred, with rows and columns of several sizes."""
    torch.manual_seed(11)
    model = Model(hidden, inner)
    for layer, block in enumerate(model.model.layers):
        for number, expert in enumerate(block.mlp.experts):
            for part in PARTS:
                weight = getattr(expert, part).weight.data
                rows = 0.5 + torch.rand(weight.shape[0], 1)
                columns = 0.5 + torch.rand(1, weight.shape[1])
                weight.copy_((torch.randn_like(weight) + 0.3) * rows * columns * magnitude(layer, number, part))
    model.config.dtype = dtype
    return model.to(dtype).eval()


def linear(model: Any, part: str, expert: int, layer: int = LAYER) -> Any:
    """The module of a matrix, in this model and in those that a library made of it."""
    return model.get_submodule(f"model.layers.{layer}.mlp.experts.{expert}.{part}")


@dataclasses.dataclass
class Written:
    """A checkpoint that a library wrote, and what the library itself reads in it."""

    folder: pathlib.Path
    weight: Weight
    rounding: Rounding | None = None
    """None: activations are not quantized."""


@dataclasses.dataclass
class Case:
    name: str
    write: Callable[[pathlib.Path], Written]
    limit: float = 4e-3
    """The largest error of the whole output, relative; rounding to 16 bits makes 2e-3."""
    refused: str = ""
    """A part of the sentence that refuses the case; "" for one that is served."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Goes to moec.compile()."""
    loading: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Goes to Checkpoint.load()."""


@dataclasses.dataclass
class Outcome:
    name: str
    status: str
    """served, refused, wrong: another output or sentence than expected, failed: another exception."""
    scheme: str = ""
    error: float = float("nan")
    said: str = ""
    tensors: dict[str, str] = dataclasses.field(default_factory=dict)
    """Type and shape of the first expert's tensors, by the name behind the expert's number."""
    config: Any = None


def inputs(hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """x [tokens, hidden] in bf16, ids [tokens, top k] and their weights."""
    random = torch.Generator().manual_seed(5)
    x = torch.randn(TOKENS, hidden, generator=random).to(torch.bfloat16)
    ids = torch.stack([torch.randperm(EXPERTS, generator=random)[:TOP_K] for _ in range(TOKENS)])
    shares = torch.rand(TOKENS, TOP_K, generator=random) + 0.1
    return x, ids, shares / shares.sum(1, keepdim=True)


def expected(written: Written, x: Tensor, ids: Tensor, shares: Tensor) -> Tensor:
    """The layer's output in f64. x and the rows of the intermediate are rounded as the library does, else to x's type."""

    def rounded(rows: Tensor, part: str, expert: int) -> Tensor:
        if written.rounding:
            return written.rounding(rows, part, expert).double()
        return rows.to(x.dtype).double()

    out = torch.zeros(x.shape, dtype=torch.float64)
    for expert in range(EXPERTS):
        tokens, place = (ids == expert).nonzero(as_tuple=True)
        if not len(tokens):
            continue
        rows = x[tokens].double()
        gate = rounded(rows, "gate_proj", expert) @ written.weight("gate_proj", expert).T
        up = rounded(rows, "up_proj", expert) @ written.weight("up_proj", expert).T
        inner = rounded(nn.functional.silu(gate) * up, "down_proj", expert)
        out.index_add_(0, tokens, shares[tokens, place].double()[:, None] * (inner @ written.weight("down_proj", expert).T))
    return out


def described(operand: dict[str, Any]) -> str:
    """A descriptor in a few words."""
    words = [operand["element_type"], *([str(operand["group"]), operand["scale_type"]] if operand["scale_type"] else [])]
    return " ".join(
        [*words, *(["dynamic"] if operand["dynamic"] else []), *(["zero points"] if operand["zero_point_type"] else [])]
    )


def computed(case: Case, folder: pathlib.Path, outcome: Outcome) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """moec's output on the host device, of config.json and the checkpoint alone."""
    files = moec.compile(folder, arch="sm_90a", layer=LAYER, max_tokens=64, progress=False, **case.options)
    package = moec.load(files, device="host")
    quant = package.manifest["layer"]["quant"]
    outcome.scheme = quant["name"] or " x ".join(described(quant[name]) for name in ("a1", "w1"))
    weights = moec.Checkpoint(folder).load(package, LAYER, progress=False, **case.loading)
    x, ids, shares = inputs(package.shape("x")[1])
    given = x if package.values["x"].element_types[0] == "bf16" else x.to(torch.float16)
    out = package.layer(weights)(given, topk_ids=ids.to(torch.int32), topk_weights=shares)
    made = out if isinstance(out, torch.Tensor) else torch.from_numpy(moec.from_bfloat16(numpy.asarray(out)))
    return made.double(), (given, ids, shares)


def structure(folder: pathlib.Path) -> dict[str, str]:
    """The tensors of the compared layer's first expert, and of fused ones: type and shape."""
    from safetensors import safe_open

    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                place = re.search(rf"layers\.{LAYER}\.mlp\.experts\.(?:0\.|(?=\D))(.*)", name)
                if place:
                    part = file.get_slice(name)
                    found[place.group(1)] = f"{part.get_dtype()} {part.get_shape()}"
    return dict(sorted(found.items()))


def run(case: Case, work: pathlib.Path) -> Outcome:
    """Lets the library write, then moec read and compute."""
    outcome = Outcome(case.name, "failed")
    folder = work / case.name
    folder.mkdir(parents=True)
    written = case.write(folder)
    outcome.tensors = structure(written.folder)
    outcome.config = json.loads((written.folder / "config.json").read_text()).get("quantization_config")
    try:
        out, given = computed(case, written.folder, outcome)
    except moec.MoecError as error:
        outcome.said = str(error)
        is_expected = bool(case.refused) and case.refused in outcome.said
        outcome.status = "refused" if is_expected else "wrong"
        return outcome
    wanted = expected(written, *given)
    outcome.error = float((out - wanted).norm() / wanted.norm())
    is_right = not case.refused and outcome.error <= case.limit
    outcome.status = "served" if is_right else "wrong"
    return outcome
