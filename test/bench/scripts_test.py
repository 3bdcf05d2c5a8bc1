#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bench's scripts: shapes, floors by hand and against the baseline, targets, tables, and what run_all.sh does with a
stand-in for moec-bench. Needs no GPU."""

import contextlib
import io
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "run"))
import benchlib  # noqa: E402
import compile_cells  # noqa: E402
import short_table  # noqa: E402
import skew  # noqa: E402
import summarize  # noqa: E402
import targets  # noqa: E402
import thermometer  # noqa: E402

RESULT = pathlib.Path(__file__).resolve().parent / "Inputs" / "result.json"
SCHEMES = ("bf16", "fp8_block", "fp8_channel")


def shape(name):
    return next(row for row in benchlib.shapes() if row["shape"] == name)


def report(name="qwen3_30b_a3b", ratio=1.2, **fields):
    against = {"peer": "vllm", "us": 43.2, "ratio": 1.5, "ours_over_theirs": ratio / 1.5, "target": 1.35, "limit": 1.35,
               "met": ratio <= 1.35}
    cell = {"tokens": 1, "us": 24 * ratio, "floor_us": 24.0, "ratio": ratio, "tflops": 2.0, "touched_experts": 8.0,
            "variant": "up_to_128", "regime": "decode", "schedules": "gate_up", "against": against}
    package = {"package": "/somewhere", "name": name, "shape": name, "scheme": "bf16", "arch": "sm_90a",
               "layer": {"name": name, "quant": {"name": "bf16"}}, "cells": [cell]}
    made = {"moec_bench": 3, "device": "NVIDIA H100 80GB HBM3", "bandwidth_gbs": 3150, "matmul_tflops": 781, "fp8_tflops": 1402,
            "rates_source": "measured", "bandwidth_by": "read", "before_gbs": 3070.0, "after_gbs": 3080.0, "suspect": False,
            "seed": 1, "packages": [package]}
    made.update(fields)
    return made


class DataTest(unittest.TestCase):
    def cells(self, gpu):
        cells = benchlib.read(benchlib.DATA / "targets.json")["cells"]
        return {(cell["shape"], cell["scheme"], cell["tokens"]): cell for cell in cells if cell["gpu"] == gpu}

    def test_every_cell_of_16_and_8_bits_has_a_baseline(self):
        keys = {key for key in self.cells("h100_sxm") if key[1] in SCHEMES}
        self.assertEqual({key for key in benchlib.baseline() if key[1] in SCHEMES}, keys)
        self.assertEqual(len(keys), 111)

    def test_every_row_of_a_baseline_is_a_cell(self):
        for gpu, cells in (("h100_sxm", 167), ("h200_sxm", 167)):
            self.assertEqual(set(benchlib.baseline(gpu)) - set(self.cells(gpu)), set())
            self.assertEqual(len(self.cells(gpu)), cells)
        self.assertEqual(benchlib.baseline("h20"), {})

    def test_cells_without_a_peer(self):
        alone = {gpu: sorted({key[:2] for key, cell in self.cells(gpu).items() if "baseline" not in cell})
                 for gpu in ("h100_sxm", "h200_sxm")}
        nobody = ("qwen3-30b-a3b", "nvfp4_w4a16")
        self.assertEqual(alone["h100_sxm"], [("qwen3-30b-a3b", "mxfp4_w4a16"), nobody])
        self.assertEqual([key for key in alone["h200_sxm"] if key[1] not in SCHEMES],
                         [("deepseek-v3-tp8", "int4_w4afp8"), ("gpt-oss-120b", "mxfp4_w4a16"), nobody])
        # Cells of 16 and 8 bits: those of the most tokens.
        self.assertEqual({key[2] for key, cell in self.cells("h200_sxm").items() if key[1] in SCHEMES and "baseline" not in cell},
                         {16384})

    def test_every_file_of_cells_is_a_shape(self):
        self.assertEqual({path.stem for path in (benchlib.DATA / "cells").glob("*.json")}, {row["shape"] for row in benchlib.shapes()})

    def test_ratio_is_time_over_floor(self):
        for key, row in (*benchlib.baseline().items(), *benchlib.baseline("h200_sxm").items()):
            # Floors are written with one digit, ratios with two.
            self.assertAlmostEqual(row["us"] / row["floor_us"], row["ratio"], delta=0.006 + 0.06 * row["ratio"] / row["floor_us"], msg=key)

    def test_shares_of_a_rank(self):
        self.assertEqual(shape("qwen3-235b-a22b-tp4")["intermediate_size_per_partition"], 384)
        spread = shape("deepseek-v3-ep8")
        self.assertEqual((spread["local_experts"], spread["intermediate_size_per_partition"]), (32, 2048))
        sharded = shape("deepseek-v3-tp8")
        self.assertEqual((sharded["local_experts"], sharded["intermediate_size_per_partition"]), (256, 256))

    def test_targets_json_is_what_targets_py_makes(self):
        self.assertEqual((benchlib.DATA / "targets.json").read_text(encoding="utf-8"), targets.text_of(targets.make()))


class FloorTest(unittest.TestCase):
    def test_bytes_of_an_expert_by_hand(self):
        qwen = shape("qwen3-30b-a3b")
        self.assertEqual(benchlib.expert_bytes(qwen, "bf16"), 2 * 3 * 768 * 2048)
        # 1536 x 2048 has 12 x 16 blocks, 2048 x 768 has 16 x 6.
        self.assertEqual(benchlib.expert_bytes(qwen, "fp8_block"), 3 * 768 * 2048 + 4 * (192 + 96))
        self.assertEqual(benchlib.expert_bytes(qwen, "fp8_channel"), 3 * 768 * 2048 + 4 * (1536 + 2048))
        # A bf16 scale for 128 columns of K, an e8m0 for 32, an e4m3 for 16.
        self.assertEqual(benchlib.expert_bytes(qwen, "int4_w4a16"), 3 * 768 * 2048 // 2 + 2 * (1536 * 16 + 2048 * 6))
        self.assertEqual(benchlib.expert_bytes(qwen, "mxfp4_w4a16"), 3 * 768 * 2048 // 2 + 1536 * 64 + 2048 * 24)
        self.assertEqual(benchlib.expert_bytes(qwen, "nvfp4_w4a16"), 3 * 768 * 2048 // 2 + 1536 * 128 + 2048 * 48)
        with self.assertRaises(ValueError):
            benchlib.expert_bytes(qwen, "int4")

    def test_floors_by_hand(self):
        qwen = shape("qwen3-30b-a3b")
        # 8 * 9437184 + 8448 bytes at 3150 GB/s.
        self.assertAlmostEqual(benchlib.floor_us(qwen, "bf16", 1, 8, 8), 23.970, places=3)
        # 6 * 65536 * 2048 * 768 flops at 781 and at 1402 TFLOP/s.
        self.assertAlmostEqual(benchlib.floor_us(qwen, "bf16", 8192, 128, 65536), 791.902, places=3)
        self.assertAlmostEqual(benchlib.floor_us(qwen, "fp8_block", 8192, 128, 65536), 441.138, places=3)

    def test_floors_of_the_baseline(self):
        # All local experts are touched from 512 tokens on. Rows by row-scaled peers counted fewer bytes of scales.
        for gpu, rates in (("h100_sxm", benchlib.RATES), ("h200_sxm", benchlib.RATES_H200)):
            for (name, scheme, tokens), row in benchlib.baseline(gpu).items():
                if tokens >= 512:
                    numbers = shape(name)
                    pairs = tokens * numbers["top_k"] * numbers["local_experts"] / numbers["num_experts"]
                    floor = benchlib.floor_us(numbers, scheme, tokens, numbers["local_experts"], pairs, rates)
                    # The pairs of a part of the experts scatter.
                    delta = 0.006 if pairs == tokens * numbers["top_k"] else 0.02
                    self.assertAlmostEqual(floor / row["floor_us"], 1, delta=delta, msg=(gpu, name, scheme, tokens))

    def test_floors_of_the_first_result(self):
        bench = benchlib.read(RESULT)["bench"]
        for package in bench["packages"]:
            numbers = shape(benchlib.shape_of(package["layer"], benchlib.shapes()))
            for cell in package["cells"]:
                floor = benchlib.floor_us(numbers, "bf16", cell["tokens"], cell["touched_experts"], cell["tokens"] * numbers["top_k"])
                self.assertAlmostEqual(floor, cell["floor_us"], places=6)


class TargetTest(unittest.TestCase):
    equal = {"within": 0.02, "below": 1.10}

    def test_the_smaller_counts(self):
        self.assertEqual(targets.target(1.35, 1.74, self.equal), (1.35, 1.35))
        self.assertEqual(targets.target(1.35, 1.13, self.equal), (1.13, 1.13))

    def test_two_percent_are_equal_under_a_best_of_1_10(self):
        self.assertEqual(targets.target(1.12, 1.05, self.equal), (1.05, 1.071))
        self.assertEqual(targets.target(1.12, 1.10, self.equal), (1.10, 1.10))

    def test_a_gpu_whose_table_counts_without_a_peer_alone(self):
        key, peer = ("g", "s", "int4_w4a16", 8), {"peer": "p", "version": "1", "us": 2.0, "ratio": 1.6, "floor_us": 1.25}
        both = targets.cell_of(key, "int4", 1.3, peer, True, self.equal)
        self.assertEqual((both["target"], both["row"], both["baseline"]["version"]), (1.3, "int4", "1"))
        theirs = targets.cell_of(key, "int4", 1.3, peer, False, self.equal)
        self.assertEqual((theirs["target"], "table" in theirs), (1.6, False))
        alone = targets.cell_of(key, "int4", 1.3, None, False, self.equal)
        self.assertEqual((alone["target"], alone["limit"], alone["row"], "baseline" in alone), (1.3, 1.3, "int4", False))


class TableTest(unittest.TestCase):
    def test_skew_table(self):
        key = ("qwen3-30b-a3b", "bf16", 512)
        runs = {("uniform", False): {key: 100.0}, ("hot:8", False): {key: 52.0}, ("hot:8", True): {key: 40.0}}
        lines = list(skew.lines(runs, 1.25, {(*key, "hot:8"): 50.0}))
        self.assertIn("100.0 (-)", lines[1])
        self.assertIn("52.0 (1.30!, 1.04)", lines[1])
        self.assertEqual(lines[2], "1 cells beside dealt ones, 1 above 1.25")
        runs["hot:8", False] = {key: 50.0}
        self.assertIn("50.0 (1.25)", list(skew.lines(runs, 1.25, {}))[1])

    def test_skew_has_peers_of_one_gpu(self):
        folder, cells = BENCH / "baseline", benchlib.read(benchlib.DATA / "shapes.json")["skew"]
        peers = skew.baseline(folder, "h200_sxm")
        self.assertEqual(skew.baseline(folder, "h100_sxm"), {})
        self.assertEqual(skew.baseline(folder, ""), {})
        self.assertEqual({key[3] for key in peers}, set(cells["routings"]))
        self.assertEqual({key[2] for key in peers}, set(cells["tokens"]))
        self.assertEqual(len(peers), 60)

    def test_short_table(self):
        lines = list(short_table.lines([report(), report(name="hot", ratio=1.6, suspect=True)]))
        self.assertIn("1.20 (0.80)", lines[2])
        self.assertIn("hot/bf16 HOT", lines[3])
        self.assertIn("1.60!(1.07)", lines[3])
        self.assertEqual(lines[-1], "2 cells with a target: 1 met, 1 faster than the best of today's systems")

    def test_short_table_of_several_counts(self):
        bad = report()
        bad["packages"][0]["cells"].append({"tokens": 64, "ratio": 1.0})
        lines = list(short_table.lines([bad, report(before_gbs=0, after_gbs=0)]))
        self.assertEqual(lines[1].split(), ["1", "64"])
        self.assertEqual(lines[2].split(), ["qwen3_30b_a3b/bf16", "1.20", "(0.80)", "1.00"])
        self.assertEqual(lines[3].split(), ["qwen3_30b_a3b/bf16", "1.20", "(0.80)", "-"])
        self.assertEqual(lines[4], "reads: 3070 to 3080 GB/s; the floor's: 3150")
        self.assertEqual(lines[5], "2 cells with a target: 2 met, 2 faster than the best of today's systems")
        same = report()
        same["packages"][0]["cells"][0]["against"]["ours_over_theirs"] = 1.0
        self.assertIn("1 met, 0 faster", list(short_table.lines([same]))[-1])
        self.assertEqual(len(list(short_table.lines([report(before_gbs=0, after_gbs=0)]))), 4)

    def test_skew_calls_of_moec_bench(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "moec-bench"
            program.write_text(f"#!{sys.executable}\nimport sys\nif '--fail' in sys.argv:\n  sys.exit('no GPU')\n"
                               "import json; print(json.dumps(sys.argv[1:]))\n")
            program.chmod(0o755)
            options = types.SimpleNamespace(tokens="32,64", more=["--passes=1"])
            with unittest.mock.patch.object(skew, "HERE", folder):
                words = skew.run([folder / "a.moec"], "hot:8", False, options)
                self.assertEqual(words, [f"{folder}/a.moec", "--routing=hot:8", "--tokens=32,64", f"--targets={folder}/targets.json",
                                         "--json", "--passes=1"])
                self.assertEqual(skew.run([folder / "a.moec"], "hot:8", True, options), [*words, "--dealt"])
                options.more = ["--fail"]
                with self.assertRaisesRegex(SystemExit, "skew.py: .*moec-bench .*: no GPU"):
                    skew.run([folder / "a.moec"], "hot:8", True, options)
        self.assertEqual(skew.times(report()), {("qwen3_30b_a3b", "bf16", 1): 24 * 1.2})
        key = ("s", "bf16", 1)
        lines = list(skew.lines({("uniform", False): {}, ("hot:8", False): {key: 50.0}, ("hot:8", True): {key: 40.0}}, 1.25, {}))
        self.assertEqual((lines[0].split("  ")[0], lines[1].split()), ("us (over dealt evenly)", ["s/bf16", "1", "-", "50.0", "(1.25)"]))
        self.assertEqual(lines[-1], "1 cells beside dealt ones, 0 above 1.25")
        lines = list(skew.lines({("hot:8", False): {key: 50.0}, ("hot:8", True): {key: 40.0}}, 1.25, {(*key, "hot:8"): 25.0}))
        self.assertTrue(lines[0].startswith("us (over dealt evenly, over the best other)"))
        self.assertIn("50.0 (1.25, 2.00)", lines[1])

    def test_cells_without_another_system(self):
        alone = report()
        alone["packages"][0]["cells"][0]["against"] = {"target": 1.1, "limit": 1.1, "met": False}
        lines = list(short_table.lines([alone, report()]))
        self.assertIn("1.20!(-)", lines[2])
        self.assertEqual(lines[-1], "2 cells with a target: 1 met, 1 faster than the best of today's systems; 1 without another system")
        cell = alone["packages"][0]["cells"][0]
        self.assertEqual(summarize.against(alone["packages"][0], cell, {}), ("1.10 missed", "", "", ""))

    def test_targets_of_the_gpu_of_a_result(self):
        self.assertEqual([benchlib.gpu_of(f"NVIDIA {name}") for name in ("H100 80GB HBM3", "H200", "GH200 480GB")],
                         ["h100_sxm", "h200_sxm", ""])

    def test_cells_that_failed_are_said(self):
        bad = report()
        bad["packages"][0]["errors"] = [{"tokens": 8, "error": "out of memory"}]
        self.assertIn("  8 tokens: out of memory", list(short_table.lines([bad])))

    def test_markdown_of_results(self):
        text = summarize.markdown(benchlib.read(RESULT))
        self.assertIn("| 1 | 36.1 | 24.0 | 1.508 | 1.35 missed | 1.74 | 0.87 | vllm_tuned |", text)
        self.assertIn("Not run: 0. A mutant passes when its fault is caught.", text)
        self.assertIn("Pure reads before and after reached 3073 to 3081 GB/s: not marked suspect.", text)

    def test_checks_of_several_programs(self):
        source = {"arch": "sm_90a", "commit": "c", "trees": {"runtime": "r"}}
        parts = [{**source, "results": [{"group": "models", "name": "a", "passed": True}, {"group": "limits", "name": "b", "passed": False}],
                  "not_run": ["x", "y"]},
                 {**source, "results": [{"group": "limits", "name": "c", "passed": False}]},
                 {**source, "arch": "sm_80", "results": [{"group": "limits", "name": "d", "passed": True}]}]
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / f"{index}.json" for index in range(3)]
            for path, part in zip(paths, parts):
                path.write_text(json.dumps(part))
            merged = summarize.merge_checks(paths)
        self.assertEqual(merged["sources"], [source, {**source, "arch": "sm_80"}])
        self.assertEqual([(row["name"], row["source"]) for row in merged["results"]], [("a", 0), ("b", 0), ("c", 0), ("d", 1)])
        summary = summarize.summary_of_checks(merged)
        self.assertEqual(summary, {"groups": {"models": {"passed": 1, "failed": 0, "failures": []},
                                              "limits": {"passed": 1, "failed": 2, "failures": ["b", "c"]}}, "not_run": 2})
        text = summarize.markdown({"provenance": dict.fromkeys(("date", "name", *summarize.TREES), "z"), "checks": summary})
        self.assertIn("| models | 1 | 0 |\n| limits | 1 | 2, b, c |", text)
        self.assertIn("Not run: 2.", text)

    def test_times_of_loads(self):
        def kind(number):
            return {"rounds": 3, "best_ms": number - 1, "worst_ms": number + 1, "phases": {"ready_ms": number, "context_ms": 2 * number}}

        load = {"cold": kind(10), "ahead_of_time": kind(20), "usable_threads": 4, "input": "/somewhere/config.json"}
        load["cold"]["phases"]["package_ms"] = 5
        self.assertEqual(summarize.load_lines(load)[2:], [
            "|  | cold | ahead of time |", "| --- | --- | --- |", "| call to all functions loaded | 10.0 | 20.0 |",
            "| of that: config.json to package | 5.0 |  |", "| before: context | 20.0 | 40.0 |", "| best round | 9.0 | 19.0 |",
            "| worst round | 11.0 | 21.0 |", ""])
        self.assertEqual(summarize.load_lines(load)[0],
                         "Medians in ms of 3 fresh processes of each kind, 4 usable threads, from `config.json`.")
        text = "\n".join(summarize.thermometer_lines({"off": True, "torch": "2.x", "cells": [], "rates": [], "errors": ["none"]}))
        self.assertIn("**More than 5 % off**: PyTorch 2.x", text)
        self.assertIn("* not timed: none", text)
        self.assertNotIn("off", "\n".join(summarize.thermometer_lines({"off": False, "torch": "2", "cells": [], "rates": [], "errors": []})))

    def test_what_the_page_says_of_a_bench(self):
        bench = report(suspect=True)
        package = bench["packages"][0]
        package["suspect"] = True
        package["errors"] = [{"tokens": 8, "error": "out of memory"}]
        fp8 = {**package, "suspect": False, "layer": {"name": "x", "quant": {"name": "fp8_block"}}}
        bench["packages"].append(fp8)
        text = "\n".join(summarize.bench_lines(bench))
        self.assertIn("Floor: 3150 GB/s and 781 TFLOP/s, 1402 TFLOP/s where both operands have 8 bits (measured).", text)
        self.assertIn("Pure reads before and after reached 3070 to 3080 GB/s: more than 5 % off: the run is **suspect**.", text)
        self.assertIn("### qwen3_30b_a3b (bf16, sm_90a, **suspect**)", text)
        self.assertIn("### qwen3_30b_a3b (fp8_block, sm_90a)", text)
        self.assertIn("* 8 tokens: out of memory", text)
        # 2 of 781 and of 1402 TFLOP/s.
        self.assertIn("| 1 | 28.8 | 24.0 | 1.200 | 1.35 | 1.50 | 0.80 | vllm | 2.0 | 0.3 | 8.0 | decode | up_to_128 | gate_up |", text)
        self.assertIn(" | vllm | 2.0 | 0.1 | 8.0 |", text)
        bench["bandwidth_by"] = "copy"
        del bench["fp8_tflops"], bench["packages"][1]
        text = "\n".join(summarize.bench_lines(bench))
        self.assertIn("Floor: 3150 GB/s and 781 TFLOP/s (measured).\nNo pure read was timed in this run", text)
        # A result without targets is compared with the files of today.
        cell = package["cells"][0]
        del cell["against"]
        for name, ratio, mark in (("qwen3-30b-a3b", 1.35, ""), ("qwen3-30b-a3b", 1.3501, " missed"), ("none", 1.0, None)):
            known = {("qwen3-30b-a3b", "bf16", 1): {"target": 1.35, "limit": 1.35, "baseline": {"peer": "p", "ratio": 1.5}}}
            said = summarize.against({**package, "shape": name}, {**cell, "ratio": ratio}, known)
            self.assertEqual(said, ("", "", "", "") if mark is None else (f"1.35{mark}", "1.50", "0.90", "p"))
        self.assertEqual(summarize.reads({"before_gbs": 3000.0, "after_gbs": 0}, []), "3000 GB/s")

    def test_a_page_is_written(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, value in (("bench.json", report(driver_version=13020)), ("load.json", {"cold": {
                    "rounds": 1, "best_ms": 1, "worst_ms": 1, "phases": {}}, "usable_threads": 1, "input": "i"}),
                    ("checks.json", {"results": [], "not_run": []})):
                (folder / file).write_text(json.dumps(value))
            words = ["summarize.py", "--date=2026-01-02", "--name=h100-what", "--bench", name + "/bench.json", "--load", name + "/load.json",
                     "--checks", name + "/checks.json", "--note=a note", "--commit=c", f"--out={name}", f"--raw={name}"]
            asked = []
            with unittest.mock.patch.object(sys, "argv", words), contextlib.redirect_stdout(io.StringIO()), \
                    unittest.mock.patch.object(summarize, "git", lambda *words: asked.append(words[-1]) or f"<{words[-1]}>"):
                self.assertEqual(summarize.main(), 0)
            self.assertEqual(asked, ["c", "c:templates", "c:runtime", "c:compiler"])
            page = (folder / "2026-01-02-h100-what.md").read_text()
            for line in ("| device | NVIDIA H100 80GB HBM3 |", "| driver | CUDA 13.2 |", "| commit | <c> |", "| note | a note |",
                         "| tree of runtime/ | <c:runtime> |", "## Layers", "## Loading", "## Checks on the GPU"):
                self.assertIn(line, page)
            self.assertTrue((folder / "2026-01-02-h100-checks.json").exists())
            (folder / "2026-01-02-h100-what.md").unlink()
            with unittest.mock.patch.object(sys, "argv", ["summarize.py", f"--markdown={name}/2026-01-02-h100-what.json", f"--out={name}"]), \
                    contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(summarize.main(), 0)
            self.assertEqual((folder / "2026-01-02-h100-what.md").read_text(), page)
        for lacking in (["--date=d", "--name=n"], ["--date=d", "--bench", "x"], ["--name=n", "--bench", "x"]):
            with unittest.mock.patch.object(sys, "argv", ["summarize.py", *lacking]), contextlib.redirect_stderr(io.StringIO()), \
                    self.assertRaises(SystemExit):
                summarize.main()

    def test_several_processes_make_one_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("a.json", "b.json")]
            paths[0].write_text(json.dumps(report(before_gbs=3000.0)))
            paths[1].write_text(json.dumps(report(name="other", suspect=True)))
            merged = summarize.merge_bench(paths)
            self.assertEqual([package["suspect"] for package in merged["packages"]], [False, True])
            self.assertTrue(merged["suspect"])
            self.assertNotIn("package", merged["packages"][0])
            self.assertEqual(summarize.reads(merged, merged["packages"]), "3000 to 3080 GB/s")
            paths[1].write_text(json.dumps(report(device="another")))
            with self.assertRaises(SystemExit) as raised:
                summarize.merge_bench(paths)
            self.assertIn("expected one device in all of --bench", str(raised.exception))


class Anything:
    """Stands for a tensor, a stream or a graph: takes every call and every operator."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        return Anything() if name == "indices" else Anything.made

    @staticmethod
    def made(*_, **__):
        return Anything()

    def __mul__(self, _):
        return self

    def __matmul__(self, _):
        return self


