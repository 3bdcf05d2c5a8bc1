# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Stand-ins of torch and of the engines, for tests of decisions where none of them is installed."""

import importlib.abc
import importlib.machinery
import sys
import types
from typing import Any, ClassVar
from unittest import mock

import numpy as np

NAMES_OF_DTYPES = ("bfloat16", "float16", "float32", "float8_e4m3fn", "int32", "int64", "uint8")


class Dtype:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


dtypes = {name: Dtype(name) for name in NAMES_OF_DTYPES}


class Device:
    def __init__(self, kind: Any, index: int | None = None) -> None:
        name, _, number = str(kind).partition(":")
        self.type, self.index = name, int(number) if number else index

    def __repr__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


class Tensor:
    """The methods of a tensor that moec calls, on an array of numpy."""

    requires_grad = False
    is_cuda = False
    inference = False
    _version = 0

    def __init__(self, array: Any, dtype: Any = None, device: str = "cpu") -> None:
        self.array = np.asarray(array)
        self.dtype = dtype or dtypes[self.array.dtype.name]
        self.device = Device(device)

    def __repr__(self) -> str:
        return f"{self.dtype} {self.array.tolist()}" if self.array.size else f"{self.dtype} of {list(self.shape)}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def data(self) -> "Tensor":
        return self

    @data.setter
    def data(self, other: "Tensor") -> None:
        self.array = other.array

    def __getitem__(self, key: Any) -> "Tensor":
        return self.like(self.array[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[key] = value

    def __rtruediv__(self, number: float) -> "Tensor":
        return Tensor(np.float32(number) / self.array)

    def __mul__(self, number: float) -> "Tensor":
        return self.like(self.array * number)

    def like(self, array: Any) -> "Tensor":
        return Tensor(array, self.dtype, str(self.device))

    def reshape(self, *shape: int) -> "Tensor":
        return self.like(self.array.reshape(shape))

    view = reshape

    def squeeze(self, axis: int) -> "Tensor":
        return self.like(self.array.squeeze(axis) if self.array.shape[axis] == 1 else self.array)

    def max(self) -> "Tensor":
        return self.like(self.array.max())

    def float(self) -> "Tensor":
        return Tensor(self.array.astype(np.float32))

    def expand(self, count: int) -> "Tensor":
        return self.like(np.broadcast_to(self.array, (count,)))

    def to(self, dtype: Any) -> "Tensor":
        return Tensor(self.array, dtype, str(self.device))

    def contiguous(self) -> "Tensor":
        return self if self.is_contiguous() else self.like(np.ascontiguousarray(self.array))

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def detach(self) -> "Tensor":
        return self

    def dim(self) -> int:
        return self.array.ndim

    def numel(self) -> int:
        return self.array.size

    def stride(self, axis: int | None = None) -> Any:
        strides = tuple(stride // self.array.itemsize for stride in self.array.strides)
        return strides if axis is None else strides[axis]

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def is_inference(self) -> bool:
        return self.inference

    def new_empty(self, shape: Any, dtype: Any = None) -> "Tensor":
        return Tensor(np.zeros(shape, self.array.dtype), dtype or self.dtype, str(self.device))

    def copy_(self, other: "Tensor") -> "Tensor":
        self.array[...] = other.array
        return self

    def tolist(self) -> Any:
        return self.array.tolist()

    def __int__(self) -> int:
        return int(self.array)


def padded(tensor: Tensor, amounts: tuple[int, ...]) -> Tensor:
    left, right, top, bottom = amounts
    return tensor.like(np.pad(tensor.array, ((top, bottom), (left, right))))


class Module(types.ModuleType):
    __path__: ClassVar[list[str]] = []  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = mock.MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of the packages `roots`. Unknown attributes of a module are mocks."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self.roots = roots

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in self.roots else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Any:
        return Module(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


def install(*roots: str) -> None:
    sys.meta_path.insert(0, Finder(roots))
    torch: Any = importlib.import_module("torch")
    torch.nn = importlib.import_module("torch.nn")
    torch.nn.Module = type("Module", (), {})
    torch.device, torch.Tensor = Device, Tensor
    torch.empty_like = lambda tensor: tensor.new_empty(tensor.shape)
    torch.ones_like = lambda tensor: tensor.like(np.ones_like(tensor.array))
    torch.empty = lambda shape, dtype, device: Tensor(np.zeros(shape, np.float32), dtype, str(device))
    torch.full = lambda shape, value, dtype, device: Tensor(np.full(shape, value, dtype.name), dtype, str(device))
    torch.cat = lambda tensors: tensors[0].like(np.concatenate([tensor.array for tensor in tensors]))
    importlib.import_module("torch.nn.functional").__dict__["pad"] = padded
    torch.is_grad_enabled = lambda: False
    torch.arange = lambda count, dtype, device: Tensor(np.arange(count, dtype=dtype.name))
    for name, dtype in dtypes.items():
        setattr(torch, name, dtype)
