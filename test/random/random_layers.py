#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws layers from the whole language and runs them on the host device, or on an emulated GPU, against the reference.

  random_layers.py --bin=build/bin --work=FOLDER [--layers=60] [--seed=1,2] [--only=INDEX] [--emulated=sm_90a]

language.py draws them. Batches are compiled by one process and run by another (batches.py), as many at once as there are cores. A
layer that the compiler refuses with a reason is made simpler until it is taken; any other end than a refusal is a failure. One
that fails is made smaller, field by field, as long as it fails alike, and printed with the commands that show it again.
"""

import collections
import hashlib
import json
import pathlib
import re
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "conformance"))
import batches  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
from language import LEAST_HIDDEN, MOST_WORK, REFUSED, REQUIRED, SLICED  # noqa: E402

# Layers of a batch.
BATCH = 25
# On an emulated GPU: layers of a batch, multiplications of a run, and layers of each seed in test-all.
EMULATED_BATCH, EMULATED_WORK, EMULATED_LAYERS = 3, 1e6, 40
TIMINGS = ["random", "late"]


def compile_package(tools, drawn, folder, arch="sm_90a", cubins=False):
    """(exit status, what moec said)"""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "layer.json").write_text(json.dumps(drawn.layer, indent=1) + "\n")
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={arch}", *drawn.options,
                                     f"--max-tokens={drawn.max_tokens}", *([] if cubins else ["--no-cubin"]), "-o", folder / "package"])
    return status, errors.strip()


def emulator_of(shop, drawn):
    """The settings of the emulated GPU that runs a layer; "": the host device does. Its number says the timing."""
    timing = TIMINGS[int(drawn.layer["name"].rpartition("_")[2]) % len(TIMINGS)]
    return testing.emulator_settings(shop.arch, drawn.layer.get("quant_config"), timing) if shop.emulated else ""


def run_package(tools, shop, drawn, folder):
    """None, or a sentence about the first run that is wrong; runs of a kind that the layer does not have are left out."""
    faults = testing.run_lines(tools.moec_check, [(folder / "package", run) for run in drawn.runs], folder / "lines.cases", may_lack=True,
                               emulator=emulator_of(shop, drawn))
    return next((f"{fault} [{' '.join(run)}]" for run, fault in zip(drawn.runs, faults) if fault), None)


def failure_of(tools, shop, drawn, folder):
    """The fault of a layer that was taken: None, or a sentence."""
    status, errors = compile_package(tools, drawn, folder, shop.arch)
    if status == 1 and REFUSED.search(errors):
        return None
    return f"moec exited with {status}: {errors[-400:]}" if status else run_package(tools, shop, drawn, folder)


def kind_of(failure):
    """The same for failures that differ by numbers and names alone."""
    return re.sub(r"[\d.]+(e[-+]\d+)?|\[.*", "", failure)[:40]


def smaller(drawn):
    """Layers one step simpler."""
    for run in drawn.runs if len(drawn.runs) > 1 else []:
        less = drawn.copy()
        less.runs = [run]
        yield less
    for field in [field for field in drawn.layer if field not in REQUIRED]:
        less = drawn.copy()
        del less.layer[field]
        yield less
    for i in range(len(drawn.options)):
        less = drawn.copy()
        del less.options[i]
        yield less
    for i, run in enumerate(drawn.runs):
        for j, word in enumerate(run):
            name, _, values = word.partition("=")
            for value in values.split(",") if "," in values else []:
                less = drawn.copy()
                less.runs[i][j] = f"{name}={value}"
                yield less
    for field, least in (("num_experts", 1), ("top_k", 1), ("hidden_size", LEAST_HIDDEN), ("intermediate_size", 16)):
        for value in (least, drawn.layer[field] // 2 // least * least):
            if least <= value < drawn.layer[field]:
                less = drawn.copy()
                less.layer[field] = value
                yield less


def shrink(tools, shop, drawn, failure, folder, most=120):
    """(the smallest layer found that fails alike, its failure)"""
    kind, tried, found = kind_of(failure), 0, True
    while found:
        found = False
        for less in smaller(drawn):
            tried += 1
            if tried > most:
                return drawn, failure
            now = failure_of(tools, shop, less, folder)
            if now and kind_of(now) == kind:
                drawn, failure, found = less, now, True
                break
    return drawn, failure


def text_of(shop, drawn, failure, seed, index):
    run = drawn.runs[0] if drawn.runs else []
    return (f"layer {index} of --seed={seed}: {failure}\n  layer.json: {json.dumps(drawn.layer)}\n"
            f"  moec compile layer.json --arch={shop.arch} {' '.join(drawn.options)} --max-tokens={drawn.max_tokens} --no-cubin -o package\n"
            f"  {f'MOEC_EMULATOR={emulator_of(shop, drawn)!r} ' if shop.emulated else ''}"
            f"moec-check package --device={'emulated' if shop.emulated else 'host'} --check {' '.join(run)}")


def check(tools, shop, seed, indices):
    """For each layer of a batch: ('run', 'refused' or 'failed', a sentence, the layer); of one that was run the sentence says what is
    special in its package."""
    compiled = batches.compile_batch(shop, seed, indices)
    folders = {index: shop.package(seed, index) for index in indices}
    lines = [(index, run) for index, (word, _, drawn) in compiled.items() if word == "taken" for run in drawn.runs]
    faults = {}
    # A process has one emulator.
    for emulator in sorted({emulator_of(shop, compiled[index][2]) for index, _ in lines}):
        mine = [(index, run) for index, run in lines if emulator_of(shop, compiled[index][2]) == emulator]
        for (index, run), fault in zip(mine, testing.run_lines(
                tools.moec_check, [(folders[index], run) for index, run in mine], folders[indices[0]].with_suffix(".cases"),
                may_lack=True, emulator=emulator)):
            if fault:
                faults.setdefault(index, f"{fault} [{' '.join(run)}]")
    results = []
    for index, (word, sentence, drawn) in compiled.items():
        failure = faults.get(index, sentence if word == "failed" else None)
        if failure:
            alone = folders[index].with_name(folders[index].name + ".alone")
            again = failure_of(tools, shop, drawn, alone)
            if again:
                drawn, failure = shrink(tools, shop, drawn, again, alone)
            else:
                failure = f"not when it runs alone: {failure}"
            results.append(("failed", text_of(shop, drawn, failure, seed, index), drawn.layer))
            continue
        special = "slices" if word == "taken" and "slices" in (folders[index] / "manifest.json").read_text() else ""
        shutil.rmtree(folders[index], ignore_errors=True)
        results.append(("refused", sentence, None) if word == "refused" else ("run", special, drawn.layer))
    return results


def summary(results):
    layers = [layer for _, _, layer in results if layer]
    used = {field for layer in layers for field in layer} - set(REQUIRED)
    return (f"{len(layers)} layers, {len({hashlib.sha256(json.dumps(layer).encode()).digest() for layer in layers})} different, "
            f"{sum(word == 'refused' for word, *_ in results)} refused; {len({layer['activation'] for layer in layers})} activations, "
            f"{len({layer['routing_method'] for layer in layers})} routing methods; "
            f"{sum(text == 'slices' for _, text, _ in results)} in slices; options taken: {', '.join(sorted(used))}")


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--layers", type=int, default=60, help="how many of each seed")
    arguments.add_argument("--seed", default="1", help="one, or several with commas between them")
    arguments.add_argument("--only", type=int, help="the layer of this number alone")
    arguments.add_argument("--most-work", type=float, help="multiplications of a run")
    arguments.add_argument("--emulated", default="", metavar="ARCH", help="run on an emulated GPU of this arch")
    arguments.add_argument("--sliced", type=float, default=SLICED, help="how often a layer of slices is drawn, which takes most time")
    options = arguments.parse_args()
    if options.emulated and not nvrtc.find():
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        sys.exit(77)
    if options.emulated and testing.runs_all():
        options.layers = EMULATED_LAYERS
    if options.most_work is None:
        options.most_work = EMULATED_WORK if options.emulated else MOST_WORK
    tools = testing.Tools(options.bin)
    shop = batches.Workshop(tools, testing.Scratch(options.work).folder, arch=options.emulated or "sm_90a", most_work=options.most_work,
                            sliced=0 if options.emulated else options.sliced, emulated=bool(options.emulated))
    batch = EMULATED_BATCH if options.emulated else BATCH
    started, all_results = time.time(), []
    for seed in options.seed.split(","):
        began = time.time()
        indices = list(range(options.layers) if options.only is None else [options.only])
        parts = [indices[i:i + batch] for i in range(0, len(indices), batch)]
        made = testing.parallel(lambda part, seed=seed: check(tools, shop, seed, part), parts, options.jobs)
        results = [result for part in made for result in part]
        print(f"seed {seed}: {len(results)} drawn, {sum(word == 'run' for word, *_ in results)} run, "
              f"{sum(word == 'refused' for word, *_ in results)} refused, {sum(word == 'failed' for word, *_ in results)} failed, "
              f"{time.time() - began:.0f} s", flush=True)
        # By the code of the refusal, or what it says without numbers and names.
        codes = collections.Counter(code.group(1) if (code := re.search(r"\[(\w+)\]", text)) else kind_of(text)
                                    for word, text, _ in results if word == "refused")
        print("  refused: " + (", ".join(f"{count} {code}" for code, count in codes.most_common()) or "none"), flush=True)
        for word, text, _ in results:
            if word == "failed":
                print(f"FAILED: {text}", flush=True)
        all_results += results
    print(summary(all_results))
    failures = [text for word, text, _ in all_results if word == "failed"]
    # If nearly nothing is legal the generator is wrong, and nothing is tested.
    refused = [text for word, text, _ in all_results if word == "refused"]
    if len(refused) * 4 > len(all_results):
        failures.append(f"more than a quarter was refused: {refused[0]}")
    testing.finish(f"random layers on {'an emulated GPU' if options.emulated else 'the host device'}", len(all_results), [text.splitlines()[0] for text in failures], started, time.time())


if __name__ == "__main__":
    main()
