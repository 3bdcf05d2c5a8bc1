#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares test/golden/legal.txt with what the compiler accepts today.

One line for each scheme and arch; for each backend/engine what the compiler does: `native`, `dequantized`, `emulated`,
or the code of its refusal, of the last realization if there are several. A set that shrinks is then a difference to
review. --update writes the file anew, docs/reference/support-matrix.md, which is made of it, and
docs/reference/realizations.md: what the compiler says of each realization if nothing is forced.
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
ORDER_PAGE = PAGE.with_name("realizations.md")
HEADER = """\
# What the compiler does with each scheme on each arch, by backend/engine: native, dequantized, emulated, or the code of
# the refusal. Checked by legal.py, and written by it: `test/golden/legal.py --bin=build/bin --work=/tmp/legal --update`.
"""
SHAPE = {"num_experts": 16, "top_k": 4, "hidden_size": 512, "intermediate_size": 384}
# Reports that one process makes.
CHUNK = 200

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
[Status](../status.md#engines) says which engines a GPU or the emulator has run on an arch.

"""

ORDER_HEADER = """\
# Realizations

moec judges the realizations of a scheme in the order of a cell, with each engine of backend `grouped`. The engine in bold is chosen.
A code in parentheses refuses the realization, or the engines in front of it. [`moec explain`](explain.md) prints the sentence.
`test/golden/legal.py` writes this page.

| realization | what is multiplied | the caller must allow it |
|---|---|---|
| native | the operands as stored, or exactly equal numbers | no |
| dequantized | 16-bit numbers that the kernel converts from the stored operands | no |
| weight_only | as dequantized, with activations that are not quantized: another layer | `--allow=weight_only` |
| emulated | 16-bit numbers that stand for quantized activations and weights | no |

| code | meaning |
|---|---|
| `feature_missing` | the arch lacks a feature that the realization or the engine needs |
| `engine_missing` | the arch has the instruction, or none exists, and no engine of moec multiplies the operands so |
| `dtype_not_supported`, `quant_not_supported` | the engine does not multiply these types, or not with these scales |
| `not_allowed` | the realization would serve, and is another layer |

The layer of this page has hidden size 512, intermediate size 384 and x in bf16. Other sizes may be refused.
[Quantization](quantization.md#weight_only) describes `weight_only`.

"""


def order_text(report):
    """The realizations of a report in their order, each with its engines."""
    parts = []
    for row in report["targets"][0]["realizations"]:
        if row["backend"] not in ("", "grouped") or row["engine"] == "gemv":
            continue
        engine = f"**{row['engine']}**" if row["state"] == "chosen" else row["engine"]
        code = f"({row['code']})" if "code" in row else ""
        if not parts or parts[-1][0] != row["realization"]:
            parts.append((row["realization"], []))
        parts[-1][1].append((engine, code))
    text = []
    for name, engines in parts:
        words = []
        for i, (engine, code) in enumerate(engines):
            # A code stands behind the last of the engines that have it.
            is_last = i + 1 == len(engines) or engines[i + 1][1] != code
            words.append(" ".join(filter(None, (engine, code if is_last else ""))))
        text.append(f"{name}: {', '.join(words)}")
    return "; ".join(text)


def order_page(orders):
    """docs/reference/realizations.md of {scheme: {arch: text}}: equal answers share a row."""
    alike = {}
    for scheme, row in orders.items():
        alike.setdefault(tuple(row.items()), []).append(scheme)
    page = ORDER_HEADER + "| schemes | archs | realizations |\n|---|---|---|\n"
    for row, schemes in alike.items():
        archs = {}
        for arch, text in row:
            archs.setdefault(text, []).append(arch.removeprefix("sm_"))
        for i, (text, names) in enumerate(archs.items()):
            named = ", ".join(f"`{scheme}`" for scheme in schemes) if i == 0 else ""
            page += f"| {named} | sm_{', '.join(names)} | {text} |\n"
    return page


def schemes_page(text, rows):
    """docs/reference/support-matrix.md of the text of legal.txt: archs with the same answers share a column."""
    priority = {f"grouped/{engine['name']}": engine["priority"] for engine in rows["engines"]}
    table, archs = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        scheme, arch, *cells = line.split()
        answers = dict(cell.split("=") for cell in cells)
        engine = max((way for way, word in answers.items() if way in priority and word in SERVED), key=priority.get, default=None)
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


def word_of(status, said):
    """A word for the table, or a sentence that begins with '?' where the compiler did something unexpected."""
    if status == 0:
        # The choice of the resolver stands behind its candidates; native is not printed.
        report, *rest = re.split(r"\schoices = \[", said, maxsplit=1)
        found = re.search(r"realization = (\w+)", report.rpartition(">],")[2])
        return "?" + said[:300] if not rest else found[1] if found else "native"
    codes = re.findall(r"\[([a-z_]+)\]:", said)
    return codes[-1] if status == 1 and codes else f"? exit {status}: {said[:300]}"


def order_of(status, said):
    return order_text(json.loads(said)) if status == 0 else f"? exit {status}: {said[:300]}"


def said_of(tools, work, read, lines, jobs, verb, *words):
    """read(exit status, text or error) of each line of words that `moec verb` gets; so many processes answer."""
    chunks = list(enumerate(testing.in_chunks(lines, CHUNK)))
    made = testing.parallel(lambda chunk: [read(*one) for one in testing.compile_lines(
        tools.moec, chunk[1], work / f"{read.__name__}-{chunk[0]}.cases", verb, words)], chunks, jobs)
    return [text for chunk in made for text in chunk]


def main():
    arguments = testing.parser(__doc__.splitlines()[0])
    arguments.add_argument("--update", action="store_true", help="write legal.txt")
    options = arguments.parse_args()
    tools = testing.Tools(options.bin)
    work = pathlib.Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    started = time.time()
    rows = tools.rows()
    jobs, order_jobs = [], []
    for scheme in rows["schemes"]:
        layers = {}
        for form in {row["format"] for row in rows["backends"]}:
            layers[form] = work / f"{scheme['name']}-{form}.json"
            layers[form].write_text(json.dumps({**testing.layer_json(scheme["name"], SHAPE, scheme, rows["activations"][0],
                                                                     rows["routing"][0], False), "activation_format": form}))
        for arch in rows["archs"]:
            order_jobs.append((scheme["name"], arch["name"], layers["standard"]))
            for backend in rows["backends"]:
                for engine in rows["engines"]:
                    jobs.append((scheme["name"], arch["name"], layers[backend["format"]], backend["name"], engine["name"]))
    words = said_of(tools, work, word_of, [[layer, f"--arch={arch}", f"--backend={backend}", f"--engine={engine}"]
                                           for _, arch, layer, backend, engine in jobs], options.jobs, "compile", "--emit=scheduled")
    texts = said_of(tools, work, order_of, [[layer, f"--arch={arch}"] for _, arch, layer in order_jobs], options.jobs, "explain", "--json")
    orders, lines, unexpected = {}, {}, []
    for (scheme, arch, _), word in zip(order_jobs, texts):
        orders.setdefault(scheme, {})[arch] = word
        if word.startswith("?"):
            unexpected.append(f"{scheme} {arch}: {word}")
    for (scheme, arch, _, backend, engine), word in zip(jobs, words):
        lines.setdefault((scheme, arch), []).append(f"{backend}/{engine}={word}")
        if word.startswith("?"):
            unexpected.append(f"{scheme} {arch} {backend}/{engine}: {word}")
    text = HEADER + "".join(f"{scheme:<8} {arch:<8} {'  '.join(cells)}\n" for (scheme, arch), cells in lines.items())
    if unexpected:
        testing.finish("legal rows", len(jobs), unexpected, started, time.time())
    if options.update:
        GOLDEN.write_text(text)
        PAGE.write_text(schemes_page(text, rows))
        ORDER_PAGE.write_text(order_page(orders))
        print(f"wrote {GOLDEN}, {PAGE} and {ORDER_PAGE}")
        return
    expected = GOLDEN.read_text() if GOLDEN.exists() else ""
    difference = list(difflib.unified_diff(expected.splitlines(), text.splitlines(), str(GOLDEN), "the compiler", lineterm=""))
    if difference:
        print("\n".join(difference))
        print("\nIf every change above is meant, write the file anew: "
              f"{pathlib.Path(__file__).name} --bin={options.bin} --work={options.work} --update")
    wrong = ["legal.txt differs"] if difference else []
    if not PAGE.exists() or PAGE.read_text() != schemes_page(expected, rows):
        wrong.append(f"{PAGE.name} is not what {GOLDEN.name} says; --update writes both")
    if not ORDER_PAGE.exists() or ORDER_PAGE.read_text() != order_page(orders):
        wrong.append(f"{ORDER_PAGE.name} is not what the compiler says; --update writes it")
    testing.finish("legal rows", len(lines), wrong, started, time.time())


if __name__ == "__main__":
    main()
