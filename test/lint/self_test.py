#!/usr/bin/env python3
# ===- self_test.py - each lint, seen red -----------------------------------===#
#
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===------------------------------------------------------------------------===#
#
# Gives every lint a small tree with a fault and sees it name the fault, then
# the same tree without it and sees it content.
#
# ===------------------------------------------------------------------------===#

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def run_lint(lint, tree, *arguments):
    """Writes tree {path: text} into a folder and runs the lint there: (exit status, output)."""
    with tempfile.TemporaryDirectory(prefix="moec-lint-") as folder:
        for path, text in tree.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("@ROOT@", folder))
        arguments = [a.replace("@ROOT@", folder) for a in arguments]
        run = subprocess.run(
            [sys.executable, str(HERE / lint), f"--root={folder}", *arguments], capture_output=True, text=True
        )
        return run.returncode, run.stdout + run.stderr


class LintTest(unittest.TestCase):
    def red(self, lint, tree, expected, *arguments):
        status, output = run_lint(lint, tree, *arguments)
        self.assertIn(expected, output)
        self.assertEqual(status, 1, output)

    def green(self, lint, tree, *arguments):
        status, output = run_lint(lint, tree, *arguments)
        self.assertEqual(status, 0, output)


class Length(LintTest):
    def test_1001_lines(self):
        self.red("length.py", {"runtime/A.cpp": "\n" * 1001}, "runtime/A.cpp:1001: 1001 lines; at most 1000")

    def test_1000_lines(self):
        self.green("length.py", {"runtime/A.cpp": "\n" * 1000, "examples/a.json": "\n" * 9000})

    header = "// A.\n#ifndef MOEC_A_H\n#define MOEC_A_H\n\n#include <string>\n\nnamespace moec {\n%s} // namespace moec\n\n#endif\n"

    def test_header_of_one_function(self):
        self.red("length.py", {"runtime/A.h": self.header % "/* a\n b */ void a(); // c\n"},
                 "runtime/A.h:1: 3 lines of code, at least 4: declare it where its topic or its one user is")

    few = header % "void a();\nvoid b();\n"

    def test_header_of_two_functions_for_one_user(self):
        self.red("length.py", {"runtime/A.h": self.few, "runtime/B.cpp": '#include "runtime/A.h"\n'},
                 "runtime/A.h:1: 4 lines of code for one user; below 40 a header has a source of its name or two users")

    def test_header_of_two_functions(self):
        user = '#include "runtime/A.h"\n'
        self.green("length.py", {"runtime/A.h": self.few, "runtime/A.cpp": user, "test/A.h": self.header % "void a();\n"})
        self.green("length.py", {"runtime/A.h": self.few, "runtime/B.cpp": user, "tools/C.cpp": user})


class Functions(LintTest):
    text = "namespace moec {\nstruct A {\n  template <class T>\n  int f(int a,\n        T b) const {\n%s  }\n};\n} // namespace moec\n"
    raw = 'std::string f() {\n  return R"(\n}\n)";\n%s}\n'
    data = "const Row kRows[] = {\n    {1, [](int a) {\n%s     }},\n};\n\nint f() {\n%s}\n"

    def test_method_of_101_lines(self):
        self.red("functions.py", {"runtime/A.h": self.text % (97 * "    a;\n")},
                 "runtime/A.h:3: a function of 101 lines; at most 100: split it by topic")

    def test_brace_in_a_raw_string(self):
        self.red("functions.py", {"templates/moe/a.cuh": self.raw % (96 * "  a;\n")}, "a.cuh:1: a function of 101 lines")

    def test_function_after_data(self):
        self.red("functions.py", {"compiler/A.cpp": self.data % ("", 99 * "  a;\n")}, "compiler/A.cpp:6: a function of 101 lines")

    def test_python(self):
        self.red("functions.py", {"python/moec/a.py": "class A:\n    def f(self):\n" + 100 * "        pass\n"},
                 "python/moec/a.py:2: a function of 101 lines")

    def test_100_lines(self):
        self.green("functions.py", {"runtime/A.h": self.text % (96 * "    a;\n"), "test/A.h": self.text % (97 * "    a;\n"),
                                    "compiler/A.cpp": self.data % (200 * "       a;\n", 98 * "  a;\n")})


