#!/usr/bin/env python3
# ===- families_doc.py - families.md is what the importers read -------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
"""Each configuration class of transformers with experts is a row of the tables of families, or has a reason why it is none.

The classes stand in test/oracle/classes.json, written by classes.py there; the reasons in unclaimed.json. Makes
docs/reference/families.md of both; --fix rewrites it.
"""

import json
import re
import sys

from lintlib import Finding, main

TABLES = (
    "compiler/import/DeepseekFamilies.cpp",
    "compiler/import/EngineFamilies.cpp",
    "compiler/import/Families.cpp",
)
CLASSES, REASONS, PAGE = (
    "test/oracle/classes.json",
    "test/oracle/unclaimed.json",
    "docs/reference/families.md",
)
COLUMN = re.compile(r'\.{}\s*=\s*((?:"[^"]*"\s*)+)')
# A class that stands inside another, and the model type whose row reads it.
INNER = {"DbrxFFNConfig": "dbrx"}


# Lines of the page for models with experts and without a class of their own.
OTHERS = (
    "Models around one of these classes are read by its row.",
    "",
    "| folder | class of its experts | imported |",
    "|---|---|---|",
    "| `kimi_k25` | `DeepseekV3Config` | yes |",
    "| `nemotron_h_omni`, `nemotron3_5_transcribe` | `NemotronHConfig` | yes |",
    "| `vitpose` | `VitPoseBackboneConfig` | no |",
    "",
    "Hy-V4 limits gates and ups of routed experts (`swiglu_limit`), and its shared experts have no limit. In moec shared experts have the "
    "activation of the routed ones, so a package with them would compute another layer: moec asks for `--no-shared-experts`, and the "
    "caller adds the shared MLP.",
    "",
    "MoNE replaces experts by constant vectors: `approximate_experts`, or `expert_substitution` of a `transform_config`, lists them, and "
    "`experts.N.approx_value` is the vector of "
    "expert N. moec refuses such a layer. A layer JSON with `num_constant_experts` computes it, for a router whose constant experts are "
    "the last.",
    "",
    "Models without a class in transformers are read by the keys that vLLM reads, each of which a config must have.",
    "",
    "| architecture | model |",
    "|---|---|",
    "| `AliceAIForCausalLM` | Alice-AI |",
    "| `ArcticForCausalLM` | Arctic |",
    "| `BailingMoeV3ForCausalLM`, `BailingMoeV3VLForConditionalGeneration` | Ling 3; shared experts with a limit are refused: it "
    "is that of `swiglustep`, and routed experts have that of `silu` |",
    "| `DeepseekV41ForCausalLM` | DeepSeek-V4.1; image tokens choose by a bias of their own: "
    "`--ignore-field=vision_config` supports text tokens only |",
    "| `InternS2MobiusForConditionalGeneration` | Intern-S2-Mobius; layers share banks of experts (`meta_mlp`): layer N takes the "
    "bank N modulo `num_blocks`, which `--layer` names, with `--no-shared-experts` from layer `num_blocks` on |",
    "| `K2HorizonForCausalLM` | K2-Horizon; experts of attention (`mova`) are no part of the layer |",
    "| `KimiK3ForConditionalGeneration` | Kimi-K3 |",
    "| `MiniMaxM1ForCausalLM`, `MiniMaxText01ForCausalLM` | MiniMax-M1, MiniMax-Text-01 |",
    "| `PanguUltraMoEForCausalLM`, `PanguProMoEV2ForCausalLM` | openPangu-Ultra-MoE and Pro-MoE-V2 |",
    "| `Param2MoEForCausalLM` | Param2-MoE |",
    "| `Step3VLForConditionalGeneration`, `Step3TextForCausalLM` | Step3 |",
    "| `Step5ForCausalLM`, `Step5ForConditionalGeneration` | Step5 |",
)


def words(text, column):
    """Each word of a column of the table."""
    return {
        word
        for match in re.finditer(COLUMN.pattern.replace("{}", column), text)
        for word in "".join(re.findall(r'"([^"]*)"', match.group(1))).split()
    }


def page(data, reasons, types):
    lines = [
        "# Families of models",
        "",
        f"The table lists the configuration classes of transformers {data['transformers']} that mention experts. The last column says",
        "whether moec imports the class. \"the block\" is the MoE block of that class in transformers, the source of the comparison.",
        "",
        "`test/lint/families_doc.py --fix` writes the page from the tables of families and `test/oracle/classes.json`.",
        "",
        "| class | model type | imported |",
        "|---|---|---|",
    ]
    for row in data["classes"]:
        kind = INNER.get(row["class"], row["model_type"])
        lines.append(f"| `{row['class']}` | `{kind}` | {'yes' if kind in types else 'no: ' + reasons.get(kind, '?')} |")
    lines += ["", *OTHERS]
    return "\n".join(lines) + "\n"


def check(root, files, options):
    text = "".join((root / table).read_text() for table in TABLES if (root / table).exists())
    types = words(text, "modelTypes")
    data = json.loads((root / CLASSES).read_text())
    reasons = json.loads((root / REASONS).read_text())
    kinds = [INNER.get(row["class"], row["model_type"]) for row in data["classes"]]
    for kind in kinds:
        if kind not in types and kind not in reasons:
            yield Finding(CLASSES, 1, f"'{kind}' is no row of {TABLES[-1]} and has no reason in {REASONS}")
    for kind in reasons:
        if kind in types or kind not in kinds:
            yield Finding(REASONS, 1, f"'{kind}' is {'imported' if kind in types else 'no class'}: it needs no reason")
    wanted = page(data, reasons, types)
    file = root / PAGE
    if options.fix:
        file.write_text(wanted)
    elif not file.exists() or file.read_text() != wanted:
        yield Finding(PAGE, 1, "is not what the table says; test/lint/families_doc.py --fix")


def add_options(parser):
    parser.add_argument("--fix", action="store_true")


if __name__ == "__main__":
    sys.exit(main(check, add_options))
