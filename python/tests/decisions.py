# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fake layers of an engine, and how the scripts *_without_torch.py print what a plug-in decides for them."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace as Names
from typing import Any

from standins import dtypes

from moec.errors import MoecError
from moec.integrations._engine import Choice, Refused

BF16, F16, F32, F8 = (dtypes[name] for name in ("bfloat16", "float16", "float32", "float8_e4m3fn"))
FORCE = Choice(force=True)


def told(call: Callable[..., Any]) -> str:
    try:
        return str(call())
    except Refused as reason:
        return f"refused: {reason}"
    except MoecError as error:
        return f"error: {error}"


def title(text: str) -> None:
    print(f"\n== {text}")


class Differences:
    """Describes the lines of a text that the first text of a group does not have, and the lines that it lacks."""

    def __init__(self) -> None:
        self.first: list[str] = []

    def __call__(self, text: str) -> str:
        lines = text.split("\n")
        if len(lines) == 1:
            return f" {text}"
        first, self.first = self.first, self.first or lines
        if not first:
            return f" {text}"
        more = [line.strip() for line in lines if line not in first]
        words = {line.partition(" ")[0] for line in more}
        less = [line.strip() for line in first if line not in lines]
        less = [line for line in less if line.partition(" ")[0] not in words]
        return "".join(f"\n  {sign} {line}" for sign, group in (("+", more), ("-", less)) for line in group)


def changed(base: Any, path: str, value: Any) -> Any:
    """A copy of nested namespaces in which the dotted path has another value."""
    copy = type(base)(**vars(base))
    first, _, rest = path.partition(".")
    if rest:
        setattr(copy, first, changed(getattr(base, first), rest, value))
    else:
        setattr(copy, first, value)
    return copy


def of_class(name: str, module: str, **values: Any) -> Any:
    made = type(name, (Names,), {"__module__": module})(**values)
    return made


def members(plan: Any) -> str:
    rest = {name: value for name, value in vars(plan).items() if name not in ("scheme", "source")}
    return "\n".join([plan.scheme.name, *(f"    {name} {value}".rstrip() for name, value in {**rest, **plan.source}.items())])


def columns(of: str, changes: dict[str, tuple[Any, ...]]) -> Iterator[tuple[str, str, Any]]:
    yield f"{of}", "", None
    for path, values in changes.items():
        for value in values:
            yield f"{of}, {path} {value}", path, value


class Enumerated:
    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"<{self.value}>"
