# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compile commands of a build folder, for each source, also where a unity build compiles several as one."""

from __future__ import annotations

import json
import pathlib
import re


def is_unity(source: pathlib.Path) -> bool:
    """Returns true if CMake wrote the source, which includes others."""
    return source.parent.name == "Unity"


def members(source: pathlib.Path) -> list[str]:
    """Returns the sources that a file of a unity build includes, in order; another file is its own only member."""
    return re.findall(r'^#include "(/.*?)"', source.read_text(), re.MULTILINE) if is_unity(source) else [str(source)]


def compile_commands(build: pathlib.Path) -> dict[str, dict[str, str]]:
    """Returns {source: the entry of compile_commands.json that compiles it}."""
    entries = json.loads((build / "compile_commands.json").read_text())
    return {member: entry for entry in entries for member in members(pathlib.Path(entry["file"]))}
