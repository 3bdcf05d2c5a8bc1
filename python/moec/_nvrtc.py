# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finds NVRTC in installed Python packages. The library itself searches CUDA toolkits and the loader's path."""

import importlib.util
import os
import pathlib
import re

from moec import _gpu

# Folders with the CUDA major version, newest first: nvidia-cuda-nvrtc, nvidia-cuda-nvrtc-cu12. A driver loads cubins of its own
# major version and of older ones.
PLACES = (("cu13/lib", 13), ("cuda_nvrtc/lib", 12))


def folders_of_packages() -> list[pathlib.Path]:
    """Returns all folders of the namespace package nvidia in this interpreter, without importing it."""
    try:
        found = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return [pathlib.Path(path) for path in (found.submodule_search_locations or ())] if found else []


def find_nvrtc() -> pathlib.Path | None:
    """Returns the newest libnvrtc.so.N of an installed package that the driver supports.

    Returns None if no such library is installed, or if MOEC_NVRTC_PATH names a library.
    """
    if os.environ.get("MOEC_NVRTC_PATH"):
        return None
    newest = _gpu.driver_version()
    for place, major in PLACES:
        if newest and major > newest[0]:
            continue
        for folder in folders_of_packages():
            # Excludes libnvrtc.alt.so.13.
            found = sorted(path for path in (folder / place).glob("libnvrtc.so.*") if re.search(rf"\.so\.{major}$", path.name))
            if found:
                return found[-1]
    return None
