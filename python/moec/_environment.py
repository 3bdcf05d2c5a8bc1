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
import tempfile
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


# A small layer that every arch serves.
LAYER = {
    "moec_layer": 1,
    "name": "env",
    "num_experts": 2,
    "experts_per_token": 1,
    "hidden_dim": 64,
    "intermediate_size": 64,
    "in_dtype": "f16",
}


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
    version = _gpu.driver_version()
    module = pathlib.Path("/proc/driver/nvidia/version")
    found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", module.read_text()) if module.exists() else None
    return {
        "cuda": f"{version[0]}.{version[1]}" if version else None,
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
        return {"path": None, "note": "no package of Python has it; moec env --compile says what the library finds"}
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


def compile_facts() -> dict[str, Any]:
    """Compiles the kernels of a small layer, without the cache."""
    try:
        arch = _gpu.current_arch() if _gpu.devices() else "sm_90a"
        with tempfile.TemporaryDirectory() as folder:
            files = moec.compile(LAYER, arch=arch, max_tokens=1, progress=False)
            report = moec.load(files, prebuild=True, arch=arch, cache_dir=folder, progress=False).load_report
    except (ImportError, MoecError) as error:
        return {"error": str(error)}
    return {
        "arch": arch,
        "nvrtc": report["nvrtc"],
        "found by": report["nvrtc_found_by"],
        "kernels": len(report["kernels"]),
        "milliseconds": round(report["compile_ms"]),
    }


def facts(*, compiles: bool = False) -> dict[str, Any]:
    """Everything, for JSON."""
    made = {
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
    if compiles:
        made["compile"] = compile_facts()
    return made


def as_text(found: dict[str, Any]) -> str:
    """A line for each fact."""
    lines = []
    for name, value in found.items():
        if not value:
            lines.append(f"{name}: none")
            continue
        rows = value if isinstance(value, list) else [value]
        for row in rows:
            said = ", ".join(f"{k} {v if v is not None else 'none'}" for k, v in row.items()) if isinstance(row, dict) else row
            lines.append(f"{name}: {said}")
    return "\n".join(lines)
