#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The options of moec-bench and load-time, and what both print. Compiles a small layer and runs it on the host device.

  programs_test.py MOEC MOEC_BENCH LOAD_TIME LIBMOEC"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import unittest

MOEC, MOEC_BENCH, LOAD_TIME, LIBMOEC = sys.argv[1:5]
LAYER = {"moec_layer": 1, "name": "small", "num_experts": 8, "top_k": 2, "hidden_size": 128, "intermediate_size": 64,
         "in_dtype": "bf16", "routing_method": "renormalize", "quant_config": "bf16"}
# A config.json of Mixtral.
CONFIG = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2,
          "hidden_size": 128, "intermediate_size": 64, "hidden_act": "silu", "torch_dtype": "bfloat16"}
SHAPE = {"shape": "mine", "num_experts": 8, "top_k": 2, "hidden_size": 128, "intermediate_size_per_partition": 64, "local_experts": 8,
         "tokens": [2, 4]}


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.package = cls.compile("small")
        cls.manifest = json.loads((cls.package / "manifest.json").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def compile(cls, name, *options, **fields):
        layer, package = cls.root / f"{name}.json", cls.root / name
        layer.write_text(json.dumps({**LAYER, "name": name, **fields}))
        subprocess.run([MOEC, "compile", layer, "--arch=sm_90a", "--max-tokens=64", "--no-cubin", "-o", package, *options],
                       check=True, capture_output=True)
        return package

    def bench(self, *options, package=None, status=0):
        """The report of moec-bench, and the lines of its errors."""
        done = run(MOEC_BENCH, *(package or [self.package]), "--device=host", "--json", *options)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout), done.stderr.splitlines()

    def cells(self, *options, package=None):
        return self.bench("--passes=0", *options, package=package)[0]["packages"][0]["cells"]