class Version(LintTest):
    def test_copies(self):
        tree = {"VERSION": "1.2.3\n", "CHANGELOG.md": "# Changes\n\n## 1.2.3\n", "python/moec/__init__.py": '__version__ = "1.2.3"\n',
                "runtime/include/moec/moec.h": "#define MOEC_VERSION_MAJOR 1\n#define MOEC_VERSION_MINOR 2\n#define MOEC_VERSION_PATCH 3\n"}
        self.green("version.py", tree)
        for said in ("moec.h:1: expected '#define MOEC_VERSION_PATCH 4'", "__init__.py:1: expected '__version__ = \"1.2.4\"'",
                     "CHANGELOG.md:1: has no section '## 1.2.4'"):
            self.red("version.py", dict(tree, VERSION="1.2.4\n"), said)
        self.red("version.py", dict(tree, VERSION="1.2\n"), "expected MAJOR.MINOR.PATCH, got '1.2'")


class Verifiers(LintTest):
    source = 'return op.emitOpError() << "must have "\n  << n << " rows; "\n  "at most 3, got " << m;\n'

    def tree(self, message):
        return {"dialect/A.cpp": self.source,
                "test/dialect/a-invalid.mlir": "// expected-error@+1 {{'moe.a' op %s}}\n" % message}

    def test_unseen_message(self):
        self.red("verifiers.py", self.tree("must have 2 columns"),
                 "dialect/A.cpp:1: no negative test expects 'must have ... rows; at most 3, got '")

    def test_seen_message(self):
        self.green("verifiers.py", self.tree("must have 2 rows; at most 3, got 4"))

    def test_each_alternative(self):
        tree = {"dialect/A.cpp": 'emitError() << (gated ? "gated; no" : "plain; no");',
                "test/dialect/a-invalid.mlir": "// expected-error@+1 {{gated; no}}\n"}
        self.red("verifiers.py", tree, "no negative test expects 'plain; no'")


class LocalNames(LintTest):
    first = "namespace {\n\nint sizeOf(int a) {\n  return a;\n}\n\n} // namespace\n"

    def test_the_same_name(self):
        for other in ("static int sizeOf(long a);\n", "namespace {\nstd::vector<int>\nsizeOf(long a);\n} // namespace\n"):
            self.red("local_names.py", {"runtime/host/A.cpp": self.first, "runtime/host/B.cpp": other},
                     "runtime/host/A.cpp has a local function 'sizeOf', too")

    def test_members_and_other_folders(self):
        self.green("local_names.py", {"runtime/host/A.cpp": self.first, "runtime/jit/B.cpp": self.first,
                                      "runtime/host/C.cpp": "int sizeOf(long a);\nstatic int Part::sizeOf(long a);\n"
                                      "namespace {\nclass Part {\npublic:\n  int sizeOf(long a);\n};\n} // namespace\n"})


class Refusals(LintTest):
    source = ('// The comment is not said.\nassert(ok && "the table is whole");\n'
              'refuse("sizes of " + Twine(n) +\n  " are not "\n  "supported");\nconst char *kNames = "silu gelu relu2";\n')

    def test_unseen_sentence(self):
        self.red("refusals.py", {"compiler/passes/A.cpp": self.source, "test/compiler/a.mlir": "// sizes of 3 are not known\n"},
                 "compiler/passes/A.cpp:4: no test has 'are not supported'")

    def test_sentence_of_a_table(self):
        self.red("refusals.py", {"compiler/import/A.cpp": 'Row kRows[] = {{"a", fmt("no {} of this kind")}};\n'},
                 "compiler/import/A.cpp:1: no test has 'of this kind'")

    def test_seen_sentences(self):
        self.green("refusals.py", {"compiler/passes/A.cpp": self.source,
                                   "test/compiler/A.cpp": 'EXPECT_EQ(error, "sizes of 3 are "\n   "not supported");\n'})


class FamiliesDoc(LintTest):
    table = {"compiler/import/Families.cpp": '    {.modelTypes = "mixtral "\n      "olmoe"},\n',
             "test/oracle/classes.json": '{"transformers": "5", "classes": [{"class": "OlmoeConfig", "model_type": "olmoe"}]}',
             "test/oracle/unclaimed.json": "{}"}

    def test_class_without_a_row(self):
        classes = self.table["test/oracle/classes.json"].replace('"olmoe"', '"aria"')
        self.red("families_doc.py", dict(self.table, **{"test/oracle/classes.json": classes}),
                 "test/oracle/classes.json:1: 'aria' is no row of")

    def test_reason_for_a_row(self):
        self.red("families_doc.py", dict(self.table, **{"test/oracle/unclaimed.json": '{"olmoe": "no"}'}),
                 "test/oracle/unclaimed.json:1: 'olmoe' is imported: it needs no reason")

    def test_page_that_says_otherwise(self):
        self.red("families_doc.py", self.table, "docs/reference/families.md:1: is not what the table says")


