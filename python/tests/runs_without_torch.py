# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints the calls by which moec.torch and the plug-ins run a layer. Torch and the engines are stand-ins.

test_without_torch.py compares the output with runs_without_torch.txt. This writes it, with moec installed:

    python python/tests/runs_without_torch.py >python/tests/runs_without_torch.txt
"""

import ctypes
import gc
import importlib
from types import SimpleNamespace as Names
from typing import Any

import numpy as np
from standins import Tensor, dtypes, install

install("torch", "vllm", "sglang")
import torch  # noqa: E402
from decisions import BF16, F8, F16, F32, title, told  # noqa: E402

from moec import _abi  # noqa: E402
from moec._tensors import Row  # noqa: E402

bound: Any
functional: Any
modules: Any
ops: Any
bound, functional, modules, ops = (
    importlib.import_module(f"moec.torch.{name}") for name in ("bound", "functional", "modules", "ops")
)

INT32 = dtypes["int32"]


def zeros(*shape: int, dtype: Any = BF16) -> Tensor:
    return Tensor(np.zeros(shape, np.int32 if dtype is INT32 else np.float32), dtype)


def shown(value: Any) -> Any:
    """A tensor as its type and shape."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of {list(value.shape)}"
    if isinstance(value, dict):
        return {name: shown(each) for name, each in value.items()}
    return value


class Recorded:
    """A function that prints its arguments."""

    def __init__(self, name: str, result: Any = None) -> None:
        self.name, self.result = name, result

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        given = [*(str(shown(each)) for each in arguments), *(f"{name}={shown(each)}" for name, each in options.items())]
        print(f"    {self.name}({', '.join(given)})")
        return self.result


class Package(Names):
    def reserve(self, tokens: Any = None, comm: Any = None) -> None:
        print(f"    reserve({tokens}, comm={comm})")
        self.reserved = object()

    def shape(self, name: str) -> tuple[str | int, ...]:
        return ("tokens", 8)

    def take_context(self, *given: Any) -> Any:
        print(f"    take_context{given}")
        return Names(handle=77)

    def give_context(self, stream: Any, context: Any, comm: Any) -> None:
        print(f"    give_context({stream}, {context.handle}, {comm})")

    def layer(self, weights: Any, in_place: bool = False) -> Any:
        print(f"    layer({shown(weights)}, in_place={in_place})")
        return layer_of(self)

    def __repr__(self) -> str:
        return "package"


def package_of(**changes: Any) -> Package:
    out = Names(element_types=("bf16",), alignment=16)
    values = {"out": out, **{name: Names(element_types=("bf16",), alignment=16) for name in bound.VALUES if name != "out"}}
    made = dict(
        outputs=("out",),
        token_axes={"x": 0},
        gpu=None,
        reserved=None,
        values=values,
        name="p",
        arch="a",
        device="host",
        max_tokens=5,
    )
    return Package(**{**made, "manifest": {"layer": {"left_out": [{"value": "left"}]}}, **changes})


class Layer(Names):
    def __call__(self, *arguments: Any, **named: Any) -> None:
        Recorded("Layer")(*arguments, **named)

    def reload(self, weights: Any) -> None:
        print(f"    reload({shown(weights)})")

    def __repr__(self) -> str:
        return "layer"


def layer_of(package: Any = None, **values: Any) -> Any:
    return Layer(package=package or package_of(), handle=55, **values)


# ---- moec.torch.ops


def operations() -> None:
    title("operations")
    made = ops.LIBRARY
    for call in (*made.define.call_args_list, *made.impl.call_args_list, *torch.library.register_fake.call_args_list):
        print(f"    {[getattr(each, '__name__', each) for each in call.args]} {sorted(call.kwargs)}")
    print(f"    {torch.library.Library.call_args}")
    packages: tuple[dict[str, Any], ...] = (
        {},
        {"outputs": ("out", "ids")},
        {"outputs": ("other",)},
        {"token_axes": {"x": 1}},
        {"token_axes": {}},
        {"gpu": 0},
        {"gpu": 0, "reserved": 1},
    )
    for changes in packages:
        print(f"{changes}: {told(lambda changes=changes: ops.register(layer_of(package_of(**changes)), comm='c'))}")
    number = ops.register(layer_of(), comm="c")
    keeps = bound.BoundRuns._keep
    bound.BoundRuns._keep = lambda *given: None
    x = zeros(3, 4)
    inputs = [zeros(3, 8), zeros(3, 2, dtype=INT32), zeros(3, 2, dtype=F32), zeros(8, dtype=INT32)]
    print(f"run: {shown(ops._run(number, x, *inputs))}")
    print(f"fake run: {shown(ops._fake_run(number, x, *inputs))} {ops._fake_run_out(number, x, *inputs, x)}")
    ops.call_before(number, Recorded("before"))
    ops._call(number, x, *inputs, zeros(3, 8))
    print(told(lambda: ops._run(number, zeros(3, 4, 2))))
    print(told(lambda: ops._fake_run(number, zeros(4))))
    ops.release(number)
    for call in (
        ops.release,
        lambda each: ops._run(each, x),
        lambda each: ops._fake_run_out(each, x, *inputs, x),
        lambda each: ops.call_before(each, print),
    ):
        print(told(lambda call=call: call(number)))
    bound.BoundRuns._keep = keeps
    print(f"the next number: {ops.register(layer_of()) - number}")


