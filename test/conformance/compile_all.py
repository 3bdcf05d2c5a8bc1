#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of legal catalog rows for every arch with NVRTC; needs no GPU.

A kernel fails when it does not compile, when it spills registers, when its PTX holds `.local`, when NVRTC or ptxas
say anything at all, when its instructions are not those that its schedule implies (see check_instructions), or when it
breaks the protocol of programmatic launches (protocol.py). Legal is what the compiler does not refuse;
test/golden/legal.txt holds the list.

Of LEADERS, one scheme for each size of operands, each backend, engine and arch with tails in every size; REPRESENTATIVES
gated with bias, not gated without, and every activation and routing method; other archs gated or not in turn; and ranks that
have a part of the experts. Biases are those of ranks of which one adds b2. Every such kernel is drawn for an arch of PREFERRED
whose packages have it, or for another arch that has the same text.
Of every other scheme each backend and engine for one arch and for each arch one of them, in turn as activations and methods
are; of its kernels that no leader has, each of a backend, an engine, a stage and a tile is compiled once, their archs spread
so that each has one at least. So a new scheme costs some forty kernels. What is drawn depends on --seed, by default a digest
of all texts: another arch has its turn when a template or a table changes. Of what is drawn, half is compiled, and at least one
kernel of each scheme, backend, engine, stage and tile. --more, as in ./bootstrap test-all, compiles all of it, and kernels of
LEADERS for each arch of PREFERRED and one of the others. --every-arch draws nothing; --all also generates the full product of
layers. What passed is remembered by a hash of all that went in. Parts of layers are some cases of parts.py.
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

import conformance
import moec_testing as testing
import nvrtc
import parts
import protocol

# No tile divides any of these; rows are whole multiples of 16 bytes.
SHAPE = {"num_experts": 12, "experts_per_token": 3, "hidden_dim": 328, "intermediate_size": 200}
SHAPE_OF_BYTES = {"num_experts": 12, "experts_per_token": 3, "hidden_dim": 336, "intermediate_size": 208}
# One arch for each set of features that kernels can differ by, where no other table says so.
REPRESENTATIVES = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
# Operands as they come, of 32 and of 16 bits, and scaled ones of 8 bits in the form that asks most of registers.
LEADERS = ["f32", "bf16", "fp8_block"]
# Most kernels are drawn for these: the oldest with asynchronous copies, and the arch with wgmma.
PREFERRED = ["sm_80", "sm_90a"]
# The one that has all engines.
ALL_WAYS = "sm_90a"
# A rank with a part of the experts, and a rank of which another may add b2: kernels take both as arguments.
PART_OF_EXPERTS = {"tp_size": 2, "use_ep": True}
PART_OF_COLUMNS = {"tp_size": 2}
# One of so many cases of parts.py.
PART_STEP = 7
# Pairs of an activation and a method that one scheme on one of them is compiled with.
A_FEW = 6
STRICT = ["-Xptxas=-warn-spills", "-Xptxas=-warn-lmem-usage", "-Xptxas=-Werror"]
# wgmma of 16 and of 8 bits, its weights by descriptor and in registers, and the tensor load of the copy engine.
HGMMA = {0x9f0, 0xdf0}
QGMMA = {0x9f3, 0xdf3}
UTMALDG = 0x5b4
# The version of this file's rules; a kernel that passed an older version is judged again.
RULES = "9"

_library = None


def choose(rows, everything):
    """[(arch, scheme, backend, engine, [(activation, routing, bias[, parallel config])])]: what to compile."""
    activations, methods = rows["activations"], rows["routing"]
    gated = next(row for row in activations if row["gated"])
    ungated = next(row for row in activations if not row["gated"])
    if everything:
        product = [(activation, method, bias) for activation, method in testing.pairs(rows, True)
                   for bias in (False, True)]
    once = [(activation, method, i % 2 == 0) for i, (activation, method) in enumerate(testing.pairs(rows, False))]
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
                chosen.append((arch["name"], scheme, backend, engine, layers))
            batched = testing.ways_on(rows, scheme, arch, ("batched",))
            # Rows that come by expert: what their kernels add is the same for every activation and method.
            if arch["name"] in PREFERRED and batched:
                chosen.append((arch["name"], scheme, *batched[0], [(gated, methods[0], True)]))
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