class Env(LintTest):
    table = {"runtime/support/Env.h": '    {"MOEC_X", "path", "",\n'}

    def test_getenv_elsewhere(self):
        self.red("env.py", {"runtime/jit/A.cpp": 'const char *x = std::getenv("X");\n'}, "runtime/jit/A.cpp:1: reads the")

    def test_getenv_at_home(self):
        self.green("env.py", {"runtime/support/Env.cpp": 'std::getenv("X");\n', "runtime/B.cpp": "// getenv(x)\n"})

    def test_variable_without_documentation(self):
        tree = dict(self.table, **{"docs/reference/environment.md": "| `MOEC_Y` | path |\n"})
        self.red("env.py", tree, "MOEC_X is in the table of runtime/support/Env.h and not here")
        self.red("env.py", tree, "MOEC_Y is not in the table of runtime/support/Env.h")

    def test_documented_variable(self):
        self.green("env.py", dict(self.table, **{"docs/reference/environment.md": "| `MOEC_X` | path |\n"}))


class JsonReader(LintTest):
    def test_another_parser(self):
        self.red("json_reader.py", {"runtime/A.cpp": "auto a = nlohmann::json::parse(text);\n"}, "runtime/A.cpp:1: parses JSON")
        self.red("json_reader.py", {"bench/B.cpp": "ordered_json::parse(text, nullptr, false);\n"}, "bench/B.cpp:1: parses JSON")

    def test_the_reader_and_tests(self):
        text = "bool parsed = json::sax_parse(text, &builder); // json::parse\n"
        self.green("json_reader.py", {"runtime/support/Json.cpp": text, "test/A.cpp": text, "runtime/B.cpp": "// json::parse\n"})


class ApiDoc(LintTest):
    header = "typedef enum moec_status {\n  MOEC_OK = 0,\n  MOEC_BAD = 1\n} moec_status;\nconst char *moec_f(int x);\n"

    def tree(self, page):
        return {"runtime/include/moec/moec.h": self.header, "docs/reference/c-api.md": page}

    def test_compared(self):
        self.green("api_doc.py", self.tree("| `moec_f` | f |\n| `MOEC_OK` | 0 |\n| `MOEC_BAD` | 1 |\n"))

    def test_missing(self):
        self.red("api_doc.py", self.tree("| `MOEC_OK` | 0 |\n| `MOEC_BAD` | 1 |\n"), "moec_f is in runtime/include/moec/moec.h and not here")
        self.red("api_doc.py", self.tree("| `moec_f` | f |\n| `MOEC_OK` | 0 |\n| `MOEC_BAD` | 2 |\n"), "MOEC_BAD = 1 is in")
        tree = self.tree("| `moec_f` | f |\n| `MOEC_OK` | 0 |\n| `MOEC_BAD` | 1 |\n")
        self.red("api_doc.py", {**tree, "runtime/include/moec/compiler.h": "int moec_g(void);\n"}, "moec_g is in")

    def test_field_of_the_schema(self):
        schema = json.dumps({"properties": {"a": {"properties": {"b": {}}}}})
        tree = {"docs/reference/layer.schema.json": schema, "docs/reference/layer-json.md": "| `a` |\n"}
        self.red("api_doc.py", tree, "docs/reference/layer-json.md:1: field 'b' is in")
        self.green("api_doc.py", dict(tree, **{"docs/reference/quantization.md": '`{"b": 1}`'}))

    def test_row_of_the_matrix(self):
        tree = {"docs/reference/support-matrix.md": "| scheme | sm_80, 86 | sm_90a |\n|---|---|---|\n| `a` | x, native | y, native |\n"}
        self.green("api_doc.py", dict(tree, **{"README.md": "| scheme | sm_86 |\n| `a` | x, native |\n"}))
        self.red("api_doc.py", dict(tree, **{"README.md": "| scheme | sm_90a |\n| `a` | x, native |\n"}),
                 "README.md:1: `a` on sm_90a is 'y, native' in docs/reference/support-matrix.md, not 'x, native'")
        self.red("api_doc.py", dict(tree, **{"README.md": ""}), "README.md:1: shows no row")

    def test_stale(self):
        self.red("api_doc.py", self.tree("| `moec_f`, `moec_g` | f |\n| `MOEC_OK` | 0 |\n| `MOEC_BAD` | 1 |\n"), "moec_g is not in")


