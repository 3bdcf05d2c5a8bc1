#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gpu_suite.py judges rightly: a stand-in for moec-run says what each case needs. Needs no GPU."""

import json
import pathlib
import stat
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_suite  # noqa: E402

GOOD = {"runs": [{"passed": True, "tokens": 7, "error": 1e-3, "worst_row": 2e-3, "worst_element": 1e-2, "bound": 2.5e-3}]}
BAD = {"runs": [GOOD["runs"][0], {"passed": False, "tokens": 33, "routing": "skewed", "variant": "all", "text": "row of token 5"}]}
MEMCHECK = "========= ERROR SUMMARY: {} errors"


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "bin").mkdir()
        self.options = types.SimpleNamespace(timeout=20, verbose=False)

    def tearDown(self):
        self.folder.cleanup()

    def script(self, path, output, status):
        path.write_text(f"#!{sys.executable}\nprint({output!r})\nraise SystemExit({status})\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def result(self, output, status, **entry):
        self.script(self.root / "bin" / "moec-run", output if isinstance(output, str) else json.dumps(output), status)
        entry = {"group": "rows", "name": "x", "package": "p", "runs": [["--tokens=7"]], "expect": "pass", **entry}
        return gpu_suite.run_entry(entry, self.root, self.options)

    def test_passing_run_reports_its_worst(self):
        result = self.result(GOOD, 0)
        self.assertTrue(result["passed"])
        self.assertAlmostEqual(result["worst"]["whole"], 0.4)
        self.assertAlmostEqual(result["worst"]["row"], 0.32)
        self.assertEqual(result["worst"]["runs"], 1)

    def test_failed_check_is_named(self):
        result = self.result(BAD, 1)
        self.assertFalse(result["passed"])
        self.assertIn("tokens 33 skewed variant all: row of token 5", result["text"])

    def test_no_json_no_runs_and_crashes_fail(self):
        self.assertFalse(self.result("no GPU", 1)["passed"])
        self.assertFalse(self.result({"runs": []}, 0)["passed"])
        self.assertFalse(self.result(GOOD, 134)["passed"])

    def test_mutant_is_caught_by_a_check_alone(self):
        self.assertTrue(self.result(BAD, 1, expect="fail")["passed"])
        survived = self.result(GOOD, 0, expect="fail")
        self.assertFalse(survived["passed"])
        self.assertIn("survived", survived["text"])
        self.assertFalse(self.result("cannot load the package", 1, expect="fail")["passed"])
        self.assertFalse(self.result(GOOD, 139, expect="fail")["passed"])

    def test_sanitizer_summaries(self):
        find = gpu_suite.find_sanitizer
        try:
            for text, status, expected in [(MEMCHECK.format(0), 0, True), (MEMCHECK.format(2), 9, False),
                                           ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)", 0, True),
                                           ("========= RACECHECK SUMMARY: 10 hazards displayed", 0, False)]:
                tool = str(self.script(self.root / "sanitizer", text, status))
                gpu_suite.find_sanitizer = lambda tool=tool: tool
                self.assertEqual(self.result(GOOD, 0, sanitizer="memcheck")["passed"], expected, text)
            gpu_suite.find_sanitizer = lambda: None
            self.assertIsNone(self.result(GOOD, 0, sanitizer="memcheck")["passed"])
        finally:
            gpu_suite.find_sanitizer = find


if __name__ == "__main__":
    unittest.main()
