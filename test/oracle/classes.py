#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes test/oracle/classes.json: every configuration class of transformers that speaks of experts.

    python3 test/oracle/classes.py

test/lint/families_doc.py makes docs/reference/families.md of it, and fails where a class is neither imported nor has a reason in
unclaimed.json. README.md says what this program needs.
"""

import importlib
import inspect
import json
import pathlib
import pkgutil
import re
import sys

from configs import transformers

PATH = pathlib.Path(__file__).resolve().parent / "classes.json"
KEYS = re.compile("expert|moe")


def classes() -> list[dict[str, str]]:
    found = {}
    base = transformers.PreTrainedConfig
    for module in pkgutil.iter_modules(transformers.models.__path__):
        try:
            home = importlib.import_module(f"transformers.models.{module.name}.configuration_{module.name}")
        except ImportError:  # not a model
            continue
        for name, each in inspect.getmembers(home, inspect.isclass):
            if each.__module__ != home.__name__ or each.__name__ != name or not issubclass(each, base):
                continue
            fields = set(getattr(each, "__dataclass_fields__", {})) - set(getattr(base, "__dataclass_fields__", {}))
            keys = sorted(key for key in fields if KEYS.search(key))
            if keys:
                found[name] = {"class": name, "module": module.name, "model_type": each.model_type, "keys": " ".join(keys)}
    return [found[name] for name in sorted(found)]


def main() -> int:
    rows = ",\n".join(json.dumps(row) for row in classes())
    PATH.write_text(f'{{"transformers": "{transformers.__version__}", "classes": [\n{rows}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main())
