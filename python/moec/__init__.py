# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec: a compiler for Mixture-of-Experts (MoE) layers.

compile() compiles the description of a layer to kernels, load() loads them, and Package.layer() packs the weights. The resulting
layer is called with arrays. Submodules and the native library are loaded on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from moec._library import get_include as get_include
    from moec._library import get_library as get_library
    from moec._tune import Tuned as Tuned
    from moec._tune import TunedTokens as TunedTokens
    from moec._tune import tune as tune
    from moec._warmup import Warmup as Warmup
    from moec._warmup import warmup as warmup
    from moec.arrays import from_bfloat16 as from_bfloat16
    from moec.arrays import to_bfloat16 as to_bfloat16
    from moec.checkpoint import Checkpoint as Checkpoint
    from moec.comm import Communicator as Communicator
    from moec.compiler import Files as Files
    from moec.compiler import catalog as catalog
    from moec.compiler import compile as compile
    from moec.compiler import explain as explain
    from moec.compiler import families as families
    from moec.compiler import supports as supports
    from moec.errors import Capturing as Capturing
    from moec.errors import CompileFailed as CompileFailed
    from moec.errors import ContextInUse as ContextInUse
    from moec.errors import DamagedPackage as DamagedPackage
    from moec.errors import DeviceLimit as DeviceLimit
    from moec.errors import DriverFailed as DriverFailed
    from moec.errors import FileSystemError as FileSystemError
    from moec.errors import InternalError as InternalError
    from moec.errors import Interrupted as Interrupted
    from moec.errors import InvalidArgument as InvalidArgument
    from moec.errors import InvalidManifest as InvalidManifest
    from moec.errors import Misaligned as Misaligned
    from moec.errors import MoecError as MoecError
    from moec.errors import NoCommunication as NoCommunication
    from moec.errors import NoCompiler as NoCompiler
    from moec.errors import NoDriver as NoDriver
    from moec.errors import NoMatchingTarget as NoMatchingTarget
    from moec.errors import NotSupported as NotSupported
    from moec.errors import PeerLost as PeerLost
    from moec.errors import PeerMismatch as PeerMismatch
    from moec.errors import Reason as Reason
    from moec.errors import StrictMiss as StrictMiss
    from moec.errors import TooManyTokens as TooManyTokens
    from moec.errors import WorkspaceTooSmall as WorkspaceTooSmall
    from moec.layer import Context as Context
    from moec.layer import Layer as Layer
    from moec.package import Package as Package
    from moec.package import Value as Value
    from moec.package import Variant as Variant
    from moec.package import load as load
    from moec.report import Report as Report
    from moec.report import Support as Support

# Maps each submodule to its public names.
_HOMES = {
    "arrays": ("from_bfloat16", "to_bfloat16"),
    "checkpoint": ("Checkpoint",),
    "comm": ("Communicator",),
    "compiler": ("Files", "catalog", "compile", "explain", "families", "supports"),
    "errors": (
        "Capturing",
        "CompileFailed",
        "ContextInUse",
        "DamagedPackage",
        "DeviceLimit",
        "DriverFailed",
        "FileSystemError",
        "InternalError",
        "Interrupted",
        "InvalidArgument",
        "InvalidManifest",
        "Misaligned",
        "MoecError",
        "NoCommunication",
        "NoCompiler",
        "NoDriver",
        "NoMatchingTarget",
        "NotSupported",
        "PeerLost",
        "PeerMismatch",
        "Reason",
        "StrictMiss",
        "TooManyTokens",
        "WorkspaceTooSmall",
    ),
    "layer": ("Context", "Layer"),
    "package": ("Package", "Value", "Variant", "load"),
    "report": ("Report", "Support"),
    "_library": ("get_include", "get_library"),
    "_tune": ("Tuned", "TunedTokens", "tune"),
    "_warmup": ("Warmup", "warmup"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'moec' has no attribute '{name}'")
    made = getattr(importlib.import_module(f"moec.{_HOME_OF[name]}"), name)
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOME_OF))
