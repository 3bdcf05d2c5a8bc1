# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An inference engine that moec has a plug-in for: its variable, its versions, its log. This imports no engine and no torch."""

import importlib.metadata
import logging
import os
import re
from dataclasses import dataclass

from moec.errors import InvalidArgument, NotSupported


class Refused(Exception):
    """Why the engine keeps a layer."""


@dataclass(frozen=True)
class Choice:
    """The meaning of the variable's value."""

    force: bool = False
    """A layer that moec does not take is an error."""
    schemes: frozenset[str] | None = None
    """The schemes to take. None: all."""

    @property
    def explicit(self) -> bool:
        """The user named what moec shall take: it takes it however it computes it."""
        return self.force or self.schemes is not None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


@dataclass(frozen=True)
class Engine:
    """The names of an engine."""

    name: str
    """As its users write it."""
    distribution: str
    """Its package."""
    variable: str
    """The environment variable that asks for moec."""
    tested: tuple[tuple[int, int, int], tuple[int, int, int]]
    """The versions that the tests ran with, both inclusive."""
    logger: logging.Logger

    def choice_of(self, text: str | None) -> Choice | None:
        """The meaning of a value of the variable; None for an unset or empty one.

        Raises InvalidArgument for a value that is none of the accepted ones.
        """
        if not text:
            return None
        if text == "1":
            return Choice()
        if text == "force":
            return Choice(force=True)
        if text.startswith("only="):
            from moec.compiler import catalog

            known = [row["name"] for row in catalog()["schemes"]]
            names = [name.strip() for name in text.removeprefix("only=").split(",")]
            for name in names:
                if name not in known:
                    raise InvalidArgument(
                        f"{self.variable}: expected schemes after 'only=', got '{name}'; schemes are {', '.join(known)}"
                    )
            return Choice(schemes=frozenset(names))
        raise InvalidArgument(f"{self.variable}: expected 1, force or only=SCHEME,SCHEME; got '{text}'")

    def version_reason(self, version: str) -> str:
        """Why moec does not serve a version of the engine; "" where it does."""
        # A release, a post-release or a build of it. Release candidates and development versions are other code.
        found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?(?:\+.*)?", version)
        if found and self.tested[0] <= tuple(map(int, found.groups())) <= self.tested[1]:
            return ""
        first, last = map(_dotted, self.tested)
        tested = first if first == last else f"{first} to {last}"
        return f"moec was tested with {self.name} {tested}, and this is {self.name} {version}"

    def asked(self) -> Choice | None:
        """The choice that the variable asks for; None for nothing, or where this version of the engine is not served.

        Raises InvalidArgument for a wrong value, and with "force" NotSupported for a version that was not tested.
        """
        choice = self.choice_of(os.environ.get(self.variable))
        if choice is None:
            return None
        reason = self.version_reason(importlib.metadata.version(self.distribution))
        if not reason:
            return choice
        if choice.force:
            raise NotSupported(f"{self.variable}=force: {reason}")
        self.logger.warning("moec serves no layer: %s", reason)
        return None

    def refuse_or_leave(self, choice: Choice, layer: str, reason: Refused) -> str:
        """The reason as a text, or NotSupported where the user forces moec."""
        if choice.force:
            raise NotSupported(f"{self.variable}=force: moec cannot serve layer {layer}: {reason}")
        return str(reason)
