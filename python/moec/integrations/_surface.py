# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Describes the parts of an engine that a plug-in uses, and checks if a version of the engine has them. Engines are imported by
name."""

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Used:
    """A module, class, function or value of the engine that moec uses."""

    module: str
    name: str = ""
    """The dotted name within the module. "": the module itself."""
    given: tuple[str, ...] | None = None
    """The names of the arguments that moec passes to the function; None if moec does not call it."""
    takes: tuple[str, ...] | None = None
    """The parameters with which the engine calls moec's replacement of the function."""
    attributes: tuple[str, ...] = ()
    """The fields, methods and members that moec reads."""
    since: tuple[tuple[str, str], ...] = ()
    """Attributes that older tested versions do not have, each with the first tested version that has it."""

    @property
    def place(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module

    def reason(self, absent: frozenset[str]) -> str:
        """Describes the part that the engine lacks; "" if it has everything. `absent`: attributes that may be missing."""
        try:
            found: Any = importlib.import_module(self.module)
        except ImportError as error:
            return f"{self.module}: expected a module, found none ({error})"
        for part in self.name.split(".") if self.name else ():
            if not _has(found, part):
                return f"{self.place}: expected it in {self.module}, found none"
            found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
        for name in (*self.attributes, *(name for name, _ in self.since if name not in absent)):
            if not _has(found, name):
                return f"{self.place}.{name}: expected this attribute, found none"
        for expected, fits in ((self.given, _accepts), (self.takes, _calls)):
            if expected is None:
                continue
            parameters = _parameters(found)
            if parameters is None and fits is _calls and not expected:
                continue  # a value that a property of moec's class replaces
            if parameters is None:
                return f"{self.place}: expected a function of ({', '.join(expected)}), found {type(found).__name__}"
            if not fits(parameters, expected):
                shown = ", ".join(str(each) for each in parameters.values())
                return f"{self.place}: expected a function of ({', '.join(expected)}), found ({shown})"
        return ""


def _has(owner: Any, name: str) -> bool:
    """Returns True if the owner has the attribute. Fields of a dataclass without a default and declared instance attributes
    count."""
    if hasattr(owner, name) or name in getattr(owner, "__dataclass_fields__", {}):
        return True
    return inspect.isclass(owner) and any(name in vars(each).get("__annotations__", {}) for each in owner.__mro__)


def _parameters(found: Any) -> dict[str, inspect.Parameter] | None:
    """Returns the parameters of a function, method or property, without their types and without self."""
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    found = found.fget if isinstance(found, property) else found
    if not callable(found):
        return None
    made = inspect.signature(found).parameters
    return {name: each.replace(annotation=inspect.Parameter.empty) for name, each in made.items() if name not in ("self", "cls")}


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _accepts(parameters: dict[str, inspect.Parameter], given: tuple[str, ...]) -> bool:
    """Returns True if the engine's function accepts the arguments that moec passes and requires no others."""
    needed = {name for name, each in parameters.items() if each.default is inspect.Parameter.empty and each.kind not in _VARIABLE}
    return needed <= set(given) <= set(parameters)


def _calls(parameters: dict[str, inspect.Parameter], takes: tuple[str, ...]) -> bool:
    """Returns True if the engine's function has exactly the parameters of moec's replacement, in the same order."""
    return tuple(parameters) == takes


@dataclass(frozen=True)
class Surface:
    """All parts of an engine that moec's plug-in uses."""

    engine: str
    tested: tuple[str, ...]
    """The versions that the tests ran with, oldest first."""
    used: tuple[Used, ...]
    layer: tuple[str, ...] = ()
    """The attributes of an engine's layer that moec reads."""
    layer_since: tuple[tuple[str, str], ...] = ()
    """Like Used.since, for the layer's attributes."""

    def absent(self, since: Iterable[tuple[str, str]], series: str) -> frozenset[str]:
        """Returns the attributes that the tested version `series` does not have yet. `series`: "" for a version that was not
        tested."""
        if not series:
            return frozenset()
        return frozenset(name for name, first in since if self.tested.index(series) < self.tested.index(first))

    def reason(self, series: str) -> str:
        """Describes the first part that the engine lacks, as a clause; "" if it has everything that moec uses.

        series: the tested series that the engine's version belongs to; "" if the version was not tested.
        """
        reasons = (each.reason(self.absent(each.since, series)) for each in self.used)
        return next((reason for reason in reasons if reason), "")

    def layer_reason(self, layer: Any, series: str) -> str:
        """Like reason(), for the attributes of a layer, which exist once the layer is created."""
        wanted = (*self.layer, *(name for name, _ in self.layer_since if name not in self.absent(self.layer_since, series)))
        for name in wanted:
            if not hasattr(layer, name):
                kind = type(layer)
                return f"{kind.__module__}.{kind.__name__}.{name}: expected this attribute of a layer, found none"
        return ""
