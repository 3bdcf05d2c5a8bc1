#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/run/tune_models.py: the models that are tuned, the calls, the table. Needs no GPU."""

import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "run"))
import benchlib  # noqa: E402
import tune_models  # noqa: E402

DATA = benchlib.read(benchlib.DATA / "shapes.json")
# Writes a report as moec tune does. Fails for olmoe.
PROGRAM = """#!{python}
import json, sys
asked = dict(word[2:].split("=", 1) for word in sys.argv[3:])
open({calls!r}, "a").write(" ".join(sys.argv[1:]) + chr(10))
if "olmoe" in sys.argv[2]:
    sys.exit("no GPU")
json.dump({{"results": [{{"tokens": 16, "us": 98, "default_us": 100, "chosen": "measured"}},
                        {{"tokens": 128, "us": 100, "default_us": 100, "chosen": "default"}},
                        {{"tokens": 1024, "chosen": "none measured"}}]}}, open(asked["report"], "w"))
"""


class TuneModels(unittest.TestCase):
    def test_models_exist(self):
        for row in DATA["tuned"]["models"]:
            self.assertTrue((benchlib.ROOT / row["input"]).exists(), row)
        self.assertEqual([tune_models.name_of(row) for row in tune_models.wanted(DATA, ["kimi-k2"])], ["kimi-k2"])

    def test_a_name_that_is_none_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "--models: got 'kimi'; accepted are .*kimi-k2"):
            tune_models.wanted(DATA, ["olmoe-1b-7b", "kimi"])

    def test_a_table_and_a_failure(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "moec"
            program.write_text(PROGRAM.format(python=sys.executable, calls=str(folder / "calls")), encoding="utf-8")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            done = subprocess.run([sys.executable, BENCH / "run" / "tune_models.py", f"--moec={program}", f"--logs={folder / 'logs'}",
                                   f"--out={folder / 'rows.json'}", "--seconds=90", "--models=kimi-k2,olmoe-1b-7b"],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stdout.splitlines()[2:], ["| kimi-k2 tp=8 | 0.980 * | 1.000 |  |  |"])
            self.assertEqual(done.stderr.strip(), "tune_models.py: olmoe-1b-7b: no GPU")
            calls = (folder / "calls").read_text(encoding="utf-8").splitlines()
            self.assertEqual(len(calls), 2)
            for word in ("tune ", "--tp=8 ", "--tokens=16,128,1024,4096 ", "--budget=45 ", f"--out={folder / 'rows.json'}"):
                self.assertIn(word, calls[0])


if __name__ == "__main__":
    unittest.main()
