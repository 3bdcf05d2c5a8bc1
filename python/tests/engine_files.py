# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python files of inference engines without their compiled extensions and servers, and stand-ins for what is absent."""

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


class Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = type(name, (Nothing,), {"__module__": self.__name__})
        setattr(self, name, made)
        return made


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes modules for names and what is below them."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if any(fullname == name or fullname.startswith(name + ".") for name in self.names):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def prepare(engine: str, variable: str, absent: tuple[str, ...], replaced: tuple[str, ...] = ()) -> str:
    """Makes `import engine` find its files. Returns "" or why they are not there.

    variable: names the folder of the files. absent: packages that may be missing; installed ones win.
    replaced: packages that stand-ins take the place of, even where they are.
    """
    folder = os.environ.get(variable)
    if folder:
        if not (pathlib.Path(folder) / engine / "__init__.py").exists():
            return f"{variable} is {folder}, which has no {engine}; python {engine}_files.py FOLDER makes it"
        if folder not in sys.path:
            sys.path.insert(0, folder)
    elif importlib.util.find_spec(engine) is None:
        return f"{engine} is not installed, and {variable} does not say where its files are"
    if not any(isinstance(each, Finder) and each.names == absent for each in sys.meta_path):
        sys.meta_path.append(Finder(absent))
        sys.meta_path.insert(0, Finder(replaced))
    return ""


def unpack(wheel: pathlib.Path, folder: pathlib.Path, endings: tuple[str, ...]) -> None:
    """The files of a wheel with these endings, and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(endings) or ".dist-info/" in name:
                archive.extract(name, folder)


def download(folder: pathlib.Path, wheel: str, needed: tuple[str, ...], needed_alone: tuple[str, ...]) -> None:
    """Fills a folder from the package index that pip uses. needed_alone: without what they depend on, which is torch."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    with tempfile.TemporaryDirectory() as place:
        subprocess.run([*pip, "download", "--no-deps", "-q", "-d", place, wheel], check=True)
        unpack(next(pathlib.Path(place).glob("*.whl")), folder, (".py", ".json"))
    for packages in (needed, ("--no-deps", *needed_alone)):
        subprocess.run([*pip, "install", "-q", "--upgrade", "--target", str(folder), *packages], check=True)


def main(script: str, engine: str, version: str, needed: tuple[str, ...], needed_alone: tuple[str, ...]) -> None:
    """version: the one to take where the command line names none."""
    if len(sys.argv) not in (2, 3):
        sys.exit(f"usage: python {script} FOLDER [VERSION]")
    folder, *given = sys.argv[1:]
    download(pathlib.Path(folder), f"{engine}=={given[0] if given else version}", needed, needed_alone)
