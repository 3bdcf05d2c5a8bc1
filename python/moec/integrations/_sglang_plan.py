# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides if moec runs an MoE layer of SGLang, and creates the layer JSON of the part that this rank computes."""

from dataclasses import dataclass
from typing import Any

import torch
from sglang.srt.layers.moe.utils import get_moe_a2a_backend, get_moe_runner_backend
from sglang.srt.runtime_context import get_exec, get_lora, get_parallel, get_schedule, get_spec

from moec.integrations._engine import Choice, Refused
from moec.integrations._packing import ACTIVATION_SCALES
from moec.integrations._plan import Plan as EnginePlan
from moec.integrations._plan import check_named, device_of, kernels_of, realization_of
from moec.integrations._sglang_schemes import intermediate_of, scheme_of
from moec.integrations.sglang import ENGINE
from moec.torch.functional import rank_of
from moec.torch.modules import NAMES_OF_TYPES

# More rows are split into several runs, which limits the workspace of a run.
MOST_TOKENS = 16384


@dataclass
class Plan(EnginePlan):
    """A layer of SGLang that moec runs."""

    factor: float = 1.0
    """A factor of the sum over experts that SGLang's runner or router applies."""
    expert_map: torch.Tensor | None = None
    """The local index of each expert, or -1; None without expert parallelism. SGLang's dispatcher returns local expert
    ids, so the map is the identity for local experts."""


def _refuse_features(layer: Any) -> None:
    """Raises Refused for features that moec does not support within SGLang."""
    config, moe, overlap, offload = layer.moe_runner_config, get_exec().moe, get_exec().overlap, get_exec().offload
    transport = get_moe_a2a_backend().value
    if type(layer).__name__ != "FusedMoE":
        raise Refused(f"the class {type(layer).__name__} of experts; moec takes FusedMoE")
    for refused, reason in (
        (transport != "none", f"the transport {transport}; moec takes none"),
        (get_lora().enable_lora or get_lora().lora_paths, "LoRA adapters"),
        (moe.ep_num_redundant_experts and not moe.enable_eplb, "redundant experts without expert-parallel load balancing (EPLB)"),
        (
            moe.init_expert_location not in (None, "trivial") and not moe.enable_eplb,
            "experts in another order than the model's, without expert-parallel load balancing (EPLB)",
        ),
        (moe.elastic_ep_backend is not None or moe.ep_join_mode == "scale", "elastic expert parallelism"),
        (layer.num_fused_shared_experts, "shared experts among the routed ones; start with --disable-shared-experts-fusion"),
        (config.no_combine, "experts whose results are not summed"),
        (config.silu_mul_keep_fp32, "an activation whose result stays in f32"),
        (overlap.enable_two_batch_overlap or overlap.enable_single_batch_overlap, "micro-batches that overlap"),
        (offload.cpu_offload_gb > 0 or offload.offload_group_size > 0, "weights that are offloaded to the processor's memory"),
        (get_parallel().dwdp_size > 1, "weights of other ranks that are fetched ahead (DWDP)"),
        (layer.supports_deferred_finalize, "a sum over experts that is left to the model"),
    ):
        if refused:
            raise Refused(reason)


def balances() -> bool:
    """Returns True if SGLang moves experts between ranks while the server runs (EPLB)."""
    return bool(get_exec().moe.enable_eplb)


