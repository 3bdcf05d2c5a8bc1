# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small experts modules and models as transformers has them, and a moec that computes with numpy."""

import functools
import importlib
import itertools
from types import SimpleNamespace as Names
from typing import Any

import numpy as np
from arrays_as_torch import Module, Tensor, gelu, parameter, sigmoid, silu, softmax, tensor

HIDDEN, INNER, EXPERTS, TOP_K = 32, 24, 8, 2

# The calls of the stand-in of moec.
said: list[str] = []
runs: list[int] = []
by_logits: list[bool] = []
layouts: set[str] = set()
before: dict[int, Any] = {}
# The number of experts of each call of a module's own forward.
calls: list[int] = []


def dispatched(forward: Any) -> Any:
    """transformers' decorator."""

    @functools.wraps(forward)
    def by_interface(self: Any, *given: Any) -> Any:
        if self.config._experts_implementation == "eager":
            return forward(self, *given)
        return importlib.import_module("moec.integrations.transformers.prepared").experts_forward(self, *given)

    return by_interface


importlib.import_module("transformers.integrations.moe").__file__ = dispatched.__code__.co_filename


def values(*shape: int, dtype: Any = np.float32) -> Any:
    made = np.random.default_rng(sum(shape)).standard_normal(shape) * 0.2
    return parameter(made.astype(dtype))


class Base(Module):
    has_gate, has_bias, is_transposed = True, False, False
    config, num_experts = Names(_experts_implementation="moec"), EXPERTS

    def _apply_gate(self, both: Any) -> Any:
        gate, up = both.chunk(2, -1)
        return silu(gate) * up

    def act_fn(self, x: Any) -> Any:
        return np.maximum(x, 0) ** 2

    def row(self, name: str, expert: int, x: Any) -> Any:
        weight = np.asarray(self._parameters[name][expert], np.float32)
        bias = self._parameters[f"{name}_bias"][expert] if self.has_bias else 0
        return (x @ (weight if self.is_transposed else weight.T) + bias).view(Tensor)

    def own(self, x: Any, ids: Any, weights: Any) -> Any:
        if x.shape[1] != HIDDEN:
            raise ValueError("no such size")
        calls.append(len(self._parameters["down_proj"]))
        out = np.zeros(x.shape, np.float32).view(Tensor)
        for token, slot in np.ndindex(*ids.shape):
            expert = int(ids[token, slot])
            if self.has_gate:
                inner = self._apply_gate(self.row("gate_up_proj", expert, x[token]))
            else:
                inner = self.act_fn(self.row("up_proj", expert, x[token]))
            out[token] += self.row("down_proj", expert, inner) * weights[token, slot]
        return out

    def own_of(self, state: Any, prefix: str, *given: Any) -> Any:
        other = Experts()
        for name in other._parameters:
            other._parameters[name] = parameter(state[prefix + name])
        return other.own(*given)

    @dispatched
    def forward(self, x: Any, ids: Any, weights: Any) -> Any:
        return self.own(x, ids, weights)


class Experts(Base):
    dtype = np.dtype("float32")

    def __init__(self, dtype: Any = dtype, *, experts: int = EXPERTS, inner: int = INNER) -> None:
        super().__init__()
        self.dtype, self.num_experts = np.dtype(dtype), experts
        self.config = Names(_experts_implementation="moec")
        self.gate_up_proj = values(experts, 2 * inner, HIDDEN, dtype=dtype)
        self.down_proj = values(experts, HIDDEN, inner, dtype=dtype)


class Transposed(Experts):
    """As of gpt-oss."""

    has_bias = is_transposed = True

    def __init__(self) -> None:
        super().__init__()
        self.gate_up_proj, self.down_proj = values(EXPERTS, HIDDEN, 2 * INNER), values(EXPERTS, INNER, HIDDEN)
        self.gate_up_proj_bias, self.down_proj_bias = values(EXPERTS, 2 * INNER), values(EXPERTS, HIDDEN)

    def _apply_gate(self, both: Any) -> Any:
        gate, up = both[..., ::2].clamp(max=7.0), both[..., 1::2].clamp(-7.0, 7.0)
        return gate * sigmoid(1.702 * gate) * (up + 1)


class Plain(Experts):
    has_gate = False

    def __init__(self, dtype: Any = np.float32) -> None:
        super().__init__(dtype)
        down = self._parameters.pop("down_proj")
        del self._parameters["gate_up_proj"]
        self.up_proj, self.down_proj = values(EXPERTS, INNER, HIDDEN, dtype=dtype), down


