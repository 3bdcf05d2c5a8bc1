# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of an engine that a plug-in uses, and whether a version of the engine has it. This imports engines by name."""

import importlib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Used:
    """A module, class, function or value of the engine."""

    module: str
    name: str = ""
    """Dotted, in the module. "": the module itself."""
    given: tuple[str, ...] | None = None
    """The arguments that moec gives to a function, by name; None where moec does not call it."""
    takes: tuple[str, ...] | None = None
    """The parameters with which the engine calls moec's function in place of this one."""
    attributes: tuple[str, ...] = ()
    """The fields, methods and members that moec reads."""
    since: tuple[tuple[str, str], ...] = ()
    """Attributes that older tested versions lack, each with the first tested version that has it."""

    @property
    def place(self) -> str:
        return f"{self.module}.{self.name}" if self.name else self.module

    def reason(self, absent: frozenset[str]) -> str:
        """The part that the engine lacks; "" where it has all. absent: attributes that may be absent."""
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
                continue  # a value, which a property of moec's takes the place of
            if parameters is None:
                return f"{self.place}: expected a function of ({', '.join(expected)}), found {type(found).__name__}"
            if not fits(parameters, expected):
                shown = ", ".join(str(each) for each in parameters.values())
                return f"{self.place}: expected a function of ({', '.join(expected)}), found ({shown})"
        return ""


def _has(owner: Any, name: str) -> bool:
    """A dataclass has its fields without a default, and a class the instance attributes that it declares."""
    if hasattr(owner, name) or name in getattr(owner, "__dataclass_fields__", {}):
        return True
    return inspect.isclass(owner) and any(name in vars(each).get("__annotations__", {}) for each in owner.__mro__)


def _parameters(found: Any) -> dict[str, inspect.Parameter] | None:
    """The parameters of a function, method or property, without their types and without self."""
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    found = found.fget if isinstance(found, property) else found
    if not callable(found):
        return None
    made = inspect.signature(found).parameters
    return {name: each.replace(annotation=inspect.Parameter.empty) for name, each in made.items() if name not in ("self", "cls")}


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _accepts(parameters: dict[str, inspect.Parameter], given: tuple[str, ...]) -> bool:
    """Whether the engine's function takes what moec gives, and needs no more."""
    needed = {name for name, each in parameters.items() if each.default is inspect.Parameter.empty and each.kind not in _VARIABLE}
    return needed <= set(given) <= set(parameters)


def _calls(parameters: dict[str, inspect.Parameter], takes: tuple[str, ...]) -> bool:
    """Whether the engine's function has the very parameters of moec's, in the same order."""
    return tuple(parameters) == takes


@dataclass(frozen=True)
class Surface:
    """All that a plug-in uses of its engine."""

    engine: str
    tested: tuple[str, ...]
    """The versions that the tests ran with, oldest first."""
    used: tuple[Used, ...]
    layer: tuple[str, ...] = ()
    """The attributes of an engine's layer that moec reads."""
    layer_since: tuple[tuple[str, str], ...] = ()
    """As Used.since."""

    def absent(self, since: Iterable[tuple[str, str]], series: str) -> frozenset[str]:
        """The attributes that a tested version came too early for. series: "" for a version that was not tested."""
        if not series:
            return frozenset()
        return frozenset(name for name, first in since if self.tested.index(series) < self.tested.index(first))

    def reason(self, series: str) -> str:
        """The first thing that the engine lacks, as a sentence's part; "" where it has all that moec uses.

        series: the tested version that this one belongs to; "" for another.
        """
        reasons = (each.reason(self.absent(each.since, series)) for each in self.used)
        return next((reason for reason in reasons if reason), "")

    def layer_reason(self, layer: Any, series: str) -> str:
        """The same for the attributes of a layer, which are there once it is made."""
        wanted = (*self.layer, *(name for name, _ in self.layer_since if name not in self.absent(self.layer_since, series)))
        for name in wanted:
            if not hasattr(layer, name):
                kind = type(layer)
                return f"{kind.__module__}.{kind.__name__}.{name}: expected this attribute of a layer, found none"
        return ""