def make_sources(tools, work, rows, arch, scheme, backend, engine, layers):
    """Kernels [(name, arch, source, headers, options, schedule, place)] of one row and arch; an empty list where the row is refused.
    Kernels of one place differ by layer and arch."""
    result = []
    # Sizes that no tile divides, and whole blocks where the engine then reads fragments.
    orders = ("rows", "fragment") if testing.may_read_fragments(rows, engine, scheme) else ("rows",)
    for index, (order, (activation, routing, bias, *parts)) in enumerate(itertools.product(orders, layers)):
        name = f"{arch}-{scheme['name']}-{backend}-{engine}-{index}"
        folder = work / "packages" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shape = SHAPE if testing.is_plain(scheme) else SHAPE_OF_BYTES
        form = next(row["format"] for row in rows["backends"] if row["name"] == backend)
        # One backend has the kernels that order columns.
        ordered = {"group_index": True} if backend == "unfused" and testing.may_be_ordered(scheme) else {}
        sizes = testing.in_blocks(shape) if order == "fragment" else testing.sized_for(rows, engine, shape, scheme)
        parallel = parts[0] if parts else {}
        if bias and not ordered:  # as many columns for each of two ranks
            sizes = {**sizes, "intermediate_size": 2 * sizes["intermediate_size"]}
            parallel = PART_OF_COLUMNS
        (folder / "layer.json").write_text(json.dumps({
            **testing.layer_json("all", sizes, scheme, activation, routing, bias),
            **ordered, "activation_format": form, "moe_parallel_config": parallel}))
        status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={arch}",
                                         f"--backend={backend}", *testing.engine_options(rows, engine), "--no-cubin",
                                         "-o", folder / "package"])
        if status == 1:
            return [], None  # refused: test/golden/legal.txt is where that is judged
        if status:
            return [], f"{name}: moec exited with {status}: {errors.strip()}"
        for kernel, source, headers, flags, schedule in kernels_of(folder / "package"):
            # Beside an engine of few tokens there is one that has a row of its own.
            if testing.is_of_few_tokens(rows, engine) and schedule.get("engine") != engine:
                continue
            stage = re.sub(r"^up_to_\d+_", "", kernel)
            place = (scheme["name"], backend, engine, stage, schedule.get("tile", [0])[0], order)
            result.append((f"{name}/{kernel}", arch, source, headers, flags, schedule, place))
        shutil.rmtree(folder)
    return result, None


def kernels_of(package):
    """(name, source, headers, options, schedule) of each kernel of a package."""
    manifest = json.loads((package / "manifest.json").read_text())
    for target in manifest["targets"]:
        for kernel in target["kernels"]:
            headers = {header: (package / "include" / header).read_text() for header in kernel["headers"]}
            # Kernels of two schemes that differ by the name of their entry alone are one.
            source = (package / kernel["source"]).read_text().replace(kernel["entry"], "moec_kernel")
            yield kernel["name"], source, headers, kernel["options"] + STRICT, target["report"]["schedules"].get(kernel["name"], {})


def make_part_sources(tools, work, arch, case):
    """As make_sources, of a part of a layer."""
    name = f"{arch}-{conformance.name_of(case)}"
    folder = work / "packages" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "layer.json").write_text(json.dumps(conformance.layer_of("part", case)))
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={arch}", *conformance.words_of(case),
                                     "--no-cubin", "-o", folder / "package"])
    if status:
        return [], f"{name}: moec exited with {status}: {errors.strip()}"
    result = []
    for kernel, source, headers, flags, schedule in kernels_of(folder / "package"):
        place = (LEADERS[1], "part", case["part"], re.sub(r"^up_to_\d+_", "", kernel), 0, "rows")
        result.append((f"{name}/{kernel}", arch, source, headers, flags, schedule, place))
    shutil.rmtree(folder)
    return result, None


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


