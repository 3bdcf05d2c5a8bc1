#!/usr/bin/env python3
# ===- peer_files.py - the parts of other systems that moec bench times --------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Unpacks wheels for a machine without network, where `moec bench` times vLLM's kernels, Humming's, SGLang's and those of
triton_kernels, which are in the wheel of sglang-kernel. Of vLLM's wheel it keeps the Python files, two extensions and DeepGEMM; of
sglang-kernel's the extension for --arch. Code for other GPUs becomes zeros, so that vLLM's 300 MB compress to 53 MB.

  pip download --no-deps vllm==0.33.0 humming-kernels [what these need and the machine lacks]
  pip download --no-deps sglang==0.5.17 sglang-kernel==0.4.5 [likewise]
  bench/peers/peer_files.py WHEEL... FOLDER [--arch=90]

There: PYTHONPATH=FOLDER:python python3 -m moec bench LAYER

Extensions of sglang-kernel load with the PyTorch that their SGLang names: 0.4.5 with 2.11."""

import argparse
import dataclasses
import pathlib
import stat
import struct
import sys
import zipfile

MOST_BYTES = 100_000  # larger JSON files are schedules of other layers
# Takes the place of modules that layers import, and of which they use nothing.
STAND_IN = b"""def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *words, **options: None
"""


@dataclasses.dataclass(frozen=True)
class Rules:
    """The files of a wheel that are kept."""

    extensions: tuple[str, ...]
    """Name prefixes of the extensions that are kept. {folder} is the architecture's folder."""
    tuned: str
    """The folder of tuned files. Only the device's files are kept."""
    dropped: tuple[str, ...] = ()
    """Name prefixes of files that layers do not read."""
    pruned: tuple[str, ...] = ()
    """Extensions whose code for other architectures is zeroed."""
    added: tuple[tuple[str, bytes], ...] = ()
    """Files that replace other files, with their content."""


# Its extensions have several hundred MB.
ATTENTION = "vllm/vllm_flash_attn/__init__.py"
EXTENSIONS = ("vllm/_C_stable_libtorch.abi3.so", "vllm/_moe_C_stable_libtorch.abi3.so")
VLLM = Rules(
    (*EXTENSIONS, "vllm/third_party/deep_gemm/"),
    "vllm/model_executor/layers/fused_moe/configs/",
    ("vllm/vllm-rs", "vllm/vllm_flash_attn/", "vllm/third_party/fmha_sm100/", "vllm/third_party/tml_fa4/", "vllm/models/",
     "vllm/kernels/helion/configs/"),
    EXTENSIONS,
    ((ATTENTION, STAND_IN),),
)
# SGLang's MoE imports all its quantization, which needs FlashInfer, and its readers of models, which need one version of transformers.
SGLANG_UNUSED = ("configs/__init__.py", "layers/quantization/__init__.py", "utils/hf_transformers/__init__.py",
                 "utils/hf_transformers_utils.py")
SGLANG = Rules(
    (),
    "sglang/srt/layers/moe/moe_runner/triton_utils/configs/",
    ("sglang/multimodal_gen/", "sglang/test/", "sglang/benchmark/"),
    added=tuple((f"sglang/srt/{name}", STAND_IN) for name in SGLANG_UNUSED),
)
SGLANG_KERNEL = Rules(("sgl_kernel/{folder}/common_ops.",), "")
RULES = {"vllm-": VLLM, "sglang-": SGLANG, "sglang_kernel-": SGLANG_KERNEL}

FATBIN, HEADER = 0xBA55ED50, struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, header bytes, payload bytes, architecture
PTX, CUBIN = 1, 2


def kept(rules, name, size, arch, device):
    """Whether a file of a wheel is one that the layers need. device: of tuned files, H200 say."""
    if name.startswith(rules.dropped):
        return False
    if name.endswith(".so"):
        folder = "sm90" if arch == 90 else "sm100"
        return name.startswith(tuple(each.format(folder=folder) for each in rules.extensions))
    if rules.tuned and name.startswith(rules.tuned):
        return device in name
    return not name.endswith(".json") or size <= MOST_BYTES


def pruned(data, arch):
    """An extension whose fat binaries hold code for one architecture alone: its cubin, or the newest PTX that its driver
    compiles. Sizes and offsets stay as they are."""
    data, place, magic = bytearray(data), 0, struct.pack("<IHH", FATBIN, 1, HEADER.size)
    while (place := data.find(magic, place)) >= 0:
        entry = place + HEADER.size
        end, entries = entry + HEADER.unpack_from(data, place)[3], []
        while entry < end:
            kind, _, header, size, its = ENTRY.unpack_from(data, entry)
            entries.append((kind, its, entry + header, size))
            entry += header + size
        newest = max((its for kind, its, _, _ in entries if kind == PTX and its <= arch), default=None)
        stays = (CUBIN, arch) if any(each[:2] == (CUBIN, arch) for each in entries) else (PTX, newest)
        for kind, its, start, size in entries:
            if (kind, its) != stays:
                data[start:start + size] = bytes(size)
        place = end
    return bytes(data)


def unpack(wheel, folder, arch, device):
    rules = next((rules for prefix, rules in RULES.items() if wheel.name.startswith(prefix)), None)
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            name = entry.filename
            if entry.is_dir() or (rules and not kept(rules, name, entry.file_size, arch, device)):
                continue
            data = archive.read(name)
            write(folder / name, pruned(data, arch) if rules and name in rules.pruned else data)
            # Humming starts programs that are in its wheel.
            if entry.external_attr >> 16 & stat.S_IXUSR:
                (folder / name).chmod(0o755)
    for name, data in rules.added if rules else ():
        write(folder / name, data)


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", type=pathlib.Path, nargs="+", metavar="WHEEL")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--arch", type=int, default=90, help="the architecture whose code stays")
    parser.add_argument("--device", default="H200", help="the GPU whose tuned files stay")
    options = parser.parse_args()
    if wrong := [str(each) for each in options.wheels if not zipfile.is_zipfile(each)]:
        parser.error(f"expected wheels, got {wrong[0]}")
    for wheel in options.wheels:
        unpack(wheel, options.folder, options.arch, options.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
