#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/server without vLLM: tables and checks from made results, processes that take turns, and archives."""

import argparse
import contextlib
import importlib.util
import io
import pathlib
import sys
import tarfile
import tempfile
import unittest

SERVER = pathlib.Path(__file__).resolve().parents[2] / "bench" / "server"
sys.path.insert(0, str(SERVER))
import edges  # noqa: E402
import engines  # noqa: E402
import models  # noqa: E402
import perf  # noqa: E402

# A job that notes when it has the GPU. Its name decides how it ends.
JOB = f"""
import argparse, json, pathlib, sys, time
sys.path.insert(0, {str(SERVER)!r})
import engines
parser = argparse.ArgumentParser()
parser.add_argument("--job")
parser.add_argument("--work", type=pathlib.Path)
options = parser.parse_args()
turns = engines.Turns(options.work, options.job)
turns.begin()
if options.job == "fails":
    sys.exit("it fails")
if options.job == "hangs":
    time.sleep(100)
turns.reach("ready")
with turns.gpu():
    began = time.time()
    time.sleep(0.1)
    (options.work / f"{{options.job}}.json").write_text(json.dumps({{"times": [began, time.time()]}}))
"""


def cells(*rates):
    return {"cells": {name: {"tokens_per_s": rate, "spread": 0.01} for name, rate in zip(perf.cell_names(), rates)}}


class PerfTest(unittest.TestCase):
    def test_ratios(self):
        results = {"bf16-own": cells(100, 100, 100, 100, 100, 100), "bf16-moec": cells(200, 100, 100, 50, 100, 100), "int4-own": cells(1)}
        rows = perf.rows_of(results, ["bf16", "int4"], 24)
        self.assertEqual([row["ratio"] for row in rows], [2, 1, 1, 0.5, 1, 1])
        report = perf.report(rows)
        self.assertIn("| bf16 | 2.00 | 1.00 | 1.00 | 0.50 | 1.00 | 1.00 | 1.000 | 0.50 (prefill 1 x 512) |", report)
        self.assertIn("6 cells, geometric mean 1.000, moec is faster in 1; worst cell 0.500: bf16, prefill 1 x 512", report)
        self.assertIn("no kind", perf.report([]))

    def test_waves(self):
        options = argparse.Namespace(waves=[["bf16", "int4"], ["fp8_block"]], kinds=["bf16", "fp8_block"], layers=2, repeats=1,
                                     kv_gib=1, commit="", small=False, eager=False)
        for gpus, places in (([0], [(0, 0), (0, 0), (0, 1), (0, 1)]), ([0, 1], [(0, 0), (0, 0), (1, 0), (1, 0)])):
            options.gpus = gpus
            jobs = perf.jobs_of(options)
            self.assertEqual([job.name for job in jobs], ["bf16-own", "bf16-moec", "fp8_block-own", "fp8_block-moec"])
            self.assertEqual([(job.gpus[0], job.wave) for job in jobs], places)


class EdgesTest(unittest.TestCase):
    def failed(self, name, job, *made):
        checks = edges.Checks()
        getattr(checks, name)(job, *made)
        return [row["check"] for row in checks.rows if row["holds"] == edges.FAILED]

    def test_reload(self):
        start = {"tokens": [[1]], "prefill": [-1.0], "greedy": [-1.0], "decode": [-2.0]}
        second = start | {"prefill": [-3.0], "decode": [-5.0]}
        good = {"start": start, "second": second, "first again": dict(start), "sleep 2": dict(start)}
        self.assertEqual(self.failed("reload", "reload.bf16.moec", good), [])
        wrong = good | {"second": start, "sleep 2": start | {"greedy": [-1.0000001]}, "failed": "sleep 1: it"}
        self.assertEqual(self.failed("reload", "reload.bf16.moec", wrong),
                         ["second checkpoint: other log probabilities", "sleep 2: the bits of the start", "all steps"])
        self.assertEqual(self.failed("reload", "reload.bf16.own", wrong), [])

    def test_routed(self):
        made = {"experts": [[[[0, 1], [2, 3]]] * edges.LENGTH]}
        self.assertEqual(self.failed("routed", "routed.bf16.moec", made, made, 4, 2), [])
        for wrong in ([0, 0], [0, 4]):
            bad = {"experts": [[[wrong, [2, 3]]] * edges.LENGTH]}
            self.assertEqual(len(self.failed("routed", "routed.bf16.moec", bad, made, 4, 2)), 2)

    def test_ranks(self):
        self.assertEqual(self.failed("ranks", "tp.bf16.moec", {"last tokens": [[1, 2], [1, 2]]}), [])
        for wrong in ([[1, 2], [1, 3]], [None, None]):
            self.assertEqual(len(self.failed("ranks", "tp.bf16.moec", {"last tokens": wrong})), 1)

    def test_eplb(self):
        """One layer, three experts on two ranks of two places: the last is a replica of the first."""
        def placed(experts, *digests):
            return {"experts": [[experts]] * 2, "digests": [[list(digests[:2])], [list(digests[2:])]]}

        first = placed([0, 1, 2, 0], [10], [11], [12], [10])
        self.assertEqual(self.failed("eplb", "eplb.bf16.moec", {"first": first, "changes": 1, "last": placed([1, 0, 2, 1], [11], [10], [12], [11])}), [])
        self.assertEqual(self.failed("eplb", "eplb.bf16.moec", {"first": first, "changes": 0, "last": first}),
                         ["experts moved while requests ran"])
        self.assertEqual(self.failed("eplb", "eplb.bf16.moec", {"first": first, "changes": 1, "last": placed([1, 0, 2, 1], [11], [10], [12], [12])}),
                         ["each place has the bytes of its expert"])