def multiplies(schedule):
    """The most multiplies of 64 rows and 32 bytes of k that a tile of engine wgmma has in its kernel's text."""
    tokens, weights, _ = schedule["tile"]
    warpgroups = schedule["consumer_warps"] // 4
    if not schedule.get("swap"):
        return tokens // warpgroups // 64 * max(1, weights // 128)
    # Sizes that skeleton/ring.cuh chooses from.
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


def key_of(version, source, headers, options):
    digest = hashlib.sha256()
    for part in [RULES, version, source, *options, *[text for pair in sorted(headers.items()) for text in pair]]:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def draw(kernels, places, seed, more):
    """The kernels to compile of {(digest of the text, arch): kernel}; places: {place: [(text, arch)]}. more: of leaders for each
    arch of PREFERRED and one more."""
    def lot(text, arch):
        return hashlib.sha256(f"{seed} {text} {arch}".encode()).digest()

    # Texts of leaders, with the archs that have them.
    chosen, archs = set(), {}
    for text, arch in [key for place, keys in places.items() if place[0] in LEADERS for key in keys]:
        archs.setdefault(text, set()).add(arch)
    for text, among in archs.items():
        by_lot = sorted(among, key=lambda arch, text=text: lot(text, arch))
        several = [arch for arch in by_lot if arch in PREFERRED] + [arch for arch in by_lot if arch not in PREFERRED][:1]
        one = min(several, key=lambda arch, text=text: lot(text, arch))
        chosen |= {(text, arch) for arch in (several if more else [one])}
    # Every place of another scheme once, on the arch that the scheme has met least; then the archs that it has not met.
    met, of_leaders = collections.Counter(), {text for text, _ in chosen}
    texts = set(of_leaders)
    for place, keys in sorted(places.items(), key=lambda item: (len(item[1]), item[0])):
        if place[0] not in LEADERS and not any(text in texts for text, _ in keys):
            text, arch = min(keys, key=lambda key: (met[place[0], key[1]], lot(*key)))
            met[place[0], arch] += 1
            texts.add(text)
            chosen.add((text, arch))
    left = {}
    for place, keys in places.items():
        for text, arch in keys if place[0] not in LEADERS else []:
            if text not in of_leaders and not met[place[0], arch]:
                left.setdefault((place[0], arch), []).append((text, arch))
    chosen |= {min(keys, key=lambda key: lot(*key)) for keys in left.values()}
    if not more:
        half = {key for key in chosen if lot(*key)[0] % 2}
        for keys in places.values():
            mine = chosen.intersection(keys)
            if mine and not mine & half:
                half.add(min(mine, key=lambda key: lot(*key)))
        chosen = half
    return {key: kernel for key, kernel in kernels.items() if key in chosen}


