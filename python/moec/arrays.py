# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Views of arrays of numpy, torch and any library with DLPack as addresses, shapes and strides.

numpy has no bf16: numpy.uint16 holds the bits of bf16 values, and numpy.uint8 holds the bits of 8-bit floats and of packed codes
(quantized values). The types of ml_dtypes are also accepted.
"""

import ctypes
import functools
import math
import sys
from typing import Any, NamedTuple

from moec import _dlpack
from moec.errors import InvalidArgument

__all__ = ["from_bfloat16", "to_bfloat16"]

# moec's element types by the names of the types of numpy, torch and ml_dtypes.
_OF_NAME = {
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int8": "i8",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
    "float8_e8m0fnu": "f8E8M0FNU",
    "float4_e2m1fn_x2": "u8",  # torch: two quantized values per byte
}
BITS = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "i64": 64,
    "i32": 32,
    "i16": 16,
    "i8": 8,
    "u8": 8,
    "u16": 16,
    "u32": 32,
    "i4": 4,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E8M0FNU": 8,
    "f6E3M2FN": 6,
    "f6E2M3FN": 6,
    "f4E2M1FN": 4,
}
# The numpy and torch types that hold moec's element types.
_HELD_BY_NUMPY = {
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "bf16": "uint16",
}
_HELD_BY_TORCH = _HELD_BY_NUMPY | {
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}
# Bytes; at least the alignment of every value.
ALIGNMENT = 256


class View(NamedTuple):
    """The memory of an array. It is valid while `owner` lives."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    """In elements; None: contiguous."""
    element_type: str
    """moec's name of the element type; "u8", "u16" and "u32" are raw bits."""
    gpu: int | None
    """The GPU's ordinal; None: host memory."""
    writable: bool
    owner: Any


def _library_of(array: Any) -> str:
    """Returns the library of an array: "torch", "numpy", or "" for others."""
    return _library_of_class(type(array))  # type: ignore[arg-type]  # classes have hashes


@functools.lru_cache(maxsize=256)
def _library_of_class(kind: Any) -> str:
    for name, base in (("torch", "Tensor"), ("numpy", "ndarray")):
        module = sys.modules.get(name)
        if module is not None and issubclass(kind, getattr(module, base)):
            return name
    return ""


def is_torch(array: Any) -> bool:
    return _library_of(array) == "torch"


def is_numpy(array: Any) -> bool:
    return _library_of(array) == "numpy"


@functools.lru_cache(maxsize=256)
def _element_type(dtype: Any) -> str:
    """Returns moec's name of a numpy or torch type. An unsupported type keeps its own name, which no value accepts."""
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    return _OF_NAME.get(name, name)


def _view_torch(array: Any, label: str, differentiated: bool) -> View:
    torch = sys.modules["torch"]
    if array.layout is not torch.strided or array.device.type not in ("cpu", "cuda"):
        raise InvalidArgument(
            f"value '{label}': expected a strided tensor in host or CUDA memory, "
            f"got a {str(array.layout).removeprefix('torch.')} one on device {array.device}"
        )
    if differentiated and array.requires_grad and torch.is_grad_enabled():
        raise InvalidArgument(
            f"value '{label}' requires a gradient, and moec computes none; use torch.no_grad() or inference_mode()"
        )
    gpu = None if array.device.type == "cpu" else array.device.index
    strides = None if array.is_contiguous() else tuple(array.stride())
    return View(array.data_ptr(), tuple(array.shape), strides, _element_type(array.dtype), gpu, True, array)