class StatusDoc(LintTest):
    runs = ("date,device,commit,run,cells,targets_met,faster,passed,failed,not_run,note\n"
            "2026-01-01,A,aaa,a1,,,,1,0,0,\n2026-01-02,A,bbb,a2,,,,2,0,3,\n")
    head = "| device | date | commit | checks passed | failed | not run | report |\n| --- | --- | --- | ---: | ---: | ---: | --- |\n"

    def tree(self, status):
        return {"bench/results/runs.csv": self.runs, "docs/status.md": f"a\n<!-- runs -->\n{status}<!-- end -->\n",
                "bench/results/README.md": "<!-- runs -->\n<!-- end -->\n"}

    def test_stale(self):
        row = "| A | 2026-01-01 | aaa | 1 | 0 | 0 | [a1](../bench/results/2026-01-01-a1.md) |\n"
        self.red("status_doc.py", self.tree(self.head + row), "docs/status.md:2: is not what bench/results/runs.csv says")

    def test_newest(self):
        row = "| A | 2026-01-02 | bbb | 2 | 0 | 3 | [a2](../bench/results/2026-01-02-a2.md) |\n"
        _, output = run_lint("status_doc.py", self.tree(self.head + row))
        self.assertNotIn("docs/status.md", output)

    def test_no_place(self):
        self.red("status_doc.py", dict(self.tree(""), **{"docs/status.md": ""}), "docs/status.md:1: has no '<!-- runs -->'")

    def test_fix(self):
        self.green("status_doc.py", self.tree(""), "--fix")


class Words(LintTest):
    def test_promise(self):
        for word in ("TO" + "DO", "FIX" + "ME", "for " + "now", "not " + "implemented"):
            self.red("words.py", {"compiler/A.cpp": f"int x; // {word}: more\n"}, "compiler/A.cpp:1: ")

    def test_no_promise(self):
        self.green("words.py", {"compiler/A.cpp": "int todos; // formal notes, nowhere\n"})


class Prose(LintTest):
    def test_long_sentence(self):
        tree = {"docs/a.md": "# A\n\nShort.\n\n* " + "word " * 20 + "\n  " + "word " * 16 + ". End.\n"}
        self.red("prose.py", tree, "docs/a.md:5: a sentence of 36 words, at most 35")

    def test_long_cell(self):
        self.red("prose.py", {"README.md": "| a | " + "word " * 36 + "|\n"}, "README.md:1: a sentence of 36 words")

    def test_short_sentences(self):
        text = "Word " * 35 + ". " + "Word " * 35 + "`a.b c`.\n\n```text\n" + "word " * 40 + "\n```\n\n    " + "word " * 40
        spans = "\n\nIt takes " + "`a` number, `b`, " * 30 + "and `c`.\n"
        self.green("prose.py", {"docs/a.md": text.replace("Word `", "`") + spans, "docs/generated/b.md": "word " * 40})

    def test_words_behind_a_fence(self):
        self.red("prose.py", {"docs/a.md": "```text\na\n```\n" + "word " * 36}, "docs/a.md:4: a sentence of 36 words")

    def test_comments(self):
        for path, text, line in (
            ("runtime/A.h", "/// Of a layer,\nint x;\n", 1),
            ("compiler/A.cpp", "int x; // Those that are.\n", 1),
            ("dialect/A.td", "//\n// What it is.\n", 2),
            ("test/a.py", 'def f():\n    """Where it is."""\n', 2),
            ("test/b.py", "x = 1  # What it is\n", 1),
            ("test/CMakeLists.txt", "# Of a test\nset(x 1)\n", 1),
        ):
            self.red("prose.py", {path: text}, f"{path}:{line}: a comment begins with")

    def test_sound_comments(self):
        tree = {
            "runtime/A.h": "/// The bytes\n/// Of a layer. Offsets: one.\nconst char *x = \"// What\"; // whatever\n",
            "test/a.py": 'x = """What\n# Of"""\nf("Of")\n',
        }
        self.green("prose.py", tree)


