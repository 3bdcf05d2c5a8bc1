# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decides if moec runs an MoE layer of vLLM, and creates the layer JSON of the part that this rank computes."""

from dataclasses import dataclass
from typing import Any

import torch

from moec.integrations._engine import Choice, Refused
from moec.integrations._plan import Plan as EnginePlan
from moec.integrations._plan import check_named, device_of, kernels_of, realization_of
from moec.integrations._vllm_schemes import scheme_of
from moec.integrations.vllm import ENGINE
from moec.torch.functional import rank_of
from moec.torch.modules import NAMES_OF_TYPES

# With this transport, vLLM gathers the tokens before it calls a method that has no kernel of its own.
GATHERING = "allgather_reducescatter"

# The devices whose packages exchange tokens between processes.
MOVING_DEVICES = ("cuda",)

# The transports that need vLLM's modular kernel, and the format of the 16-bit rows that they deliver.
MODULAR = {"deepep_high_throughput": "standard", "deepep_low_latency": "batched"}
TRANSPORTS = (GATHERING, *MODULAR)

# vLLM's classes of experts that differ only in loading. Other classes may compute something else.
EXPERTS_CLASSES = ("RoutedExperts", "GptOssRoutedExperts", "DbrxExperts", "TransformersRoutedExperts")


@dataclass
class Plan(EnginePlan):
    """A layer of vLLM that moec runs."""

    modular: str = ""
    """The format of rows between vLLM's prepare and finalize. "": the runner gathers tokens, or no gathering is needed."""
    weights_on_input: bool = False
    """vLLM's prepare multiplies the activations by the router's weights."""
    moves: bool = False
    """The package gathers tokens and sums outputs, instead of vLLM's runner."""


def _later(owner: Any, name: str) -> Any:
    """Returns an attribute that the oldest tested versions lack, or None. The surface has been checked, so without the attribute
    the feature does not exist either."""
    return getattr(owner, name, None)


def _refuse_features(layer: Any, engine: Any) -> None:
    """Raises Refused for features that moec does not support within vLLM."""
    config, parallel = layer.moe_config, layer.moe_config.moe_parallel_config
    if type(layer).__name__ not in EXPERTS_CLASSES:
        raise Refused(f"the class {type(layer).__name__} of experts; moec takes {', '.join(EXPERTS_CLASSES)}")
    manager = layer.expert_map_manager
    transport, taken = parallel.all2all_backend, f"; moec takes {', '.join(TRANSPORTS)}"
    offload = getattr(engine, "offload_config", None)
    offloads = offload is not None and (offload.uva.cpu_offload_gb > 0 or offload.prefetch.offload_group_size > 0)
    for refused, reason in (
        (config.is_lora_enabled, "LoRA adapters"),
        (
            config.num_experts != config.num_logical_experts and not parallel.enable_eplb,
            "redundant or substituted experts without expert-parallel load balancing (EPLB)",
        ),
        (manager.num_fused_shared_experts > 0, "shared experts among the routed ones"),
        (engine.parallel_config.use_ubatching, "micro-batches that overlap (DBO)"),
        (engine.parallel_config.enable_elastic_ep, "elastic expert parallelism"),
        (parallel.use_all2all_kernels and transport not in TRANSPORTS, f"the transport {transport}{taken}"),
        (_later(parallel, "use_passthrough_all2all"), f"the transport {transport}{taken}"),
        (parallel.use_ep and layer._expert_map is None, "expert parallelism without a map of experts"),
        (config.tp_shard_with_padding or config.intermediate_pad is not None, "a padded intermediate size"),
        (offloads, "weights that are offloaded to the processor's memory"),
    ):
        if refused:
            raise Refused(reason)
    if _format_of(config):
        _refuse_modular(layer, transport)


def _format_of(config: Any) -> str:
    """Returns the format of rows if the transport of a FusedMoEConfig needs vLLM's modular kernel."""
    parallel = config.moe_parallel_config
    return MODULAR.get(parallel.all2all_backend, "") if parallel.use_all2all_kernels else ""


