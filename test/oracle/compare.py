# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One case: a config as transformers writes it, compiled by moec, against the block that transformers makes of it."""

import copy
import dataclasses
import json
import pathlib
import re
import shutil
from typing import Any

import torch

from abi import DTYPES, Library, MoecError, Package
from blocks import OtherShapeError, evaluate, make_block, randomize, silence_shared, stored
from configs import inner_config, make_config, merged, past_the_class, restore, without_defaults, written
from families import Family, Keys

TOKENS = (33, 5, 1)
MOST_TOKENS = 64
VOCABULARY = 96
# The worst row's error over that row's norm. Of f32 every right case is below 2e-6, every wrong one above 0.04; bf16 rounds
# what both sides put between their matmuls.
LIMITS = {"f32": 1e-5, "bf16": 0.02}
# Between neighbours in bf16, from 0.5 to 1, where the scores of chosen experts lie.
BF16_STEP = 2.0**-8


@dataclasses.dataclass
class Record:
    """The outcome of a case.

    agrees: at once; asked: after a key that moec asked for, or without shared experts, as it said; refused; differs; dense:
    a layer without experts was taken; absent: transformers has no such class; harness: this program failed.
    """

    family: str
    case: str
    text: str = "full"  # or minimal: without what the class has by default; or real
    dtype: str = "f32"
    status: str = ""
    error: float = float("nan")
    refusals: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    allowed: str = ""  # why the status is right all the same


@dataclasses.dataclass
class Setup:
    moec: Library
    work: pathlib.Path
    device: str = "cpu"
    dtype: str = "f32"
    arch: str = "sm_90a"

    def options(self, layer: int | None) -> Keys:
        made = {"arch": [self.arch], "dtype": self.dtype, "max_tokens": MOST_TOKENS}
        return made if layer is None else made | {"layer": layer}


def compiled(setup: Setup, text: Keys, full: Keys, options: Keys, record: Record) -> tuple[Package | None, Keys]:
    """Compiles a text, doing what refusals say: keys that must be there, and --no-shared-experts. Each is written down."""
    options = dict(options)
    folder = setup.work / "package"
    for _ in range(12):
        try:
            shutil.rmtree(folder, ignore_errors=True)
            setup.moec.compile(json.dumps(text), options, folder)
            return setup.moec.load(folder, setup.device), options
        except MoecError as error:
            said = str(error)
            record.refusals.append(f"[{error.status}] {said}")
            missing = re.search(r"\$\.(?:\w+\.)*(\w+): expected .*got nothing", said)
            if "shared" in said and "no_shared_experts" not in options:
                options["no_shared_experts"] = True
            elif not (missing and restore(text, full, missing.group(1))):
                break
    return None, options


def row_errors(ours: torch.Tensor, theirs: torch.Tensor) -> torch.Tensor:
    difference = (ours.double() - theirs.double()).norm(dim=-1)
    return difference / (theirs.double().norm(dim=-1) + 1e-30)


def untied_error(ours: torch.Tensor, theirs: Keys, limit: float, record: Record) -> float:
    """The worst row's error. Rows are left out whose experts tie: logits of 16 bits may be equal, and so may rounded scores."""
    errors = row_errors(ours, theirs["out"])
    logits = theirs["logits"].float().sort(dim=-1).values
    tied = (logits.diff(dim=-1) == 0).any(dim=-1)
    if "margin" in theirs:
        tied |= theirs["margin"] < BF16_STEP
    dropped = tied & (errors > limit)
    if dropped.any():
        record.notes.append(f"{int(dropped.sum())} of {len(errors)} rows left out, whose experts tie")
        errors = errors[~dropped]
    return float(errors.max()) if len(errors) else 0.0


def judge(
    setup: Setup,
    name: str,
    family: Family,
    config: Any,
    text: Keys,
    full: Keys,
    record: Record,
    layer: int | None,
) -> None:
    """Compiles a text and compares with the block of a configuration."""
    package, options = compiled(setup, text, full, setup.options(layer), record)
    if package is None:
        record.status = "refused"
        return
    inner = inner_config(family, config)
    dtype = DTYPES[setup.dtype]
    limit = LIMITS[setup.dtype]
    with package:
        block = make_block(name, family, config, 3 if layer is None else layer).float().eval()
        generator = torch.Generator().manual_seed(7)
        randomize(block, family.gain, generator)
        if options.get("no_shared_experts"):
            record.notes.append("routed experts only")
            silence_shared(block)
        block = in_type(block, dtype).to(setup.device)
        try:
            weights, notes = stored(family, block, package)
            record.notes += notes
            with package.runner(weights, MOST_TOKENS) as runner:
                worst = 0.0
                for tokens in TOKENS:
                    x = torch.randn((tokens, inner.hidden_size), generator=generator)
                    x[:, 0] = 1
                    token_ids = torch.randint(0, min(VOCABULARY, inner.vocab_size), (tokens,), generator=generator)
                    theirs = evaluate(name, family, block, x.to(setup.device, dtype), token_ids.to(setup.device))
                    inputs: dict[str, torch.Tensor] = {
                        key: theirs[key] for key in ("x", "logits", "shared_gate") if key in package.values
                    }
                    if "token_ids" in package.values:
                        inputs["token_ids"] = token_ids
                    ours = runner.run(inputs, tokens)
                    error = untied_error(ours["out"], theirs, limit if setup.dtype != "f32" else float("inf"), record)
                    worst = error if not error <= worst else worst
        except OtherShapeError as error:
            record.status = "differs"
            record.notes.append(str(error))
            return
    record.error = worst
    told = options.get("no_shared_experts") or record.refusals
    record.status = "differs" if not worst <= limit else "asked" if told else "agrees"


def in_type(block: Any, dtype: torch.dtype) -> Any:
    """The block as from_pretrained makes it: what a class keeps in f32 stays so."""
    kept = {
        key: value.clone() for key, value in block.state_dict().items() if "correction_bias" in key or "expert_bias" in key
    }
    block = block.to(dtype)
    for key, value in kept.items():
        owner, _, name = key.rpartition(".")
        module = block.get_submodule(owner)
        if name in module._parameters:
            module._parameters[name] = torch.nn.Parameter(value, requires_grad=False)
        else:
            module._buffers[name] = value
    return block


def compare(setup: Setup, name: str, family: Family, case: str, overrides: Keys, minimal: bool) -> Record:
    """The config of a case, whole or without what its class has by default."""
    record = Record(name, case, "minimal" if minimal else "full", setup.dtype)
    config = make_config(name, family, overrides)
    full = written(config)
    text = copy.deepcopy(full)
    if minimal:
        default_class = type(config)
        text = without_defaults(full, written(default_class()))
        # transformers reads what is left: its defaults, not this program's.
        config = default_class.from_dict(copy.deepcopy(text))
    judge(setup, name, family, config, merged(text, past_the_class(overrides)), full, record, family.layer)
    return record


def dense_layer(setup: Setup, name: str, family: Family) -> Record:
    """moec must refuse a layer that transformers builds without experts."""
    record = Record(name, f"dense layer {family.dense}", "full", setup.dtype)
    text = written(make_config(name, family, {}))
    package, _ = compiled(setup, text, text, setup.options(family.dense), record)
    is_refused = package is None and "expected --layer to name a layer with experts" in record.refusals[-1]
    record.status = "agrees" if is_refused else "dense"
    if package is not None:
        with package:
            pass
    return record