def check_kernel(job):
    """None, or a sentence; runs in a process of its own, NVRTC being slow under threads."""
    global _library
    path, name, source, headers, options, schedule = job
    if _library is None:
        _library = nvrtc.Nvrtc(path)
    error, log, ptx, cubin = _library.compile(source, name + ".cu", headers, options)
    if error:
        return f"{name}: {error}: {log[:1500]}"
    if log:
        return f"{name}: NVRTC says: {log[:1500]}"
    if re.search(r"\.local\b", ptx):
        return f"{name}: its PTX uses .local"
    if not cubin:
        return f"{name}: no cubin"
    if "kProgrammatic = true" in source:
        for sentence in protocol.violations(ptx, protocol.declares_counters(source)):
            return f"{name}: {sentence}"
    elif "griddepcontrol" in ptx:
        return f"{name}: it is launched as usual and has griddepcontrol"
    # On sm_90a, for whose opcodes the numbers stand.
    wrong = check_instructions(cubin, schedule, source) if "-arch=sm_90a" in options else None
    return f"{name}: {wrong}" if wrong else None


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--filter", default="", help="only kernels with this in arch-scheme-backend-engine")
    arguments.add_argument("--all", action="store_true", help="every activation, method and bias on every arch")
    arguments.add_argument("--more", action="store_true", default=testing.runs_all(), help="more archs of each kernel; MOEC_TEST_ALL=1 says so, too")
    arguments.add_argument("--every-arch", action="store_true", help="each kernel for every arch that has it")
    arguments.add_argument("--seed", default="", help="of the draw of archs; default: a digest of all texts")
    options = arguments.parse_args()
    path = nvrtc.find()
    if not path:
        print("SKIPPED: no NVRTC found (MOEC_NVRTC_PATH, /usr/local/cuda)")
        sys.exit(77)
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    done = work / "passed"
    done.mkdir(parents=True, exist_ok=True)
    started = time.time()
    rows = tools.rows()
    version = nvrtc.Nvrtc(path).version()

    archs = [arch["name"] for arch in rows["archs"]]
    for what, names, known in (("REPRESENTATIVES", REPRESENTATIVES, archs), ("LEADERS", LEADERS, [row["name"] for row in rows["schemes"]])):
        unknown = [name for name in names if name not in known]
        if unknown:
            sys.exit(f"{what}: expected names of the catalog, got {', '.join(unknown)}")
    combinations = [item for item in choose(rows, options.all) if
                    options.filter in f"{item[0]}-{item[1]['name']}-{item[2]}-{item[3]}"]
    # Some parts of layers: their kernels are those of layers, less what nobody reads.
    of_parts = [(arch, case) for arch in (REPRESENTATIVES[0], *PREFERRED) for case in itertools.islice(parts.cases(rows), 0, None, PART_STEP)
                if options.filter in f"{arch}-{case['scheme']['name']}-{case['backend']}-{case['engine']}" and
                not testing.may_multiply_codes(case["scheme"])]
    made = testing.parallel(lambda item: make_sources(tools, work, rows, *item), combinations, options.jobs)
    made += testing.parallel(lambda item: make_part_sources(tools, work, *item), of_parts, options.jobs)
    print(f"{sum(len(item[4]) for item in combinations) + len(of_parts)} packages in {time.time() - started:.0f} s", flush=True)
    failures = [failure for _, failure in made if failure]
    # One kernel is often the same in several packages: compile it once.
    kernels, places = {}, {}
    for sources, _ in made:
        for name, arch, source, headers, flags, schedule, place in sources:
            text = key_of("", source, headers, [flag for flag in flags if not flag.startswith("-arch=")])
            kernels.setdefault((text, arch), (path, name, source, headers, flags, schedule))
            places.setdefault(place, []).append((text, arch))
    total = len(kernels)
    if not (options.all or options.every_arch):
        seed = options.seed or hashlib.sha256("".join(sorted(text for text, _ in kernels)).encode()).hexdigest()[:8]
        kernels = draw(kernels, places, seed, options.more)
        counts = collections.Counter(arch for _, arch in kernels)
        print(f"drawn with --seed={seed}: " + ", ".join(f"{arch} {counts[arch]}" for arch in archs if counts[arch]), flush=True)
    keyed = [(key_of(version, job[2], job[3], job[4]), job) for job in kernels.values()]
    pending = [(key, job) for key, job in keyed if not (done / key).exists()]
    print(f"{len(combinations)} rows x archs, {sum(bool(s) for s, _ in made)} legal, {total} different kernels of archs, "
          f"{len({text for text, _ in kernels})} different texts, {len(kernels)} to compile, {len(keyed) - len(pending)} of them "
          f"known to pass; NVRTC {version} at {path}", flush=True)
    with concurrent.futures.ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for (key, _), failure in zip(pending, pool.map(check_kernel, [job for _, job in pending], chunksize=4)):
            if failure:
                failures.append(failure)
            else:
                (done / key).touch()
    testing.finish("compiling every legal row for every arch", max(len(kernels), len(failures)), failures, started,
                   time.time())


if __name__ == "__main__":
    main()
