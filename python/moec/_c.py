# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python's numbers, words and paths as C takes them. ctypes itself cuts numbers to size, and texts at a NUL."""

import operator
import os
from typing import Any

from moec.errors import InvalidArgument


def integer(number: Any, label: str, *, bits: int = 64) -> int:
    """An integer that a signed type of so many bits holds."""
    try:
        made = operator.index(number)
    except TypeError:
        raise TypeError(f"{label}: expected an integer, got {type(number).__name__}") from None
    if not -(1 << (bits - 1)) <= made < 1 << (bits - 1):
        raise InvalidArgument(f"{label}: expected an integer of {bits} bits, got {made}")
    return made


def text(words: str, label: str) -> bytes:
    """UTF-8 without a NUL."""
    if not isinstance(words, str):
        raise TypeError(f"{label}: expected a text, got {type(words).__name__}")
    return _without_nul(words.encode(), label)


def path(name: str | os.PathLike[str], label: str) -> bytes:
    return _without_nul(os.fsencode(name), label)


def _without_nul(made: bytes, label: str) -> bytes:
    if b"\0" in made:
        raise InvalidArgument(f"{label}: expected a text without NUL, got one at byte {made.index(0)}")
    return made