# ---- moec.torch.bound


def bound_runs() -> None:
    title("bound runs")
    print(f"words of a tensor: {bound.WORDS_OF_TENSOR}, data at {_abi.Tensor.data.offset == 8 * bound.WORD_OF_DATA}")
    library = Names(check=Recorded("check"))
    state = Names(capturing=False, strides=None, said=True)

    def run(handle: Any, context: Any, stream: Any, address: int, count: int, tokens: int, options: Any) -> str:
        words = (ctypes.c_int64 * (count * bound.WORDS_OF_TENSOR)).from_address(address)
        at = [words[index * bound.WORDS_OF_TENSOR + bound.WORD_OF_DATA] for index in range(count)]
        names = [ctypes.string_at(words[index * bound.WORDS_OF_TENSOR]).decode() for index in range(count)]
        known = {each.data_ptr(): name for name, each in given.items() if each is not None}
        places = [known.get(one, "unknown") for one in at]
        print(f"    run({handle}, {context}, {stream}, {dict(zip(names, places, strict=True))}, {count}, {tokens})")
        return "status"

    def row_of(package: Any, value: Any, found: Any, copies: bool) -> tuple[Row, None]:
        if state.said:
            print(f"    row copies={copies}")
        return Row(names_of[id(value)], "bf16", found.data, found.shape, None), None

    def view(tensor: Any, name: str) -> Any:
        return Names(strides=state.strides, shape=tensor.shape, element_type=tensor.dtype.name, data=tensor.data_ptr())

    library.run = run
    bound.__dict__["library"] = lambda: library
    bound.__dict__["arrays"] = Names(view=view)
    bound.__dict__["_memory"] = Names(
        row_of=row_of,
        needed_alignment=lambda value, found: 2,
        is_capturing=lambda gpu: state.capturing,
        stream_handle=lambda stream, gpu: 9,
    )

    def tensors() -> dict[str, Any]:
        return {
            "x": zeros(3, 4),
            "logits": None,
            "given_ids": zeros(3, 2, dtype=INT32),
            "given_weights": zeros(3, 2, dtype=F32),
            "expert_map": None,
            "out": zeros(3, 8),
        }

    layer = layer_of()
    names_of = {id(value): name for name, value in layer.package.values.items()}
    runs = bound.BoundRuns(layer, "comm")
    for what in (
        "first",
        "the same",
        "others",
        "dtype",
        "shape",
        "device",
        "strides",
        "grad",
        "absent",
        "more",
        "address",
        "capturing",
        "the same again",
    ):
        given = tensors()
        out = given["out"]
        if what == "dtype":
            out.dtype = F16
        elif what == "shape":
            given["out"] = zeros(3, 9)
        elif what == "device":
            out.device.index = 1
        elif what == "strides":
            out.array = np.zeros((8, 3), np.float32).T
        elif what == "grad":
            out.requires_grad = True
        elif what == "absent":
            given["given_ids"] = None
        elif what == "more":
            given["logits"] = zeros(3, 8)
        elif what == "address":
            out.array = np.frombuffer(bytearray(101), np.uint8)[1:97].view(np.float32).reshape(3, 8)
        torch.is_grad_enabled = lambda what=what: what == "grad"
        state.capturing = what == "capturing"
        if what in ("dtype", "shape", "device", "strides", "grad", "absent", "more", "address"):
            kept = dict(runs._known)
            print(f"{what}: {runs._addresses(runs._known[3], tuple(given.values()))}")
            runs._known = kept
            continue
        print(what)
        runs(*given.values())
    torch.is_grad_enabled = lambda: False
    out = zeros(3, 8)
    out.requires_grad = True
    given["out"] = out
    print(f"without gradients: {len(runs._addresses(runs._known[3], tuple(given.values())) or ())} addresses")
    print(f"counts {sorted(runs._known)}, free buffers {len(runs._known[3].free)}, absent {runs._known[3].absent}")
    library.check = lambda status: 1 // 0
    try:
        runs(*given.values())
    except ZeroDivisionError:
        print(f"failed; free buffers {len(runs._known[3].free)}")
    state.strides = (1, 2)
    other = bound.BoundRuns(layer)
    other(*given.values())
    print(f"with strides nothing is kept: {other._known}")
    state.strides = None
    state.said = False
    for tokens in range(1, bound.MOST_COUNTS + 2):
        other._keep(tokens, tuple(given.values()))
        if tokens >= bound.MOST_COUNTS:
            print(f"after {tokens}: {len(other._known)} counts")
    scalar = {**tensors(), "x": Tensor(np.float32(1))}
    try:
        other(*scalar.values())
    except IndexError:
        print("a tensor without dimensions goes to the layer")


