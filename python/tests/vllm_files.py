# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's Python files without its compiled extensions and its server: enough for its MoE layers.

    python vllm_files.py FOLDER

downloads the wheel with pip, unpacks the Python files of vLLM and of the packages that its layers need, and drops the rest.
MOEC_TEST_VLLM=FOLDER then lets test_vllm.py and vllm_gpu.py find them. Without the variable they use an installed vLLM.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import zipfile
from collections.abc import Sequence
from typing import Any

VERSION = "0.33.0"
# The layers really use these, beside torch and transformers. pip takes them for the Python that runs this file.
NEEDED = ("cachetools", "cloudpickle", "einops", "loguru", "msgspec", "psutil", "pydantic")
# Without what they depend on, which is torch.
NEEDED_ALONE = ("compressed-tensors==0.17.0",)
# The server's packages and the compiled extensions. Layers import them and use nothing of them.
ABSENT = (
    "aiohttp",
    "blake3",
    "cbor2",
    "fastapi",
    "openai",
    "openai_harmony",
    "opentelemetry",
    "PIL",
    "prometheus_client",
    "pybase64",
    "cpuinfo",
    "requests",
    "starlette",
    "tvm_ffi",
    "uvloop",
    "vllm._C",
    "vllm._C_stable_libtorch",
    "vllm._moe_C",
    "vllm._moe_C_stable_libtorch",
    "vllm._rocm_C",
    "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C",
    "urllib3",
    "partial_json_parser",
    "llguidance",
    "xgrammar",
    "zmq",
)


class _AnyAttribute(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls


class Nothing(metaclass=_AnyAttribute):
    """A class of an absent package. It can be named, subclassed and called, and does nothing."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    def __class_getitem__(cls, key: Any) -> Any:
        return cls

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules for what is absent. It comes last, so installed packages win."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(fullname == name or fullname.startswith(name + ".") for name in ABSENT):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def prepare() -> str:
    """Makes `import vllm` find vLLM. Returns "" or why it is not there."""
    folder = os.environ.get("MOEC_TEST_VLLM")
    if folder:
        if not (pathlib.Path(folder) / "vllm" / "__init__.py").exists():
            return f"MOEC_TEST_VLLM is {folder}, which has no vLLM; python vllm_files.py FOLDER makes it"
        if folder not in sys.path:
            sys.path.insert(0, folder)
    elif importlib.util.find_spec("vllm") is None:
        return "vLLM is not installed, and MOEC_TEST_VLLM does not say where its files are"
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.append(_Finder())
    _answer_no()
    return ""


def _answer_no() -> None:
    """vLLM asks its extension, while it is imported, what its kernels support. Nothing, where there is none."""
    ops: Any = importlib.import_module("vllm._custom_ops")
    if isinstance(sys.modules.get("vllm._C_stable_libtorch"), _Module) or "vllm._C_stable_libtorch" not in sys.modules:
        for name in dir(ops):
            if name.startswith("cutlass_") and "support" in name:
                setattr(ops, name, lambda *arguments, **options: False)


def unpack(wheel: pathlib.Path, folder: pathlib.Path, endings: tuple[str, ...]) -> None:
    """The files of a wheel with these endings, and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(endings) or ".dist-info/" in name:
                archive.extract(name, folder)


def download(folder: pathlib.Path) -> None:
    """Fills a folder from the package index that pip uses."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([*pip, "download", "--no-deps", "-q", "-d", place, f"vllm=={VERSION}"], check=True)
        unpack(next(pathlib.Path(place).glob("vllm-*.whl")), folder, (".py", ".json"))
    for packages in (NEEDED, ("--no-deps", *NEEDED_ALONE)):
        subprocess.run([*pip, "install", "-q", "--upgrade", "--target", str(folder), *packages], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python vllm_files.py FOLDER")
    download(pathlib.Path(sys.argv[1]))
