# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Imports and replaced methods of a plug-in's files, beside the parts that the plug-in says that it uses."""

import ast
import inspect
import pathlib
from typing import Any

import moec.integrations
from moec.integrations._surface import Surface

FOLDER = pathlib.Path(moec.integrations.__file__).parent


def imported(package: str) -> set[str]:
    """module.name of all that the plug-in's files import."""
    found = set()
    for path in FOLDER.glob(f"_{package}_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
                found |= {f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Import):
                found |= {each.name for each in node.names if each.name.split(".")[0] == package}
    return found


def unlisted_imports(package: str, surface: Surface) -> list[str]:
    """Imports that no part of the surface is, or is below."""
    places = [each.place for each in surface.used]
    return sorted(
        name for name in imported(package) if not any(place == name or place.startswith(f"{name}.") for place in places)
    )


def names_of(function: Any) -> tuple[str, ...]:
    function = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
    function = function.fget if isinstance(function, property) else function
    return tuple(name for name in inspect.signature(function).parameters if name not in ("self", "cls"))


def unlisted_methods(surface: Surface, base: type, made: type) -> list[str]:
    """Methods and properties that moec puts in place of the base's, which the surface lacks or has with other parameters."""
    listed = {each.place: each.takes for each in surface.used}
    found = []
    for name, value in vars(made).items():
        replaces = hasattr(base, name) and (inspect.isfunction(value) or isinstance(value, (staticmethod, classmethod, property)))
        owner = next((each for each in base.__mro__ if name in vars(each)), object)
        if not replaces or owner is object or name == "__init__":
            continue
        if inspect.isfunction(value) and inspect.Parameter.VAR_POSITIONAL in {
            each.kind for each in inspect.signature(value).parameters.values()
        }:
            continue  # it hands on whatever it gets
        takes = listed.get(f"{base.__module__}.{base.__name__}.{name}")
        if takes is None or takes != names_of(value):
            found.append(f"{name}{names_of(value)}: the surface has {takes}")
    return found
