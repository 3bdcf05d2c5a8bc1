#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gpu_suite.py judges rightly: a stand-in for moec-run says what each case needs. Needs no GPU."""

import json
import pathlib
import stat
import sys
import tempfile
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gpu_suite  # noqa: E402

GOOD = {"passed": True, "runs": [{"passed": True, "tokens": 7, "error": 1e-3, "worst_row": 2e-3, "worst_element": 1e-2, "bound": 2.5e-3}]}
BAD = {"passed": False, "runs": [GOOD["runs"][0], {"passed": False, "tokens": 33, "routing": "skewed", "variant": "all", "text": "row of token 5"}]}
MEMCHECK = "========= ERROR SUMMARY: {} errors"


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "bin").mkdir()
        self.options = types.SimpleNamespace(timeout=20, verbose=False, within=1e9, budget=1e9, jobs=1, planted_elsewhere=False,
                                             started=time.time(), json=str(self.root / "out.json"))

    def tearDown(self):
        self.folder.cleanup()

    def script(self, path, output, status, errors=""):
        path.write_text(f"#!{sys.executable}\nimport sys\nprint({output!r})\nsys.stderr.write({errors!r})\n"
                        f"raise SystemExit({status})\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def result(self, output, status, errors="", **entry):
        self.script(self.root / "bin" / "moec-run", output if isinstance(output, str) else json.dumps(output), status,
                    errors)
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

    def test_driver_errors_catch_mutants(self):
        error = "moec-run: cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700) [driver_failed]\n"
        for output in ("", BAD):
            result = self.result(output, 1, error, expect="fail")
            self.assertTrue(result["passed"])
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", self.result("", 1, error, expect="fail")["text"])
        self.assertFalse(self.result("", 1, error)["passed"])
        for status in (0, 2, 134):
            self.assertFalse(self.result("", status, error, expect="fail")["passed"], status)
            self.assertFalse(self.result(BAD, status, error, expect="fail")["passed"], status)

    def test_a_hang_is_caught_where_the_fault_may_hang(self):
        path = self.script(self.root / "bin" / "moec-run", "", 0)
        path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n")
        entry = {"group": "mutants", "name": "x", "package": "p", "runs": [["--tokens=7"]], "expect": "fail"}
        self.options.timeout = 0.5
        self.assertFalse(gpu_suite.run_entry(entry, self.root, self.options)["passed"])
        result = gpu_suite.run_entry({**entry, "hangs": True}, self.root, self.options)
        self.assertTrue(result["passed"])
        self.assertIn("no end after", result["text"])
        self.assertFalse(gpu_suite.run_entry({**entry, "hangs": True, "expect": "pass"}, self.root, self.options)["passed"])

    def test_each_run_is_judged_by_its_line(self):
        runs = [["--tokens=1"], ["--tokens=2"], ["--tokens=3"]]
        lines = [{**GOOD, "status": 0}, {"passed": False, "status": 2, "runs": [], "error": "expected logits, got ids"}, {**BAD, "status": 1}]
        text = "\n".join(map(json.dumps, lines))
        refused = self.result(text, 2, runs=runs, refusable=True)
        self.assertEqual((refused["calls"], refused["worst"]["runs"]), (2, 3))
        self.assertIn("row of token 5 [--tokens=3]", refused["text"])
        self.assertIn("expected logits, got ids [--tokens=2]", self.result(text, 2, runs=runs)["text"])
        # What has no line was not run.
        ended = self.result(json.dumps(GOOD), 139, runs=runs)
        self.assertFalse(ended["passed"])
        ended = self.result(json.dumps(GOOD), 0, runs=runs)
        self.assertIn("no JSON", ended["text"])
        self.assertIn("[--tokens=2]", ended["text"])

    def sanitized(self, text, status=0, program=GOOD, tool="memcheck", **entry):
        """A stand-in for compute-sanitizer that says `text` around what the program prints."""
        path = self.script(self.root / "sanitizer", "========= COMPUTE-SANITIZER\n" + json.dumps(program) + "\n" + text,
                           status)
        find, gpu_suite.find_sanitizer = gpu_suite.find_sanitizer, lambda: str(path)
        try:
            return self.result(GOOD, 0, sanitizer=tool, **entry)
        finally:
            gpu_suite.find_sanitizer = find

    def test_sanitizer_summaries(self):
        race = "========= RACECHECK SUMMARY: {} hazards displayed (0 errors, 0 warnings)"
        idle = {"passed": True, "runs": [{"passed": True, "tokens": 0}]}
        for tool, text, status, program, expected in [
                ("memcheck", MEMCHECK.format(0), 0, GOOD, True), ("memcheck", MEMCHECK.format(2), 9, GOOD, False),
                ("memcheck", MEMCHECK.format(10), 0, GOOD, False), ("memcheck", "", 0, GOOD, False),
                ("memcheck", race.format(0), 0, GOOD, False), ("racecheck", MEMCHECK.format(0), 0, GOOD, False),
                ("racecheck", race.format(0), 0, GOOD, True), ("racecheck", race.format(10), 0, GOOD, False),
                ("memcheck", MEMCHECK.format(0), 1, BAD, False), ("memcheck", MEMCHECK.format(0), 0, BAD, False),
                ("memcheck", MEMCHECK.format(0), 0, idle, False), ("memcheck", MEMCHECK.format(0), 0, {}, False),
                ("memcheck", "========= Error: Target application terminated before first instrumented API call\n" +
                 MEMCHECK.format(0), 0, GOOD, False)]:
            result = self.sanitized(text, status, program, tool)
            self.assertEqual(result["passed"], expected, (tool, text, status, program))
        find, gpu_suite.find_sanitizer = gpu_suite.find_sanitizer, lambda: None
        try:
            self.assertIsNone(self.result(GOOD, 0, sanitizer="memcheck")["passed"])
        finally:
            gpu_suite.find_sanitizer = find

    def test_planted_faults_are_flagged_by_the_tool(self):
        self.assertTrue(self.sanitized(MEMCHECK.format(3), 9, BAD, expect="fail")["passed"])
        # The program's own check is not what is asked for.
        self.assertFalse(self.sanitized(MEMCHECK.format(0), 1, BAD, expect="fail")["passed"])
        self.assertFalse(self.sanitized("", 1, BAD, expect="fail")["passed"])

    def test_silence_counts_only_of_a_proven_tool(self):
        planted = {"group": "sanitizers", "name": "m", "sanitizer": "memcheck", "expect": "fail"}
        clean = {"group": "sanitizers", "name": "x", "sanitizer": "memcheck", "expect": "pass"}
        other = {"group": "rows", "name": "x", "expect": "pass"}
        entries = [other, clean, planted]
        self.assertEqual(gpu_suite.select(entries, ["sanitizers"], "x"), [planted, clean])
        self.assertEqual(gpu_suite.select(entries, [], "x"), [planted, other, clean])
        self.assertEqual(gpu_suite.select(entries, ["rows"], ""), [other])
        result = {"passed": True, "text": ""}
        self.assertFalse(gpu_suite.unproven(clean, result, entries, set())["passed"])
        self.assertTrue(gpu_suite.unproven(clean, result, entries, {"memcheck"})["passed"])
        self.assertTrue(gpu_suite.unproven(clean, result, [clean], set())["passed"])

    def entries_of(self, count, **more):
        return [{"group": "rows", "name": f"row-{i}", "package": "p", "runs": [["--tokens=7"]], "expect": "pass", **more}
                for i in range(count)]

    def run_entries(self, entries):
        return gpu_suite.run_entries(entries, self.root, self.options, {"arch": "sm_90a", "commit": "c", "trees": {}, "entries": entries})

    def test_many_at_once(self):
        path = self.root / "bin" / "moec-run"
        path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(1)\nprint({json.dumps(GOOD)!r})\n")
        path.chmod(0o755)
        self.options.jobs, self.options.started = 6, time.time()
        results, skipped = self.run_entries(self.entries_of(6))
        self.assertLess(time.time() - self.options.started, 5)
        self.assertEqual((len(results), skipped), (6, []))
        self.assertTrue(all(result["passed"] for result in results))
        self.assertEqual(len(json.loads((self.root / "out.json").read_text())["results"]), 6)

    def test_within_cuts_off_and_skips(self):
        path = self.root / "bin" / "moec-run"
        path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n")
        path.chmod(0o755)
        self.options.within, self.options.started = 0.5, time.time()
        results, skipped = self.run_entries(self.entries_of(3))
        self.assertEqual((len(results), len(skipped)), (1, 2))
        self.assertFalse(results[0]["passed"])
        # What was cut off early is no hang.
        self.options.started = time.time()
        results, _ = self.run_entries(self.entries_of(1, hangs=True, expect="fail"))
        self.assertFalse(results[0]["passed"])

    def test_a_tool_may_be_proven_after_it_was_silent(self):
        planted = {"group": "sanitizers", "name": "m", "sanitizer": "memcheck", "expect": "fail"}
        clean = {"group": "sanitizers", "name": "x", "sanitizer": "memcheck", "expect": "pass"}
        good = {"passed": True, "text": ""}
        self.assertFalse(gpu_suite.judged([(clean, good)], [planted, clean], self.options)[0]["passed"])
        self.assertTrue(gpu_suite.judged([(clean, good), (planted, good)], [planted, clean], self.options)[0]["passed"])

    def test_slow_ones_begin_first(self):
        race, model, row = {"group": "sanitizers", "sanitizer": "racecheck"}, {"group": "models"}, {"group": "rows"}
        self.assertEqual(sorted([row, model, race], key=gpu_suite.slow_first), [race, model, row])

    def test_entries_of_some_tools(self):
        planted = {"group": "sanitizers", "name": "m", "sanitizer": "memcheck", "expect": "fail"}
        clean = {"group": "sanitizers", "name": "x", "sanitizer": "memcheck", "expect": "pass"}
        race = {"group": "sanitizers", "name": "x", "sanitizer": "racecheck", "expect": "pass"}
        entries = [clean, race, {"group": "rows", "name": "x", "expect": "pass"}, planted]
        self.assertEqual(gpu_suite.select(entries, [], "x", ["racecheck"]), [race])
        self.assertEqual(gpu_suite.select(entries, [], "x", ["memcheck"]), [planted, clean])
        self.assertEqual(gpu_suite.select(entries, ["sanitizers"], "", ["memcheck", "racecheck"]), [planted, clean, race])

    def test_planted_faults_that_run_elsewhere_prove_nothing_here(self):
        planted = {"group": "sanitizers", "name": "m", "sanitizer": "racecheck", "expect": "fail"}
        clean = {"group": "sanitizers", "name": "x", "sanitizer": "racecheck", "expect": "pass"}
        plain = {"group": "rows", "name": "x", "expect": "pass"}
        entries = [planted, clean, plain]
        self.assertEqual(gpu_suite.select(entries, [], "", elsewhere=True), [clean, plain])
        silent = gpu_suite.unproven(clean, {"passed": True, "text": ""}, entries, set(), True)
        self.assertTrue(silent["passed"])
        self.assertIn("another run says", silent["text"])
        self.assertFalse(gpu_suite.unproven(clean, {"passed": False, "text": "3 hazards"}, entries, set(), True)["passed"])
        self.assertEqual(gpu_suite.unproven(plain, {"passed": True, "text": ""}, entries, set(), True)["text"], "")


if __name__ == "__main__":
    unittest.main()
