#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""gpu_suite.py judges rightly: a stand-in for moec-check says what each case needs. Needs no GPU."""

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

# Runs lines as moec-check does, one after the other; what happens to each its package's name says.
STAND_IN = """import json, os, pathlib, sys, time
GOOD, BAD = map(json.loads, {reports!r})
cases = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--cases="))
lines = pathlib.Path(cases).read_text().splitlines()
with open({log!r}, "a") as log:
    print(len(lines), *[word for word in sys.argv if "at-once" in word], file=log)
for number, line in enumerate(lines, 1):
    what = line.split()[0]
    alone = len(lines) == 1
    report = {{"line": number, "package": what, "wall_ms": 1000, "on_device_ms": 500}}
    if what == "dies":
        os.abort()
    if what == "sleeps" or what == "late" and not alone:
        time.sleep(60)
    if what == "none":
        report |= {{"runs": [], "passed": False, "status": 1, "error": "no package"}}
    elif what == "kills":
        report |= {{"runs": [], "passed": False, "status": 1, "error": "CUDA_ERROR_ILLEGAL_ADDRESS", "driver_failed": True}}
    elif what == "full" and not alone:
        report |= {{"runs": [], "passed": False, "status": 1, "error": "CUDA_ERROR_OUT_OF_MEMORY", "driver_failed": True}}
    elif what == "hangs":
        report |= {{"runs": [], "passed": False, "status": 1, "error": "no end after 40 s on the device", "hung": True}}
    elif what == "bad" or what == "disturbed" and not alone:
        report |= BAD | {{"status": 1}}
    else:
        report |= GOOD | {{"status": 0}}
    print(json.dumps(report), flush=True)
    if report.get("driver_failed") or report.get("hung"):
        sys.exit(1)
sys.exit(0)
"""


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "bin").mkdir()
        self.options = types.SimpleNamespace(timeout=20, verbose=False, within=1e9, jobs=1, at_once=3, planted_elsewhere=False,
                                             device="cuda", started=time.time(), json=str(self.root / "out.json"))

    def tearDown(self):
        self.folder.cleanup()

    def script(self, path, output, status, errors=""):
        path.write_text(f"#!{sys.executable}\nimport sys\nprint({output!r})\nsys.stderr.write({errors!r})\n"
                        f"raise SystemExit({status})\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def result(self, output, status, errors="", **entry):
        self.script(self.root / "bin" / "moec-check", output if isinstance(output, str) else json.dumps(output), status,
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
        error = "moec-check: cuCtxSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS (700) [driver_failed]\n"
        for output in ("", BAD):
            result = self.result(output, 1, error, expect="fail")
            self.assertTrue(result["passed"])
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", self.result("", 1, error, expect="fail")["text"])
        self.assertFalse(self.result("", 1, error)["passed"])
        for status in (0, 2, 134):
            self.assertFalse(self.result("", status, error, expect="fail")["passed"], status)
            self.assertFalse(self.result(BAD, status, error, expect="fail")["passed"], status)

    def test_a_hang_is_caught_where_the_fault_may_hang(self):
        path = self.script(self.root / "bin" / "moec-check", "", 0)
        path.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(30)\n")
        entry = {"group": "mutants", "name": "x", "package": "p", "runs": [["--tokens=7"]], "expect": "fail"}
        self.options.timeout = 0.5
        self.assertFalse(gpu_suite.run_entry(entry, self.root, self.options)["passed"])
        result = gpu_suite.run_entry({**entry, "hangs": True}, self.root, self.options)
        self.assertTrue(result["passed"])
        self.assertIn("no end after", result["text"])
        self.assertFalse(gpu_suite.run_entry({**entry, "hangs": True, "expect": "pass"}, self.root, self.options)["passed"])

    def test_a_wait_without_end_must_say_which(self):
        entry = {"expect": "fail", "hangs": True, "environment": {"MOEC_SPIN_DEADLINE": "2000"}, "says": "a phase ends in time"}
        error = "deadline.cuh:9: wait: block: [0,0,0], thread: [0,0,0] Assertion `a phase ends in time` failed.\nCUDA_ERROR_ASSERT"
        self.assertTrue(self.result(BAD, 1, error, **entry)["passed"])
        self.assertTrue(self.result("", 1, error, **entry)["passed"])
        self.assertIn("nothing says", self.result(BAD, 1, "CUDA_ERROR_ASSERT", **entry)["text"])
        self.assertFalse(self.result("", 1, "CUDA_ERROR_LAUNCH_FAILED", **entry)["passed"])
        # The environment is the process's own.
        path = self.root / "bin" / "moec-check"
        path.write_text(f"#!{sys.executable}\nimport os\nprint({json.dumps(GOOD)!r} if 'MOEC_SPIN_DEADLINE' in os.environ else '')\n")
        whole = {"group": "mutants", "name": "x", "package": "p", "runs": [["--tokens=7"]], "expect": "pass"}
        self.assertTrue(gpu_suite.run_entry({**whole, "environment": entry["environment"]}, self.root, self.options)["passed"])
        self.assertFalse(gpu_suite.run_entry(whole, self.root, self.options)["passed"])

    def test_each_run_is_judged_by_its_line(self):
        runs = [["--tokens=1"], ["--tokens=2"], ["--tokens=3"]]
        lines = [{**GOOD, "status": 0}, {"passed": False, "status": 2, "runs": [], "error": "expected logits, got ids"}, {**BAD, "status": 1}]
        text = "\n".join(map(json.dumps, lines))
        refused = self.result(text, 2, runs=runs, refusable=True)
        self.assertEqual((refused["calls"], refused["worst"]["runs"]), (2, 3))
        self.assertIn("row of token 5 [--tokens=3]", refused["text"])
        self.assertIn("expected logits, got ids [--tokens=2]", self.result(text, 2, runs=runs)["text"])
        # A run without a line was not run.
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

    def run_entries(self, entries):
        return gpu_suite.run_entries(entries, self.root, self.options, {"arch": "sm_90a", "commit": "c", "trees": {}, "entries": entries})

    def run_lines(self, *packages, **more):
        """Results by package, entries that were not run, and how many lines each process was given."""
        log = self.root / "log"
        log.write_text("")
        path = self.root / "bin" / "moec-check"
        path.write_text(f"#!{sys.executable}\n" + STAND_IN.format(
            reports=[json.dumps(GOOD), json.dumps(BAD)], log=str(log)))
        path.chmod(0o755)
        self.options.started = time.time()
        entries = [{"group": "rows", "name": f"{i}-{package}", "package": package, "runs": [["--tokens=7"]], "expect": "pass", **more}
                   for i, package in enumerate(packages)]
        results, skipped = self.run_entries(entries)
        written = json.loads((self.root / "out.json").read_text())
        self.assertEqual(len(written["results"]), len(results))
        self.assertEqual(written["not_run"], [entry["name"] for entry in skipped])
        names = [result["name"] for result in results]
        self.assertEqual(len(names), len(set(names)), "each is judged once")
        self.calls = [line.split() for line in log.read_text().splitlines()]
        return {result["name"]: result for result in results}, skipped, [int(call[0]) for call in self.calls]

    def test_one_process_runs_many(self):
        results, skipped, calls = self.run_lines("good", "good", "good", runs=[["--tokens=7"], ["--tokens=8"]])
        self.assertEqual(([result["passed"] for result in results.values()], skipped, calls), ([True] * 3, [], [6]))
        self.assertEqual((results["0-good"]["calls"], results["0-good"]["seconds"], results["0-good"]["device_seconds"]), (2, 2, 1))
        self.assertIn("--at-once=3", self.calls[0])

    def test_a_line_that_fails_hinders_no_other(self):
        results, _, calls = self.run_lines("good", "bad", "none", "good")
        self.assertEqual([result["passed"] for result in results.values()].count(True), 2)
        self.assertIn("row of token 5", results["1-bad"]["text"])
        self.assertIn("alone: tokens 33", results["1-bad"]["text"])
        self.assertIn("no package", results["2-none"]["text"])
        self.assertEqual(calls, [4, 1, 1])

    def test_what_fails_beside_others_alone_stays_a_failure(self):
        results, _, _ = self.run_lines("good", "disturbed", "good")
        self.assertFalse(results["1-disturbed"]["passed"])
        self.assertIn("; alone: passes", results["1-disturbed"]["text"])

    def test_no_memory_beside_others_is_no_failure(self):
        results, _, calls = self.run_lines("good", "full", "good")
        self.assertTrue(results["1-full"]["passed"])
        self.assertEqual(calls, [3, 1, 1])

    def test_it_goes_on_behind_the_line_that_ended_a_process(self):
        results, skipped, calls = self.run_lines("good", "kills", "good", "hangs", "good", "good")
        self.assertEqual([name for name, result in results.items() if not result["passed"]], ["1-kills", "3-hangs"])
        self.assertEqual((len(results), skipped), (6, []))
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", results["1-kills"]["text"])
        self.assertIn("no end after 40 s", results["3-hangs"]["text"])
        self.assertEqual(calls, [6, 1, 4, 1, 2])

    def test_a_process_that_dies_does_not_say_of_what(self):
        results, skipped, calls = self.run_lines("good", "dies", "good", "good", "good")
        self.assertEqual([name for name, result in results.items() if not result["passed"]], ["1-dies"])
        self.assertEqual((len(results), skipped), (5, []))
        # Three were at once: each of them alone, then the rest.
        self.assertEqual(calls, [5, 1, 1, 1, 1])

    def test_a_process_without_news_is_ended(self):
        self.options.timeout = 2
        results, _, calls = self.run_lines("good", "late", "sleeps", "good", "good")
        self.assertEqual([name for name, result in results.items() if not result["passed"]], ["2-sleeps"])
        self.assertEqual(calls, [5, 1, 1, 1, 1])

    def test_faults_are_planted_one_at_a_time(self):
        results, _, calls = self.run_lines("bad", "kills", "good", "hangs", "none", expect="fail", hangs=True)
        self.assertEqual({name: result["passed"] for name, result in results.items()},
                         {"0-bad": True, "1-kills": True, "2-good": False, "3-hangs": True, "4-none": False})
        self.assertEqual(calls, [5, 3, 1])
        self.assertTrue(all("--at-once=1" in call for call in self.calls))
        # A hang counts only where the fault may hang.
        self.assertFalse(self.run_lines("hangs", expect="fail")[0]["0-hangs"]["passed"])

    def test_within_cuts_off_and_skips(self):
        self.options.within = 2.5
        results, skipped, _ = self.run_lines("good", "bad", "sleeps", "good")
        self.assertEqual((sorted(results), [entry["package"] for entry in skipped]), (["0-good", "1-bad"], ["sleeps", "good"]))
        # A run that failed stays known, and so does that it was one of a fault.
        results, skipped, _ = self.run_lines("sleeps", expect="fail", hangs=True)
        self.assertEqual((results, len(skipped)), ({}, 1))

    def test_parts_and_what_is_left(self):
        planted = {"group": "sanitizers", "name": "m", "sanitizer": "memcheck", "expect": "fail"}
        clean = [{"group": "sanitizers", "name": f"x{i}", "sanitizer": "memcheck", "expect": "pass"} for i in range(5)]
        entries = [planted, *clean]
        row = {"group": "rows", "name": "x", "expect": "pass"}
        parts = [gpu_suite.part_of([*entries, row], part, 2) for part in (1, 2)]
        self.assertEqual([part[0] for part in parts], [planted, planted])
        self.assertCountEqual([entry["name"] for part in parts for entry in part[1:]], [entry["name"] for entry in [*clean, row]])
        self.assertEqual([len(part) for part in parts], [5, 3])
        results = [{"group": "sanitizers", "name": "m (memcheck)", "passed": True}, {"group": "sanitizers", "name": "x3 (memcheck)", "passed": True},
                   {"group": "sanitizers", "name": "x4 (memcheck)", "passed": False}, {"group": "rows", "name": "x1 (memcheck)", "passed": True}]
        self.assertEqual(gpu_suite.without(entries, results), [planted, clean[0], clean[1], clean[2], clean[4]])

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