# ---- moec.torch.functional


def fused() -> None:
    title("fused_experts")
    torch.ops = Names(moec=Names(run_out=Recorded("run_out"), run=Recorded("run")))
    made: list[Any] = []

    class Experts:
        @staticmethod
        def from_weights(*arguments: Any, **options: Any) -> Any:
            Recorded("from_weights")(*arguments, **options)
            made.append(Names(_number=len(made)))
            return made[-1]

    functional.__dict__["Experts"] = Experts
    x, w1, w2 = zeros(3, 4), zeros(6, 10, 4), zeros(6, 4, 5)
    weights, ids = zeros(3, 2, dtype=F32), zeros(3, 2, dtype=INT32)

    def run(**options: Any) -> str:
        given = {"x": x, "w1": w1, "w2": w2, "weights": weights, "ids": ids}
        for name in list(options):
            if name in given:
                given[name] = options.pop(name)
        made = functional.fused_experts(*given.values(), **options)
        return f"    {shown(made)}, in place {made is given['x']}"

    calls: tuple[dict[str, Any], ...] = (
        {},
        {},
        {"inplace": True},
        {"activation": "gelu"},
        {"apply_router_weight_on_input": True},
        {"global_num_experts": 6},
        {"global_num_experts": 12},
        {"global_num_experts": 12, "expert_map": zeros(12, dtype=INT32)},
        {"expert_map": zeros(6, dtype=INT32)},
        {"max_tokens": 7},
        {"max_tokens": 7, "arch": "a"},
        {"arch": "a", "max_tokens": 7},
        {"quant_config": "fp8"},
        {"ids": zeros(3, dtype=INT32)},
        {"ids": zeros(3, 3, dtype=INT32)},
        {"x": zeros(3, 4, dtype=F32)},
        {"x": zeros(9, 4)},
        {},
    )
    for options in calls:
        print({name: shown(value) for name, value in options.items()})
        print(told(lambda options=options: run(**dict(options))))
    functional.clear()
    for name, change in (
        ("w1", "_version"),
        ("w2", "_version"),
        ("w1", "dtype"),
        ("w2", "device"),
        ("w1", "inference"),
        ("w2", "inference"),
    ):
        run()
        tensor = w1 if name == "w1" else w2
        before = getattr(tensor, change)
        setattr(tensor, change, {"_version": tensor._version + 1, "dtype": F16, "device": "d", "inference": True}[change])
        print(f"{name}.{change}: {told(run)}; kept {len(functional._kept)}")
        setattr(tensor, change, before)
    x.is_cuda, torch.cuda.is_current_stream_capturing = True, lambda: True
    print(f"captured, known: {told(run)}")
    functional.clear()
    print(f"captured, first: {told(run)}")
    torch.cuda.is_current_stream_capturing = lambda: False
    print(told(run))
    x.is_cuda, functional.MOST_LAYERS = False, 2
    functional.clear()
    for top_k in (1, 2, 1, 3, 1, 2):
        run(ids=zeros(3, top_k, dtype=INT32))
        print(f"top_k {top_k}, kept {[key[2][1] for key in functional._kept]}")


# ---- moec.torch.modules