class Layering(LintTest):
    def test_runtime_that_knows_the_compiler(self):
        tree = {"runtime/A.cpp": '#include "compiler/Compiler.h"\n', "compiler/Compiler.h": ""}
        self.red("layering.py", tree, 'runtime/A.cpp:1: includes "compiler/Compiler.h"')

    def test_runtime_that_knows_llvm(self):
        self.red("layering.py", {"runtime/A.h": "#include <llvm/ADT/StringRef.h>\n"}, "runtime/A.h:1")

    def test_dialect_that_knows_the_package(self):
        tree = {"dialect/A.cpp": '#include "runtime/package/Manifest.h"\n', "runtime/package/Manifest.h": ""}
        self.red("layering.py", tree, "dialect/A.cpp:1")

    def test_catalog_that_knows_mlir(self):
        self.red("layering.py", {"dialect/catalog/A.h": '#include "mlir/IR/Types.h"\n'}, "dialect/catalog/A.h:1")

    def test_template_with_a_system_header(self):
        self.red("layering.py", {"templates/moe/a.cuh": "#include <cuda_bf16.h>\n"}, "templates/moe/a.cuh:1")

    def test_toolkit_header(self):
        self.red("layering.py", {"runtime/A.cpp": "#include <nvrtc.h>\n"}, "runtime/A.cpp:1: includes nvrtc.h")

    def test_optional_toolkit_header(self):
        self.green("layering.py", {"test/runtime/A.cpp": "#if __has_include(<cuda.h>)\n#include <cuda.h>\n#endif\n"})

    def test_reference_that_borrows_from_the_host_device(self):
        tree = {"test/reference/A.cpp": '#include "runtime/host/HostDevice.h"\n', "runtime/host/HostDevice.h": ""}
        self.red("layering.py", tree, "test/reference/A.cpp:1")

    def test_runtime_that_needs_the_reference(self):
        self.red("layering.py", {"runtime/A.cpp": '#include "test/reference/R.h"\n', "test/reference/R.h": ""}, "runtime/A.cpp:1")

    def test_include_that_is_not_there(self):
        self.red("layering.py", {"runtime/A.cpp": '#include "runtime/B.h"\n'}, "which does not exist")

    def test_relative_include(self):
        self.red("layering.py", {"runtime/A.cpp": '#include "B.h"\n', "runtime/B.h": ""}, "runtime/A.cpp:1")

    def test_emitter_that_knows_a_pass(self):
        tree = {"compiler/emit/A.cpp": '#include "compiler/passes/B.h"\n', "compiler/passes/B.h": ""}
        self.red("layering.py", tree, 'compiler/emit/A.cpp:1: includes "compiler/passes/B.h"')

    def test_circle(self):
        tree = {"compiler/A.h": "", "compiler/A.cpp": '#include "compiler/A.h"\n#include "compiler/B.h"\n',
                "compiler/B.h": '#include "compiler/C.h"\n', "compiler/C.h": '#include "compiler/A.h"\n'}
        self.red("layering.py", tree, 'compiler/A.cpp:2: includes "compiler/B.h", which needs compiler/A')
        self.green("layering.py", dict(tree, **{"compiler/C.h": ""}))

    def test_header_that_needs_a_heavy_one(self):
        tree = {"runtime/A.h": "#include <nlohmann/json.hpp>\n"}
        self.red("layering.py", tree, "runtime/A.h:1: needs <nlohmann/json.hpp>")

    def test_header_that_needs_a_heavy_one_through_others(self):
        tree = {"compiler/A.h": '#include <string>\n#include "runtime/support/B.h"\n',
                "runtime/support/B.h": '#include "runtime/support/C.h"\n', "runtime/support/C.h": "#include <fmt/format.h>\n"}
        self.red("layering.py", tree, "compiler/A.h:2: needs <fmt/format.h>")
        self.green("layering.py", dict(tree, **{"runtime/support/C.h": "#include <fmt/core.h>\n"}))

    def test_good_includes(self):
        tree = {
            "compiler/A.cpp": '#include "runtime/package/M.h"\n#include "mlir/IR/Types.h"\n#include <nlohmann/json.hpp>\n',
            "runtime/package/M.h": "#include <nlohmann/json_fwd.hpp>\n",
            "test/T.h": "#include <fmt/format.h>\n",
            "templates/moe/a.cuh": '#include "moe/b.cuh"\n',
            "tools/moec-run/moec-run.cpp": '#include "test/reference/R.h"\n',
            "test/reference/R.h": "",
        }
        self.green("layering.py", tree)