class MoecBench(Programs):
    def test_the_head_of_a_report(self):
        report, _ = self.bench("--passes=0", "--tokens=1")
        self.assertEqual({key: value for key, value in report.items() if key not in ("moec_bench", "packages")},
                         {"device": "host", "driver_version": 0, "bandwidth_gbs": 0, "matmul_tflops": 0, "fp8_tflops": 0, "rates_source": "",
                          "bandwidth_by": "copy", "before_gbs": 0, "after_gbs": 0, "suspect": False, "seed": 1, "routing": "uniform",
                          "dealt": False})
        package = report["packages"][0]
        self.assertEqual({key: package[key] for key in ("package", "name", "shape", "scheme", "arch")},
                         {"package": str(self.package), "name": "small", "shape": "small", "scheme": "bf16", "arch": "sm_90a"})
        self.assertEqual({key: package["layer"][key] for key in ("name", "num_experts", "hidden_size")},
                         {"name": "small", "num_experts": 8, "hidden_size": 128})
        report, _ = self.bench("--passes=0", "--tokens=1", "--seed=7", "--routing=zipf:0.5", "--dealt")
        self.assertEqual((report["seed"], report["routing"], report["dealt"]), (7, "zipf:0.5", True))

    def test_passes_and_repeats(self):
        for options, passes, repeats in (((), 3, 1), (("--passes=2", "--repeats=3"), 2, 3)):
            cell = self.bench("--tokens=3", *options)[0]["packages"][0]["cells"][0]
            self.assertEqual((len(cell["passes_us"]), cell["layers_per_graph"]), (passes, repeats))
            self.assertAlmostEqual(cell["us"], statistics.median(cell["passes_us"]))
            self.assertAlmostEqual(cell["tflops"], cell["flops"] / cell["us"] / 1e6)
            self.assertEqual((cell["floor_us"], cell["ratio"], cell["percent_of_peak"]), (0, 0, 0))
        cell = self.cells("--tokens=1")[0]
        self.assertEqual((cell["passes_us"], cell["us"], cell["tflops"]), ([], 0, 0))

    def test_each_layer_of_a_graph_has_its_own_inputs(self):
        one, two, three = (self.cells("--tokens=3", "--seed=5", f"--repeats={count}")[0]["touched_experts"] for count in (1, 2, 3))
        self.assertEqual(one % 1, 0)
        self.assertTrue(one != two or two != three)
        for repeats, mean in ((2, two), (3, three)):
            self.assertAlmostEqual(mean * repeats, round(mean * repeats))
        self.assertLessEqual(max(one, two, three), 6)

    def test_pairs_and_flops_of_several_repeats_are_means(self):
        for repeats in (1, 3):
            cell = self.cells("--tokens=5", f"--repeats={repeats}")[0]
            self.assertAlmostEqual(cell["local_pairs"], 5 * LAYER["top_k"])
            self.assertAlmostEqual(cell["flops"], 6 * 5 * LAYER["top_k"] * LAYER["hidden_size"] * LAYER["intermediate_size"])

    def test_seeds(self):
        touched = [[cell["touched_experts"] for cell in self.cells("--tokens=2,3,4", f"--seed={seed}")] for seed in (1, 1, 2, 3, 4)]
        self.assertEqual(touched[0], touched[1])
        self.assertGreater(len(set(map(tuple, touched))), 1)

    def test_routings(self):
        for options, touched in ((["--routing=used:0.25"], 2), (["--routing=used:0.25", "--dealt"], 2), (["--routing=hot:2"], 2),
                                 (["--routing=uniform"], 8)):
            self.assertEqual(self.cells("--tokens=64", *options)[0]["touched_experts"], touched, options)
        done = run(MOEC_BENCH, self.package, "--device=host", "--routing=cold")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("moec-bench: --routing: expected a routing of uniform, zipf:EXPONENT,", done.stderr)

    def test_counts_beyond_the_package_cost_only_themselves(self):
        report, said = self.bench("--passes=0", "--tokens=65,3,0", status=1)
        package = report["packages"][0]
        self.assertEqual([cell["tokens"] for cell in package["cells"]], [3])
        errors = [{"tokens": count, "error": f"expected --tokens from 1 to 64, got {count}"} for count in (65, 0)]
        self.assertEqual(package["errors"], errors)
        self.assertEqual(said, [f"moec-bench: {self.package}, {row['tokens']} tokens: {row['error']}" for row in errors])
        self.assertEqual(len(self.cells("--tokens=1,64")), 2)

    def test_counts_that_nobody_gave(self):
        package = self.bench("--passes=0", status=1)[0]["packages"][0]
        self.assertEqual([cell["tokens"] for cell in package["cells"]], [1, 8, 32])
        self.assertEqual([row["tokens"] for row in package["errors"]], [128, 512, 2048, 8192])
        targets = self.root / "targets.json"
        targets.write_text(json.dumps({"moec_targets": 2, "gpus": ["h200_sxm"], "shapes": [SHAPE], "cells": []}))
        report, said = self.bench("--passes=0", f"--targets={targets}")
        self.assertEqual(said, [])
        self.assertEqual(report["packages"][0]["shape"], "mine")
        self.assertEqual([cell["tokens"] for cell in report["packages"][0]["cells"]], [2, 4])
        self.assertEqual([cell["tokens"] for cell in self.cells("--tokens=8", f"--targets={targets}")], [8])
        for name, text in (("none.json", "cannot open"), ("wrong.json", "expected a JSON object with \"moec_targets\": 2")):
            (self.root / "wrong.json").write_text("{}")
            done = run(MOEC_BENCH, self.package, "--device=host", f"--targets={self.root / name}")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(text, done.stderr)

    def test_variants_and_their_kernels(self):
        target = self.manifest["targets"][0]
        schedules = target["report"]["schedules"]
        for variant in target["variants"]:
            cell = self.cells(f"--tokens={variant['min_tokens']}")
            kernels = [next(kernel for kernel in target["kernels"] if kernel["name"] == launch["kernel"]) for launch in variant["launches"]]
            self.assertEqual(cell[0]["variant"], variant["name"])
            self.assertEqual(cell[0]["kernels"], [{"name": kernel["name"], "entry": kernel["entry"],
                                                   "schedule": schedules.get(kernel["name"], {})} for kernel in kernels])
            texts = []
            for kernel in kernels:
                schedule = schedules.get(kernel["name"], {})
                if "stages" in schedule:
                    name = kernel["name"]
                    for other in target["variants"]:
                        name = name.removeprefix(f"{other['name']}_")
                    tile = "".join(f"{'x'.join(map(str, schedule['tile']))} " for _ in "1" if "tile" in schedule)
                    texts.append(f"{name} {schedule['engine']} {tile}s{schedule['stages']}")
            self.assertTrue(texts)
            self.assertEqual(cell[0]["schedules"], ", ".join(texts))
        report, _ = self.bench("--passes=0", "--tokens=3", "--variant=none", status=1)
        self.assertIn("variant", report["packages"][0]["errors"][0]["error"])

    def test_packages_and_cells(self):
        other = self.compile("other", "--scheme=fp8_block")
        both = [self.package, other]
        for words, names in (((), ["small", "other"]), (("--cells=*",), ["small", "other"]), (("--cells=small",), ["small"]),
                             (("--cells=fp8_block",), ["other"]), (("--cells=x,other/fp8_block",), ["other"]),
                             (("--cells=bf16,other",), ["small", "other"])):
            report, _ = self.bench("--passes=0", "--tokens=1", *words, package=both)
            self.assertEqual([package["name"] for package in report["packages"]], names, words)
        done = run(MOEC_BENCH, *both, "--device=host", "--cells=small/fp8_block", "--json")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("expected --cells to name one of the packages", done.stderr)
        for folder in (self.root, self.root / "none"):
            done = run(MOEC_BENCH, folder, "--device=host", "--json")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("manifest.json", done.stderr)

    def test_ranks(self):
        package = self.compile("ranks", "--all-ranks", "--dp=2", "--ep")
        cells = [self.cells("--tokens=1", f"--rank={rank}", package=[package])[0] for rank in (0, 1)]
        # Both ranks draw the same experts: each pair is one rank's.
        self.assertEqual(sum(cell["local_pairs"] for cell in cells), 2)
        done = run(MOEC_BENCH, package, "--device=host", "--tokens=1", "--rank=2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rank", done.stderr)

    def test_the_table(self):
        done = run(MOEC_BENCH, self.package, "--device=host", "--tokens=3,64", "--passes=1")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[:2], ["host device: these times say nothing about a GPU", "small (bf16, sm_90a)"])
        self.assertEqual(lines[2].split()[:9], ["tokens", "us", "floor", "us", "ratio", "target", "theirs", "o/t", "peer"])
        rows = [line.split() for line in lines[3:]]
        self.assertEqual([(row[0], row[2], row[3]) for row in rows], [("3", "0.0", "0.000"), ("64", "0.0", "0.000")])
        for row, cell in zip(rows, self.cells("--tokens=3,64")):
            self.assertEqual(row[6:9], [f"{cell['touched_experts']:.1f}", "1", cell["regime"]])
            self.assertEqual(" ".join(row[9:]), cell["schedules"])


