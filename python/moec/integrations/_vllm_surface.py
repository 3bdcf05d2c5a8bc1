# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of vLLM that the plug-in uses. A test compares them with the imports and with the methods that moec replaces."""

from moec.integrations._surface import Surface, Used
from moec.integrations.vllm import TESTED

_FUSED = "vllm.model_executor.layers.fused_moe"
_METHOD = f"{_FUSED}.fused_moe_method_base"
_KERNEL = f"{_FUSED}.modular_kernel"
_EXPERTS_ARGUMENTS = (
    "output", "hidden_states", "w1", "w2", "topk_weights", "topk_ids", "activation", "global_num_experts", "expert_map",
    "a1q_scale", "a2_scale", "workspace13", "workspace2", "expert_tokens_meta", "apply_router_weight_on_input",
)  # fmt: skip
_KERNEL_ARGUMENTS = (
    "hidden_states", "w1", "w2", "topk_weights", "topk_ids", "activation", "global_num_experts", "expert_map",
    "apply_router_weight_on_input", "shared_experts", "shared_experts_input",
)  # fmt: skip


def _method(name: str, *takes: str) -> Used:
    return Used(_METHOD, f"FusedMoEMethodBase.{name}", takes=takes)


def _experts(name: str, *takes: str) -> Used:
    return Used(_KERNEL, f"FusedMoEExpertsModular.{name}", takes=takes)


