# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many layers in few processes.

A worker (this file as a program) compiles a batch of drawn layers in one process through libmoec.so; one moec-check runs all of
their lines. Where a process ends before its work does, what it was at is blamed, and a new one goes on behind it.
"""

import argparse
import json
import pathlib
import random
import sys

from language import MOST_WORK, SLICED, Drawn, Language, settle  # finds moec_testing, too
from moec_testing import Library, run

# Seconds for a batch's compilations: far more than they take.
COMPILE_LIMIT = 600


class Workshop:
    """The tools and the folder of a batch."""

    def __init__(self, tools, work, arch="sm_90a", most_work=MOST_WORK, sliced=SLICED, cubins=False, emulated=False):
        self.library, self.work, self.rows = tools.library, pathlib.Path(work), pathlib.Path(work) / "rows.json"
        self.arch, self.most_work, self.sliced, self.cubins, self.emulated = arch, most_work, sliced, cubins, emulated
        self.work.mkdir(parents=True, exist_ok=True)
        self.rows.write_text(json.dumps(tools.rows()))

    def package(self, seed, index):
        return self.work / f"{seed}-{index}"


def fields_of(drawn):
    return {"layer": drawn.layer, "options": drawn.options, "max_tokens": drawn.max_tokens, "runs": drawn.runs}


def drawn_of(fields):
    return Drawn(fields["layer"], fields["options"], fields["max_tokens"], fields["runs"])


def compile_batch(shop, seed, indices):
    """Draws, settles and compiles the layers of these numbers into the shop's packages: {index: (word, sentence, Drawn)}, the word
    being `taken`, `refused` or `failed`."""
    results, left = {}, list(indices)
    while left:
        command = [sys.executable, __file__, "--library", shop.library, "--rows", shop.rows, "--work", shop.work, "--arch", shop.arch,
                   "--most-work", shop.most_work, "--sliced", shop.sliced, "--seed", seed, "--indices", ",".join(map(str, left)),
                   *(["--cubins"] if shop.cubins else [])]
        status, output, errors = run(command, COMPILE_LIMIT)
        trying = {}
        for line in output.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                break  # the process ended within it
            if "word" in said:
                results[said["index"]] = (said["word"], said["sentence"], drawn_of(said) if said["layer"] else None)
            else:
                trying = said
        left = [index for index in left if index not in results]
        if left:
            # All but the first have not been tried.
            culprit = left.pop(0)
            if trying.get("index") != culprit:
                raise RuntimeError(f"the worker ended with {status} before layer {culprit} of seed {seed}: {errors[-400:]}")
            results[culprit] = ("failed", f"moec exited with {status}: {errors.strip()[-400:]}", drawn_of(trying))
    return results


def work(options):
    """A worker's: one line of JSON before each compilation, and one for each layer."""
    library = Library(options.library)
    language = Language(json.loads(pathlib.Path(options.rows).read_text()), sliced=options.sliced)

    def tell(**fields):
        print(json.dumps(fields), flush=True)

    for index in map(int, options.indices.split(",")):
        folder = pathlib.Path(options.work) / f"{options.seed}-{index}"

        def attempt(drawn, index=index, folder=folder):
            tell(index=index, **fields_of(drawn))
            return library.compile(drawn.layer, drawn.options, drawn.max_tokens, folder, options.arch, options.cubins)

        drawn, said = settle(attempt, language.draw(options.seed, index, options.most_work),
                                           random.Random(f"settle {options.seed}-{index}"))
        word = "refused" if not drawn else "failed" if said else "taken"
        tell(index=index, word=word, sentence=said, **(fields_of(drawn) if drawn else {"layer": None}))


def main():
    arguments = argparse.ArgumentParser(description="Compiles layers of random_layers.py in one process.")
    for name in ("library", "rows", "work", "arch", "seed", "indices"):
        arguments.add_argument(f"--{name}", required=True)
    arguments.add_argument("--most-work", type=float, required=True)
    arguments.add_argument("--sliced", type=float, required=True)
    arguments.add_argument("--cubins", action="store_true")
    work(arguments.parse_args())


if __name__ == "__main__":
    main()
