# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the DLTensor of a DLPack capsule with ctypes."""

import ctypes as c
from typing import Any

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
HOST_DEVICES, GPU_DEVICES = (CPU, CUDA_HOST), (CUDA, CUDA_MANAGED)
NEWEST_MAJOR = 1
READ_ONLY = 1


class DataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class Device(c.Structure):
    _fields_ = [("kind", c.c_int32), ("index", c.c_int32)]


class DLTensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device", Device),
        ("rank", c.c_int32),
        ("dtype", DataType),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class Managed(c.Structure):
    _fields_ = [("tensor", DLTensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


class ManagedVersioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", DLTensor),
    ]


# Element types by (code, bits) of a DLDataType with one lane. Unsigned integers hold raw bits.
ELEMENT_TYPES = {
    (0, 8): "i8",
    (0, 32): "i32",
    (0, 64): "i64",
    (1, 8): "u8",
    (1, 16): "u16",
    (1, 32): "u32",
    (2, 16): "f16",
    (2, 32): "f32",
    (4, 16): "bf16",
    (10, 8): "f8E4M3FN",
    (12, 8): "f8E5M2",
    (14, 8): "f8E8M0FNU",
}

_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
_is_valid = c.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c.c_int, [c.py_object, c.c_char_p]


def capsule_of(array: Any, stream: int | None) -> Any:
    """Returns the array's DLPack capsule, of version 1 if the array supports it. `stream`: the consumer's CUstream or None."""
    arguments: dict[str, Any] = {}
    if array.__dlpack_device__()[0] in GPU_DEVICES:
        # In DLPack, stream 1 is the legacy default stream.
        arguments["stream"] = stream or 1
    try:
        return array.__dlpack__(max_version=(NEWEST_MAJOR, 0), **arguments)
    except TypeError:
        return array.__dlpack__(**arguments)


def tensor_of(capsule: Any) -> tuple[DLTensor, bool]:
    """Returns the capsule's tensor, and True if it is writable. The tensor is valid while the capsule lives."""
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = ManagedVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major > NEWEST_MAJOR:
            raise ValueError(f"expected DLPack of version {NEWEST_MAJOR}, got {versioned.major}.{versioned.minor}")
        return versioned.tensor, not versioned.flags & READ_ONLY
    if _is_valid(capsule, b"dltensor"):
        return Managed.from_address(_pointer(capsule, b"dltensor")).tensor, True
    raise ValueError("expected a capsule 'dltensor' or 'dltensor_versioned' that has not been consumed")