def _view_numpy(array: Any, label: str) -> View:
    element_type = _element_type(array.dtype)
    if not array.dtype.isnative:
        raise InvalidArgument(f"value '{label}': expected numbers in this machine's byte order, got dtype {array.dtype}")
    strides = None
    if not array.flags.c_contiguous:
        if any(stride % array.itemsize for stride in array.strides):
            raise InvalidArgument(f"value '{label}': expected strides of whole elements, got {array.strides} bytes")
        strides = tuple(stride // array.itemsize for stride in array.strides)
    data, read_only = array.__array_interface__["data"]
    return View(data, array.shape, strides, element_type, None, not read_only, array)


def _view_dlpack(array: Any, label: str, stream: int | None) -> View:
    try:
        capsule = _dlpack.capsule_of(array, stream)
        tensor, writable = _dlpack.tensor_of(capsule)
    except (ValueError, BufferError) as error:
        raise InvalidArgument(f"value '{label}': {error}") from error
    device, dtype = tensor.device, tensor.dtype
    if device.kind not in _dlpack.HOST_DEVICES + _dlpack.GPU_DEVICES:
        raise InvalidArgument(f"value '{label}': expected host or CUDA memory, got DLPack's device type {device.kind}")
    element_type = _dlpack.ELEMENT_TYPES.get((dtype.code, dtype.bits)) if dtype.lanes == 1 else None
    if element_type is None:
        element_type = f"DLPack's type of code {dtype.code}, {dtype.bits} bits and {dtype.lanes} lanes"
    shape = tuple(tensor.shape[: tensor.rank]) if tensor.rank else ()
    strides = tuple(tensor.strides[: tensor.rank]) if tensor.strides and tensor.rank else None
    gpu = device.index if device.kind in _dlpack.GPU_DEVICES else None
    return View((tensor.data or 0) + tensor.byte_offset, shape, strides, element_type, gpu, writable, (array, capsule))


def view(array: Any, label: str, *, stream: int | None = None, differentiated: bool = False) -> View:
    """Returns the memory of an array. `label` names the array in errors. `differentiated`: raises InvalidArgument if the array
    requires a gradient."""
    home = _library_of(array)
    if home == "torch":
        return _view_torch(array, label, differentiated)
    if home == "numpy":
        return _view_numpy(array, label)
    if hasattr(array, "__dlpack__"):
        return _view_dlpack(array, label, stream)
    raise TypeError(f"value '{label}': expected an array of numpy, torch or a library with DLPack, got {type(array).__name__}")


def given_type(found: View, accepted: tuple[str, ...], label: str) -> str:
    """Returns the element type to pass to the library for the array's contents. Raises InvalidArgument if no accepted type
    matches."""
    have = found.element_type
    if have in accepted:
        return have
    default = accepted[0]
    if (have == "u8" and default == "f8E8M0FNU") or (have in ("u8", "i8") and BITS[default] < 8):
        return "u8"
    for each in accepted:
        if (have == "u8" and BITS[each] == 8) or (have == "u16" and each == "bf16") or (have == "u32" and each == "i32"):
            return each
    raw = {8: "uint8", 16: "uint16"}.get(max(BITS[default], 8)) if default not in _HELD_BY_NUMPY or default == "bf16" else None
    hint = f" ({raw} may hold the bits of {default})" if raw else ""
    raise InvalidArgument(f"value '{label}': expected {' or '.join(accepted)}{hint}, got {have}")


def aligned_copy(found: View, element_bytes: int, alignment: int) -> View:
    """Returns a copy of the tensor in host memory with the given alignment, or the view itself if it is aligned or on a GPU.

    Rows may be padded. Other strides are not changed; the library reports them as an error.
    """
    if found.data % alignment == 0 or found.gpu is not None:
        return found
    rows, row_bytes, stride = contiguous_rows(found, element_bytes)
    if rows < 0:
        return found
    address, memory = host_memory(rows * row_bytes)
    for row in range(rows):
        ctypes.memmove(address + row * row_bytes, found.data + row * stride, row_bytes)
    return View(address, found.shape, None, found.element_type, None, True, memory)


def contiguous_rows(found: View, element_bytes: int) -> tuple[int, int, int]:
    """Returns (rows, bytes of a row, bytes between rows): one row if the array is contiguous, -1 rows for unsupported strides."""
    total = math.prod(found.shape) * element_bytes
    if found.strides is None or total == 0:
        return (1, total, 0)
    inner = 1
    for extent, stride in zip(reversed(found.shape[1:]), reversed(found.strides[1:]), strict=True):
        if extent != 1 and stride != inner:
            return (-1, 0, 0)
        inner *= extent
    return (found.shape[0], inner * element_bytes, found.strides[0] * element_bytes)


def host_memory(count: int) -> tuple[int, Any]:
    """Returns the aligned address of `count` bytes of host memory, and their owner."""
    memory = (ctypes.c_char * (count + ALIGNMENT))()
    return -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT, memory


def empty(shape: tuple[int, ...], element_type: str, *, gpu: int | None, library: str, label: str) -> Any:
    """Allocates an aligned array: of torch on a GPU or for library="torch", otherwise of numpy.

    Codes of fewer than 8 bits are packed, so the last extent counts bytes.
    """
    bits = BITS[element_type]
    if bits < 8:
        if not shape or shape[-1] * bits % 8:
            raise InvalidArgument(f"value '{label}': rows of {element_type} are no whole bytes, so that no array holds them")
        shape = (*shape[:-1], shape[-1] * bits // 8)
    count = math.prod(shape) * max(bits, 8) // 8
    if gpu is not None or library == "torch":
        torch = sys.modules.get("torch")
        if torch is None:
            raise InvalidArgument(
                f"value '{label}': moec allocates GPU memory by torch, which is not imported; give an array for it"
            )
        device = "cpu" if gpu is None else f"cuda:{gpu}"
        memory = torch.empty(count + ALIGNMENT, dtype=torch.uint8, device=device)
        begin = -memory.data_ptr() % ALIGNMENT
        return memory[begin : begin + count].view(getattr(torch, _HELD_BY_TORCH.get(element_type, "uint8"))).reshape(shape)
    try:
        import numpy
    except ImportError:
        raise InvalidArgument(
            f"value '{label}': moec allocates host memory by numpy, which is not installed; give an array for it"
        ) from None

    memory = numpy.empty(count + ALIGNMENT, dtype=numpy.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + count].view(_HELD_BY_NUMPY.get(element_type, "uint8")).reshape(shape)


def to_bfloat16(array: Any) -> Any:
    """Rounds a numpy array of floats to bf16, ties to even. Returns the bits as a numpy.uint16 array of the same shape. Raises
    InvalidArgument if the array is already uint16."""
    import numpy

    if getattr(array, "dtype", None) == numpy.uint16:
        raise InvalidArgument("array: expected floats, got uint16, which may hold the bits of bf16 already")
    bits = numpy.ascontiguousarray(array, dtype=numpy.float32).view(numpy.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    quiet_nan = (bits >> 16) | 0x40
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return numpy.where(is_nan, quiet_nan, rounded).astype(numpy.uint16)


def from_bfloat16(bits: Any) -> Any:
    """Converts bf16 bits in a numpy.uint16 array to a numpy.float32 array of the same shape. Raises InvalidArgument for another
    type."""
    import numpy

    made = numpy.asarray(bits)
    if made.dtype.name == "bfloat16":  # of ml_dtypes
        made = made.view(numpy.uint16)
    if made.dtype != numpy.uint16:
        raise InvalidArgument(f"bits: expected uint16 with the bits of bf16, as to_bfloat16() gives; got {made.dtype}")
    return (made.astype(numpy.uint32) << 16).view(numpy.float32)
