# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The families of models that are compared: which block of transformers, made how small, in which variants.

A variant lays keys over the configuration. "a.b" is key b of the object a; "+key" goes into the text of the config alone,
past the configuration class.
"""

import dataclasses
from typing import Any

HIDDEN, INTER = 128, 96
Keys = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Family:
    """One configuration class and its MoE block; names are those of transformers."""

    block: str
    config: str  # the class that the block takes
    architecture: str
    sizes: Keys  # what makes the model small
    variants: dict[str, Keys] = dataclasses.field(default_factory=dict)
    module: str = ""  # of transformers.models, where it is not the family's name
    outer: str = ""  # the configuration class around it
    part: str = "text_config"  # and under which key
    transposed: bool = False  # experts are [experts, k, rows]
    logits: int = 0  # which result of the router
    rounds_scores: bool = False  # scores of the block's type choose experts, not scores of f32
    layer: int | None = None  # asked of moec and of the block
    gain: float = 2.0  # how far activations go beyond limits
    beside: Keys = dataclasses.field(default_factory=dict)  # of the outer class
    small: Keys = dataclasses.field(default_factory=dict)  # of a whole model
    dense: int | None = None  # a layer that transformers builds without experts
    needed: Keys = dataclasses.field(default_factory=dict)  # what the class's default lacks to have experts


def sizes(experts_key: str, **more: Any) -> Keys:
    return {"num_hidden_layers": 4, "hidden_size": HIDDEN, experts_key: 16} | more


DEEPSEEK: dict[str, Keys] = {
    "no-renormalization": {"norm_topk_prob": False},
    "renormalization": {"norm_topk_prob": True},
    "scale-1": {"routed_scaling_factor": 1.0},
    "scale-0.7": {"routed_scaling_factor": 0.7},
    "one-group": {"n_group": 1, "topk_group": 1},
    "groups-4-2": {"n_group": 4, "topk_group": 2},
    "shared-1": {"n_shared_experts": 1},
    "shared-2": {"n_shared_experts": 2},
    "gelu": {"hidden_act": "gelu"},
}
SMALL_MLA = {
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "intermediate_size": 64,
    "vocab_size": 96,
}
SMALL = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 96}
NORM = {"renormalization": {"norm_topk_prob": True}, "no-renormalization": {"norm_topk_prob": False}}
TOPK: dict[str, Keys] = {"top-1": {"num_experts_per_tok": 1}, "top-5": {"num_experts_per_tok": 5}}
ACTS = {"gelu": {"hidden_act": "gelu"}, "gelu-tanh": {"hidden_act": "gelu_pytorch_tanh"}, "relu": {"hidden_act": "relu"}}
OCR: dict[str, Keys] = {
    "groups": {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
    "scale-16": {"routed_scaling_factor": 16.0},
    "shared-1": {"n_shared_experts": 1},
    "gelu": {"hidden_act": "gelu"},
}
SMALL_INKLING2 = {
    **SMALL,
    "unpadded_vocab_size": 96,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 32,
}
STEP_LAYERS = ["dense", "dense", "dense", "sparse"]


def deepseek(prefix: str, architecture: str, experts: str = "n_routed_experts", dense: int | None = 0, **more: Any) -> Family:
    return Family(
        f"{prefix}MoE",
        f"{prefix}Config",
        architecture,
        sizes(experts, moe_intermediate_size=INTER) | {experts: 32},
        {**DEEPSEEK, **TOPK},
        small=SMALL_MLA,
        dense=dense,
        **more,
    )


FAMILIES: dict[str, Family] = {
    "mixtral": Family(
        "MixtralSparseMoeBlock",
        "MixtralConfig",
        "MixtralForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER),
        {**TOPK, **ACTS, "jitter": {"router_jitter_noise": 0.1}},
        small=SMALL,
    ),
    "qwen2_moe": Family(
        "Qwen2MoeSparseMoeBlock",
        "Qwen2MoeConfig",
        "Qwen2MoeForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {
            **NORM,
            **TOPK,
            "shared-3-wide": {"shared_expert_intermediate_size": 3 * INTER},
            "shared-narrow": {"shared_expert_intermediate_size": 48},
            "shared-default": {"shared_expert_intermediate_size": 5632},
            "every-second": {"decoder_sparse_step": 2},
            "dense-first": {"mlp_only_layers": [0]},
        },
        small={**SMALL, "intermediate_size": 64},
    ),
    "qwen3_moe": Family(
        "Qwen3MoeSparseMoeBlock",
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER),
        {**NORM, **TOPK},
        small={**SMALL, "intermediate_size": 64},
    ),
    "qwen3_next": Family(
        "Qwen3NextSparseMoeBlock",
        "Qwen3NextConfig",
        "Qwen3NextForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {
            **NORM,
            **TOPK,
            "shared-2-wide": {"shared_expert_intermediate_size": 2 * INTER},
            "widths-default": {"shared_expert_intermediate_size": 512, "moe_intermediate_size": 512},
        },
        small={
            **SMALL,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
        },
    ),
    "qwen3_vl_moe": Family(
        "Qwen3VLMoeTextSparseMoeBlock",
        "Qwen3VLMoeTextConfig",
        "Qwen3VLMoeForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER),
        {**TOPK},
        outer="Qwen3VLMoeConfig",
    ),
    "qwen3_5_moe": Family(
        "Qwen3_5MoeSparseMoeBlock",
        "Qwen3_5MoeTextConfig",
        "Qwen3_5MoeForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**TOPK, "widths-default": {"shared_expert_intermediate_size": 512, "moe_intermediate_size": 512}},
        outer="Qwen3_5MoeConfig",
    ),
    "qwen3_5_moe_text": Family(
        "Qwen3_5MoeSparseMoeBlock",
        "Qwen3_5MoeTextConfig",
        "Qwen3_5MoeForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {},
        module="qwen3_5_moe",
        small={
            **SMALL,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
        },
    ),
    "gpt_oss": Family(
        "GptOssMLP",
        "GptOssConfig",
        "GptOssForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER),
        {**TOPK, "limit-2": {"swiglu_limit": 2.0}, "alpha-1": {"swiglu_alpha": 1.0}},
        transposed=True,
        gain=6.0,
        small=SMALL,
    ),
    "llama4": Family(
        "Llama4TextMoe",
        "Llama4TextConfig",
        "Llama4ForConditionalGeneration",
        sizes("num_local_experts", num_local_experts=8, intermediate_size=INTER),
        {"top-2": {"num_experts_per_tok": 2}, "every-second": {"interleave_moe_layer_step": 2}},
        outer="Llama4Config",
        transposed=True,
        logits=1,
    ),
    "llama4_text": Family(
        "Llama4TextMoe",
        "Llama4TextConfig",
        "Llama4ForCausalLM",
        sizes("num_local_experts", num_local_experts=8, intermediate_size=INTER),
        {},
        module="llama4",
        transposed=True,
        logits=1,
        small={**SMALL, "intermediate_size_mlp": 64},
    ),
    "deepseek_v2": Family(
        "DeepseekV2Moe",
        "DeepseekV2Config",
        "DeepseekV2ForCausalLM",
        sizes("n_routed_experts", moe_intermediate_size=INTER, num_experts_per_tok=3),
        {
            "groups": {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2},
            "groups-greedy": {"topk_method": "greedy", "n_group": 4, "topk_group": 2},
            "scale-16": {"routed_scaling_factor": 16.0},
            "renormalization": {"norm_topk_prob": True},
            "shared-1": {"n_shared_experts": 1},
            "gelu": {"hidden_act": "gelu"},
        },
        small=SMALL_MLA,
        needed={"num_experts_per_tok": 6},
    ),
    "deepseek_v3": deepseek("DeepseekV3", "DeepseekV3ForCausalLM"),
    "deepseek_v32": deepseek("DeepseekV32", "DeepseekV32ForCausalLM"),
    "glm4_moe": deepseek("Glm4Moe", "Glm4MoeForCausalLM"),
    "glm4_moe_lite": deepseek("Glm4MoeLite", "Glm4MoeLiteForCausalLM"),
    "glm_moe_dsa": deepseek("GlmMoeDsa", "GlmMoeDsaForCausalLM"),
    "glm4v_moe": deepseek("Glm4vMoeText", "Glm4vMoeForConditionalGeneration", outer="Glm4vMoeConfig"),
    "kimi_linear": dataclasses.replace(
        deepseek("KimiLinear", "KimiLinearForCausalLM", "num_experts"),
        small={**SMALL_MLA, "pad_token_id": 0, "linear_head_dim": 16, "linear_num_heads": 4},
    ),
    "kimi_k25": dataclasses.replace(
        deepseek("DeepseekV3", "Kimi_K25ForConditionalGeneration"), module="deepseek_v3", outer="Kimi_K25Config"
    ),
    "axk1": deepseek("AXK1", "AXK1ForCausalLM"),
    "dots1": dataclasses.replace(
        deepseek("Dots1", "Dots1ForCausalLM"),
        sizes=sizes("n_routed_experts", moe_intermediate_size=INTER, num_experts_per_tok=4, n_shared_experts=1)
        | {"n_routed_experts": 32},
        dense=None,
        needed={"n_routed_experts": 128, "num_experts_per_tok": 6},
    ),
    "deepseek_v4": Family(
        "DeepseekV4SparseMoeBlock",
        "DeepseekV4Config",
        "DeepseekV4ForCausalLM",
        sizes("n_routed_experts", num_hidden_layers=5, moe_intermediate_size=INTER, vocab_size=96),
        {
            "limit-2": {"swiglu_limit": 2.0},
            "sigmoid": {"scoring_func": "sigmoid"},
            "scale-1": {"routed_scaling_factor": 1.0},
            "mlp-bias": {"mlp_bias": True},
            **TOPK,
        },
        layer=4,
        gain=6.0,
        small={"num_attention_heads": 4, "head_dim": 32, "q_lora_rank": 16, "o_lora_rank": 16, "o_groups": 2},
    ),
    "deepseek_v4-hash": Family(
        "DeepseekV4SparseMoeBlock",
        "DeepseekV4Config",
        "DeepseekV4ForCausalLM",
        sizes("n_routed_experts", num_hidden_layers=5, moe_intermediate_size=INTER, vocab_size=96),
        {"scale-1": {"routed_scaling_factor": 1.0}, "said-twice": {"+num_hash_layers": 3}},
        module="deepseek_v4",
        layer=0,
        gain=6.0,
    ),
    "minimax_m2": Family(
        "MiniMaxM2SparseMoeBlock",
        "MiniMaxM2Config",
        "MiniMaxM2ForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER),
        {**TOPK},
        small=SMALL,
    ),
    "minimax_m3_vl": Family(
        "MiniMaxM3VLSparseMoeBlock",
        "MiniMaxM3VLTextConfig",
        "MiniMaxM3SparseForConditionalGeneration",
        sizes("num_local_experts", intermediate_size=INTER, shared_intermediate_size=INTER),
        {
            **TOPK,
            "scale-1": {"routed_scaling_factor": 1.0},
            "limit-2": {"swiglu_limit": 2.0},
            "alpha-1": {"swiglu_alpha": 1.0},
            "shared-2-wide": {"shared_intermediate_size": 2 * INTER},
            "said-shared": {"+text_config.n_shared_experts": 1},
            "said-shared-limit-2": {"+text_config.n_shared_experts": 1, "swiglu_limit": 2.0},
            "said-shared-alpha-1": {"+text_config.n_shared_experts": 1, "swiglu_alpha": 1.0},
        },
        outer="MiniMaxM3VLConfig",
        gain=6.0,
    ),
    "dbrx": Family(
        "DbrxFFN",
        "DbrxConfig",
        "DbrxForCausalLM",
        {
            "n_layers": 4,
            "d_model": HIDDEN,
            "ffn_config": {"hidden_size": HIDDEN, "moe_num_experts": 16, "moe_top_k": 3, "ffn_hidden_size": INTER},
        },
        {
            "no-norm": {"ffn_config.moe_normalize_expert_weights": None},
            "norm-2": {"ffn_config.moe_normalize_expert_weights": 2.0},
            "jitter": {"ffn_config.moe_jitter_eps": 0.01},
            "gelu": {"ffn_config.ffn_act_fn": {"name": "gelu"}},
        },
        small={"n_heads": 4, "vocab_size": 96, "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0}},
    ),
    "phimoe": Family(
        "PhimoeSparseMoeBlock",
        "PhimoeConfig",
        "PhimoeForCausalLM",
        sizes("num_local_experts", num_local_experts=24, intermediate_size=INTER),
        {
            "threshold": {"router_jitter_noise": 0.1},
            "input-jitter": {"input_jitter_noise": 0.1},
            "gelu": {"hidden_act": "gelu"},
        },
        small=SMALL,
    ),
    "olmoe": Family(
        "OlmoeSparseMoeBlock",
        "OlmoeConfig",
        "OlmoeForCausalLM",
        sizes("num_experts", intermediate_size=INTER),
        {**NORM, **TOPK},
        small={"num_attention_heads": 4, "vocab_size": 96},
    ),
    "flex_olmo": Family(
        "FlexOlmoSparseMoeBlock", "FlexOlmoConfig", "FlexOlmoForCausalLM", sizes("num_experts", intermediate_size=INTER), {}
    ),
    "jamba": Family(
        "JambaSparseMoeBlock",
        "JambaConfig",
        "JambaForCausalLM",
        sizes("num_experts", num_experts=8, intermediate_size=INTER),
        {**TOPK, "offset-0": {"expert_layer_offset": 0}},
        dense=0,
        small={**{k: v for k, v in SMALL.items() if k != "head_dim"}, "mamba_d_state": 8},
    ),
    "granitemoe": Family(
        "GraniteMoeMoE",
        "GraniteMoeConfig",
        "GraniteMoeForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER),
        {**TOPK},
        small={"num_attention_heads": 4, "vocab_size": 96},
    ),
    "granitemoeshared": Family(
        "GraniteMoeSharedMoE",
        "GraniteMoeSharedConfig",
        "GraniteMoeSharedForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER, shared_intermediate_size=INTER),
        {"no-shared": {"shared_intermediate_size": 0}, "shared-2-wide": {"shared_intermediate_size": 2 * INTER}},
        small={"num_attention_heads": 4, "vocab_size": 96},
    ),
    "granitemoehybrid": Family(
        "GraniteMoeHybridMoE",
        "GraniteMoeHybridConfig",
        "GraniteMoeHybridForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER, shared_intermediate_size=INTER),
        {"shared-default": {"shared_intermediate_size": 1024}},
        small={"num_attention_heads": 4, "vocab_size": 96, "mamba_n_heads": 16, "mamba_d_state": 8},
    ),
    "hunyuan_v1_moe": Family(
        "HunYuanMoEV1Moe",
        "HunYuanMoEV1Config",
        "HunYuanMoEV1ForCausalLM",
        sizes("num_experts", intermediate_size=INTER, moe_topk=3),
        {
            "list": {"moe_topk": [3, 3, 2, 2]},
            "said-shared": {"+num_shared_expert": 1},
            "list-said-shared": {"moe_topk": [3, 3, 2, 2], "+num_shared_expert": 1},
        },
        small={**SMALL, "intermediate_size": INTER},
        layer=3,
    ),
    "hy_v3": Family(
        "HYV3MoE",
        "HYV3Config",
        "HYV3ForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER),
        {
            **TOPK,
            "scale-1": {"router_scaling_factor": 1.0},
            "shared-2": {"num_shared_experts": 2},
            "f32-combine": {"enable_moe_fp32_combine": False},
            "mlp-bias": {"mlp_bias": True},
        },
        small={**SMALL, "intermediate_size": 64},
        dense=0,
    ),
    "ernie4_5_moe": Family(
        "Ernie4_5_MoeSparseMoeBlock",
        "Ernie4_5_MoeConfig",
        "Ernie4_5_MoeForCausalLM",
        sizes("moe_num_experts", moe_intermediate_size=INTER),
        {
            "no-shared": {"moe_num_shared_experts": 0},
            "top-2": {"moe_k": 2},
            "norm-min": {"moe_norm_min": 0.95},
            "use-bias": {"use_bias": True},
        },
        dense=0,
        small={**{k: v for k, v in SMALL.items() if k != "head_dim"}, "intermediate_size": 64},
    ),
    "nemotron_h": Family(
        "NemotronHMoE",
        "NemotronHConfig",
        "NemotronHForCausalLM",
        {
            "hidden_size": HIDDEN,
            "n_routed_experts": 16,
            "moe_intermediate_size": INTER,
            "moe_shared_expert_intermediate_size": INTER,
            "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
        },
        {
            **{k: v for k, v in DEEPSEEK.items() if k != "gelu"},
            **TOPK,
            "silu": {"mlp_hidden_act": "silu"},
            "shared-2-wide": {"moe_shared_expert_intermediate_size": 2 * INTER},
            # Not used by transformers, where the width says it all.
            "shared-2": {},
            "mlp-bias": {"mlp_bias": True},
            "latent": {"moe_latent_size": 64},
        },
        dense=0,
        small={
            **SMALL,
            "mamba_num_heads": 4,
            "mamba_head_dim": 16,
            "ssm_state_size": 8,
            "n_groups": 2,
            "intermediate_size": 64,
        },
    ),
    "lfm2_moe": Family(
        "Lfm2MoeSparseMoeBlock",
        "Lfm2MoeConfig",
        "Lfm2MoeForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER),
        {**NORM, **TOPK, "no-bias": {"use_expert_bias": False}, "scale-2": {"routed_scaling_factor": 2.0}},
        small={
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": 96,
            "intermediate_size": 64,
            "layer_types": ["conv", "conv", "full_attention", "conv"],
        },
        rounds_scores=True,
        dense=0,
    ),
    "afmoe": Family(
        "AfmoeSparseMoeBlock",
        "AfmoeConfig",
        "AfmoeForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER),
        {**TOPK, "scale-2": {"route_scale": 2.0}, "shared-1": {"num_shared_experts": 1}},
        small={**SMALL, "intermediate_size": 64},
        dense=0,
    ),
    "gemma4": Family(
        "",
        "Gemma4TextConfig",
        "Gemma4ForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER, top_k_experts=3, enable_moe_block=True),
        {"top-1": {"top_k_experts": 1}, "silu": {"hidden_activation": "silu"}},
        outer="Gemma4Config",
        needed={"num_experts": 16, "moe_intermediate_size": 96, "top_k_experts": 3, "enable_moe_block": True},
    ),
    "gemma4_text": Family(
        "",
        "Gemma4TextConfig",
        "Gemma4ForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, top_k_experts=3, enable_moe_block=True),
        {},
        module="gemma4",
        needed={"num_experts": 16, "moe_intermediate_size": 96, "top_k_experts": 3, "enable_moe_block": True},
        small={**SMALL, "intermediate_size": 64, "hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 96},
    ),
    "laguna": Family(
        "LagunaSparseMoeBlock",
        "LagunaConfig",
        "LagunaForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {
            **TOPK,
            "scale-2": {"moe_routed_scaling_factor": 2.0},
            "softcap": {"moe_router_logit_softcapping": 2.0},
            "shared-2-wide": {"shared_expert_intermediate_size": 2 * INTER},
            "widths-default": {"shared_expert_intermediate_size": 512, "moe_intermediate_size": 512},
        },
        small={**SMALL, "intermediate_size": 64},
        dense=0,
    ),
    "longcat_flash": Family(
        "LongcatFlashMoE",
        "LongcatFlashConfig",
        "LongcatFlashForCausalLM",
        {
            "num_layers": 2,
            "hidden_size": HIDDEN,
            "n_routed_experts": 16,
            "expert_ffn_hidden_size": INTER,
            "zero_expert_num": 8,
            "moe_topk": 5,
        },
        {
            "no-zero": {"zero_expert_num": 0},
            "zero-default": {"zero_expert_num": 256, "routed_scaling_factor": 1.0},
            "scale-1": {"routed_scaling_factor": 1.0},
            "top-12": {"moe_topk": 12},
        },
        small={**{k: v for k, v in SMALL_MLA.items() if k != "intermediate_size"}, "ffn_hidden_size": 64},
    ),
    "axk2": dataclasses.replace(
        deepseek("AXK2", "AXK2ForCausalLM"),
        variants={**{k: v for k, v in DEEPSEEK.items()}, **TOPK},
        small={**SMALL_MLA, "index_n_heads": 2, "index_head_dim": 32, "gated_norm_rank": 8, "pad_token_id": 0},
    ),
    "exaone_moe": dataclasses.replace(
        deepseek("ExaoneMoe", "ExaoneMoeForCausalLM", "num_experts"),
        block="ExaoneMoeSparseMoEBlock",
        variants={
            **{k: v for k, v in DEEPSEEK.items() if "shared" not in k},
            **TOPK,
            "shared-2": {"num_shared_experts": 2},
            "said-first-dense": {"first_k_dense_replace": 2},
        },
        small={**SMALL, "intermediate_size": 64},
    ),
    "solar_open": dataclasses.replace(deepseek("SolarOpen", "SolarOpenForCausalLM", dense=None), small=SMALL),
    "sarvam_moe": dataclasses.replace(
        deepseek("Glm4Moe", "Glm4MoeForCausalLM"), module="glm4_moe", config="SarvamMoEConfig", small=SMALL_MLA
    ),
    "sarvam_mla": dataclasses.replace(
        deepseek("DeepseekV3", "DeepseekV3ForCausalLM"), module="deepseek_v3", config="SarvamMLAConfig"
    ),
    "mimo_v2_flash": dataclasses.replace(
        deepseek("MiMoV2Flash", "MiMoV2FlashForCausalLM"),
        variants={
            **{k: v for k, v in DEEPSEEK.items() if "shared" not in k},
            **TOPK,
            "no-scale": {"routed_scaling_factor": None},
        },
        small={**SMALL, "intermediate_size": 64, "v_head_dim": 16},
    ),
    "bailing_hybrid": dataclasses.replace(
        deepseek("BailingHybrid", "BailingHybridForCausalLM", "num_experts"),
        variants={
            "no-renormalization": {"moe_renormalize": False},
            "scale-1": {"routed_scaling_factor": 1.0},
            "one-group": {"num_expert_group": 1, "topk_group": 1},
            "groups-4-2": {"num_expert_group": 4, "topk_group": 2},
            "shared-2": {"num_shared_experts": 2},
            "first-dense-1": {"first_k_dense_replace": 1},
            "top-1": {"num_experts_per_token": 1},
            "gelu": {"hidden_act": "gelu"},
        },
        small={**SMALL_MLA, "head_dim": 16, "pad_token_id": 0},
    ),
    "dots3_note": dataclasses.replace(
        deepseek("Dots3NoteText", "Dots3NoteForConditionalGeneration", outer="Dots3NoteConfig"),
        sizes={**deepseek("Dots3NoteText", "").sizes, "shared_experts_intermediate_size": INTER},
        variants={**DEEPSEEK, **TOPK, "shared-wide": {"shared_experts_intermediate_size": 2 * INTER}},
        beside={"vision_config": {"adapter_out_dim": HIDDEN}, "audio_config": {"adapter_out_dim": HIDDEN}},
        small={},
    ),
    "dots3_note_text": dataclasses.replace(
        deepseek("Dots3NoteText", "Dots3NoteForCausalLM"),
        sizes={**deepseek("Dots3NoteText", "").sizes, "shared_experts_intermediate_size": INTER},
        variants={},
        module="dots3_note",
        small={**SMALL_MLA, "index_n_heads": 2, "index_head_dim": 32, "pad_token_id": 0},
    ),
    "glm5_next": dataclasses.replace(
        deepseek("Glm5NextText", "Glm5NextForConditionalGeneration", outer="Glm5NextConfig"),
        variants={**DEEPSEEK, **TOPK, "limit-2": {"swiglu_limit": 2.0}},
        gain=6.0,
        small={
            **SMALL_MLA,
            "qk_rope_head_dim": 0,
            "pad_token_id": 0,
            "linear_head_dim": 16,
            "linear_num_heads": 4,
            "index_n_heads": 2,
            "index_head_dim": 32,
        },
    ),
    "hy_v4": dataclasses.replace(
        deepseek("HYV4", "HYV4ForCausalLM"),
        variants={**DEEPSEEK, **TOPK, "limit-2": {"swiglu_limit": 2.0}},
        gain=6.0,
        small={**SMALL_MLA, "index_n_heads": 2, "index_head_dim": 32, "pad_token_id": 0},
    ),
    "hy_v4_vl": dataclasses.replace(
        deepseek("HYV4VL", "HYV4VLForConditionalGeneration", outer="HYV4VLConfig"),
        config="HYV4VLTextConfig",
        variants={**TOPK, "limit-2": {"swiglu_limit": 2.0}},
        gain=6.0,
        small={},
    ),
    "beam": dataclasses.replace(
        deepseek("Beam", "BeamForCausalLM", "num_experts"),
        variants={**{k: v for k, v in DEEPSEEK.items() if "shared" not in k}, **TOPK},
        small={**SMALL, "intermediate_size": 64},
    ),
    "mistral4": dataclasses.replace(
        deepseek("Mistral4", "Mistral4ForCausalLM", dense=None),
        variants={**DEEPSEEK, **TOPK},
    ),
    "mistral_large4": dataclasses.replace(
        deepseek("MistralLarge4Text", "MistralLarge4ForConditionalGeneration", outer="MistralLarge4Config"),
        variants={
            **{k: v for k, v in DEEPSEEK.items() if "normalization" not in k},
            **TOPK,
            "said-no-renormalization": {"+text_config.norm_topk_prob": False},
        },
        small={},
    ),
    "deepseek_ocr2": Family(
        "DeepseekOcr2TextMoe",
        "DeepseekOcr2TextConfig",
        "DeepseekOcr2ForConditionalGeneration",
        sizes("n_routed_experts", moe_intermediate_size=INTER, num_experts_per_tok=3, mlp_layer_types=["dense", *["sparse"] * 3]),
        OCR,
        outer="DeepseekOcr2Config",
        needed={"num_experts_per_tok": 6, "mlp_layer_types": ["dense", *["sparse"] * 31]},
    ),
    "unlimited_ocr": Family(
        "UnlimitedOcrTextMoe",
        "UnlimitedOcrTextConfig",
        "UnlimitedOcrForConditionalGeneration",
        sizes("n_routed_experts", moe_intermediate_size=INTER, num_attention_heads=4, num_key_value_heads=4),
        {**OCR, **TOPK},
        outer="UnlimitedOcrConfig",
        dense=0,
    ),
    "qwen3_omni_moe": Family(
        "Qwen3OmniMoeThinkerTextSparseMoeBlock",
        "Qwen3OmniMoeTextConfig",
        "Qwen3OmniMoeForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER),
        {**NORM, **TOPK},
        outer="Qwen3OmniMoeConfig",
        part="thinker_config.text_config",
    ),
    "qwen3_omni_moe-thinker": Family(
        "Qwen3OmniMoeThinkerTextSparseMoeBlock",
        "Qwen3OmniMoeTextConfig",
        "Qwen3OmniMoeThinkerForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER),
        {},
        module="qwen3_omni_moe",
        outer="Qwen3OmniMoeThinkerConfig",
    ),
    "qwen3_omni_moe-talker": Family(
        "Qwen3OmniMoeTalkerTextSparseMoeBlock",
        "Qwen3OmniMoeTalkerTextConfig",
        "Qwen3OmniMoeTalkerForConditionalGeneration",
        sizes("num_local_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**NORM},
        module="qwen3_omni_moe",
        outer="Qwen3OmniMoeTalkerConfig",
        needed={"shared_expert_intermediate_size": 768},
    ),
    "qwen4_exp": Family(
        "Qwen4ExpTextSparseMoeBlock",
        "Qwen4ExpTextConfig",
        "Qwen4ExpForConditionalGeneration",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**NORM, **TOPK, "shared-2-wide": {"shared_expert_intermediate_size": 2 * INTER}},
        outer="Qwen4ExpConfig",
    ),
    "qwen4_exp_text": Family(
        "Qwen4ExpTextSparseMoeBlock",
        "Qwen4ExpTextConfig",
        "Qwen4ExpForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {},
        module="qwen4_exp",
        small={
            **SMALL,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 32,
            "indexer_budget": 64,
            "indexer_compress_ratio": 4,
        },
    ),
    "mellum": Family(
        "MellumSparseMoeBlock",
        "MellumConfig",
        "MellumForCausalLM",
        sizes("num_local_experts", moe_intermediate_size=INTER),
        {**NORM, **TOPK},
        small={**SMALL, "intermediate_size": 64},
    ),
    "flint": Family(
        "FlintSparseMoeBlock",
        "FlintConfig",
        "FlintForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**NORM, **TOPK, "all-sparse": {"mlp_only_layers": []}, "shared-2-wide": {"shared_expert_intermediate_size": 2 * INTER}},
        small={**SMALL, "intermediate_size": 64},
        dense=1,
    ),
    "lara_mini": Family(
        "LaraMiniSparseMoeBlock",
        "LaraMiniConfig",
        "LaraMiniForCausalLM",
        sizes("num_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**NORM, **TOPK, "shared-2-wide": {"shared_expert_intermediate_size": 2 * INTER}},
        small=SMALL,
    ),
    "openai_privacy_filter": Family(
        "OpenAIPrivacyFilterMLP",
        "OpenAIPrivacyFilterConfig",
        "OpenAIPrivacyFilterForTokenClassification",
        sizes("num_local_experts", intermediate_size=INTER),
        {**TOPK, "limit-2": {"swiglu_limit": 2.0}, "alpha-1": {"swiglu_alpha": 1.0}},
        transposed=True,
        gain=6.0,
        small={**SMALL, "pad_token_id": 0},
    ),
    "step3p7": Family(
        "Step3p7SparseMoeBlock",
        "Step3p7TextConfig",
        "Step3p7ForConditionalGeneration",
        sizes("n_routed_experts", moe_intermediate_size=INTER, share_expert_dim=INTER, mlp_layer_types=STEP_LAYERS),
        {
            **TOPK,
            "scale-3": {"moe_router_scaling_factor": 3.0},
            "shared-2-wide": {"share_expert_dim": 2 * INTER},
            "limits": {"swiglu_limits": [0.0, 0.0, 0.0, 2.0], "swiglu_limits_shared": [0.0, 0.0, 0.0, 2.0]},
            "limits-of-routed": {"swiglu_limits": [0.0, 0.0, 0.0, 2.0]},
            "mlp-bias": {"mlp_bias": True},
        },
        outer="Step3p7Config",
        gain=6.0,
        dense=2,
    ),
    "inkling2": Family(
        "Inkling2SparseMoeBlock",
        "Inkling2TextConfig",
        "Inkling2ForConditionalGeneration",
        sizes("n_routed_experts", moe_intermediate_size=INTER),
        {
            **TOPK,
            "scale-1": {"route_scale": 1.0},
            "gate-2": {"mlp_gate_softcap": 2.0},
            "up-3": {"mlp_up_softcap": 3.0},
        },
        outer="Inkling2Config",
        beside={"vision_config": {"text_hidden_size": HIDDEN}},
        gain=6.0,
    ),
    "inkling2_text": Family(
        "Inkling2SparseMoeBlock",
        "Inkling2TextConfig",
        "Inkling2ForCausalLM",
        sizes("n_routed_experts", moe_intermediate_size=INTER),
        {},
        module="inkling2",
        gain=6.0,
        small=SMALL_INKLING2,
    ),
    "inkling2_loop_text": Family(
        "Inkling2LoopSparseMoeBlock",
        "Inkling2LoopTextConfig",
        "Inkling2LoopForCausalLM",
        sizes("n_routed_experts", moe_intermediate_size=INTER),
        {},
        module="inkling2_loop",
        gain=6.0,
        small=SMALL_INKLING2,
    ),
    "inkling2_loop": Family(
        "Inkling2LoopSparseMoeBlock",
        "Inkling2LoopTextConfig",
        "Inkling2LoopForConditionalGeneration",
        sizes("n_routed_experts", moe_intermediate_size=INTER),
        {**TOPK, "gate-2": {"mlp_gate_softcap": 2.0}},
        outer="Inkling2LoopConfig",
        beside={"vision_config": {"text_hidden_size": HIDDEN}},
        gain=6.0,
    ),
    "kolibri1": Family(
        "Kolibri1SparseMoeBlock",
        "Kolibri1Config",
        "Kolibri1ForCausalLM",
        sizes("num_local_experts", moe_intermediate_size=INTER, shared_expert_intermediate_size=INTER),
        {**TOPK, "renormalization": {"norm_topk_prob": True}, "gelu": {"hidden_act": "gelu"}},
        small=SMALL,
    ),
    "granitemoe_swa": Family(
        "GraniteMoeSWAMoE",
        "GraniteMoeSWAConfig",
        "GraniteMoeSWAForCausalLM",
        sizes("num_local_experts", intermediate_size=INTER, shared_intermediate_size=INTER),
        {"no-shared": {"shared_intermediate_size": 0}, "shared-2-wide": {"shared_intermediate_size": 2 * INTER}},
        small={"num_attention_heads": 4, "vocab_size": 96},
    ),
    "diffusion_gemma": Family(
        "",
        "DiffusionGemmaTextConfig",
        "DiffusionGemmaForBlockDiffusion",
        sizes("num_experts", moe_intermediate_size=INTER, top_k_experts=3),
        {"top-1": {"top_k_experts": 1}, "silu": {"hidden_activation": "silu"}},
        outer="DiffusionGemmaConfig",
        needed={"num_experts": 16, "moe_intermediate_size": 96, "top_k_experts": 3},
    ),
    "aria": Family(
        "AriaTextMoELayer",
        "AriaTextConfig",
        "AriaForConditionalGeneration",
        sizes("moe_num_experts", intermediate_size=INTER),
        {
            "top-1": {"moe_topk": 1},
            "top-5": {"moe_topk": 5},
            "shared-1": {"moe_num_shared_experts": 1},
            "gelu": {"hidden_act": "gelu"},
            "mlp-bias": {"mlp_bias": True},
        },
        outer="AriaConfig",
        transposed=True,
    ),
    "aria_text": Family(
        "AriaTextMoELayer",
        "AriaTextConfig",
        "AriaTextForCausalLM",
        sizes("moe_num_experts", intermediate_size=INTER),
        {},
        module="aria",
        transposed=True,
        small=SMALL,
    ),
    "minimax": Family(
        "MiniMaxSparseMoeBlock", "MiniMaxConfig", "MiniMaxForCausalLM", sizes("num_local_experts", intermediate_size=INTER), {}
    ),
}
