# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Queries GPUs through torch if it is loaded, otherwise through the CUDA driver."""

import ctypes
import functools
import json
import os
import sys
from typing import Any

from moec._library import library
from moec.errors import InvalidArgument, NoDriver

COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR = 75, 76


@functools.cache
def driver() -> ctypes.CDLL | None:
    """Returns the initialized libcuda.so.1, or None if there is no driver or no GPU."""
    try:
        cuda = ctypes.CDLL(os.environ.get("MOEC_CUDA_DRIVER_PATH") or "libcuda.so.1")
        return cuda if cuda.cuInit(0) == 0 else None
    except (OSError, AttributeError):
        return None


def driver_version() -> tuple[int, int] | None:
    """Returns the CUDA version of the driver as (major, minor), or None without a driver."""
    get, number = getattr(driver(), "cuDriverGetVersion", None), ctypes.c_int()
    if get is None or get(ctypes.byref(number)):
        return None
    return number.value // 1000, number.value % 1000 // 10


def torch_of_process() -> Any:
    """Returns torch if it is already imported and sees a GPU, otherwise None."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_available() else None


def current_ordinal() -> int | None:
    """Returns the ordinal of torch's current device, or None if torch is not loaded."""
    torch = torch_of_process()
    return int(torch.cuda.current_device()) if torch else None


def devices() -> list[tuple[str, tuple[int, int]]]:
    """Returns the name and the compute capability of each GPU."""
    cuda = driver()
    if cuda is None:
        return []
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)):
        return []
    found = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        numbers = [ctypes.c_int(), ctypes.c_int()]
        cuda.cuDeviceGet(ctypes.byref(device), index)
        cuda.cuDeviceGetName(name, len(name), device)
        for number, attribute in zip(numbers, (COMPUTE_CAPABILITY_MAJOR, COMPUTE_CAPABILITY_MINOR), strict=True):
            cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        found.append((name.value.decode(errors="replace"), (numbers[0].value, numbers[1].value)))
    return found


@functools.cache
def arch_of(major: int, minor: int) -> str:
    """Returns moec's arch for a compute capability. Prefers the arch-specific one ("sm_90a"), which has the larger instruction
    set."""
    known = {row["name"] for row in json.loads(library().text("catalog_json"))["archs"]}
    for arch in (f"sm_{major}{minor}a", f"sm_{major}{minor}"):
        if arch in known:
            return arch
    raise InvalidArgument(f"arch: the GPU has compute capability {major}.{minor}, for which moec has no arch")


def current_arch() -> str:
    """Returns the arch of the current GPU. Raises NoDriver if there is no GPU."""
    torch = torch_of_process()
    if torch:
        return arch_of(*torch.cuda.get_device_capability())
    found = devices()
    if not found:
        raise NoDriver("arch: no GPU is here to take it from; name one, such as arch='sm_90a'")
    return arch_of(*found[0][1])
