#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes test/import/Inputs/class-defaults.json: what the configuration classes of transformers say by default.

    python3 test/oracle/defaults.py [--check]

Each entry is a config.json with everything that its class writes, which keys the class has other names for, and which keys it
reads without writing them. Whatever else a config says the class ignores.
test/import/DefaultsTest.cpp deletes each key alone: the layer must stay, or moec must ask for the key. It needs neither
transformers nor this program. README.md says what this program needs.
"""

import argparse
import copy
import dataclasses
import json
import pathlib
import re
import sys
from typing import Any

from configs import class_of, make_config, transformers, written
from families import FAMILIES, Family, Keys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATH = ROOT / "test" / "import" / "Inputs" / "class-defaults.json"
# Keys that moec reads are among the words of these tables.
TABLES = ("DeepseekFamilies.cpp", "EngineFamilies.cpp", "Families.cpp", "Families.h", "SparseLayers.cpp")
# Values of a key, tried to see whether a class reads it.
VALUES: tuple[Any, ...] = (1, 2, [1, 2], "2,3", True, False, 0.5, {"name": "gelu"})
# Keys that every class has of its base, and parts of a model that have no experts.
OTHER_PARTS = ("vision_config", "audio_config", "attn_config", "id2label", "label2id", "per_layer_config")


def relevant(text: Keys, base: Keys) -> Keys:
    return {
        key: relevant(value, base) if isinstance(value, dict) and key.endswith("_config") else value
        for key, value in text.items()
        if key not in OTHER_PARTS and (key not in base or key in ("model_type", "architectures"))
    }


def aliases(config_class: Any, default: Keys) -> dict[str, str]:
    """Names that the class takes for keys, each tried: {other name: key}."""
    made = {}
    for alias, key in config_class.attribute_map.items():
        if key not in default or isinstance(default[key], (dict, list)) or default[key] is None:
            continue
        value = default[key] + 8 if isinstance(default[key], int) else default[key]
        try:
            read = config_class.from_dict({**{k: v for k, v in default.items() if k != key}, alias: value}).to_dict()
        except Exception:  # what transformers does not take moec need not take
            continue
        if read.get(key) == value:
            made[alias] = key
    return made


def words() -> list[str]:
    """Every word of a string literal of the tables."""
    found: set[str] = set()
    for table in TABLES:
        for literal in re.findall(r'"([^"\n]*)"', (ROOT / "compiler" / "import" / table).read_text()):
            found.update(re.findall(r"[a-z][a-z0-9_]{3,}", literal))
    return sorted(found)


def beyond(config_class: Any, default: Keys, needed: Keys, known: dict[str, str]) -> list[str]:
    """Keys that change what the class says of others, though it has no such field."""

    def said(more: Keys) -> Keys:
        made = config_class(**{**needed, **more}).to_dict()
        return {key: value for key, value in made.items() if key not in more}

    base, made = said({}), []
    for key in words():
        if key in default or key in known or "rope" in key:
            continue
        for value in VALUES:
            try:
                other = said({key: copy.deepcopy(value)})
            except Exception:  # what transformers does not take
                continue
            if other != base:
                made.append(key)
                break
    return made


def entry(name: str, family: Family, base: Keys) -> Keys:
    bare = dataclasses.replace(family, sizes=dict(family.needed), beside={})
    config = make_config(name, bare, {})
    inner_class = class_of(family, name, family.config)
    text = relevant(written(config), base)
    part = family.part.replace(".", "/") if family.outer else "ffn_config" if "ffn_config" in text else ""
    text["dtype"] = "bfloat16"
    inner = inner_class(**family.needed).to_dict()
    other_names = aliases(inner_class, inner)
    return {
        "class": inner_class.__name__,
        "architecture": family.architecture,
        "part": part,
        "needed": sorted([*family.needed, "dtype"]),
        "aliases": other_names,
        "reads": beyond(inner_class, inner, family.needed, other_names),
        "config": text,
    }


def content() -> str:
    base = transformers.PreTrainedConfig().to_dict()
    entries = [
        entry(name, family, base)
        for name, family in FAMILIES.items()
        if not name.endswith("-hash")  # the same class
    ]
    rows = ",\n".join(json.dumps(each, allow_nan=False) for each in entries)
    return (
        '{"about": "written by test/oracle/defaults.py, of transformers '
        f'{transformers.__version__}",\n"classes": [\n{rows}\n]}}\n'
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only says whether the file is what would be written")
    arguments = parser.parse_args()
    made = content()
    if arguments.check:
        return 0 if PATH.read_text() == made else 1
    PATH.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
