# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cases that make_gpu_packages.py makes packages of: token counts, models, layers, and the layers that show seeded faults."""

import conformance

TOKENS = "0,1,2,7,8,32,33,128,500,2048,8192"
LARGE = "2048,8192"
# Experts whose tiles are nearly full, of any height up to 144 rows, with more steps of k than a ring has stages.
TALL_SHAPE = {"num_experts": 4, "top_k": 2, "hidden_size": 640, "intermediate_size": 384}
TALL_TOKENS = "66,130,190,258,266,274,284,310,500,2048"
# The last group of 128 columns of the intermediate is half of one.
BIASED_SHAPE = {"num_experts": 4, "top_k": 2, "hidden_size": 384, "intermediate_size": 192}
BIASED_TOKENS = "1,7,33,66,130,190,500"
# The first matmul has scales of rows, the second one of groups: no named scheme has both.
MIXED = {
    "a1": {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True}, "w1": {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32"},
    "a2": {"dtype": "f8E4M3FN", "shape": [1, 128], "scale": "f32", "dynamic": True},
    "w2": {"dtype": "f8E4M3FN", "shape": [128, 128], "scale": "f32"},
}
MODELS = [
    ("mixtral-8x7b", [], 24),
    ("qwen3-30b-a3b", [], 64),
    ("qwen3-235b-a22b", ["--tp=4"], 64),
    ("qwen3-30b-a3b", ["--dp=5", "--ep", "--rank=3"], 64),  # 25 of 128 experts, the ranks before hold 26
]
# Quantized ones: (model, scheme, arguments, sample).
QUANTIZED = [
    ("qwen3-30b-a3b", "fp8_block", [], 64),
    ("qwen3-30b-a3b", "fp8_channel", [], 64),
    ("qwen3-235b-a22b", "fp8_block", ["--tp=4"], 32),
    ("mixtral-8x7b", "fp8_tensor", [], 24),
    # Its scale is of the whole intermediate, all of which the reference computes.
    ("qwen3-30b-a3b", "fp8_tensor_dynamic", ["--max-tokens=2048"], 4),
    ("qwen3-30b-a3b", "int8_channel", [], 64),
    ("qwen3-30b-a3b", "fp8_channel", ["--accumulate=fast"], 64),
    ("qwen3-30b-a3b", "int4_w4a16", [], 32),
    ("qwen3-30b-a3b", "nvfp4_w4a16", [], 32),
    ("gpt-oss-20b", "mxfp4_w4a16", [], 24),
]
SANITIZERS = ["memcheck", "racecheck", "synccheck", "initcheck"]
SANITIZED_TOKENS = ["0", "1", "7", "33", "500"]
# Qwen3-30B: name, arguments, token counts.
SANITIZED_REAL = [
    ("sanitized-real", ["--dtype=bf16"], SANITIZED_TOKENS[1:]),
    ("sanitized-wgmma", ["--dtype=bf16", "--engine=wgmma"], ["33", "500"]),
    ("sanitized-fp8_block", ["--scheme=fp8_block"], ["1", "33"]),
]
# Kernels that convert codes: of few tokens, of mma_sync and of wgmma_rs.
SANITIZED_CODES = ["int4_w4a16", "int4_zp_w4a16", "mxfp4_w4a16", "nvfp4_w4a16", "int8_w8a16"]
SANITIZED_CODES_SHAPE = {"num_experts": 16, "top_k": 4, "hidden_size": 1024, "intermediate_size": 512}
SANITIZED_CODES_TOKENS = ["1,33", "300"]
# The fewest rows whose second matmul goes in slices, and as little work as they can have.
SANITIZED_SLICES = {"num_experts": 32, "top_k": 32, "hidden_size": 2048, "intermediate_size": 16}
# How many layers drawn from the language run under each tool but initcheck.
SANITIZED_LAYERS = 8
# Faults that a tool must flag: else its silence says nothing.
PLANTED = [
    ("racecheck", "template-loop-barrier-missing"),
    ("racecheck", "template-store-barrier-missing"),
    ("memcheck", "template-earlier-blocks-forgotten"),
    ("initcheck", "template-tail-row-off-by-one"),
    ("synccheck", "template-barrier-of-half-a-warp"),
]
# tokens * K * H and E * 2I * H beyond 2^31 and 2^32; blocks of tokens that grow, and have more pairs than 16 bits count.
LIMITS = [
    ("many-tokens", {"num_experts": 64, "top_k": 8, "hidden_size": 7168, "intermediate_size": 256},
     ["--tokens=40960", "--sample=64"], []),
    ("large-weights", {"num_experts": 152, "top_k": 8, "hidden_size": 7168, "intermediate_size": 2048},
     ["--tokens=33,500", "--sample=16"], []),
    ("very-many-tokens", {"num_experts": 16, "top_k": 4, "hidden_size": 64, "intermediate_size": 64},
     ["--tokens=16384,16385,65536,262144,1048576", "--sample=4"], ["--max-tokens=1048576"]),
    ("very-many-pairs", {"num_experts": 64, "top_k": 32, "hidden_size": 64, "intermediate_size": 64},
     ["--tokens=600000", "--sample=4"], ["--max-tokens=1048576"]),
]
# Layers that read logits in different ways: few tokens in two launches, more of them in clusters and in blocks.
TYPED_SHAPE = {"num_experts": 96, "top_k": 4, "hidden_size": 256, "intermediate_size": 128}
TYPED = {
    "renormalize": {},
    "default": {"num_experts": 320, "routed_scaling_factor": 2.5},
    "deepseek_v3": {"num_expert_group": 8, "topk_group": 4, "per_expert_scale": True},
    "deepseek_v4": {"hash_vocabulary": 500},
    "sparsemixer": {"num_experts": 16, "top_k": 2},
    "intern_s1": {"num_expert_group": 4},
    "longcat": {"num_zero_experts": 32},
    "sigmoid_sinks": {"num_sink_experts": 2, "e_score_correction_bias": True, "per_expert_scale": True, "routed_scaling_factor": 8.0},
    "sigmoid_bias": {"router_logit_softcapping": 2.0},
    "minimax2": {"n_shared_experts": 1, "shared_expert_gate": True},
    "llama4": {"top_k": 1, "num_experts": 16},
    "simulated": {},
    "custom": {},
}
TYPED_TOKENS = "1,2,7,64,500"
# Options of layers that no other group has: scheme, the layer's keys and values.
NORMED = {"routing_method": "minimax2", "router_output_multiplier": 0.5, "norm_topk_prob_eps": 0.25, "post_expert_norm_eps": 0.1}
OPTIONED = {
    # As Muse Spark's, with fewer experts: a thread keeps its columns of all rows.
    "norm-muse-spark": ("bf16", {**NORMED, "num_experts": 32, "top_k": 8, "hidden_size": 4096, "intermediate_size": 1024,
                                 "post_expert_norm_eps": 1e-8, "router_output_multiplier": 0.1767766952966369, "norm_topk_prob_eps": 1e-15}),
    "norm-many-pairs": ("bf16", {**NORMED, "num_experts": 24, "top_k": 11, "hidden_size": 136, "intermediate_size": 96}),
    "norm-wide": ("fp8_block", {**NORMED, "num_experts": 8, "top_k": 2, "hidden_size": 7168, "intermediate_size": 256,
                                "residual": True}),
    "constants": ("bf16", {"routing_method": "deepseek_v3", "num_experts": 24, "top_k": 6, "hidden_size": 328, "intermediate_size": 200,
                           "num_constant_experts": 9, "residual": True}),
    "constants-many": ("fp8_block", {"routing_method": "renormalize", "num_experts": 16, "top_k": 11, "hidden_size": 2048,
                                     "intermediate_size": 256, "num_constant_experts": 48}),
    "norm-nvfp4": ("nvfp4_w4a16", {**NORMED, "num_experts": 16, "top_k": 8, "hidden_size": 512, "intermediate_size": 256}),
    "norm-rank": ("int4_w4a16", {**NORMED, "num_experts": 16, "top_k": 4, "hidden_size": 384, "intermediate_size": 256,
                                 "out_dtype": "float32", "moe_parallel_config": {"tp_size": 4, "tp_rank": 1, "use_ep": True}}),
}
# Packages of all ranks: what adds b2, the first expert, parts of several sizes, a map of experts, what zero experts hand on.
RANKS_SHAPE = {"num_experts": 60, "top_k": 4, "hidden_size": 512, "intermediate_size": 1024, "has_bias": True}
RANKED = {
    "tp2": ["--tp=2"],
    "tp3-uneven": ["--tp=3"],
    "ep4": ["--tp=2", "--dp=2", "--ep"],
    "ep7-uneven": ["--dp=7", "--ep"],
    "ep4-round-robin": ["--dp=4", "--ep", "--placement=round_robin"],
}
RANKED_SCHEMES = ["bf16", "fp8_block", "fp8_channel", "int4_w4a16", "mxfp4_w4a16"]
RANKED_TOKENS = "1,2,7,33,500,2048"
# The layer that template mutants are made of: every tail that a fault could hide in.
MUTANT_SHAPE = {"num_experts": 12, "top_k": 3, "hidden_size": 328, "intermediate_size": 200}
# Scales of blocks are whole words along K in the first matmul, and bytes in the second.
MUTANT_SHAPE_OF_BLOCKS = {"num_experts": 12, "top_k": 3, "hidden_size": 384, "intermediate_size": 224}
MUTANT_SHAPE_OF_BYTES = {"num_experts": 12, "top_k": 3, "hidden_size": 336, "intermediate_size": 208}
# Experts for engine wgmma: more tiles than CTAs, so that each CTA takes some in turn.
MUTANT_EXPERTS = {"wgmma": 60}
# Seeded faults run with these arguments, if they name none.
USUAL = ["--tokens=1,7,33,500", "--routing=uniform,skewed", "--seed=5"]
# Layers of slow kernels: scheme, engine, a row of MUTANT_LAYERS. Between them they have every read before the wait.
DELAYED = [
    ("bf16", "gemv", ""), ("int4_zp_w4a16", "gemv", "slabs_int4"), ("bf16", "mma_sync", ""), ("bf16", "wgmma", ""),
    ("fp8_block", "wgmma", ""), ("fp8_block", "wgmma", "split"), ("fp8_block", "wgmma", "slices"),
    ("int4_zp_w4a16", "wgmma_rs", "slabs_int4"), ("int4_zp_w4a16", "mma_sync", "slabs_sync_int4"),
    ("bf16", "mma_sync", "zero_experts"), ("bf16", "mma_sync", "rank_of_experts"),
]
EARLY = {"kTilesEarly", "kRouteEarly", "kPlacesEarly"}
# Kernels whose waits fail after so many milliseconds.
DEADLINE = {"MOEC_SPIN_DEADLINE": "2000"}
# Schedules differ between GPUs of an arch, and some faults are of one schedule: the GPU that packages are made for.
MUTANT_GPU = {"sm_90a": ["--gpu=h100_sxm"]}
# Codes by tokens of 8 bits, whose groups have scales of e4m3 and whose rows have second ones.
SECOND_OF_ROWS = {operand: {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True} for operand in ("a1", "a2")} | {
    operand: {"dtype": "i4", "shape": [1, 128], "scale": "f8E4M3FN", "alpha_or_gscale": "f32", "second_per_row": True}
    for operand in ("w1", "w2")}
# Layers that a fault may need: (scheme, engine, changes, largest number of tokens).
MUTANT_LAYERS = {
    "zero_experts": ("bf16", "mma_sync", {**conformance.NO_METHOD, "routing_method": "longcat", "num_zero_experts": 9}, 2048),
    "weight_on_input": ("fp8_block", "mma_sync", {**conformance.NO_METHOD, "routing_method": "llama4", "top_k": 1}, 2048),
    "gptq": ("int4_zp_w4a16", "mma_sync", {"stored_layout": "gptq"}, 2048),
    "ordered": ("int4_zp_w4a16", "mma_sync", {"stored_layout": "gptq", "group_index": True}, 2048),
    "floats": ("fp8_block", "mma_sync", {"weights_dtype": "bf16"}, 2048),
    "quantized_x": ("nvfp4", "mma_sync", {"input_quantized": True}, 2048),
    "awq": ("int4_zp_w4a16", "mma_sync", {"stored_layout": "awq"}, 2048),
    "atoms": ("nvfp4_w4a16", "mma_sync", {"stored_layout": "scales_128x4", "gate_up_order": "up_first", "stored_hidden_size": 384,
                                          "stored_intermediate_size_per_partition": 256}, 2048),
    "rank_of_columns": ("bf16", "mma_sync", {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}}, 2048),
    "rank_of_experts": ("bf16", "mma_sync", {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}}, 2048),
    "rank_of_zero_experts": ("bf16", "mma_sync", {**conformance.NO_METHOD, "routing_method": "longcat", "num_zero_experts": 9,
                                                  "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}}, 2048),
    "finalize": ("bf16", "part", {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}}, 2048),
    "slices": ("fp8_block", "wgmma", {"num_experts": 16, "top_k": 8, "hidden_size": 2048, "intermediate_size": 144}, 4096),
    "wide_block": ("fp8_block", "wgmma", {"num_experts": 6, "top_k": 3, "hidden_size": 656, "intermediate_size": 400}, 2048),
    "wide_channel": ("fp8_channel", "wgmma", {"num_experts": 6, "top_k": 3, "hidden_size": 656, "intermediate_size": 400,
                                                "has_bias": False}, 2048),
    # Second matmuls of smaller weights have other tiles.
    "wide_large_block": ("fp8_block", "wgmma", {"num_experts": 4, "top_k": 2, "hidden_size": 4112, "intermediate_size": 2064,
                                                        "has_bias": False}, 600),
    "wide_large_channel": ("fp8_channel", "wgmma", {"num_experts": 4, "top_k": 2, "hidden_size": 4112, "intermediate_size": 2064,
                                                        "has_bias": False}, 600),
    "slabs_int4": ("int4_zp_w4a16", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "slabs_sync_int4": ("int4_zp_w4a16", "mma_sync", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "slabs_sync_pairs": ("int4_zp_w4a16", "mma_sync", {"hidden_size": 1024, "intermediate_size": 512}, 2048),
    "slabs_int8": ("int8_zp_w8a16", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256, "stored_layout": "gptq"}, 2048),
    "slabs_mxfp4": ("mxfp4_w4a16", "wgmma_rs", {"hidden_size": 320, "intermediate_size": 192}, 2048),
    "slabs_w4afp8": ("int4_w4afp8", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "slabs_nvfp4": ("nvfp4_w4a16", "wgmma_rs", {"hidden_size": 320, "intermediate_size": 192}, 2048),
    "slabs_mxfp6": ("mxfp6_e3m2", "wgmma_rs", {"hidden_size": 320, "intermediate_size": 192}, 2048),
    "slabs_mxfp4_fp8": ("mxfp4_fp8", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "slabs_mxfp4_groups": ("mxfp4_fp8_block", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "second_of_rows": ("int4_w4afp8", "wgmma_rs", {"hidden_size": 384, "intermediate_size": 256, "stored_layout": "rows",
                                                   "quant_config": SECOND_OF_ROWS}, 2048),
    "second_of_rows_sync": ("int4_w4afp8", "mma_sync", {"hidden_size": 384, "intermediate_size": 256, "stored_layout": "rows",
                                                        "quant_config": SECOND_OF_ROWS}, 2048),
    # Weights whose scales are packed in blocks, and sums that are multiplied with scales of 128.
    "scale_atoms": ("mxfp4", "tcgen05", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "power_groups": ("fp8_block_ue8m0", "tcgen05", {"hidden_size": 384, "intermediate_size": 256}, 2048),
    "many_tokens": ("bf16", "mma_sync", {"num_experts": 16, "top_k": 4, "hidden_size": 64, "intermediate_size": 64}, 1 << 20),
    "split": ("fp8_block", "wgmma", {"num_experts": 16, "top_k": 2, "hidden_size": 1536, "intermediate_size": 256}, 512),
}
