# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The systems that moec bench times, each a row of SYSTEMS."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from moec.bench.case import Case, Inputs, Tensor, Weights

Run: TypeAlias = Callable[[Inputs], Tensor]
"""Computes the output, bf16 [tokens, H], from one run's inputs."""


class Unfit(Exception):
    """The reason why a system does not compute a layer, in one line."""


def function_of(package: Any, module: str, name: str, *parameters: str) -> Any:
    """Returns a function or a class of an installed package. Raises a one-line ImportError with the package's version if this
    version has no such module, name or parameter."""
    import importlib
    import inspect

    version = getattr(package, "__version__", "of an unknown version")
    place, folder = f"{package.__name__} {version}", next(iter(package.__path__))
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        # Keeps the message about another missing package.
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ImportError(f"{place} has no {error.name} ({folder})") from None
    if found is None:
        raise ImportError(f"{place} has no {module}.{name} ({folder})")
    known = inspect.signature(found).parameters
    if missing := [each for each in parameters if each not in known]:
        raise ImportError(f"{place} has no {missing[0]}= in {module}.{name}() ({folder})")
    return found


@dataclasses.dataclass(frozen=True)
class System:
    """A way to compute a layer on this machine."""

    name: str
    what: str
    """A short description of the kernels."""
    schemes: tuple[str, ...]
    module: str
    """The module that implements the system, imported only if the system is selected. It has version(), and a dictionary `runs`
    of functions that create a Run from Weights, by the system's name."""

    def version(self) -> str:
        """Returns the version. Raises ImportError if the system is not installed."""
        return str(self._module().version())

    def refusal(self, case: Case) -> str:
        """Returns why the system does not support the layer, or ""."""
        return "" if case.scheme in self.schemes else f"no layers of {case.scheme}"

    def run_of(self, weights: Weights) -> Run:
        """Converts the weights to the system's layout and returns the Run. Raises Unfit."""
        made: Run = self._module().runs[self.name](weights)
        return made

    def _module(self) -> Any:
        import importlib

        return importlib.import_module(f"moec.bench.systems.{self.module}")


SYSTEMS = (
    System("torch", "torch._grouped_mm and torch._scaled_grouped_mm", ("bf16", "fp8_channel"), "of_torch"),
    System("transformers", "its experts by grouped_mm", ("bf16",), "of_transformers"),
    System("vllm", "Triton fused_moe", ("bf16", "fp8_block", "fp8_channel", "int8_channel", "int4_w4a16"), "of_vllm"),
    System("marlin", "Marlin of vLLM", ("int4_w4a16", "mxfp4_w4a16", "nvfp4_w4a16"), "of_vllm"),
    System("deepgemm", "DeepGEMM of vLLM", ("fp8_block",), "of_vllm"),
    System("cutlass", "CUTLASS of vLLM", ("fp8_channel",), "of_vllm"),
    System(
        "humming",
        "Humming, with vLLM's alignment",
        ("fp8_block", "fp8_channel", "int4_w4a16", "mxfp4_w4a16", "mxfp4_fp8_block", "nvfp4_w4a16"),
        "of_humming",
    ),
    System("sglang", "Triton fused_moe of SGLang", ("bf16", "fp8_block", "fp8_channel", "int4_w4a16"), "of_sglang"),
    System("flashinfer", "CUTLASS of FlashInfer", ("bf16", "fp8_block", "mxfp4_w4a16"), "of_flashinfer"),
    System("trtllm", "trtllm-gen of FlashInfer", ("fp8_block",), "of_flashinfer"),
    System("triton_kernels", "triton_kernels of Triton", ("bf16", "mxfp4_w4a16"), "of_triton_kernels"),
)