def _activation(config: Any) -> dict[str, Any]:
    """Returns the activation and its parameters, as SGLang's Triton runner derives them from a MoeRunnerConfig."""
    name, alpha, limit = config.activation, config.gemm1_alpha, config.gemm1_clamp_limit
    plain = alpha is None and limit is None and config.swiglu_limit is None
    if not config.is_gated:
        names = {"silu": "silu_no_mul", "gelu": "gelu_no_mul", "relu2": "relu2_no_mul"}
        if name in names and plain:
            return {"activation": names[name]}
    elif config.gemm1_beta is not None:
        raise Refused(f"gemm1_beta {config.gemm1_beta}, which SGLang's Triton runner does not use")
    elif name == "silu" and alpha is not None and limit is not None and config.swiglu_limit is None:
        order = {"gate_up_order": "interleaved"} if config.gate_up_interleaved else {}
        made = {"swiglu_alpha": float(alpha), "swiglu_limit": float(limit), "swiglu_beta": 1.0}
        return {"activation": "swigluoai_uninterleave", **made, **order}
    elif name == "silu" and alpha is None and limit is not None and config.swiglu_limit is None:
        return {"activation": "swiglustep", "swiglu_limit": float(limit)}
    elif name == "silu" and alpha is None and limit is None and config.swiglu_limit is not None:
        return {"activation": "silu", "swiglu_limit": float(config.swiglu_limit)}
    elif name == "situ" and config.swiglu_limit is None:
        # A linear beta of 0 leaves the up half unchanged.
        beta = {"activation_situ_beta": 4.0 if alpha is None else float(alpha), "activation_situ_linear_beta": float(limit or 0)}
        return {"activation": "situ", **beta}
    elif name in ("silu", "gelu", "gelu_tanh") and plain:
        return {"activation": name}
    raise Refused(
        f"the activation {name} with is_gated {config.is_gated}, gemm1_alpha {alpha}, gemm1_clamp_limit {limit} and "
        f"swiglu_limit {config.swiglu_limit}"
    )


def _most_of_graphs() -> int:
    """Returns the maximum number of rows of a rank in a CUDA graph."""
    graphs = get_exec().graph.cuda_graph_config
    if graphs is None:
        return 0
    most = 0
    if graphs.decode.backend != "disabled":
        most = (graphs.decode.max_bs or 0) * (get_spec().speculative_num_draft_tokens or 1)
    if graphs.prefill.backend != "disabled":
        most = max(most, graphs.prefill.max_bs or 0, *(graphs.prefill.bs or [0]))
    return most


def plan_of(layer: Any, method: Any, choice: Choice) -> Plan:
    """Returns how moec runs the layer. Raises Refused with the reason if moec does not run it.

    layer: SGLang's FusedMoE, whose parameters exist but are not loaded.
    method: SGLang's own method.
    """
    config = layer.moe_runner_config
    device = device_of(next(layer.parameters()).device, choice)
    _refuse_features(layer)
    scheme = scheme_of(layer, method, get_moe_runner_backend().value)
    check_named(scheme, choice, ENGINE)
    if balances() and set(ACTIVATION_SCALES) & set(scheme.stored):
        raise Refused("expert-parallel load balancing (EPLB) with stored scales of activations, which differ by rank")
    if layer.params_dtype not in NAMES_OF_TYPES:
        raise Refused(f"activations of {layer.params_dtype}")
    source: dict[str, Any] = {
        "moec_layer": 1,
        "name": "sglang",
        "num_experts": layer.num_experts,
        "top_k": layer.top_k,
        "hidden_size": layer.hidden_size,
        "intermediate_size": intermediate_of(layer, scheme),
        "in_dtype": NAMES_OF_TYPES[layer.params_dtype],
        "has_bias": layer.with_bias,
        "apply_router_weight_on_input": config.apply_router_weight_on_input,
        "routing_method": "custom",
        **_activation(config),
        **scheme.fields,
    }
    expert_map = None
    if layer.moe_ep_size > 1:
        local = layer.num_local_experts
        source |= {"expert_map": True, "moe_parallel_config": rank_of(layer.num_experts, local)}
        expert_map = torch.arange(layer.num_experts, dtype=torch.int32, device=device)
        expert_map[local:] = -1
    ranks = get_parallel().attn_dp_size
    schedule = get_schedule()
    prefill = schedule.chunked_prefill_size if (schedule.chunked_prefill_size or 0) > 0 else schedule.max_prefill_tokens
    captured = _most_of_graphs() * ranks
    max_tokens = max(captured, min((prefill or MOST_TOKENS) * ranks, MOST_TOKENS))
    found = kernels_of(source, device, max_tokens, leaves_activations=scheme.leaves_activations)
    realization = realization_of(found, scheme, choice)
    factor = 1.0 if layer.should_fuse_routed_scaling_factor_in_topk else float(config.routed_scaling_factor or 1.0)
    return Plan(scheme, source, False, realization, found.never_run[0], device, max_tokens, captured, factor, expert_map)
