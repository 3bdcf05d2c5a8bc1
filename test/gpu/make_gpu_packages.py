#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prepares what gpu_suite.py runs on a machine with a GPU: moec-check, packages, and index.json that says what to run.

Needs no GPU. Packages of models carry cubins for the arch; those of the catalog's rows are
compiled where they run, if --cubins does not say otherwise; with --no-cubins, all are.
Mutants of templates/ are packages with patched headers and the cubins of those; their checks must fail.

Groups: rows (every scheme, backend and engine), random (layers drawn from the whole language), types (of logits and given
weights, by methods that route in different ways), options (which no other group has), parts (of layers: every method routes, every
scheme quantizes, sets of options finalize), ranks (each rank of a package of all), models, limits (offsets beyond 32 bits, very many
tokens), delays (kernels that read before their predecessor has written), mutants, sanitizers.
"""

import concurrent.futures
import hashlib
import io
import itertools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / name) for name in ("conformance", "mutants", "random")]
import batches  # noqa: E402
import cases  # noqa: E402
import conformance  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import parts  # noqa: E402
import run as mutants  # noqa: E402
from language import GPU_WORK, MOST_WORK, SLICED, SLICED_GPU, SLICED_ROWS  # noqa: E402

# Each kernel is slow, so that its successor runs beside it.
SLOW = HERE / "slow-predecessor.patch"


def upto(tokens, most):
    """The token counts of a list up to `most`."""
    return ",".join(count for count in tokens.split(",") if int(count) <= most)


class Maker:
    def __init__(self, options):
        self.tools = testing.Tools(options.bin)
        self.out = pathlib.Path(options.out)
        self.arch = options.arch
        self.jobs = options.jobs
        self.seed, self.layers, self.cubins = options.seed, options.layers, options.cubins
        self.most_work, self.sliced = options.most_work, options.sliced
        self.no_cubins = options.no_cubins
        self.most_tokens = options.most_tokens
        self.only = options.only.split(",") if options.only else []
        self.names = re.compile(options.filter)
        self.rows = self.tools.rows()
        self.entries = []
        self.failures = []
        self.mutant_packages = {}

    def wanted(self, group):
        return not self.only or group in self.only

    def named(self, name):
        """Whether --filter lets packages of this name be made."""
        return self.names.search(name) is not None

    def compile(self, name, source, extra):
        """The package's folder, or None after noting the failure."""
        package = self.out / "packages" / name
        if package.exists():
            shutil.rmtree(package)
        package.parent.mkdir(parents=True, exist_ok=True)
        if self.no_cubins and "--no-cubin" not in extra:
            extra = [*extra, "--no-cubin"]
        status, _, errors = testing.run([self.tools.moec, "compile", source, f"--arch={self.arch}", *extra, "-o", package],
                                        timeout=600)
        if status:
            self.failures.append(f"{name}: moec exited with {status}: {errors.strip()[:500]}")
            return None
        return package

    def write_layer(self, name, layer):
        path = self.out / "layers" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(layer))
        return path

    def manifest(self, name):
        return json.loads((self.out / "packages" / name / "manifest.json").read_text())

    def add(self, group, name, runs, expect="pass", both_ends=False, **more):
        """`runs`: argument lists of moec-check; `both_ends` adds each variant forced at the ends of its range."""
        runs = [list(run) for run in runs]
        if both_ends:
            for variant in self.manifest(name)["targets"][0]["variants"]:
                ends = sorted({variant["min_tokens"], variant["max_tokens"]})
                runs.append([f"--variant={variant['name']}", "--tokens=" + ",".join(map(str, ends)),
                             "--routing=skewed", "--sample=24"])
        self.entries.append({"group": group, "name": name, "package": f"packages/{name}", "runs": runs,
                             "expect": expect, **more})

    def scheme(self, name):
        return next(row for row in self.rows["schemes"] if row["name"] == name)

    def draw(self, group, seed, indices, work):
        """[name, Drawn] of the layers that are drawn so, simplified until the compiler takes them; those that it does not take are
        left out. Makes a package <group>-<index> of each."""
        shop = batches.Workshop(self.tools, self.out / "drawn", self.arch, work, self.sliced, self.cubins)
        parts = [indices[i::self.jobs] for i in range(self.jobs) if indices[i::self.jobs]]
        made = []
        for compiled in testing.parallel(lambda part: batches.compile_batch(shop, seed, part), parts, self.jobs):
            for index, (word, said, drawn) in compiled.items():
                name = f"{group}-{index}"
                if word == "failed":
                    self.failures.append(f"{name}: {said}: {json.dumps(drawn.layer)}")
                if word == "taken":
                    package = self.out / "packages" / name
                    shutil.rmtree(package, ignore_errors=True)
                    package.parent.mkdir(parents=True, exist_ok=True)
                    shutil.move(shop.package(seed, index), package)
                    self.write_layer(name, drawn.layer)
                    made.append((index, name, drawn))
        shutil.rmtree(shop.work)
        return [(name, drawn) for _, name, drawn in sorted(made, key=lambda item: item[0])]

    def make_random(self):
        """Layers of language.py with this --seed, those that the compiler takes."""
        indices = [index for index in range(self.layers) if self.named(f"random-{index}")]
        for name, drawn in self.draw("random", self.seed, indices, self.most_work):
            # An option that the layer has no use for (given ids, say) is refused and left out.
            self.add("random", name, drawn.runs, refusable=True)

    def make_rows(self):
        jobs, turns = [], itertools.cycle(conformance.pairs(self.rows))

        def pair_for(engine):
            return next(pair for pair in turns if testing.takes(self.rows, engine, pair[0]))

        for scheme in self.rows["schemes"]:
            for backend, engine in testing.ways(self.rows, scheme):
                for i in range(conformance.layers_of_way(self.rows)):
                    activation, routing = pair_for(engine)
                    shapes = testing.shapes_of_way(self.rows, engine, scheme)
                    shape = shapes[i % len(shapes)]
                    name = f"row-{scheme['name']}-{backend}-{engine}-{i}"
                    if not self.named(name):
                        continue
                    layer = self.write_layer(name, testing.layer_json(
                        name, shape, scheme, activation, routing, i % 2 == 0, "f32" if i % 3 == 0 else None))
                    jobs.append((name, layer, backend, engine, i))
            for backend, engine in testing.ways(self.rows, scheme):
                for kind, shape in (("tall", cases.TALL_SHAPE), ("biased", cases.BIASED_SHAPE)):
                    name = f"row-{scheme['name']}-{backend}-{engine}-{kind}"
                    if self.named(name) and testing.needs(self.rows, engine, "wgmma"):
                        activation, routing = pair_for(engine)
                        layer = self.write_layer(name, testing.layer_json(
                            name, testing.sized_for(self.rows, engine, shape, scheme), scheme, activation, routing, kind == "biased"))
                        jobs.append((name, layer, backend, engine, kind))
            # Rows that come by expert: routing is not theirs, so one layer shows each way.
            for backend, engine in testing.ways(self.rows, scheme, ("batched",)):
                name = f"row-{scheme['name']}-{backend}-{engine}"
                if self.named(name):
                    activation, routing = pair_for(engine)
                    layer = self.write_layer(name, {
                        **testing.layer_json(name, testing.sized_for(self.rows, engine, testing.shapes(scheme)[0], scheme), scheme,
                                             activation, routing, True),
                        "activation_format": "batched"})
                    jobs.append((name, layer, backend, engine, None))
        jobs += self.held_rows(pair_for)
        for engine in ("wgmma", "mma_sync"):
            if self.named(name := f"row-mixed-grouped-{engine}"):
                activation, routing = pair_for(engine)
                layer = testing.layer_json(name, cases.TALL_SHAPE, self.scheme("fp8_block"), activation, routing, False)
                jobs.append((name, self.write_layer(name, {**layer, "quant_config": cases.MIXED}), "grouped", engine, "mixed"))
        made = testing.parallel(lambda job: self.compile(job[0], job[1], [
            f"--backend={job[2]}", *testing.engine_options(self.rows, job[3]), "--max-tokens=2048",
            *([] if self.cubins else ["--no-cubin"])]), jobs, 2)
        for (name, _, _, engine, i), package in zip(jobs, made):
            if package:
                runs = [["--tokens=0,1,2,7,8,33,129,500", "--routing=uniform,nan_inf"]]
                if testing.is_of_few_tokens(self.rows, engine):
                    runs = [["--tokens=1,2,3,4", "--routing=uniform,nan_inf,one_expert"]]
                if i == "mixed":
                    runs = [["--tokens=1,2,7,33,129,500,2048", "--routing=uniform,skewed"]]
                if i == "tall":
                    runs = [[f"--tokens={cases.TALL_TOKENS}", "--routing=uniform,skewed"]]
                if i == "biased":
                    runs = [[f"--tokens={cases.BIASED_TOKENS}", "--routing=uniform,skewed"]]
                if i is None:
                    runs += [["--tokens=1,33,500", f"--routing={conformance.PATTERNS}"], ["--tokens=0,1,33", "--capture"],
                             ["--tokens=0,1,33,500", "--chain"], ["--tokens=2,33", "--row-stride=24"]]
                if i == 0:
                    runs += [["--tokens=1,33,500", "--routing=skewed,one_expert,empty_expert,ties,negative"],
                             ["--tokens=0,1,33", "--capture"],
                             ["--tokens=0,1,33,500", "--chain"],
                             ["--tokens=1,33", "--inputs=ids32", "--given-weights-dtype=bf16"],
                             ["--tokens=1,33", "--inputs=ids64", "--given-weights-dtype=f16"],
                             ["--tokens=2,33", "--row-stride=24"], ["--tokens=33", "--valid-tokens=20"],
                             ["--tokens=33", "--valid-tokens=0"]]
                self.add("rows", name, runs, both_ends=True)

    def held_rows(self, pair_for):
        """Jobs of make_rows: for each scheme a layer whose weights are stored as an engine holds them."""
        for number, scheme in enumerate(self.rows["schemes"]):
            ways = [way for way in testing.ways(self.rows, scheme) if not testing.is_of_few_tokens(self.rows, way[1])]
            backend, engine = ways[number % len(ways)]
            name = f"row-{scheme['name']}-{backend}-{engine}-held"
            if not self.named(name):
                continue
            activation, routing = next(pair for pair in iter(lambda: pair_for(engine), None) if pair[0]["gated"])
            shape = testing.shapes_of_way(self.rows, engine, scheme)[number % 4]
            layer = testing.layer_json(name, shape, scheme, activation, routing, number % 3 > 0)
            fields = conformance.as_engines_hold(scheme, number, shape)
            yield name, self.write_layer(name, {**layer, **fields}), backend, engine, "held"

    def make_types(self):
        for method, changes in cases.TYPED.items():
            name = f"types-{method}"
            if not self.named(name):
                continue
            layer = self.write_layer(name, {
                "moec_layer": 1, "name": name.replace("-", "_"), **cases.TYPED_SHAPE, "in_dtype": "bf16", "routing_method": method,
                **changes})
            if not self.compile(name, layer, ["--max-tokens=2048"]):
                continue
            runs = [[f"--tokens={cases.TYPED_TOKENS}", "--routing=uniform,ties,nan_inf", f"--logits-dtype={floats}"]
                    for floats in testing.FLOATS if method != "custom"]
            runs += [[f"--tokens={cases.TYPED_TOKENS}", f"--inputs={ids}", f"--given-weights-dtype={floats}"]
                     for ids in ("ids32", "ids64") for floats in testing.FLOATS]
            self.add("types", name, runs)
            if method in ("renormalize", "longcat", "minimax2"):
                # Rows of a narrow type end where those of a wide one go on.
                self.add("types", name, [run + ["--seed=3"] for run in runs], sanitizer="memcheck")

    def make_options(self):
        for option, (scheme, fields) in cases.OPTIONED.items():
            name = f"option-{option}"
            if not self.named(name):
                continue
            layer = self.write_layer(name, {"moec_layer": 1, "name": name.replace("-", "_"), "in_dtype": "bf16", "quant_config": scheme,
                                            **fields})
            if not self.compile(name, layer, ["--max-tokens=8192"]):
                continue
            self.add("options", name, [
                [f"--tokens={cases.TOKENS}", "--routing=uniform,skewed", "--sample=64"],
                ["--tokens=1,33,500", "--routing=one_expert,empty_expert,nan_inf", "--sample=64"],
                ["--tokens=0,1,33,500", "--capture", "--sample=24"], ["--tokens=0,1,33,500", "--chain", "--sample=24"],
                ["--tokens=33", "--inputs=ids64", "--given-weights-dtype=f16"], ["--tokens=33", "--valid-tokens=20"],
            ], both_ends=True)
            for sanitizer in cases.SANITIZERS:
                self.add("options", name, [["--tokens=1,33", "--sample=4", *self.sanitizer_arguments(sanitizer)]], sanitizer=sanitizer)

    def make_parts(self):
        for case in parts.cases(self.rows):
            name = f"part-{conformance.name_of(case)}"
            layer = self.named(name) and self.write_layer(name, conformance.layer_of("part", case))
            if layer and self.compile(name, layer, [*conformance.words_of(case), "--max-tokens=4096"]):
                self.add("parts", name, [*parts.runs(case, self.manifest(name)), ["--tokens=500,2048,4096", "--seed=3"]])
        for words in (["--part=route"], ["--part=quantize", "--scheme=fp8_block"], ["--part=finalize"]):
            name = f"part-model-{words[0].removeprefix('--part=')}"
            if self.named(name) and self.compile(name, ROOT / "examples" / "models" / "qwen3-30b-a3b.json", words):
                self.add("parts", name, [[f"--tokens={cases.TOKENS}", "--sample=64"], ["--tokens=1,33,500", "--chain", "--sample=16"]])
                self.add("parts", name, [["--tokens=1,33"]], sanitizer="memcheck")

    def make_ranks(self):
        for scheme, (layout, extra), zero in itertools.product(cases.RANKED_SCHEMES, cases.RANKED.items(), (0, 4)):
            name = f"ranks-{scheme}-{layout}{'-zero' if zero else ''}"
            # Methods give zero experts weights, whatever the scheme is.
            if not self.named(name) or (zero and scheme != "bf16"):
                continue
            layer = self.write_layer(name, {
                "moec_layer": 1, "name": name.replace("-", "_"), **cases.RANKS_SHAPE, "in_dtype": "bf16", "quant_config": scheme,
                "routing_method": "longcat" if zero else "renormalize", **({"num_zero_experts": zero} if zero else {})})
            package = self.compile(name, layer, ["--max-tokens=2048", "--all-ranks", *extra])
            if not package:
                continue
            index = json.loads((package / "manifest.json").read_text())
            ranks = sorted(rank for share in index["shares"] for rank in share["ranks"]) if "shares" in index else \
                [facts["rank"] for facts in index["ranks"]]
            self.add("ranks", name, [[f"--rank={rank}", f"--tokens={cases.RANKED_TOKENS}", "--routing=uniform,one_expert,empty_expert"]
                                     for rank in ranks])

    def make_models(self):
        kinds = [(model, dtype, [f"--dtype={dtype}", *extra], sample) for model, extra, sample in cases.MODELS
                 for dtype in ("bf16", "f16")]
        kinds += [(model, scheme, [f"--scheme={scheme}", *extra], sample) for model, scheme, extra, sample in cases.QUANTIZED]
        for model, kind, extra, sample in kinds:
            name = f"{model}{'-ep' if '--ep' in extra else ''}-{kind}{'-fast' if '--accumulate=fast' in extra else ''}"
            if not self.named(name):
                continue
            source = ROOT / "examples" / "models" / f"{model}.json"
            package = self.compile(name, source, extra)
            slow = self.compile(f"{name}-simt", source, [*extra, "--backend=unfused", "--engine=simt",
                                                        *([] if self.cubins else ["--no-cubin"])])
            if not package or not slow:
                continue
            sampled = f"--sample={sample}"
            most = self.manifest(name)["max_tokens"]
            self.add("models", name, [
                [f"--tokens={upto(cases.TOKENS, most)}", "--routing=uniform,skewed", sampled],
                ["--tokens=33,500,2048", "--routing=one_expert,empty_expert", sampled],
                ["--tokens=0,1,33,500", "--routing=uniform", "--capture", sampled],
                ["--tokens=1,33,2048", "--routing=uniform", "--chain", sampled],
                [f"--tokens={upto(cases.LARGE, most)}", "--routing=skewed", "--sample=16", f"--against=packages/{name}-simt"],
            ], both_ends=True)
            self.add("models", f"{name}-simt", [["--tokens=1,33,500", "--routing=skewed", sampled]])

    def make_limits(self):
        for name, shape, run, words in cases.LIMITS:
            if not self.named(name):
                continue
            layer = self.write_layer(name, testing.layer_json(name, shape, self.scheme("bf16"), self.rows["activations"][0],
                                                              self.rows["routing"][1], False))
            if self.compile(name, layer, words):
                self.add("limits", name, [run])

    def make_delays(self):
        """Layers whose kernels begin long before their predecessors write. Each kind of read before the wait must be in one."""
        early = set()
        for scheme, engine, layer in cases.DELAYED:
            if not self.named(self.sound_name(scheme, engine, layer, True)):
                continue
            package = self.sound_package(scheme, engine, layer, True)
            if not package:
                continue
            for source in (self.out / "packages" / package).rglob("*.cu"):
                early.update(re.findall(r"\b(k\w+Early) = true", source.read_text()))
            # Slices are of more tokens.
            runs = [["--tokens=1,7,33,500"], *([["--tokens=3400", "--sample=64"]] if layer == "slices" else [])]
            self.add("delays", package, [cases.USUAL, *([*run, "--seed=5", way] for run in runs for way in ("--capture", "--chain"))])
        if self.names.pattern == "" and early != cases.EARLY:
            self.failures.append(f"delays: expected kernels with {sorted(cases.EARLY)}, got {sorted(early)}")

    def make_sanitizers(self):
        # First what shows that the tools see kernels: a fault for each that must be flagged.
        for sanitizer, name in cases.PLANTED:
            mutant = next(item for item in mutants.load_mutants() if item.name == name)
            package = self.mutant_package(mutant)
            if package:
                arguments = mutant.fields.get("Arguments", "--tokens=33,500 --seed=5").split()
                self.add("sanitizers", package, [arguments + self.sanitizer_arguments(sanitizer)], expect="fail",
                         sanitizer=sanitizer)
        small = self.write_layer("sanitized-small", testing.layer_json(
            "sanitized-small", testing.SHAPES[0], self.scheme("bf16"), self.rows["activations"][0],
            self.rows["routing"][1], True))
        if self.compile("sanitized-small", small, []):
            for sanitizer in cases.SANITIZERS:
                tokens = ",".join(cases.SANITIZED_TOKENS)
                if sanitizer == "initcheck":
                    tokens = tokens.removeprefix("0,")  # what no run wrote would be read back
                self.add("sanitizers", "sanitized-small", [
                    [f"--tokens={tokens}", "--routing=skewed", *self.sanitizer_arguments(sanitizer)]], sanitizer=sanitizer)
        real = ROOT / "examples" / "models" / "qwen3-30b-a3b.json"
        layers = [(name, real, extra, counts) for name, extra, counts in cases.SANITIZED_REAL]
        for scheme in cases.SANITIZED_CODES:
            name = f"sanitized-{scheme}"
            layer = self.write_layer(name, testing.layer_json(
                name, cases.SANITIZED_CODES_SHAPE, self.scheme(scheme), self.rows["activations"][0], self.rows["routing"][1], False))
            layers.append((name, layer, [], cases.SANITIZED_CODES_TOKENS))
        for name, layer, extra, counts in layers:
            if not self.compile(name, layer, extra):
                continue
            # An entry a token count, small ones first: a budget can stop between.
            for tokens in counts:
                for sanitizer in cases.SANITIZERS:
                    count = f"0,{tokens}" if tokens == "1" and sanitizer != "initcheck" else tokens
                    self.add("sanitizers", f"{name}-{tokens.replace(',', '-')}", [
                        [f"--tokens={count}", "--routing=skewed", "--sample=4", *self.sanitizer_arguments(sanitizer)]],
                        sanitizer=sanitizer, package=f"packages/{name}")
        slices = self.write_layer("sanitized-slices", testing.layer_json(
            "sanitized-slices", cases.SANITIZED_SLICES, self.scheme("fp8_block"), self.rows["activations"][0], self.rows["routing"][1], False))
        if self.compile("sanitized-slices", slices, [f"--gpu={SLICED_GPU}"]):
            tokens = SLICED_ROWS[0] // cases.SANITIZED_SLICES["top_k"] + 1
            for sanitizer in cases.SANITIZERS:
                self.add("sanitizers", "sanitized-slices", [
                    [f"--tokens={tokens}", "--routing=skewed", "--sample=4", *self.sanitizer_arguments(sanitizer)]], sanitizer=sanitizer)

        # Drawn layers that nobody wrote down, small ones, since a tool slows a kernel down by orders of magnitude.
        for name, _ in self.draw("sanitized-random", f"sanitized {self.seed}", list(range(cases.SANITIZED_LAYERS)), MOST_WORK):
            for sanitizer in cases.SANITIZERS[:3]:
                most = max(variant["max_tokens"] for variant in self.manifest(name)["targets"][0]["variants"])
                self.add("sanitizers", name, [[f"--tokens=1,{min(33, most)}", "--routing=skewed", "--sample=4"]],
                         sanitizer=sanitizer)

    @staticmethod
    def sanitizer_arguments(sanitizer):
        # Poison counts as initialized: without it initcheck sees what no kernel wrote.
        return ["--no-poison"] if sanitizer == "initcheck" else []

    @staticmethod
    def kind_of(mutant):
        """The layer that a fault is planted in: scheme, engine, what else it needs, and whether predecessors are slow."""
        layer = mutant.fields.get("Layer", "")
        scheme, engine = cases.MUTANT_LAYERS[layer][:2] if layer else ("bf16", "mma_sync")
        return mutant.fields.get("Scheme", scheme), mutant.fields.get("Engine", engine), layer, mutant.fields.get("Slow") == "yes"

    @staticmethod
    def sound_name(scheme_name, engine, layer_name, slow):
        return (f"mutant-none-{scheme_name}" + ("" if engine == "mma_sync" else f"-{engine}") +
                (f"-{layer_name}" if layer_name else "") + ("-slow" if slow else ""))

    def sound_package(self, scheme_name, engine, layer_name, slow):
        """The name of a package without fault, made once; None after noting a failure."""
        name = self.sound_name(scheme_name, engine, layer_name, slow)
        if name in self.mutant_packages:
            return self.mutant_packages[name]
        if slow:
            base = self.sound_package(scheme_name, engine, layer_name, False)
            failure = mutate((mutants.Mutant(SLOW), self.out / "packages", base, name)) if base else None
            if failure:
                self.failures.append(f"{name}: {failure}")
            self.mutant_packages[name] = name if base and not failure else None
            return self.mutant_packages[name]
        scheme = self.scheme(scheme_name)
        shape = cases.MUTANT_SHAPE if testing.is_plain(scheme) else cases.MUTANT_SHAPE_OF_BYTES
        if testing.scales_blocks(scheme, engine):
            shape = cases.MUTANT_SHAPE_OF_BLOCKS
        shape = {**shape, "num_experts": cases.MUTANT_EXPERTS.get(engine, shape["num_experts"])}
        changes, most = cases.MUTANT_LAYERS[layer_name][2:] if layer_name else ({}, 2048)
        most = min(most, self.most_tokens or most)
        layer = self.write_layer(name, {**testing.layer_json(
            name, shape, scheme, self.rows["activations"][0], self.rows["routing"][1], True), **changes})
        # The faults are in the skeleton of this engine, or in the kernels of a part.
        words = [f"--part={layer_name}"] if engine == "part" else testing.engine_options(self.rows, engine)
        made = self.compile(name, layer, [f"--max-tokens={most}", *cases.MUTANT_GPU.get(self.arch, []), *words])
        self.mutant_packages[name] = name if made else None
        return self.mutant_packages[name]

    def mutant_package(self, mutant):
        """The name of a package with this fault, made once; None after noting a failure."""
        name = f"mutant-{mutant.name}"
        if name not in self.mutant_packages:
            self.mutant_packages[name] = None
            base = self.sound_package(*self.kind_of(mutant))
            if base:
                self.note_mutant(mutant, mutate((mutant, self.out / "packages", base, name)))
        return self.mutant_packages[name]

    def note_mutant(self, mutant, failure):
        name = f"mutant-{mutant.name}"
        self.mutant_packages[name] = None if failure else name
        if failure:
            self.failures.append(f"{name}: {failure}")

    def make_mutants_at_once(self, wanted):
        """The packages of these faults, by processes side by side: NVRTC is slow under threads."""
        bases = [(mutant, self.sound_package(*self.kind_of(mutant))) for mutant in wanted]
        jobs = [(mutant, self.out / "packages", base, f"mutant-{mutant.name}") for mutant, base in bases if base]
        with concurrent.futures.ProcessPoolExecutor(self.jobs) as pool:
            for (mutant, *_), failure in zip(jobs, pool.map(mutate, jobs)):
                self.note_mutant(mutant, failure)

    def make_mutants(self):
        kinds = {}  # in order: the runs of each
        wanted = [mutant for mutant in mutants.load_mutants()
                  if mutant.kind == "template" and "Arch" not in mutant.fields and self.named(f"mutant-{mutant.name}")]
        self.make_mutants_at_once(wanted)
        for mutant in wanted:
            package = self.mutant_package(mutant)
            if not package:
                continue
            arguments = mutant.fields.get("Arguments", "").split() or cases.USUAL
            runs = kinds.setdefault(self.kind_of(mutant), [cases.USUAL])
            if arguments not in runs:
                runs.append(arguments)
            says = mutant.fields.get("Deadline")
            if says:
                base = self.sound_package(*self.kind_of(mutant))
                self.add("mutants", f"{base} with deadlines", [arguments], package=f"packages/{base}", environment=cases.DEADLINE)
            self.add("mutants", package, [arguments], expect="fail", sanitizer=mutant.fields.get("Sanitizer"),
                     repeat=int(mutant.fields.get("Repeat", "1")), hangs=mutant.fields.get("Hangs") == "yes",
                     **({"environment": cases.DEADLINE, "says": says} if says else {}))
        # Without a fault the same checks must be green.
        for kind, runs in kinds.items():
            package = self.sound_package(*kind)
            if package:
                self.add("mutants", package, runs)

    def finish(self):
        (self.out / "bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(self.tools.moec_check, self.out / "bin" / "moec-check")
        shutil.copy(HERE / "gpu_suite.py", self.out / "gpu_suite.py")
        commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
        trees = {folder: subprocess.run(["git", "-C", ROOT, "rev-parse", f"HEAD:{folder}"], capture_output=True,
                                        text=True).stdout.strip() for folder in ("templates", "runtime", "compiler")}
        index = {"arch": self.arch, "commit": commit, "trees": trees, "entries": self.entries}
        (self.out / "index.json").write_text(json.dumps(index, indent=1) + "\n")

    def pack(self, path):
        """One file of all that gpu_suite.py needs. Packages have most headers in common: each is in it once, and linked elsewhere."""
        first = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz", compresslevel=6) as tar:
            for file in sorted(item for part in ("bin", "packages", "gpu_suite.py", "index.json")
                               for item in [self.out / part, *(self.out / part).rglob("*")] if item.is_file()):
                info = tar.gettarinfo(file, str(file.relative_to(self.out)))
                text = file.read_bytes()
                same = first.setdefault(hashlib.sha256(text).digest(), info.name)
                if same != info.name:
                    info.type, info.linkname, info.size = tarfile.LNKTYPE, same, 0
                    tar.addfile(info)
                else:
                    tar.addfile(info, io.BytesIO(text))
        print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB")


def mutate(job):
    """None, or why there is no package with this fault."""
    mutant, packages, base, name = job
    path = nvrtc.find()
    if not path:
        return "no NVRTC found (MOEC_NVRTC_PATH, /usr/local/cuda)"
    try:
        mutate_package(mutant, packages / base, packages / name, nvrtc.Nvrtc(path))
    except (RuntimeError, OSError) as error:
        return str(error)
    return None


def mutate_package(mutant, base, package, library):
    """A copy of `base` with the mutant's headers, their cubins and their hashes."""
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(base, package)
    tree = package.parent / (package.name + ".tree")
    shutil.rmtree(tree, ignore_errors=True)
    mutants.apply_patch(mutant, tree)
    changed = set()
    for file in mutant.files:
        header = file.removeprefix("templates/")
        if not (package / "include" / header).exists():
            raise RuntimeError(f"the package includes no {header}")
        shutil.copy(tree / file, package / "include" / header)
        changed.add(header)
    shutil.rmtree(tree)
    manifest = json.loads((package / "manifest.json").read_text())
    touched = ["include/" + header for header in changed]
    for target in manifest["targets"]:
        for kernel in target["kernels"]:
            if not changed & set(kernel["headers"]) or not kernel["cubin"]:
                continue
            headers = {header: (package / "include" / header).read_text() for header in kernel["headers"]}
            error, log, _, cubin = library.compile((package / kernel["source"]).read_text(), kernel["name"] + ".cu",
                                                   headers, kernel["options"])
            if error:
                raise RuntimeError(f"{kernel['name']}: {error}: {log[:800]}")
            (package / kernel["cubin"]).write_bytes(cubin)
            touched.append(kernel["cubin"])
    for path in touched:
        manifest["files"][path] = hashlib.sha256((package / path).read_bytes()).hexdigest()
    (package / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--out", required=True, help="the folder to fill")
    arguments.add_argument("--arch", default="sm_90a")
    arguments.add_argument("--only", default="", help="some of rows,random,types,options,parts,ranks,models,limits,delays,mutants,sanitizers")
    arguments.add_argument("--layers", type=int, default=300, help="how many random ones")
    arguments.add_argument("--seed", default="1", help="of the random ones")
    arguments.add_argument("--most-work", type=float, default=GPU_WORK, help="multiplications of a run of a random one")
    arguments.add_argument("--sliced", type=float, default=SLICED, help="how often a layer of slices is drawn")
    arguments.add_argument("--tar", type=pathlib.Path, help="also put all in this file (.tar.gz), to be carried elsewhere")
    arguments.add_argument("--cubins", action="store_true", help="compile rows and random ones here, not where they run")
    arguments.add_argument("--no-cubins", action="store_true", help="compile all where it runs, models and mutants too")
    arguments.add_argument("--filter", default="", help="only packages with this regular expression in their name; sanitizers: all")
    arguments.add_argument("--most-tokens", type=int, default=0, help="of a run of a fault's package; 0: as the fault needs")
    options = arguments.parse_args()
    maker = Maker(options)
    for group in ("rows", "random", "types", "options", "parts", "ranks", "models", "limits", "delays", "mutants",
                  "sanitizers"):
        if maker.wanted(group):
            getattr(maker, "make_" + group)()
            print(f"{group}: {sum(entry['group'] == group for entry in maker.entries)} packages", flush=True)
    maker.finish()
    if options.tar:
        maker.pack(options.tar)
    for failure in maker.failures:
        print(f"FAILED: {failure}")
    print(f"{len(maker.entries)} entries in {maker.out / 'index.json'}")
    sys.exit(1 if maker.failures else 0)


if __name__ == "__main__":
    main()
