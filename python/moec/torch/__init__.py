# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers as operations and modules of torch.

torch.ops.moec.run and torch.ops.moec.run_out identify a layer by the number that register() returns. Experts and MoE are modules.
fused_experts() has the signature of vLLM's function.
"""

from moec.torch.functional import fused_experts
from moec.torch.modules import Experts, MoE
from moec.torch.ops import register, release

__all__ = ["Experts", "MoE", "fused_experts", "register", "release"]
