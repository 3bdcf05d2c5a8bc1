#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""counters.py on a table that Nsight Compute wrote on an H100 (Qwen3-30B in bf16, 8192 tokens; columns that nobody asked for
left out) and on a stand-in for it. Needs no GPU."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
RECORDED = pathlib.Path(__file__).resolve().parent / "Inputs" / "counters"
sys.path.insert(0, str(BENCH / "run"))
import counters  # noqa: E402

MANIFEST = json.loads((RECORDED / "manifest.json").read_text(encoding="utf-8"))
TABLE = (RECORDED / "8192.csv").read_text(encoding="utf-8")
ENTRIES = ["route", "permute", "gate_up", "down", "combine"]


def run(*words):
    return subprocess.run([sys.executable, BENCH / "run" / "counters.py", *map(str, words)], capture_output=True, text=True, check=False)


class ParseTest(unittest.TestCase):
    def test_the_raw_page(self):
        rows = counters.parse_csv(TABLE)
        self.assertEqual([row["entry"].split("_")[1] for row in rows], ["route", "permute", "grouped", "grouped", "combine"])
        self.assertEqual((rows[2]["ns"], rows[2]["memory_read"], rows[2]["tensor_percent"]), (676576, 1154718208, 75.38))

    def test_units_are_brought_to_one(self):
        text = '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum"\n"","","us","Mbyte"\n"0","f(Args)","1,500.5","2"\n'
        self.assertEqual(counters.parse_csv(text), [{"entry": "f", "ns": 1500500.0, "memory_read": 2e6}])

    def test_the_page_of_details(self):
        text = ('"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"1","g","gpu__time_duration.sum","ns","7"\n'
                '"0","f","gpu__time_duration.sum","us","2"\n"0","f","dram__bytes_read.sum","byte","n/a"\n"0","f","other","","1"\n')
        self.assertEqual(counters.parse_csv(text), [{"entry": "f", "ns": 2000.0}, {"entry": "g", "ns": 7.0}])

    def test_no_table_says_why(self):
        with self.assertRaisesRegex(ValueError, "no table: ==ERROR== ERR_NVGPUCTRPERM"):
            counters.parse_csv("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM\n")
        with self.assertRaisesRegex(ValueError, "no table$"):
            counters.parse_csv("")

    def test_metrics_that_the_gpu_has(self):
        listing = "dram__bytes_read   Counter  byte\n\ngpu__time_duration  Counter  ns\n"
        self.assertEqual([key for key, _ in counters.available(listing)], ["ns", "memory_read"])


    def test_what_warps_wait_for(self):
        prefix = "smsp__pcsamp_warps_issue_stalled_"
        text = (f'"ID","Kernel Name","Grid Size","gpu__time_duration.sum","device__attribute_multiprocessor_count","{prefix}barrier",'
                f'"{prefix}wait","{prefix}wait_not_issued","{prefix}selected"\n"","","","ns","","","","",""\n'
                '"0","f","(4, 2, 1)","7","132","30","10","9","60"\n')
        row, = counters.parse_csv(text)
        self.assertEqual(row, {"entry": "f", "ns": 7.0, "ctas": 8, "sms": 132, "stalls": {"barrier": 30.0, "wait": 10.0}})
        self.assertEqual(counters.waits_of(row), "barrier 75, wait 25")
        self.assertEqual(counters.waits_of({}), "")


class BoundTest(unittest.TestCase):
    def test_the_first_that_holds(self):
        for kernel, said in (({"memory_gbs": 2772, "tensor_percent": 99}, "memory"), ({"memory_gbs": 2771, "tensor_percent": 80}, "tensor"),
                             ({"l2_percent": 50, "fabric_percent": 81}, "L2"), ({"issue_percent": 80}, "issue"),
                             ({"shared_read_percent": 60, "shared_write_percent": 25, "shared_lsu_percent": 30}, "shared"),
                             ({"tensor_percent": 60, "l2_percent": 70}, "latency (L2 70 %)"),
                             ({"ctas": 100, "sms": 132, "memory_gbs": 308}, "few CTAs (memory 10 %)"),
                             ({"ctas": 132, "sms": 132, "sm_active_percent": 50, "issue_percent": 20}, "few CTAs (issue 20 %)")):
            self.assertEqual(counters.bound_by(kernel), said)

    def test_rows_of_several_token_counts(self):
        rows = [{"entry": name} for name in ("a", "b", "a")]
        launches = {1: [("", "a", []), ("", "b", [])], 8: [("", "a", [])]}
        self.assertEqual(counters.split(rows, launches), {1: rows[:2], 8: rows[2:]})
        with self.assertRaisesRegex(ValueError, "1 tokens: expected the launches a, b, got b, a"):
            counters.split(rows[1:], launches)


