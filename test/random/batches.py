# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Many layers in few processes.

A worker (this file as a program) compiles a batch of drawn layers in one process through libmoec.so; one moec-check runs all of
their lines. Where a process ends before its work does, what it was at is blamed, and a new one goes on behind it.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import subprocess
import sys

from language import MOST_WORK, SLICED, Drawn, Language, settle

# Seconds for a batch's compilations and for its runs: far more than they take.
COMPILE_LIMIT, RUN_LIMIT = 600, 1200
TIMED_OUT = 124
# moec-check's statuses after a verdict on each line.
STATUSES = (0, 1, 2)


class Workshop:
    """The tools and the folder of a batch."""

    def __init__(self, tools, work, arch="sm_90a", most_work=MOST_WORK, sliced=SLICED, cubins=False):
        self.library, self.work, self.rows = tools.library, pathlib.Path(work), pathlib.Path(work) / "rows.json"
        self.arch, self.most_work, self.sliced, self.cubins = arch, most_work, sliced, cubins
        self.work.mkdir(parents=True, exist_ok=True)
        self.rows.write_text(json.dumps(tools.rows()))

    def package(self, seed, index):
        return self.work / f"{seed}-{index}"


class Library:
    """The compiler in this process."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.moec_last_error.restype = ctypes.c_char_p
        self.library.moec_package_files_write.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        self.library.moec_package_files_destroy.argtypes = [ctypes.c_void_p]

    def compile(self, drawn, folder, arch, cubins):
        """(exit status, what moec said), as of the command."""
        options = {"arch": [arch], "max_tokens": drawn.max_tokens, "cubin": cubins}
        for word in drawn.options:
            name, _, value = word.removeprefix("--").partition("=")
            options[name.replace("-", "_")] = value
        files = ctypes.c_void_p()
        status = self.library.moec_compile_config(json.dumps(drawn.layer).encode(), json.dumps(options).encode(), ctypes.byref(files))
        if not status:
            status = self.library.moec_package_files_write(files, str(folder).encode())
            self.library.moec_package_files_destroy(files)
        return (1, self.library.moec_last_error().decode()) if status else (0, "")


def execute(command, limit, **environment):
    """(exit status, output, errors); what was printed before a limit stays."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    except subprocess.TimeoutExpired as expired:
        return TIMED_OUT, (expired.stdout or b"").decode(errors="replace"), f"no end after {limit} s"
    return done.returncode, done.stdout, done.stderr


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
        status, output, errors = execute(command, COMPILE_LIMIT)
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


def fault_of(report):
    """None, or what is wrong with a line's report; a kind of run that the layer does not have is nothing wrong."""
    if report["status"] == 2 and "expected" in report.get("error", ""):
        return None
    wrong = [run for run in report["runs"] if not run["passed"]]
    if wrong:
        return str(wrong[0].get("text", wrong[0]))
    if report["status"] or not report["runs"]:
        return f"exit {report['status']}: {report.get('error', '')[-300:]}"
    return None


def run_lines(moec_check, lines, file, device="host", at_once=1):
    """For each line, (package, arguments), None or what is wrong with it."""
    faults, done = [None] * len(lines), 0
    while done < len(lines):
        file.write_text("".join(" ".join([str(package), *arguments]) + "\n" for package, arguments in lines[done:]))
        status, output, errors = execute([moec_check, f"--device={device}", "--check", "--json", f"--cases={file}", f"--at-once={at_once}"],
                                         RUN_LIMIT, MOEC_JOBS="1")
        seen = set()
        for text in output.splitlines():
            try:
                report = json.loads(text)
            except ValueError:
                break
            seen.add(report["line"] - 1)
            faults[done + report["line"] - 1] = fault_of(report)
        missing = [i for i in range(len(lines) - done) if i not in seen]
        if not missing:
            break
        # Lines are told in order: the process ended in the first that was not.
        faults[done + missing[0]] = f"moec-check exited with {status}: {errors.strip()[-300:]}"
        done += missing[0] + 1
    return faults


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
            return library.compile(drawn, folder, options.arch, options.cubins)

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
