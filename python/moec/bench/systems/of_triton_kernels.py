# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Triton's triton_kernels, as the reference implementation of gpt-oss uses it: its routing, a matmul that gathers rows and
applies swiglu, and a matmul that scatters the result rows.

Its interface depends on the version: matmul_ogs and routing (Triton 3.5), matmul_ogs and SparseMatrix (3.6), matmul (3.8).
"""

import importlib.util
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from moec.bench.case import Case, Inputs, Matrix, Tensor, Weights
from moec.bench.systems import Run, Unfit, function_of

NAME, GROUP = "triton_kernels", 32
NO_LIMIT = float("inf")
Route: TypeAlias = Callable[[Tensor], tuple[Any, Any, Any, Any]]
"""Computes the routing data, the gather indices, the scatter indices and the rows' weights from logits."""


def library() -> Any:
    """Returns the installed package, or the copy in vLLM, whose modules also import each other by the name triton_kernels."""
    try:
        return importlib.import_module(NAME)
    except ModuleNotFoundError as error:
        if error.name != NAME:
            raise
    try:
        found = importlib.import_module(f"vllm.third_party.{NAME}")
    except ModuleNotFoundError:
        raise ImportError(f"No module named {NAME!r}, and no vllm.third_party.{NAME}") from None
    sys.modules[NAME] = found
    return found


package = library()


def part(module: str, name: str, *parameters: str) -> Any:
    return function_of(package, f"{NAME}.{module}", name, *parameters)


def interface() -> str:
    """Returns the Triton release that introduced the installed interface."""

    def has(module: str) -> bool:
        return importlib.util.find_spec(f"{NAME}.{module}") is not None

    if has("matmul"):
        return "3.8"
    if has("matmul_ogs"):
        return "3.5" if has("routing") else "3.6"
    place = next(iter(package.__path__))
    raise ImportError(f"{NAME} has neither matmul nor matmul_ogs; PyPI's package of this name is another project ({place})")


release = interface()


def version() -> str:
    part("swiglu", "swiglu_fn")
    return release


