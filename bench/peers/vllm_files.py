#!/usr/bin/env python3
# ===- vllm_files.py - the part of vLLM that moec bench times ------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Unpacks wheels for a machine without network, where `moec bench` times vLLM's kernels and Humming's. Of vLLM's wheel it keeps
the Python files, two extensions and DeepGEMM; code for other GPUs becomes zeros, so that 300 MB compress to 53 MB.

  pip download --no-deps vllm==0.33.0 humming-kernels [vLLM's needs that the machine lacks]
  bench/peers/vllm_files.py WHEEL... FOLDER [--arch=90]

There: PYTHONPATH=FOLDER:python python3 -m moec bench LAYER"""

import argparse
import pathlib
import struct
import sys
import zipfile

EXTENSIONS = ("vllm/_C_stable_libtorch.abi3.so", "vllm/_moe_C_stable_libtorch.abi3.so")
DEEP_GEMM = "vllm/third_party/deep_gemm/"
# Layers read none of these.
DROPPED = ("vllm/vllm-rs", "vllm/vllm_flash_attn/", "vllm/third_party/fmha_sm100/", "vllm/third_party/tml_fa4/", "vllm/models/",
           "vllm/kernels/helion/configs/")
TUNED = "vllm/model_executor/layers/fused_moe/configs/"
MOST_BYTES = 100_000  # larger JSON files are schedules of other layers
# vLLM's layers import its attention. The stand-in takes the place of its extensions, which have several hundred MB.
ATTENTION = "vllm/vllm_flash_attn/__init__.py"
STAND_IN = b"""def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *words, **options: None
"""

FATBIN, HEADER = 0xBA55ED50, struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, header bytes, payload bytes, architecture
PTX, CUBIN = 1, 2


def kept(name, size, device):
    """Whether a file of vLLM's wheel is one that the layers need. device: of tuned files, H200 say."""
    if name.startswith(DROPPED):
        return False
    if name.endswith(".so"):
        return name in EXTENSIONS or name.startswith(DEEP_GEMM)
    if name.startswith(TUNED):
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
    with zipfile.ZipFile(wheel) as archive:
        of_vllm = wheel.name.startswith("vllm-")
        for entry in archive.infolist():
            name = entry.filename
            if entry.is_dir() or (of_vllm and not kept(name, entry.file_size, device)):
                continue
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = archive.read(name)
            path.write_bytes(pruned(data, arch) if name in EXTENSIONS else data)
    if of_vllm:
        path = folder / ATTENTION
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(STAND_IN)


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
