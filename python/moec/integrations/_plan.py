# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides if moec runs an MoE layer of an engine: the part of the decision that is common to all engines."""

from dataclasses import dataclass
from typing import Any

import torch

from moec.compiler import supports
from moec.integrations._engine import Choice, Engine, Refused
from moec.integrations._schemes import Scheme
from moec.torch.modules import HOST_ARCH

WEIGHT_ONLY = "weight_only"
# The first GPUs with tensor cores for 4-bit floats.
FP4_CAPABILITY = (10, 0)


@dataclass
class Plan:
    """A layer that moec runs."""

    scheme: Scheme
    source: dict[str, Any]
    """The layer JSON, without biases if only the checkpoint determines whether there are any."""
    routes: bool
    """True if moec receives logits and routes. Otherwise the engine routes."""
    realization: str
    never_run: str
    """A sentence if no GPU like the layer's has run kernels of moec, otherwise ""."""
    device: torch.device
    max_tokens: int
    captured_tokens: int
    """The maximum number of tokens of a CUDA graph; 0 without graphs."""


def device_of(given: Any, choice: Choice) -> torch.device:
    """Returns the torch device of a layer, with its index. Raises Refused for a device that moec does not support."""
    device = torch.device(given)
    if device.type not in ("cuda", "cpu") or torch.version.hip is not None:
        raise Refused(f"the device {device}; moec takes GPUs of NVIDIA")
    if device.type == "cpu" and not choice.explicit:
        raise Refused("the processor, on which moec runs only for tests")
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def check_named(scheme: Scheme, choice: Choice, engine: Engine) -> None:
    """Raises Refused for a scheme that the user did not name."""
    if choice.schemes is not None and scheme.name not in choice.schemes:
        raise Refused(f"scheme {scheme.name}, which {engine.variable} does not name")


def allowed(device: torch.device) -> list[str]:
    """Returns the realizations that a device may use although they change the results. On a GPU without tensor cores for 4-bit
    floats, activations may stay unquantized, because the engine does not quantize them either. The library still obeys
    MOEC_EXCLUDE."""
    multiplies = device.type == "cuda" and torch.cuda.get_device_capability(device) >= FP4_CAPABILITY
    return [] if multiplies else [WEIGHT_ONLY]


def kernels_of(source: dict[str, Any], device: torch.device, max_tokens: int, *, leaves_activations: bool = True) -> Any:
    """Returns what moec supports for a layer JSON on a device. `leaves_activations`: the scheme's member of this name."""
    arch = HOST_ARCH if device.type == "cpu" else None
    allow = allowed(device) if leaves_activations else []
    return supports(source, arch=arch, max_tokens=max_tokens, allow=allow)


def takes(scheme: Scheme, realization: str) -> bool:
    """Returns True if moec runs the layer when the environment variable is "1". Kernels of weight-only schemes always convert
    weights."""
    return realization in ("native", WEIGHT_ONLY) or (scheme.weight_only and realization == "dequantized")


def realization_of(found: Any, scheme: Scheme, choice: Choice) -> str:
    """Returns the realization. `found`: the result of kernels_of(). Raises Refused if moec does not run the layer."""
    if not found.ok:
        raise Refused(f"moec has no kernels: {found.reasons[0]}")
    realization = str(found.realization[0])
    if not choice.explicit and not takes(scheme, realization):
        raise Refused(f"scheme {scheme.name}, which moec computes {realization} on this GPU")
    return realization
