# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parameters of functions that `moec bench` calls in other systems, as peer_signatures.json records them.

    python peer_signatures.py NAME=FOLDER ...

writes the records of these names anew from unpacked wheels, or from an engine's source. Tests of the systems bind each call to a
record. MOEC_TEST_PEERS=NAME=FOLDER,... lets a test compare the records with the folders.
"""

import ast
import inspect
import json
import pathlib
import sys
import types
from collections.abc import Callable
from typing import Any

RECORD = pathlib.Path(__file__).with_suffix(".json")
MOE = "sglang/srt/layers/moe"
SGLANG = {
    f"{MOE}/moe_runner/triton_utils/fused_moe.py": ("fused_moe",),
    f"{MOE}/moe_runner/base.py": ("MoeRunnerConfig",),
    f"{MOE}/topk.py": ("fused_topk", "StandardTopKOutput"),
}
OGS = {
    "triton_kernels/matmul_ogs.py": ("matmul_ogs", "FusedActivation", "PrecisionConfig"),
    "triton_kernels/topk.py": ("topk",),
    "triton_kernels/tensor.py": ("wrap_torch_tensor", "convert_layout"),
    "triton_kernels/tensor_details/layout.py": (
        "make_default_matmul_mxfp4_w_layout",
        "make_default_matmul_mxfp4_w_scale_layout",
    ),
}
SPECS, RAGGED = ("FnSpecs",), ("make_ragged_tensor_metadata",)
ROUTED = ("RoutingData", "GatherIndx", "ScatterIndx")
# The files that define what the systems import from them or from a module that hands it on.
FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "sglang 0.5.17": SGLANG,
    "sglang 0.5.23": SGLANG,
    "flashinfer 0.7.4": {
        "flashinfer/fused_moe/core.py": ("cutlass_fused_moe", "trtllm_fp8_block_scale_moe"),
        "flashinfer/fused_moe/prepare.py": (
            "interleave_moe_weights_for_sm90_mixed_gemm",
            "interleave_moe_scales_for_sm90_mixed_gemm",
        ),
        "flashinfer/autotuner/autotuner.py": ("autotune",),
    },
    "triton_kernels 3.5": {
        **OGS,
        "triton_kernels/matmul_ogs.py": (*OGS["triton_kernels/matmul_ogs.py"], *SPECS),
        "triton_kernels/routing.py": ("routing", *ROUTED),
    },
    "triton_kernels 3.6": {
        **OGS,
        "triton_kernels/matmul_ogs.py": (*OGS["triton_kernels/matmul_ogs.py"], *ROUTED),
        "triton_kernels/specialize.py": SPECS,
        "triton_kernels/tensor_details/ragged_tensor.py": RAGGED,
    },
    "triton_kernels 3.8": {
        "triton_kernels/matmul.py": ("matmul", "FusedActivation", "PrecisionConfig"),
        "triton_kernels/specialize.py": SPECS,
        "triton_kernels/tensor_details/ragged_tensor.py": RAGGED,
        **{file: names for file, names in OGS.items() if file != "triton_kernels/matmul_ogs.py"},
    },
}


def _of_function(node: ast.FunctionDef) -> list[str]:
    given = node.args
    plain = [*given.posonlyargs, *given.args]
    first = len(plain) - len(given.defaults)
    words = [f"{each.arg}{'=' if at >= first else ''}" for at, each in enumerate(plain)]
    if given.vararg or given.kwonlyargs:
        words.append(f"*{given.vararg.arg if given.vararg else ''}")
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    words += [f"{each.arg}{'=' if default else ''}" for each, default in named]
    return [*words, f"**{given.kwarg.arg}"] if given.kwarg else words


def _of_class(node: ast.ClassDef) -> list[str]:
    """The fields of a dataclass or of a named tuple."""

    def has_default(value: ast.expr | None) -> bool:
        return value is not None and ast.unparse(value) != "field()"

    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return [f"{each.target.id}{'=' if has_default(each.value) else ''}" for each in fields if isinstance(each.target, ast.Name)]


def read(name: str, folder: pathlib.Path) -> dict[str, list[str]]:
    """The record of one system: words by function. A word ends with = if the parameter has a default."""
    made: dict[str, list[str]] = {}
    for file, functions in FILES[name].items():
        nodes = ast.parse((folder / file).read_text(encoding="utf-8")).body
        for node in nodes:
            if isinstance(node, ast.FunctionDef) and node.name in functions:
                made[node.name] = _of_function(node)
            elif isinstance(node, ast.ClassDef) and node.name in functions:
                made[node.name] = _of_class(node)
        if missing := [each for each in functions if each not in made]:
            raise LookupError(f"{folder / file} has no {missing[0]}")
    return made


def records() -> dict[str, dict[str, list[str]]]:
    made: dict[str, dict[str, list[str]]] = json.loads(RECORD.read_text())
    return made


def signature_of(words: list[str]) -> inspect.Signature:
    made: list[inspect.Parameter] = []
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for word in words:
        if word.startswith("**"):
            made.append(inspect.Parameter(word[2:], inspect.Parameter.VAR_KEYWORD))
        elif word.startswith("*"):
            kind = inspect.Parameter.KEYWORD_ONLY
        else:
            made.append(
                inspect.Parameter(word.rstrip("="), kind, default=None if word.endswith("=") else inspect.Parameter.empty)
            )
    return inspect.Signature(made)


def fake(words: list[str], work: Callable[[Any], Any] = lambda given: given) -> Any:
    """A function with recorded parameters. It calls work with the arguments as attributes; None for absent ones."""
    signature = signature_of(words)

    def call(*arguments: Any, **options: Any) -> Any:
        bound = signature.bind(*arguments, **options)
        bound.apply_defaults()
        return work(types.SimpleNamespace(**bound.arguments))

    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def main() -> None:
    made = records() if RECORD.exists() else {}
    for word in sys.argv[1:]:
        name, _, folder = word.partition("=")
        if name not in FILES or not folder:
            sys.exit(f"expected NAME=FOLDER with a name of {', '.join(FILES)}; got {word}")
        made[name] = read(name, pathlib.Path(folder))
    RECORD.write_text(json.dumps({name: made[name] for name in FILES if name in made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
