# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""replace_blocks() is attach() for experts and routing: moec computes the routing too, and the model's router only the logits.

The block keeps its own forward and its shared experts. Its router returns the logits instead of ids and weights.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from moec._messages import Progress
from moec.errors import InvalidArgument
from moec.integrations.transformers import check as checks
from moec.integrations.transformers.attach import Report, attach_with, detach, type_of_input
from moec.integrations.transformers.experts import Found, eager_forward
from moec.integrations.transformers.prepared import MAX_TOKENS, NAME, Prepared, Routing, prepared

TOKENS = 64
# The minimum share of random tokens whose output must not change (compare_blocks). It is below 1 because equal bf16 logits are
# frequent, and two programs may then select different experts.
EQUAL_TOKENS = 0.75


class Router(NamedTuple):
    """A router class of transformers: how moec obtains its logits and describes its routing."""

    block: str
    """The class of the block around the router."""
    logits: Callable[[Any, torch.Tensor], torch.Tensor]
    fields: Callable[[Any], dict[str, Any]]
    """Fields of a layer JSON."""
    bias: str = ""
    """The router's tensor that biases the selection of experts."""


def _linear(router: Any, x: torch.Tensor) -> Any:
    return torch.nn.functional.linear(x, router.weight, getattr(router, "bias", None))


def _linear_f32(router: Any, x: torch.Tensor) -> Any:
    return torch.nn.functional.linear(x.float(), router.weight.float())


def _softmax(router: Any) -> dict[str, Any]:
    return {"routing_method": "renormalize_naive" if router.norm_topk_prob else "default"}


def _deepseek_v3(router: Any) -> dict[str, Any]:
    grouped = router.num_group > 1
    return {
        "routing_method": "auto",
        "scoring_func": "sigmoid",
        "renormalize": bool(router.norm_topk_prob),
        "e_score_correction_bias": True,
        "routed_scaling_factor": float(router.routed_scaling_factor),
        "num_expert_group": router.num_group if grouped else 0,
        "topk_group": router.topk_group if grouped else 0,
    }


ROUTERS = {
    "Qwen2MoeTopKRouter": Router("Qwen2MoeSparseMoeBlock", _linear, _softmax),
    "Qwen3MoeTopKRouter": Router("Qwen3MoeSparseMoeBlock", _linear, _softmax),
    "OlmoeTopKRouter": Router("OlmoeSparseMoeBlock", _linear, _softmax),
    "MixtralTopKRouter": Router("MixtralSparseMoeBlock", _linear, lambda router: {"routing_method": "renormalize_naive"}),
    "GptOssTopKRouter": Router("GptOssMLP", _linear, lambda router: {"routing_method": "renormalize"}),
    "DeepseekV3TopkRouter": Router("DeepseekV3MoE", _linear_f32, _deepseek_v3, bias="e_score_correction_bias"),
}


class LogitsAlone:
    """The base class that replace_blocks() puts before a router's own class. The router then returns only its logits, because
    moec computes the routing."""

    _moec_config: Any

    def forward(self, hidden_states: torch.Tensor) -> Any:
        if self._moec_config._experts_implementation != NAME:
            return super().forward(hidden_states)  # type: ignore[misc]
        # In the method resolution order, the class after LogitsAlone is the router's own.
        kind = ROUTERS[type(self).__mro__[2].__name__]
        logits = kind.logits(self, hidden_states.reshape(-1, hidden_states.shape[-1]))
        return logits, logits, logits


def block_of(model: Any, found: Found) -> tuple[Any, Any]:
    """Returns the block around the experts and its router. Raises InvalidArgument for classes that are not in the table."""
    block = model.get_submodule(found.name.rpartition(".")[0])
    routers = [child for child in block.children() if type(child).__name__ in ROUTERS]
    name = type(block).__name__
    if len(routers) != 1 or ROUTERS[type(routers[0]).__name__].block != name:
        known = ", ".join(router.block for router in ROUTERS.values())
        raise InvalidArgument(
            f"{found.name}: its block is a {name}; replace_blocks supports {known}. attach(model) supports its experts"
        )
    return block, routers[0]


def routing_of(router: Any) -> Routing:
    kind = ROUTERS[type(router).__name__]
    if not kind.bias:
        return Routing(kind.fields(router), {}, {})
    bias = getattr(router, kind.bias)
    return Routing(kind.fields(router), {"routing_bias": bias.detach().float()}, {kind.bias: bias})