def _refuse_modular(layer: Any, transport: str) -> None:
    """Raises Refused for layers that DeepEP, or vLLM's use of it, cannot deliver to moec."""
    from vllm.model_executor.layers.fused_moe.all2all_utils import maybe_roundup_layer_hidden_size

    config, parallel = layer.moe_config, layer.moe_config.moe_parallel_config
    if config.in_dtype != torch.bfloat16:
        raise Refused(f"the transport {transport} with activations of {config.in_dtype}; expected torch.bfloat16")
    if config.num_experts % parallel.ep_size:
        raise Refused(f"the transport {transport} with {config.num_experts} experts on {parallel.ep_size} ranks")
    if parallel.pcp_size > 1:
        raise Refused(f"the transport {transport} with prefill context parallel")
    padded = maybe_roundup_layer_hidden_size(config.hidden_dim, config.in_dtype, parallel)
    if padded != config.hidden_dim:
        raise Refused(f"the transport {transport}, for which vLLM pads rows of {config.hidden_dim} elements to {padded}")


def _moving(source: dict[str, Any], scheme: Any, layer: Any, device: torch.device) -> dict[str, Any] | None:
    """Returns the layer JSON for all ranks if the package exchanges the tokens itself, or None if vLLM's runner moves them."""
    parallel = layer.moe_config.moe_parallel_config
    fits = (
        device.type in MOVING_DEVICES
        and parallel.use_ep
        and parallel.dp_size > 1
        and parallel.all2all_backend == GATHERING
        # Each rank has its own tokens.
        and parallel.ep_size == parallel.dp_size
        and layer.expert_placement_strategy == "linear"
        # A rank quantizes x before it sends it, and has the stored scales of its own experts only.
        and not {"a1_scale", "a1_second_scale"} & set(scheme.stored)
    )
    if not fits:
        return None
    layout = {"dp_size": parallel.ep_size, "use_ep": True, "all2all_backend": "gather_scatter"}
    return {name: value for name, value in source.items() if name != "expert_map"} | {"moe_parallel_config": layout}


def _number(name: str, layer: Any, config: Any) -> float | None:
    """Returns a parameter of the activation. Like vLLM's kernels, prefers the layer's value to the configuration's."""
    own = getattr(layer, name)
    value = getattr(config, name) if own is None else own
    return None if value is None else float(value)


def _activation(layer: Any) -> dict[str, Any]:
    """Returns the activation and its parameters. vLLM's kernels use some parameters only with certain activations."""
    config = layer.moe_config
    name = config.activation.value
    given = {key: _number(key, layer, config) for key in ("swiglu_limit", "swiglu_alpha", "swiglu_beta")}
    # Values that vLLM's kernels use whatever the model specifies. None: the model's value.
    fixed: dict[str, dict[str, float | None]] = {
        "silu": {"swiglu_limit": None, "swiglu_alpha": 1.0, "swiglu_beta": 0.0},
        "swigluoai": {"swiglu_limit": 7.0, "swiglu_alpha": 1.702, "swiglu_beta": 1.0},
        "swigluoai_uninterleave": {"swiglu_limit": None, "swiglu_alpha": None, "swiglu_beta": None},
        "swiglustep": {"swiglu_limit": 7.0},
    }
    made: dict[str, Any] = {"activation": name}
    for key, value in given.items():
        if value is None:
            continue
        if key not in fixed.get(name, {}):
            raise Refused(f"{key} {value} with the activation {name}, which has none")
        if fixed[name][key] not in (None, value):
            raise Refused(f"{key} {value} with the activation {name}, whose {key} is {fixed[name][key]}")
        if fixed[name][key] is None:
            made[key] = value
    if name == "situ":
        if config.activation_situ_beta is None:
            raise Refused("the activation situ without activation_situ_beta")
        # A linear beta of 0 leaves the up half unchanged.
        made["activation_situ_beta"] = config.activation_situ_beta
        made["activation_situ_linear_beta"] = config.activation_situ_linear_beta or 0.0
    if name == "swigluoai":
        made["gate_up_order"] = "interleaved"
    return made


