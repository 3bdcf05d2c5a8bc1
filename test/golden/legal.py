#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares test/golden/legal.txt with what the compiler accepts today.

One line for each scheme and arch; for each backend/engine what the compiler does: `native`, `dequantized`, `emulated`,
or the code of its refusal. A set that shrinks is then a difference to review. --update writes the file anew, and
docs/reference/support-matrix.md, which is made of it.
"""

import difflib
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance"))
import moec_testing as testing  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent / "legal.txt"
PAGE = GOLDEN.parents[2] / "docs" / "reference" / "support-matrix.md"
HEADER = """\
# What the compiler does with each scheme on each arch, by backend/engine: native, dequantized, emulated, or the code of
# the refusal. Checked by legal.py, and written by it: `test/golden/legal.py --bin=build/bin --work=/tmp/legal --update`.
"""
SHAPE = {"num_experts": 16, "experts_per_token": 4, "hidden_dim": 512, "intermediate_size": 384}


SERVED = ("native", "dequantized", "emulated")
PAGE_HEADER = """\
# Support matrix

A cell names the engine that moec chooses for a scheme on an arch, if the user forces none, and the realization. `test/golden/legal.py`
writes this page from `test/golden/legal.txt`, which lists every backend and engine.

| realization | meaning |
|---|---|
| native | an instruction of the arch multiplies the operands as stored, or as numbers that are exactly equal |
| dequantized | the kernel converts weights, or both operands, to 16 bits, and multiplies 16-bit numbers |
| emulated | the kernel quantizes activations, converts the codes to 16 bits at once, and multiplies 16-bit numbers |

`simt` multiplies with one scalar instruction for each element, or for four integers. [The catalog](../generated/catalog.md)
lists the descriptors of each scheme. [Quantization](quantization.md#quant_config) lists scales and layouts.

"""


def schemes_page(text):
    """docs/reference/support-matrix.md of the text of legal.txt: archs with the same answers share a column."""
    table, archs = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        scheme, arch, *cells = line.split()
        answers = dict(cell.split("=") for cell in cells)
        engine = next((way for way, word in answers.items() if way.startswith("grouped/") and word in SERVED), None)
        table.setdefault(scheme, {})[arch] = f"{engine.split('/')[1]}, {answers[engine]}" if engine else "refused"
        archs += [arch] if arch not in archs else []
    columns = {}
    for arch in archs:
        columns.setdefault(tuple(row[arch] for row in table.values()), []).append(arch.removeprefix("sm_"))
    page = PAGE_HEADER + "| scheme | " + " | ".join("sm_" + ", ".join(names) for names in columns.values()) + " |\n"
    page += "|---" * (len(columns) + 1) + "|\n"
    for i, scheme in enumerate(table):
        page += f"| `{scheme}` | " + " | ".join(answers[i] for answers in columns) + " |\n"
    return page


def outcome(tools, layer, arch, backend, engine):
    """A word for the table, or a sentence that begins with '?' where the compiler did something unexpected."""
    status, output, errors = testing.run([tools.moec, "explain", layer, f"--arch={arch}", f"--backend={backend}",
                                          f"--engine={engine}", "--json"])
    if status == 0:
        found = re.search(r'"realization"\s*:\s*"(\w+)"', output)
        return found.group(1) if found else "native"
    codes = re.findall(r"\[([a-z_]+)\]:", errors) or re.findall(r'"code"\s*:\s*"(\w+)"', output + errors)
    if status == 1 and codes:
        return codes[0]
    return f"? exit {status}: {errors.strip()[:300]}"


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--update", action="store_true", help="write legal.txt")
    options = arguments.parse_args()
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    started = time.time()
    rows = tools.rows()
    jobs = []
    for scheme in rows["schemes"]:
        layers = {}
        for form in {row["format"] for row in rows["backends"]}:
            layers[form] = work / f"{scheme['name']}-{form}.json"
            layers[form].write_text(json.dumps({**testing.layer_json(scheme["name"], SHAPE, scheme, rows["activations"][0],
                                                                     rows["routing"][0], False), "activation_format": form}))
        for arch in rows["archs"]:
            for backend in rows["backends"]:
                for engine in rows["engines"]:
                    jobs.append((scheme["name"], arch["name"], layers[backend["format"]], backend["name"], engine["name"]))
    words = testing.parallel(lambda job: outcome(tools, job[2], job[1], job[3], job[4]), jobs, options.jobs)
    lines, unexpected = {}, []
    for (scheme, arch, _, backend, engine), word in zip(jobs, words):
        lines.setdefault((scheme, arch), []).append(f"{backend}/{engine}={word}")
        if word.startswith("?"):
            unexpected.append(f"{scheme} {arch} {backend}/{engine}: {word}")
    text = HEADER + "".join(f"{scheme:<8} {arch:<8} {'  '.join(cells)}\n" for (scheme, arch), cells in lines.items())
    if unexpected:
        testing.finish("legal rows", len(jobs), unexpected, started, time.time())
    if options.update:
        GOLDEN.write_text(text)
        PAGE.write_text(schemes_page(text))
        print(f"wrote {GOLDEN} and {PAGE}")
        return
    expected = GOLDEN.read_text() if GOLDEN.exists() else ""
    difference = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), str(GOLDEN), "the compiler", lineterm=""))
    if difference:
        print("\n".join(difference))
        print("\nIf every change above is meant, write the file anew: "
              f"{pathlib.Path(__file__).name} --bin={options.bin} --work={options.work} --update")
    wrong = ["legal.txt differs"] if difference else []
    if not PAGE.exists() or PAGE.read_text() != schemes_page(expected):
        wrong.append(f"{PAGE.name} is not what {GOLDEN.name} says; --update writes both")
    testing.finish("legal rows", len(lines), wrong, started, time.time())


if __name__ == "__main__":
    main()