def of_modules() -> None:
    title("modules")
    kind = type("Comm", (), {"size": 4, "rank": 3, "__repr__": lambda self: "comm"})
    comm = kind()
    layouts: tuple[dict[str, Any], ...] = (
        {},
        {"dp": 4},
        {"tp": 4, "sp": True},
        {"pcp": 2},
        {"ep": True},
        {"ep": False},
        {"all_to_all": "one_sided"},
        {"all_to_all": "none"},
        {"all_ranks": False, "max_tokens": 3},
    )
    for options in layouts:
        print(f"{options}: {told(lambda options=options: modules.ranks_of(comm, options))}")
    for w13, w2, activation, dtype in (
        (zeros(3, 10, 4), zeros(3, 4, 5), "silu", None),
        (zeros(3, 5, 4), zeros(3, 4, 5), "relu2_no_mul", F16),
        (zeros(3, 10, 4, dtype=F8), zeros(3, 4, 5), "silu", F32),
        (zeros(3, 10, 4, dtype=F8), zeros(3, 4, 5), "silu", None),
        (zeros(3, 10, 4), zeros(2, 4, 5), "silu", None),
        (zeros(10, 4), zeros(3, 4, 5), "silu", None),
        (zeros(3, 10, 4), zeros(3, 4), "silu", None),
    ):
        options = {"top_k": 2, "activation": activation, "quant_config": "q", "dtype": dtype}
        print(told(lambda w13=w13, w2=w2, options=options: modules.source_of(w13, w2, **options)))
    packages: list[Any] = []

    def load(files: Any, **options: Any) -> Any:
        Recorded("load")(files, **options)
        packages.append(package_of(number=len(packages)))
        return packages[-1]

    modules.__dict__["compile_layer"] = Recorded("compile", "files")
    modules.__dict__["load"] = load
    torch.cuda.is_available, torch.cuda.current_device = lambda: True, lambda: 2
    cases: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("cpu", {"a": 1}, {}),
        ("cpu", {"a": 1}, {"progress": 1}),
        ("cpu", {"a": 2}, {}),
        ("cpu", {"a": 1}, {"max_tokens": 3}),
        ("cpu", {"a": 1}, {"arch": "sm_80"}),
        ("cuda", {"a": 1}, {"progress": 1}),
        ("cuda:2", {"a": 1}, {}),
        ("cuda:0", {"a": 1}, {"arch": "sm_80"}),
        ("xpu", {"a": 1}, {}),
        ("cpu", {"a": 1}, {"comm": comm}),
        ("cpu", {"a": 1}, {"comm": comm}),
        ("cpu", {"a": 1}, {"comm": kind()}),
    )
    for device, source, options in cases:
        print(f"{device} {source} {options}")
        print(
            told(
                lambda device=device, source=source, options=options: (
                    modules.load_for(torch.device(device), source, **options).number
                )
            )
        )
    torch.cuda.is_available = lambda: False
    print(told(lambda: modules.load_for(torch.device("cuda:0"), {"a": 9})))
    w13, w2 = zeros(3, 10, 4), zeros(3, 4, 5)
    for options in (
        {},
        {
            "comm": comm,
            "fields": {"top_k": 9},
            "tensors": {"w13_scale": zeros(3)},
            "in_place": True,
            "dtype": F16,
            "activation": "gelu",
            "quant_config": "q",
            "max_tokens": 5,
        },
    ):
        print({name: shown(value) for name, value in options.items()})
        experts: Any = modules.Experts.from_weights(w13, w2, top_k=2, **options)
        print(f"    {experts.extra_repr()}; comm {experts.comm}; registered with {ops._layers[experts.number].run.comm}")
    x, a, b = zeros(3, 4), zeros(3, 2, dtype=INT32), zeros(3, 2, dtype=F32)
    number = experts.number
    ids = Tensor(np.zeros((3, 7), np.int32))
    experts.number = "number"
    experts.forward(x, a, b, zeros(8, dtype=INT32))
    experts.forward(x, topk_ids=a, topk_weights=b)
    experts.forward(x, ids, ids, topk_ids=a, topk_weights=b)
    experts.number = number
    moe: Any = modules.MoE.from_config({"b": 1}, layer=4, device="cpu", max_tokens=6)
    print(f"{moe.extra_repr()}; {told(lambda each=moe: each._number)}")
    moe.load_weights({"w13": w13}, in_place=True).load_weights({"w2": w2})
    print(f"    registered {moe.number in ops._layers}, the one before {moe.number - 1 in ops._layers}, {moe.extra_repr()}")
    modules.__dict__["Checkpoint"] = lambda path: Names(load=Recorded(f"Checkpoint({path}).load", {"w13": w13}))
    moe.load_checkpoint("path", 3, prefix="p")
    number, moe.number = moe.number, "number"
    moe.forward(x, zeros(3, 8))
    moe.forward(x, None, ids, ids, topk_ids=a, topk_weights=b)
    moe.forward(x, None, a, b)
    moe.number = number
    moe = None
    gc.collect()
    print(f"released {number not in ops._layers}")
    print(told(lambda: modules.MoE.from_config({"b": 1}, layer=4)))


operations()
bound_runs()
fused()
of_modules()
