#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plots of the first result: what is in them, that they are the same each time, and layers that nobody else timed.
Needs matplotlib; skipped by name where there is none."""

import copy
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH / "run"))
import benchlib  # noqa: E402
import plot  # noqa: E402

RESULT = pathlib.Path(__file__).resolve().parent / "Inputs" / "result.json"


class PlotTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        self.result = benchlib.read(RESULT)

    def tearDown(self):
        self.folder.cleanup()

    def test_one_picture_for_each_shape_and_scheme(self):
        paths = plot.plot(self.result, self.root)
        self.assertEqual([path.name for path in paths], ["qwen3-30b-a3b-bf16.svg", "mixtral-8x7b-bf16.svg"])
        for path in paths:
            text = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
            for word in ("moec", "best of today's systems", "floor", "target", "tokens", "time of one layer", "time / floor",
                         "8192", "H100"):
                self.assertIn(word, text, path.name)

    def test_the_same_result_gives_the_same_bytes(self):
        first = [path.read_bytes() for path in plot.plot(self.result, self.root / "a")]
        again = [path.read_bytes() for path in plot.plot(self.result, self.root / "b")]
        self.assertEqual(first, again)

    def test_other_layers_and_other_gpus_have_our_lines_alone(self):
        other = copy.deepcopy(self.result)
        del other["bench"]["packages"][1]
        other["bench"]["packages"][0]["layer"]["hidden_size"] = 1024
        path, = plot.plot(other, self.root)
        self.assertEqual(path.name, "qwen3_30b_a3b-bf16.svg")
        self.assertNotIn("best of today", path.read_text(encoding="utf-8"))
        self.result["bench"]["device"] = "NVIDIA GH200 480GB"
        for path in plot.plot(self.result, self.root):
            self.assertNotIn("best of today", path.read_text(encoding="utf-8"))

    def test_cells_without_a_floor_are_no_picture(self):
        for package in self.result["bench"]["packages"]:
            package["cells"][0]["floor_us"] = 0
        self.assertEqual(plot.plot(self.result, self.root), [])

    def test_png(self):
        path = plot.plot(self.result, self.root, "png")[0]
        self.assertEqual(path.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    if plot.matplotlib is None:
        print("SKIPPED: matplotlib is not installed (Debian: python3-matplotlib)")
        sys.exit(77)
    unittest.main()
