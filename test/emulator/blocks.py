#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers whose sums are exact put out the same bits by tensor cores that take scales of blocks as where activations are emulated, and by
tensor cores that accumulate in tensor memory as by others.

Inputs and weights are those of exact.py: no sum rounds, whatever its order. Each scheme of an engine that multiplies scales of blocks runs
natively, on the emulated GPU with all checkers and on the host device, and once more without that engine. So do SPELLED and DENSE. Each token count
runs another variant. Those of IDS have ids of their own: some name no expert, all name none, or every second expert has no row. Runs with
ids that name no expert are compared with the reference, too. --timing: of the emulator. The
schemes take turns with the two shapes; --all: each scheme has both, in all timings.
"""

import concurrent.futures
import hashlib
import json
import struct
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "conformance"), str(HERE.parent.parent / "python")]
import exact  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
import passed  # noqa: E402
from moec.card import numbers as of_numbers  # noqa: E402
from moec.card.numbers import LARGEST, inputs_of, read_npy, write_npy  # noqa: E402

NUMBERS = of_numbers.__file__

# The arch of each engine.
ARCHS = {"mma_sync_scaled": "sm_120f", "tcgen05": "sm_100f"}
# Schemes without scales of blocks that engine tcgen05 multiplies.
DENSE = ("bf16", "f16", "fp8_tensor", "fp8_channel", "fp8_block", "fp8_block_ue8m0")
TIMINGS = ["at_once", "late", "random"]
# Tiles of 16, 64 and 128 rows; hidden sizes with whole words of scales, and without.
SHAPES = [{**exact.SHAPE, "hidden_size": 256}, {**exact.SHAPE, "hidden_size": 416, "intermediate_size": 96}]
TOKENS = (1, 33, 150)
# Ids by token count.
IDS = {0: "none", 34: "strange", 35: "nobody", 97: "every second expert"}
MAX_TOKENS = max(TOKENS)
LIMIT = 900
MX8 = {"dtype": "f8E4M3FN", "shape": [1, 32], "scale": "f8E8M0FNU", "dynamic": True}
# Pairs of operands that are no scheme of the catalog.
SPELLED = {f"mxfp6_{element[2:6].lower()}_mxfp8": {"a1": MX8, "a2": MX8, **{weight: {"dtype": element, "shape": [1, 32], "scale": "f8E8M0FNU"}
                                                                        for weight in ("w1", "w2")}}
           for element in ("f6E3M2FN", "f6E2M3FN")}


def make(tools, folder, arch, scheme, shape, words):
    """None, or why the compiler made no package."""
    layer = {"moec_layer": 1, "name": "blocks", **shape, "in_dtype": "bf16", "routing_method": "custom", "activation": "relu2",
             "quant_config": SPELLED.get(scheme, scheme)}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "layer.json").write_text(json.dumps(layer))
    status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={arch}", "--no-cubin",
                                     f"--max-tokens={MAX_TOKENS}", *words, "-o", folder / "package"], LIMIT)
    return errors.strip() if status else None


def rewritten(path, dtype, shape, data):
    """A file beside another one, with other numbers."""
    made = path.with_name(f"{path.stem}-of-tokens.npy")
    if not made.exists():
        write_npy(made, dtype, shape, data)
    return made


def exact_seconds(manifest, weights, inputs, tokens):
    """Numbers by which the second scale of a token is a power of two, of x and of the intermediate: 448 * 6 / 21 is one, and 21 times one
    is the largest number of each row. That of the intermediate comes of its first column, whose gate is one of 1.5 + 0.5."""
    hidden, rows = manifest["layer"]["hidden_size"], next(v["shape"] for v in manifest["values"] if v["name"] == "w13")[1]
    x, largest, one, half = bytearray(read_npy(inputs["x"])), struct.pack("<f", 21.0)[2:], LARGEST + 64, LARGEST + 65
    for at in range(0, len(x), 2):
        column = at // 2 % hidden
        for place, number in ((column % 128 == LARGEST, largest), (column == one, struct.pack("<f", 1.5)[2:]), (column == half, struct.pack("<f", 0.5)[2:])):
            if place:
                x[at:at + 2] = number
    inputs["x"] = rewritten(inputs["x"], "<u2", (tokens, hidden), bytes(x))
    w13, row_bytes, four = bytearray(read_npy(weights["w13"])), hidden // 2, 0x6
    for expert in range(len(w13) // row_bytes // rows):
        for row, columns in ((0, (one, half)), (rows // 2, (LARGEST,))):
            begin = (expert * rows + row) * row_bytes
            w13[begin:begin + row_bytes] = bytes(row_bytes)
            for column in columns:
                w13[begin + column // 2] |= four << column % 2 * 4
    weights["w13"] = rewritten(weights["w13"], "|u1", (len(w13) // row_bytes // rows, rows, row_bytes), bytes(w13))


def given_ids(path, kind, topk, experts):
    """A copy of a file of ids. strange: of three tokens in four some ids name no expert, of one all. nobody: all ids of all tokens do so."""
    ids = list(struct.unpack(f"<{len(read_npy(path)) // 4}i", read_npy(path)))
    nobody = (-1, experts, -(1 << 31), (1 << 31) - 1, experts + 1)
    for at in range(len(ids)):
        token, pair = divmod(at, topk)
        if kind == "every second expert":
            ids[at] = (pair + token) % topk * 2
        elif kind == "nobody" or token % 4 == 3 or (token % 4 and pair == token % topk):
            ids[at] = nobody[at % len(nobody)]
    changed = path.with_name(f"{path.stem}-{kind.replace(' ', '-')}.npy")
    if not changed.exists():
        write_npy(changed, "<i4", (len(ids) // topk, topk), struct.pack(f"<{len(ids)}i", *ids))
    return changed


def is_sound(rows, tokens, hidden):
    """Whether the bytes of an output have the size, and zeros or numbers, that the ids of its tokens stand for."""
    if len(rows) != tokens * hidden * 2:
        return False
    return not any(rows) if IDS.get(tokens) in ("none", "nobody") else len(set(rows)) >= 8


def output_of(tools, folder, package, arch, numbers, tokens, device, environment):
    """The SHA-256 of the output of a package for numbers of that name; or what went wrong."""
    manifest = json.loads((package / "manifest.json").read_text())
    out = package.parent / f"out-{device}-{tokens}.npy"
    weights, inputs = inputs_of(manifest, numbers, tokens, folder)
    words = []
    if "per_token" in numbers:
        exact_seconds(manifest, weights, inputs, tokens)
    if tokens in IDS:
        inputs["given_ids"] = given_ids(inputs["given_ids"], IDS[tokens], manifest["layer"]["top_k"], manifest["layer"]["num_experts"])
        words = ["--check"] if IDS[tokens] in ("strange", "nobody") else []
    given = [f"--input={name}={path}" for name, path in (weights | inputs).items()]
    status, _, errors = testing.run([tools.moec_run, package, f"--device={device}", f"--tokens={tokens}", f"--output=out={out}", *words, *given]
                                    + ([f"--arch={arch}"] if device == "emulated" else []), LIMIT, **environment)
    if status or "emulator:" in errors:
        return f"moec-run exited with {status}: {errors.strip()[-600:]}"
    rows = read_npy(out)
    sound = is_sound(rows, tokens, manifest["layer"]["hidden_size"])
    return hashlib.sha256(rows).hexdigest() if sound else f"an output of {len(rows)} bytes, {len(set(rows))} of them different"


def faults_of(tools, work, real, cases, scheme, engine, number, timings):
    """Sentences about what is wrong with a scheme by an engine in one of SHAPES."""
    name, arch = f"{scheme}-{engine}-{number}", ARCHS[engine]
    folder = work / name
    for kind, words in (("native", [f"--engine={engine}"]), ("other", [f"--exclude={engine}"])):
        fault = make(tools, folder / kind, arch, scheme, SHAPES[number], words)
        if fault:
            return [f"{name}, {kind}: {fault}"]
    if not any(engine in source.read_text() for source in (folder / "native" / "package").rglob("*gate_up*.cu")):
        return [f"{name}: engine {engine} does not multiply"]
    faults = []
    common = {"MOEC_CACHE_DIR": str(work / "cache"), "MOEC_WORKER": "off", "MOEC_JOBS": "1", "MOEC_TUNED_STORE": "off", "MOEC_NVRTC_PATH": real}
    for tokens in (*TOKENS, *IDS):
        wanted = output_of(tools, folder, folder / "other" / "package", arch, name, tokens, "host", common)
        settings = [testing.emulator_settings(arch, scheme, timing) for timing in timings]
        case = f"{name}-{tokens}"
        digest = cases.digest(folder / "native" / "package", case, wanted, *settings)
        runs = [("host", common)]
        if not cases.has(case, digest):
            runs += [("emulated", {**common, "MOEC_EMULATOR": each}) for each in settings]
        before = len(faults)
        for device, environment in runs:
            got = output_of(tools, folder, folder / "native" / "package", arch, name, tokens, device, environment)
            if got != wanted or " " in got:
                faults.append(f"{name}, {tokens} tokens, {device} {environment.get('MOEC_EMULATOR', '')}: {got}, expected {wanted}")
        if len(faults) == before:
            cases.add(case, digest)
    return faults


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--timing", choices=TIMINGS, default="random")
    parser.add_argument("--only", default="", help="schemes and engines whose names have the word: nvfp4-tcgen05")
    parser.add_argument("--update", action="store_true", help="write test/golden/emulated-blocks.txt, if all pass")
    options = parser.parse_args()
    real = nvrtc.find()
    if real is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started, tools, work = time.monotonic(), testing.Tools(options.bin), Path(options.work)
    whole = options.all or testing.runs_all()
    timings = TIMINGS if whole else [options.timing]
    schemes = {row["name"]: row["block_engines"] for row in tools.rows()["schemes"]}
    schemes |= dict.fromkeys(SPELLED, ["mma_sync_scaled"])
    for scheme in DENSE:
        schemes[scheme] = [*schemes[scheme], "tcgen05"]
    listed = passed.Cases(nvrtc.Nvrtc(real).release(), __file__, options.update, not (whole or options.only) and options.timing == "random",
                          (HERE / "exact.py", NUMBERS))
    cases = [(scheme, engine, number) for place, (scheme, engines) in enumerate(schemes.items()) for engine in engines
             for number in range(len(SHAPES)) if (whole or place % len(SHAPES) == number) and options.only in f"{scheme}-{engine}"]
    failures = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for case, faults in zip(cases, pool.map(lambda case: faults_of(tools, work, real, listed, *case, timings), cases)):
            print(f"{'-'.join(map(str, case))}: {len(TOKENS) + len(IDS)} token counts by the host device and {', '.join(timings)}: "
                  f"{len(faults)} wrong", flush=True)
            failures += faults
    for failure in failures:
        print(f"FAILED {failure}")
    known = listed.end(failures)
    print(f"{len(cases)} layers, {known}, {len(failures)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
