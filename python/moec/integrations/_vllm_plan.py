# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether moec takes a MoE layer of vLLM, and the layer JSON of the part that this rank computes."""

from dataclasses import dataclass
from typing import Any

import torch

from moec.compiler import supports
from moec.integrations._vllm_schemes import Refused, Scheme, scheme_of
from moec.integrations.vllm import Choice
from moec.torch.functional import rank_of
from moec.torch.modules import HOST_ARCH, NAMES_OF_TYPES

# The only transport whose tokens vLLM gathers before it calls a method without a kernel of its own.
GATHERING = "allgather_reducescatter"

# vLLM's classes of experts that differ in loading alone. Others may compute something else.
EXPERTS_CLASSES = ("RoutedExperts", "GptOssRoutedExperts", "DbrxExperts", "TransformersRoutedExperts")


@dataclass
class Plan:
    """A layer that moec takes."""

    scheme: Scheme
    source: dict[str, Any]
    """The layer JSON, without biases where only the checkpoint says whether there are some."""
    routes: bool
    """moec gets logits and routes. Else vLLM routes."""
    realization: str
    device: torch.device
    max_tokens: int
    captured_tokens: int
    """The most tokens of a CUDA graph; 0 without graphs."""


def _device(config: Any) -> torch.device:
    device = torch.device(config.device)
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _refuse_features(layer: Any, engine: Any) -> None:
    """Raises Refused for what moec does not do inside of vLLM."""
    config, parallel = layer.moe_config, layer.moe_config.moe_parallel_config
    if type(layer).__name__ not in EXPERTS_CLASSES:
        raise Refused(f"the class {type(layer).__name__} of experts; moec takes {', '.join(EXPERTS_CLASSES)}")
    manager = layer.expert_map_manager
    transport = parallel.all2all_backend
    offload = getattr(engine, "offload_config", None)
    offloads = offload is not None and (offload.uva.cpu_offload_gb > 0 or offload.prefetch.offload_group_size > 0)
    for refused, reason in (
        (config.is_lora_enabled, "LoRA adapters"),
        (parallel.enable_eplb, "expert-parallel load balancing (EPLB)"),
        (config.num_experts != config.num_logical_experts, "redundant or substituted experts"),
        (manager.num_fused_shared_experts > 0, "shared experts among the routed ones"),
        (engine.parallel_config.use_ubatching, "micro-batches that overlap (DBO)"),
        (engine.parallel_config.enable_elastic_ep, "elastic expert parallelism"),
        (parallel.use_all2all_kernels and transport != GATHERING, f"the transport {transport}; moec takes {GATHERING}"),
        (parallel.use_passthrough_all2all, f"the transport {transport}; moec takes {GATHERING}"),
        (parallel.use_ep and layer._expert_map is None, "expert parallelism without a map of experts"),
        (config.tp_shard_with_padding or config.intermediate_pad is not None, "a padded intermediate size"),
        (offloads, "weights that are offloaded to the processor's memory"),
    ):
        if refused:
            raise Refused(reason)


def _number(name: str, layer: Any, config: Any) -> float | None:
    """A parameter of the activation. vLLM's kernels take the layer's first, then the configuration's."""
    own = getattr(layer, name)
    value = getattr(config, name) if own is None else own
    return None if value is None else float(value)


def _activation(layer: Any) -> dict[str, Any]:
    """The activation and its parameters. vLLM's kernels use some parameters with some activations alone."""
    config = layer.moe_config
    name = config.activation.value
    given = {key: _number(key, layer, config) for key in ("swiglu_limit", "swiglu_alpha", "swiglu_beta")}
    # vLLM's kernels compute with these numbers, whatever the model gives. None: with the model's.
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
        # A linear beta of 0 leaves the up half as it is.
        made["activation_situ_beta"] = config.activation_situ_beta
        made["activation_situ_linear_beta"] = config.activation_situ_linear_beta or 0.0
    if name == "swigluoai":
        made["gate_up_order"] = "interleaved"
    return made


def _routing(layer: Any, engine: Any) -> dict[str, Any] | None:
    """The fields of a routing that moec computes as vLLM does; None where vLLM routes."""
    from vllm import envs

    config = layer.moe_config
    kept = (
        config.require_decomposed_backend
        or config.has_hash_routing
        or layer.custom_routing_function is not None
        or layer.apply_router_weight_on_input
        or envs.VLLM_MOE_ROUTING_SIMULATION_STRATEGY
        or engine.aux_output_config.enable_return_routed_experts
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
        # vLLM ignores groups that do not divide the experts, or have one expert each.
        if method == "DeepSeekV3" and layer.use_grouped_topk and config.num_experts > groups and config.num_experts % groups == 0:
            return made | {"num_expert_group": groups, "topk_group": layer.topk_group}
        if method == "MiniMax2" and not layer.use_grouped_topk:
            return made
    return None


def takes(scheme: Scheme, realization: str) -> bool:
    """Whether MOEC_VLLM=1 takes a layer. Kernels of weight-only schemes convert weights in any case."""
    return realization == "native" or (scheme.weight_only and realization == "dequantized")


def plan_of(layer: Any, method: Any, engine: Any, choice: Choice) -> Plan:
    """How moec takes the layer. Raises Refused with the reason why it does not.

    layer: vLLM's RoutedExperts before it has parameters. method: vLLM's own. engine: vLLM's VllmConfig.
    """
    from vllm import envs

    config, parallel = layer.moe_config, layer.moe_config.moe_parallel_config
    device = _device(config)
    if device.type not in ("cuda", "cpu") or torch.version.hip is not None:
        raise Refused(f"the device {device}; moec takes GPUs of NVIDIA")
    if device.type == "cpu" and not choice.explicit:
        raise Refused("the processor, on which moec runs for tests alone")
    _refuse_features(layer, engine)
    scheme = scheme_of(layer, method)
    if choice.schemes is not None and scheme.name not in choice.schemes:
        raise Refused(f"scheme {scheme.name}, which MOEC_VLLM does not name")
    if config.in_dtype not in NAMES_OF_TYPES:
        raise Refused(f"activations of {config.in_dtype}")
    source: dict[str, Any] = {
        "moec_layer": 1,
        "name": "vllm",
        "num_experts": layer.global_num_experts,
        "experts_per_token": layer.top_k,
        "hidden_dim": config.hidden_dim,
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
    gathered = parallel.dp_size * parallel.pcp_size
    max_tokens = config.max_num_tokens * gathered

    def asked(candidate: dict[str, Any]) -> Any:
        return supports(candidate, arch=HOST_ARCH if device.type == "cpu" else None, max_tokens=max_tokens)

    routing = _routing(layer, engine)
    found = asked(source | routing) if routing else None
    routes = bool(found)
    if routing and routes:
        source |= routing
    else:
        found = asked(source)
    assert found is not None
    if not found.ok:
        raise Refused(f"moec has no kernels: {found.reasons[0]}")
    realization = found.realization[0]
    if not choice.explicit and not takes(scheme, realization):
        raise Refused(f"scheme {scheme.name}, which moec computes {realization} on this GPU")
    captured = min((config.max_capture_size or 0) * gathered, max_tokens)
    return Plan(scheme, source, routes, realization, device, max_tokens, captured)
