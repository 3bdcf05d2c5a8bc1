#!/usr/bin/env python3
# ===- peer_files.py - the part of vLLM that peers.py times --------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Unpacks the part of a vLLM wheel that peers.py times: the Triton kernels of fused_moe with their tuned files, the two
extensions, and DeepGEMM. Code for other GPUs becomes zeros in the extensions, so that a folder of 150 MB compresses well.

  pip download --no-deps vllm==0.26.0
  bench/peers/peer_files.py WHEEL FOLDER [--arch=90] [--python=312]

MOEC_PEERS=FOLDER lets peers.py find it. Without the variable it takes an installed vLLM."""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import struct
import sys
import types
import zipfile

VERSION = "0.26.0"
FUSED = "vllm/model_executor/layers/fused_moe/"
FOLDERS = ("vllm/logging_utils/", "vllm/platforms/", "vllm/third_party/deep_gemm/", "vllm/third_party/triton_kernels/",
           "vllm/triton_utils/", "vllm/utils/", "vllm/model_executor/layers/quantization/utils/")
FILES = ("vllm/_custom_ops.py", "vllm/envs.py", "vllm/logger.py", "vllm/scalar_type.py", "vllm/third_party/__init__.py",
         "vllm/third_party/pynvml.py")
EXTENSIONS = ("vllm/_C_stable_libtorch.abi3.so", "vllm/_moe_C_stable_libtorch.abi3.so")
DEVICES = ("NVIDIA_H100_80GB_HBM3", "NVIDIA_H200")

# Packages whose __init__ would import the server.
BARE = ("vllm", "vllm.model_executor", "vllm.model_executor.layers", "vllm.model_executor.layers.fused_moe",
        "vllm.model_executor.layers.quantization")
# Imported by the kernels' files for type names and for other uses.
ABSENT = ("vllm.config", "vllm.distributed", "vllm.forward_context", "vllm.model_executor.layers.fused_moe.runner",
          "vllm.model_executor.parameter", "vllm.model_executor.utils", "vllm.plugins", "vllm.utils.flashinfer", "vllm.v1")

FATBIN, HEADER = 0xBA55ED50, struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, bytes of the header, bytes behind it, architecture
CUBIN = 2


def kept(name, python):
    """Whether a file of the wheel is one that the layers need."""
    if name in FILES or name in EXTENSIONS or ".dist-info/METADATA" in name:
        return True
    if name.startswith(FUSED + "configs/"):
        return any(f"device_name={device}{end}" in name for device in DEVICES for end in (",", ".json"))
    if name.startswith(FUSED):
        return name.count("/") == FUSED.count("/") and name.endswith(".py")
    if name.endswith(".so"):
        return name.startswith("vllm/third_party/deep_gemm/") and f"cpython-{python}-" in name
    return name.startswith(FOLDERS) and name.endswith((".py", ".h", ".hpp", ".cuh", ".inl"))


def pruned(data, arch):
    """An extension whose fat binaries hold cubins of one architecture alone. Sizes and offsets stay as they are."""
    data, place, magic = bytearray(data), 0, struct.pack("<IHH", FATBIN, 1, HEADER.size)
    while (place := data.find(magic, place)) >= 0:
        entry = place + HEADER.size
        end = entry + HEADER.unpack_from(data, place)[3]
        while entry < end:
            kind, _, header, size, its = ENTRY.unpack_from(data, entry)
            if (kind, its) != (CUBIN, arch):
                data[entry + header:entry + header + size] = bytes(size)
            entry += header + size
        place = end
    return bytes(data)


def unpack(wheel, folder, arch, python):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if kept(name, python):
                data = archive.read(name)
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(pruned(data, arch) if name in EXTENSIONS else data)


class Any(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, _):
        return cls

    __ror__ = __or__


class Nothing(metaclass=Any):
    """A class of an absent module. It can be named, subclassed and called, and does nothing."""

    def __init__(self, *_, **__):
        pass

    def __class_getitem__(cls, _):
        return cls

    def __call__(self, *words, **__):
        return words[0] if len(words) == 1 and callable(words[0]) else self


class Absent(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if any(fullname == name or fullname.startswith(name + ".") for name in ABSENT):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        pass


def find():
    """The folder that holds vllm, and "" or why there is none."""
    named = os.environ.get("MOEC_PEERS")
    if named:
        folder = pathlib.Path(named).resolve()
        missing = "" if (folder / FUSED / "fused_moe.py").is_file() else f"MOEC_PEERS is {named}, which has no vllm; peer_files.py makes it"
        return folder, missing
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.origin:
        return None, "vLLM is not installed, and MOEC_PEERS does not say where its files are"
    return pathlib.Path(spec.origin).parents[1], ""


def version(folder):
    return next((path.name.removeprefix("vllm-").removesuffix(".dist-info") for path in folder.glob("vllm-*.dist-info")), "unknown")


def prepare():
    """Makes the modules of vLLM's kernels importable without its server. Returns its version; raises ImportError."""
    folder, missing = find()
    if missing:
        raise ImportError(missing)
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    # Float scales, as moec and the checkpoints have them.
    os.environ.setdefault("VLLM_USE_DEEP_GEMM_E8M0", "0")
    sys.path.insert(0, str(folder))
    sys.meta_path.insert(0, Finder())
    for name in BARE:
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*name.split(".")))]
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    sys.modules["vllm"].__version__ = version(folder)
    sys.modules["vllm.model_executor.layers.fused_moe"].get_config = lambda: None
    import vllm.plugins

    vllm.plugins.load_plugins_by_group = lambda _: {}
    import vllm.platforms
    import vllm.platforms.cuda

    vllm.platforms.current_platform = vllm.platforms.cuda.CudaPlatform()
    return version(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--arch", type=int, default=90, help="the architecture whose cubins stay")
    parser.add_argument("--python", default="312", help="the Python of DeepGEMM's extension")
    options = parser.parse_args()
    if f"-{VERSION}-" not in options.wheel.name:
        parser.error(f"expected a wheel of vLLM {VERSION}, got {options.wheel.name}")
    unpack(options.wheel, options.folder, options.arch, options.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