class Router(Module):
    norm_topk_prob, top_k = True, TOP_K
    by = staticmethod(lambda router, logits: softmax(logits))

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.weight = values(EXPERTS, HIDDEN)
        for name, value in options.items():
            setattr(self, name, value)

    def logits(self, x: Any) -> Any:
        return x.reshape(-1, x.shape[-1]) @ self.weight.T

    def forward(self, x: Any) -> Any:
        logits = self.logits(x)
        scores = type(self).by(self, logits)
        groups = [getattr(self, name, 1) for name in ("num_group", "topk_group")]
        ids, weights = chosen(scores, getattr(self, "e_score_correction_bias", 0), *groups)
        if self.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdims=True)
        return logits, weights * getattr(self, "routed_scaling_factor", 1.0), ids


def chosen(scores: Any, bias: Any, groups: int, kept: int) -> tuple[Any, Any]:
    """ids and scores of the best experts, of the best groups alone."""
    biased = np.array(scores + bias)
    if groups > 1:
        best = np.sort(biased.reshape(-1, groups, biased.shape[-1] // groups), -1)[..., -2:].sum(-1)
        order = np.argsort(-best, -1)[:, kept:]
        for token, group in np.ndindex(*order.shape):
            size = biased.shape[-1] // groups
            biased[token, order[token, group] * size :][:size] = -np.inf
    ids = np.argsort(-biased, -1, kind="stable")[:, :TOP_K].view(Tensor)
    return ids, np.take_along_axis(scores, ids, -1).view(Tensor)


class Block(Module):
    def __init__(self, experts: Any, top_k: int | None = TOP_K, router: Any = None) -> None:
        super().__init__()
        self.gate, self.experts = router or Router(), experts
        if router is None:
            self.gate.top_k = top_k

    def forward(self, x: Any) -> Any:
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        _, weights, ids = self.gate(x)
        return self.experts(x, ids, weights).reshape(shape)


class Layer(Module):
    def __init__(self, block: Any) -> None:
        super().__init__()
        self.mlp = block


class Layers(Module):
    def __getitem__(self, index: int) -> Any:
        return self._modules[str(index)]


class Model(Module):
    """Three layers. They share a configuration."""

    def __init__(self, *kinds: Any, top_k: int | None = TOP_K, blocks: Any = None) -> None:
        super().__init__()
        self.config = Names(_experts_implementation="eager")
        self.layers = Layers()
        kinds = kinds or (Experts,)
        for index in range(3):
            block = blocks() if blocks else Block(kinds[index % len(kinds)](), top_k)
            block.experts.config = self.config
            setattr(self.layers, str(index), Layer(block))

    def forward(self, x: Any) -> Any:
        runs.clear()
        by_logits.clear()
        for index in range(3):
            x = x + self.layers[index].mlp(x)
        return x


def tokens(count: int) -> Any:
    return tensor(np.random.default_rng(count).standard_normal((count, HIDDEN)))


def routed(count: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(count)
    ids = np.array([random.permutation(EXPERTS)[:TOP_K] for _ in range(count)], np.int64).reshape(count, TOP_K)
    return tokens(count), ids.view(Tensor), tensor(random.random((count, TOP_K)))


# ---- routers of transformers


def of_sigmoid(router: Any, logits: Any) -> Any:
    return sigmoid(logits)


def of_chosen(router: Any, logits: Any) -> Any:
    """gpt-oss normalizes the logits of the chosen experts."""
    return np.exp(logits - logits.max(-1, keepdims=True))


BIAS = {"bias": 1}
DEEPSEEK = {"num_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5}
ROUTERS: dict[str, tuple[dict[str, Any], ...]] = {
    "Qwen2MoeTopKRouter": ({"norm_topk_prob": False}, {}),
    "Qwen3MoeTopKRouter": ({}, {"norm_topk_prob": False}),
    "OlmoeTopKRouter": ({"norm_topk_prob": False},),
    "MixtralTopKRouter": ({},),
    "GptOssTopKRouter": ({},),
    "DeepseekV3TopkRouter": (DEEPSEEK, {**DEEPSEEK, "norm_topk_prob": False}, {**DEEPSEEK, "num_group": 1, "topk_group": 1}),
}
BLOCKS = {
    "Qwen2MoeTopKRouter": "Qwen2MoeSparseMoeBlock",
    "Qwen3MoeTopKRouter": "Qwen3MoeSparseMoeBlock",
    "OlmoeTopKRouter": "OlmoeSparseMoeBlock",
    "MixtralTopKRouter": "MixtralSparseMoeBlock",
    "GptOssTopKRouter": "GptOssMLP",
    "DeepseekV3TopkRouter": "DeepseekV3MoE",
}


def routed_model(name: str, **options: Any) -> Any:
    by = {"DeepseekV3TopkRouter": of_sigmoid, "GptOssTopKRouter": of_chosen}.get(name, Router.by)
    kind: Any = type(name, (Router,), {"by": staticmethod(by), "__module__": "of_transformers"})

    def block() -> Any:
        router = kind(**options)
        if name == "DeepseekV3TopkRouter":
            router._buffers["e_score_correction_bias"] = tensor(np.linspace(-0.2, 0.2, EXPERTS))
        return type(BLOCKS[name], (Block,), {})(Experts(), router=router)

    if name == "GptOssTopKRouter":
        kind.logits = lambda self, x: x.reshape(-1, x.shape[-1]) @ self.weight.T + self.bias
        options = {"bias": values(EXPERTS)}
    return Model(blocks=block)


# ---- moec


def otherwise(description: Any) -> Any:
    """Gates and ups in the wrong order."""
    return description._replace(source={**description.source, "gate_up_order": "up_first"})


def activated(source: dict[str, Any], both: Any) -> Any:
    name = source["activation"]
    one: dict[str, Any] = {
        "silu": silu,
        "gelu": gelu,
        "relu": lambda x: np.maximum(x, 0),
        "relu2": lambda x: np.maximum(x, 0) ** 2,
    }
    if name.endswith("_no_mul"):
        return one[name.removesuffix("_no_mul")](both)
    gate, up = (both[..., ::2], both[..., 1::2]) if source["gate_up_order"] == "interleaved" else np.split(both, 2, -1)
    if source["gate_up_order"] == "up_first":
        gate, up = up, gate
    if name == "swigluoai":
        limit = source["swiglu_limit"]
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return gate * sigmoid(source["swiglu_alpha"] * gate) * (up + source["swiglu_beta"])
    return one[name](gate) * up


class Served:
    """A layer of moec. Packing in place writes into the weights' memory."""

    def __init__(self, number: int, source: dict[str, Any], tensors: dict[str, Any], in_place: bool) -> None:
        self.number, self.source = number, source
        self.stored = {name: np.array(each) for name, each in tensors.items()}
        for name in ("w13", "w2") if in_place else ():
            tensors[name].view(np.uint8)[...] = 77

    def unpack(self, into: dict[str, Any], host: bool = False) -> None:
        assert sorted(into) == ["w13", "w2"], into
        for name, each in into.items():
            assert each.shape == self.stored[name].shape, (name, each.shape)
            each.view(np.uint8)[...] = self.stored[name].view(np.uint8)
            layouts.add("to the host" if host else "in place")

    def weight(self, name: str, expert: int) -> Any:
        check = importlib.import_module("moec.integrations.transformers.check")
        codes = self.stored[name][expert][None].view(Tensor)
        scheme = self.source["quant_config"]
        if scheme is None:
            made = np.asarray(codes[0], np.float32)
        else:
            scale = self.stored[f"{name}_scale"][expert][None]
            block = (128, 128) if str(scheme).startswith("fp8_block") else None
            if isinstance(scheme, dict):
                block = tuple(scheme["w1"]["shape"])
            scale = scale.view(Tensor) if scale.ndim == 3 else scale[..., None].view(Tensor)
            made = np.asarray(check.dequantized(codes, scale, block)[0])
        return made.T if self.source["stored_layout"] == "columns" else made

    def __call__(self, x: Any, logits: Any, ids: Any, weights: Any) -> Any:
        if logits is not None:
            ids, weights = self.route(np.asarray(logits, np.float32))
        out = np.zeros(x.shape, np.float32)
        for token, slot in np.ndindex(*ids.shape):
            expert = int(ids[token, slot])
            both = self.weight("w13", expert) @ np.asarray(x[token], np.float32)
            both = both + (self.stored["b13"][expert] if self.source["has_bias"] else 0)
            made = self.weight("w2", expert) @ activated(self.source, both)
            made = made + (self.stored["b2"][expert] if self.source["has_bias"] else 0)
            out[token] += made * weights[token, slot]
        return out.astype(x.dtype).view(Tensor)

    def route(self, logits: Any) -> tuple[Any, Any]:
        method, source = self.source["routing_method"], self.source
        scores = sigmoid(logits) if method in ("auto", "sigmoid") else softmax(logits)
        bias = self.stored.get("routing_bias", 0)
        assert bool(np.any(bias)) == bool(source.get("e_score_correction_bias")), "a bias that is not said"
        ids, weights = chosen(scores, bias, source.get("num_expert_group") or 1, source.get("topk_group") or 1)
        if method.startswith("renormalize") or source.get("renormalize"):
            weights = weights / weights.sum(-1, keepdims=True)
        return ids, weights * source.get("routed_scaling_factor", 1.0)


packages: dict[str, Any] = {}
numbers = itertools.count()
served: dict[int, Any] = {}
factor = [1.0]


def shown(each: Any) -> Any:
    return f"{each.dtype} {list(each.shape)}" if isinstance(each, np.ndarray) else each


class MoecExperts:
    """moec.torch.Experts."""

    def __init__(self, package: Any) -> None:
        self.package, self.number = package, next(numbers)
        self._number = self.number

    @classmethod
    def from_weights(
        cls,
        w13: Any,
        w2: Any,
        *,
        top_k: int,
        fields: dict[str, Any],
        tensors: dict[str, Any],
        in_place: bool,
        max_tokens: int,
        **options: Any,
    ) -> Any:
        given = {"w13": w13, "w2": w2, **tensors}
        said.append(f"{ {name: shown(each) for name, each in given.items()} } {top_k} {fields} {in_place} {max_tokens} {options}")
        names = [Names(may_alias=name) for name in ("w13", "w2")] + [Names(may_alias=None)]
        package = packages.setdefault(
            f"{fields} {max_tokens} {options}", Names(max_tokens=max_tokens, values=dict(enumerate(names)), gpu=None)
        )
        made = cls(package)
        made.layer = served[made.number] = Served(made.number, fields, given, in_place)
        return made

    def _take(self, layer: Any) -> None:
        """A layer from files gives the experts' own result, times `factor`."""
        self.layer, own = layer, Experts()
        served[self.number] = lambda x, logits, ids, weights: own.own(x, ids, weights) * factor[0]


def run(number: int, x: Any, logits: Any, ids: Any, weights: Any, expert_map: Any) -> Any:
    assert expert_map is None
    assert x.stride(-1) == 1 or 0 in x.shape
    if number in before:
        before[number]()
    runs.append(len(x))
    by_logits.append(logits is not None)
    for name, each in {"logits": logits, "ids": ids, "weights": weights}.items():
        assert each is None or each.flags.c_contiguous, name
    layouts.add("padded rows" if x.stride(0) != x.shape[-1] else "dense rows")
    return served[number](x, logits, ids, weights)


def serve(prepared: Any, torch: Any) -> None:
    """Puts this moec in the place of moec.torch."""
    prepared.Experts = MoecExperts
    prepared.call_before = before.__setitem__
    torch.ops = Names(moec=Names(run=run))


def files(checkpoint: Any, layer: dict[str, Any], activation: dict[str, Any]) -> None:
    """Puts a folder of files in the place of moec.explain and moec.Checkpoint."""

    def explain(folder: Any, **options: Any) -> Any:
        said.append(f"explain {folder} {options}")
        return Names(data={"layer": layer}, message="")

    def load_for(device: Any, source: Any, **options: Any) -> Any:
        said.append(f"load for {device} {source} {options}")
        key = f"{device} {source} {options}"

        def made_layer(weights: Any, in_place: bool) -> Any:
            said.append(f"layer of { {name: type(each).__name__ for name, each in weights.items()} } {in_place}")
            return Names(package=packages[key])

        return packages.setdefault(
            key, Names(max_tokens=options["max_tokens"], manifest={"layer": {"activation": activation}}, layer=made_layer)
        )

    def load(package: Any, number: int, **options: Any) -> Any:
        said.append(f"files of layer {number} {options}")
        return {"w13": np.zeros(3)}

    checkpoint.explain, checkpoint.load_for, checkpoint.Experts = explain, load_for, MoecExperts

    def of_folder(folder: Any) -> Any:
        said.append(f"checkpoint {folder}")
        return Names(load=load)

    checkpoint.Checkpoint = of_folder
