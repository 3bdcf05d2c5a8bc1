# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's plug-in. Importing this module imports neither vllm nor torch; register() does, if MOEC_VLLM asks for moec."""

import importlib.metadata
import logging
import os
import re
from dataclasses import dataclass

from moec.errors import InvalidArgument, NotSupported

__all__ = ["Choice", "choice_of", "register"]

VARIABLE = "MOEC_VLLM"
# The versions that the tests ran with, both inclusive.
TESTED = ((0, 33, 0), (0, 33, 0))
# vLLM shows the messages of loggers below its own.
LOGGER = logging.getLogger("vllm.moec")


@dataclass(frozen=True)
class Choice:
    """The meaning of MOEC_VLLM's value."""

    force: bool = False
    """A layer that moec does not take is an error."""
    schemes: frozenset[str] | None = None
    """The schemes to take. None: all."""

    @property
    def explicit(self) -> bool:
        """The user named what moec shall take: it takes it however it computes it."""
        return self.force or self.schemes is not None


def choice_of(text: str | None) -> Choice | None:
    """The meaning of a value of MOEC_VLLM; None for an unset or empty one.

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
                raise InvalidArgument(f"{VARIABLE}: expected schemes after 'only=', got '{name}'; schemes are {', '.join(known)}")
        return Choice(schemes=frozenset(names))
    raise InvalidArgument(f"{VARIABLE}: expected 1, force or only=SCHEME,SCHEME; got '{text}'")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def version_reason(version: str) -> str:
    """Why moec does not serve a version of vLLM; "" where it does."""
    # A release, a post-release or a build of it. Release candidates and development versions are other code.
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:\.post\d+)?(?:\+.*)?", version)
    if found and TESTED[0] <= tuple(map(int, found.groups())) <= TESTED[1]:
        return ""
    first, last = map(_dotted, TESTED)
    tested = first if first == last else f"{first} to {last}"
    return f"moec was tested with vLLM {tested}, and this is vLLM {version}"


def register() -> None:
    """Makes vLLM's MoE layers ask moec. vLLM calls it in each of its processes, some of them several times.

    It does nothing unless MOEC_VLLM is set. Raises InvalidArgument for a wrong value, and with MOEC_VLLM=force NotSupported
    for a version of vLLM that was not tested.
    """
    choice = choice_of(os.environ.get(VARIABLE))
    if choice is None:
        return
    reason = version_reason(importlib.metadata.version("vllm"))
    if reason:
        if choice.force:
            raise NotSupported(f"{VARIABLE}=force: {reason}")
        LOGGER.warning("moec serves no layer: %s", reason)
        return
    from moec.integrations import _vllm_layer

    _vllm_layer.install(choice)
