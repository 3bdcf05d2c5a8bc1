#!/usr/bin/env python3
# Part of moec, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""moec-bench counts experts, pairs, bytes and FLOPs of a layer, and moec explain knows the layer in the result. Compiles a small layer
and runs it on the host device.

  workload_test.py MOEC MOEC_BENCH"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

MOEC, MOEC_BENCH = sys.argv[1:3]
HIDDEN, INTERMEDIATE, EXPERTS = 128, 64, 8
LAYER = {"moec_layer": 1, "name": "small", "num_experts": EXPERTS, "top_k": 2, "hidden_size": HIDDEN,
         "intermediate_size": INTERMEDIATE, "in_dtype": "bf16", "routing_method": "renormalize", "quant_config": "bf16"}


class WorkloadTest(unittest.TestCase):
    def cells(self, **fields):
        """{tokens: cell} of 1, 3 and 64 tokens."""
        with tempfile.TemporaryDirectory() as folder:
            layer, package = pathlib.Path(folder) / "layer.json", pathlib.Path(folder) / "package"
            layer.write_text(json.dumps({**LAYER, **fields}))
            subprocess.run([MOEC, "compile", layer, "--arch=sm_90a", "--max-tokens=64", "--no-cubin", "-o", package],
                           check=True, capture_output=True)
            done = subprocess.run([MOEC_BENCH, package, "--device=host", "--tokens=1,3,64", "--passes=0", "--json"],
                                  check=False, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            result, page = pathlib.Path(folder) / "bench.json", pathlib.Path(folder) / "page.html"
            result.write_text(done.stdout)
            drawn = subprocess.run([MOEC, "explain", layer, "--arch=sm_90a", "--gpu=h100_sxm", "--max-tokens=64", f"--html={page}",
                                    f"--bench={result}"], check=False, capture_output=True, text=True)
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            self.assertIn("Not shown: times of host", page.read_text(encoding="utf-8"))
        return {cell["tokens"]: cell for cell in json.loads(done.stdout)["packages"][0]["cells"]}

    def check(self, cells, pairs, first, most):
        for tokens, cell in cells.items():
            self.assertEqual(cell["local_pairs"], tokens * pairs)
            self.assertEqual(cell["flops"], 6 * tokens * pairs * HIDDEN * INTERMEDIATE)
            moved = cell["touched_experts"] * 6 * HIDDEN * INTERMEDIATE + 2 * tokens * (2 * HIDDEN + EXPERTS)
            self.assertEqual(cell["bytes"], moved)
        self.assertEqual((cells[1]["touched_experts"], cells[64]["touched_experts"]), (first, most))

    def test_routed_experts(self):
        self.check(self.cells(), pairs=2, first=2, most=EXPERTS)

    def test_shared_experts_count_for_every_token(self):
        self.check(self.cells(n_shared_experts=2), pairs=4, first=4, most=EXPERTS + 2)

    def test_ranks_count_their_own_experts(self):
        # Both ranks see the same tokens, so each pair belongs to exactly one of them.
        ranks = [self.cells(moe_parallel_config={"dp_size": 2, "dp_rank": rank, "use_ep": True}) for rank in range(2)]
        for tokens in ranks[0]:
            self.assertEqual(sum(cells[tokens]["local_pairs"] for cells in ranks), 2 * tokens)
        self.assertEqual(sum(cells[1]["touched_experts"] for cells in ranks), 2)
        self.assertEqual([cells[64]["touched_experts"] for cells in ranks], [EXPERTS / 2] * 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