SURFACE = Surface(
    "vLLM",
    TESTED,
    (
        # Functions and classes that moec replaces.
        Used(f"{_FUSED}.routed_experts", "RoutedExperts._get_quant_method", takes=("prefix", "quant_config", "moe_config")),
        Used(_METHOD, "FusedMoEMethodBase"),
        Used(f"{_FUSED}.routed_experts", "RoutedExperts.get_expert_weights", takes=()),
        Used("vllm.distributed.eplb.eplb_state", "EplbState.add_model"),
        _method("apply", "layer", "x", "topk_weights", "topk_ids", "shared_experts", "shared_experts_input"),
        _method("apply_monolithic", "layer", "x", "router_logits", "input_ids"),
        _method(
            "maybe_roundup_sizes", "hidden_size", "intermediate_size_per_partition", "act_dtype", "moe_parallel_config"
        ),
        _method("get_fused_moe_quant_config", "layer"),
        _method("process_weights_after_loading", "layer"),
        _method("is_monolithic"),
        _method("supports_eplb"),
        _method("supports_pre_processed_weights"),
        _method("supports_internal_mk"),
        _method("topk_indices_dtype"),
        _method("skip_forward_padding"),
        _method("has_unpadded_output"),
        Used(_KERNEL, "FusedMoEExpertsModular"),
        _experts("__init__", "moe_config", "quant_config", "max_num_tokens", "num_dispatchers"),
        _experts("expects_unquantized_inputs"),
        _experts("activation_format"),
        _experts("_supports_current_device"),
        _experts("_supports_no_act_and_mul"),
        _experts("_supports_quant_scheme", "weight_key", "activation_key"),
        _experts("_supports_activation", "activation"),
        _experts("_supports_parallel_config", "moe_parallel_config"),
        _experts("_supports_batch_invariance"),
        _experts("moe_problem_size", "a1", "w1", "w2", "topk_ids"),
        _experts(
            "workspace_shapes", "M", "N", "K", "topk", "global_num_experts", "local_num_experts", "expert_tokens_meta",
            "activation",
        ),
        _experts("finalize_weight_and_reduce_impl"),
        _experts("apply", *_EXPERTS_ARGUMENTS),
        # Functions that moec calls.
        Used(_KERNEL, "FusedMoEKernel", given=("prepare_finalize", "fused_experts")),
        Used(_KERNEL, "FusedMoEKernel.apply", given=_KERNEL_ARGUMENTS),
        Used(_KERNEL, "FusedMoEActivationFormat", attributes=("Standard", "BatchedExperts")),
        Used(f"{_FUSED}.topk_weight_and_reduce", "TopKWeightAndReduceDelegate", given=()),
        Used(f"{_FUSED}.topk_weight_and_reduce", "TopKWeightAndReduceNoOP", given=()),
        Used(
            f"{_FUSED}.all2all_utils", "maybe_make_prepare_finalize",
            given=("moe", "quant_config", "routing_tables", "allow_new_interface"),
        ),
        Used(
            f"{_FUSED}.all2all_utils", "maybe_roundup_layer_hidden_size",
            given=("hidden_size", "act_dtype", "moe_parallel_config"),
        ),
        Used("vllm.config", "get_current_vllm_config", given=()),
        Used("vllm.distributed.parallel_state", "get_ep_group", given=()),
        Used("vllm.forward_context", "get_forward_context", given=()),
        Used("vllm.model_executor.model_loader.reload.layerwise", "get_layerwise_info", given=("layer",)),
        Used(
            "vllm.model_executor.model_loader.reload.types",
            "LayerReloadingInfo",
            attributes=("can_load", "load_numel", "load_numel_total", "loaded_weights"),
        ),
        Used("vllm.model_executor.utils", "is_weights_pre_processed", given=()),
        Used("vllm.platforms", "current_platform.is_cuda", given=()),
        Used("vllm.platforms", "current_platform.is_cpu", given=()),
        # Values that moec reads.
        Used(f"{_FUSED}.routed_experts", "RoutedExperts", attributes=("weight_loader", "_expert_routing_tables", "expert_map")),
        Used(f"{_FUSED}.config", "FUSED_MOE_UNQUANTIZED_CONFIG"),
        Used(
            f"{_FUSED}.config", "FusedMoEConfig",
            attributes=(
                "_defer_moe_finalize", "activation", "activation_situ_beta", "activation_situ_linear_beta", "device",
                "has_bias", "has_hash_routing", "hidden_dim", "in_dtype", "intermediate_pad",
                "intermediate_size_per_partition", "is_act_and_mul", "is_lora_enabled", "max_capture_size",
                "max_num_tokens", "moe_parallel_config", "num_experts", "num_local_experts", "num_logical_experts",
                "routing_method", "swiglu_alpha", "swiglu_beta", "swiglu_limit", "tp_shard_with_padding",
            ),
            since=(("require_decomposed_backend", "0.33"),),
        ),
        Used(
            f"{_FUSED}.config", "FusedMoEParallelConfig",
            attributes=(
                "all2all_backend", "dp_size", "enable_eplb", "ep_size", "pcp_size", "sp_size", "use_all2all_kernels", "use_ep",
            ),
            since=(("use_passthrough_all2all", "0.32"),),
        ),
        Used("vllm.config", "ParallelConfig", attributes=("enable_elastic_ep", "use_ubatching")),
        Used("vllm.config", "VllmConfig", attributes=("aux_output_config", "offload_config", "parallel_config")),
        Used("vllm.model_executor.models.interfaces", "MixtureOfExperts", attributes=("expert_weights", "moe_layers")),
        Used("vllm.envs", attributes=("VLLM_BATCH_INVARIANT", "VLLM_MOE_ROUTING_SIMULATION_STRATEGY")),
    ),
    layer=(
        "_expert_map", "_loaded_expert_biases", "activation", "apply_router_weight_on_input",
        "custom_routing_function", "e_score_correction_bias", "expert_map_manager", "expert_placement_strategy",
        "global_num_experts", "layer_name", "local_num_experts", "moe_config", "num_expert_group", "params_dtype",
        "routed_scaling_factor", "scoring_func", "swiglu_alpha", "swiglu_beta", "swiglu_limit", "top_k", "topk_group",
        "use_grouped_topk",
    ),
    layer_since=(("routing_sink", "0.32"),),
)  # fmt: skip
