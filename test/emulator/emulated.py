#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs rows of the catalog on the emulated GPU, against the reference and with all checkers.

A package of a small layer for each scheme and arch of ARCHS, with the engine that the fewest have yet; what the fewest layers of an arch
have of activations and routing methods, biases and the timings TIMINGS take turns. Each method that no layer of an arch has routes alone.
Schemes of 4-bit codes have a layer of WIDE_SHAPE, too, and engines one on each arch of TWINS. --all: every backend and engine of each scheme, in three timings. --only=WORD:
packages whose names have the word. A package fails where a result is wrong and where the emulator reports anything. docs/status.md says
what passed for each arch and engine; --fix writes it there. The catalog names the archs whose engines all passed.

Packages of test/golden/emulated.txt have passed and do not run, but where MOEC_TEST_ALL=1 says so. --update writes that list, if all
pass.
"""

import collections
import concurrent.futures
import csv
import json
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import passed  # noqa: E402

# The first arch has every scheme in CI; of the others, whose kernels differ less, each has every STEPth.
ARCHS = ["sm_90a", "sm_80", "sm_89", "sm_100f", "sm_120f"]
STEP = 2
TIMINGS = ["late", "random"]
# Archs of cards that an arch of ARCHS has the kernels of: a layer for each engine.
TWINS = ["sm_100a", "sm_103a", "sm_120a", "sm_121a"]
SHAPE = {"num_experts": 8, "top_k": 2, "hidden_size": 128, "intermediate_size": 128}
# So many weight rows that the first kernel of a few tokens takes 64 at a time.
WIDE_SHAPE = {"num_experts": 5, "top_k": 4, "hidden_size": 256, "intermediate_size": 1152}
TOKENS = "1,21"
# The layer for engines that multiply scales of blocks, with tiles of 16, 64 and 128 rows.
BLOCK_ARCH = "sm_120f"
BLOCK_SHAPE = {"num_experts": 3, "top_k": 2, "hidden_size": 416, "intermediate_size": 160}
BLOCK_TOKENS = 160
# The layer for engines whose accumulators are in tensor memory: sizes end in the middle of a tile and of a stage, and tiles have 64 and
# 128 rows.
TENSOR_MEMORY_ARCH = "sm_100f"
TENSOR_MEMORY_SHAPE = {"num_experts": 5, "top_k": 2, "hidden_size": 328, "intermediate_size": 200}
TENSOR_MEMORY_SHAPE_OF_BYTES = {"num_experts": 5, "top_k": 2, "hidden_size": 336, "intermediate_size": 208}
TENSOR_MEMORY_TOKENS = 160
WIDE_TOKENS = "1,3,8"
MAX_TOKENS = 32
SEED = 2
# Seconds for one package.
LIMIT = 600
# The start of the emulator's line for each launch.
LAUNCH = "emulator: launch of "
ROOT = Path(__file__).resolve().parent.parent.parent
STATUS, TABLE, BEGIN, END = "docs/status.md", "bench/results/runs.csv", "<!-- engines -->\n", "<!-- end of engines -->"


class Package(NamedTuple):
    name: str
    arch: str
    engine: str  # "": of no one
    layer: dict
    words: list[str]  # of the compiler, beside the arch
    arguments: list[str]  # of the run
    settings: str  # of the emulator


def chosen_ways(rows, arch, every):
    """(scheme, backend, engine) of the packages for an arch."""
    used = collections.Counter()
    for number, scheme in enumerate(rows["schemes"]):
        ways = list(testing.ways_on(rows, scheme, arch))
        if not every and ways:
            if arch["name"] != ARCHS[0] and (number + ARCHS.index(arch["name"])) % STEP:
                continue
            # The backends of an engine take turns.
            ways = [min(ways, key=lambda way: (used[way[1]], used[way]))]
            used.update([ways[0][1], ways[0]])
        for backend, engine in ways:
            yield scheme, backend, engine


def wide_packages(rows):
    """Packages of a few tokens, as packages() has them."""
    plain = rows["activations"][0], rows["routing"][0]
    for number, scheme in enumerate(scheme for scheme in rows["schemes"] if scheme["name"].endswith("_w4a16")):
        timing = TIMINGS[number % len(TIMINGS)]
        yield Package(f"{ARCHS[0]}-{scheme['name']}-wide-{timing}", ARCHS[0], "",
                      testing.layer_json("emulated", WIDE_SHAPE, scheme, *plain, False), ["--max-tokens=8"], [f"--tokens={WIDE_TOKENS}"],
                      testing.emulator_settings(ARCHS[0], scheme["name"], timing))


def block_packages(rows, every):
    """Packages of the engines that multiply scales of blocks, as packages() has them. Sizes end in the middle of a block, of a word of
    scales and of a tile; the second backend of a scheme has rows by expert."""
    gated = [row for row in rows["activations"] if row["gated"]]
    for number, (scheme, backend, engine) in enumerate(testing.block_ways(rows)):
        batched = backend["format"] == "batched"
        shape = {**BLOCK_SHAPE, "hidden_size": 384} if batched else BLOCK_SHAPE
        timing = TIMINGS[number % len(TIMINGS)]
        activation = gated[number % len(gated)]
        layer = testing.layer_json("emulated", shape, scheme, activation, rows["routing"][0], number % 2 == 0)
        if batched:
            layer = {**layer, **testing.NO_METHOD, "activation_format": "batched"}
            del layer["routing_method"]
        # Every timing sees a run without tokens and experts without rows.
        tokens, patterns = (f"0,1,33,{BLOCK_TOKENS}", ["--routing=uniform,empty_expert"]) if every else (f"1,33,{BLOCK_TOKENS}", [])
        for each in ["at_once", *TIMINGS] if every else [timing]:
            yield Package(f"{BLOCK_ARCH}-{scheme['name']}-{backend['name']}-{engine}-{activation['name']}-{each}", BLOCK_ARCH, engine, layer,
                          [f"--backend={backend['name']}", f"--engine={engine}", f"--max-tokens={BLOCK_TOKENS}"],
                          [f"--tokens={tokens}", *patterns], testing.emulator_settings(BLOCK_ARCH, scheme["name"], each))


def twin_packages(rows):
    """Packages for TWINS, as packages() has them: an engine has another scheme on each arch."""
    plain = rows["activations"][0], rows["routing"][0]
    archs = {arch["name"]: arch for arch in rows["archs"]}
    for number, name in enumerate(TWINS):
        for engine in rows["engines"]:
            if not runs_on(engine, archs[name]):
                continue
            of_blocks = [(scheme, backend["name"]) for scheme, backend, each in testing.block_ways(rows)
                         if each == engine["name"] and backend["format"] == "standard"]
            of_memory = [(scheme, backend["name"]) for scheme, backend, each in testing.tensor_memory_ways(rows, archs[name])
                         if each == engine["name"] and backend["format"] == "standard"]
            usual = [(scheme, backend) for scheme in rows["schemes"] for backend, each in testing.ways_on(rows, scheme, archs[name])
                     if each == engine["name"]]
            ways = of_blocks or of_memory or usual
            scheme, backend = ways[(number * len(ways) // len(TWINS) + number) % len(ways)]
            timing = TIMINGS[number % len(TIMINGS)]
            shape = testing.sized_for(rows, engine["name"], SHAPE, scheme)
            yield Package(f"{name}-{scheme['name']}-{backend}-{engine['name']}-{timing}", name, engine["name"],
                          testing.layer_json("emulated", shape, scheme, *plain, number % 2 == 0),
                          [f"--backend={backend}", *testing.engine_options(rows, engine["name"]), f"--max-tokens={MAX_TOKENS}"],
                          [f"--tokens={TOKENS}"], testing.emulator_settings(name, scheme["name"], timing))


# Ranks of the layers of these engines, in turn.
TENSOR_MEMORY_RANKS = [{}, {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1, "use_ep": True}}, {},
               {"moe_parallel_config": {"tp_size": 2, "tp_rank": 1}, "intermediate_size": 416}]


def tensor_memory_packages(rows):
    """Packages of the engines whose accumulators are in tensor memory, as packages() has them."""
    arch = next(row for row in rows["archs"] if row["name"] == TENSOR_MEMORY_ARCH)
    for number, (scheme, backend, engine) in enumerate(testing.tensor_memory_ways(rows, arch)):
        batched = backend["format"] == "batched"
        shape = TENSOR_MEMORY_SHAPE if testing.is_plain(scheme) else TENSOR_MEMORY_SHAPE_OF_BYTES
        if testing.scales_blocks(scheme, engine):
            shape = {**BLOCK_SHAPE, "hidden_size": 384 if batched else BLOCK_SHAPE["hidden_size"]}
        timing = TIMINGS[number // 2 % len(TIMINGS)]
        activation, routing = (rows[table][number % len(rows[table])] for table in ("activations", "routing"))
        if batched:
            routing = rows["routing"][0]
        layer = testing.layer_json("emulated", shape, scheme, activation, routing, number % 3 > 0)
        if batched:
            layer = {**layer, **testing.NO_METHOD, "activation_format": "batched"}
            del layer["routing_method"]
        else:
            layer = {**layer, **TENSOR_MEMORY_RANKS[number // 2 % len(TENSOR_MEMORY_RANKS)]}
        yield Package(f"{TENSOR_MEMORY_ARCH}-{scheme['name']}-{backend['name']}-{engine}-{activation['name']}-{timing}", TENSOR_MEMORY_ARCH, engine, layer,
                      [f"--backend={backend['name']}", f"--engine={engine}", f"--max-tokens={TENSOR_MEMORY_TOKENS}"],
                      [f"--tokens=1,17,{TENSOR_MEMORY_TOKENS}"], testing.emulator_settings(TENSOR_MEMORY_ARCH, scheme["name"], timing))


# Options that no row of the catalog has: an arch, the routing method that takes them, and the layer's keys and values.
OPTIONS = [
    # NaN and -inf among capped logits are selected alike and have different weights. SEED has a token of NaN alone.
    ("sm_90a", "sigmoid", {"router_logit_softcapping": 2.0}),
    ("sm_90a", "sigmoid_renorm", {"router_logit_softcapping": 0.5, "router_output_multiplier": 2.0}),
    # Sinks on both sides of a border of 32 experts, by scores with a bias, and by logits.
    ("sm_90a", "sigmoid_sinks", {"num_experts": 33, "top_k": 5, "num_sink_experts": 3}),
    ("sm_90a", "sigmoid_sinks", {"num_experts": 33, "top_k": 4, "num_sink_experts": 2, "e_score_correction_bias": False}),
    ("sm_90a", "minimax2", {"post_expert_norm_eps": 0.1, "router_output_multiplier": 0.5, "norm_topk_prob_eps": 0.25}),
    # More pairs than a thread keeps rows of, and columns that are no whole vectors of the output.
    ("sm_80", "minimax2", {"post_expert_norm_eps": 0.1, "top_k": 11, "num_experts": 16, "hidden_size": 136}),
    # More columns than threads have vectors; and ranks that have no row of some tokens.
    ("sm_90a", "renormalize", {"post_expert_norm_eps": 0.1, "hidden_size": 4352, "intermediate_size": 16, "residual": True,
                               "moe_parallel_config": {"tp_size": 4, "tp_rank": 1, "use_ep": True}}),
    ("sm_90a", "minimax2", {"num_constant_experts": 5, "top_k": 3, "hidden_size": 136, "residual": True}),
    ("sm_80", "sigmoid", {"num_constant_experts": 9, "top_k": 11, "num_experts": 16, "num_expert_group": 0, "topk_group": 0}),
    # Addends of pairs, whose rows the kernels of few tokens sort.
    ("sm_90a", "renormalize", {"is_lora_enabled": True, "intermediate_size": 64}),
    # More of them than a thread adds at once, and columns that are no whole vectors of the output.
    ("sm_80", "renormalize", {"is_lora_enabled": True, "top_k": 11, "num_experts": 16, "num_expert_group": 0, "topk_group": 0,
                              "hidden_size": 136}),
    # Floats that are quantized when the layer is made, in groups that end at the end of a row and of the gates.
    ("sm_90a", "renormalize", {"weights_dtype": "bf16", "quant_config": "fp8_block", "hidden_size": 192, "intermediate_size": 160}),
    ("sm_80", "renormalize", {"weights_dtype": "f16", "quant_config": "nvfp4_w4a16", "gate_up_order": "interleaved", "hidden_size": 96,
                              "intermediate_size": 48}),
    ("sm_80", "renormalize", {"weights_dtype": "f32", "quant_config": {"scheme": "int4_zp_w4a16", "group_size": 32}, "hidden_size": 96,
                              "intermediate_size": 48}),
    # Shared experts among the pairs, whose weights have no factor of the output.
    ("sm_90a", "deepseek_v3", {"n_shared_experts": 1, "routed_scaling_factor": 6.0, "apply_routed_scale_to_output": True}),
]


def option_packages(rows):
    """Packages of OPTIONS, as packages() has them."""
    methods = {method["name"]: method for method in rows["routing"]}
    scheme = next(scheme for scheme in rows["schemes"] if scheme["name"] == "bf16")
    for number, (arch, method, options) in enumerate(OPTIONS):
        timing = TIMINGS[number % len(TIMINGS)]
        layer = testing.layer_json("emulated", SHAPE, scheme, rows["activations"][0], methods[method], False)
        yield Package(f"{arch}-{method}-{'-'.join(options)}-{timing}", arch, "", {**layer, **options}, [f"--max-tokens={MAX_TOKENS}"],
                      [f"--tokens={TOKENS}", "--routing=uniform,nan_inf", f"--seed={SEED}"], testing.emulator_settings(arch, scheme["name"], timing))


def route_packages(rows, used):
    """Packages that route alone, by the methods that `used` has no layer of for an arch."""
    scheme = next(scheme for scheme in rows["schemes"] if scheme["name"] == "bf16")
    for arch in ARCHS:
        for number, method in enumerate(rows["routing"]):
            if method["select"] == "given" or used[arch, method["name"]]:
                continue
            timing = TIMINGS[number % len(TIMINGS)]
            layer = testing.layer_json("emulated", SHAPE, scheme, rows["activations"][0], method, number % 2 == 0)
            yield Package(f"{arch}-{method['name']}-alone-{timing}", arch, "", layer, ["--part=route", f"--max-tokens={MAX_TOKENS}"],
                          [f"--tokens={TOKENS}"], testing.emulator_settings(arch, scheme["name"], timing))


def packages(rows, every):
    """Each package."""
    yield from wide_packages(rows)
    yield from block_packages(rows, every)
    yield from twin_packages(rows)
    yield from tensor_memory_packages(rows)
    yield from option_packages(rows)
    archs = {arch["name"]: arch for arch in rows["archs"]}
    turn, used = 0, collections.Counter()
    for name in ARCHS:
        for scheme, backend, engine in chosen_ways(rows, archs[name], every):
            turn += 1

            def least(those, fits, name=name, turn=turn):
                """One that fits and that the fewest layers of the arch have yet, from another place on in each turn."""
                start = turn % len(those)
                return min((one for one in those[start:] + those[:start] if fits(one)), key=lambda one: used[name, one["name"]])

            def may_route(method, engine=engine):
                return not testing.is_of_few_tokens(rows, engine) or "weight_on_input" not in method["needs"]

            activation = least(rows["activations"], lambda one, engine=engine: testing.takes(rows, engine, one))
            routing = least(rows["routing"], may_route)
            used.update([(name, activation["name"]), (name, routing["name"])])
            shape = testing.sized_for(rows, engine, SHAPE, scheme)
            layer = testing.layer_json("emulated", shape, scheme, activation, routing, turn % 2 == 0)
            words = [f"--backend={backend}", *testing.engine_options(rows, engine), f"--max-tokens={MAX_TOKENS}"]
            for timing in ["at_once", *TIMINGS] if every else [TIMINGS[turn % len(TIMINGS)]]:
                yield Package(f"{name}-{scheme['name']}-{backend}-{engine}-{activation['name']}-{routing['name']}-{timing}", name, engine,
                              layer, words, [f"--tokens={TOKENS}", *testing.logits_of(routing, "bf16")],
                              testing.emulator_settings(name, scheme["name"], timing))
    yield from route_packages(rows, used)


def archs_of_devices(moec):
    """The archs of the devices that runs.csv has a run of."""
    with (ROOT / TABLE).open() as file:
        devices = " ".join(row["device"].lower() for row in csv.DictReader(file)).split()
    _, output, _ = testing.run([moec, "list", "gpus"])
    gpus = [line.split()[:2] for line in output.splitlines()[1:]]
    return {arch for gpu, arch in gpus if gpu.split("_")[0] in devices}


def runs_on(engine, arch):
    """Whether the arch has what the engine needs."""
    return set(engine["features"]) <= set(arch["features"])


def evidence_faults(rows, ran, emulated):
    """Sentences about archs of which the catalog says something else than what ran, as table_of() has it."""
    engines = {arch["name"]: {engine["name"] for engine in rows["engines"] if runs_on(engine, arch)} for arch in rows["archs"]}
    whole = {name for name, those in engines.items() if those <= {engine for arch, engine in emulated if arch == name}}
    for word, wanted in (("ran_on_gpu", ran), ("emulated", whole - ran)):
        said = {arch["name"] for arch in rows["archs"] if arch[word]}
        if said != wanted:
            yield f"dialect/catalog/Evidence.h: {word}: expected {' '.join(sorted(wanted))}, got {' '.join(sorted(said))}"


def table_of(rows, ran, emulated):
    """The lines of docs/status.md: what an engine did on each arch. ran: archs of GPUs; emulated: (arch, engine)."""
    engines = [engine["name"] for engine in rows["engines"]]

    def state(arch, engine):
        if not runs_on(engine, arch):
            return "-"
        if arch["name"] in ran:
            return "ran on a GPU"
        return "emulated" if (arch["name"], engine["name"]) in emulated else "compiled only"

    states = {}  # archs of the same states share a line
    for arch in rows["archs"]:
        states.setdefault(tuple(state(arch, engine) for engine in rows["engines"]), []).append(arch["name"])
    yield "| arch | " + " | ".join(f"`{engine}`" for engine in engines) + " |"
    yield "| --- |" + " --- |" * len(engines)
    for words, archs in states.items():
        yield f"| {', '.join(archs)} | " + " | ".join(words) + " |"


def status_fault(lines, fix):
    """None, or that docs/status.md says something else."""
    text = (ROOT / STATUS).read_text()
    before, rest = text.split(BEGIN)
    wanted = before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1]
    if fix:
        (ROOT / STATUS).write_text(wanted)
    return None if fix or text == wanted else f"{STATUS}: the table of engines is not what ran; emulated.py --fix"


def fault_of(tools, work, real, listed, package):
    """None, or a sentence about what is wrong with a package; whether it ran, and how many kernels it launched."""
    folder = work / package.name
    words = [f"--arch={package.arch}", "--no-cubin", *package.words]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "layer.json").write_text(json.dumps(package.layer))
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", *words, "-o", folder / "package"], LIMIT)
    if status:
        return f"moec exited with {status}: {errors.strip()[-300:]}", True, 0
    digest = passed.digest_of_package(folder / "package",
                                      [package.name, json.dumps(package.layer), *words, *package.arguments, package.settings])
    if listed.has(package.name, digest) and not testing.runs_all():
        shutil.rmtree(folder)
        return None, False, 0
    status, output, errors = testing.run(
        [tools.moec_check, folder / "package", "--device=emulated", "--check", "--alone", "--json", *package.arguments], LIMIT,
        MOEC_NVRTC_PATH=real, MOEC_EMULATOR=f"{package.settings} log=1", MOEC_CACHE_DIR=work / "cache", MOEC_WORKER="off", MOEC_JOBS="1",
        MOEC_TUNED_STORE="off")
    lines = [line for line in errors.splitlines() if line.startswith(("emulator:", "    "))]
    reports = [line for line in lines if not line.startswith(LAUNCH)]
    launches = len(lines) - len(reports)
    if reports:
        return "\n  ".join(reports[:8]), True, launches
    try:
        runs = json.loads(output)["runs"]
    except ValueError:
        return f"moec-check exited with {status}: {errors.strip()[-300:]}", True, launches
    wrong = [run for run in runs if not run["passed"]]
    if wrong or status or not runs:
        return f"moec-check exited with {status}: {str(wrong[:1] or errors.strip())[-300:]}", True, launches
    shutil.rmtree(folder)
    listed.add(package.name, digest)
    return None, True, launches


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--fix", action="store_true", help=f"write the table of {STATUS}")
    parser.add_argument("--update", action="store_true", help="write test/golden/emulated.txt, if all pass")
    arguments = parser.parse_args()
    is_usual = not (arguments.all or arguments.only or testing.runs_all())
    if arguments.update and not is_usual:
        sys.exit("--update: expected no --all, no --only and no MOEC_TEST_ALL")
    real = nvrtc.find()
    if real is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started = time.monotonic()
    tools, work = testing.Tools(arguments.bin), Path(arguments.work)
    rows = tools.rows()
    every = [package for package in packages(rows, arguments.all or testing.runs_all()) if arguments.only in package.name]
    failures, right, ran, launches = [], set(), 0, 0
    listed = passed.Passed(nvrtc.Nvrtc(real).release())
    if listed.about():
        print(listed.about(), flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for package, (fault, has_run, launched) in zip(every, pool.map(lambda one: fault_of(tools, work, real, listed, one), every)):
            ran += has_run
            launches += launched
            if fault:
                failures.append(package.name)
                print(f"FAILED {package.name}: {fault}", flush=True)
            elif package.engine:
                right.add((package.arch, package.engine))
    if not arguments.only and not failures:
        devices = archs_of_devices(tools.moec)
        faults = [status_fault(table_of(rows, devices, right), arguments.fix), *evidence_faults(rows, devices, right)]
        for fault in filter(None, faults):
            failures.append(fault)
            print(f"FAILED {fault}", flush=True)
    if arguments.update and not failures:
        listed.write()
    elif is_usual:
        # Their packages have changed and ran: nothing was left out.
        for sentence in listed.stale():
            print(sentence, flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(every)} packages, {len(every) - ran} of them passed before, {len(failures)} failed, {launches} launches, "
          f"{used.ru_utime + used.ru_stime:.0f} CPU seconds, {time.monotonic() - started:.0f} s")
    return 1 if failures or not every else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
