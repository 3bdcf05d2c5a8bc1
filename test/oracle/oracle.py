#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares moec with the MoE blocks of Hugging Face transformers.

    oracle.py --lib build/lib/libmoec.so                      every family and variant, on the host device
    oracle.py --lib ... --device cuda --dtype bf16            the CUDA kernels, compiled at load
    oracle.py --lib ... --configs examples/models             config.json files of real models
    oracle.py --lib ... --checkpoints --run build/bin/moec-run    saved checkpoints, read by moec-run

For each case: a small configuration, its config.json as save_pretrained writes it, and once more without every key that has
the class's default; the block of transformers with random weights. moec compiles that text, is given the very weights, the
logits of the block's own router and x, and must give the block's output. What else comes out must stand in allowed.json, with
a reason. README.md says how to install torch and transformers.
"""

import argparse
import collections
import dataclasses
import functools
import json
import pathlib
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator

import torch

from abi import Library
from compare import Record, Setup, compare, dense_layer
from configs import transformers
from families import FAMILIES
from real import checkpoint_cases, configs_of

ALLOWED = pathlib.Path(__file__).resolve().parent / "allowed.json"
Case = tuple[Record, Callable[[], Record]]


def family_cases(setup: Setup, arguments: argparse.Namespace) -> Iterator[Case]:
    for name, family in FAMILIES.items():
        if arguments.family and name not in arguments.family:
            continue
        for case, overrides in {"default": {}, **family.variants}.items():
            if arguments.case and case not in arguments.case:
                continue
            for minimal in (False, True):
                blank = Record(name, case, "minimal" if minimal else "full", setup.dtype)
                yield blank, functools.partial(compare, setup, name, family, case, overrides, minimal)
        if family.dense is not None and not arguments.case:
            blank = Record(name, f"dense layer {family.dense}", "full", setup.dtype)
            yield blank, functools.partial(dense_layer, setup, name, family)


def cases(setup: Setup, arguments: argparse.Namespace) -> Iterator[Case]:
    if arguments.configs:
        return configs_of(setup, arguments.configs)
    if arguments.checkpoints:
        return checkpoint_cases(setup, arguments.run, arguments.family)
    return family_cases(setup, arguments)


def reason(record: Record, allowed: list[dict[str, str]]) -> str:
    for row in allowed:
        if all(getattr(record, key) == value for key, value in row.items() if key != "reason"):
            return row["reason"]
    return ""


def line(record: Record) -> str:
    said = [*record.notes, *(f"R: {refusal}" for refusal in record.refusals[-1:])]
    return (
        f"{record.family:18} {record.case:20} {record.text:8} {record.dtype:5} {record.status:8} {record.error:9.2e} "
        f"{'allowed ' if record.allowed else ''}{'; '.join(said)[:200]}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lib", required=True, help="libmoec.so")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--family", nargs="*", default=[])
    parser.add_argument("--case", nargs="*", default=[])
    parser.add_argument("--configs", type=pathlib.Path, help="a folder of config.json files")
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--run", help="moec-run, for --checkpoints")
    parser.add_argument("--json", type=pathlib.Path, help="where all records go")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    allowed = json.loads(ALLOWED.read_text())
    records = []
    with tempfile.TemporaryDirectory() as work:
        setup = Setup(Library(arguments.lib), pathlib.Path(work), arguments.device, arguments.dtype, arguments.arch)
        for blank, run in cases(setup, arguments):
            try:
                record = run()
            except (ImportError, AttributeError) as error:  # this version of transformers has no such class
                record = dataclasses.replace(blank, status="absent", notes=[str(error)[:200]])
            except Exception as error:
                traceback.print_exc()
                record = dataclasses.replace(blank, status="harness", notes=[f"{type(error).__name__}: {error}"[:600]])
            if record.status not in ("agrees", "asked", "absent"):
                record.allowed = reason(record, allowed)
            records.append(record)
            print(line(record), flush=True)
    counts = collections.Counter(record.status + (" (allowed)" if record.allowed else "") for record in records)
    wrong = [r for r in records if r.status in ("refused", "differs", "dense", "harness") and not r.allowed]
    print(
        f"{len({r.family for r in records})} families, {len(records)} cases: {dict(counts)}; transformers "
        f"{transformers.__version__}, torch {torch.__version__}, {arguments.device} {arguments.dtype}; {len(wrong)} wrong"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps([dataclasses.asdict(record) for record in records], indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
