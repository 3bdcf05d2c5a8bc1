# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The output of `moec env`: versions, GPUs, NVRTC and paths. It opens libmoec.so and the driver, and imports no other package."""

import ctypes
import importlib.metadata
import os
import pathlib
import platform
import re
import sys
from typing import Any

import moec
from moec import _gpu, _library, _nvrtc
from moec.errors import MoecError

PACKAGES = (
    "numpy",
    "torch",
    "triton",
    "transformers",
    "vllm",
    "sglang",
    "tqdm",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _library_facts() -> dict[str, Any]:
    try:
        opened = _library.library()
    except (ImportError, MoecError) as error:
        return {"path": None, "error": str(error)}
    return {"path": str(opened.path), "version": opened.version}


def _driver_facts() -> dict[str, Any]:
    cuda = _gpu.driver()
    if cuda is None:
        return {"cuda": None, "kernel_module": None}
    number = ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(number))
    module = pathlib.Path("/proc/driver/nvidia/version")
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", module.read_text()) if module.exists() else None
    return {
        "cuda": f"{number.value // 1000}.{number.value % 1000 // 10}",
        "kernel_module": found.group(1) if found else None,
    }


def _nvrtc_facts() -> dict[str, Any]:
    path: Any = _nvrtc.find_nvrtc()
    origin = "package of Python"
    if given := os.environ.get("MOEC_NVRTC_PATH"):
        path, origin = pathlib.Path(given), "MOEC_NVRTC_PATH"
        if path.is_dir():
            path = max(path.glob("libnvrtc.so.[0-9]*"), default=None)
    if path is None:
        return {"path": None, "note": "no package of Python has it; the library looks in its usual places when it compiles"}
    try:
        major, minor = ctypes.c_int(), ctypes.c_int()
        ctypes.CDLL(str(path)).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    except (OSError, AttributeError) as error:
        return {"path": str(path), "from": origin, "error": str(error)}
    return {"path": str(path), "from": origin, "version": f"{major.value}.{minor.value}"}


def cache_folder() -> str:
    """As the library finds it."""
    if given := os.environ.get("MOEC_CACHE_DIR"):
        return given
    if base := os.environ.get("XDG_CACHE_HOME"):
        return os.path.join(base, "moec")
    return os.path.join(os.environ.get("HOME", ""), ".cache", "moec")


def facts() -> dict[str, Any]:
    """Everything, for JSON."""
    return {
        "moec": moec.__version__,
        "library": _library_facts(),
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "system": {"platform": platform.platform(), "libc": " ".join(platform.libc_ver())},
        "gpus": [{"name": name, "compute_capability": f"{major}.{minor}"} for name, (major, minor) in _gpu.devices()],
        "driver": _driver_facts(),
        "nvrtc": _nvrtc_facts(),
        "cache": cache_folder(),
        "packages": {package: version for package in PACKAGES if (version := _version(package))},
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(("MOEC_", "CUDA_")) or name == "VIRTUAL_ENV"
        },
    }


def as_text(found: dict[str, Any]) -> str:
    """A line for each fact."""
    lines = []
    for name, value in found.items():
        rows = value if isinstance(value, list) else [value]
        if not rows or rows == [{}]:
            lines.append(f"{name}: none")
        for row in rows:
            said = ", ".join(f"{k} {v if v is not None else 'none'}" for k, v in row.items()) if isinstance(row, dict) else row
            lines.append(f"{name}: {said}")
    return "\n".join(lines)
