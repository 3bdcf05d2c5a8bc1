# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Configurations of transformers, and the texts that its save_pretrained makes of them."""

import copy
import importlib
import json
import logging
import pathlib
import tempfile
from typing import Any

from families import Family, Keys

logging.disable(logging.WARNING)
import transformers  # noqa: E402

transformers.utils.logging.disable_progress_bar()

NAMES = ("model_type", "architectures")  # which a config keeps whatever its defaults


def modeling(name: str, family: Family) -> Any:
    """The module that has the family's block."""
    module = family.module or name
    return importlib.import_module(f"transformers.models.{module}.modeling_{module}")


def class_of(family: Family, name: str, which: str) -> Any:
    """A configuration class, from its family's module or any."""
    module = family.module or name
    home = importlib.import_module(f"transformers.models.{module}.configuration_{module}")
    return getattr(home, which, None) or getattr(transformers, which)


def merged(base: Keys, overrides: Keys) -> Keys:
    """A copy with keys laid over it; "a.b" is key b of the object a."""
    made = copy.deepcopy(base)
    for key, value in overrides.items():
        *path, last = key.split(".")
        into = made
        for step in path:
            into = into.setdefault(step, {})
        into[last] = value
    return made


def past_the_class(overrides: Keys) -> Keys:
    """The overrides of "+key", which the text alone has."""
    return {key[1:]: value for key, value in overrides.items() if key.startswith("+")}


def make_config(name: str, family: Family, overrides: Keys) -> Any:
    """An instance of the family's (outer) class with its sizes and the overrides."""
    fields = merged(family.sizes, {key: value for key, value in overrides.items() if not key.startswith("+")})
    inner = class_of(family, name, family.config)
    if family.outer:
        text: Keys = {"model_type": inner.model_type, **fields}
        for key in reversed(family.part.split(".")):
            text = {key: text}
        config = class_of(family, name, family.outer)(**text, **family.beside)
    else:
        config = inner(**fields)
    config.architectures = [family.architecture]
    return config


def inner_config(family: Family, config: Any) -> Any:
    """The config that the block takes; experts one after the other, which every device does."""
    inner = config
    for key in family.part.split(".") if family.outer else ():
        inner = getattr(inner, key)
    inner._experts_implementation = "eager"
    return inner


def written(config: Any) -> Keys:
    """The config.json as save_pretrained writes it."""
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        return json.loads((pathlib.Path(folder) / "config.json").read_text())


def without_defaults(full: Keys, default: Keys) -> Keys:
    """The keys of a text that the class would not say by itself."""
    made: Keys = {}
    for key, value in full.items():
        if key in NAMES:
            made[key] = value
        elif isinstance(value, dict) and isinstance(default.get(key), dict) and key.endswith("_config"):
            inner = without_defaults(value, default[key])
            if inner:
                made[key] = inner
        elif key not in default or default[key] != value:
            made[key] = value
    return made


def restore(text: Keys, full: Keys, key: str) -> bool:
    """Puts a key back where it was; whether it was anywhere."""
    if key in full:
        text[key] = full[key]
        return True
    for inner, value in full.items():
        if isinstance(value, dict) and key in value:
            text.setdefault(inner, {})[key] = value[key]
            return True
    return False