class TableTest(unittest.TestCase):
    def test_kernels_in_order_with_what_the_floor_counts(self):
        table = counters.kernels_of(MANIFEST, 8192, counters.parse_csv(TABLE), 128)
        self.assertEqual([kernel["kernel"] for kernel in table], ENTRIES)
        gate_up, down = table[2], table[3]
        # 128 experts of 1536 x 2048 and x; 128 experts of 2048 x 768; out.
        self.assertEqual(gate_up["floor_bytes"], 2 * (128 * 1536 * 2048 + 8192 * 2048))
        self.assertEqual(down["floor_bytes"], 2 * 128 * 2048 * 768)
        self.assertEqual(table[4]["floor_bytes"], 2 * 8192 * 2048)
        self.assertEqual(gate_up["l2_read"], 32 * 183671343)
        self.assertAlmostEqual(down["memory_gbs"], (503663104 + 257108480) / 362144)

    def test_without_touched_experts_there_is_no_floor(self):
        table = counters.kernels_of(MANIFEST, 8192, counters.parse_csv(TABLE), None)
        self.assertFalse(any("floor_bytes" in kernel for kernel in table))

    def test_a_launch_that_was_not_seen_is_left_out(self):
        rows = counters.parse_csv(TABLE)
        self.assertEqual([kernel["kernel"] for kernel in counters.kernels_of(MANIFEST, 8192, rows[:2] + rows[3:], 128)],
                         ["route", "permute", "down", "combine"])

    def test_scales_count(self):
        self.assertEqual(counters.scale_bytes({"n": 1536, "k": 2048, "rhs_group_rows": 128, "rhs_group_columns": 128}), 4 * 12 * 16)
        self.assertEqual(counters.scale_bytes({"n": 1536, "k": 2048, "rhs_group_rows": 1}), 4 * 1536)
        self.assertEqual(counters.scale_bytes({"n": 1536, "k": 2048}), 0)

    def test_unknown_names(self):
        target = MANIFEST["targets"][0]
        with self.assertRaisesRegex(ValueError, "no variant up_to_1"):
            counters.variant_of(target, 8192, "up_to_1")
        with self.assertRaisesRegex(ValueError, "no variant for 99999 tokens"):
            counters.variant_of(target, 99999)
        with self.assertRaisesRegex(ValueError, "no target sm_80"):
            counters.target_of(MANIFEST, "sm_80")


