# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs views of arrays into an array of moec_tensor."""

import ctypes
import functools
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from moec import _abi


class Row(NamedTuple):
    """A named tensor with the fields of moec_tensor."""

    name: str
    element_type: str
    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None


@functools.cache
def _text(text: str) -> tuple[int, Any]:
    """Returns the address of a C string that is kept for the lifetime of the process. Callers pass only names of values and
    types."""
    kept = ctypes.create_string_buffer(text.encode())
    return ctypes.addressof(kept), kept


def packed(rows: Iterable[Row]) -> tuple[Any, int]:
    """Returns a buffer with one moec_tensor per row, followed by their shapes and strides, and the number of rows."""
    rows = tuple(rows)
    extents = sum(len(row.shape) * (2 if row.strides else 1) for row in rows)
    buffer = ctypes.create_string_buffer(len(rows) * _abi.TENSOR.size + 8 * extents + 1)
    address = ctypes.addressof(buffer)
    at = len(rows) * _abi.TENSOR.size
    for index, row in enumerate(rows):
        rank = len(row.shape)
        shape, strides = address + at, 0
        struct.pack_into(f"{rank}q", buffer, at, *row.shape)
        at += 8 * rank
        if row.strides:
            strides = address + at
            struct.pack_into(f"{rank}q", buffer, at, *row.strides)
            at += 8 * rank
        name, element_type = _text(row.name)[0], _text(row.element_type)[0]
        _abi.TENSOR.pack_into(buffer, index * _abi.TENSOR.size, name, row.data, element_type, rank, shape, strides)
    return buffer, len(rows)
