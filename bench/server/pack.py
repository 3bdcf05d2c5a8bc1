#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs vLLM and the packages that it needs for a machine without network, as archives of at most --part-mb each.

    python3 -m pip freeze > machine.txt                        # on the machine with GPUs
    bench/server/pack.py packed --machine=machine.txt          # here
    for part in packed/*.tar.xz; do tar xJf $part -C site & done; wait      # there

Packages that machine.txt names are not packed, whatever their version. PyTorch must be one that the extensions of this vLLM load
with: 0.33.0 loads with 2.11.

Code for other GPUs in the extensions becomes zeros. Left out are packages that only some models or GPUs need (LEFT_OUT), among
them FlashInfer; engines.py turns off the one part of it that vLLM would import. --nccl adds NCCL: vLLM 0.33 calls functions of
2.29.7, and torch 2.11 comes with 2.28.9.
"""

import argparse
import importlib.metadata
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib

from pip._vendor.packaging.requirements import Requirement

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from peer_files import pruned

LEFT_OUT = (
    "fastsafetensors", "flashinfer-python", "humming-kernels", "instanttensor", "numba", "nvidia-cudnn-frontend",
    "nvidia-cutlass-dsl", "nvtx", "pynvvideocodec", "quack-kernels", "tilelang", "tokenspeed-mla", "torch", "torchaudio",
    "torchcodec", "torchvision",
)  # fmt: skip
# Prefixes of files that no run of a MoE model on a Hopper GPU reads.
DROPPED = (
    "vllm/vllm-rs", "vllm/vllm_flash_attn/_vllm_fa2_C", "vllm/third_party/fmha_sm100", "vllm/third_party/tml_fa4",
    "vllm/kernels/helion/configs", "vllm/_qutlass_C", "vllm/_flashkda_C", "mistral_common/data", "pycountry/locales", "bin/",
)  # fmt: skip
NCCL = "libnccl.so.2"
DROPPED_ENDINGS = (".pyc", ".pyi", ".a")
TUNED = "vllm/model_executor/layers/fused_moe/configs/"
# pip compares names of platforms, not versions of glibc.
GLIBC = range(5, 36)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class Wheels:
    """Installs wheels of another machine's Python into a folder, with what they need and the machine lacks."""

    def __init__(self, site: pathlib.Path, python: str, present: set[str]) -> None:
        platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in GLIBC]
        platforms += [f"--platform=manylinux{year}_x86_64" for year in ("1", "2014")]
        self.site, self.absent = site, {*present, *LEFT_OUT}
        self.options = [f"--python-version={python}", "--implementation=cp", "--only-binary=:all:", *platforms]
        self.machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
        self.machine |= {"platform_system": "Linux", "platform_machine": "x86_64", "platform_python_implementation": "CPython"}
        self.seen: dict[str, Requirement] = {}

    def install(self, place: pathlib.Path, *requirements: str) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
        command += ["--no-compile", "--no-deps", f"--target={place}", *self.options]
        subprocess.run([*command, *requirements], check=True)

    def needed(self, requirement: Requirement) -> list[Requirement]:
        """Returns what an installed package needs on the machine, with the extras that the requirement names."""
        metadata = importlib.metadata.Distribution.at(self._info(normalized(requirement.name)))
        found = [Requirement(line) for line in metadata.requires or ()]
        extras = ["", *requirement.extras]
        return [
            each for each in found if not each.marker or any(each.marker.evaluate(self.machine | {"extra": e}) for e in extras)
        ]

    def _info(self, name: str) -> pathlib.Path:
        (info,) = [each for each in self.site.glob("*.dist-info") if normalized(each.name.split("-")[0]) == name]
        return info

    def install_all(self, first: Requirement) -> dict[str, str]:
        """Returns the versions of what was installed, by name. pip's resolver would download PyTorch to read what it needs."""
        waiting = [first]
        while waiting:
            level = {normalized(each.name): each for each in waiting if normalized(each.name) not in {*self.absent, *self.seen}}
            if level:
                # pip would replace folders that packages of two levels share, such as opentelemetry.
                with tempfile.TemporaryDirectory(dir=self.site.parent) as place:
                    self.install(pathlib.Path(place), *(f"{each.name}{each.specifier}" for each in level.values()))
                    shutil.copytree(place, self.site, dirs_exist_ok=True)
            self.seen |= level
            waiting = [more for each in level.values() for more in self.needed(each)]
        return {name: importlib.metadata.Distribution.at(self._info(name)).version for name in self.seen}


def prune(site: pathlib.Path, arch: int, device: str) -> None:
    for path in sorted(each for each in site.rglob("*") if each.is_file()):
        name = path.relative_to(site).as_posix()
        tuned_for_others = name.startswith(TUNED) and name.endswith(".json") and device not in name
        if name.startswith(DROPPED) or name.endswith(DROPPED_ENDINGS) or tuned_for_others:
            path.unlink()
        elif (name.startswith("vllm/") and name.endswith(".so")) or path.name == NCCL:
            path.write_bytes(pruned(path.read_bytes(), arch))


def write_parts(site: pathlib.Path, out: pathlib.Path, most_bytes: int) -> None:
    """Writes archives that can be unpacked in parallel. NCCL has its own, because one GPU does not need it. Sizes are zlib's,
    which are larger than xz's."""
    sizes = {path: len(zlib.compress(path.read_bytes(), 6)) + 512 for path in site.rglob("*") if path.is_file()}
    nccl = [path for path in sizes if path.name == NCCL]
    parts: list[list[pathlib.Path]] = []
    left: list[int] = []
    for path in sorted(sizes.keys() - nccl, key=lambda path: (-sizes[path], path)):
        index = next((i for i, room in enumerate(left) if room >= sizes[path]), len(parts))
        if index == len(parts):
            parts.append([])
            left.append(most_bytes)
        parts[index].append(path)
        left[index] -= sizes[path]
    named = {f"server-{index + 1}": paths for index, paths in enumerate(parts)} | ({"nccl": nccl} if nccl else {})
    for name, paths in named.items():
        part = out / f"{name}.tar.xz"
        with tarfile.open(part, "w:xz", preset=6) as archive:
            for path in sorted(paths):
                archive.add(path, path.relative_to(site).as_posix())
        print(f"{part}: {part.stat().st_size / 1e6:.1f} MB, {len(paths)} files", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--machine", type=pathlib.Path, required=True, help="packages that the machine has, one per line")
    parser.add_argument("--vllm", default="0.33.0", help="version of vLLM")
    parser.add_argument("--nccl", default="", help="version of nvidia-nccl-cu13 to add; default: none")
    parser.add_argument("--python", default="3.12", help="version of the machine's Python")
    parser.add_argument("--arch", type=int, default=90, help="the architecture whose code stays")
    parser.add_argument("--device", default="H200", help="the GPU whose tuned files stay")
    parser.add_argument("--part-mb", type=float, default=40, help="upper bound of an archive [MB]")
    options = parser.parse_args()
    lines = [line.split("#")[0].strip() for line in options.machine.read_text().splitlines()]
    names = [re.match(r"[\w.-]+", line) for line in lines if line]
    if not names or None in names:
        parser.error("--machine: expected lines that begin with the name of a package, as pip freeze prints them")
    present = {normalized(each[0]) for each in names if each}
    site = options.out / "site"
    shutil.rmtree(options.out, ignore_errors=True)
    site.mkdir(parents=True)
    wheels = Wheels(site, options.python, present)
    found = wheels.install_all(Requirement(f"vllm=={options.vllm}"))
    if options.nccl:
        with tempfile.TemporaryDirectory() as place:
            wheels.install(pathlib.Path(place), f"nvidia-nccl-cu13=={options.nccl}")
            (library,) = pathlib.Path(place).rglob(NCCL)
            shutil.copy2(library, site / library.name)
    prune(site, options.arch, options.device)
    print(f"{len(found)} packages: " + " ".join(f"{name}=={version}" for name, version in sorted(found.items())), flush=True)
    write_parts(site, options.out, int(options.part_mb * 1e6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