class JobsTest(unittest.TestCase):
    def run_jobs(self, *jobs, limit_s=60):
        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()) as said:
            script = pathlib.Path(place) / "job.py"
            script.write_text(JOB)
            results = engines.run_jobs(str(script), jobs, pathlib.Path(place) / "work", None, limit_s)
            plugins = (pathlib.Path(place) / "work" / "plugins" / "moec_bench_server-1.0.dist-info" / "entry_points.txt").read_text()
        self.assertIn("random_weights = random_weights:register", plugins)
        return {name: made.get("times") for name, made in results.items()}, said.getvalue()

    def test_turns(self):
        jobs = [engines.Job(name, (), "own", (0,), wave) for name, wave in (("a", 0), ("b", 0), ("fails", 0), ("c", 1))]
        times, said = self.run_jobs(*jobs)
        first, second = sorted((times["a"], times["b"]))
        self.assertLess(first[1], second[0])
        self.assertLess(second[1], times["c"][0])
        self.assertIsNone(times["fails"])
        self.assertIn("    it fails", said)

    def test_a_job_that_hangs(self):
        times, said = self.run_jobs(engines.Job("hangs", (), "own", (0,)), limit_s=2)
        self.assertEqual(times, {"hangs": None})
        self.assertIn("hangs: did not end in 2 s", said)

    def test_the_side(self):
        for side, expected in (("own", None), ("moec", "1")):
            made = engines.environment_of(engines.Job("a", (), side, (0, 1)), pathlib.Path("work"), None)
            self.assertEqual((made.get("MOEC_VLLM"), made["CUDA_VISIBLE_DEVICES"]), (expected, "0,1"))


class ModelsTest(unittest.TestCase):
    def test_configurations(self):
        for kind in models.KINDS:
            config = models.config_of(kind, 2, 512, small=True)
            self.assertEqual((config["num_hidden_layers"], config["vocab_size"]), (2, 512))
            self.assertEqual("quantization_config" in config, kind != "bf16")
            self.assertGreater(models.config_of(kind, 2)["vocab_size"], 150_000)


@unittest.skipUnless(importlib.util.find_spec("pip"), "pack.py needs pip")
class PackTest(unittest.TestCase):
    def test_archives(self):
        import pack

        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(io.StringIO()):
            site, out = pathlib.Path(place) / "site", pathlib.Path(place)
            files = {"a.py": b"a" * 100, pack.NCCL: b"n", "vllm/vllm-rs": b"r", "vllm/b.json": b"{}",
                     f"{pack.TUNED}E=8,device_name=NVIDIA_H200.json": b"{}", f"{pack.TUNED}E=8,device_name=NVIDIA_B200.json": b"{}"}
            for name, data in files.items():
                (site / name).parent.mkdir(parents=True, exist_ok=True)
                (site / name).write_bytes(data)
            pack.prune(site, 90, "H200")
            pack.write_parts(site, out, 1100)
            found = {}
            for part in out.glob("*.tar.xz"):
                with tarfile.open(part) as archive:
                    found[part.name.split(".")[0]] = archive.getnames()
        self.assertEqual(found.pop("nccl"), [pack.NCCL])
        self.assertEqual(sorted(len(names) for names in found.values()), [1, 2])
        self.assertEqual({name for names in found.values() for name in names},
                         {"a.py", "vllm/b.json", f"{pack.TUNED}E=8,device_name=NVIDIA_H200.json"})

    def test_what_a_package_needs(self):
        import pack

        with tempfile.TemporaryDirectory() as place:
            info = pathlib.Path(place) / "A_b-1.0.dist-info"
            info.mkdir()
            needs = ("c>=2", "d; python_version < '3'", "e; extra == 'more'", "f; sys_platform == 'win32'")
            (info / "METADATA").write_text("Name: A_b\nVersion: 1.0\n" + "".join(f"Requires-Dist: {each}\n" for each in needs))
            wheels = pack.Wheels(pathlib.Path(place), "3.12", set())
            for name, expected in (("a-b", ["c"]), ("a-b[more]", ["c", "e"])):
                self.assertEqual([each.name for each in wheels.needed(pack.Requirement(name))], expected)


if __name__ == "__main__":
    unittest.main()
