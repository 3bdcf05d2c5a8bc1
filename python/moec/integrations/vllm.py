# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's plug-in. Importing this module imports neither vllm nor torch; register() does if MOEC_VLLM enables moec."""

import logging

from moec.integrations._engine import Choice, Engine

__all__ = ["Choice", "choice_of", "register"]

# vLLM shows the messages of loggers below its own.
LOGGER = logging.getLogger("vllm.moec")
TESTED = ("0.31", "0.32", "0.33")
ENGINE = Engine("vLLM", "vllm", "MOEC_VLLM", TESTED, LOGGER)
choice_of = ENGINE.choice_of


def register() -> None:
    """Makes vLLM ask moec to run each MoE layer that vLLM creates. vLLM calls it in each of its processes, in some processes
    several times.

    Does nothing unless MOEC_VLLM is set. Raises InvalidArgument for an invalid value. With MOEC_VLLM=force, raises NotSupported
    if vLLM lacks something that moec uses.
    """
    choice = ENGINE.asked()
    if choice is None:
        return
    from moec.integrations._vllm_surface import SURFACE

    if not ENGINE.admits(choice, SURFACE):
        return
    from moec.integrations import _vllm_layer

    _vllm_layer.install(choice)