class IrLines(LintTest):
    option = f"--moec={sys.executable} @ROOT@/moec.py"

    def test_long_line(self):
        self.red("ir_lines.py", {"moec.py": "print('moe.layer @a')\nprint('x' * 401)\n"}, "prints a line of 401 characters, number 2: xxx", self.option)

    def test_short_lines(self):
        self.green("ir_lines.py", {"moec.py": "print('x' * 400)\n"}, self.option)

    def test_no_ir(self):
        self.red("ir_lines.py", {"moec.py": "raise SystemExit('no')\n"}, "--emit=layer fails: no", self.option)


class LayerReaders(LintTest):
    def test_emitter_that_reads_the_layer(self):
        tree = {"compiler/emit/A.cpp": "auto layer = program.getLayerOp();\n"}
        self.red("layer_readers.py", tree, "compiler/emit/A.cpp:1: reads moe.layer")

    def test_pass_that_reads_the_layer(self):
        self.red("layer_readers.py", {"compiler/passes/A.cpp": "void f(moe::LayerOp layer);\n"}, "compiler/passes/A.cpp:1")

    def test_readers_and_comments(self):
        tree = {"compiler/passes/DecomposeLayer.cpp": "moe::LayerOp layer;\n", "compiler/passes/A.cpp": "// of LayerOp\n"}
        self.green("layer_readers.py", tree)


class FileCheck(LintTest):
    run_line = "// RUN: moec-opt %s | FileCheck %s\n"
    verify = "// RUN: moec-opt %s -split-input-file -verify-diagnostics\n"

    def check(self, text):
        return {"test/compiler/a.mlir": text}

    def test_check_without_filecheck(self):
        self.red("filecheck.py", self.check("// RUN: moec-opt %s\n// CHECK: x\n"), "a.mlir:2: 'CHECK:' is read by no")

    def test_prefix_never_used(self):
        text = "// RUN: moec-opt %s | FileCheck %s --check-prefixes=CHECK,CUDA\n// CHECK: x\n"
        self.red("filecheck.py", self.check(text), "given the prefix CUDA")

    def test_prefix_of_no_run(self):
        self.red("filecheck.py", self.check(self.run_line + "// CHECK: x\n// CUDA-NEXT: y\n"), "'CUDA-NEXT:'")

    def test_unknown_directive(self):
        for word in ("CHECK-NEX", "CHECK-DAG-NEXT", "CHECK_NEXT", "CHECK-NOTT"):
            self.red("filecheck.py", self.check(self.run_line + f"// CHECK: x\n// {word}: y\n"), f"'{word}:' is no")

    def test_short_expectation(self):
        self.red("filecheck.py", self.check(self.verify + "// expected-error {{bad}}\n"), "'bad' fits any message")

    def test_expectation_that_nothing_verifies(self):
        text = "// RUN: moec-opt %s\n// expected-error @+1 {{a whole message here}}\n"
        self.red("filecheck.py", self.check(text), "expected-* without -verify-diagnostics")

    def test_missing_separator(self):
        text = self.verify + "// expected-error {{a whole message here}}\nop\n// expected-error {{another whole message}}\n"
        self.red("filecheck.py", self.check(text), "'// -----' is missing")

    def test_dead_separator(self):
        self.red("filecheck.py", self.check(self.run_line + "// CHECK: x\n// -----\n"), "separates nothing")

    def test_lines_without_a_comment_mark(self):
        text = "DEFINE: %{check} = FileCheck %s --check-prefix=A\nRUN: moec %s | %{check}\nA: x\n"
        self.green("filecheck.py", {"test/driver/a.test": text})
        self.red("filecheck.py", {"test/driver/a.test": text + "A-NEX: y\n"}, "'A-NEX:' is no directive")

    def test_no_run_line(self):
        self.red("filecheck.py", self.check("moe.layer @a {}\n"), "no RUN line")

    def test_good_files(self):
        text = (
            "// RUN: moec-opt %s --a \\\n// RUN:   | FileCheck %s --check-prefix=A\n// REQUIRES: nvrtc\n"
            "// A-LABEL: x\n// A-COUNT-3: y\n// A{LITERAL}: [[z]]\n// A-NEXT: w\n// Note: prose\n"
        )
        self.green("filecheck.py", self.check(text))
        message = "// expected-error @below {{a whole message here}}\n"
        self.green("filecheck.py", self.check(self.verify + message + message))
        self.green("filecheck.py", self.check(self.verify + message + "// -----\n" + message))


