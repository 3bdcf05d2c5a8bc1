"""Writes layer JSONs that have each field of the schema, and checks that --emit=layer-json keeps each of them.

usage: round_trip.py SCHEMA FOLDER. What is written is read as the same layer, and written again as the same text.
"""

import json
import pathlib
import re
import subprocess
import sys

SIZES = {"moec_layer": 1, "num_experts": 24, "top_k": 3, "hidden_size": 128, "intermediate_size": 96}
ROUTED = {**SIZES, "in_dtype": "f16", "out_dtype": "f32", "router_logits_dtype": "bf16", "routing_method": "deepseek_v3"}
CODES = {"dtype": "f4E2M1FN", "shape": [1, 16], "scale": "f8E4M3FN", "alpha_or_gscale": "f32"}
BYTES = {"dtype": "f8E4M3FN", "shape": [1, 32], "scale": "f8E8M0FNU"}
LAYERS = [
    {**ROUTED, "num_expert_group": 6, "topk_group": 2, "router_logit_softcapping": 30.0, "router_output_multiplier": 0.5,
     "norm_topk_prob_eps": 1e-6, "routed_scaling_factor": 2.5, "apply_routed_scale_to_output": True, "per_expert_scale": True,
     "e_score_correction_bias": True, "has_bias": True, "gate_up_order": "up_first", "residual": True, "batch_invariant": True,
     "activation": "swigluoai", "swiglu_alpha": 1.5, "swiglu_beta": 0.5, "swiglu_limit": 6.0},
    {**SIZES, "in_dtype": "bf16", "scoring_func": "sigmoid", "renormalize": False, "hash_vocabulary": 77, "n_shared_experts": 2,
     "shared_intermediate_size": 40, "shared_expert_gate": True, "activation": "situ", "activation_situ_beta": 3.0,
     "activation_situ_linear_beta": 2.0, "latent_hidden_size": 64, "defer_moe_finalize": True, "skip_final_all_reduce": True},
    {**ROUTED, "routing_method": "sigmoid_sinks", "num_sink_experts": 2, "num_redundant_experts": 4, "expert_map": True, "is_lora_enabled": True,
     "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "pcp_size": 3, "pcp_rank": 2, "dp_size": 4, "dp_rank": 3, "sp_size": 2, "use_ep": True,
                             "enable_eplb": True, "expert_placement_strategy": "round_robin", "all2all_backend": "one_sided"}},
    {**SIZES, "in_dtype": "f32", "routing_method": "longcat", "num_zero_experts": 5, "num_constant_experts": 6, "post_expert_norm_eps": 1e-5,
     "activation": "situ", "activation_per_expert": True, "accumulate": "fast", "activation_format": "batched"},
    {**ROUTED, "top_k": 1, "apply_router_weight_on_input": True, "stored_layout": "gptq_v2", "stored_hidden_size": 136, "group_index": True,
     "stored_intermediate_size_per_partition": 104, "quant_config": {"scheme": "int4_zp_w4a16", "group_size": 48}},
    {**ROUTED, "weights_dtype": "bf16", "input_quantized": True, "quant_config": {"scheme": "fp8_block", "is_scale_swizzled": True}},
    {**ROUTED, "quant_config": {
        "a1": {**CODES, "dynamic": True, "second_per_row": True}, "a2": {**BYTES, "dynamic": True, "scale_rule": "ceil"}, "w1": CODES,
        "w2": {"dtype": "i4", "shape": [1, -1], "scale": "bf16", "zp": "i8"}}},
]
# Fields that are not kept: other names, one that has no effect, and derived ones.
LEFT_OUT = {"name", "experts_per_token", "hidden_dim", "stored_hidden_dim", "latent_hidden_dim", "is_act_and_mul", "disable_inplace",
            "moe_parallel_config.ep_size", "moe_parallel_config.ep_rank"}
# activation_situ_beta is another name of swiglu_beta, which is the one that is written.
WRITTEN = {"activation_situ_beta": "swiglu_beta"}


def fields_of(schema, definitions, path=""):
    for name, field in schema["properties"].items():
        field = definitions[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
        inner = [form for form in field.get("oneOf", [field]) if "properties" in form]
        for form in inner:
            yield from fields_of(form, definitions, f"{path}{name}.")
        if not inner:
            yield path + name


def flat(value, path=""):
    for name, part in value.items():
        if isinstance(part, dict):
            yield from flat(part, f"{path}{name}.")
        else:
            yield path + name, part


def operand(name):
    """The field's name, one for the descriptors of all operands."""
    return re.sub(r"^quant_config\.(a1|a2|w1|w2)\.", "descriptor.", name)


def emit(path, what):
    return subprocess.run(["moec", "compile", str(path), f"--emit={what}"], stdout=subprocess.PIPE, text=True, check=True).stdout


def main():
    schema = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    seen = set()
    for number, layer in enumerate(LAYERS):
        path, again = folder / f"{number}.json", folder / f"{number}-again.json"
        path.write_text(json.dumps({"name": "l", **layer}))
        text = emit(path, "layer-json")
        again.write_text(text)
        written = dict(flat(json.loads(text)))
        for name, value in flat(layer):
            seen.add(name)
            name = WRITTEN.get(name, name)
            if written.get(name) != value:
                print(f"layer {number}: {name} is {written.get(name)}, expected {value}")
        if emit(again, "layer-json") != text:
            print(f"layer {number}: the text changes when it is read")
        if emit(path, "layer") != emit(again, "layer"):
            print(f"layer {number}: another layer is read")
    for name in sorted({operand(name) for name in fields_of(schema, schema["$defs"])} - {operand(name) for name in seen} - LEFT_OUT):
        print(f"{name}: no layer here has it")
    print(f"{len(seen)} fields")


main()
