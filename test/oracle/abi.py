# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec's C ABI for tensors of torch: a package of one layer, loaded for the host device or a GPU, and its runs."""

import ctypes
import json
import math
import pathlib
from collections.abc import Iterable
from typing import Any

import torch

INPUT, OPTIONAL_INPUT, OUTPUT, OPTIONAL_OUTPUT, STORED, PACKED = range(6)
CUDA, HOST = range(2)
DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i8": torch.int8,
}
ALIGNMENT = 256  # more than moec asks for


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("device", ctypes.c_int32),
        ("ordinal_plus_one", ctypes.c_int32),
        ("strict", ctypes.c_int32),
        ("jobs", ctypes.c_int32),
        ("cache_dir", ctypes.c_char_p),
        ("arch", ctypes.c_char_p),
        ("prebuild", ctypes.c_int32),
    ]


class Value(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("role", ctypes.c_int32),
        ("element_types", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("caller_row_stride", ctypes.c_int32),
        ("alignment", ctypes.c_int64),
        ("may_alias", ctypes.c_char_p),
    ]


class Tensor(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("element_type", ctypes.c_char_p),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
    ]


class MoecError(Exception):
    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def aligned(shape: Iterable[int], dtype: torch.dtype, device: str, content: torch.Tensor | None = None) -> torch.Tensor:
    shape = tuple(shape)
    size = math.prod(shape) * torch.empty((), dtype=dtype).element_size()
    raw = torch.zeros(size + ALIGNMENT, dtype=torch.uint8, device=device)
    begin = -raw.data_ptr() % ALIGNMENT
    made = raw[begin : begin + size].view(dtype).reshape(shape)
    if content is not None:
        made.copy_(content)
    return made


class Library:
    """libmoec.so, or libmoec-runtime.so, which loads packages that another machine compiled."""

    def __init__(self, path: str) -> None:
        self.lib = ctypes.CDLL(path)
        void, size, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
        i64, ref = ctypes.c_int64, ctypes.POINTER
        texts: dict[str, list[Any]] = {
            "last_error": [],
            "status_name": [ctypes.c_int],
            "package_manifest_json": [void],
            "package_arch": [void],
            "package_device": [void],
        }
        for name, arguments in texts.items():
            self.declare(name, text, arguments)
        self.declare("package_num_values", size, [void])
        statuses: dict[str, list[Any]] = {
            "package_load": [text, ref(LoadOptions), ref(void)],
            "package_value": [void, size, ref(Value)],
            "package_value_shape": [void, text, i64, ref(i64)],
            "package_workspace_bytes": [void, i64, ref(ctypes.c_uint64)],
            "layer_create": [void, ref(Tensor), size, void, void, ref(void)],
            "context_create": [void, void, ctypes.c_uint64, void, ref(void)],
            "run": [void, void, void, ref(Tensor), size, i64, void],
        }
        if hasattr(self.lib, "moec_compile_config"):
            statuses["compile_config"] = [text, text, ref(void)]
            statuses["package_files_write"] = [void, text]
        for name, arguments in statuses.items():
            self.declare(name, ctypes.c_int, arguments)
        for name in ("package_files", "package", "layer", "context"):
            self.declare(f"{name}_destroy", None, [void])

    def declare(self, name: str, result: Any, arguments: list[Any]) -> None:
        function = getattr(self.lib, f"moec_{name}")
        function.restype, function.argtypes = result, arguments

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.lib, f"moec_{name}")(*arguments)
        if status:
            raise MoecError(self.lib.moec_status_name(status).decode(), self.lib.moec_last_error().decode())

    def handle(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(made))
        return made

    def compile(self, text: str, options: dict[str, Any], folder: pathlib.Path) -> None:
        """Writes the package of a config into a folder."""
        files = self.handle("compile_config", text.encode(), json.dumps(options).encode())
        try:
            self.call("package_files_write", files, str(folder).encode())
        finally:
            self.lib.moec_package_files_destroy(files)

    def load(self, folder: pathlib.Path, device: str) -> "Package":
        options = LoadOptions(struct_size=ctypes.sizeof(LoadOptions), device=CUDA if device == "cuda" else HOST)
        return Package(self, self.handle("package_load", str(folder).encode(), ctypes.byref(options)), device)


