# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""transformers' own MoE blocks with random weights: what they give, what went into their experts, and their weights under
the names that moec has for them."""

import inspect
import re
from typing import Any

import torch
from torch import nn

from abi import STORED, Package
from configs import inner_config, modeling
from families import HIDDEN, Family


class OtherShapeError(Exception):
    """A weight of the block has not the shape that moec wants."""


class BesideShared(nn.Module):
    """Granite's decoder layer adds the shared MLP outside of the block."""

    def __init__(self, moe: Any, shared: Any) -> None:
        super().__init__()
        self.moe, self.shared_mlp = moe, shared
        self.experts, self.router = moe.experts, moe.router

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.moe(x) + self.shared_mlp(x)


GEMMAS = {"gemma4": "Gemma4", "diffusion_gemma": "DiffusionGemma"}  # prefixes of their classes


class BesideNorm(nn.Module):
    """Gemma 4's decoder layer has router and experts, each with its norm."""

    def __init__(self, router: nn.Module, experts: nn.Module, norm: nn.Module) -> None:
        super().__init__()
        self.router, self.experts, self.norm = router, experts, norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        _, weights, ids = self.router(flat)
        return self.experts(self.norm(flat), ids, weights)


def make_block(name: str, family: Family, config: Any, layer: int) -> Any:
    module, inner = modeling(name, family), inner_config(family, config)
    if prefix := GEMMAS.get(family.module or name):
        router, experts, norm = (getattr(module, prefix + part) for part in ("TextRouter", "TextExperts", "RMSNorm"))
        return BesideNorm(router(inner), experts(inner), norm(inner.hidden_size))
    block = getattr(module, family.block)
    takes_layer = "layer_idx" in inspect.signature(block.__init__).parameters
    made = block(inner, layer) if takes_layer else block(inner)
    if hasattr(made, "post_mlp_layernorm"):  # A.X-K1's; the caller's in moec
        made.post_mlp_layernorm = nn.Identity()
    if name in ("granitemoeshared", "granitemoehybrid", "granitemoe_swa") and inner.shared_intermediate_size:
        return BesideShared(made, getattr(module, family.block[: -len("MoE")] + "MLP")(inner))
    return made


def first_block(model: Any, family: Family, name: str) -> tuple[Any, int]:
    """The first MoE block of a model, and its layer's number."""
    for where, module in model.named_modules():
        if (family.module or name) == "gemma4":
            if getattr(module, "enable_moe_block", None) and hasattr(module, "experts"):
                block = BesideNorm(module.router, module.experts, module.pre_feedforward_layernorm_2)
                return block, int(re.findall(r"\.(\d+)", where)[0])
        elif type(module).__name__ == family.block:
            layer = int(re.findall(r"(?:layers|blocks)\.(\d+)", where)[0])
            shared = getattr(model.get_submodule(where.rpartition(".")[0]), "shared_mlp", None)
            beside = name.startswith("granitemoe") and shared is not None
            return BesideShared(module, shared) if beside else module, layer
    raise LookupError(f"no {family.block}")


def is_bias(name: str) -> bool:
    return name.endswith(("e_score_correction_bias", "expert_bias"))


@torch.no_grad()
def randomize(block: Any, gain: float, generator: torch.Generator) -> None:
    def normal(tensor: torch.Tensor, scale: float) -> None:
        tensor.copy_(torch.randn(tensor.shape, generator=generator) * scale)

    for name, tensor in [*block.named_parameters(), *block.named_buffers()]:
        if is_bias(name):
            normal(tensor, 0.1)
        elif name.endswith(("per_expert_scale", "gate.global_scale")):
            tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
        elif name.endswith("tid2eid"):
            for row in range(tensor.shape[0]):
                tensor[row] = torch.randperm(block.gate.num_experts, generator=generator)[: tensor.shape[1]]
        elif not tensor.is_floating_point():
            continue
        elif tensor.ndim < 2:
            normal(tensor, 0.5)
        elif "down" in name or "output" in name or name.endswith("w2"):
            normal(tensor, 0.1)
        elif re.search(r"(^|\.)(gate|router)\.", name):
            normal(tensor, 1.5 * HIDDEN**-0.5)
        else:
            normal(tensor, gain * HIDDEN**-0.5)
    if hasattr(block, "router") and hasattr(block.router, "router_jitter_noise"):
        block.router.weight[:, 0] = 8.0  # sparsemixer: logits within the threshold of the largest


def router_of(block: Any) -> Any:
    return getattr(block, "gate", None) or getattr(block, "router", None)


def shared_of(block: Any) -> Any:
    for name in ("shared_expert", "shared_experts", "shared_mlp"):
        if getattr(block, name, None) is not None:
            return getattr(block, name)
    return None


def logits_of(family: Family, router: Any, x: torch.Tensor, result: Any) -> torch.Tensor:
    """The logits, whose place among the router's results differs between releases."""
    if hasattr(router, "router_logit_softcapping"):  # laguna gives them capped
        return nn.functional.linear(x, router.weight).float()
    if hasattr(router, "output_multiplier"):  # muse_spark gives them multiplied
        return nn.functional.linear(x.float(), router.weight.float())
    if hasattr(router, "n_shared_experts"):  # inkling gives them without those of its shared experts
        return nn.functional.linear(x.float(), router.weight.float())
    if hasattr(router, "classifier"):  # longcat_flash; some releases do not give them
        return nn.functional.linear(x.float(), router.classifier.weight.float())
    if not isinstance(result, tuple):
        return result
    widest = max(part.shape[-1] for part in result)
    floats = [part for part in result if part.is_floating_point() and part.shape[-1] == widest]
    given = result[family.logits]
    return given if any(part is given for part in floats) else floats[0]


