# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what each config of a folder becomes, a line each: the sizes, routing and activation of the resolved layer."""

import pathlib
import re
import subprocess
import sys

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    if path.stem == "tiny":
        continue
    for extra in ([], ["--no-shared-experts"]):
        done = subprocess.run(["moec", "compile", path, "--scheme=bf16", "--emit=layer", *extra], capture_output=True, text=True)
        if done.returncode == 0:
            break
    if done.returncode:
        print(f"{path.stem}: {done.stderr.strip()}")
        continue

    def field(name):
        found = re.search(rf"(?m)^ {{4}}{name} = (#moe\.\w+<[^>]*>|\w+)", done.stdout)
        text = found and re.sub(r"^#moe\.\w+<|>$", "", found.group(1))
        return text and re.sub(r"\d\.\d+e[-+]\d+", lambda number: f"{float(number.group(0)):g}", text)

    words = [f"{field('top_k')}/{field('num_experts')}", f"{field('hidden_size')}x{field('intermediate_size')}", f"{field('routing')};",
             f"{field('activation')};"]
    words += [f"{name}={field(name)}" for name in ("latent_hidden_size", "n_shared_experts", "shared_intermediate_size",
                                                     "num_zero_experts", "hash_vocabulary") if field(name)]
    words += [name for name in ("has_bias", "apply_router_weight_on_input", "per_expert_scale", "shared_expert_gate") if re.search(rf"\b{name}\b", done.stdout)]
    print(f"{path.stem}: {' '.join(words)}" + (" (without shared experts)" if extra else ""))
