# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""SGLang's plug-in. Importing this module imports neither sglang nor torch; register() does, if MOEC_SGLANG asks for moec."""

import logging

from moec.errors import MoecError
from moec.integrations._engine import Choice, Engine

__all__ = ["Choice", "choice_of", "register"]

LOGGER = logging.getLogger("sglang.moec")
ENGINE = Engine("SGLang", "sglang", "MOEC_SGLANG", ((0, 5, 23), (0, 5, 23)), LOGGER)
choice_of = ENGINE.choice_of
version_reason = ENGINE.version_reason


def register() -> None:
    """Makes SGLang's MoE layers ask moec. SGLang calls it in each of its processes.

    It does nothing unless MOEC_SGLANG is set. It ends the process for a wrong value, and with MOEC_SGLANG=force for a version
    of SGLang that was not tested: SGLang catches the exceptions of plug-ins, and would go on without moec.
    """
    try:
        choice = ENGINE.asked()
    except MoecError as error:
        raise SystemExit(str(error)) from None
    if choice is None:
        return
    from moec.integrations import _sglang_layer

    _sglang_layer.install(choice)
