# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puts the component `python` of a build, stripped, into the wheel, and names the wheel's platform.

MOEC_BUILD is the folder of the build, else ../build. The component is libmoec.so, libmoec-emulator.so
and the programs that libmoec.so starts. They are the same for every Python, so the wheel is, too.
"""

import os
import pathlib
import platform
import shutil
import subprocess
import tempfile
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The glibc that test/lint/linkage.py holds the library to.
PLATFORM = "manylinux_2_34"
FILES = ("libmoec.so", "libmoec-emulator.so", "moec-run", "moec-opt", "moec-nvrtc", "moec-measure")


class Library(BuildHookInterface[Any]):
    """hatchling calls it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        root = pathlib.Path(self.root)
        build = pathlib.Path(os.environ.get("MOEC_BUILD") or root.parent / "build")
        if not (build / "lib" / "libmoec.so").is_file():
            raise FileNotFoundError(
                f"{build} has no lib/libmoec.so: run ./bootstrap build, or set MOEC_BUILD to the folder of a build"
            )
        self.folder = tempfile.mkdtemp(prefix="moec-wheel-")
        command: list[str | pathlib.Path] = ["cmake", "--install", build, "--component", "python", "--prefix", self.folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        for name in FILES:
            installed = pathlib.Path(self.folder, "moec", name)
            subprocess.run(["strip", "--strip-unneeded", installed], check=True)
            build_data["force_include"][str(installed)] = f"moec/{name}"
        headers = pathlib.Path(self.folder, "moec", "include")
        build_data["force_include"][str(headers)] = "moec/include"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{PLATFORM}_{platform.machine()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "folder", ""), ignore_errors=True)
