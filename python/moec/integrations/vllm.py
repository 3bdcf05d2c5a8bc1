# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""vLLM's plug-in. Importing this module imports neither vllm nor torch; register() does, if MOEC_VLLM asks for moec."""

import logging

from moec.integrations._engine import Choice, Engine

__all__ = ["Choice", "choice_of", "register"]

# vLLM shows the messages of loggers below its own.
LOGGER = logging.getLogger("vllm.moec")
ENGINE = Engine("vLLM", "vllm", "MOEC_VLLM", ((0, 33, 0), (0, 33, 0)), LOGGER)
choice_of = ENGINE.choice_of
version_reason = ENGINE.version_reason


def register() -> None:
    """Makes vLLM's MoE layers ask moec. vLLM calls it in each of its processes, some of them several times.

    It does nothing unless MOEC_VLLM is set. Raises InvalidArgument for a wrong value, and with MOEC_VLLM=force NotSupported
    for a version of vLLM that was not tested.
    """
    choice = ENGINE.asked()
    if choice is None:
        return
    from moec.integrations import _vllm_layer

    _vllm_layer.install(choice)
