#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of passed.py: what makes a package run again."""

import pathlib
import tempfile
import unittest
from unittest import mock

import passed


class List(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        self.package = self.root / "package"
        self.package.mkdir()
        for name, text in (("manifest.json", "{}"), ("a.cu", "kernel"), ("a.cubin", "code")):
            (self.package / name).write_text(text)
        self.path = self.root / "list.txt"
        self.digest = passed.digest_of_package(self.package, ["case"])
        made = passed.Passed("13.0.1", self.path)
        self.assertIn("every package runs", made.about())
        made.add("one", self.digest)
        made.write()

    def test_the_same_package_has_passed(self):
        listed = passed.Passed("13.0.1", self.path)
        self.assertEqual(listed.about(), "")
        self.assertTrue(listed.has("one", self.digest))
        self.assertEqual(list(listed.stale()), [])

    def test_whatever_differs_runs_again(self):
        (self.package / "a.cubin").write_text("other code")
        self.assertEqual(passed.digest_of_package(self.package, ["case"]), self.digest)
        self.assertNotEqual(passed.digest_of_package(self.package, ["cas", "e"]), self.digest)
        for name in ("manifest.json", "a.cu"):
            (self.package / name).write_text("other")
            changed = passed.digest_of_package(self.package, ["case"])
            self.assertNotEqual(changed, self.digest)
            self.assertFalse(passed.Passed("13.0.1", self.path).has("one", changed))
        self.assertFalse(passed.Passed("13.0.1", self.path).has("two", self.digest))

    def test_another_compiler_or_source_empties_the_list(self):
        self.assertFalse(passed.Passed("13.0.2", self.path).has("one", self.digest))
        with mock.patch.object(passed, "code", lambda: "0123"):
            listed = passed.Passed("13.0.1", self.path)
            self.assertIn("other sources", listed.about())
            self.assertFalse(listed.has("one", self.digest))
            self.assertEqual(list(listed.stale()), [])

    def test_a_line_without_a_package_is_told(self):
        self.assertIn(f"one {self.digest}: no package of today", next(passed.Passed("13.0.1", self.path).stale()))

    def test_sources_are_named(self):
        passed.code.cache_clear()
        with mock.patch.object(passed, "SOURCES", ["test/emulator/nowhere/*"]), self.assertRaisesRegex(FileNotFoundError, "names no source"):
            passed.code()


if __name__ == "__main__":
    unittest.main()
