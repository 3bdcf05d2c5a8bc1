# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the experts of transformers models by moec.

Importing this module registers the implementation "moec" of experts:

    import moec.integrations.transformers
    model = AutoModelForCausalLM.from_pretrained(..., experts_implementation="moec")

attach() packs all layers of a model in the memory of its weights. load_experts() loads quantized experts from a checkpoint.
replace_blocks() is attach() for experts and routing, for the blocks of some models; the model's router computes only the logits.
"""

from transformers.integrations.finegrained_fp8 import FP8ExpertsInterface
from transformers.integrations.moe import ExpertsInterface

from moec.integrations.transformers.attach import Report, attach, detach
from moec.integrations.transformers.blocks import replace_blocks
from moec.integrations.transformers.checkpoint import load_experts
from moec.integrations.transformers.prepared import NAME, experts_forward

__all__ = ["Report", "attach", "detach", "load_experts", "register", "replace_blocks"]


def register() -> None:
    """Registers "moec" in transformers' interfaces of experts. Importing this module calls it."""
    for interface in (ExpertsInterface, FP8ExpertsInterface):
        interface.register(NAME, experts_forward)


register()
