# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Converts Python's integers, strings and paths to C. ctypes itself truncates large integers, and ends strings at a NUL byte."""

import operator
import os
from typing import Any

from moec.errors import InvalidArgument


def integer(number: Any, label: str, *, bits: int = 64) -> int:
    """Returns `number` as an int. Raises TypeError if it is no integer, InvalidArgument if it does not fit a signed type of
    `bits` bits."""
    try:
        made = operator.index(number)
    except TypeError:
        raise TypeError(f"{label}: expected an integer, got {type(number).__name__}") from None
    if not -(1 << (bits - 1)) <= made < 1 << (bits - 1):
        raise InvalidArgument(f"{label}: expected an integer of {bits} bits, got {made}")
    return made


def text(words: str, label: str) -> bytes:
    """Encodes `words` as UTF-8. Raises InvalidArgument if it contains a NUL character."""
    if not isinstance(words, str):
        raise TypeError(f"{label}: expected a text, got {type(words).__name__}")
    return _without_nul(words.encode(), label)


def path(name: str | os.PathLike[str], label: str) -> bytes:
    return _without_nul(os.fsencode(name), label)


def _without_nul(made: bytes, label: str) -> bytes:
    if b"\0" in made:
        raise InvalidArgument(f"{label}: expected a text without NUL, got one at byte {made.index(0)}")
    return made