class Event(Anything):
    def elapsed_time(self, _):
        return 0.39


@contextlib.contextmanager
def scope(*_):
    yield


def torch_stand_in(device="NVIDIA H100 80GB HBM3", **replaced):
    cuda = types.SimpleNamespace(Stream=Anything, CUDAGraph=Anything, Event=Event, stream=scope, graph=scope,
                                 synchronize=Anything.made, empty_cache=Anything.made, get_device_name=lambda _: device)
    made = types.SimpleNamespace(cuda=cuda, __version__="2.x", bfloat16=None, float8_e4m3fn=None, int32=None)
    for name in ("randn", "bincount", "ones", "manual_seed", "_grouped_mm", "_scaled_mm"):
        setattr(made, name, replaced.get(name, lambda *_, **__: Anything()))
    return made


class ThermometerTest(unittest.TestCase):
    def test_two_cells_and_two_rates(self):
        result = thermometer.measure(torch_stand_in())
        self.assertEqual([row["us"] for row in result["cells"]], [390, 390])
        # 2 * 8192^3 flops in 390 us.
        self.assertAlmostEqual(result["rates"][0]["tflops"], 2819.3, places=1)
        self.assertEqual((len(result["rates"]), result["errors"], result["off"]), (2, [], True))

    def test_replays_of_a_timing(self):
        timer, replays, idle = thermometer.Timer(torch_stand_in()), [], []
        with unittest.mock.patch.object(timer, "graph", lambda work: (work(), None)), \
                unittest.mock.patch.object(thermometer.time, "sleep", idle.append):
            for times, budget, timed in (((400.0, 900.0, 1.0, 5.0, 7.0, 1000.0), 0.001, 7), ((401.0, 100.0), 1, 10), ((100.0,), 1000, 300)):
                replays.clear()

                def replay(_, times=times):
                    replays.append(times[min(len(replays) % (3 + timed), len(times) - 1)])
                    return replays[-1]

                with unittest.mock.patch.object(timer, "replay", replay):
                    got = timer.us(lambda: None, budget)
                self.assertEqual(len(replays), 3 * (3 + timed))
                # The median of what followed the three replays that warm up.
                self.assertEqual(got, 1000.0 if timed == 7 else 100.0)
        self.assertEqual(idle, [0.1] * 3)
        self.assertAlmostEqual(timer.replay(Anything()), 390)

    def test_operands_of_a_cell(self):
        cell, made, asked = thermometer.CELLS[0], [], []

        class Torch(Anything):
            def __getattr__(self, name):
                return (lambda *extents, **_: asked.append((name, extents)) or Anything()) if name in ("randn", "bincount") else Anything()

        timer = types.SimpleNamespace(us=lambda work, *_: made.append(work) or 100.0)
        row = thermometer.time_cell(Torch(), timer, cell, "h100_sxm")
        self.assertEqual([extents for name, extents in asked if name == "randn"],
                         [(512, 128), (4096, 2048), (4096, 768), (128, 1536, 2048), (128, 2048, 768)])
        self.assertEqual((row["us"], row["ratio"], row["off"], len(made)), (100.0, 100 / 474.5, True, 1))

    def test_each_gpu_has_its_own_rates(self):
        result = thermometer.measure(torch_stand_in("NVIDIA H200"))
        self.assertEqual([row["floor_tflops"] for row in result["rates"]], [762, 1498])
        said = list(thermometer.lines(result))
        self.assertIn("390.0 us, no time of the baseline for this GPU", said[0])
        self.assertIn("2819 TFLOP/s, floor by 762 (+270.0 %) MORE THAN 5 % OFF", said[2])

    def test_an_unknown_gpu_is_compared_with_nothing(self):
        result = thermometer.measure(torch_stand_in("a GPU"))
        self.assertFalse(result["off"])
        self.assertIn("2819 TFLOP/s, no rate of the floor for this GPU", list(thermometer.lines(result))[2])

    def test_what_fails_is_said_and_the_rest_is_timed(self):
        def refuse(*_, **__):
            raise RuntimeError("no grouped matmul\nmore")

        result = thermometer.measure(torch_stand_in(_grouped_mm=refuse))
        self.assertEqual(result["cells"], [])
        self.assertEqual(result["errors"][0], "qwen3-30b-a3b, 512 tokens: no grouped matmul")
        self.assertEqual(len(result["rates"]), 2)

    def test_off_by_more_than_five_percent(self):
        cell = thermometer.CELLS[0]
        row = thermometer.row_of(cell, 480.0, "h100_sxm")
        self.assertFalse(row["off"])
        # 6 * 512 * 8 * 2048 * 768 flops in 480 us.
        self.assertAlmostEqual(row["tflops"], 80.53, places=2)
        self.assertTrue(thermometer.row_of(cell, 510.0, "h100_sxm")["off"])
        self.assertTrue(thermometer.rate_row("x", 700, 781)["off"])

    def test_lines(self):
        result = {"cells": [thermometer.row_of(thermometer.CELLS[0], 510.0, "h100_sxm")], "rates": [thermometer.rate_row("cuBLAS", 781, 781)],
                  "errors": ["rates: none"]}
        said = list(thermometer.lines(result))
        self.assertIn("510.0 us, 474.5 us on the baseline's card (+7.5 %) MORE THAN 5 % OFF", said[0])
        self.assertEqual(said[1:], ["cuBLAS: 781 TFLOP/s, floor by 781 (+0.0 %)", "not timed: rates: none"])

    def test_says_why_it_is_skipped(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-S", "-I", str(BENCH / "run" / "thermometer.py")], capture_output=True, text=True,
                                  cwd=folder, check=False)
        self.assertIn(done.returncode, (1, 77))
        with contextlib.redirect_stderr(io.StringIO()) as said:
            modules = {"torch": types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))}
            with unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch.object(sys, "argv", ["thermometer.py"]):
                self.assertEqual(thermometer.main(), 77)
        self.assertEqual(said.getvalue(), "thermometer.py: skipped, PyTorch finds no GPU\n")


class RunAllTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name in compile_cells.COPIED:
            (self.root / pathlib.Path(name).name).write_bytes((BENCH / name).read_bytes())
        (self.root / "run_all.sh").chmod(0o755)
        for name in ("a-b-bf16", "a-b-fp8_block", "c-bf16"):
            (self.root / f"{name}.moec").mkdir()
            (self.root / f"{name}.moec" / "manifest.json").write_text("{}")
        self.program(f"print({json.dumps(json.dumps(report()))})\n")

    def tearDown(self):
        self.folder.cleanup()

    def program(self, text):
        path = self.root / "moec-bench"
        path.write_text(f"#!{sys.executable}\nimport sys\n{text}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run_all(self, *words):
        done = subprocess.run([str(self.root / "run_all.sh"), "--no-thermometer", *words], capture_output=True, text=True, check=False,
                              cwd=self.root, env={**os.environ, "OUT": str(self.root / "out")})
        return done, sorted(path.name for path in (self.root / "out").glob("bench-*.json"))

    def test_all(self):
        done, files = self.run_all()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(files, ["bench-a-b-bf16.json", "bench-a-b-fp8_block.json", "bench-c-bf16.json"])
        self.assertEqual(done.stdout.splitlines()[-1], "3 cells with a target: 3 met, 3 faster than the best of today's systems")

    def test_words_of_cells(self):
        for words, expected in (("a-b", 2), ("bf16", 2), ("a-b/fp8_block", 1), ("c,fp8_block", 2), ("*", 3)):
            for old in (self.root / "out").glob("*"):
                old.unlink()
            self.assertEqual(len(self.run_all(f"--cells={words}")[1]), expected, words)
        done, _ = self.run_all("--cells=d")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no package of", done.stderr)

    def test_a_package_that_fails_costs_only_itself(self):
        self.program(f"if 'c-bf16' in sys.argv[1]:\n  sys.exit('moec-bench: no kernel')\nprint({json.dumps(json.dumps(report()))})\n")
        done, files = self.run_all()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(files, ["bench-a-b-bf16.json", "bench-a-b-fp8_block.json"])
        self.assertIn("s: moec-bench: no kernel", done.stdout)

    def test_options(self):
        self.program("open('said', 'a').write(' '.join(sys.argv[1:]) + '\\n')\n" + f"print({json.dumps(json.dumps(report()))})\n")
        self.run_all("--cells=c", "--tokens=1,8", "--", "--passes=1")
        said = (self.root / "said").read_text().split()
        self.assertEqual(said[2:], ["--json", "--tokens=1,8", "--passes=1"])
        done, _ = self.run_all("--cell=c")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option '--cell=c'; expected --cells=", done.stderr)


class CompileCellsTest(unittest.TestCase):
    def test_pairs(self):
        self.assertEqual(len(list(compile_cells.pairs([]))), 23)
        self.assertEqual(list(compile_cells.pairs(["mxfp4_w4a16"])),
                         [(shape, "mxfp4_w4a16") for shape in ("qwen3-30b-a3b", "gpt-oss-20b", "gpt-oss-120b")])
        self.assertEqual(list(compile_cells.pairs(["mixtral-8x7b/fp8_block"])), [("mixtral-8x7b", "fp8_block")])
        self.assertEqual(len(list(compile_cells.pairs(["bf16"]))), 5)
        self.assertEqual(list(compile_cells.pairs(["nothing"])), [])

    def test_a_folder_is_filled(self):
        with tempfile.TemporaryDirectory() as name:
            build, out = pathlib.Path(name) / "build", pathlib.Path(name) / "out"
            words = ["compile_cells.py", f"--build={build}", f"--out={out}", "--cells=mixtral-8x7b", "--no-cubin"]

            def main(*words):
                with unittest.mock.patch.object(sys, "argv", list(words)), contextlib.redirect_stdout(io.StringIO()) as said, \
                        contextlib.redirect_stderr(io.StringIO()):
                    return compile_cells.main(), said.getvalue().splitlines()

            with self.assertRaisesRegex(SystemExit, f"expected {build}/bin/moec-bench; build it first .ninja -C {build} moec-bench."):
                main(*words)
            (build / "bin").mkdir(parents=True)
            shutil.copy(shutil.which("true"), build / "bin" / "moec-bench")
            moec = build / "bin" / "moec"
            # Refuses one scheme; the others leave a package.
            moec.write_text(f"#!{sys.executable}\nimport os, sys\nout = sys.argv[sys.argv.index('-o') + 1]\n"
                            "if out.endswith('-fp8_block.moec'):\n  sys.exit('refused')\n"
                            "os.mkdir(out)\nprint('more')\nprint(' '.join(sys.argv[3:]))\n")
            moec.chmod(0o755)
            (out / "mixtral-8x7b-bf16.moec").mkdir(parents=True)
            for _ in range(2):
                (status, said), schemes = main(*words), [scheme for _, scheme in compile_cells.pairs(["mixtral-8x7b"])]
                self.assertEqual(status, 0)
                self.assertEqual([line.partition(":")[0] for line in said], [f"mixtral-8x7b/{scheme}" for scheme in schemes])
                self.assertEqual(said[0], f"mixtral-8x7b/bf16: --arch=sm_90a -o {out}/mixtral-8x7b-bf16.moec --no-cubin")
                self.assertIn("mixtral-8x7b/fp8_block: refused", said)
                made = {path.name for path in out.iterdir()}
                self.assertEqual(made, {"moec-bench", "commit", *(pathlib.Path(name).name for name in compile_cells.COPIED),
                                        *(f"mixtral-8x7b-{scheme}.moec" for scheme in schemes if scheme != "fp8_block")})
            self.assertEqual(main(*words[:3], "--cells=mixtral-8x7b/fp8_block")[0], 1)
            with self.assertRaises(SystemExit):
                main(*words[:3], "--cells=nothing")

    def test_command(self):
        options = types.SimpleNamespace(arch="sm_90a", no_cubin=True)
        words = compile_cells.command("moec", "mixtral-8x7b", "fp8_block", "out.moec", options)
        self.assertEqual(words[0:2] + words[3:], ["moec", "compile", "--arch=sm_90a", "-o", "out.moec", "--scheme=fp8_block", "--no-cubin"])
        self.assertEqual(compile_cells.command("moec", "mixtral-8x7b", "bf16", "out.moec", options)[-1], "--no-cubin")


if __name__ == "__main__":
    unittest.main()
