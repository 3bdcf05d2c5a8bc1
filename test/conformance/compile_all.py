#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles the kernels of every legal catalog row for every arch with NVRTC; needs no GPU.

A kernel fails when it does not compile, when it spills registers, when its PTX holds `.local`, or when NVRTC or ptxas
say anything at all. Legal is what the compiler does not refuse; test/golden/legal.txt holds the list. A kernel that
passed is remembered by a hash of everything that went in, so that a second run compiles what changed.
"""

import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import sys
import time

import moec_testing as testing
import nvrtc

SHAPE = {"num_experts": 16, "experts_per_token": 4, "hidden_dim": 512, "intermediate_size": 384}
STRICT = ["-Xptxas=-warn-spills", "-Xptxas=-warn-lmem-usage", "-Xptxas=-Werror"]

_library = None


def layers(rows, scheme):
    """Every activation and every routing method occurs; not each with each: they are in different kernels."""
    count = max(len(rows["activations"]), len(rows["routing"]))
    for i in range(count):
        yield rows["activations"][i % len(rows["activations"])], rows["routing"][i % len(rows["routing"])], i % 2 == 1


def make_sources(tools, work, arch, scheme, backend, engine, rows, full):
    """Kernels [(name, source, headers, options)] of one row and arch; an empty list where the row is refused."""
    result = []
    for index, (activation, routing, bias) in enumerate(layers(rows, scheme)):
        # All archs compile one layer; the reference arch of each feature set compiles all of them.
        if index and not full:
            break
        name = f"{arch}-{scheme['name']}-{backend}-{engine}-{index}"
        folder = work / "packages" / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "layer.json").write_text(json.dumps(
            testing.layer_json("all", SHAPE, scheme, activation, routing, bias)))
        status, _, errors = testing.run([tools.moec, "compile", folder / "layer.json", f"--arch={arch}",
                                         f"--backend={backend}", f"--engine={engine}", "--no-cubin", "-o",
                                         folder / "package"])
        if status == 1:
            return [], None  # refused: test/golden/legal.txt is where that is judged
        if status:
            return [], f"{name}: moec exited with {status}: {errors.strip()}"
        package = folder / "package"
        manifest = json.loads((package / "manifest.json").read_text())
        for target in manifest["targets"]:
            for kernel in target["kernels"]:
                headers = {header: (package / "include" / header).read_text() for header in kernel["headers"]}
                source = (package / kernel["source"]).read_text()
                result.append((f"{name}/{kernel['name']}", source, headers, kernel["options"] + STRICT))
        shutil.rmtree(folder)
    return result, None


def key_of(version, source, headers, options):
    digest = hashlib.sha256()
    for part in [version, source, *options, *[text for pair in sorted(headers.items()) for text in pair]]:
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def check_kernel(job):
    """None, or a sentence; runs in a process of its own, NVRTC being slow under threads."""
    global _library
    path, name, source, headers, options = job
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
    return None


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--filter", default="", help="only kernels with this in arch-scheme-backend-engine")
    arguments.add_argument("--all", action="store_true", help="every layer for every arch, not one a feature set")
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

    used = {feature for engine in rows["engines"] for feature in engine["features"]} | {"programmatic_launch"}
    combinations, seen = [], set()
    for arch in rows["archs"]:
        # Archs that engines and launches see as equal make equal kernels but for the arch itself.
        features = tuple(feature for feature in arch["features"] if feature in used)
        full = options.all or features not in seen
        seen.add(features)
        for scheme in rows["schemes"]:
            for backend, engine in testing.ways(rows, scheme):
                if options.filter in f"{arch['name']}-{scheme['name']}-{backend}-{engine}":
                    combinations.append((arch["name"], scheme, backend, engine, full))
    made = testing.parallel(lambda c: make_sources(tools, work, c[0], c[1], c[2], c[3], rows, c[4]), combinations,
                            options.jobs)
    failures = [failure for _, failure in made if failure]
    # One kernel is often the same in several packages: compile it once.
    kernels = {}
    for sources, _ in made:
        for name, source, headers, flags in sources:
            kernels.setdefault(key_of(version, source, headers, flags), (path, name, source, headers, flags))
    todo = [(key, job) for key, job in kernels.items() if not (done / key).exists()]
    print(f"{len(combinations)} rows x archs, {sum(bool(s) for s, _ in made)} legal, {len(kernels)} different kernels, "
          f"{len(kernels) - len(todo)} known to pass; NVRTC {version} at {path}", flush=True)
    with concurrent.futures.ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for (key, _), failure in zip(todo, pool.map(check_kernel, [job for _, job in todo], chunksize=4)):
            if failure:
                failures.append(failure)
            else:
                (done / key).touch()
    testing.finish("compiling every legal row for every arch", max(len(kernels), len(failures)), failures, started,
                   time.time())


if __name__ == "__main__":
    main()
