#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/run/choice.py: cells, logs that end anywhere, costs, the order in which layers are measured. Needs no GPU."""

import json
import pathlib
import stat
import sys
import tempfile
import types
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "run"))
import benchlib  # noqa: E402
import choice  # noqa: E402

DATA = benchlib.read(benchlib.DATA / "shapes.json")


def row(us, baseline, predicted, what="schedule", ok=True, tokens=1):
    return {"what": what, "ok": ok, "tokens": tokens, "us": us, "baseline_us": baseline, "predicted_us": predicted}


class Choice(unittest.TestCase):
    def test_cells_are_those_that_were_chosen_beforehand(self):
        every = list(choice.layers(DATA, []))
        self.assertEqual(len(every) * len(DATA["choice"]["tokens"]), 8 * 5 * 3)
        self.assertEqual(len({layer[0] for layer in every if layer[4]}), 3)
        self.assertEqual(len(list(choice.layers(DATA, ["olmoe-1b-7b/bf16", "int4_w4a16"]))), 9)
        with self.assertRaisesRegex(SystemExit, "--cells: got 'olmoe'; accepted are layers .*olmoe-1b-7b.* schemes .*bf16.* and layer/scheme"):
            list(choice.layers(DATA, ["bf16", "olmoe"]))
        for layer in every:
            self.assertTrue((benchlib.ROOT / layer[2]).exists(), layer)

    def test_a_log_counts_up_to_where_it_is_cut_off(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "a-bf16.jsonl"
            whole = [row(10, 9, 5), row(9, 9, 4, what="final"), row(1, 9, 4, ok=False), row(8, 10, 6)]
            log.write_text("\n".join(json.dumps(line) for line in whole) + '\n{"what": "sched', encoding="utf-8")
            self.assertEqual([line["us"] for line in choice.read_log(log)], [10, 8])
            self.assertEqual(choice.read_log(log.with_name("none.jsonl")), [])

    def test_costs_are_over_the_fastest_in_alternation(self):
        # The clock fell in between: ratios to the baseline of the same turns count.
        of_choice, of_model = choice.cost([row(100, 100, 3), row(90, 100, 2), row(100, 125, 4)])
        self.assertAlmostEqual(of_choice, 1.25)
        self.assertAlmostEqual(of_model, 0.9 / 0.8)
        self.assertEqual(choice.cost([row(110, 100, 3)]), (1.0, 1.1))

    def test_layers_with_few_measurements_come_first(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "moec"
            program.write_text(f"#!{sys.executable}\nimport sys\nopen({str(folder / 'calls')!r}, 'a').write(' '.join(sys.argv) + chr(10))\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            log = choice.log_of(folder, "olmoe-1b-7b", "bf16")
            log.write_text("\n".join(json.dumps(row(1, 1, 1, tokens=tokens)) for tokens in (1, 1, 128, 7)), encoding="utf-8")
            options = types.SimpleNamespace(seconds=60, cells="olmoe-1b-7b", logs=folder, moec=str(program))
            choice.measure(options, DATA)
            calls = (folder / "calls").read_text().splitlines()
            self.assertEqual(len(calls), 3)
            self.assertIn("--scheme=fp8_block", calls[0])
            self.assertIn("--scheme=bf16", calls[-1])
            self.assertIn("--tokens=1,16,128,1024,8192 ", calls[-1])
            self.assertIn("--budget=20 ", calls[0])
            lines = list(choice.table(options, DATA))
            self.assertEqual([line.split("  ")[0] for line in lines[1:3]], [f"olmoe-1b-7b/bf16 {tokens}, left out" for tokens in (1, 128)])
            self.assertEqual(lines[-2], "2 cells: the compiler's choice costs 1.000 in the mean and 1.000 at worst")

    def test_rows_and_a_picture_of_all_schedules(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            options = types.SimpleNamespace(logs=folder, csv=folder / "all.csv", plot=folder / "all.svg")
            half = {"schedule": {"engine": "wgmma", "tile": [64, 128, 64], "stages": 6, "swap": False}}
            lines = [row(90, 100, 80, tokens=16), row(100, 100, 70, tokens=16), row(20, 20, 20)]
            choice.log_of(folder, "olmoe-1b-7b", "bf16").write_text(
                "\n".join(json.dumps(line | {"first": half, "second": half, "noise": 0.01}) for line in lines), encoding="utf-8")
            choice.write_csv(options, DATA)
            made = options.csv.read_text(encoding="utf-8").splitlines()
            self.assertEqual(len(made), 4)
            schedule = "engine=wgmma tile=64x128x64 stages=6 swap=False"
            self.assertEqual(made[1], f"olmoe-1b-7b,bf16,1,{schedule},{schedule},20.0,20.0,20.0,0.0100")
            if choice.plot.matplotlib is None:
                self.skipTest("matplotlib is not installed")
            choice.draw(options, DATA)
            self.assertIn("the compiler's choice over the fastest schedule", options.plot.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