@torch.no_grad()
def evaluate(name: str, family: Family, block: Any, x: torch.Tensor, token_ids: torch.Tensor) -> dict[str, Any]:
    """The block's output, the logits of its router, and what went into its experts."""
    seen: dict[str, Any] = {}

    def on_router(_module: Any, _given: Any, result: Any) -> None:
        seen["router"] = result

    def on_experts(_module: Any, given: Any, result: Any) -> None:
        seen["x"], seen["routed"] = given[0], result

    router = router_of(block)
    is_gemma = (family.module or name) in GEMMAS
    hooks = [(router.proj if is_gemma else router).register_forward_hook(on_router)]
    if hasattr(block, "experts"):
        hooks.append(block.experts.register_forward_hook(on_experts))
    out = block(x[None].clone(), *([token_ids[None]] if getattr(block, "is_hash", False) else []))
    for hook in hooks:
        hook.remove()
    out = out[0] if isinstance(out, tuple) else out
    logits = logits_of(family, router, x, seen["router"]).reshape(len(x), -1)
    made = {"out": out.reshape(len(x), -1), "logits": logits, "x": x}
    if family.rounds_scores:
        scores = logits.float().sigmoid() + getattr(block, "expert_bias", 0)
        made["margin"] = -scores.topk(router.top_k + 1).values[:, -2:].diff(dim=-1)[:, 0]
    is_latent = "x" in seen and seen["x"].shape[-1] != x.shape[-1]
    if is_latent or isinstance(block, BesideNorm):
        made["x"] = seen["x"].reshape(len(x), -1)
    if is_latent:
        made["out"], made["latent"] = seen["routed"].reshape(len(x), -1), True
    if hasattr(block, "shared_expert_gate"):
        made["shared_gate"] = block.shared_expert_gate(x)
    return made


@torch.no_grad()
def silence_shared(block: Any) -> None:
    """Makes the output that of a layer without shared experts."""
    if shared_of(block) is not None:
        for name, tensor in shared_of(block).named_parameters():
            if "down" in name or "output" in name:
                tensor.zero_()


def mlp_parts(mlp: Any) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Rows of gate and up, and down, of one MLP."""

    def weight(*names: str) -> Any:
        return next((getattr(mlp, name).weight for name in names if hasattr(mlp, name)), None)

    down = weight("down_proj", "output_linear")
    both = weight("gate_up_proj", "input_linear")
    if both is not None:
        return list(both.chunk(2)), down
    gate, up = weight("gate_proj"), weight("up_proj")
    return ([up] if gate is None else [gate, up]), down


def expert_weights(family: Family, block: Any) -> dict[str, torch.Tensor]:
    experts = block.experts
    if hasattr(experts, "mlp"):  # DBRX
        count, hidden = experts.num_experts, experts.hidden_size
        w1, v1, w2 = (part.view(count, -1, hidden) for part in (experts.mlp.w1, experts.mlp.v1, experts.mlp.w2))
        return {"w13": torch.cat([w1, v1], 1), "w2": w2.transpose(1, 2)}
    first = getattr(experts, "gate_up_proj", None)
    if first is None:
        first = experts.up_proj
    made = {"w13": first[: len(experts.down_proj)], "w2": experts.down_proj}  # LongCat has rows of zero experts
    if family.transposed:
        made = {key: value.transpose(1, 2) for key, value in made.items()}
    if hasattr(experts, "gate_up_proj_bias"):
        made["b13"], made["b2"] = experts.gate_up_proj_bias, experts.down_proj_bias
    return made


def stored(family: Family, block: Any, package: Package) -> tuple[dict[str, torch.Tensor], list[str]]:
    """The block's weights by the names of the package's stored weights; and what does not fit."""
    made = expert_weights(family, block)
    shared = package.layer["n_shared_experts"]
    if shared:
        halves, down = mlp_parts(shared_of(block))
        rows = [torch.cat(part, 0) for part in zip(*[half.chunk(shared, 0) for half in halves], strict=True)]
        first, second = torch.stack(rows), torch.stack(down.chunk(shared, 1))
        if "shared_w13" in package.of(STORED):  # of another width
            made["shared_w13"], made["shared_w2"] = first, second
        else:
            made["w13"], made["w2"] = torch.cat([made["w13"], first]), torch.cat([made["w2"], second])
    sinks = package.layer["routing"].get("sinks", 0)
    if sinks:
        gate, up, down = (getattr(shared_of(block), f"{part}_proj") for part in ("gate", "up", "down"))
        made["w13"], made["w2"] = torch.cat([made["w13"], torch.cat([gate, up], 1)]), torch.cat([made["w2"], down])
    for name, tensor in [*block.named_parameters(), *block.named_buffers()]:
        if is_bias(name):
            made["routing_bias"] = nn.functional.pad(tensor.reshape(-1), (0, sinks))
        elif name.endswith("per_expert_scale"):
            made["per_expert_scale"] = tensor
        elif name.endswith("post_expert_norm.weight"):
            made["post_expert_norm"] = tensor
        elif name.endswith("gate.global_scale"):
            made["per_expert_scale"] = tensor.expand(package.layer["num_experts"])
        elif name.endswith("tid2eid"):
            made["hash_table"] = tensor
    wanted = package.of(STORED)
    notes = [f"moec wants {name}, which the block has not" for name in wanted if name not in made]
    notes += [f"the block has {name}, which moec does not want" for name in made if name not in wanted]
    for name in wanted:
        tensor = made.setdefault(name, torch.zeros(package.shape(name), device=package.device))
        if tuple(tensor.shape) != package.shape(name):
            raise OtherShapeError(f"{name}: the block has {tuple(tensor.shape)}, moec wants {package.shape(name)}")
    return {name: made[name].detach().to(package.dtype(name)).contiguous() for name in wanted}, notes
