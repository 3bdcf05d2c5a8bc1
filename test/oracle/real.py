# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configurations of real models with small widths, and checkpoints that save_pretrained writes."""

import copy
import dataclasses
import functools
import hashlib
import json
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import torch

from blocks import first_block, randomize, stored
from compare import Record, Setup, compiled, judge
from configs import class_of, inner_config, make_config, merged, modeling, past_the_class, transformers, written
from families import FAMILIES, HIDDEN, Family, Keys

WIDTHS = ("intermediate_size", "ffn_hidden_size", "expert_hidden_dim", "share_expert_dim")
EXPERT_WIDTHS = (
    "expert_hidden_dim",
    "expert_ffn_hidden_size",
    "moe_intermediate_size",
    "ffn_hidden_size",
    "intermediate_size",
)


def narrowed(config: Keys) -> Keys:
    """The same, with narrow experts; what else it says stays."""
    made = copy.deepcopy(config)
    part = next((made[key] for key in ("text_config", "ffn_config") if key in made), made)
    both = {**made, **part}
    expert = next(both[key] for key in EXPERT_WIDTHS if both.get(key))
    expert = expert[0] if isinstance(expert, list) else expert

    def scale(value: Any) -> Any:
        if isinstance(value, list):
            return [scale(item) for item in value]
        return max(16, round(value * 48 / expert / 16) * 16)

    for level in {id(level): level for level in (made, part)}.values():
        for key, value in level.items():
            if key in ("hidden_size", "d_model"):
                level[key] = HIDDEN
            elif key.endswith(WIDTHS) and value:
                level[key] = scale(value)
            elif key == "moe_latent_size" and value:
                level[key] = 64
        for key in ("quantization_config", "compression_config", "expert_dtype"):
            level.pop(key, None)
    if "d_model" in made and "ffn_config" in made:
        made["ffn_config"]["hidden_size"] = HIDDEN
    return made


def read_as(setup: Setup, text: Keys) -> str:
    """The layer that moec reads from a config, without its origin; or the refusal."""
    record = Record("", "")
    package, options = compiled(setup, copy.deepcopy(text), {}, setup.options(None), record)
    if package is None:
        return record.refusals[-1]
    with package:
        layer = {key: value for key, value in package.layer.items() if key not in ("name", "origin")}
    return json.dumps([layer, options.get("no_shared_experts", False)], sort_keys=True)


def real(setup: Setup, path: pathlib.Path) -> Record:
    """A real model's config.json, read by both; and whether it means the same once transformers has saved it again."""
    record = Record(path.stem, "real config", "real", setup.dtype)
    text = narrowed(json.loads(path.read_text())) if path.stem != "tiny" else {}
    kind = text.get("model_type")
    named = (name for name, family in FAMILIES.items() if text.get("architectures") == [family.architecture])
    name = next(named, kind if kind in FAMILIES else None)
    if name is None:
        record.status, record.notes = "absent", ["no block of transformers"]
        return record
    family = FAMILIES[name]
    fields = copy.deepcopy(text)
    # Classes want the exact type of what older ones wrote.
    for level in [fields, *[fields.get(key, {}) for key in ("text_config", "ffn_config")]]:
        if "moe_normalize_expert_weights" in level:
            level["moe_normalize_expert_weights"] += 0.0
        if "attn_temperature_tuning" in level:
            level["attn_temperature_tuning"] = bool(level["attn_temperature_tuning"])
    config = class_of(family, name, family.outer or family.config).from_dict(fields)
    # The last layer has experts; of these two moec counts otherwise.
    last = inner_config(family, config).num_hidden_layers - 1
    judge(setup, name, family, config, text, text, record, None if name in ("nemotron_h", "longcat_flash") else last)
    before, after = read_as(setup, text), read_as(setup, written(config))
    if before != after:
        record.notes.append(f"saved again it is another layer: {after}")
        record.status = "differs"
    return record


def configs_of(setup: Setup, folder: pathlib.Path) -> Iterator[tuple[Record, Callable[[], Record]]]:
    for path in sorted(folder.glob("*.json")):
        yield Record(path.stem, "real config", "real", setup.dtype), functools.partial(real, setup, path)


# Widths at which a tensor's rows and columns are as many.
SQUARE = {"square first": {"intermediate_size": HIDDEN // 2}, "square second": {"intermediate_size": HIDDEN}}
CHECKPOINTS: dict[str, dict[str, Keys]] = {"gpt_oss": SQUARE, "llama4_text": SQUARE, "mixtral": SQUARE}


def checkpoint(setup: Setup, runner: str, name: str, family: Family, case: str, overrides: Keys) -> Record:
    """save_pretrained, then moec-run finds every tensor and the same bytes."""
    record = Record(name, case, "full", setup.dtype)
    small = dataclasses.replace(family, beside={**family.beside, **family.small_beside})
    config = make_config(name, small, {**family.small, **overrides})
    model_class = getattr(transformers, family.architecture, None) or getattr(modeling(name, family), family.architecture)
    torch.manual_seed(7)
    model = model_class(config).float().eval()
    block, layer = first_block(model, family, name)
    randomize(block, family.gain, torch.Generator().manual_seed(7))
    folder = setup.work / "checkpoint"
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    full = json.loads((folder / "config.json").read_text())
    text = merged(full, past_the_class(overrides))
    package, options = compiled(setup, text, full, setup.options(layer), record)
    if package is None:
        record.status = "refused"
        return record
    with package:
        weights, notes = stored(family, block, package)
    record.notes += notes + (["routed experts only"] if options.get("no_shared_experts") else [])
    command = [
        runner,
        str(setup.work / "package"),
        "--device=host",
        "--tokens=1,7",
        "--check",
        "--json",
        f"--weights={folder}",
    ]
    if options.get("no_shared_experts"):
        command.append("--no-shared-experts")
    done = subprocess.run([*command, f"--layer={layer}"], capture_output=True, text=True)
    if done.returncode:
        record.status = "differs"
        record.notes.append((done.stderr.strip() or done.stdout)[-600:])
        return record
    wrong = [
        name for name, tensor in weights.items() if hashlib.sha256(tensor.numpy().tobytes()).hexdigest() not in done.stdout
    ]
    record.status = "differs" if wrong else "asked" if record.refusals else "agrees"
    if wrong:
        record.notes.append(f"other bytes: {wrong}")
    return record


def checkpoint_cases(setup: Setup, runner: str, only: list[str]) -> Iterator[tuple[Record, Callable[[], Record]]]:
    for name, family in FAMILIES.items():
        if not family.small or (only and name not in only):
            continue
        for case, overrides in {"checkpoint": {}, **CHECKPOINTS.get(name, {})}.items():
            blank = Record(name, case, "full", setup.dtype)
            yield blank, functools.partial(checkpoint, setup, runner, name, family, case, overrides)
