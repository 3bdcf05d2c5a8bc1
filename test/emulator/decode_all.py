#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Decodes the PTX of kernels on the emulator: of every catalog row and model of examples/models, for ARCHS.

  decode_all.py --bin=build/bin --work=build/decoded [--update] [--step=N]

A kernel fails where the emulator does not take its PTX, or where it has an instruction that test/golden/instructions.txt lacks. That
file has an example of each form of an instruction, which a unit test decodes. --update writes it. --step=N: every Nth text alone.
compile_all.py decodes each text that test/golden/kernels.txt lacks, so that this program runs in ./bootstrap test-all alone.
"""

import concurrent.futures
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in ("conformance", "golden")]
import compile_all  # noqa: E402
import decoding  # noqa: E402
import kernel_list  # noqa: E402
import moec_testing as testing  # noqa: E402
import nvrtc  # noqa: E402

ARCHS = ["sm_80", "sm_90a", "sm_100f", "sm_120f"]
MODELS = HERE.parent.parent / "examples" / "models"

_library = _decoder = None


def jobs_of_models():
    """[(arch, (name, layer, words))] of each model and arch."""
    for path in sorted(MODELS.glob("*.json")):
        for arch in ARCHS:
            yield arch, (f"{arch}-{path.stem}", json.loads(path.read_text()), [f"--arch={arch}"])


def jobs_of_rows(rows):
    """The same of the rows of the catalog, as compile_all.py has them."""
    here = {**rows, "archs": [row for row in rows["archs"] if row["name"] in ARCHS]}
    for turn, arch in enumerate(here["archs"]):
        for scheme in here["schemes"]:
            for index, (backend, engine) in enumerate(testing.ways_on(here, scheme, arch)):
                activations, methods = here["activations"], here["routing"]
                activation = activations[(turn + index) % len(activations)]
                activation = activation if testing.takes(here, engine, activation) else activations[0]
                method = methods[(turn + index) % len(methods)]
                if testing.is_of_few_tokens(here, engine) and "weight_on_input" in method["needs"]:
                    method = methods[0]
                for name, _, layer, words in compile_all.layers_of_row(here, arch["name"], scheme, backend, engine,
                                                                       [(activation, method, False)]):
                    yield arch["name"], (f"{arch['name']}-{name}", layer, words)


def decode(job):
    """(None or a sentence, the forms of instructions) of a text; runs in a process of its own."""
    global _library, _decoder
    path, emulator, name, source, headers, options = job
    if _library is None:
        _library, _decoder = nvrtc.Nvrtc(path), decoding.Decoder(emulator)
    virtual = [option.replace("=sm_", "=compute_") for option in options if "ptxas" not in option]
    error, log, ptx, _ = _library.compile(source, name + ".cu", headers, virtual)
    if error:
        return f"{name}: {error}: {log[:500]}", {}
    fault = _decoder.fault(ptx)
    return (f"{name}: {fault}" if fault else None), decoding.forms(ptx)


def main():
    parser = testing.parser(__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--in-test-all", action="store_true", help="do nothing but in ./bootstrap test-all")
    options = parser.parse_args()
    if options.in_test_all and not testing.runs_all():
        print("./bootstrap test-all runs this", file=sys.stderr)
        return 77
    path = nvrtc.find()
    if path is None:
        print("no NVRTC on this machine; set MOEC_NVRTC_PATH", file=sys.stderr)
        return 77
    started, tools = time.time(), testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    listed = kernel_list.KernelList("decoded", "1", nvrtc.Nvrtc(path).release())
    jobs = [*jobs_of_rows(tools.rows()), *jobs_of_models()]
    chunks = testing.in_chunks([job for _, job in jobs], compile_all.CHUNK)
    scratch = testing.Scratch(work / "packages")
    made = [one for chunk in testing.parallel(lambda chunk: compile_all.make_packages(tools, scratch.folder, chunk), chunks, options.jobs)
            for one in chunk]
    texts = {}
    for (arch, (name, _, _)), kernels in zip(jobs, made):
        for kernel, source, headers, flags, _, _ in kernels if isinstance(kernels, list) else ():
            digest = listed.digest(source, headers, flags)
            texts.setdefault((digest, arch), (path, decoding.library_of(options.bin), f"{name}/{kernel}", source, headers, flags))
    chosen = list(texts.values())[::options.step]
    failures, forms = [one for one in made if isinstance(one, str)], {}
    print(f"{len(jobs)} packages in {time.time() - started:.0f} s; {len(chosen)} of {len(texts)} texts of archs to decode", flush=True)
    with concurrent.futures.ProcessPoolExecutor(max_workers=options.jobs) as pool:
        for failure, found in pool.map(decode, chosen, chunksize=4):
            if failure:
                failures.append(failure)
                print(f"FAILED {failure}", flush=True)
            forms = {**found, **forms}
    known = decoding.read_list()
    if options.update:
        decoding.write_list({**forms, **known})
        print(f"{len(set(forms) - set(known))} forms are new")
    else:
        failures += [f"{decoding.LIST.name} lacks {forms[form]}" for form in sorted(set(forms) - set(known))]
    testing.finish("decoding the PTX of rows and models", len(chosen), failures, started, time.time())
    return 0


if __name__ == "__main__":
    sys.exit(main())