class Package:
    """One layer, and what it wants. To be closed."""

    def __init__(self, moec: Library, handle: ctypes.c_void_p, device: str) -> None:
        self.moec, self.made, self.device = moec, handle, device
        self.manifest = json.loads(moec.lib.moec_package_manifest_json(handle).decode())
        self.layer = self.manifest["layer"]
        self.values: dict[str, tuple[int, list[str], int]] = {}
        for index in range(moec.lib.moec_package_num_values(handle)):
            value = Value(struct_size=ctypes.sizeof(Value))
            moec.call("package_value", handle, index, ctypes.byref(value))
            self.values[value.name.decode()] = (value.role, value.element_types.decode().split(), value.rank)

    def __enter__(self) -> "Package":
        return self

    def __exit__(self, *_: object) -> None:
        self.moec.lib.moec_package_destroy(self.made)

    def shape(self, name: str, tokens: int = 0) -> tuple[int, ...]:
        extents = (ctypes.c_int64 * self.values[name][2])()
        self.moec.call("package_value_shape", self.made, name.encode(), tokens, extents)
        return tuple(extents)

    def of(self, *roles: int) -> list[str]:
        return [name for name, value in self.values.items() if value[0] in roles]

    def dtype(self, name: str) -> torch.dtype:
        return DTYPES[self.values[name][1][0]]

    def array(self, name: str, content: torch.Tensor | None = None, tokens: int = 0) -> torch.Tensor:
        shape = self.shape(name, tokens)
        if content is not None and tuple(content.shape) != shape:
            raise ValueError(f"{name}: expected {shape}, got {tuple(content.shape)}")
        return aligned(shape, self.dtype(name), self.device, content)

    @staticmethod
    def tensors(arrays: dict[str, torch.Tensor]) -> ctypes.Array[Tensor]:
        made = (Tensor * len(arrays))()
        for row, (name, array) in zip(made, arrays.items(), strict=True):
            row.name, row.data = name.encode(), array.data_ptr()
            # Strides stay NULL: the array is contiguous.
            row.rank, row.shape = array.dim(), (ctypes.c_int64 * array.dim())(*array.shape)
        return made

    def runner(self, weights: dict[str, torch.Tensor], most_tokens: int) -> "Runner":
        return Runner(self, weights, most_tokens)


class Runner:
    """A layer with its weights and one context. To be closed."""

    def __init__(self, package: Package, weights: dict[str, torch.Tensor], most_tokens: int) -> None:
        self.package, self.moec = package, package.moec
        self.context: ctypes.c_void_p | None = None
        # The layer holds pointers to all of it.
        self.weights = {name: package.array(name, weights[name]) for name in package.of(STORED)}
        self.weights |= {name: package.array(name) for name in package.of(PACKED)}
        self.layer = self.moec.handle(
            "layer_create", package.made, Package.tensors(self.weights), len(self.weights), None, self.stream()
        )
        needed = ctypes.c_uint64()
        self.moec.call("package_workspace_bytes", package.made, most_tokens, ctypes.byref(needed))
        self.workspace = aligned((needed.value,), torch.uint8, package.device)
        self.context = self.moec.handle("context_create", package.made, self.workspace.data_ptr(), needed, None)

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.moec.lib.moec_context_destroy(self.context)
        self.moec.lib.moec_layer_destroy(self.layer)

    def stream(self) -> int | None:
        return torch.cuda.current_stream().cuda_stream if self.package.device == "cuda" else None

    def run(self, inputs: dict[str, torch.Tensor], tokens: int) -> dict[str, torch.Tensor]:
        """All outputs that there are, of inputs by name."""
        given = {name: self.package.array(name, content, tokens) for name, content in inputs.items()}
        results = {name: self.package.array(name, tokens=tokens) for name in self.package.of(OUTPUT, OPTIONAL_OUTPUT)}
        both = given | results
        self.moec.call("run", self.layer, self.context, self.stream(), Package.tensors(both), len(both), tokens, None)
        if self.package.device == "cuda":
            torch.cuda.synchronize()
        return results
