#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/peers/peers.py and peer_files.py: choice of cells and peers, processes, table, refusals, pruned fat binaries. Needs no GPU, no
PyTorch, no vLLM."""

import contextlib
import io
import json
import multiprocessing
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
import zipfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "run"), str(BENCH / "peers")]
import peer_files  # noqa: E402
import peers  # noqa: E402

CELL = {"shape": "qwen3-30b-a3b", "scheme": "fp8_channel", "path": pathlib.Path("q.moec"), "local": None, "num_experts": 128, "top_k": 8,
        "hidden_size": 2048, "intermediate_size_per_partition": 768}


def line(peer, **fields):
    return {"peer": peer, "version": "1", "tokens": 512, **fields}


def result(*rows):
    return {"peers": {"torch": "2", "vllm": "1"}, "missing": {"deepgemm": "no such file"}, "cells": list(rows)}


def row(us, *lines, **fields):
    return {"shape": "mixtral-8x7b", "scheme": "bf16", "tokens": 512, "us": us, "clock_after_mhz": 1980, "peers": list(lines), **fields}


class ChoiceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        for name in ("data/shapes.json", "peers/peers.py", "run/benchlib.py", "run/thermometer.py"):
            (self.root / pathlib.Path(name).name).write_bytes((BENCH / name).read_bytes())
        layer = {"num_experts": 8, "top_k": 2, "hidden_size": 4096, "intermediate_size_per_partition": 14336}
        for name in ("mixtral-8x7b-bf16", "mixtral-8x7b-int4_w4a16", "qwen3-30b-a3b-fp8_block"):
            (self.root / f"{name}.moec").mkdir()
            (self.root / f"{name}.moec" / "manifest.json").write_text(json.dumps({"layer": layer}))

    def tearDown(self):
        self.folder.cleanup()

    def test_packages(self):
        for words, names in (([], ["qwen3-30b-a3b/fp8_block", "mixtral-8x7b/bf16"]), (["bf16"], ["mixtral-8x7b/bf16"]),
                             (["mixtral-8x7b/fp8_block"], []), (["*"], ["qwen3-30b-a3b/fp8_block", "mixtral-8x7b/bf16"])):
            found = list(peers.packages(self.root, words))
            self.assertEqual([f"{cell['shape']}/{cell['scheme']}" for cell in found], names)
        self.assertEqual(found[0]["hidden_size"], 4096)
        self.assertIsNone(found[0]["local"])

    def test_refusals(self):
        self.assertEqual(peers.refusal("torch", CELL), "")
        self.assertEqual(peers.refusal("vllm", {**CELL, "local": 128}), "")
        self.assertEqual(peers.refusal("deepgemm", CELL), "no scales by channel")
        self.assertEqual(peers.refusal("torch", {**CELL, "scheme": "fp8_block"}), "no scales by block")
        self.assertEqual(peers.refusal("vllm", {**CELL, "local": 32}), "only layers with all experts")

    def test_layers_touch_400_megabytes(self):
        # 128 experts of 4.7 MB, and 8 of them.
        self.assertEqual(peers.layers_of(CELL, 128), 1)
        self.assertEqual(peers.layers_of(CELL, 8), 11)
        self.assertEqual(peers.layers_of(CELL, 1), 64)

    def arguments(self, *words):
        with unittest.mock.patch.object(sys, "argv", ["peers.py", *words]), unittest.mock.patch.object(peers, "HERE", self.root), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                return peers.arguments(), ""
            except SystemExit:
                return None, said.getvalue().splitlines()[-1]

    def test_arguments(self):
        options, _ = self.arguments()
        self.assertEqual((options.tokens, options.peers, options.passes), ([512, 2048, 8192], list(peers.PEERS), 3))
        options, _ = self.arguments("--tokens=8,32", "--peers=vllm")
        self.assertEqual((options.tokens, options.peers), ([8, 32], ["vllm"]))
        self.assertEqual(self.arguments("--peers=vllm_h200cfg,vllm")[0].peers, ["vllm", "vllm_h200cfg"])
        self.assertIn("unknown peer 'sglang'; expected torch, vllm, vllm_h200cfg, deepgemm", self.arguments("--peers=sglang")[1])
        self.assertIn("--tokens=x: expected numbers, separated by commas", self.arguments("--tokens=x")[1])

    def main(self, **modules):
        with unittest.mock.patch.object(sys, "argv", ["peers.py"]), unittest.mock.patch.object(peers, "HERE", self.root), \
                unittest.mock.patch.dict(sys.modules, modules), unittest.mock.patch.dict(os.environ), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(peers.main(), 77)
        return said.getvalue()

    def test_says_why_it_is_skipped(self):
        self.assertEqual(self.main(torch=None), "peers.py: skipped, PyTorch is not installed for this python3\n")
        stand_in = types.SimpleNamespace(cuda=types.SimpleNamespace(is_available=lambda: False))
        self.assertEqual(self.main(torch=stand_in), "peers.py: skipped, PyTorch finds no GPU\n")
        stand_in.cuda.is_available = lambda: True
        with unittest.mock.patch.object(peers.importlib.util, "find_spec", lambda _: None):
            self.assertEqual(self.main(torch=stand_in), "peers.py: skipped, Triton is not installed for this python3\n")

    def test_a_folder_without_packages(self):
        done = subprocess.run([sys.executable, str(self.root / "peers.py"), "--cells=d"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no package of --cells=d in bf16, fp8_block, fp8_channel; compile_cells.py makes them", done.stderr)


class ProcessTest(unittest.TestCase):
    def test_each_failure_costs_one_process(self):
        def good():
            yield {"us": 1.0}

        def ends():
            yield {"next": 1}
            os._exit(3)

        def hangs():
            time.sleep(60)
            yield {}

        def raises():
            yield {"next": 1}
            raise ValueError("no kernel\nmore")

        messages = peers.processes({"good": good, "ends": ends, "hangs": hangs, "raises": raises}, 4, 1)
        self.assertEqual(messages["good"], [{"us": 1.0}])
        self.assertEqual(messages["ends"][1:], [{"error": "its process ended with status 3"}])
        self.assertEqual(messages["hangs"], [{"error": "no result in 1 s"}])
        self.assertEqual(messages["raises"][1:], [{"error": "ValueError: no kernel"}])

    def test_a_failed_pair_costs_itself_alone(self):
        def timed(_, __, pairs, ___):
            for peer, tokens in pairs:
                yield {"next": [peer, tokens]}
                if peer == "vllm":
                    os._exit(1)
                yield {"peer": peer, "tokens": tokens, "us": 2.0}

        options = types.SimpleNamespace(passes=1, limit=10)
        with unittest.mock.patch.object(peers, "timed", timed):
            rows = peers.time_peers({}, CELL, [("torch", 8), ("vllm", 8), ("deepgemm", 8)], options)
        self.assertEqual({key[0]: each.get("us", each.get("error")) for key, each in rows.items()},
                         {"torch": 2.0, "vllm": "its process ended with status 1", "deepgemm": 2.0})

    def test_a_check_without_memory_is_done_again_alone(self):
        def check(*_):
            if running.acquire(block=False):
                time.sleep(0.5)
                yield {"relative_error": 0.004}
                running.release()
            else:
                raise RuntimeError("CUDA out of memory")

        running = multiprocessing.get_context("fork").Semaphore(1)
        options = types.SimpleNamespace(tokens=[8, 32], jobs=2, limit=10)
        found = {"vllm": (None, "1"), "deepgemm": (None, "1")}
        with unittest.mock.patch.object(peers, "check", check), unittest.mock.patch.object(peers, "warm", lambda *_: iter([{}])):
            rows = peers.prepare(found, [CELL], options)
        self.assertEqual({key[2:]: message.get("relative_error") for key, message in rows.items()},
                         {("moec", 0): None, ("vllm", 8): 0.004, ("vllm", 32): 0.004})

    def test_an_error_of_moec_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "moec-bench"
            program.write_text(f"#!{sys.executable}\nimport sys\nsys.exit('moec-bench: no kernel')\n")
            program.chmod(0o755)
            with unittest.mock.patch.object(peers, "HERE", program.parent):
                self.assertEqual(peers.ours(CELL, [8], 10), ({}, "moec-bench: no kernel"))
            report = json.dumps({"packages": [{"cells": [{"tokens": 8, "us": 3.0}]}]})
            program.write_text(f"#!{sys.executable}\nprint({report!r})\n")
            with unittest.mock.patch.object(peers, "HERE", program.parent):
                self.assertEqual(peers.ours(CELL, [8], 10)[0][8]["us"], 3.0)

    def test_without_nvml_there_is_no_clock(self):
        self.assertIsNone(peers.Clock("libno-such-library.so").mhz())


class TableTest(unittest.TestCase):
    def test_lines(self):
        both = row(90.0, line("torch", us=100.0, ours_over_theirs=0.9, clock_after_mhz=1755), line("vllm", error="no file"))
        alone = {**row(None, line("torch", us=50.0), line("vllm", error="no file"), error="no kernel"), "tokens": 2048}
        said = list(peers.lines(result(both, alone)))
        self.assertEqual(said[2].split(), ["mixtral-8x7b/bf16", "moec", "90.0", "-"])
        self.assertEqual(said[3].split(), ["torch", "100.0", "(0.90)", "50.0"])
        self.assertEqual(said[4:], ["moec, mixtral-8x7b/bf16 2048: no kernel", "vllm, mixtral-8x7b/bf16 512 and 1 more: no file",
                                    "deepgemm is missing: no such file",
                                    "1 cells beside a peer: 1 faster than all of them, ours/best from 0.90 to 0.90, median 0.90"])
        self.assertEqual(peers.clocks([both], both), ", SM at 1755 to 1980 MHz")

    def test_the_best_peer_counts(self):
        many = row(90.0, line("torch", us=100.0), line("vllm", us=80.0))
        self.assertEqual(peers.best(many)["peer"], "vllm")
        self.assertIn("1 cells beside a peer: 0 faster than all of them", list(peers.lines(result(many)))[-1])
        self.assertIsNone(peers.best(row(1.0)))
        self.assertEqual(list(peers.lines(result()))[-1], "0 cells beside a peer: 0 faster than all of them")


class FilesTest(unittest.TestCase):
    def test_what_is_kept(self):
        fused = peer_files.FUSED
        for name, kept in ((fused + "fused_moe.py", True), (fused + "experts/marlin_moe.py", False),
                           (fused + "configs/E=8,N=2048,device_name=NVIDIA_H100_80GB_HBM3.json", True),
                           (fused + "configs/E=8,N=2048,device_name=NVIDIA_H200,dtype=fp8_w8a8.json", True),
                           (fused + "configs/E=8,N=2048,device_name=NVIDIA_B200.json", False),
                           ("vllm/third_party/deep_gemm/_C.cpython-312-x86_64-linux-gnu.so", True),
                           ("vllm/third_party/deep_gemm/_C.cpython-313-x86_64-linux-gnu.so", False),
                           ("vllm/_flashmla_C.abi3.so", False), ("vllm/entrypoints/llm.py", False), (peer_files.EXTENSIONS[0], True)):
            self.assertEqual(bool(peer_files.kept(name, "312")), kept, name)

    def test_code_of_other_architectures_becomes_zeros(self):
        def entry(kind, arch, data):
            return struct.pack("<HHIQ12xI32x", kind, 0x101, 64, len(data), arch) + data

        entries = entry(2, 80, b"old!") + entry(2, 90, b"mine") + entry(1, 90, b"text")
        data = b"front" + struct.pack("<IHHQ", peer_files.FATBIN, 1, 16, len(entries)) + entries + b"back"
        got = peer_files.pruned(data, 90)
        self.assertEqual(len(got), len(data))
        self.assertEqual([word in got for word in (b"old!", b"mine", b"text", b"front", b"back")], [False, True, False, True, True])

    def test_unpack_and_find(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            with zipfile.ZipFile(root / "vllm-0.26.0-any.whl", "w") as wheel:
                wheel.writestr(peer_files.FUSED + "fused_moe.py", "")
                wheel.writestr("vllm/__init__.py", "")
                wheel.writestr("vllm-0.26.0.dist-info/METADATA", "")
            peer_files.unpack(root / "vllm-0.26.0-any.whl", root / "tree", 90, "312")
            self.assertFalse((root / "tree/vllm/__init__.py").exists())
            self.assertEqual(peer_files.version(root / "tree"), "0.26.0")
            with unittest.mock.patch.dict(os.environ, {"MOEC_PEERS": str(root / "tree")}):
                self.assertEqual(peer_files.find(), ((root / "tree").resolve(), ""))
            with unittest.mock.patch.dict(os.environ, {"MOEC_PEERS": folder}):
                self.assertEqual(peer_files.find()[1], f"MOEC_PEERS is {folder}, which has no vllm; peer_files.py makes it")
                with self.assertRaisesRegex(ImportError, "has no vllm"):
                    peer_files.prepare()

    def test_nothing_is_installed(self):
        with unittest.mock.patch.dict(os.environ), unittest.mock.patch.object(peer_files.importlib.util, "find_spec", lambda _: None):
            os.environ.pop("MOEC_PEERS", None)
            self.assertEqual(peer_files.find()[1], "vLLM is not installed, and MOEC_PEERS does not say where its files are")

    def test_another_version_is_refused(self):
        done = subprocess.run([sys.executable, str(BENCH / "peers" / "peer_files.py"), "vllm-0.9.0-any.whl", "tree"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected a wheel of vLLM 0.26.0, got vllm-0.9.0-any.whl", done.stderr)


if __name__ == "__main__":
    unittest.main()
