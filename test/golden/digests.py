#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the digests of the report, the manifest and the kernels of many layers with digests.txt.

packages.py shows every sentence and argument of a few layers with few tokens. This test covers what these lack: all token
counts, each model, scheme and GPU, ranks whose sizes all differ, and each field of a layer. A line has the number of variants
and kernels, so that the most common changes can be read. The texts themselves stay in the work folder: to see what a
change of the compiler does to them, run both builds with work folders of their own, and compare these with `diff -r`.
--update writes digests.txt anew.
"""

import hashlib
import json
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing
import packages
import stored

# The digest in the name of an entry.
ENTRY = re.compile(r"(?<=[a-z0-9])_[0-9a-f]{8}(?=\()")
STORED = pathlib.Path(__file__).resolve().parent / "digests.txt"
HEADER = """\
# Digests of the report, the manifest and the kernels of many layers, with the number of variants and kernels, or the digest of
# the refusal. Checked by digests.py, and written by it: `test/golden/digests.py --bin=build/bin --work=/tmp/digests --update`.
"""
ARCHS = ("sm_80", "sm_120f", "sm_89", "sm_100a", "sm_75", "sm_86", "sm_90", "sm_121a")
# No rank is the first, no two sizes of a layout are equal, and some shares are of several sizes.
LAYOUTS = (
    ("--tp=4", "--rank=3"),
    ("--dp=2", "--tp=4", "--ep", "--rank=5"),
    ("--pcp=2", "--tp=3", "--rank=4"),
    ("--dp=4", "--ep", "--placement=round_robin", "--rank=3"),
    ("--dp=2", "--tp=4", "--sp=4", "--ep", "--all-to-all=gather_scatter", "--rank=6"),
    ("--dp=2", "--ep", "--all-to-all=deepep_low_latency", "--rank=1"),
    ("--dp=3", "--tp=2", "--sp=2", "--ep", "--all-to-all=one_sided", "--rank=4"),
    ("--dp=2", "--pcp=3", "--tp=4", "--all-to-all=gather_scatter", "--rank=17"),
    ("--tp=6", "--all-ranks"),
    ("--dp=2", "--tp=3", "--ep", "--all-to-all=gather_scatter", "--all-ranks"),
)
SHAPE = {"num_experts": 40, "top_k": 5, "hidden_size": 1536, "intermediate_size": 640}
PLAIN = {"moec_layer": 1, **SHAPE, "in_dtype": "bf16", "routing_method": "renormalize"}
TOKEN = {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32", "dynamic": True}
# A layer whose second matmul and combine are one kernel for some token counts.
SLICES = {"num_experts": 8, "top_k": 8, "hidden_size": 2048, "intermediate_size": 32}
FIELDS = {
    "biases": {"has_bias": True, "out_dtype": "f32", "activation": "swigluoai", "swiglu_alpha": 1.5, "gate_up_order": "interleaved"},
    "groups": {"routing_method": "deepseek_v3", "num_expert_group": 8, "topk_group": 3, "routed_scaling_factor": 2.5,
               "norm_topk_prob_eps": 1e-6, "router_logit_softcapping": 30.0, "router_output_multiplier": 0.5},
    "replicas": {"quant_config": "fp8_block", "num_redundant_experts": 4, "expert_map": True,
                 "moe_parallel_config": {"dp_size": 2, "dp_rank": 1, "use_ep": True, "enable_eplb": True}},
    "shared-rows": {"n_shared_experts": 2, "shared_expert_gate": True, "routed_scaling_factor": 2.5, "apply_routed_scale_to_output": True},
    "shared-mlp": {"quant_config": "fp8_channel", "n_shared_experts": 2, "shared_intermediate_size": 896,
                   "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
    "shared-of-ranks": {"quant_config": "fp8_block", "n_shared_experts": 3, "shared_expert_gate": True,
                        "moe_parallel_config": {"dp_size": 2, "tp_size": 2, "tp_rank": 1, "dp_rank": 1, "use_ep": True,
                                                "all2all_backend": "gather_scatter"}},
    "zero-experts": {"num_zero_experts": 8, "quant_config": "mxfp4_w4a16", "routing_method": "longcat", "has_bias": True,
                     "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
    "constant-experts": {"num_constant_experts": 3, "residual": True},
    "hash-table": {"routing_method": "deepseek_v4", "hash_vocabulary": 1000, "per_expert_scale": True, "quant_config": "fp8_block"},
    "sinks": {"routing_method": "sigmoid_sinks", "num_sink_experts": 2, "activation": "relu2_no_mul", "in_dtype": "f16"},
    "weight-on-input": {"routing_method": "llama4", "top_k": 1, "quant_config": "fp8_channel", "apply_router_weight_on_input": True},
    "norm": {"post_expert_norm_eps": 1e-6, "has_bias": True, "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
    "latent": {"latent_hidden_size": 768, "residual": True, "activation": "gelu_tanh"},
    "codes-of-x": {"quant_config": "fp8_block", "input_quantized": True, "residual": True},
    "invariant": {"batch_invariant": True, "quant_config": "fp8_block"},
    "deferred": {"defer_moe_finalize": True, "quant_config": "int8_channel"},
    "lora": {"is_lora_enabled": True, "n_shared_experts": 1},
    "batched": {"activation_format": "batched", "routing_method": "custom", "quant_config": "fp8_block", "input_quantized": True},
    "batched-plain": {"activation_format": "batched", "routing_method": "custom", "activation": "gelu"},
    "padded": {"quant_config": "mxfp4_w4a16", "hidden_size": 1440, "intermediate_size": 608, "stored_hidden_size": 1536,
               "stored_intermediate_size_per_partition": 640},
    "by-expert": {"activation": "situ", "activation_per_expert": True, "quant_config": "nvfp4"},
    "act-order": {"quant_config": "int4_w4a16", "group_index": True, "stored_layout": "gptq"},
    "columns": {"quant_config": "int8_w8a16", "stored_layout": "columns"},
    "awq": {"quant_config": "int4_zp_w4a16", "stored_layout": "awq", "moe_parallel_config": {"tp_size": 2, "tp_rank": 1}},
    "blocks-of-128x4": {"quant_config": "nvfp4", "stored_layout": "scales_128x4"},
    "floats": {"quant_config": "fp8_block", "weights_dtype": "f16", "moe_parallel_config": {"tp_size": 5, "tp_rank": 2}},
    "fast": {"quant_config": "fp8_channel", "accumulate": "fast"},
    "two-schemes": {"quant_config": {"a1": TOKEN, "w1": {"dtype": "f8E4M3FN", "shape": [1, -1], "scale": "f32"},
                                     "a2": {**TOKEN, "shape": [1, 128]}, "w2": {"dtype": "f8E4M3FN", "shape": [128, 128], "scale": "f32"}}},
    "codes-by-8-bits": {"quant_config": {"a1": TOKEN, "a2": TOKEN, "w1": {"dtype": "i4", "shape": [1, 128], "scale": "bf16"},
                                         "w2": {"dtype": "i4", "shape": [1, 128], "scale": "bf16"}}},
    "slices": {**SLICES, "quant_config": "fp8_block", "has_bias": True},
    "slices-of-channels": {**SLICES, "quant_config": "fp8_channel", "intermediate_size": 64},
    "no-slices-fast": {**SLICES, "quant_config": "fp8_channel", "accumulate": "fast"},
    "no-slices-residual": {**SLICES, "quant_config": "fp8_channel", "residual": True},
    "no-slices-of-ranks": {**SLICES, "quant_config": "fp8_channel", "moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}},
    "odd-sizes": {"num_experts": 7, "top_k": 3, "hidden_size": 1416, "intermediate_size": 200},
    "odd-bytes": {"quant_config": "fp8_block", "num_experts": 7, "top_k": 3, "hidden_size": 1424, "intermediate_size": 208},
    "large": {"num_experts": 8, "top_k": 2, "hidden_size": 6144, "intermediate_size": 16384, "quant_config": "fp8_channel"},
    "many-experts": {"num_experts": 1000, "top_k": 30, "hidden_size": 512, "intermediate_size": 128, "quant_config": "fp8_block"},
}
# Options, and the scheme that they are given with.
OPTIONS = (
    ("bf16", "--backend=unfused"), ("bf16", "--engine=mma_sync"), ("bf16", "--engine=simt"), ("fp8_block", "--engine=mma_sync"),
    ("fp8_block", "--exclude=gemv"), ("fp8_block", "--exclude=native"), ("int4_w4a16", "--engine=mma_sync"),
    ("int4_w4a16", "--exclude=wgmma_rs,gemv"), ("nvfp4", "--allow=weight_only"), ("nvfp4", "--exclude=weight_only"), ("nvfp4", "--exclude=simt"), ("mxfp8", "--allow=weight_only"),
    ("bf16", "--part=route"), ("bf16", "--part=route --max-tokens=2048"), ("fp8_block", "--part=quantize"), ("bf16", "--part=finalize"), ("fp8_block", "--logits-dtype=f32"),
    ("fp8_channel", "--accumulate=fast"), ("bf16", "--dtype=f16"),
    *((scheme, f"--max-tokens={most}") for scheme, most in
      (("bf16", 1), ("fp8_block", 8), ("bf16", 9), ("fp8_block", 128), ("bf16", 129), ("fp8_channel", 2049), ("bf16", 300000))),
)


def cases(rows, gpus, folder):
    """(name, words of moec) of each layer. Writes the layer JSONs to the folder."""
    made = []

    def add(name, fields, *words):
        path = folder / f"{name.replace('/', '+')}.json"
        path.write_text(json.dumps({**PLAIN, "name": "layer", **fields}))
        made.append((name, [path, *words]))

    for number, path in enumerate(sorted(packages.MODELS.glob("*.json"))):
        layout, arch = LAYOUTS[number % len(LAYOUTS)], ARCHS[number % len(ARCHS)]
        parts = ("--no-shared-experts",) if path.stem in ("kimi-k3", "nemotron-3-super-120b-a12b") else ()
        made.append((f"{path.stem}/sm_90a", [path, "--arch=sm_90a", *parts]))
        if number % 3:
            made.append((f"{path.stem}/{arch}/{'/'.join(word.strip('-') for word in layout)}", [path, f"--arch={arch}", *layout, *parts]))
    for number, scheme in enumerate(rows["schemes"]):
        fields = {"quant_config": scheme["name"], "has_bias": number % 3 == 0, "activation": ("silu", "relu2_no_mul")[number % 2]}
        in_dtype = testing.multiplied(scheme) if testing.is_plain(scheme) else "bf16"
        arch = ARCHS[number % 4]
        add(f"scheme-{scheme['name']}", {**fields, "in_dtype": in_dtype}, f"--arch={arch if number % 3 else 'sm_90a'}")
    for number, gpu in enumerate(gpus):
        scheme = ("bf16", "fp8_block", "int4_w4a16")[number % 3]
        add(f"gpu-{gpu['name']}", {"quant_config": scheme}, f"--gpu={gpu['name']}", f"--tokens={number + 1},{99 * number + 150}",
            f"--histogram={('uniform', 'zipf:1.2', 'hot:7', 'used:0.3')[number % 4]}")
    for name, fields in FIELDS.items():
        add(name, fields, "--arch=sm_90a")
    for scheme, option in OPTIONS:
        add(f"{scheme}/{option.strip('-').replace(' --', '/')}", {"quant_config": scheme}, "--arch=sm_120a" if "allow" in option else "--arch=sm_90a", option)
    return made


def short(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def kernels_text(package):
    """The sources of all kernels, without the digest in the names of entries."""
    texts = {path.relative_to(package): path.read_text() for path in sorted(package.glob("**/*.cu"))}
    return "".join(f"// {path}\n{ENTRY.sub('', text)}" for path, text in texts.items())


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return short(text)


def lines_of(moec, work, scratch, chosen, number):
    """A line of digests.txt for each case. Two processes answer for all of them."""
    packaged = [[*(word for word in words if not re.match("--(tokens|histogram)", str(word))), "-o", scratch / name.replace("/", "+")]
                for name, words in chosen]
    made = testing.compile_lines(moec, packaged, scratch / f"compile-{number}.cases", common=["--no-cubin", "--no-tuned-store"])
    told = testing.compile_lines(moec, [words for _, words in chosen], scratch / f"explain-{number}.cases", verb="explain",
                                 common=["--no-tuned-store"])
    lines = []
    for (name, words), (status, said), (_, report) in zip(chosen, made, told, strict=True):
        own = name.replace("/", "+")
        shown = write(work / f"{own}.report.txt", report.replace(str(words[0]), "INPUT"))
        if status:
            lines.append(f"{name} refused {write(work / f'{own}.refusal.txt', said.replace(str(words[0]), 'INPUT'))}")
            continue
        package = scratch / own
        # A package whose ranks have shares of several sizes has a manifest for each size, and one that names these.
        texts = [packages.manifest_text(path) if "targets" in path.read_text() else re.sub("[0-9a-f]{64}", "", path.read_text())
                 for path in sorted(package.glob("**/manifest.json"))]
        counts = re.match(r".*: (\d+) variants, (\d+) kernels", said)
        lines.append(f"{name} {counts[1]} {counts[2]} report {shown} manifest {write(work / f'{own}.manifest.txt', ''.join(texts))}"
                     f" kernels {write(work / f'{own}.kernels.txt', kernels_text(package))}")
        shutil.rmtree(package)
    return lines


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write digests.txt")
    options = parser.parse_args()
    tools, scratch, work = testing.Tools(options.bin), testing.Scratch(options.work), pathlib.Path(options.work) / "texts"
    shutil.rmtree(work, ignore_errors=True)
    gpus = json.loads(testing.run([tools.moec, "list", "gpus", "--json"])[1])
    chosen = list(enumerate(testing.in_chunks(cases(tools.rows(), gpus, scratch.folder), 40)))
    chunks = testing.parallel(lambda chunk: lines_of(tools.moec, work, scratch.folder, chunk[1], chunk[0]), chosen, options.jobs)
    text = HEADER + "".join(f"{line}\n" for chunk in chunks for line in chunk)
    return stored.judge(STORED, text, options.update, f"{len(text.splitlines()) - 2} layers, texts in {work}", context=0)


if __name__ == "__main__":
    sys.exit(main())