class Headers(LintTest):
    def tree(self, header):
        command = "g++ -std=c++20 -o a.o -c @ROOT@/runtime/A.cpp"
        commands = [{"directory": "@ROOT@", "command": command, "file": "@ROOT@/runtime/A.cpp"}]
        return {"runtime/A.h": header, "runtime/A.cpp": "", "build/compile_commands.json": json.dumps(commands)}

    def test_header_that_leans_on_another(self):
        self.red("headers.py", self.tree("std::string x();\n"), "runtime/A.h:1: does not compile alone", "--build=@ROOT@/build")

    def test_whole_header(self):
        self.green("headers.py", self.tree("#include <string>\nstd::string x();\n"), "--build=@ROOT@/build")

    def test_header_that_its_source_includes_first(self):
        tree = dict(self.tree("std::string x();\n"), **{"runtime/A.cpp": '// why\n#include "runtime/A.h"\n#include <string>\n'})
        self.green("headers.py", tree, "--build=@ROOT@/build")  # the build of A.cpp is what turns red

    def test_header_that_its_source_includes_second(self):
        tree = dict(self.tree("std::string x();\n"), **{"runtime/A.cpp": '#include <string>\n#include "runtime/A.h"\n'})
        self.red("headers.py", tree, "runtime/A.h:1: does not compile alone", "--build=@ROOT@/build")

    def test_template_that_leans_on_another(self):
        status, output = run_lint("headers.py", {"templates/moe/a.cuh": "struct A { Missing m; };\n"})
        if "no NVRTC here" in output:
            self.skipTest("no NVRTC here")
        self.assertIn("templates/moe/a.cuh:1: does not compile alone", output)
        self.assertEqual(status, 1)


class Linkage(unittest.TestCase):
    def lint(self, source, *flags):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(f"{folder}/lib")
            command = ["g++", "-shared", "-fPIC", "-x", "c++", "-", *flags, "-o", f"{folder}/lib/libmoec.so"]
            subprocess.run(command, input=source, text=True, check=True)
            command = [sys.executable, str(HERE / "linkage.py"), f"--build={folder}"]
            run = subprocess.run(command, capture_output=True, text=True)
            return run.returncode, run.stdout

    def test_foreign_symbol(self):
        status, output = self.lint('extern "C" int moec_f() { return 1; }\nint other() { return 2; }\n', "-nostdlib")
        self.assertEqual(status, 1)
        self.assertIn("exports _Z5otherv", output)

    def test_foreign_library(self):
        status, output = self.lint('extern "C" int moec_f() { return 1; }\n', "-Wl,--no-as-needed", "-lstdc++")
        self.assertEqual(status, 1)
        self.assertIn("needs libstdc++.so.6 where it runs", output)

    def test_new_glibc(self):
        status, output = self.lint('extern "C" unsigned arc4random();\nextern "C" int moec_f() { return int(arc4random()); }\n')
        self.assertEqual(status, 1)
        self.assertIn("needs arc4random of glibc 2.36", output)

    def test_path_of_the_build(self):
        text = f'extern "C" const char *moec_f() {{ return "{HERE}/lib/libnvrtc.so.13"; }}\n'
        status, output = self.lint(text, "-nostdlib")
        self.assertEqual(status, 1)
        self.assertIn("which is a folder of this machine", output)

    def test_clean(self):
        status, output = self.lint('extern "C" int moec_f() { return 1; }\n', "-Wl,--as-needed")
        self.assertEqual(status, 0, output)


