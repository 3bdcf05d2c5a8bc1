#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of legal catalog rows with NVRTC, but for those of test/golden/kernels.txt; needs no GPU.

A kernel fails when it does not compile, when it spills registers, when its PTX holds `.local`, when NVRTC or ptxas say
anything at all, when the emulator does not take its PTX (from sm_80 on), when its instructions are not those that its
schedule implies (see check_instructions), when it does not read an argument that it takes (argument_reads.py), or when it breaks the
protocol of programmatic launches (protocol.py). Legal is what the compiler does not refuse; test/golden/legal.txt holds the list.

Of LEADERS, one scheme for each size of operands, each backend, engine and arch with tails in every size; REPRESENTATIVES
gated with bias, not gated without, and every activation and routing method; other archs gated or not in turn; and ranks that
have a part of the experts. Biases are those of ranks of which one adds b2. Every text of such a kernel is judged for each arch of
PREFERRED whose packages have it, and for another one. Of every other scheme each backend and engine for one arch and for each arch one
of them, in turn as activations and methods are; of its texts that no leader has one of each backend, engine, stage and tile is judged
for one arch, and each arch for one text at least. So a new scheme costs some forty kernels.
Parts of layers are some cases of parts.py, and layers of two kinds of matmuls those of mixed.py.

kernels.txt remembers what passed. Other texts are compiled, and MOEC_TEST_ALL=1 (./bootstrap test-all) compiles all. --update writes the
list. --every-arch judges each text for every arch that has it; --all also generates the full product of layers. What passed here is
known in --work, too.
"""

import collections
import concurrent.futures
import hashlib
import itertools
import json
import pathlib
import re
import shutil
import struct
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / name) for name in ("golden", "emulator")]
import argument_reads  # noqa: E402
import conformance  # noqa: E402
import decoding  # noqa: E402
import kernel_list  # noqa: E402
import mixed  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import parts  # noqa: E402
import protocol  # noqa: E402

# No tile divides any of these; rows are whole multiples of 16 bytes.
SHAPE = {"num_experts": 12, "top_k": 3, "hidden_size": 328, "intermediate_size": 200}
SHAPE_OF_BYTES = {"num_experts": 12, "top_k": 3, "hidden_size": 336, "intermediate_size": 208}
# One arch for each set of features that kernels can differ by, where no other table says so.
REPRESENTATIVES = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
# Operands as they come, of 32 and of 16 bits, and scaled ones of 8 bits in the form that asks most of registers.
LEADERS = ["f32", "bf16", "fp8_block"]
# Most kernels are judged for these: the oldest with asynchronous copies, and the arch with wgmma.
PREFERRED = ["sm_80", "sm_90a"]
# The one that has all engines.
ALL_WAYS = "sm_90a"
# A rank with a part of the experts, and a rank of which another may add b2: kernels take both as arguments.
PART_OF_EXPERTS = {"tp_size": 2, "use_ep": True}
PART_OF_COLUMNS = {"tp_size": 2}
# One of so many cases of parts.py.
PART_STEP = 7
# Activations and methods that take no turns, so that a new row leaves the texts of the others: each way of these leaders on ALL_WAYS has each.
OWN_TURN = ["relu", "relu_no_mul", "powlu", "clamped_relu2_no_mul", "topk_sigmoid_bias", "sigmoid_sinks"]
LEADERS_OF_OWN_TURN = ["bf16", "fp8_block"]
# Pairs of an activation and a method that one scheme on one of them is compiled with.
A_FEW = 6
STRICT = ["-Xptxas=-warn-spills", "-Xptxas=-warn-lmem-usage", "-Xptxas=-Werror"]
# wgmma of 16 and of 8 bits, its weights by descriptor and in registers, and the tensor load of the copy engine.
HGMMA = {0x9f0, 0xdf0}
QGMMA = {0x9f3, 0xdf3}
UTMALDG = 0x5b4
# Archs and layers of engines that multiply scales of blocks.
BLOCK_ARCHS = ("sm_120f", "sm_121a")
BLOCK_SHAPES = [{"num_experts": 8, "top_k": 2, "hidden_size": 1024, "intermediate_size": 512},
                {"num_experts": 8, "top_k": 2, "hidden_size": 416, "intermediate_size": 160}]
# On archs of compute capability 12.
OMMA, QMMA, CALL = 0x47f, 0x47a, 0x944
# The version of this file's rules; a kernel that passed an older version is judged again.
RULES = "10"
# Packages that one process compiles.
CHUNK = 50

_library = _decoder = None
_headers = {}


def in_turn(rows):
    """The rows without activations and methods of OWN_TURN."""
    return {**rows, **{table: [row for row in rows[table] if row["name"] not in OWN_TURN] for table in ("activations", "routing")}}


def choose(rows, everything):
    """[(arch, scheme, backend, engine, [(activation, routing, bias[, parallel config])])]: what to compile."""
    usual = in_turn(rows)
    activations, methods = usual["activations"], usual["routing"]
    gated = next(row for row in activations if row["gated"])
    ungated = next(row for row in activations if not row["gated"])
    own = [[row for row in rows[table] if row["name"] in OWN_TURN] for table in ("activations", "routing")]
    if everything:
        product = [(activation, method, bias) for activation, method in testing.pairs(rows, True)
                   for bias in (False, True)]
    once = [(activation, method, i % 2 == 0) for i, (activation, method) in enumerate(testing.pairs(usual, False))]
    chosen, taken = [], 0
    for turn, arch in enumerate(rows["archs"]):
        for scheme in rows["schemes"]:
            if scheme["name"] not in LEADERS and not everything:
                chosen += others(rows, arch, turn, scheme, once)
                continue
            ways = list(testing.ways(rows, scheme))
            for index, (backend, engine) in enumerate(ways):
                if everything:
                    layers = product
                elif arch["name"] not in REPRESENTATIVES:
                    layers = [(gated, methods[0], True) if turn % 2 else (ungated, methods[-1], False)]
                    turn += 1
                else:
                    layers = [(gated, methods[0], True), (ungated, methods[-1], False)]
                    # The last way of a scheme is legal on every arch. A few at a time: all come up on several archs.
                    if index + 1 == len(ways):
                        layers += [once[(taken + i) % len(once)] for i in range(A_FEW)]
                        taken += A_FEW
                if arch["name"] in PREFERRED and not everything:
                    layers = [*layers, (gated, methods[0], False, PART_OF_EXPERTS)]
                if arch["name"] == ALL_WAYS and scheme["name"] in LEADERS_OF_OWN_TURN and not everything:
                    layers = [*layers, *((row, methods[0], False) for row in own[0] if testing.takes(rows, engine, row)),
                              *((gated, row, False) for row in own[1])]
                chosen.append((arch["name"], scheme, backend, engine, layers))
            batched = testing.ways_on(rows, scheme, arch, ("batched",))
            # Rows that come by expert: what their kernels add is the same for every activation and method.
            if arch["name"] in PREFERRED and batched:
                chosen.append((arch["name"], scheme, *batched[0], [(gated, methods[0], True)]))
        # Engines whose accumulators are in tensor memory: each scheme, of blocks too.
        if arch["name"] in REPRESENTATIVES:
            chosen += [(arch["name"], scheme, backend["name"], engine, [(gated, methods[0], True), (ungated, methods[0], False)])
                       for scheme, backend, engine in testing.tensor_memory_ways(rows, arch) if everything or backend["format"] == "standard"]
    return chosen


def others(rows, arch, turn, scheme, once):
    """The kernels to compile for an arch of a scheme that is no leader."""
    number = rows["schemes"].index(scheme)
    ways, batched = testing.ways_on(rows, scheme, arch), testing.ways_on(rows, scheme, arch, ("batched",))
    if arch["name"] == ALL_WAYS:
        ways += batched[:1]
    elif ways:
        ways = [ways[(turn + number) % len(ways)]]
    for place, (backend, engine) in enumerate(ways):
        fits = [pair for pair in once if not (testing.is_of_few_tokens(rows, engine) and "weight_on_input" in pair[1]["needs"])]
        yield arch["name"], scheme, backend, engine, [fits[(turn + number + place) % len(fits)]]


def layers_of_row(rows, arch, scheme, backend, engine, layers):
    """(name, order of fragments, layer, words of the compiler) of each package of one row and arch."""
    # Sizes that no tile divides, and whole blocks where the engine then reads fragments.
    orders = ("rows", "fragment") if testing.may_read_fragments(rows, engine, scheme) else ("rows",)
    for index, (order, (activation, routing, bias, *parts)) in enumerate(itertools.product(orders, layers)):
        shape = SHAPE if testing.is_plain(scheme) else SHAPE_OF_BYTES
        form = next(row["format"] for row in rows["backends"] if row["name"] == backend)
        # One backend has the kernels that order columns.
        ordered = {"group_index": True} if backend == "unfused" and testing.may_be_ordered(scheme) else {}
        sizes = testing.in_blocks(shape) if order == "fragment" else testing.sized_for(rows, engine, shape, scheme)
        parallel = parts[0] if parts else {}
        if bias and not ordered:  # as many columns for each of two ranks
            sizes = {**sizes, "intermediate_size": 2 * sizes["intermediate_size"]}
            parallel = PART_OF_COLUMNS
        yield f"{scheme['name']}-{backend}-{engine}-{index}", order, {
            **testing.layer_json("all", sizes, scheme, activation, routing, bias),
            **ordered, "activation_format": form, "moe_parallel_config": parallel}, [
                f"--arch={arch}", f"--backend={backend}", *testing.engine_options(rows, engine)]


def make_packages(tools, work, jobs):
    """[[(kernel's name, source, headers, options, schedule, argument block)]], None where the package is refused, or a sentence of
    each of [(name, layer, words)]; one process makes them."""
    folder = work / jobs[0][0]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    lines = []
    for number, (_, layer, words) in enumerate(jobs):
        (folder / f"{number}.json").write_text(json.dumps(layer))
        lines.append([folder / f"{number}.json", *words, "-o", folder / str(number)])
    made = []
    for number, (status, said) in enumerate(testing.compile_lines(tools.moec, lines, folder / "cases", common=["--no-cubin"])):
        if status not in (0, 1):
            made.append(f"{jobs[number][0]}: moec exited with {status}: {said}")
        else:
            made.append(None if status else list(kernels_of(folder / str(number))))
    shutil.rmtree(folder)
    return made


def kernels_of(package):
    """(name, source, headers, options, schedule, argument block) of each kernel of a package."""
    manifest = json.loads((package / "manifest.json").read_text())
    texts = {}
    for target in manifest["targets"]:
        for kernel in target["kernels"]:
            for header in kernel["headers"]:
                if header not in texts:
                    text = (package / "include" / header).read_text()
                    texts[header] = _headers.setdefault(text, text)  # one copy of all packages
            headers = {header: texts[header] for header in kernel["headers"]}
            # Kernels of two schemes that differ by the name of their entry alone are one.
            source = (package / kernel["source"]).read_text().replace(kernel["entry"], "moec_kernel")
            schedule = target["report"]["schedules"].get(kernel["name"], {})
            yield kernel["name"], source, headers, kernel["options"] + STRICT, schedule, kernel["arguments"]


def opcodes(cubin):
    """The opcode (low 12 bits) of every 16-byte instruction in a cubin of sm_70 or later. There is no disassembler where
    this runs; nvdisasm agreed on those that are named here."""
    table, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    for name, kind, _, _, offset, length, *_ in sections:
        start = sections[names][4] + name
        if kind == 1 and cubin[start:start + 6] == b".text.":
            for at in range(offset, offset + length - 15, 16):
                yield struct.unpack_from("<H", cubin, at)[0] & 0xfff


def instructions_of(schedule):
    """The fields of a schedule that check_instructions reads."""
    return json.dumps([*(schedule.get(name) for name in ("engine", "tile", "consumer_warps", "swap")), "buffers" in schedule])


def multiplies(schedule):
    """The most multiplies of 64 rows and 32 bytes of k that a tile of engine wgmma has in its kernel's text."""
    tokens, weights, _ = schedule["tile"]
    warpgroups = schedule["consumer_warps"] // 4
    if not schedule.get("swap"):
        return tokens // warpgroups // 64 * max(1, weights // 128)
    # Sizes that matmul/roles/ring.cuh chooses from.
    sizes = 1 + sum(size < tokens for size in (16, 32, 64, 128, 192))
    return sizes * (weights // warpgroups // 64)


def check_instructions(cubin, schedule, source):
    """None, or what is wrong. A tile of engine wgmma is multiplied in steps of 32 bytes, unrolled for each number of tokens
    that the kernel may choose at run time, and has its weights brought by the copy engine; nothing else does either."""
    counts = {"HGMMA": 0, "QGMMA": 0, "UTMALDG": 0}
    for opcode in opcodes(cubin):
        if opcode in HGMMA:
            counts["HGMMA"] += 1
        elif opcode in QGMMA:
            counts["QGMMA"] += 1
        elif opcode == UTMALDG:
            counts["UTMALDG"] += 1
    if schedule.get("engine") not in ("wgmma", "wgmma_rs"):
        return None if not any(counts.values()) else f"engine wgmma was not asked for, but there are {counts}"
    steps = 128 // 32
    # Rows of 128 bytes: elements of 8 bits are as many as bytes.
    name, other = ("QGMMA", "HGMMA") if schedule["tile"][2] == 128 else ("HGMMA", "QGMMA")
    if schedule["engine"] == "wgmma_rs":  # its weights are no tensor of the copy engine
        return None if counts[name] and counts[name] % steps == 0 and not (counts[other] or counts["UTMALDG"]) else \
            f"{counts}; expected a multiple of {steps} {name} alone"
    most = multiplies(schedule) * steps
    if not counts[name] or counts[name] % steps or counts[name] > most:
        return f"{counts[name]} {name}; expected a multiple of {steps} up to {most}"
    if counts[other]:
        return f"{counts[other]} {other} beside {counts[name]} {name}"
    # In the loop, and for what is brought before the predecessor has ended; slices ask for what nobody else reads in another way.
    most = 4 if "buffers" in schedule else 2
    if "moe::TensorMap lhs;" in source:
        most += schedule["tile"][0] // 64  # a box of token rows each
    if not 1 <= counts["UTMALDG"] <= most:
        return f"{counts['UTMALDG']} UTMALDG; expected 1 to {most}"
    return None


def judged(texts, places):
    """The archs for which each text is compiled, of {text: (archs that have it, name)} and {place: [(text, arch)]}: see above."""
    def turn(name, among):
        # By a name, so that an edit of a text leaves its arch.
        return among[int(hashlib.sha256(name.encode()).hexdigest(), 16) % len(among)]

    chosen, met, left = {}, set(), []
    for place, keys in places.items():
        for text, _ in keys if place[0] in LEADERS else ():
            archs, name = texts[text]
            others = [arch for arch in archs if arch not in PREFERRED]
            chosen[text] = {arch for arch in archs if arch in PREFERRED} | ({turn(name, others)} if others else set())
    of_leaders = set(chosen)
    # Every place of another scheme once, those with few texts first, which may serve others.
    for place, keys in sorted(places.items(), key=lambda item: (len(item[1]), item[0])):
        if place[0] in LEADERS:
            continue
        left += [(place[0], arch, text) for text, arch in keys if text not in of_leaders]
        if not any(text in chosen for text, _ in keys):
            arch = turn("-".join(map(str, place)), list(dict.fromkeys(arch for _, arch in keys)))
            chosen[next(text for text, of in keys if of == arch)] = {arch}
            met.add((place[0], arch))
    # Then the archs that a scheme has not met.
    for scheme, arch, text in left:
        if (scheme, arch) not in met:
            met.add((scheme, arch))
            chosen.setdefault(text, set()).add(arch)
    return chosen


def check_kernel(job):
    """None, or a sentence; runs in a process of its own, NVRTC being slow under threads."""
    global _library, _decoder
    path, emulator, name, source, headers, options, schedule, arguments = job
    if _library is None:
        _library, _decoder = nvrtc.Nvrtc(path), decoding.Decoder(emulator)
    error, log, ptx, cubin = _library.compile(source, name + ".cu", headers, options)
    if error:
        return f"{name}: {error}: {log[:1500]}"
    if log:
        return f"{name}: NVRTC says: {log[:1500]}"
    if re.search(r"\.local\b", ptx):
        return f"{name}: its PTX uses .local"
    if not cubin:
        return f"{name}: no cubin"
    if "-arch=sm_75" not in options and (fault := _decoder.fault(ptx)):
        return f"{name}: the emulator does not take it: {fault}"
    if names := argument_reads.unread(ptx, arguments, source):
        return f"{name}: its PTX does not read the arguments {', '.join(names)}"
    if "kProgrammatic = true" in source:
        for sentence in protocol.violations(ptx, protocol.declares_counters(source)):
            return f"{name}: {sentence}"
    elif "griddepcontrol" in ptx:
        return f"{name}: it is launched as usual and has griddepcontrol"
    # On sm_90a, for whose opcodes the numbers stand.
    wrong = check_instructions(cubin, schedule, source) if "-arch=sm_90a" in options else None
    if schedule.get("engine") == "mma_sync_scaled":
        wrong = check_block_multiplies(cubin, schedule, source)
    return f"{name}: {wrong}" if wrong else None


def check_block_multiplies(cubin, schedule, source):
    """None, or what is wrong with a kernel of engine mma_sync_scaled: a warp and stage have four steps of 32 bytes of k, each with a
    multiply for 16 tokens and 8 weight rows, and the last rows of a tile of 128 tokens may have fewer. Nothing is called but the divisions of
    activation situ."""
    counts = collections.Counter(opcodes(cubin))
    multiplies, (tokens, rows, _), (of_m, of_n) = counts[OMMA] + counts[QMMA], schedule["tile"], schedule["warps"]
    stage = 4 * (tokens // of_m // 16) * (rows // of_n // 8)
    if tokens >= 128 and rows % (of_m * of_n * 16) == 0:
        stage += 4 * (tokens // 4 // 16) * (rows // (of_m * of_n) // 8)
    if not multiplies or multiplies % stage or (counts[OMMA] and counts[QMMA]):
        return f"{counts[OMMA]} OMMA and {counts[QMMA]} QMMA; expected a multiple of {stage} of one of them"
    return f"{counts[CALL]} calls" if counts[CALL] and "activation::Situ" not in source else None


def block_packages(rows):
    """(scheme, name, layer, words) for engines that multiply scales of blocks: each scheme and backend with a gate and without, with sizes
    of whole words of scales and others."""
    for turn, (scheme, backend, engine) in enumerate(testing.block_ways(rows)):
        for gated in (True, False):
            activations = [row for row in in_turn(rows)["activations"] if row["gated"] == gated]
            activation = activations[turn % len(activations)]
            shape = BLOCK_SHAPES[(turn + gated) % len(BLOCK_SHAPES)]
            batched = backend["format"] == "batched"
            layer = testing.layer_json("all", shape, scheme, activation, rows["routing"][0], turn % 2 == 0)
            if batched:
                layer = {**layer, **testing.NO_METHOD, "activation_format": "batched"}
                del layer["routing_method"]
            name = f"{scheme['name']}-{backend['name']}-{engine}-{activation['name']}"
            yield scheme, name, layer, [f"--backend={backend['name']}", f"--engine={engine}"]


def packages_to_make(rows, options):
    """[(arch, row's number, scheme, place, (name, layer, words))]: all packages. Kernels of one row are left out where it is refused."""
    combinations = [item for item in choose(rows, options.all) if
                    options.filter in f"{item[0]}-{item[1]['name']}-{item[2]}-{item[3]}"]
    for number, (arch, scheme, backend, engine, layers) in enumerate(combinations):
        for name, order, layer, words in layers_of_row(rows, arch, scheme, backend, engine, layers):
            yield arch, number, (scheme["name"], backend, engine, order), (name, layer, words)
    # Some parts of layers: their kernels are those of layers, less what nobody reads.
    for arch in (REPRESENTATIVES[0], *PREFERRED):
        for case in itertools.islice(parts.cases(in_turn(rows)), 0, None, PART_STEP):
            if options.filter in f"{arch}-{case['scheme']['name']}-{case['backend']}-{case['engine']}" and \
                    not testing.may_multiply_codes(case["scheme"]):
                yield arch, None, (LEADERS[1], "part", case["part"], "rows"), (
                    conformance.name_of(case), conformance.layer_of("part", case), [f"--arch={arch}", *conformance.words_of(case)])
    for scheme, name, layer, words in block_packages(rows):
        if options.filter in f"{BLOCK_ARCHS}-{name}":
            for arch in BLOCK_ARCHS:
                yield arch, None, (scheme["name"], "blocks", name, "rows"), (name, layer, [f"--arch={arch}", *words])
    for name, layer, words in mixed.packages():
        if options.filter in f"{ALL_WAYS}-{name}":
            yield ALL_WAYS, None, (LEADERS[2], "mixed", name, "rows"), (name, layer, words)


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--filter", default="", help="only kernels with this in arch-scheme-backend-engine")
    arguments.add_argument("--all", action="store_true", help="every activation, method and bias on every arch")
    arguments.add_argument("--every-arch", action="store_true", help="each kernel for every arch that has it")
    kernel_list.options_of(arguments)
    options = arguments.parse_args()
    is_usual = not (options.filter or options.all or options.every_arch)
    if options.update and not is_usual:
        sys.exit("--update: expected no --filter, --all and --every-arch")
    path = nvrtc.find()
    if not path:
        print("SKIPPED: no NVRTC found (MOEC_NVRTC_PATH, /usr/local/cuda)")
        sys.exit(77)
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    done = work / "passed"
    done.mkdir(parents=True, exist_ok=True)
    started = time.time()
    rows, library = tools.rows(), nvrtc.Nvrtc(path)
    listed = kernel_list.KernelList("layers", RULES, library.release())
    every = [arch["name"] for arch in rows["archs"]]
    rows["archs"] = library.compiled(rows["archs"])
    archs = [arch["name"] for arch in rows["archs"]]
    if later := [arch for arch in every if arch not in archs]:
        print(f"NVRTC {listed.version} compiles for no {', '.join(later)}", flush=True)
    of_turns = [row["name"] for table in ("activations", "routing") for row in rows[table]]
    for what, names, known in (("REPRESENTATIVES", REPRESENTATIVES, archs), ("LEADERS", LEADERS, [row["name"] for row in rows["schemes"]]),
                               ("OWN_TURN", OWN_TURN, of_turns)):
        unknown = [name for name in names if name not in known]
        if unknown:
            sys.exit(f"{what}: expected names of the catalog, got {', '.join(unknown)}")
    packages = list(packages_to_make(rows, options))
    chunks = testing.in_chunks([(f"{arch}-{job[0]}", *job[1:]) for arch, _, _, job in packages], CHUNK)
    scratch = testing.Scratch(work / "packages")
    made = [one for chunk in testing.parallel(lambda chunk: make_packages(tools, scratch.folder, chunk), chunks, options.jobs) for one in chunk]
    print(f"{len(packages)} packages in {time.time() - started:.0f} s", flush=True)
    failures = [one for one in made if isinstance(one, str)]
    # test/golden/legal.txt is where refusals are judged, of rows: parts have none.
    refused = {number for (_, number, _, _), one in zip(packages, made) if one is None and number is not None}
    failures += [f"{arch}-{job[0]}: refused" for (arch, number, _, job), one in zip(packages, made) if one is None and number is None]
    # One kernel is often the same in several packages: compile it once.
    kernels, texts, places = {}, {}, {}
    for (arch, number, (scheme, backend, engine, order), (name, _, _)), one in zip(packages, made):
        if number in refused or not isinstance(one, list):
            continue
        for kernel, source, headers, flags, schedule, block in one:
            # Beside an engine of few tokens there is one that has a row of its own.
            if backend not in ("part", "mixed") and testing.is_of_few_tokens(rows, engine) and schedule.get("engine") != engine:
                continue
            text = listed.digest(source, headers, [*(flag for flag in flags if not flag.startswith("-arch=")), instructions_of(schedule)])
            job = path, decoding.library_of(options.bin), f"{arch}-{name}/{kernel}", source, headers, flags, schedule, block
            kernels.setdefault((text, arch), job)
            of_text, _ = texts.setdefault(text, ([], f"{name}/{kernel}"))
            if arch not in of_text:
                of_text.append(arch)
            places.setdefault((scheme, backend, engine, re.sub(r"^up_to_\d+_", "", kernel), schedule.get("tile", [0])[0], order), []).append((text, arch))
    chosen = judged(texts, places)
    if options.all or options.every_arch:
        chosen = {text: of_text for text, (of_text, _) in texts.items()}
    keyed = []
    for (text, arch), job in kernels.items():
        if arch in chosen.get(text, ()):
            is_listed = listed.see(text, texts[text][1], arch)
            if not is_listed or testing.runs_all():
                keyed.append((f"{text}-{arch}-{listed.version}", job))
    pending = [(key, job) for key, job in keyed if not (done / key).exists()]
    count = sum(len(of_text) for of_text in chosen.values())
    print(f"{len(refused)} rows of an arch are refused; {len(kernels)} different kernels of archs, {len(texts)} different texts, {count} of "
          f"archs are judged, {count - len(keyed)} of them listed; {len(pending)} to compile with NVRTC {listed.version} at {path}", flush=True)
    if listed.about():
        print(listed.about(), flush=True)
    with concurrent.futures.ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for (key, _), failure in zip(pending, pool.map(check_kernel, [job for _, job in pending], chunksize=4)):
            if failure:
                failures.append(failure)
            else:
                (done / key).touch()
    if options.update and not failures:
        listed.write()
    elif is_usual:
        failures += listed.stale()
    testing.finish("compiling every legal row for every arch", max(count, len(failures)), failures, started, time.time())


if __name__ == "__main__":
    main()
