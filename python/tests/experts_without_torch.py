# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Experts modules that moec.integrations.transformers recognizes, packs and restores.

Torch computes with numpy, and moec is a stand-in.

test_without_torch.py compares the output with experts_without_torch.txt. This writes it, with moec installed:

    python python/tests/experts_without_torch.py >python/tests/experts_without_torch.txt
"""

import copy
import gc
import importlib
import pickle
import re
import weakref
from collections.abc import Callable
from types import SimpleNamespace as Names
from typing import Any

import arrays_as_torch
import numpy as np
from arrays_as_torch import BF16, E4M3, E8M0, Module, Tensor, gelu, parameter, silu, tensor

torch = arrays_as_torch.install("transformers")
of_moe: Any = importlib.import_module("transformers.integrations.moe")

import experts_of_standins as made_of  # noqa: E402
from decisions import title  # noqa: E402
from experts_of_standins import EXPERTS, HIDDEN, INNER, TOP_K, Block, Experts, Model, Plain, Transposed, routed  # noqa: E402

from moec.errors import MoecError  # noqa: E402

integration: Any = importlib.import_module("moec.integrations.transformers")
activations: Any
attach: Any
blocks: Any
check: Any
checkpoint: Any
experts: Any
prepared: Any
activations, attach, blocks, check, checkpoint, experts, prepared = (
    importlib.import_module(f"moec.integrations.transformers.{name}")
    for name in ("activations", "attach", "blocks", "check", "checkpoint", "experts", "prepared")
)

made_of.serve(prepared, torch)
F16, F32 = np.dtype("float16"), np.dtype("float32")


def says(call: Callable[..., Any], *given: Any, **named: Any) -> None:
    """Prints an error's kind and message, or what came back."""
    try:
        made = call(*given, **named)
    except (MoecError, TypeError, AttributeError) as error:
        made = f"{type(error).__name__}: {error}"
    print(f"    {made}")


def show(report: Any) -> None:
    """Prints the table. Errors and seconds differ from machine to machine."""
    lines = re.sub(r"\d\.\de-\d\d|0\.0e\+00", "<small>", str(report)).rsplit(", ", 1)[0].split("\n")
    print("\n".join(f"    {line}" for line in lines))


def near(got: Any, expected: Any, limit: float = 1e-4) -> bool:
    return bool(np.linalg.norm(got - expected) <= limit * np.linalg.norm(expected))


# ---- activations