def check_logits(label: str, router: Any, x: torch.Tensor) -> None:
    """Raises InvalidArgument if the logits function in ROUTERS does not reproduce the router's logits."""
    kind = ROUTERS[type(router).__name__]
    own = type(router).forward(router, x)
    if not (isinstance(own, tuple) and len(own) == 3 and torch.equal(own[0], kind.logits(router, x))):
        raise InvalidArgument(f"{label}: its router is not the {type(router).__name__} that replace_blocks supports")


def check_routing(label: str, router: Any, made: Prepared, x: torch.Tensor) -> float:
    """Runs moec's experts with moec's routing of f32 logits, which have no ties, and with the router's own ids and weights.
    Returns the largest relative error of a token, and raises InvalidArgument if the error is too large."""
    wide = copy.deepcopy(router).float()
    logits, weights, ids = wide(x.float())
    expected = made.run(x, ids, weights)
    error = (made.run(x, logits, logits).float() - expected.float()).norm(dim=-1) / expected.float().norm(dim=-1).clamp(min=1e-20)
    worst = float(error.max())
    if not worst < 1e-2:
        raise InvalidArgument(f"{label}: moec routes other than the module's router: {worst:.2g} of a token's length differs")
    return worst


def output_of(block: Any, x: torch.Tensor) -> torch.Tensor:
    made = block(x[None].clone())
    out: torch.Tensor = made[0] if isinstance(made, tuple) else made
    return out.reshape(x.shape)


def replace_blocks(
    model: Any,
    *,
    in_place: bool = True,
    max_tokens: int = MAX_TOKENS,
    check: bool = True,
    progress: bool | Progress | None = None,
    **options: Any,
) -> Report:
    """Like attach(), but moec computes the routing too, and the model's router only the logits. detach() undoes it.

    Accepts the arguments of attach(). Raises InvalidArgument for a block that is not in the table, or whose results differ from
    moec's on random tokens. The model is then unchanged.
    """
    blocks: dict[str, tuple[Any, Any]] = {}
    inputs: dict[str, torch.Tensor] = {}
    outputs: dict[str, torch.Tensor] = {}

    def prepare_block(found: Found) -> Routing:
        block, router = blocks[found.name] = block_of(model, found)
        if eager_forward(found.module) is None or any(tensor.is_meta for tensor in block.parameters()):
            raise InvalidArgument(f"{found.name}: expected a block with all of its weights in memory")
        if check:
            weight = router.weight
            x = torch.randn(TOKENS, weight.shape[-1], generator=torch.Generator().manual_seed(0))
            x = x.to(weight.device, type_of_input(model, found))
            check_logits(found.name, router, x)
            inputs[found.name] = x
            if found.module.down_proj.element_size() == 1:
                # The eager forward of quantized weights may need kernels from a hub, so experts and routing are checked without
                # it.
                return routing_of(router)
            former = found.module.config._experts_implementation
            found.module.config._experts_implementation = "eager"
            try:
                outputs[found.name] = output_of(block, x)
            finally:
                found.module.config._experts_implementation = former
        return routing_of(router)

    with torch.no_grad():
        report = attach_with(
            prepare_block,
            model,
            in_place=in_place,
            max_tokens=max_tokens,
            check=check,
            top_k=None,
            progress=progress,
            **options,
        )
        try:
            for name, (block, router) in blocks.items():
                module = model.get_submodule(name)
                made = prepared(module)
                assert made is not None
                if check:
                    check_routing(name, router, made, inputs[name])
                router.__dict__["_moec_config"] = module.config
                kind = type(router)
                names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
                router.__class__ = type(kind.__name__, (LogitsAlone, kind), names)
                made.router = router
                if name in outputs:
                    compare_blocks(name, block, inputs[name], outputs[name])
        except BaseException:
            detach(model)
            raise
    return report


def compare_blocks(label: str, block: Any, x: torch.Tensor, expected: torch.Tensor) -> None:
    """Raises InvalidArgument if the block's output has changed."""
    limit = checks.LIMITS[{torch.float32: "f32", torch.float16: "f16"}.get(x.dtype, "bf16")] * 3
    error = (output_of(block, x).float() - expected.float()).norm(dim=-1) / expected.float().norm(dim=-1).clamp(min=1e-20)
    equal = float((error < limit).float().mean())
    if equal < EQUAL_TOKENS:
        raise InvalidArgument(
            f"{label}: with moec's routing {100 * (1 - equal):.0f} % of random tokens have another output of the block; "
            f"expected at most {100 * (1 - EQUAL_TOKENS):.0f} %"
        )
