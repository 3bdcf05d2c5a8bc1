# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plug-in of vLLM that adds the load format `random_weights`: parameters with random values of a useful size, the same in each
run. vLLM's own `dummy` leaves integers as the allocator gave them, and makes fp8 weights that are nearly all zero."""

import hashlib
from typing import Any

FORMAT = "random_weights"


def fill(name: str, x: Any) -> None:
    """Fills the parameter `name` in place. Scales are constant, so that outputs stay in range."""
    import torch

    seed = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    random, leaf = torch.Generator(device=x.device).manual_seed(seed), name.rsplit(".", 1)[-1]
    if x.dtype == torch.float8_e4m3fn:
        # One matrix at a time: normal values need four times its memory.
        for matrix in x.flatten(0, -3) if x.dim() > 2 else [x]:
            matrix.copy_((torch.randn(matrix.shape, generator=random, device=x.device) * 100).clamp(-448, 448))
    elif x.dtype == torch.uint8:
        # Scales of 2^-7.
        x.fill_(120) if "scale" in leaf else x.random_(0, 256, generator=random)
    elif x.dtype == torch.int32 and "packed" in leaf:
        x.random_(-(2**31), 2**31 - 1, generator=random)
    elif not x.is_floating_point():
        return
    elif "scale_inv" in leaf:
        x.fill_(0.01 * (x.shape[-1] * 128) ** -0.5)
    elif "scale" in leaf:
        x.fill_(0.005)
    elif x.dim() == 1 or leaf.endswith("bias"):
        x.normal_(0.0 if leaf.endswith(("bias", "sinks")) else 1.0, 0.05, generator=random)
    else:
        x.normal_(0.0, 1.0 if "embed" in name else x.shape[-1] ** -0.5, generator=random)


def register() -> None:
    """vLLM calls this in each of its processes."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    class RandomLoader(BaseModelLoader):  # type: ignore[misc]
        def download_model(self, model_config: Any) -> None:
            pass

        def load_weights(self, model: Any, model_config: Any) -> None:
            for name, parameter in model.named_parameters():
                fill(name, parameter.data)

    register_model_loader(FORMAT)(RandomLoader)