def _routing(layer: Any, engine: Any) -> dict[str, Any] | None:
    """Returns the fields of a routing method that moec computes like vLLM, or None if vLLM must route."""
    from vllm import envs

    config = layer.moe_config
    kept = (
        _later(config, "require_decomposed_backend")
        or config.has_hash_routing
        or layer.custom_routing_function is not None
        or layer.apply_router_weight_on_input
        or envs.VLLM_MOE_ROUTING_SIMULATION_STRATEGY
        or engine.aux_output_config.enable_return_routed_experts
        # vLLM's router maps ids of logical experts to physical experts, and counts how often each is chosen.
        or config.moe_parallel_config.enable_eplb
    )
    if kept:
        return None
    bias = layer.e_score_correction_bias
    method = config.routing_method.name
    if bias is None and not layer.use_grouped_topk and layer.routed_scaling_factor == 1.0:
        names = {
            "Default": ("softmax", "default"),
            "RenormalizeNaive": ("softmax", "renormalize_naive"),
            "Sigmoid": ("sigmoid", "sigmoid"),
            "SigmoidRenorm": ("sigmoid", "sigmoid_renorm"),
        }
        if method in names and layer.scoring_func == names[method][0]:
            return {"routing_method": names[method][1]}
    if bias is not None and bias.dtype == torch.float32 and layer.scoring_func == "sigmoid":
        made = {"routing_method": "deepseek_v3", "routed_scaling_factor": float(layer.routed_scaling_factor)}
        groups = layer.num_expert_group
        # vLLM ignores groups that do not divide the experts or have one expert each.
        if method == "DeepSeekV3" and layer.use_grouped_topk and config.num_experts > groups and config.num_experts % groups == 0:
            return made | {"num_expert_group": groups, "topk_group": layer.topk_group}
        if method == "MiniMax2" and not layer.use_grouped_topk:
            return made
    return None


def plan_of(layer: Any, method: Any, engine: Any, choice: Choice) -> Plan:
    """Returns how moec runs the layer. Raises Refused with the reason if moec does not run it.

    layer: vLLM's RoutedExperts, before its parameters exist.
    method: vLLM's own method.
    engine: vLLM's VllmConfig.
    """
    from vllm import envs

    config, parallel = layer.moe_config, layer.moe_config.moe_parallel_config
    device = device_of(config.device, choice)
    _refuse_features(layer, engine)
    scheme = scheme_of(layer, method)
    check_named(scheme, choice, ENGINE)
    if config.in_dtype not in NAMES_OF_TYPES:
        raise Refused(f"activations of {config.in_dtype}")
    source: dict[str, Any] = {
        "moec_layer": 1,
        "name": "vllm",
        "num_experts": layer.global_num_experts,
        "top_k": layer.top_k,
        "hidden_size": config.hidden_dim,
        "intermediate_size": -(-config.intermediate_size_per_partition // scheme.multiple) * scheme.multiple,
        "in_dtype": NAMES_OF_TYPES[config.in_dtype],
        "has_bias": config.has_bias,
        "apply_router_weight_on_input": layer.apply_router_weight_on_input,
        "batch_invariant": bool(envs.VLLM_BATCH_INVARIANT),
        "routing_method": "custom",
        **_activation(layer),
        **scheme.fields,
    }
    if parallel.use_ep:
        source |= {"expert_map": True, "moe_parallel_config": rank_of(layer.global_num_experts, layer.local_num_experts)}
    modular = _format_of(config)
    if modular:
        # vLLM's prepare has already multiplied the activations.
        source["apply_router_weight_on_input"] = False
    if modular == "batched":
        del source["expert_map"]
        source["activation_format"] = "batched"
        # Each expert has room for all tokens of all ranks, also in CUDA graphs.
        max_tokens = config.max_num_tokens * parallel.ep_size
        captured = max_tokens if config.max_capture_size else 0
    elif modular:
        # Each rank sends each of its tokens at most once to this rank. vLLM captures no CUDA graphs with this transport.
        max_tokens, captured = -(-config.max_num_tokens // parallel.sp_size) * parallel.ep_size, 0
    else:
        gathered = parallel.dp_size * parallel.pcp_size
        max_tokens = config.max_num_tokens * gathered
        captured = min((config.max_capture_size or 0) * gathered, max_tokens)

    routing = None if modular else _routing(layer, engine)
    leaves = scheme.leaves_activations
    moving = _moving(source, scheme, layer, device)
    moves = moving is not None and bool(kernels_of(moving, device, max_tokens, leaves_activations=leaves))
    if moving and moves:
        source, captured = moving, min(config.max_capture_size or 0, config.max_num_tokens)
    found: Any = kernels_of(source | routing, device, max_tokens, leaves_activations=leaves) if routing else None
    routes = bool(found)
    if routing and routes:
        source |= routing
    else:
        found = kernels_of(source, device, max_tokens, leaves_activations=leaves)
    realization = realization_of(found, scheme, choice)
    on_input = bool(modular and layer.apply_router_weight_on_input)
    return Plan(scheme, source, routes, realization, found.never_run[0], device, max_tokens, captured, modular, on_input, moves)
