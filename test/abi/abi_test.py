#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Holds docs/reference/compatibility.md: a client that was compiled against the recorded header, and the recorded package, run
with the library of this tree. recorded/ has the headers of the first release of each minor version, and a package of each
manifest format that a release has written."""

import argparse
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOKENS, HIDDEN, EXPERTS, INTERMEDIATE, TOP_K = 3, 64, 4, 32, 2
STRUCT = re.compile(r"^typedef struct (\w+) \{(.*?)^\} \1;", re.MULTILINE | re.DOTALL)
ENUM = re.compile(r"^  (MOEC_\w+) = (-?\d+)", re.MULTILINE)
FUNCTION = re.compile(r"^[\w *]*?\b(moec_\w+)\([^;{]*\);", re.MULTILINE)


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def fields_of(header):
    """{struct: its fields in order} of a header."""
    found = {}
    for name, body in STRUCT.findall(without_comments(header)):
        declared = [part.strip() for part in body.split(";") if part.strip()]
        found[name] = [re.findall(r"(\w+)$", word.strip())[0] for part in declared for word in part.split(",")]
    return found


def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def filled(count, seed):
    """The numbers of client.c."""
    return [((i * 37 + seed * 11) % 29 - 14) / 64 for i in range(count)]


def expected():
    """The layer's output in double precision."""
    w13 = filled(EXPERTS * 2 * INTERMEDIATE * HIDDEN, 1)
    w2, x = filled(EXPERTS * HIDDEN * INTERMEDIATE, 2), filled(TOKENS * HIDDEN, 3)
    logits, out = filled(TOKENS * EXPERTS, 4), []
    for token in range(TOKENS):
        row = x[token * HIDDEN : (token + 1) * HIDDEN]
        own = logits[token * EXPERTS : (token + 1) * EXPERTS]
        chosen = sorted(range(EXPERTS), key=lambda expert: (-own[expert], expert))[:TOP_K]
        total = sum(math.exp(own[expert]) for expert in chosen)
        result = [0.0] * HIDDEN
        for expert in chosen:
            first = w13[expert * 2 * INTERMEDIATE * HIDDEN :]
            product = [
                sum(a * b for a, b in zip(first[column * HIDDEN : (column + 1) * HIDDEN], row))
                for column in range(2 * INTERMEDIATE)
            ]
            gate, up = product[:INTERMEDIATE], product[INTERMEDIATE:]
            middle = [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]
            second = w2[expert * HIDDEN * INTERMEDIATE :]
            for n in range(HIDDEN):
                dot = sum(a * b for a, b in zip(second[n * INTERMEDIATE : (n + 1) * INTERMEDIATE], middle))
                result[n] += math.exp(own[expert]) / total * dot
        out += result
    return out


class Compatibility(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="moec-abi-"))
        with tarfile.open(HERE / "recorded" / "package-8.tar.xz") as archive:
            archive.extractall(cls.work)
        cls.package = cls.work / "package"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.work)

    def include(self, name, header):
        folder = self.work / name / "moec"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "moec.h").write_text(header, encoding="utf-8")
        return folder.parent

    def test_a_former_client_runs_a_former_package(self):
        include = self.include("former", (HERE / "recorded" / "moec-0.1.h.txt").read_text(encoding="utf-8"))
        client, lib = self.work / "client", options.build / "lib"
        output_of("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_DEFAULT_SOURCE", f"-I{include}", HERE / "client.c",
                  "-o", client, f"-L{lib}", "-lmoec-runtime", f"-Wl,-rpath,{lib}")
        environment = {**os.environ, "MOEC_STRICT": "1", "MOEC_CACHE_DIR": str(self.work / "cache")}
        got = [float(word) for word in output_of(client, self.package, env=environment).split()]
        wanted = expected()
        self.assertEqual(len(got), len(wanted))
        error = math.dist(got, wanted) / math.hypot(*wanted)
        self.assertGreater(math.hypot(*wanted), 0.01)
        self.assertLess(error, 1e-5)

    def test_a_package_of_another_format_names_both(self):
        other = self.work / "other"
        shutil.copytree(self.package, other)
        manifest = other / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"moec_manifest": 8', '"moec_manifest": 7'))
        done = subprocess.run([options.build / "bin" / "moec-run", other, "--device=host"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected format version 8, got 7; compile the package with the", done.stderr)

    def test_structs_only_grow(self):
        former = (HERE / "recorded" / "moec-0.1.h.txt").read_text(encoding="utf-8")
        newer = (ROOT / "runtime/include/moec/moec.h").read_text(encoding="utf-8")
        fields = {name: names for name, names in fields_of(former).items() if names}
        self.assertIn("moec_load_options", fields)
        lines = [f'  printf("{name}.{field} %zu\\n", offsetof({name}, {field}));' for name, all_ in fields.items() for field in all_]
        program = "#include <moec/moec.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
        (self.work / "offsets.c").write_text(program, encoding="utf-8")
        said = []
        for name, header in (("former", former), ("newer", newer)):
            output_of("cc", f"-I{self.include(name, header)}", self.work / "offsets.c", "-o", self.work / name / "offsets")
            said.append(output_of(self.work / name / "offsets"))
        self.assertEqual(*said)
        for name, names in fields.items():
            grown = fields_of(newer)[name]
            self.assertTrue(grown == names or names[0] == "struct_size", f"{name} has no struct_size and cannot grow")

    def test_numbers_and_functions_stay(self):
        for library, header in (("libmoec-runtime.so", "moec"), ("libmoec.so", "moec"), ("libmoec.so", "compiler")):
            if not (options.build / "lib" / library).exists():
                continue
            former = without_comments((HERE / "recorded" / f"{header}-0.1.h.txt").read_text(encoding="utf-8"))
            newer = without_comments((ROOT / f"runtime/include/moec/{header}.h").read_text(encoding="utf-8"))
            numbers = dict(ENUM.findall(newer))
            for name, number in ENUM.findall(former):
                self.assertEqual(numbers.get(name), number, name)
            exported = output_of("nm", "--dynamic", "--defined-only", options.build / "lib" / library)
            exported = {line.split()[-1].split("@")[0] for line in exported.splitlines()}
            functions = set(FUNCTION.findall(former)) - {"moec_log_function"}
            self.assertGreater(len(functions), 4)
            self.assertEqual(functions - exported, set(), library)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    options.build = options.build.resolve()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