class NoteTest(unittest.TestCase):
    """counters_note.py on two cells that miss, of which one has counters."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        cells = [{"tokens": tokens, "us": 10.0, "ratio": ratio, "against": {"limit": 1.1, "met": ratio <= 1.1}}
                 for tokens, ratio in ((1, 1.2), (8, 1.0), (32, 1.5))]
        kernels = [{"kernel": "gate_up", "ns": 98000, "memory_gbs": 2800, "tensor_percent": 12.3}, {"kernel": "tiny", "ns": 1000},
                   {"kernel": "down", "ns": 3000, "tensor_percent": 85, "stalls": {"barrier": 3, "wait": 1}}]
        (self.root / "bench.json").write_text(json.dumps(
            {"packages": [{"shape": "qwen3-30b-a3b", "scheme": "bf16", "cells": cells}]}))
        (self.root / "counters.json").write_text(json.dumps(
            {"layers": [{"name": "qwen3_30b_a3b", "scheme": "bf16", "tokens": 32, "kernels": kernels}]}))

    def note(self, *words):
        return subprocess.run([sys.executable, BENCH / "run" / "counters_note.py", f"--bench={self.root / 'bench.json'}", *map(str, words)],
                              capture_output=True, text=True, check=False)

    def test_what_is_to_be_counted(self):
        self.assertEqual(self.note("--missed").stdout, "qwen3-30b-a3b-bf16 1,32\n")

    def test_every_cell_that_misses_stands_in_it(self):
        into = self.root / "note.md"
        into.write_text("above\n## Every cell that misses\nold\n")
        done = self.note("--counters", self.root / "counters.json", "--into", into)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no counters of qwen3-30b-a3b, bf16, 1 tokens", done.stderr)
        lines = into.read_text().splitlines()
        self.assertEqual(lines[:2], ["above", "## Every cell that misses"])
        self.assertIn("| qwen3-30b-a3b, bf16 | 32 | 10.0 | 1.50 | 1.10 | gate_up 96 % memory; down 3 % tensor |", lines)
        self.assertIn("| qwen3-30b-a3b, bf16 | 1 | 10.0 | 1.20 | 1.10 | no counters |", lines)
        self.assertIn("| qwen3-30b-a3b, bf16 | 32 | down | 3.0 | - | 85 | tensor | barrier 75, wait 25 |", lines)
        self.assertNotIn("old", lines)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def program(self, name, text):
        path = self.root / name
        path.write_text(f"#!{sys.executable}\nimport sys\n{text}")
        path.chmod(0o755)
        return path

    def test_a_recorded_table(self):
        done = run(RECORDED, "--tokens=8192", f"--csv={RECORDED / '8192.csv'}", "--touched=128", f"--json={self.root / 'out.json'}")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[0], "qwen3_30b_a3b bf16, 8192 tokens, 128 experts touched")
        self.assertEqual(lines[4].split(), "gate_up 676.6 1154.7 98.9 838.9 1853 5877.5 200.8 5206.7 67.4 - - 75.4 - - latency (tensor 75 %)".split())
        self.assertEqual(lines[-1], "  all: 1166.2 us one after another, 1929.8 MB read and 386.8 MB written; the floor counts 1277.2 MB")
        layer, = json.loads((self.root / "out.json").read_text())["layers"]
        self.assertEqual([kernel["kernel"] for kernel in layer["kernels"]], ENTRIES)

    def test_a_run(self):
        cell = {"packages": [{"cells": [{"tokens": 8192, "touched_experts": 128.0}]}]}
        ncu = self.program("ncu", f"""
if "--query-metrics" in sys.argv:
    print("gpu__time_duration Counter ns\\ndram__bytes_read Counter byte")
else:
    open(sys.argv[sys.argv.index("--log-file") + 1], "w").write({TABLE!r})
    open({str(self.root / 'said')!r}, "w").write(" ".join(sys.argv[1:]))
    print("==PROF==", {json.dumps(cell)!r})
""")
        done = run(RECORDED, "--tokens=8192", f"--ncu={ncu}", f"--keep={self.root / 'kept'}", "--bench=the-bench")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("128 experts touched", done.stdout)
        said = (self.root / "said").read_text()
        self.assertIn("--metrics gpu__time_duration.sum,dram__bytes_read.sum,group:smsp__pcsamp_warp_stall_reasons ", said)
        self.assertIn("--launch-count 5 ", said)
        self.assertIn(f" the-bench {RECORDED} --tokens=8192 ", said)
        self.assertTrue((self.root / "kept" / "counters-counters-8192.csv").exists())

    def test_what_is_wrong_is_said(self):
        denied = self.program("ncu", "print('==ERROR== ERR_NVGPUCTRPERM')\n")
        for words, status, text in (
                ([RECORDED, "--ncu=no-such-ncu"], 77, "SKIPPED: no Nsight Compute (no-such-ncu)"),
                ([RECORDED, "--tokens=8192", f"--ncu={denied}"], 1, "counters.py: Nsight Compute wrote no table: ==ERROR== ERR_NVGPUCTRPERM"),
                ([RECORDED, "--tokens=a"], 2, "expected --tokens as numbers separated by commas, got a"),
                ([RECORDED, "--tokens=1,2", "--csv=x"], 2, "--csv is of one token count"),
                ([self.root], 2, "expected a package with manifest.json"),
                ([RECORDED, "--tokens=1", f"--csv={RECORDED / '8192.csv'}"], 1, "counters.py: no variant for 1 tokens"),
                ([RECORDED, "--tokens=8192", f"--csv={self.program('none', '')}"], 1, "counters.py: Nsight Compute wrote no table")):
            done = run(*words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
