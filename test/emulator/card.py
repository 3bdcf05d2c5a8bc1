#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`moec doctor --gpu` on the host device and on an emulated GPU.

The host device puts out the bits of each line of python/moec/card/outputs.txt, which agree with those that a GPU put out (exact.txt). The
emulated GPU passes the checks of SCHEME, with MOEC_TEST_ALL=1 of every scheme. An output with other bits is a failure, and what does not run by the limit is told.

--write prints the lines of outputs.txt: of each scheme whose outputs are the same on the host device and on emulated GPUs of ARCHS.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "conformance"), str(ROOT / "python")]
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402
from moec.card.layers import EXACT_TOKENS  # noqa: E402
from moec.card.outputs import FILE  # noqa: E402

ARCH = "sm_120f"
ARCHS = ("sm_120f", "sm_90a")
SCHEME = "mxfp4_mxfp8"
LIMIT = 3000
MOST_BYTES = 100_000


def check(options, name, words, package=ROOT / "python"):
    """(exit status, the result's file, output, errors) of the command. package: the folder with the Python package."""
    result = Path(options.work) / f"{name}.json"
    result.unlink(missing_ok=True)
    moec = Path(options.bin).resolve() / "moec"
    status, output, errors = testing.run(
        [moec, "doctor", "--gpu", *words, "-o", result], LIMIT, MOEC_PYTHON=sys.executable, PYTHONPATH=str(package),
        MOEC_LIBRARY=str(moec.parent.parent / "lib" / "libmoec.so"), MOEC_NVRTC_PATH=nvrtc.find() or "", MOEC_JOBS=str(options.jobs),
        MOEC_WORKER="off", PYTHONDONTWRITEBYTECODE="1")
    made = json.loads(result.read_text()) if result.exists() else {"checks": [], "summary": {}}
    return status, made, output, errors


def lines_of(text):
    return {tuple(line.split()[:2]): line.split()[2] for line in text.splitlines() if line and not line.startswith("#")}


def digests_of(made):
    return {(each["name"], tokens): digest for each in made["checks"] if each["kind"] == "exact"
            for tokens, digest in each.get("sha256", {}).items()}


def doctored(options, change):
    """A copy of the Python package whose outputs.txt is another one."""
    folder = Path(options.work) / "package"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "python" / "moec", folder / "moec", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "moec" / "card" / FILE.name
    path.write_text(change(path.read_text()))
    return folder


def write(options):
    """Prints lines: those that all devices agree on."""
    rows = testing.Tools(options.bin).rows()["schemes"]
    every = "".join(f"{row['name']} {tokens} -\n" for row in rows for tokens in EXACT_TOKENS)
    folder = doctored(options, lambda text: every)
    layers = folder / "moec" / "card" / "layers.py"  # comparisons with the reference say nothing here
    layers.write_text(layers.read_text().replace("TOKENS = (1, 7, 33, 300)", "TOKENS = (1,)"))
    runs = [check(options, "host", ["--device=host", "--limit=3000"], folder)]
    runs += [check(options, arch, ["--device=emulated", f"--arch={arch}", f"--limit={LIMIT}"], folder) for arch in options.archs.split(",")]
    first, *others = [digests_of(made) for _, made, _, _ in runs]
    for (scheme, tokens), digest in first.items():
        seen = [each.get((scheme, tokens)) for each in others]
        print(f"{scheme:24} {tokens:>4} {digest}" if all(one == digest for one in seen) else f"# {scheme} {tokens}: {digest} {seen}")


def failures_of(options):
    known = lines_of(FILE.read_text())
    of_gpus = {}
    for line in (HERE / "exact.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            package, tokens, digest = line.split()[:3]
            of_gpus.setdefault((package.rpartition("-")[0], tokens), set()).add(digest)
    common = [key for key in known if key in of_gpus]
    for key in common:
        if of_gpus[key] != {known[key]}:
            yield f"{key}: {FILE.name} has {known[key]}, exact.txt {of_gpus[key]}"
    if len(common) < 15:
        yield f"only {len(common)} lines of {FILE.name} are in exact.txt"

    status, made, output, errors = check(options, "host", ["--device=host"])
    if status or digests_of(made) != known:
        yield f"host device: exit status {status}: {output[-600:]} {errors[-300:]}"
    text = (Path(options.work) / "host.json").read_text() if not status else ""
    for word in (os.uname().nodename, str(ROOT), os.environ.get("USER", ""), str(Path.home())):
        if len(word) > 4 and word in text:
            yield f"the result says {word}"
    if len(text) > MOST_BYTES:
        yield f"the result has {len(text)} bytes"

    words = ["--limit=3000"] if testing.runs_all() else [f"--only={SCHEME}"]
    status, made, output, errors = check(options, "emulated", ["--device=emulated", f"--arch={ARCH}", *words])
    states = {(each["kind"], each["name"]): (each["status"], each.get("engine"), each.get("realization")) for each in made["checks"]}
    of_scheme = {states.get((kind, SCHEME)) for kind in ("conformance", "exact")}
    if status or of_scheme != {("passed", "mma_sync_scaled", "native")} or not digests_of(made).items() <= known.items():
        yield f"emulated GPU: exit status {status}, {states}: {output[-600:]} {errors[-300:]}"

    digest = known["bf16", "33"]
    folder = doctored(options, lambda text: text.replace(digest, digest[::-1]))
    status, made, output, _ = check(options, "doctored", ["--device=host", "--only=bf16"], folder)
    if status != 1 or made["summary"].get("failed") != 1 or f"33 tokens: expected {digest[::-1]}" not in output:
        yield f"an output with other bits: exit status {status}: {output}"
    status, made, output, _ = check(options, "short", ["--device=host", "--limit=0.1"])
    if status != 1 or made["summary"].get("not run", 0) < 20 or "the time limit of 0 s" not in output:
        yield f"a short limit: exit status {status}: {output[-300:]}"


def main():
    parser = testing.parser(__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--archs", default=",".join(ARCHS))
    options = parser.parse_args()
    if nvrtc.find() is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    Path(options.work).mkdir(parents=True, exist_ok=True)
    options.work = str(Path(options.work).resolve())
    if options.write:
        write(options)
        return 0
    started, failures = time.monotonic(), list(failures_of(options))
    for failure in failures:
        print(f"FAILED {failure}")
    print(f"{len(failures)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
