# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's plug-in. Importing this module imports neither sglang nor torch; register() does if MOEC_SGLANG enables moec."""

import logging

from moec.errors import MoecError
from moec.integrations._engine import Choice, Engine

__all__ = ["Choice", "choice_of", "register"]

LOGGER = logging.getLogger("sglang.moec")
TESTED = ("0.5.23",)
ENGINE = Engine("SGLang", "sglang", "MOEC_SGLANG", TESTED, LOGGER)
choice_of = ENGINE.choice_of


def register() -> None:
    """Makes SGLang ask moec to run each MoE layer that SGLang creates. SGLang calls it in each of its processes.

    Does nothing unless MOEC_SGLANG is set. Ends the process for an invalid value, and with MOEC_SGLANG=force if SGLang lacks
    something that moec uses. It does not raise, because SGLang catches the exceptions of plug-ins and would continue without
    moec.
    """
    try:
        choice = ENGINE.asked()
        if choice is None:
            return
        from moec.integrations._sglang_surface import SURFACE

        if not ENGINE.admits(choice, SURFACE):
            return
    except MoecError as error:
        raise SystemExit(str(error)) from None
    from moec.integrations import _sglang_layer

    _sglang_layer.install(choice)
