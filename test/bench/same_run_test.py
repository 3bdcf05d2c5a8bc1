#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""README.md's table, first sentence and picture, and the tables of the runs' pages, are those of their rows."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "run"))

import draw_speed  # noqa: E402
import same_run  # noqa: E402

# README.md has each cell of the newest run.
RUNS = [ROOT / "bench" / "results" / name for name in ("2026-11-28-h200-peers", "2026-11-29-h200-int4", "2026-11-29-h200-peers")]


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

    def test_the_first_sentence(self):
        ratios = [cell.ratio() for key, cell in self.cells.items() if key[3] == "uniform"]
        said = (f"{same_run.mean(ratios):.2f} of the time of the fastest other system (geometric mean of {len(ratios)} cells). It is faster in "
                f"{sum(ratio < 1 for ratio in ratios)} of them, and takes {max(ratios):.2f} of the time in the worst")
        self.assertIn(said, " ".join(self.readme.split()))

    def test_the_picture(self):
        drawn = "\n".join(draw_speed.drawn(draw_speed.merged([run.with_suffix(".csv") for run in RUNS]))) + "\n"
        self.assertEqual((ROOT / "docs" / "speed.svg").read_text(), drawn)

    def test_rows_that_count(self):
        head = "shape,scheme,tokens,routing,system,us,floor_us,error\n"
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.csv"
            path.write_text(head + "s,bf16,8,uniform,moec,30,20,0.1\ns,bf16,8,uniform,a,40,25,0.1\ns,bf16,8,uniform,b,20,8,wrong\n"
                            "s,bf16,8,uniform,c,30,12,0.1\ns,bf16,9,uniform,moec,1,1,0.1\ns,bf16,10,uniform,a,1,1,0.1\n"
                            "s,bf16,10,uniform,b,1,1,0.1\ns,bf16,11,hot:8,moec,1,1,0.1\ns,bf16,11,hot:8,a,4,1,0.1\n")
            cells = same_run.read(path)
            self.assertEqual(list(cells), [("s", "bf16", 8, "uniform"), ("s", "bf16", 11, "hot:8")])
            self.assertEqual(same_run.row_of(cells["s", "bf16", 8, "uniform"]), ["30.0", "1.50", "c", "2.50", "1.00"])
            # A cell of equal times is none in which moec is faster.
            self.assertEqual(same_run.means(cells), [("bf16", "uniform", 1, 0, 1.0, 1.0), ("bf16", "hot:8", 1, 1, 0.25, 0.25)])
            done = subprocess.run([sys.executable, same_run.__file__, path, "s,bf16,8"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.splitlines()[2:4], ["| bf16 | hot:8 | 1 | 1 | 0.25 | 0.25 |", "| bf16 | uniform | 1 | 0 | 1.00 | 1.00 |"])
        self.assertEqual(done.stdout.splitlines()[-1], "| s, bf16, 8 | 30.0 | 1.50 | c | 2.50 | 1.00 |")

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
