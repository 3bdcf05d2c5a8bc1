#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of kernels: changes that a digest sees and those that it does not, lines without a text, and a kernel that spills."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "templates")]
import compile as templates  # noqa: E402
import kernel_list  # noqa: E402

HEADERS = {"a.cuh": "#include <b.cuh>\nint a;  // of a\n", "b.cuh": "int b;\n", "c.cuh": "int c;\n"}
SOURCE = '#include "a.cuh"\n// What it is.\nint x = sizeof("// no comment");\n'
CONFIG = HERE.parent / "templates" / "configs" / "gate_up_bf16_16x64x128.cu"


class Digests(unittest.TestCase):
    def setUp(self):
        self.list = kernel_list.KernelList("layers", "1", "13.0.1", pathlib.Path("/nowhere"))
        self.before = self.list.digest(SOURCE, HEADERS, ["-w"])

    def expect(self, is_same, source, headers, options=("-w",)):
        (self.assertEqual if is_same else self.assertNotEqual)(self.before, self.list.digest(source, headers, options))

    def test_comment(self):
        self.expect(True, SOURCE.replace("What it is.", "Another."), HEADERS)
        self.expect(True, SOURCE, {**HEADERS, "b.cuh": "\n/* of\n b */\nint b; // it\n"})

    def test_header_that_is_not_included(self):
        self.expect(True, SOURCE, {**HEADERS, "c.cuh": "float c;\n", "d.cuh": ""})

    def test_included_header(self):
        self.expect(False, SOURCE, {**HEADERS, "b.cuh": "float b;\n"})

    def test_text(self):
        self.expect(False, SOURCE.replace("// no", "// a"), HEADERS)

    def test_options(self):
        self.expect(False, SOURCE, HEADERS, ["-G"])

    def test_rules_and_part(self):
        for part, rules in (("layers", "2"), ("configs", "1")):
            other = kernel_list.KernelList(part, rules, "13.0.1", pathlib.Path("/nowhere"))
            self.assertNotEqual(self.before, other.digest(SOURCE, HEADERS, ["-w"]))

    def test_two_texts_of_one_digest(self):
        with mock.patch.object(kernel_list, "DIGITS", 1), self.assertRaises(SystemExit):
            for number in range(17):
                self.list.digest(f"int x{number};", {})


class Lines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "kernels.txt"
        self.see(self.read("layers"), "k", "sm_90a", "sm_80").write()
        self.see(self.read("configs"), "c", "sm_80").write()

    def read(self, part, version="13.0.1"):
        return kernel_list.KernelList(part, "1", version, self.path)

    def see(self, listed, text, *archs):
        self.listed = [listed.see(listed.digest(text, {}), "name", arch) for arch in archs]
        return listed

    def test_written(self):
        self.assertRegex(self.path.read_text(), r"\Anvrtc 13\.0\.1\n# .*\n\[configs\]\n\. name:sm_80:\w+\n\[layers\]\n\. name:sm_80,sm_90a:\w+\n\Z")

    def test_listed(self):
        self.assertEqual(list(self.see(self.read("layers"), "k", "sm_80", "sm_90a").stale()), [])
        self.assertEqual(self.listed, [True, True])

    def test_other_arch(self):
        self.see(self.read("layers"), "k", "sm_120a")
        self.assertEqual(self.listed, [False])

    def test_line_without_a_text(self):
        sentences = list(self.see(self.read("layers"), "k", "sm_80").stale())
        self.assertEqual(len(sentences), 1)
        self.assertIn("sm_90a name: no text of today", sentences[0])

    def test_other_nvrtc(self):
        listed = self.see(self.read("layers", "13.0.2"), "k", "sm_80", "sm_90a")
        self.assertEqual(self.listed, [False, False])
        self.assertEqual(listed.about(), "kernels.txt is of NVRTC 13.0.1; every text is compiled by 13.0.2")
        listed.write()
        self.assertNotIn("[configs]", self.path.read_text())


class Spills(unittest.TestCase):
    def compile(self, text):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output, \
                mock.patch.object(templates, "LISTED_ARCHS", ["sm_90a"]), \
                mock.patch.object(kernel_list, "LIST", pathlib.Path(folder) / "kernels.txt"):
            path = os.path.join(folder, CONFIG.name)
            pathlib.Path(path).write_text(text)
            status = templates.main(["--listed", "--update", path])
            again = templates.main(["--listed", path]) if not status else None
            return status, again, output.getvalue()

    def test_kernel_that_spills(self):
        text = CONFIG.read_text()
        bounds = "__launch_bounds__(128, 3)"
        self.assertIn(bounds, text)
        status, again, output = self.compile(text)
        if status == 77:
            self.skipTest("no NVRTC here")
        self.assertEqual((status, again), (0, 0), output)
        self.assertIn("1 are listed", output)
        status, _, output = self.compile(text.replace(bounds, "__launch_bounds__(128, 16)"))
        self.assertEqual(status, 1)
        self.assertRegex(output, r"FAILED .* [1-9]\d* spilled")


if __name__ == "__main__":
    unittest.main()
