#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tables of README.md and of the run's page are those of its rows."""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "run"))

import same_run  # noqa: E402

# README.md has each cell of the newest run.
RUNS = [ROOT / "bench" / "results" / name for name in ("2026-11-28-h200-peers", "2026-11-29-h200-int4")]
LAYERS = {"Qwen3-30B-A3B": "qwen3-30b-a3b", "DeepSeek-V3, EP 8": "deepseek-v3-ep8", "DeepSeek-V3, TP 8": "deepseek-v3-tp8",
          "Mixtral-8x7B": "mixtral-8x7b", "gpt-oss-20b": "gpt-oss-20b", "gpt-oss-120b": "gpt-oss-120b"}
SYSTEMS = {"vllm": "vLLM", "humming": "Humming", "dg": "DeepGEMM", "alpha": "Alpha-MoE", "marlin": "Marlin"}


def rows_below(text, head):
    """The cells of the rows of the table that begins with a line."""
    lines = text.split(head, 1)[1].splitlines()[2:]
    end = next(i for i, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


class SameRun(unittest.TestCase):
    def setUp(self):
        self.runs = [same_run.read(run.with_suffix(".csv")) for run in RUNS]
        self.cells = {key: cell for run in self.runs for key, cell in run.items()}
        self.readme = (ROOT / "README.md").read_text()

    def test_cells_of_the_readme(self):
        shown = rows_below(self.readme, "| layer | scheme | tokens | us |")
        self.assertGreater(len(shown), 5)
        for layer, scheme, tokens, *rest in shown:
            layer = re.sub(r" \(worst cell\)$", "", layer)
            cell = self.cells[LAYERS[layer], scheme, int(tokens), "uniform"]
            us, floor, system, its_floor, ratio = same_run.row_of(cell)
            self.assertEqual([us, floor, SYSTEMS[system], its_floor, ratio], rest, layer)

    def test_the_worst_cell(self):
        worst = max(self.cells, key=lambda key: self.cells[key].ratio())
        self.assertIn(f"(worst cell) | {worst[1]} | {worst[2]} |", self.readme)

    @staticmethod
    def means(cells):
        return {(scheme, routing): [str(count), str(faster), f"{mean:.2f}", f"{worst:.2f}"]
                for scheme, routing, count, faster, mean, worst in same_run.means(cells)}

    def test_means(self):
        means = self.means(self.cells)
        for scheme, *rest in rows_below(self.readme, "| scheme, uniform routing |"):
            self.assertEqual(means[scheme, "uniform"], rest, scheme)
        for run, cells in zip(RUNS, self.runs):
            page = rows_below(run.with_suffix(".md").read_text(), "| scheme | routing | cells |")
            self.assertEqual({(scheme, routing): rest for scheme, routing, *rest in page}, self.means(cells))


if __name__ == "__main__":
    unittest.main()