class LoadTime(Programs):
    def load(self, *words):
        done = run(LOAD_TIME, *words, "--device=host", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check(self, kind, rounds, phases):
        times = kind["all_ready_ms"]
        self.assertEqual((kind["rounds"], len(times)), (rounds, rounds))
        self.assertEqual((kind["best_ms"], kind["worst_ms"]), (min(times), max(times)))
        self.assertAlmostEqual(kind["ready_ms"], statistics.median(times))
        self.assertEqual(kind["phases"]["ready_ms"], kind["ready_ms"])
        self.assertEqual(set(kind["phases"]), phases)
        middle = kind["middle_round"]
        self.assertEqual(middle["ready_ms"], sorted(times)[rounds // 2])
        self.assertGreater(middle["process_ms"], middle["ready_ms"])
        self.assertGreaterEqual(middle["ready_ms"], middle["load"]["total_ms"])
        self.assertLess(0, middle["process_start_ms"])
        self.assertLess(middle["process_start_ms"], middle["process_ms"])

    phases = {"process_start_ms", "ready_ms", "read_ms", "nvrtc_open_ms", "compile_ms", "module_load_ms"}

    def test_a_package(self):
        result = self.load(self.package, "--rounds=4")
        self.assertEqual({key: result[key] for key in ("moec_load_time", "device", "input")},
                         {"moec_load_time": 2, "device": "host", "input": str(self.package)})
        for kind in ("cold", "warm"):
            self.check(result[kind], 4, self.phases)
        self.assertNotIn("ahead_of_time", result)

    def test_a_configuration(self):
        config = self.root / "config.json"
        config.write_text(json.dumps(CONFIG))
        result = self.load(self.package, f"--config={config}", "--arch=sm_90a", f"--libmoec={LIBMOEC}", "--rounds=1")
        self.assertEqual(result["input"], str(config))
        for kind in ("cold", "warm"):
            self.check(result[kind], 1, self.phases | {"library_open_ms", "package_ms"})
            self.assertGreaterEqual(result[kind]["ready_ms"], result[kind]["phases"]["package_ms"])
        self.check(result["ahead_of_time"], 1, self.phases)
        self.assertNotIn("ahead_of_time", self.load(f"--config={config}", "--arch=sm_90a", f"--libmoec={LIBMOEC}", "--rounds=1"))

    def test_the_table(self):
        done = run(LOAD_TIME, self.package, "--device=host", "--rounds=3")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertRegex(done.stdout, r"^median ms of fresh processes, \d+ usable threads\n")
        self.assertEqual(lines[1], ["cold", "warm"])
        self.assertEqual({line[0] for line in lines[2:]}, self.phases | {"best_ms", "worst_ms", "rounds"})
        self.assertEqual(lines[-1], ["rounds", "3.0", "3.0"])
        numbers = {line[0]: [float(word) for word in line[1:]] for line in lines[2:]}
        for best, middle, worst in zip(*(numbers[name] for name in ("best_ms", "ready_ms", "worst_ms"))):
            self.assertTrue(0 < best <= middle <= worst)

    def test_what_fails(self):
        done = run(LOAD_TIME, "--device=host")
        self.assertEqual((done.returncode, done.stderr), (2, "load-time: expected PACKAGE or --config, got neither\n"))
        for words, text in (([self.root / "none"], "/none'"), (["--config=none.json", f"--libmoec={LIBMOEC}"], "none.json"),
                            ([f"--config={self.root / 'small.json'}", "--libmoec=/none.so"], "/none.so"),
                            ([f"--config={self.root / 'small.json'}", "--libmoec=libc.so.6"], "libc.so.6 lacks moec_")):
            done = run(LOAD_TIME, *words, "--device=host", "--json")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(text, done.stderr)
            self.assertEqual(done.stderr.splitlines()[-1], "load-time: a child process failed (see above)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