class Markdown(LintTest):
    def console(self, text):
        return {"README.md": f"```console\n{text}```\n", "build/bin/x": "", "examples/x": "", "test/x": ""}

    def test_output_that_differs(self):
        tree = self.console("$ echo one\ntwo\n")
        self.red("markdown.py", tree, "README.md:2: what it prints is not what is shown", "--build=@ROOT@/build")

    def test_command_that_fails(self):
        self.red("markdown.py", self.console("$ false\n"), "ended with status 1, not 0", "--build=@ROOT@/build")

    def test_numbers_and_dots(self):
        text = "$ echo took 17.0 ms; echo 2; echo 3; echo end\ntook 3.5 ms\n...\nend\n$ ls no/such\n...\n# exit status 2\n"
        self.green("markdown.py", self.console(text), "--build=@ROOT@/build")

    def test_counts_are_compared(self):
        tree = self.console("$ echo 5 variants, 18 kernels\n5 variants, 20 kernels\n")
        self.red("markdown.py", tree, "README.md:2: what it prints is not what is shown", "--build=@ROOT@/build")
        same = "$ echo 5 kernels in 3.25 s, 1e-3, 40%, token 7, key 1f2e3d4c\n5 kernels in 4.50 s, 1.02e-3, 41%, token 9, key 0badf00d\n"
        self.green("markdown.py", self.console(same), "--build=@ROOT@/build")

    def test_times_are_compared(self):
        for shown in ("took 0.2 ms", "took 0.20 s", "took 60.0 s", "took 2 s"):
            tree = self.console(f"$ echo took 0.2 s\n{shown}\n")
            self.red("markdown.py", tree, "README.md:2: what it prints is not what is shown", "--build=@ROOT@/build")
        self.green("markdown.py", self.console("$ echo took 0.2 s\ntook 7.5 s\n"), "--build=@ROOT@/build")

    def test_decimals_are_compared(self):
        tree = self.console("$ echo error 0.00165\nerror 0.00185\n")
        self.red("markdown.py", tree, "README.md:2: what it prints is not what is shown", "--build=@ROOT@/build")

    def test_broken_link(self):
        self.red("markdown.py", {"docs/a.md": "see [b](b.md)\n"}, "docs/a.md:1: the link b.md leads nowhere")

    def test_snippet_that_has_moved_on(self):
        tree = {"README.md": "```cpp file=examples/a.cpp\nint f();\n```\n", "examples/a.cpp": "int g();\n"}
        self.red("markdown.py", tree, "does not stand in examples/a.cpp word for word")

    def test_saved_block(self):
        tree = self.console("$ cat a.json\n{}\n")
        tree["README.md"] = "```json save=a.json\n{}\n```\n" + tree["README.md"]
        self.green("markdown.py", tree, "--build=@ROOT@/build")

    def test_broken_json(self):
        self.red("markdown.py", {"README.md": "```json\n{,}\n```\n"}, "README.md:1: no JSON")


@unittest.skipUnless(shutil.which("clang-format-22"), "clang-format-22 is not installed")
class Format(LintTest):
    def test_unformatted(self):
        self.red("format.py", {"runtime/A.cpp": "int  x;\n"}, "runtime/A.cpp:1: is not as clang-format-22")

    def test_formatted(self):
        self.green("format.py", {"runtime/A.cpp": "int x;\n"})


class Summary(unittest.TestCase):
    def summarize(self, **files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, f"{name}.xml").write_text(f"<testsuite>{text}</testsuite>")
            run = subprocess.run(
                [sys.executable, str(HERE.parent / "summary.py"), folder], capture_output=True, text=True
            )
            return run.returncode, run.stdout

    passed = '<testcase name="A.One" status="run"/>'
    skipped = (
        '<testcase name="A.Two" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
        "<system-out>a.cpp:4: Skipped\nno GPU here\n</system-out></testcase>"
    )
    failed = (
        '<testcase name="A.Three" status="fail"><failure message=""/>'
        "<system-out>" + "early\n" * 60 + "a.cpp:7: Failure\n</system-out></testcase>"
    )

    def test_sums(self):
        lit = '<testcase classname="moec.compiler" name="a.mlir"/>'
        status, output = self.summarize(main=self.passed + self.skipped, lit=lit)
        self.assertEqual(output.splitlines()[-1], "2 passed, 0 failed, 1 skipped")
        self.assertIn("skipped (no GPU here):\n  main: A.Two", output)
        self.assertEqual(status, 0)

    def test_failure(self):
        status, output = self.summarize(main=self.passed + self.failed)
        self.assertTrue(output.startswith("---- the end of main: A.Three\n  (21 lines before)\n  early\n"), output)
        self.assertTrue(output.endswith("  early\n  a.cpp:7: Failure\nfailed: main: A.Three\n1 passed, 1 failed, 0 skipped\n"), output)
        self.assertEqual(len(output.splitlines()), 44)
        self.assertEqual(status, 1)

    def test_failure_of_lit(self):
        case = '<testcase classname="moec.compiler" name="a.mlir"><failure>a.mlir:3: no match</failure></testcase>'
        _, output = self.summarize(lit=case)
        self.assertIn("---- the end of lit: compiler.a.mlir\n  a.mlir:3: no match\n", output)

    def test_nothing_ran(self):
        status, output = self.summarize(main="")
        self.assertEqual((status, output), (1, "0 passed, 0 failed, 0 skipped\n"))

    def test_not_run_is_failed(self):
        status, _ = self.summarize(main=self.passed + '<testcase name="B" status="notrun"/>')
        self.assertEqual(status, 1)


if __name__ == "__main__":
    os.environ.pop("GIT_DIR", None)
    unittest.main()