def of_activations() -> None:
    title("activations")
    gates: dict[str, Callable[[Any, Any], Any]] = {
        "silu": lambda gate, up: silu(gate) * up,
        "gelu": lambda gate, up: gelu(gate) * up,
        "gelu tanh": lambda gate, up: gelu(gate, "tanh") * up,
        "relu": lambda gate, up: np.maximum(gate, 0) * up,
        "relu2": lambda gate, up: np.maximum(gate, 0) ** 2 * up,
        "swiglu without limit": activations._swiglu(1.702, 0.0, 1e99),
        "swiglu as silu": activations._swiglu(1.0, 0.0, 10.0),
        "swiglu with beta alone": activations._swiglu(1.0, 1.0, 10.0),
        "swiglu": activations._swiglu(1.5, 0.5, 3.0),
        "swiglu of thirds": activations._swiglu(1.702, 1 / 3, 7.0),
        "swiglustep": activations._swiglustep(7.0),
        "situ": activations._situ(4.0, 25.0),
        "situ without linear beta": activations._situ(4.0, 0.0),
        "slightly less": lambda gate, up: silu(gate) * up * 0.9999,
        "limited gate": lambda gate, up: silu(gate.clamp(max=5)) * up,
        "far limit": lambda gate, up: silu(gate.clamp(max=500)) * up,
        "limited above": lambda gate, up: silu(gate) * up.clamp(-5, 6),
        "no activation": lambda gate, up: gate * up,
        "negative": lambda gate, up: -silu(gate) * up,
        "failing": lambda gate, up: 1 // 0,
    }
    for name, gate_of in gates.items():
        for order in ("gate_first", "up_first", "interleaved"):

            def apply_gate(both: Any, order: str = order, gate_of: Any = gate_of) -> Any:
                gate, up = (both[..., ::2], both[..., 1::2]) if order == "interleaved" else both.chunk(2, -1)
                return gate_of(up, gate) if order == "up_first" else gate_of(gate, up)

            print(f"{name}, {order}")
            says(lambda apply=apply_gate: repr(activations.gated(apply, "layer")))
            if not name.startswith(("silu", "swiglu")):
                break
    of_one = {"silu": silu, "gelu": gelu, "relu": torch.relu, "relu2": lambda x: torch.relu(x) ** 2, "tanh": np.tanh}
    for name, one in {**of_one, "gelu_tanh": lambda x: gelu(x, "tanh"), "half": lambda x: silu(x)[: len(x) // 2]}.items():
        print(name)
        says(lambda one=one: repr(activations.plain(one, "layer")))
    print(activations.gated(lambda both: gates["swiglu"](*both.chunk(2, -1)), "layer"), activations.plain(silu, "layer"))
    for number in (0.3333333333, 1.7019999, 1.702, 1234567.0, 12345678.0, 0.0000012345678):
        print(f"tidy {number}: {activations._tidy(number)}")


# ---- experts


def with_parameters(module: Any, **changes: Any) -> Any:
    for name, value in changes.items():
        if value is None:
            del module._parameters[name]
        else:
            module._parameters[name] = value
    return module


def of_codes(block: Any, scale: Any = F32, codes: Any = E4M3, static: bool = False, inner: int = INNER) -> Any:
    """An FP8Experts of transformers: codes, and scales of blocks or of experts."""
    module = Experts(inner=inner)
    halves = 2 if codes == np.int8 else 1
    for name, rows, columns, parts in (("gate_up_proj", 2 * inner, HIDDEN, 2), ("down_proj", HIDDEN, inner, 1)):
        shape = (EXPERTS, rows, columns // halves)
        random = np.random.default_rng(rows).integers(0, 100, shape).astype(np.uint8)
        module._parameters[name] = parameter(random.view(codes))
        if codes == np.int8:
            extents: tuple[int, ...] = (EXPERTS, rows, columns // 8)
        elif block:
            extents = (EXPERTS, -(-rows // block[0]), -(-columns // block[1]))
        else:
            extents = (EXPERTS, parts, 1)
        values = np.random.default_rng(columns).integers(118, 122, extents).astype(np.uint8)
        powers = values.view(E8M0) if scale == E8M0 else np.ldexp(1.0, values.astype(np.int32) - 127).astype(scale)
        module._parameters[f"{name}_scale_inv"] = parameter(powers)
    module.block_size = block
    if static:
        module.activation_scheme = "static"
        for name in ("gate_up_proj", "down_proj"):
            module._parameters[f"{name}_activation_scale"] = parameter(np.ones(EXPERTS, np.float32))
    return module


def of_experts() -> None:
    title("descriptions")

    def shown(found: Any) -> str:
        return f"{found.source}\n    {found.weights} {found.shapes} {found.activation} {found.scheme}"

    varied = with_parameters(of_codes(None, static=True))
    varied._parameters["down_proj_activation_scale"][EXPERTS - 1] = 2
    first_varied = with_parameters(of_codes(None, static=True))
    first_varied._parameters["gate_up_proj_activation_scale"][1] = 2
    meta = Experts()
    meta._parameters["down_proj"].on("meta")
    other = Experts()
    other._parameters["down_proj"].on("cuda:1")
    buffered = Experts()
    buffered._buffers["more"] = tensor([1.0])
    normed = Experts()
    normed.has_post_expert_norm = True
    unnormed = Experts()
    unnormed.has_post_expert_norm = False
    sharded = Experts()
    sharded._parameters["down_proj"].device_mesh = 1
    subclass = Experts()
    kind = type("Special", (Tensor,), {})
    subclass._parameters["down_proj"] = Names(data=subclass._parameters["down_proj"].data.view(kind))

    def zeros(*shape: int) -> Any:
        return parameter(np.zeros(shape, np.float32))

    cases: dict[str, Any] = {
        "gated": Experts(),
        "gated, f16": Experts(F16),
        "transposed with bias": Transposed(),
        "plain": Plain(),
        "without down_proj": with_parameters(Experts(), down_proj=None),
        "another tensor": with_parameters(Experts(), more=zeros(1)),
        "a buffer": buffered,
        "meta": meta,
        "two devices": other,
        "a norm": normed,
        "without the norm": unnormed,
        "DTensor": sharded,
        "subclass": subclass,
        "two axes": with_parameters(Experts(), down_proj=zeros(HIDDEN, INNER)),
        "another count": with_parameters(Experts(), down_proj=zeros(EXPERTS + 1, HIDDEN, INNER)),
        "another hidden size": with_parameters(Experts(), down_proj=zeros(EXPERTS, HIDDEN + 1, INNER)),
        "another inner size": with_parameters(Experts(), down_proj=zeros(EXPERTS, HIDDEN, INNER + 1)),
        "fewer experts": with_parameters(Experts(), gate_up_proj=zeros(3, 2 * INNER, HIDDEN), down_proj=zeros(3, HIDDEN, INNER)),
        "codes by tensor": of_codes(None),
        "codes by tensor, static": of_codes(None, static=True),
        "static scales that differ": varied,
        "first static scales that differ": first_varied,
        "codes by tensor, e8m0": of_codes(None, E8M0),
        "codes by 128 x 128": of_codes((128, 128), inner=128),
        "codes by 128 x 128, e8m0": of_codes((128, 128), E8M0, inner=128),
        "codes by 8 x 16": of_codes((8, 16)),
        "codes by 8 x 16, static": of_codes((8, 16), static=True),
        "codes by 16 x 16": of_codes((16, 16)),
        "codes with f16 scales": of_codes(None, F16),
        "codes without scales": with_parameters(of_codes(None), gate_up_proj_scale_inv=None, down_proj_scale_inv=None),
        "4 bits": of_codes(None, codes=np.dtype("int8")),
        "4 bits, e8m0": of_codes((1, 32), E8M0, np.dtype("int8")),
        "4 bits, static": of_codes(None, codes=np.dtype("int8"), static=True),
    }
    for name, module in cases.items():
        print(name)
        says(lambda module=module: shown(experts.describe("layer", module, TOP_K, F16 if module.dtype == F16 else F32)))
    says(lambda: experts.describe("layer", Experts(), TOP_K, F16))
    says(lambda: experts.describe("layer", Experts(), TOP_K, np.dtype("int32")))
    says(lambda: shown(experts.describe("layer", of_codes(None), TOP_K, BF16)))

    title("modules that are found")
    model = Model()
    model._modules["other"] = type("OtherExperts", (Module,), {})()
    for found in experts.find(model):
        print(f"    {found.name} {type(found.module).__name__} {found.top_k}")
    alone = Experts()
    for top_k, config in (
        (None, {}),
        (None, {"num_experts_per_tok": 3}),
        (None, {"top_k_experts": 5}),
        (7, {"top_k_experts": 5}),
    ):
        alone.config = Names(**config)
        alone.top_k = top_k
        print(f"    {next(experts.find(alone))[::2]}")
    alone.config = Names(num_experts_per_tok=3, top_k_experts=5)
    print(f"    {next(experts.find(alone))[::2]}")
    near_ones = Block(Experts(), top_k=2)
    for of_block, of_gate in ((None, 2), (2, None), (2, 2), (2, 3), (True, 2), ("2", None)):
        near_ones.top_k, near_ones.gate.top_k = of_block, of_gate
        near_ones.experts.config = Names(num_experts_per_tok=9)
        print(f"    {of_block}, {of_gate}: {next(experts.find(near_ones)).top_k}")
    for mark in (*experts.MARKS, "_apply_gate"):
        module = Experts()
        kind = type("MarkedExperts", (Module,), {name: value for name, value in vars(made_of.Base).items() if name != mark})
        module.__class__ = kind
        module.__dict__.pop(mark, None)
        says(lambda module=module: list(experts.find(module)))
    says(lambda: list(experts.find(Module())))
    lone = Module()
    lone._modules |= {
        "a": type("XExperts", (Module,), {})(),
        "b": type("AExperts", (Module,), {})(),
        "c": type("Expert", (Module,), {})(),
    }
    says(lambda: list(experts.find(lone)))
    print(f"    {experts.eager_forward(Experts()).__qualname__} {experts.eager_forward(Module())}")
    names: dict[str, Any] = {}
    code = "def wrapped(self, *given): return own(self, *given)\nwrapped.__wrapped__ = own = 1"
    exec(compile(code, "another file", "exec"), names)
    foreign = type("ForeignExperts", (Experts,), {"forward": names["wrapped"]})()
    print(f"    wrapped by another decorator: {experts.eager_forward(foreign)}")
    twice = type("TwiceExperts", (Experts,), {"forward": made_of.dispatched(Experts.forward)})()
    print(f"    {experts.eager_forward(twice).__qualname__}")


# ---- the check


def of_check() -> None:
    title("the check of a module")
    codes = np.arange(-8, 8, dtype=np.int8).view(Tensor)
    print(f"    {check.unpacked_fp4(codes).tolist()}")
    wide = np.arange(48, 48 + 4 * 6, dtype=np.uint8).reshape(1, 4, 6).view(E4M3).view(Tensor)
    for scale, block in (([[[1, 2], [4, 8]]], (2, 3)), ([[[1, 2], [4, 8]]], (3, 4)), ([[[1], [2]]], None)):
        print(f"    {check.dequantized(wide, tensor(scale), block).tolist()}")
    fours = np.arange(32, dtype=np.int8).reshape(1, 2, 16).view(Tensor)
    print(f"    {check.dequantized(fours, tensor([[[1, 2], [4, 8]]]), (9, 9)).tolist()}")
    module, (x, ids, shares) = Experts(), routed(9)
    expected = module.own(x, ids, shares)
    for chunk in (1, 8 * 3 * HIDDEN * INNER, 5 * 8 * 3 * HIDDEN * INNER, 1 << 28):
        check.CHUNK_BYTES = chunk
        made_of.calls.clear()
        assert near(check.own_output(module, x, ids, shares), expected, 1e-5), chunk
        print(f"    of {chunk} bytes: experts {made_of.calls}")
    for counts in ((16, 4), (16, 1), (3, 3)):
        module = Experts(experts=counts[0])
        found = check.sample("layer", module, hidden=HIDDEN, top_k=counts[1], dtype=F16, device="cpu")
        assert set(found.ids.flatten().tolist()) == set(range(counts[0]))
        assert found.x.dtype == F16
        assert found.out.dtype == F32
        assert abs(found.weights.sum(-1).mean() - 1) < 0.3
        assert found.weights.min() * counts[1] >= 0.5
        print(f"    {counts}: x {found.x.shape}, ids {found.ids.shape}, weights {found.weights.shape}")
    for add, limit in ((0.0, 0.0), (0.01, 0.02), (0.03, 0.02), (np.nan, 0.02), (np.inf, 0.02)):

        def run(x: Any, ids: Any, weights: Any, add: float = add) -> Any:
            out = found.out[: len(x)].copy()
            out[-1] *= 1 + add
            print(f"    {len(x)} tokens, {len(ids)} ids, {len(weights)} weights", end="")
            return out

        says(lambda run=run, limit=limit: f"{check.compare('layer', found, run, limit=limit):.3g}")
    module = Experts()
    module._parameters["down_proj"][1, 0, 0] = np.nan
    says(check.sample, "layer", module, hidden=HIDDEN, top_k=TOP_K, dtype=F32, device="cpu")
    says(check.sample, "layer", Experts(), hidden=HIDDEN + 1, top_k=TOP_K, dtype=F32, device="cpu")
    print(f"    {check.LIMITS} {check.LIMIT_OF_CODES}")


# ---- attach and detach


def bytes_of(model: Any) -> dict[str, bytes]:
    return {name: each.tobytes() for name, each in model.state_dict().items()}


def of_attach() -> None:
    title("attach and detach")
    for kind in (
        Experts,
        Transposed,
        Plain,
        lambda: of_codes(None),
        lambda: of_codes((8, 16)),
        lambda: of_codes((1, 32), E8M0, np.dtype("int8")),
    ):
        model = Model(kind)
        x = made_of.tokens(7)
        exact = not hasattr(model.layers[0].mlp.experts, "block_size")
        before, expected, parameters = bytes_of(model), model(x) if exact else None, dict(model.named_parameters())
        report = integration.attach(model, max_tokens=4, arch="a")
        show(report)
        assert report.seconds >= 0
        assert [row.error is not None and row.error < 1e-3 for row in report.rows] == [True] * 3
        assert model.config._experts_implementation == "moec"
        assert expected is None or near(model(x), expected)
        assert dict(model.named_parameters()).keys() == {name for name in parameters if ".experts." not in name}
        assert bytes_of(model) == before
        assert model.state_dict().keys() == before.keys()
        assert integration.detach(model) == 3
        assert integration.detach(model) == 0
        assert model.config._experts_implementation == "eager"
        after = dict(model.named_parameters())
        assert list(after) == list(parameters)
        assert all(after[name] is parameters[name] for name in parameters)
        assert bytes_of(model) == before
        assert type(model.layers[0].mlp.experts).__mro__[1] is not prepared.Packed

    title("options of attach")
    for options in (
        {"check": False},
        {"in_place": False},
        {"top_k": 3, "check": False},
        {"progress": False, "allow": "b"},
        {"max_tokens": 9},
    ):
        model = Model()
        print(options)
        made_of.said.clear()
        report = integration.attach(model, **options)
        print(f"    {made_of.said[0]}")
        print(f"    {len(made_of.said)} layers, {report.packages} packages, errors {[row.error is None for row in report.rows]}")
        print(f"    kept {sorted(model.layers[0].mlp.experts._parameters)}")
        if options.get("top_k"):
            says(model, made_of.tokens(2))
    says(lambda: integration.attach(Model(top_k=None)))
    for layer_kinds in ((Experts, Transposed, Experts), (Experts, lambda: Experts(inner=INNER * 2), Plain)):
        model = Model(*layer_kinds)
        print(f"    {integration.attach(model).packages} packages")
    model = Model(Experts, Experts, lambda: of_codes(None))
    says(lambda: [(row.scheme, row.activation, row.order, row.error is None) for row in integration.attach(model).rows])

    title("the input's type")
    for dtype, config, rest in ((F16, F32, F32), (E4M3, F16, F32), (E4M3, None, F16), (E4M3, np.dtype("int8"), np.dtype("int8"))):
        model = Model(Experts)
        for name, module in model.named_modules():
            module._parameters.update(
                {
                    own: parameter(np.zeros(each.shape, dtype if ".experts" in name else rest))
                    for own, each in module._parameters.items()
                }
            )
        model._parameters["first_scale_inv"] = parameter(np.zeros(1, np.float32))
        model._parameters = {
            "first_scale_inv": model._parameters.pop("first_scale_inv"),
            "w_activation_scale": parameter(np.zeros(1, np.float32)),
            **model._parameters,
        }
        model.config.dtype = config
        found = next(experts.find(model))
        if dtype != F16:
            found.module._parameters.pop("gate_up_proj")
        says(lambda model=model, found=found: attach.type_of_input(model, found))
    says(lambda: attach.type_of_input(Module(), experts.Found("plain", Plain(F16), 1)))

    title("memory of several modules")
    for which in ("next to it", "tail", "the same", "of one module", "a gap", "outside of a gap", "meta", "empty", "no array"):
        model = Model()
        module = model.layers[1].mlp.experts
        memory = np.zeros(64 + module.down_proj.size, np.float32).view(Tensor)
        memory[64:] = module.down_proj.flatten()
        module._parameters["down_proj"] = memory[64:].reshape(module.down_proj.shape).view(arrays_as_torch.Parameter)
        far = {"next to it": memory[:64], "tail": memory[:65], "the same": memory[64:], "a gap": memory[:: 64 + 100][:2]}
        far |= {"outside of a gap": memory[::63][:2], "meta": memory[:65].view(Tensor).on("meta"), "empty": memory[70:70]}
        far |= {"of one module": memory[:70], "no array": memory[:70].view(type("Special", (Tensor,), {}))}
        if which == "of one module":
            module._buffers["far"] = far[which]
            found = [experts.Found("x", module, 2)]
            says(lambda model=model, found=found: attach.check_memory(model, found))
            continue
        model._buffers["far"] = Names(data=far[which], is_meta=False, layout="strided") if which == "no array" else far[which]
        print(which)
        says(lambda model=model: attach.check_memory(model, experts.find(model)))
        says(lambda model=model: len(integration.attach(model, in_place=False).rows))
    model._buffers["far"] = memory[:65]
    model._buffers["far"].layout = "sparse"
    says(lambda: attach.check_memory(model, experts.find(model)))
    says(lambda: attach.check_memory(model, []))

    title("failures leave the model")
    model = Model()
    model.layers[2].mlp.experts._parameters["down_proj"][5, 0, 0] = np.nan
    before, parameters = bytes_of(model), dict(model.named_parameters())
    says(lambda: integration.attach(model))
    assert bytes_of(model) == before
    assert all(each is parameters[name] for name, each in model.named_parameters())
    assert model.config._experts_implementation == "eager"
    right, model = prepared.describe, Model()
    before = bytes_of(model)
    prepared.describe = lambda *given: made_of.otherwise(right(*given))
    says(lambda: integration.attach(model))
    says(lambda: integration.attach(model, in_place=False))
    prepared.describe = right
    assert bytes_of(model) == before
    assert model.config._experts_implementation == "eager"


def of_packed() -> None:
    title("packed modules")
    model, x = Model(), made_of.tokens(5)
    expected, state = model(x), {name: each.clone() for name, each in model.state_dict().items()}
    integration.attach(model)
    for implementation in ("eager", "grouped_mm"):
        model.config._experts_implementation = implementation
        says(model, x)
    model.config._experts_implementation = "moec"
    module = model.layers[0].mlp.experts
    print(f"    {type(module).__name__} {type(module).__module__} {type(module).__qualname__}")
    for name in ("down_proj", "missing"):
        says(getattr, module, name)
    says(copy.deepcopy, model)
    says(pickle.dumps, module)
    says(lambda: integration.attach(model))
    print(f"    {model.load_state_dict(state, strict=False)}")
    rest = {name: each for name, each in state.items() if ".experts." not in name}
    print(f"    {model.load_state_dict(rest)}")
    print(f"    {model.load_state_dict(rest, strict=False)}")
    assert near(model(x), expected)
    for name in ("x", "weights", "a weight"):
        hidden, ids, shares = routed(3)
        asking = {"x": hidden, "weights": shares, "a weight": next(iter(module._moec.kept.values()))}[name]
        asking.requires_grad = True
        with torch.enable_grad():
            says(module, hidden, ids, shares)
        asking.requires_grad = False
    with torch.enable_grad():
        assert module(*routed(3)).shape == (3, HIDDEN)
    for tokens in (0, 1, 15, 16, 17, 33):
        made_of.runs.clear()
        module._moec.max_tokens = 16
        assert module(*routed(tokens)).shape == (tokens, HIDDEN)
        print(f"    {tokens} tokens in runs of {made_of.runs}")
    x, ids, shares = routed(33)
    assert near(module(x, ids, shares), module.own_of(state, "layers.0.mlp.experts.", x, ids, shares))
    made_of.layouts.clear()
    turned = [np.asfortranarray(each).view(Tensor) for each in (x, ids, shares)]
    assert near(module(*turned), module(x, ids, shares))
    wide = np.zeros((33, HIDDEN + 3), np.float32).view(Tensor)
    wide[:, :HIDDEN] = x
    module(wide[:, :HIDDEN], ids, shares)
    print(f"    {sorted(made_of.layouts)}")
    says(module, x, ids[:, :1], shares)
    kept = weakref.ref(module._moec)
    integration.detach(model)
    del module
    gc.collect()
    assert kept() is None
    print(f"    {getattr(model.layers[0].mlp.experts, '_moec', 'nothing stays')}")


def of_copies() -> None:
    title("copies, and weights that change")
    model, x = Model(), made_of.tokens(5)
    model.config._experts_implementation = "moec"
    module = model.layers[1].mlp.experts
    expected = module.own(*routed(5))
    made_of.said.clear()
    assert near(module(*routed(5)), expected)
    assert near(module(*routed(4)), module.own(*routed(4)))
    print(f"    packed {len(made_of.said)}; {made_of.said[0]}")
    first = module._moec
    print(f"    {first.label} {first.max_tokens} {first.hidden} {first.former} {[row[0] for row in first.versions]}")
    module.down_proj.set_(np.asarray(module.down_proj) * 2)
    assert near(module(*routed(5)), 2 * expected)
    module.gate_up_proj = parameter(np.asarray(module.gate_up_proj) * 1)
    assert near(module(*routed(5)), 2 * expected)
    print(f"    packed {len(made_of.said)} times; the first says")
    says(made_of.before[first.experts.number])
    copied = copy.copy(first)
    print(f"    {copied} {copy.deepcopy(first)} {pickle.loads(pickle.dumps(first))}")
    integration.detach(model)
    integration.attach(model, in_place=False, max_tokens=6)
    again = model.layers[1].mlp.experts
    print(f"    {again._moec.label} {again._moec.former} {again._moec.max_tokens}")
    says(made_of.before[again._moec.experts.number])
    again.down_proj.set_(np.asarray(again.down_proj))
    says(made_of.before[again._moec.experts.number])
    torch.compiler.is_compiling = lambda: True
    made_of.said.clear()
    says(again, *routed(3))
    torch.compiler.is_compiling = lambda: False
    print(f"    packed {len(made_of.said)} while compiling")
    again(*routed(3))
    print(f"    packed {len(made_of.said)} later, as {again._moec.label} of {again._moec.max_tokens} tokens")
    module = Experts()
    module.down_proj.inference = True
    says(module, *routed(3))
    module = Experts()
    hidden, ids, shares = routed(3)
    hidden.is_cuda, torch.cuda.is_current_stream_capturing = True, lambda: True
    says(module, hidden, ids, shares)
    torch.cuda.is_current_stream_capturing = lambda: False
    assert module(hidden, ids, shares).shape == (3, HIDDEN)
    model.config._experts_implementation = "eager"
    assert near(model(x), model(x))
    for name in (integration.ExpertsInterface, integration.FP8ExpertsInterface):
        name.register.assert_called_with("moec", prepared.experts_forward)


# ---- blocks


def of_blocks() -> None:
    title("blocks and their routers")
    for name in made_of.ROUTERS:
        for options in made_of.ROUTERS[name]:
            model, x = made_of.routed_model(name, **options), made_of.tokens(9)
            before, expected = bytes_of(model), model(x)
            made_of.said.clear()
            report = integration.replace_blocks(model, max_tokens=64)
            print(f"{name} {options}: {len(report.rows)} rows, {report.packages} packages")
            print(f"    {made_of.said[0]}")
            router = model.layers[0].mlp.gate
            print(f"    {type(router).__name__} {type(router).__module__} {type(router).__mro__[1].__name__}")
            made_of.runs.clear()
            assert near(model(x), expected)
            assert made_of.by_logits == [True] * 3, made_of.by_logits
            assert bytes_of(model) == before
            logits = router(x)
            assert logits[0] is logits[1] is logits[2]
            assert logits[0].shape == (9, EXPERTS)
            if bias := getattr(router, "e_score_correction_bias", None) is not None:
                router.e_score_correction_bias.set_(np.asarray(router.e_score_correction_bias))
                says(made_of.before[model.layers[0].mlp.experts._moec.experts.number])
            print(f"    watched bias {bias}")
            model.config._experts_implementation = "eager"
            assert len(router(x)[2]) == 9
            assert router(x)[2].shape == (9, TOP_K)
            integration.detach(model)
            assert near(model(x), expected)
            assert type(router).__mro__[1] is not blocks.LogitsAlone
    title("blocks that are refused")
    model = Model()
    says(lambda: integration.replace_blocks(model))
    model = made_of.routed_model("Qwen3MoeTopKRouter")
    model.layers[1].mlp._modules["second"] = made_of.routed_model("Qwen3MoeTopKRouter").layers[0].mlp.gate
    says(lambda: integration.replace_blocks(model))
    model = made_of.routed_model("Qwen3MoeTopKRouter")
    model.layers[1].mlp.__class__ = type("MixtralSparseMoeBlock", (Block,), {})
    says(lambda: integration.replace_blocks(model))
    model = made_of.routed_model("Qwen3MoeTopKRouter")
    model.layers[1].mlp.gate._parameters["weight"].on("meta")
    says(lambda: integration.replace_blocks(model))
    right = blocks.ROUTERS["Qwen3MoeTopKRouter"]
    for wrong in (
        right._replace(fields=lambda router: {"routing_method": "sigmoid"}),
        right._replace(logits=lambda router, x: x @ router.weight.T * 2),
    ):
        model, x = made_of.routed_model("Qwen3MoeTopKRouter"), made_of.tokens(5)
        before, expected = bytes_of(model), model(x)
        blocks.ROUTERS["Qwen3MoeTopKRouter"] = wrong
        says(lambda model=model: integration.replace_blocks(model))
        assert near(model(x), expected)
        assert bytes_of(model) == before
        assert model.config._experts_implementation == "eager"
        print(f"    without a check {len(integration.replace_blocks(model, check=False).rows)} rows")
        blocks.ROUTERS["Qwen3MoeTopKRouter"] = right
    x = made_of.tokens(16)
    for moved in (0, 4, 5):
        expected = np.array(x) * 2
        expected[:moved] *= 1.1
        for wrap in (lambda each: each, lambda each: (each, 1)):
            says(
                lambda expected=expected, wrap=wrap: blocks.compare_blocks(
                    "layer", lambda each: wrap(each * 2), x, expected.view(Tensor)
                )
            )
    for dtype in (F32, F16, np.dtype("float64")):
        for add in (0.004, 0.008, 0.02, 0.04):
            wide = x.astype(dtype).view(Tensor)
            more = wide * (1 + add)
            print(f"{dtype} {add}")
            says(lambda wide=wide, more=more: blocks.compare_blocks("layer", lambda each: each, wide, more))


# ---- checkpoints


def of_checkpoints() -> None:
    title("experts from files")
    for label in (
        "model.layers.3.mlp.experts",
        "layers.12.x",
        "h.4.moe",
        "model.blocks.7.x",
        "model.layers.3",
        "x.layers.1.layers.2.y",
        "my_layers.3.x",
    ):
        print(label)
        says(lambda label=label: checkpoint.layer_of(label))
    layer: dict[str, Any] = {
        "num_experts": EXPERTS,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "top_k": TOP_K,
        "in_dtype": "f32",
        "has_bias": False,
        "gate_up_order": "interleaved",
        "activation": {"function": "silu", "gated": True},
        "quant": {"name": "fp8_block"},
    }
    described: dict[str, Any] = {
        name: {"element_type": name, "group": [1, 8], "scale_type": "f32", "dynamic": False} for name in ("a1", "a2", "w1", "w2")
    }
    described["w1"] |= {"second_scale_type": "f32", "zero_point_type": "i4", "second_per_row": True, "scale_rule": "r"}
    silu_of = activations.Activation("silu", "gate_first", {"swiglu_limit": 7.0})
    cases: tuple[tuple[dict[str, Any], Any], ...] = (
        ({}, silu_of),
        ({"stored_layout": {"name": "awq"}, "group_index": 1}, activations.Activation("relu_no_mul", "", {})),
        ({"quant": {"name": "", **described}}, silu_of),
        ({"quant": {"name": "", **described, "a2": {"b": 1, "a": 2}}}, silu_of),
    )
    for changes, activation in cases:
        says(lambda changes=changes, activation=activation: checkpoint.source_of(layer | changes, activation, 5))
    made = {"activation": {"function": "silu", "gated": True, "alpha": 1.0, "limit": 0.0}}
    says(lambda: checkpoint.compare("layer", Experts(), layer, made, TOP_K))
    says(lambda: checkpoint.compare("layer", Plain(), layer | {"activation": made["activation"]}, made, TOP_K))
    for name in ("num_experts", "hidden_size", "intermediate_size", "top_k"):
        says(lambda name=name: checkpoint.compare("layer", Experts(), layer | {name: 99}, made, TOP_K))
    for changes in (
        {"has_bias": True},
        {"latent_hidden_size": 3},
        {"apply_router_weight_on_input": True},
        {"latent_hidden_size": 0},
    ):
        says(lambda changes=changes: checkpoint.compare("layer", Experts(), layer | changes, made, TOP_K))
    for name, value in (
        ("function", "gelu"),
        ("gated", False),
        ("alpha", 2.0),
        ("beta", 1.0),
        ("linear_beta", 3.0),
        ("limit", 7.0),
    ):
        other = layer | {"activation": {**layer["activation"], name: value}}
        says(lambda other=other: checkpoint.compare("layer", Experts(), other, made, TOP_K))
    model = Model()
    found = list(experts.find(model))
    for each in model.parameters():
        each.on("meta")
    says(lambda: checkpoint.place_of(model, found[0], None))
    says(lambda: checkpoint.place_of(model, found[0], "cuda:3"))
    model.layers[2].mlp.gate.weight.on("cuda:2")
    says(lambda: checkpoint.place_of(model, found[0], None))
    found[0].module.down_proj.on("cuda:1")
    says(lambda: checkpoint.place_of(model, found[0], None))

    title("load_experts")
    made_of.files(checkpoint, {**layer, "activation": made["activation"]}, made["activation"])
    for options in (
        {},
        {"device": "cuda:4", "max_tokens": 7, "quantize": True, "ignored": iter(["a", "b"]), "progress": False, "allow": "x"},
        {"top_k": TOP_K},
    ):
        model = Model()
        made_of.said.clear()
        print({name: value for name, value in options.items() if name != "ignored"})
        report = integration.load_experts(model, "folder", **options)
        print("\n".join(f"    {line}" for line in made_of.said))
        show(report)
        module = model.layers[0].mlp.experts
        print(f"    {module._moec.former} {module.config._experts_implementation} {module._moec.hidden}")
        says(lambda model=model: integration.detach(model))
        says(lambda model=model: model.state_dict())
        says(lambda model=model: integration.load_experts(model, "folder"))
    for made_of.factor[0] in (1.0, 1.2, 1.3):
        said = lambda: [round(row.error, 3) for row in integration.load_experts(Model(), "folder", check=True).rows]  # noqa: E731
        says(said)
    checkpoint.explain = lambda *given, **options: Names(data={}, message="it is not supported")
    model = Model()
    says(lambda: integration.load_experts(model, "folder"))
    assert model.config._experts_implementation == "eager"


of_activations()
of_experts()
of_check()
of_attach()
of_packed()
of_copies()
of_blocks()
of_checkpoints()
