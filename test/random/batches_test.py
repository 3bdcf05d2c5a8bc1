#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""batches.py blames the right layer and the right line: stand-ins for its worker and for moec-check end as they are told to."""

import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import batches  # noqa: E402
import moec_testing  # noqa: E402

# Layer 3 ends the process while it is compiled, and layer 5 while its answer is written.
WORKER = """import json, os, sys
indices = sys.argv[sys.argv.index("--indices") + 1]
for index in map(int, indices.split(",")):
    drawn = {"layer": {"name": f"layer_{index}"}, "options": [], "max_tokens": 4, "runs": []}
    print(json.dumps({"index": index} | drawn), flush=True)
    if index == 3:
        print("it was layer 3", file=sys.stderr, flush=True)
        os.abort()
    words = {"index": index, "word": "refused" if index == 1 else "taken", "sentence": "no" if index == 1 else ""}
    answer = json.dumps(words | ({"layer": None} if index == 1 else drawn))
    if index == 5:
        print(answer[:20], end="", flush=True)
        os._exit(7)
    print(answer, flush=True)
"""
# Runs lines as moec-check does.
MOEC_RUN = """#!{python}
import json, os, pathlib, sys
cases = next(word.split("=", 1)[1] for word in sys.argv if word.startswith("--cases="))
for number, line in enumerate(pathlib.Path(cases).read_text().splitlines(), 1):
    what = line.split()[0]
    if what == "dies":
        os.abort()
    report = {{"line": number, "runs": [{{"passed": what != "wrong", "text": "row of token 5"}}], "status": int(what == "wrong")}}
    if what == "lacks":
        report = {{"line": number, "runs": [], "status": 2, "error": "expected a layer with ids"}}
    if what == "refuses":
        report = {{"line": number, "runs": [], "status": 2, "error": "no such thing"}}
    print(json.dumps(report), flush=True)
"""


class BatchesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def test_a_process_that_ends_is_blamed_on_the_layer_that_it_was_at(self):
        worker = self.root / "worker.py"
        worker.write_text(WORKER)
        shop = types.SimpleNamespace(library="", rows="", work="", arch="", most_work=1, sliced=0, cubins=False)
        with mock.patch.object(batches, "__file__", str(worker)):
            results = batches.compile_batch(shop, "seed", list(range(7)))
        self.assertEqual({index: word for index, (word, _, _) in results.items()},
                         {0: "taken", 1: "refused", 2: "taken", 3: "failed", 4: "taken", 5: "failed", 6: "taken"})
        self.assertEqual(results[3][1], "moec exited with -6: it was layer 3")
        self.assertEqual(results[3][2].layer, {"name": "layer_3"})
        self.assertEqual(results[5][1], "moec exited with 7: ")
        self.assertEqual(results[5][2].layer, {"name": "layer_5"})
        self.assertIsNone(results[1][2])

    def test_a_worker_that_never_began_is_no_layers_fault(self):
        worker = self.root / "worker.py"
        worker.write_text("import sys\nsys.exit('no library')\n")
        shop = types.SimpleNamespace(library="", rows="", work="", arch="", most_work=1, sliced=0, cubins=False)
        with mock.patch.object(batches, "__file__", str(worker)), self.assertRaisesRegex(RuntimeError, "before layer 0 .*no library"):
            batches.compile_batch(shop, "seed", [0, 1])

    def test_lines_are_judged_and_those_behind_a_dead_one_run(self):
        program = self.root / "moec-check"
        program.write_text(MOEC_RUN.format(python=sys.executable))
        program.chmod(0o755)
        packages = ["good", "wrong", "dies", "lacks", "good", "dies", "refuses"]
        faults = moec_testing.run_lines(program, [(package, ["--tokens=1"]) for package in packages], self.root / "cases",
                                         may_lack=True)
        self.assertEqual(faults, [None, "row of token 5", "moec-check exited with -6: ", None, None, "moec-check exited with -6: ",
                                  "exit 2: no such thing"])


if __name__ == "__main__":
    unittest.main()
