# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The parts of SGLang that the plug-in uses. A test compares them with the imports and with the methods that moec replaces."""

from moec.integrations._surface import Surface, Used
from moec.integrations.sglang import TESTED

_MOE = "sglang.srt.layers.moe"
_LAYER = f"{_MOE}.fused_moe_triton.layer"
_METHOD = "sglang.srt.layers.quantization.base_config"

SURFACE = Surface(
    "SGLang",
    TESTED,
    (
        # Functions and classes that moec replaces.
        Used(_METHOD, "FusedMoEMethodBase"),
        Used(_METHOD, "FusedMoEMethodBase.apply", takes=("layer", "dispatch_output")),
        Used(_METHOD, "FusedMoEMethodBase.get_moe_runner_backend", takes=("layer",)),
        Used(_METHOD, "FusedMoEMethodBase.process_weights_after_loading", takes=("layer",)),
        Used(_METHOD, "FusedMoEMethodBase.restore_weights_before_loading", takes=("layer",)),
        Used(_METHOD, "FusedMoEMethodBase.get_triton_quant_info", takes=("layer",)),
        Used(
            "sglang.srt.eplb.expert_location_updater", "ExpertLocationUpdater.update",
            takes=(
                "routed_experts_weights_of_layer", "new_expert_location_metadata", "update_layer_ids", "nnodes", "rank",
                "use_flat_topology",
            ),
        ),
        # Functions that moec calls.
        Used(_LAYER, "FusedMoE._set_runner_flags", given=()),
        Used(_LAYER, "FusedMoE._map_global_expert_id_to_local_expert_id", given=("expert_id",)),
        Used(
            _LAYER, "FusedMoE.weight_loader", given=("param", "loaded_weight", "weight_name", "shard_id", "expert_id"),
        ),
        Used(_LAYER, "create_moe_dispatcher", given=("moe_runner_config", "quant_method")),
        Used(f"{_MOE}.token_dispatcher", "StandardCombineInput", given=("hidden_states",)),
        Used(f"{_MOE}.topk", "TopKOutputChecker.format_is_standard", given=("topk_output",)),
        Used("sglang.srt.plugins.hook_registry", "HookRegistry.register", given=("target", "hook", "hook_type")),
        Used("sglang.srt.plugins.hook_registry", "HookRegistry", attributes=("_hooks",)),
        Used("sglang.srt.plugins.hook_registry", "HookType", attributes=("AFTER", "BEFORE")),
        Used(f"{_MOE}.utils", "get_moe_a2a_backend", given=()),
        Used(f"{_MOE}.utils", "get_moe_runner_backend", given=()),
        *(
            Used("sglang.srt.runtime_context", name, given=())
            for name in ("get_exec", "get_lora", "get_parallel", "get_schedule", "get_spec")
        ),
        # Values that moec reads.
        Used(
            f"{_MOE}.moe_runner.base", "MoeRunnerConfig",
            attributes=(
                "activation", "apply_router_weight_on_input", "gate_up_interleaved", "gemm1_alpha", "gemm1_beta",
                "gemm1_clamp_limit", "is_gated", "no_combine", "routed_scaling_factor", "runner_backend", "silu_mul_keep_fp32",
                "swiglu_limit",
            ),
        ),
    ),
    layer=(
        "dispatcher", "hidden_size", "layer_id", "layer_name", "moe_ep_size", "moe_runner_config", "num_experts",
        "num_fused_shared_experts", "num_local_experts", "params_dtype", "quant_method", "runner_backend",
        "should_fuse_routed_scaling_factor_in_topk", "supports_deferred_finalize", "top_k", "with_bias",
    ),
)  # fmt: skip
