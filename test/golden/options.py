#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares which values and pairs of options of a layer the compiler accepts, and what it says of the others, with options.txt.

A value is tested at both ends of what is accepted and one beyond. Each option is tested with each other one, so that a rule
which forgets an option, or refuses more than it should, is a difference. --update writes options.txt anew.
"""

import itertools
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing
import stored

STORED = pathlib.Path(__file__).resolve().parent / "options.txt"
HEADER = """\
# What the compiler says of values of a layer's fields, and of pairs of options on sm_90a. Checked by options.py, and written by
# it: `test/golden/options.py --bin=build/bin --work=/tmp/options --update`. Pairs that are not listed are accepted.
"""
BASE = {"moec_layer": 1, "name": "layer", "num_experts": 16, "top_k": 4, "hidden_size": 256, "intermediate_size": 384,
        "in_dtype": "bf16", "routing_method": "renormalize"}
V3 = {"routing_method": "deepseek_v3"}


def merged(base, more):
    """The fields of both, also in objects."""
    made = {**base, **more}
    for key in base.keys() & more.keys():
        if isinstance(base[key], dict) and isinstance(more[key], dict):
            made[key] = {**base[key], **more[key]}
    return {key: value for key, value in made.items() if value is not None}


PLAIN = {"dtype": "bf16"}
CODES = {"dtype": "i4", "shape": [1, 128], "scale": "bf16"}
EMULATED = {"dtype": "f8E4M3FN", "shape": [1, 32], "scale": "f8E8M0FNU", "dynamic": True, "scale_rule": "even"}
# Changes of the descriptors of activations and weights.
OF_ACTIVATIONS = (
    {}, {"dynamic": False}, {"scale": "bf16"}, {"dtype": "i8"}, {"dtype": "i4"}, {"dtype": "f4E2M1FN"}, {"dtype": "f8E5M2"}, {"zp": "i8"},
    *({"shape": shape} for shape in ([1, 8], [1, 16], [1, 64], [1, 128], [1, 256], [2, 32], [1, -1], [-1, -1])),
    *({"scale": "f32", "scale_rule": None, "dynamic": dynamic, "shape": shape}
      for dynamic in (False, True) for shape in ([1, 16], [1, 32], [1, 48], [1, 64], [1, 128], [2, 128], [1, -1], [-1, -1], [-1, 32])),
    {"scale": "f32", "scale_rule": None, "dtype": "i8", "shape": [-1, -1]}, {"scale": "f32", "scale_rule": None, "alpha_or_gscale": "f32"},
    *({"scale": "f8E4M3FN", "scale_rule": None, **more} for more in
      ({}, {"alpha_or_gscale": "f32"}, {"alpha_or_gscale": "f16"}, {"alpha_or_gscale": "f32", "second_per_row": True},
       {"alpha_or_gscale": "f32", "second_per_row": True, "dynamic": False})),
)
OF_WEIGHTS = (
    {}, {"dynamic": True}, {"dtype": "i8"}, {"dtype": "f6E3M2FN"}, {"dtype": "f8E5M2"}, {"zp": "i8"}, {"zp": "i4"}, {"alpha_or_gscale": "f32"},
    {"alpha_or_gscale": "f16"}, {"alpha_or_gscale": "f32", "second_per_row": True}, {"scale_rule": "even"},
    *({"scale": scale} for scale in ("f32", "f16", "f8E4M3FN", "f8E5M2", "f8E8M0FNU")),
    *({"shape": shape} for shape in ([1, 4], [1, 8], [1, 12], [1, -1], [-1, -1], [-1, 128], [2, 128], [128, 128], [0, 128])),
)
# Fields and values; more fields that the values need.
VALUES = (
    ({}, "num_experts", (0, 1, 3, 4, 1024, 1025, 65536, 65537)),
    ({"num_experts": 64}, "top_k", (0, 1, 32, 33, 64, 65)),
    ({"num_experts": 64, "n_shared_experts": 2}, "top_k", (30, 31)),
    ({}, "hidden_size", (0, 4, 8, 12, 1 << 18, (1 << 18) + 8, 1 << 20, (1 << 20) + 8)),
    ({"in_dtype": "f32"}, "hidden_size", (2, 4, 6)),
    ({"quant_config": "fp8_channel"}, "hidden_size", (8, 16, 24)),
    ({"quant_config": "fp8_block"}, "intermediate_size", (8, 16, 24, 128)),
    ({}, "intermediate_size", (0, 4, 8, 12, 1 << 20, 1 << 24, (1 << 24) + 8)),
    ({"activation": "silu_no_mul"}, "intermediate_size", (4, 8, 12)),
    ({"in_dtype": "f32", "activation": "silu_no_mul"}, "intermediate_size", (2, 4)),
    ({"in_dtype": "f32"}, "intermediate_size", (4, 8)),
    ({**V3, "topk_group": 2}, "num_expert_group", (0, 1, 2, 3, 4, 16, 17)),
    ({**V3, "num_experts": 64, "topk_group": 16}, "num_expert_group", (32, 64)),
    ({**V3, "num_expert_group": 8}, "topk_group", (0, 1, 2, 8, 9)),
    ({**V3, "num_expert_group": 4, "topk_group": 2}, "top_k", (8, 9)),
    ({"routing_method": "intern_s1", "num_expert_group": 4}, "top_k", (3, 4, 6, 8)),
    ({"routing_method": "intern_s1"}, "num_expert_group", (0, 1, 4)),
    ({"routing_method": "intern_s1", "num_expert_group": 4}, "topk_group", (0, 2, 4)),
    (V3, "routed_scaling_factor", (-1.0, 0.0, 1.0, 2.5)),
    (V3, "router_logit_softcapping", (-1.0, 0.0, 30.0)),
    (V3, "router_output_multiplier", (-1.0, 0.0, 1.0, 1e-46, 1e39)),
    (V3, "norm_topk_prob_eps", (-1.0, 0.0, 1e-46, 1e-45, 1e-20, 1e39)),
    ({}, "post_expert_norm_eps", (-1.0, 0.0, 1e-46, 1e-6, 1e39)),
    ({"routing_method": "sigmoid_sinks"}, "num_sink_experts", (-1, 0, 1, 3, 4)),
    ({"routing_method": "deepseek_v4"}, "hash_vocabulary", (-1, 0, 1, 1 << 20, (1 << 20) + 1)),
    ({}, "num_zero_experts", (-1, 0, 1, 16, 17)),
    ({"num_experts": 1000}, "num_zero_experts", (24, 25)),
    ({}, "num_constant_experts", (-1, 0, 1, 1008, 1009)),
    ({}, "n_shared_experts", (-1, 0, 1, 28, 29)),
    ({"n_shared_experts": 1}, "shared_intermediate_size", (-1, 0, 4, 8, 384, 1 << 24)),
    ({"moe_parallel_config": {"enable_eplb": True}}, "num_redundant_experts", (-1, 0, 1, 1008, 1009)),
    ({}, "latent_hidden_size", (-1, 0, 4, 8, 256, 1 << 20)),
    ({"quant_config": "mxfp4_w4a16"}, "stored_hidden_size", (0, 255, 256, 260, 264)),
    ({"quant_config": "mxfp4_w4a16"}, "stored_intermediate_size_per_partition", (0, 383, 384, 388, 392)),
    ({"quant_config": "mxfp4_w4a16", "moe_parallel_config": {"tp_size": 4, "tp_rank": 3}}, "stored_intermediate_size_per_partition",
     (95, 96, 88, 104)),
    ({"activation": "swigluoai"}, "swiglu_limit", (-1.0, 0.0, 0.5)),
    ({"activation": "swigluoai"}, "swiglu_alpha", (-1.0, 0.0, 0.5)),
    ({"activation": "powlu"}, "swiglu_alpha", (-1.0, 0.0, 0.5)),
    ({"activation": "situ"}, "activation_situ_beta", (-1.0, 0.0, 0.5)),
    ({"activation": "situ"}, "swiglu_beta", (-1.0, 0.0, 0.5)),
    ({"activation": "situ"}, "activation_situ_linear_beta", (-1.0, 0.0, 0.5)),
    ({"activation": "situ", "activation_situ_beta": 2.0}, "swiglu_beta", (0.5,)),
    ({}, "shared_expert_gate", (True,)), ({}, "shared_intermediate_size", (512,)), ({}, "num_redundant_experts", (2,)),
    ({"quant_config": {"scheme": "fp8_block"}}, "quant_config.is_scale_swizzled", (False, True)),
    ({}, "swiglu_limit", (1.0,)), ({}, "swiglu_alpha", (1.0,)), ({}, "swiglu_beta", (1.0,)),
    *(({"activation": activation}, "is_act_and_mul", (False, True))
      for activation in ("silu", "silu_no_mul", "gelu", "swigluoai", "relu2_no_mul")),
    *(({"scoring_func": scoring, "top_k": top_k, "routing_method": None}, "renormalize", (None, False, True))
      for scoring in ("softmax", "sigmoid", "sqrtsoftplus") for top_k in (1, 2)),
    ({}, "renormalize", (True,)), ({}, "scoring_func", ("sigmoid",)),
    *(({"quant_config": {"scheme": scheme}}, "quant_config.group_size", (-2, -1, 0, 1, 8, 12, 16, 24, 32, 48, 64, 128, 256, 257))
      for scheme in ("int4_w4a16", "int4_w4afp8", "fp8_w8a16")),
    *(({"quant_config": scheme, "moe_parallel_config": {"tp_rank": 1}}, "moe_parallel_config.tp_size", (0, 1, 2, 3, 4, 5, 24, 25, 48, 49))
      for scheme in (None, "fp8_block", "fp8_channel", "int4_w4a16", "mxfp4")),
    ({"moe_parallel_config": {"use_ep": True}}, "moe_parallel_config.dp_size", (16, 17)),
    ({"moe_parallel_config": {"dp_size": 3}}, "moe_parallel_config.dp_rank", (-1, 0, 2, 3)),
    ({"moe_parallel_config": {"pcp_size": 3}}, "moe_parallel_config.pcp_rank", (-1, 0, 2, 3)),
    ({"moe_parallel_config": {"tp_size": 4}}, "moe_parallel_config.sp_size", (0, 1, 2, 3, 4, 8)),
    *(({"moe_parallel_config": {"tp_size": tp, "dp_size": 2, "pcp_size": 2, "use_ep": use_ep}}, "moe_parallel_config.ep_size",
       (1, 2, 4, 8, 12, 16)) for tp in (1, 3, 4) for use_ep in (False, True)),
    *(({"moe_parallel_config": {"tp_size": 2, "dp_size": 2, "dp_rank": 1, "tp_rank": 1, "use_ep": True, "ep_size": size}},
       "moe_parallel_config.ep_rank", (-1, 0, 2, 3, 4)) for size in (1, 4, 8)),
    *(({"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "ep_size": 8}}, "moe_parallel_config.ep_rank", (3, 4, 7, 8)),),
    ({"moe_parallel_config": {"dp_size": 2, "use_ep": True, "sp_size": 1}}, "moe_parallel_config.all2all_backend",
     ("allgather_reducescatter", "naive", "flashinfer_all2allv", "mori", "pplx", "gather_scatter", "one_sided", "deepep_high_throughput",
      "deepep_low_latency", "deepep_v2", "flashinfer_nvlink_one_sided", "flashinfer_nvlink_two_sided", "mori_high_throughput",
      "mori_low_latency", "nixl_ep", "nccl")),
    ({"num_experts": 256, "moe_parallel_config": {"use_ep": True, "all2all_backend": "one_sided"}}, "moe_parallel_config.dp_size",
     (1, 2, 128, 129)),
    *(({"quant_config": "fp8_block", "stored_layout": layout}, "weights_dtype", (None, "bf16")) for layout in ("rows", "columns")),
    *(({"quant_config": scheme}, "weights_dtype", ("bf16", "f32")) for scheme in
      ("fp8_channel", "int8_zp_w8a16", "int4_zp_w4a16", "nvfp4", "mxfp4", "int4_w4afp8", "fp8_w8a16", None)),
    *(({"quant_config": scheme, **more}, "stored_layout", ("rows", "columns", "columns_with_scales", "scales_128x4", "gptq", "gptq_v2",
                                                          "awq", "pack_quantized"))
      for scheme in (None, "fp8_block", "int8_w8a16", "int4_w4a16", "int4_zp_w4a16", "mxfp4", "nvfp4", "mxfp6_e3m2", "mxfp8")
      for more in ({}, {"hidden_size": 264})),
    *(({"quant_config": scheme}, "accumulate", ("f32", "fast", "slow")) for scheme in
      (None, "fp8_tensor", "fp8_channel", "fp8_block", "int8_channel", "fp8_w8a16")),
    *(({"quant_config": scheme}, "input_quantized", (True,)) for scheme in
      (None, "fp8_block", "fp8_tensor", "int4_w4a16", "nvfp4", "mxfp4_fp8")),
    ({}, "quant_config", tuple({"a1": merged(EMULATED, more), "a2": merged(EMULATED, more), "w1": CODES, "w2": CODES} for more in OF_ACTIVATIONS)),
    ({}, "quant_config", tuple({"a1": PLAIN, "a2": PLAIN, "w1": merged(CODES, more), "w2": merged(CODES, more)} for more in OF_WEIGHTS)),
    ({"weights_dtype": "f32"}, "quant_config",
     tuple({"a1": PLAIN, "a2": PLAIN, "w1": merged(CODES, more), "w2": merged(CODES, more)} for more in OF_WEIGHTS)),
    ({"stored_layout": "scales_128x4"}, "quant_config",
     tuple({"a1": PLAIN, "a2": PLAIN, "w1": merged(CODES, more), "w2": merged(CODES, more)} for more in OF_WEIGHTS)),
    ({}, "quant_config", ({"a1": PLAIN, "a2": EMULATED, "w1": CODES, "w2": CODES}, {"a1": EMULATED, "a2": PLAIN, "w1": CODES, "w2": CODES},
                          {"a1": PLAIN, "a2": {"dtype": "f16"}, "w1": CODES, "w2": CODES}, {"a1": PLAIN, "a2": PLAIN, "w1": CODES, "w2": PLAIN},
                          {"a1": PLAIN, "a2": PLAIN, "w1": CODES, "w2": {**CODES, "dtype": "i8"}})),
    *(({"quant_config": scheme}, "batch_invariant", (True,)) for scheme in
      (None, "fp8_tensor", "fp8_tensor_dynamic", "fp8_block", "int8_tensor_dynamic", "fp8_channel_tensor_dynamic")),
)
# Pairs of these are compiled; names of parallel layouts set moe_parallel_config.
OPTIONS = {
    "has_bias": {"has_bias": True},
    "fp8_block": {"quant_config": "fp8_block"},
    "fp8_tensor_dynamic": {"quant_config": "fp8_tensor_dynamic"},
    "int4_w4a16": {"quant_config": "int4_w4a16"},
    "nvfp4": {"quant_config": "nvfp4"},
    "in_dtype f32": {"in_dtype": "f32"},
    "out_dtype f32": {"out_dtype": "f32"},
    "gelu": {"activation": "gelu"},
    "relu2_no_mul": {"activation": "relu2_no_mul"},
    "per_expert situ": {"activation": "situ", "activation_per_expert": True},
    "up_first": {"gate_up_order": "up_first"},
    "interleaved_8": {"gate_up_order": "interleaved_8"},
    "groups": {"routing_method": "deepseek_v3", "num_expert_group": 4, "topk_group": 2},
    "llama4": {"routing_method": "llama4", "top_k": 1},
    "custom": {"routing_method": "custom"},
    "simulated": {"routing_method": "simulated"},
    "sinks": {"routing_method": "sigmoid_sinks", "num_sink_experts": 1},
    "bias of scores": {"routing_method": "deepseek_v4", "e_score_correction_bias": True},
    "hash_vocabulary": {"routing_method": "deepseek_v4", "hash_vocabulary": 100},
    "per_expert_scale": {"per_expert_scale": True},
    "factor of output": {"routing_method": "deepseek_v3", "routed_scaling_factor": 2.0, "apply_routed_scale_to_output": True},
    "weight on input": {"apply_router_weight_on_input": True, "top_k": 1},
    "n_shared_experts": {"n_shared_experts": 1},
    "wide shared experts": {"n_shared_experts": 1, "shared_intermediate_size": 512},
    "shared_expert_gate": {"shared_expert_gate": True, "n_shared_experts": 1},
    "num_zero_experts": {"num_zero_experts": 2, "routing_method": "longcat"},
    "num_constant_experts": {"num_constant_experts": 2},
    "latent_hidden_size": {"latent_hidden_size": 128},
    "post_expert_norm_eps": {"post_expert_norm_eps": 1e-6},
    "input_quantized": {"input_quantized": True, "quant_config": "fp8_block"},
    "residual": {"residual": True},
    "batch_invariant": {"batch_invariant": True},
    "defer_moe_finalize": {"defer_moe_finalize": True},
    "skip_final_all_reduce": {"skip_final_all_reduce": True},
    "is_lora_enabled": {"is_lora_enabled": True},
    "expert_map": {"expert_map": True},
    "replicas": {"num_redundant_experts": 2, "moe_parallel_config": {"enable_eplb": True}},
    "batched": {"activation_format": "batched"},
    "group_index": {"group_index": True, "quant_config": "int4_w4a16"},
    "weights_dtype": {"weights_dtype": "bf16", "quant_config": "fp8_block"},
    "padded": {"stored_hidden_size": 264},
    "padded inner": {"stored_intermediate_size_per_partition": 392},
    "columns": {"stored_layout": "columns"},
    "fast": {"accumulate": "fast", "quant_config": "fp8_channel"},
    "tp": {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
    "ep": {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
    "dp": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1}},
    "round_robin": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "expert_placement_strategy": "round_robin"}},
    "gather_scatter": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "all2all_backend": "gather_scatter"}},
    "gather_scatter of tp": {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True, "all2all_backend": "gather_scatter"}},
    "one_sided": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "all2all_backend": "one_sided"}},
    "deepep_v2": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "all2all_backend": "deepep_v2"}},
    "deepep_low_latency": {"moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "all2all_backend": "deepep_low_latency"}},
    "part route": ("--part=route",),
    "part quantize": ("--part=quantize",),
    "part finalize": ("--part=finalize",),
    "all ranks": ("--all-ranks",),
    "unfused": ("--backend=unfused",),
    "wgmma": ("--engine=wgmma",),
    "no wgmma": ("--exclude=wgmma",),
    "weight_only": ("--allow=weight_only",),
}


def with_value(fields, path, value):
    outer, _, inner = path.partition(".")
    return merged(fields, {outer: {inner: value}} if inner else {path: value})


def disagree(one, other):
    """Whether two options set a field otherwise, so that they are no pair."""
    return any(disagree(one[key], other[key]) if isinstance(one[key], dict) and isinstance(other[key], dict) else one[key] != other[key]
               for key in one.keys() & other.keys())


def cases():
    """(kind, name, fields, words) of each case."""
    for more, path, values in VALUES:
        for value in values:
            yield "value", (path, json.dumps(more), value), with_value(merged(BASE, more), path, value), ()
    named = [(name, ({}, option) if isinstance(option, tuple) else (option, ())) for name, option in OPTIONS.items()]
    for (one, (fields, words)), (other, (more, further)) in itertools.combinations_with_replacement(named, 2):
        if not disagree(fields, more) and (one == other or not (words and further)):
            yield "pair", (one, other), merged(merged(BASE, fields), more), (*words, *(further if one != other else ()))


def outcomes(moec, folder, chosen, number):
    """Returns the error of moec for each case; "" if it accepts the case."""
    lines = []
    for index, (_, _, fields, words) in enumerate(chosen):
        lines.append([folder / f"{number}-{index}.json", *words])
        lines[-1][0].write_text(json.dumps(fields))
    said = testing.compile_lines(moec, lines, folder / f"{number}.cases", common=["--arch=sm_90a", "--max-tokens=64", "--emit=stages"])
    return [re.sub(r"/\S*\.json", "INPUT", text) if status else "" for status, text in said]


def text_of(said):
    """options.txt of (kind, name, outcome) of each case."""
    lines, pairs = [HEADER], {}
    for kind, name, outcome in said:
        if kind == "value":
            path, more, value = name
            lines.append(f"{path} = {json.dumps(value)} with {more}: {outcome or 'accepted'}\n")
        for message in filter(None, outcome.splitlines()) if kind == "pair" else ():
            pairs.setdefault(message, []).append(" + ".join(name) if name[0] != name[1] else name[0])
    lines.append(f"\n{sum(kind == 'pair' for kind, *_ in said)} options and pairs\n")
    lines += [f"{message}\n" + "".join(f"    {name}\n" for name in names) for message, names in pairs.items()]
    return "".join(lines)


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write options.txt")
    options = parser.parse_args()
    tools, scratch = testing.Tools(options.bin), testing.Scratch(options.work)
    chosen = list(cases())
    chunks = list(enumerate(testing.in_chunks(chosen, 400)))
    made = testing.parallel(lambda chunk: outcomes(tools.moec, scratch.folder, chunk[1], chunk[0]), chunks, options.jobs)
    text = text_of([(kind, name, outcome) for (kind, name, *_), outcome in zip(chosen, itertools.chain(*made), strict=True)])
    return stored.judge(STORED, text, options.update, f"{len(chosen)} layers")


if __name__ == "__main__":
    sys.exit(main())