def in_turns(rows: Tensor) -> Tensor:
    """Reorders rows [gate, up] to gate, up, gate, up, ..."""
    return rows.unflatten(1, (2, rows.shape[1] // 2)).transpose(1, 2).flatten(1, 2)


def swiglu() -> Any:
    """Returns the activation s * (up + 1), s = silu(gate), for a matmul result whose gate and up columns alternate."""
    home = "matmul" if release == "3.8" else "matmul_ogs"
    specs, fused = part(home, "FnSpecs"), part(home, "FusedActivation")
    words = "swiglu", part("swiglu", "swiglu_fn"), ("alpha", "limit")
    if release == "3.5":
        return fused(specs(*words), (1.0, NO_LIMIT), 2)
    return fused(specs(*words, reduction_n=2), (1.0, NO_LIMIT))


def minus_ones(case: Case, device: Any) -> Tensor:
    """Returns a bias for the columns gate, up, gate, up, ... that turns swiglu's factor up + 1 into up."""
    return torch.tensor((0.0, -1.0), device=device).repeat(case.experts, case.width)


def constrain(capability: tuple[int, int]) -> None:
    """Sets the options of mxfp4 kernels like vLLM and SGLang."""
    details = "matmul_details" if release == "3.8" else "matmul_ogs_details"
    options = {"split_k": 1} if capability[0] == 9 else {"is_persistent": True, "epilogue_subtile": 1}
    part(f"{details}.opt_flags", "update_opt_flags_constraints")(options)


def operand(case: Case, codes: Tensor, scale: Tensor) -> tuple[Any, Any]:
    """Returns the library's weights [E, columns, rows] and precision options."""
    if case.scheme == "bf16":
        return codes.transpose(1, 2), None
    capability = torch.cuda.get_device_capability()
    constrain(capability)
    layout, tensor = (importlib.import_module(f"{NAME}.{module}") for module in ("tensor_details.layout", "tensor"))
    axis = -2 if release == "3.8" else 1
    if capability[0] == 9:
        # Hopper's scale layout needs a multiple of four scale groups per row.
        scale = torch.nn.functional.pad(scale, (0, -scale.shape[-1] % 4))

    def converted(stored: Any, made: Any) -> Any:
        layout_of, options = made if isinstance(made, tuple) else (made, {})
        return tensor.convert_layout(stored, layout_of, **options)

    weight = converted(
        tensor.wrap_torch_tensor(codes.transpose(1, 2), dtype=tensor.FP4), layout.make_default_matmul_mxfp4_w_layout(mx_axis=axis)
    )
    scales = converted(
        tensor.wrap_torch_tensor(scale.transpose(1, 2)),
        layout.make_default_matmul_mxfp4_w_scale_layout(mx_axis=axis, num_warps=8),
    )
    if release == "3.8":
        precision = part("matmul", "PrecisionConfig", "b_mx_scale", "b_microblock_size")
        return weight, precision(b_mx_scale=scales, b_microblock_size=GROUP)
    return weight, part("matmul_ogs", "PrecisionConfig", "weight_scale")(weight_scale=scales)


def route_by_bits(case: Case) -> Route:
    routing = part("routing", "routing", "logits", "n_expts_act")

    def route(logits: Tensor) -> tuple[Any, Any, Any, Any]:
        data, gather, scatter = routing(logits, case.top_k)
        return data, gather, scatter, data.gate_scal

    return route


def route_by_matrix(case: Case) -> Route:
    topk, metadata = part("topk", "topk", "apply_softmax"), part("tensor", "make_ragged_tensor_metadata")

    def route(logits: Tensor) -> tuple[Any, Any, Any, Any]:
        chosen = topk(logits, case.top_k, apply_softmax=True)
        of_rows, of_columns = chosen.mask_metadata.row_sorted_indx, chosen.mask_metadata.col_sorted_indx
        ragged = metadata(chosen.mask_metadata.col_sum, of_rows.shape[0])
        gates = chosen.vals.flatten()[of_columns]
        if release == "3.8":
            return ragged, torch.div(of_columns, case.top_k, rounding_mode="trunc"), of_columns, gates
        data, gather, scatter = (part("matmul_ogs", name) for name in ("RoutingData", "GatherIndx", "ScatterIndx"))
        routed = data(gates, ragged.slice_sizes, case.num_experts, case.top_k, ragged)
        return routed, gather(of_columns, of_rows), scatter(of_rows, of_columns), gates

    return route


def experts(weights: Weights) -> Run:
    case = weights.case
    if case.experts != case.num_experts:
        raise Unfit("only layers with all experts")
    if not case.routes:
        raise Unfit("only layers that route by softmax, top-k and renormalization")
    if case.top_k & (case.top_k - 1):
        raise Unfit("top-k of a power of two only")
    if torch.cuda.get_device_capability() < (9, 0):
        raise Unfit("on sm_90 and newer only")

    def part_of(matrix: Matrix, order: Callable[[Tensor], Tensor]) -> tuple[Any, Any]:
        return operand(case, order(matrix.codes), None if matrix.scale is None else order(matrix.scale))

    (first, first_precision), (second, second_precision) = part_of(weights.first, in_turns), part_of(weights.second, torch.clone)
    bias, activation = minus_ones(case, weights.first.codes.device), swiglu()
    route = (route_by_bits if release == "3.5" else route_by_matrix)(case)

    def by_matmul(inputs: Inputs) -> Tensor:
        ragged, gather, scatter, gates = route(inputs.logits)
        rows = matmul(
            inputs.x, first, bias, a_ragged_metadata=ragged, gather_indx=gather, precision_config=first_precision,
            fused_activation=activation,
        )  # fmt: skip
        rows = matmul(
            rows, second, None, a_ragged_metadata=ragged, scatter_indx=scatter, precision_config=second_precision, gammas=gates
        )
        made: Tensor = rows.view(*inputs.ids.shape, case.hidden).sum(1)
        return made

    def by_matmul_ogs(inputs: Inputs) -> Tensor:
        data, gather, scatter, gates = route(inputs.logits)
        rows = matmul(
            inputs.x, first, bias, data, gather_indx=gather, precision_config=first_precision, fused_activation=activation
        )
        made: Tensor = matmul(rows, second, None, data, scatter_indx=scatter, precision_config=second_precision, gammas=gates)
        return made.view(inputs.x.shape)

    if release == "3.8":
        matmul = part("matmul", "matmul", "a_ragged_metadata", "gather_indx", "scatter_indx", "gammas", "fused_activation")
        return by_matmul
    matmul = part("matmul_ogs", "matmul_ogs", "routing_data", "gather_indx", "scatter_indx", "gammas", "fused_activation")
    return by_matmul_ogs


runs = {"triton_kernels": experts}
