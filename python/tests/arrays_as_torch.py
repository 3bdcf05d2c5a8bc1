# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A stand-in of torch that computes: its tensors are arrays of numpy, and its modules have parameters, states and children."""

import importlib
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace as Names
from typing import Any

import numpy as np
import standins

E4M3, E8M0, BF16 = np.dtype([("e4m3", "u1")]), np.dtype([("e8m0", "u1")]), np.dtype([("bf16", "u2")])


class Device(str):
    @property
    def type(self) -> str:
        return self.partition(":")[0]


def e4m3(codes: Any) -> Any:
    """The values of codes without NaN."""
    power, fraction = (codes >> 3 & 15).astype(np.int32), (codes & 7) / 8
    size = np.where(power > 0, np.ldexp(1 + fraction, power - 7), np.ldexp(fraction, -6))
    return np.where(codes & 128, -size, size)


class Tensor(np.ndarray):
    """Methods of a tensor that moec calls and an array does not have."""

    __array_priority__ = 1.0
    place = "cpu"
    is_meta = is_cuda = inference = requires_grad = False
    layout = "strided"
    _version = 0

    data = property(lambda self: self.view(Tensor).on(self.place))
    device = property(lambda self: Device(self.place))

    def on(self, place: str) -> Any:
        self.place = place
        self.is_meta = place == "meta"
        return self

    def view(self, *given: Any) -> Any:  # type: ignore[override]
        return self.reshape(given) if isinstance(given[0], int) else super().view(*given)

    def converted(self, dtype: Any) -> Any:
        codes = np.asarray(self)
        if codes.dtype == E4M3:
            codes = e4m3(codes.view(np.uint8))
        elif codes.dtype == E8M0:
            codes = np.ldexp(1.0, codes.view(np.uint8).astype(np.int32) - 127)
        return codes.astype(dtype).view(Tensor)

    def to(self, *given: Any) -> Any:
        made: Any = self
        for each in given:
            made = made.view(Tensor).on(each) if isinstance(each, str) else made.converted(each).on(made.place)
        return made

    float = lambda self: self.converted(np.float32)  # noqa: E731
    double = lambda self: self.converted(np.float64)  # noqa: E731
    long = lambda self: self.converted(np.int64)  # noqa: E731
    detach = lambda self: self.data  # noqa: E731
    data_ptr = lambda self: self.ctypes.data  # noqa: E731
    numel = lambda self: self.size  # noqa: E731
    element_size = lambda self: self.itemsize  # noqa: E731
    is_inference = lambda self: self.inference  # noqa: E731
    is_floating_point = lambda self: self.dtype.kind == "f"  # noqa: E731
    contiguous = lambda self: np.ascontiguousarray(self).view(Tensor)  # noqa: E731
    clone = lambda self: self.copy().view(Tensor)  # noqa: E731
    square = lambda self: self * self  # noqa: E731
    norm = lambda self, dim: np.sqrt((np.asarray(self, np.float64) ** 2).sum(dim)).view(Tensor)  # noqa: E731

    def abs(self, *given: Any) -> Any:
        return np.abs(self, *given)

    def isfinite(self, *given: Any) -> Any:
        return np.isfinite(self, *given)

    def chunk(self, *given: Any) -> Any:
        return np.split(self, *given)

    def repeat_interleave(self, *given: Any) -> Any:
        return np.repeat(self, *given)

    def clamp(self, low: Any = None, high: Any = None, *, min: Any = None, max: Any = None) -> Any:
        return np.clip(self, min if low is None else low, max if high is None else high)

    def flatten(self, first: int = 0) -> Any:  # type: ignore[override]
        return self.reshape(*self.shape[: first % max(self.ndim, 1)], -1)

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(each // self.itemsize for each in self.strides)
        return strides if axis is None else strides[axis]

    def untyped_storage(self) -> Any:
        root = self
        while isinstance(root.base, np.ndarray):
            root = root.base  # type: ignore[assignment]
        return Names(data_ptr=lambda: root.ctypes.data)

    def new_empty(self, shape: Any, dtype: Any = None) -> Any:
        """A tensor that is full of sevens, which no test expects."""
        return np.full(shape, 7, dtype or self.dtype).view(Tensor).on(self.place)

    def copy_(self, other: Any) -> None:
        self[...] = other

    def zero_(self) -> None:
        self[...] = 0

    def is_contiguous(self) -> bool:
        return self.flags.c_contiguous

    def dim(self) -> int:
        return self.ndim

    def set_(self, value: Any) -> None:
        """Writes into the tensor, as add_() and its like do."""
        self[...] = value
        self._version += 1


class Parameter(Tensor):
    pass


def tensor(values: Any, dtype: Any = np.float32, device: Any = "cpu") -> Any:
    return np.array(values, dtype).view(Tensor).on(device)


def parameter(values: Any) -> Any:
    return np.asarray(values).view(Parameter)


class Held:
    """A parameter whose data an engine's plug-in replaces."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["data"], name)


class Module:
    def __init__(self) -> None:
        self.__dict__.update(_parameters={}, _buffers={}, _modules={})

    def __setattr__(self, name: str, value: Any) -> None:
        kind = "_parameters" if isinstance(value, Parameter) else "_modules" if isinstance(value, Module) else ""
        if kind:
            self.__dict__[kind][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, ()):
                return self.__dict__[kind][name]
        raise AttributeError(name)

    def __call__(self, *given: Any) -> Any:
        return self.forward(*given)

    def forward(self, *given: Any) -> Any:
        raise NotImplementedError

    def children(self) -> Any:
        return self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Any]]:
        yield prefix, self
        for name, child in self._modules.items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Any]:
        return (module for _, module in self.named_modules())

    def get_submodule(self, name: str) -> Any:
        return dict(self.named_modules())[name]

    def named_parameters(self, recurse: bool = True, kind: str = "_parameters") -> Iterator[tuple[str, Any]]:
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, each in getattr(module, kind).items():
                if each is not None:
                    yield f"{path}.{name}" if path else name, each

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        return self.named_parameters(kind="_buffers")

    def parameters(self) -> Iterator[Any]:
        return (each for _, each in self.named_parameters())

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination.update({prefix + name: each.data for name, each in self._parameters.items() if each is not None})

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {}
        for path, module in self.named_modules():
            module._save_to_state_dict(state, f"{path}." if path else "", False)
        return state

    def _load_from_state_dict(
        self, state: Any, prefix: str, metadata: Any, strict: bool, missing: Any, unexpected: Any, errors: Any
    ) -> None:
        for name, each in self._parameters.items():
            if prefix + name in state:
                each.set_(state[prefix + name])
            elif strict:
                missing.append(prefix + name)

    def load_state_dict(self, state: Any, strict: bool = True) -> tuple[list[str], list[str]]:
        missing: list[str] = []
        errors: list[str] = []
        for path, module in self.named_modules():
            module._load_from_state_dict(state, f"{path}." if path else "", {}, strict, missing, [], errors)
        return missing, errors

    def float(self) -> Any:
        for name, each in self._parameters.items():
            self._parameters[name] = each.float().view(Parameter)
        return self


class Generator:
    def manual_seed(self, seed: int) -> Any:
        self.random = np.random.default_rng(seed)
        return self


def sigmoid(x: Any) -> Any:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def silu(x: Any) -> Any:
    return x * sigmoid(x)


def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2)))


def softmax(x: Any) -> Any:
    made = np.exp(x - x.max(-1, keepdims=True))
    return made / made.sum(-1, keepdims=True)


def random(call: str) -> Callable[..., Any]:
    def made(*shape: int, generator: Any, dtype: Any = np.float32) -> Any:
        return getattr(generator.random, call)(shape).astype(dtype).view(Tensor)

    return made


def install(*roots: str) -> Any:
    """Makes `import torch` give this stand-in. Unknown names of it and of the roots are mocks."""
    standins.install("torch", *roots)
    torch: Any = importlib.import_module("torch")
    grads = [False]

    @contextmanager
    def enable_grad() -> Iterator[None]:
        grads[0] = True
        yield
        grads[0] = False

    torch.Tensor, torch.device, torch.Generator, torch.strided = Tensor, Device, Generator, "strided"
    torch.nn.Module, torch.nn.Parameter = Module, Parameter
    functional: Any = importlib.import_module("torch.nn.functional")
    torch.nn.functional = functional
    functional.silu, functional.gelu = silu, gelu
    functional.linear = lambda x, weight, bias=None: x @ weight.T + (0 if bias is None else bias)
    torch.no_grad, torch.autocast = nullcontext, lambda kind, enabled: nullcontext()
    torch.enable_grad, torch.is_grad_enabled = enable_grad, lambda: grads[0]
    torch.compiler.disable = lambda reason: lambda function: function
    torch.compiler.is_compiling = lambda: False
    torch.cuda.is_current_stream_capturing = lambda: False
    torch.relu, torch.sigmoid, torch.tanh = lambda x: np.maximum(x, 0), sigmoid, np.tanh
    torch.inf = math.inf
    torch.tensor = torch.as_tensor = tensor
    torch.stack, torch.cat = np.stack, lambda tensors, axis=0: np.concatenate(tensors, axis)
    torch.full = lambda shape, value, dtype: np.full(shape, value, dtype).view(Tensor)
    torch.zeros = lambda shape, dtype, device: np.zeros(shape, dtype).view(Tensor).on(device)
    torch.empty_like = lambda each, device: np.zeros(each.shape, each.dtype).view(Tensor).on(device)
    torch.arange = lambda count: np.arange(count).view(Tensor)
    torch.where = lambda where, one, other: np.asarray(np.where(where, one, other)).view(Tensor)
    torch.equal = np.array_equal
    torch.randn, torch.rand = random("standard_normal"), random("random")
    torch.randperm = lambda count, generator: generator.random.permutation(count).view(Tensor)
    for name in ("float64", "float32", "float16", "int8", "int32", "int64", "uint8"):
        setattr(torch, name, np.dtype(name))
    torch.bfloat16, torch.float8_e4m3fn, torch.float8_e8m0fnu = BF16, E4M3, E8M0
    return torch
