# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Describes an inference engine that moec has a plug-in for: its environment variable, versions and log. This module imports
neither an engine nor torch."""

import atexit
import importlib.metadata
import logging
import os
import pathlib
import re
import sys
import tempfile
from dataclasses import dataclass

from moec.errors import InvalidArgument, NotSupported
from moec.integrations._surface import Surface


class Refused(Exception):
    """Raised with the reason why a layer stays with the engine."""


@dataclass(frozen=True)
class Choice:
    """The parsed value of the environment variable that enables moec."""

    force: bool = False
    """True if a layer that moec does not support is an error."""
    schemes: frozenset[str] | None = None
    """The schemes for which moec may be used. None: all schemes."""

    @property
    def explicit(self) -> bool:
        """True if the user has named what moec must run. moec then accepts any realization."""
        return self.force or self.schemes is not None


@dataclass(frozen=True)
class Engine:
    """The names and versions of an engine."""

    name: str
    """The name as users write it."""
    distribution: str
    """The name of its Python package."""
    variable: str
    """The environment variable that enables moec."""
    tested: tuple[str, ...]
    """The versions that the tests ran with, oldest first. "0.33" stands for 0.33.0 and its patch releases."""
    logger: logging.Logger

    def choice_of(self, text: str | None) -> Choice | None:
        """Parses a value of the variable; returns None for an unset or empty one.

        Raises InvalidArgument for an unknown value.
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

    def version(self) -> str:
        """Returns the version of the installed engine."""
        return importlib.metadata.version(self.distribution)

    def series_of(self, version: str) -> str:
        """Returns the tested version series that `version` belongs to, or ""."""
        # Matches releases, post-releases and builds. Release candidates and development versions have different code.
        found = re.fullmatch(r"(\d+(?:\.\d+)*)(?:\.post\d+)?(?:\+.*)?", version)
        release = found.group(1) if found else ""
        return next((each for each in self.tested if release == each or release.startswith(each + ".")), "")

    def untested(self, version: str) -> str:
        """Returns a clause for a message if no test ran with `version`; "" for a tested one."""
        if self.series_of(version):
            return ""
        tested = self.tested[0] if len(self.tested) == 1 else f"{self.tested[0]} to {self.tested[-1]}"
        return f"moec was tested with {self.name} {tested}, and this is {self.name} {version}"

    def asked(self) -> Choice | None:
        """Returns the choice that the environment variable makes, or None. Raises InvalidArgument for an invalid value."""
        return self.choice_of(os.environ.get(self.variable))

    def admits(self, choice: Choice, surface: Surface) -> bool:
        """Returns True if the engine has everything that the plug-in uses, whatever its version, and logs what moec does.

        Raises NotSupported if the engine lacks something and the user forces moec.
        """
        version = self.version()
        untested = self.untested(version)
        lacking = surface.reason(self.series_of(version))
        if lacking:
            reason = f"{self.name} {version}: {lacking}" + (f"; {untested}" if untested else "")
            if choice.force:
                raise NotSupported(f"{self.variable}=force: {reason}")
            self._first("moec runs no layer: %s", reason, level=logging.WARNING)
            return False
        if (
            self._first(
                "moec is on (%s=%s). Lines that name another MoE backend come before moec takes a layer",
                self.variable,
                os.environ.get(self.variable),
            )
            and untested
        ):
            self.logger.warning("%s, which has what moec uses: moec supports it", untested)
        return True

    @property
    def _reason_variable(self) -> str:
        return f"{self.variable}_REASON_FILE"

    def _first(self, message: str, *arguments: object, level: int = logging.INFO) -> bool:
        """Logs a message, but only in the first process of a server. This process sets a variable, which its child processes
        inherit, to the path of the file for the reason of a failure. Returns True in the first process."""
        if os.environ.get(self._reason_variable):
            return False
        number, path = tempfile.mkstemp(prefix="moec-")
        os.close(number)
        os.environ[self._reason_variable] = path
        atexit.register(_say_reason, pathlib.Path(path), os.getpid())
        self.logger.log(level, message, *arguments)
        return True

    def refuse_or_leave(self, choice: Choice, layer: str, reason: Refused) -> str:
        """Returns the reason as a text. Raises NotSupported if the user forces moec."""
        if choice.force:
            text = f"{self.variable}=force: moec cannot run layer {layer}: {reason}"
            path = pathlib.Path(os.environ.get(self._reason_variable, os.devnull))
            if path.exists():
                path.write_text(text)
            raise NotSupported(text)
        return str(reason)


def _say_reason(path: pathlib.Path, process: int) -> None:
    """Prints the last line of a server's first process, after the tracebacks of the engine. Does nothing in a forked child."""
    if os.getpid() != process:
        return
    reason = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    if reason:
        print(reason, file=sys.stderr)
